import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { createAdmission, createTurnQueue, createPacer, takeBodyRoom } from '../../api/http/admission.ts'
import { AGENT_BODY_SHARE, FREE_BODY_BYTES, MAX_HELD_BODY_BYTES } from '../../shared/foundation/limits.ts'

const later = () => new Promise((resolve) => setImmediate(resolve))

describe('a lane of heavy requests', () => {
  // holds: limits.overload.detail, limits.shares_of_an_api_process.detail
  it('serves callers in turn, however many requests one of them has waiting', async () => {
    const lane = createTurnQueue(1, 1_000)
    const order: string[] = []
    const ask = (caller: string, name: string) =>
      lane(caller, async () => (await later(), void order.push(name)))
    const asked = [
      ...Array.from({ length: 50 }, (_, index) => ask('loud', `loud ${index}`)),
      ask('quiet', 'quiet'),
      ask('other', 'other'),
    ]
    await Promise.all(asked)
    expect(order.indexOf('quiet')).toBeLessThan(4)
    expect(order.indexOf('other')).toBeLessThan(5)
    expect(order.filter((name) => name.startsWith('loud'))).toEqual(
      Array.from({ length: 50 }, (_, index) => `loud ${index}`),
    )
  })

  it('begins nothing whose request is over, and refuses a caller who has a share of all that may wait', async () => {
    const lane = createTurnQueue(1, 80)
    let finish = (): void => undefined
    const first = lane('a', () => new Promise<void>((resolve) => (finish = resolve)))
    const life = new AbortController()
    let began = false
    const second = lane('b', async () => void (began = await Promise.resolve(true)), life.signal)
    life.abort(new Error('left'))
    await expect(second).rejects.toThrow('left')
    const waiting = Array.from({ length: 10 }, () => lane('c', () => Promise.resolve()))
    await expect(lane('c', () => Promise.resolve())).rejects.toThrow('as much under way')
    const other = lane('d', () => Promise.resolve('served'))
    finish()
    await Promise.all([first, ...waiting])
    expect(await other).toBe('served')
    expect(began).toBe(false)
  })

  it('gives the turn of a request that hangs to the next as soon as its time is over', async () => {
    const lane = createTurnQueue(1, 80)
    const life = new AbortController()
    const hanging = lane('a', () => new Promise<void>(() => undefined), life.signal)
    const next = lane('b', () => Promise.resolve('served'))
    life.abort(new Error('over'))
    await expect(hanging).rejects.toThrow('over')
    await expect(next).resolves.toBe('served')
  })

  // holds: limits.shares_of_an_api_process.detail
  it('is one of two: whoever shows no token waits for others who show none', async () => {
    const admission = createAdmission()
    const never = new Promise<void>(() => undefined)
    for (let at = 0; at < 4; at++) void admission.runHeavy({} as Socket, () => never)
    await expect(admission.runHeavy('agt_1', () => Promise.resolve('served'))).resolves.toBe('served')
  })
})

describe('light writes', () => {
  it('begin in turns over callers, however many requests one of them sends at once', async () => {
    const turn = createPacer({ perPass: 64, perCaller: 4 }, 1_000)
    const order: string[] = []
    const ask = async (caller: string) => (await turn(caller), void order.push(caller))
    const asked = [
      ...Array.from({ length: 100 }, () => ask('loud')),
      ask('quiet'),
      ask('quiet'),
      ask('other'),
    ]
    await Promise.all(asked)
    // The first four began before anybody else had come.
    expect(order.lastIndexOf('quiet')).toBeLessThan(10)
    expect(order.indexOf('other')).toBeLessThan(8)
    expect(order).toHaveLength(103)
  })

  // holds: limits.overload.detail, limits.shares_of_an_api_process.detail
  it('are begun a few in each pass of the event loop, so that all else goes on between', async () => {
    const turn = createPacer({ perPass: 4, perCaller: 4 }, 1_000)
    let begun = 0
    const asked = Array.from({ length: 40 }, async () => (await turn('one'), begun++))
    const seen: number[] = []
    while (begun < 40) {
      const before = begun
      await later()
      seen.push(begun - before)
    }
    await Promise.all(asked)
    expect(Math.max(...seen)).toBeLessThanOrEqual(8)
  })

  it('of many callers with one request each begin at once', async () => {
    const turn = createPacer({ perPass: 64, perCaller: 1 }, 1_000)
    let begun = 0
    const asked = Array.from({ length: 64 }, async (_, index) => (await turn(`agt_${index}`), begun++))
    await Promise.resolve()
    expect(begun).toBe(64)
    await Promise.all(asked)
  })

  // holds: limits.overload.detail, limits.shares_of_an_api_process.detail
  it('of all who show no token take one turn together: an agent begins at once beside a flood of them', async () => {
    const admission = createAdmission()
    let begun = 0
    const flood = Array.from(
      { length: 200 },
      async () => (await admission.waitForTurn({} as Socket), begun++),
    )
    await admission.waitForTurn('agt_1')
    expect(begun).toBeLessThan(10)
    await Promise.all(flood)
  })

  it('whose request is over are not begun, and one caller has a share of all that may wait', async () => {
    const turn = createPacer({ perPass: 64, perCaller: 1 }, 80)
    const life = new AbortController()
    const first = turn('c')
    const left = turn('c', life.signal)
    life.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    const waiting = Array.from({ length: 10 }, () => turn('c'))
    await expect(turn('c')).rejects.toThrow('as much under way')
    await expect(turn('d')).resolves.toBeUndefined()
    await Promise.all([first, ...waiting])
  })
})

describe('the room for bodies', () => {
  // holds: limits.shares_of_an_api_process
  it('is given to one agent up to its share, and the rest is left for others', () => {
    const share = MAX_HELD_BODY_BYTES.token / AGENT_BODY_SHARE
    const bodies = Array.from({ length: 200 }, () => takeBodyRoom('agt_loud'))
    const taken = bodies.filter((room) => room.add(512 * 1024)).length
    expect(taken * (512 * 1024 - FREE_BODY_BYTES)).toBeLessThanOrEqual(share)
    expect(taken).toBeGreaterThanOrEqual(8)
    const other = takeBodyRoom('agt_quiet')
    expect(other.add(512 * 1024)).toBe(true)
    for (const room of [...bodies, other]) room.release()
    expect(takeBodyRoom('agt_loud').add(512 * 1024)).toBe(true)
  })
})
