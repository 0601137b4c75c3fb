import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { takeBodyRoom } from '../../api/http/body.ts'
import { createGate } from '../../api/gate/gate.ts'
import type { Visitor } from '../../api/gate/turns.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  ACCEPT_BUDGET_MS,
  AGENT_BODY_SHARE,
  FREE_BODY_BYTES,
  MAX_HELD_BODY_BYTES,
  MAX_LIGHT_AT_ONCE,
  MAX_WEIGHT_AT_ONCE,
  PASS_BUDGET_MS,
} from '../../shared/platform/limits.ts'

/** All that agents may have under way. */
const WHOLE = MAX_WEIGHT_AT_ONCE.agents.all
const later = () => new Promise((resolve) => setImmediate(resolve))
const agent = (caller: string, signal?: AbortSignal): Visitor => ({ line: 'agents', caller, signal })
/** Somebody who has shown no token, over a connection of its own. */
const stranger = (): Visitor => ({ line: 'open', caller: {} as Socket })
const nothing = () => Promise.resolve()
function keepBusy(ms: number): void {
  const endMs = performance.now() + ms
  while (performance.now() < endMs);
}
/** A gate of which the callers are known in the order of their turns, each of which takes a while. */
function recordTurns(): { ask: (caller: string, ms: number) => Promise<void>; order: string[] } {
  const gate = createGate()
  const order: string[] = []
  const ask = (caller: string, ms: number) =>
    gate.run(agent(caller), 'reads', async () => {
      order.push(caller)
      keepBusy(ms)
    })
  return { ask, order }
}
/** Work that lasts until `end` is called. */
function lasting(): { work: () => Promise<void>; end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { work: () => promise, end: resolve }
}

describe('the turns of an API process', () => {
  it.each(['reads', 'writes'] as const)(
    'are given for a few milliseconds in each pass of the event loop, for %s too, so that all else goes on between',
    async (kind) => {
      const gate = createGate()
      let begun = 0
      const asked = Array.from({ length: 10 }, () =>
        gate.run(stranger(), kind, async () => {
          begun++
          keepBusy(PASS_BUDGET_MS)
        }),
      )
      while (begun < 10) {
        const before = begun
        await later()
        // One of the pass that ends, and one of the next.
        expect(begun - before).toBeLessThanOrEqual(2)
      }
      await Promise.all(asked)
    },
  )

  it('are taken again by all that the database has answered at once', async () => {
    const gate = createGate()
    const { work: askDatabase, end: answer } = lasting()
    let gone = 0
    const asked = Array.from({ length: 10 }, async () => {
      const visitor = stranger()
      await gate.run(visitor, 'reads', async () => {
        await askDatabase()
        await gate.goOn(visitor)
        gone++
        keepBusy(PASS_BUDGET_MS)
      })
    })
    for (let pass = 0; pass < 20; pass++) await later()
    answer()
    while (gone < 10) {
      const before = gone
      await later()
      expect(gone - before).toBeLessThanOrEqual(2)
    }
    await Promise.all(asked)
  })

  it('last until the work waits for something', async () => {
    const gate = createGate()
    const order: string[] = []
    const visitor = agent('one')
    await gate.run(visitor, 'reads', async () => {
      const other = gate.run(agent('other'), 'reads', async () => void order.push('other'))
      await gate.goOn(visitor)
      order.push('the same turn')
      await gate.next(visitor)
      order.push('the next turn')
      await other
    })
    expect(order).toEqual(['the same turn', 'other', 'the next turn'])
  })

  it('are given to others first after a turn that took long', async () => {
    const { ask, order } = recordTurns()
    await Promise.all([
      ask('costly', 300),
      ask('costly', 300),
      ...Array.from({ length: 6 }, () => ask('cheap', 1)),
    ])
    expect(order).toEqual(['costly', ...Array.from({ length: 6 }, () => 'cheap'), 'costly'])
  })

  it('are not held against a caller who had them while nobody else asked', async () => {
    const { ask, order } = recordTurns()
    await ask('early', 300)
    await later()
    await Promise.all([...Array.from({ length: 6 }, () => ask('late', 1)), ask('early', 1)])
    expect(order.lastIndexOf('early')).toBeLessThan(4)
  })

  it('are given to nobody while connections are being accepted, but not for ever', async () => {
    const gate = createGate()
    const begun: number[] = []
    const ended: number[] = []
    const ask = () =>
      gate.run(stranger(), 'reads', async () => {
        begun.push(performance.now())
        keepBusy(PASS_BUDGET_MS)
        ended.push(performance.now())
      })
    const asked = [ask(), ask()]
    while (begun.length < 2) {
      gate.noteConnection()
      await later()
    }
    expect((begun[1] ?? 0) - (ended[0] ?? 0)).toBeGreaterThanOrEqual(ACCEPT_BUDGET_MS)
    await Promise.all(asked)
  })

  it('go over the callers, however many requests one of them has waiting', async () => {
    const gate = createGate()
    const order: string[] = []
    const ask = (caller: string) => gate.run(agent(caller), 'reads', async () => void order.push(caller))
    const asked = [
      ...Array.from({ length: 100 }, () => ask('loud')),
      ask('quiet'),
      ask('quiet'),
      ask('other'),
    ]
    await Promise.all(asked)
    // Some began before anybody else had come.
    expect(order.indexOf('quiet')).toBeLessThan(20)
    expect(order.indexOf('other')).toBeLessThan(16)
    expect(order).toHaveLength(103)
  })

  it('come first to whoever asks now and then, however many ask without a pause', async () => {
    const gate = createGate()
    let isOver = false
    let turns = 0
    const flood = Array.from({ length: 200 }, async () => {
      const visitor = stranger()
      while (!isOver) await gate.run(visitor, 'reads', () => Promise.resolve(turns++))
    })
    // Until each of the flood has had a turn.
    while (turns < 2_000) await later()
    const before = turns
    await gate.run(stranger(), 'reads', nothing)
    expect(turns - before).toBeLessThan(10)
    isOver = true
    await Promise.all(flood)
  })

  it('of agents, of registrations that show their work, and of all others are apart', async () => {
    const gate = createGate()
    let begun = 0
    const flood = Array.from({ length: 200 }, () =>
      gate.run(stranger(), 'writes', () => Promise.resolve(begun++)),
    )
    await gate.run(agent('agt_1'), 'writes', nothing)
    await gate.run({ ...stranger(), line: 'proofs' }, 'writes', nothing)
    expect(begun).toBeLessThan(10)
    await Promise.all(flood)
  })

  it('are not given to what is over, and what has left makes nobody wait', async () => {
    const gate = createGate()
    const life = new AbortController()
    const flood = Array.from({ length: 20 }, () => gate.run(stranger(), 'reads', nothing))
    let began = false
    const leaving: Visitor = { ...stranger(), signal: life.signal }
    const left = gate.run(leaving, 'reads', async () => void (began = true))
    life.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    await expect(gate.run(leaving, 'reads', nothing)).rejects.toThrow('left')
    await Promise.all(flood)
    expect(began).toBe(false)
  })

  it('for the next part of an answer come before the next request of the same caller', async () => {
    const gate = createGate()
    const order: string[] = []
    const asked = Array.from({ length: 20 }, (_, at) =>
      gate.run(agent('one'), 'reads', async () => void order.push(`request ${at}`)),
    )
    await gate.next(agent('one'))
    expect(order.length).toBeLessThan(20)
    await Promise.all(asked)
  })
})

describe('what weighs something', () => {
  it('is under way up to a bound, of one agent up to a smaller one, and others do not wait for that agent', async () => {
    const gate = createGate()
    const { work, end } = lasting()
    const { all, ofCaller } = MAX_WEIGHT_AT_ONCE.agents
    const begun: string[] = []
    const ask = (caller: string) =>
      gate.runWithRoom(agent(caller), ofCaller / 2, () => {
        begun.push(caller)
        return work()
      })
    const asked = Array.from({ length: 5 }, () => ask('loud'))
    const count = (2 * all) / ofCaller
    const others = Array.from({ length: 2 * count }, (_, at) => ask(`agent ${at}`))
    while (begun.length < count) await later()
    for (let pass = 0; pass < 20; pass++) await later()
    expect(begun.filter((caller) => caller === 'loud')).toHaveLength(2)
    expect(begun).toHaveLength(count)
    end()
    await Promise.all([...asked, ...others])
  })

  it('waits in turns over callers, and what weighs nothing goes on meanwhile', async () => {
    const gate = createGate()
    const first = lasting()
    const order: string[] = []
    const { all, ofCaller } = MAX_WEIGHT_AT_ONCE.agents
    const under = Array.from({ length: all / ofCaller }, (_, at) =>
      gate.runWithRoom(agent(`agent ${at}`), ofCaller, first.work),
    )
    const ask = (name: string) => gate.runWithRoom(agent(name), ofCaller, async () => void order.push(name))
    const asked = ['one', 'one', 'one', 'two'].map(ask)
    await gate.run(agent('one'), 'reads', nothing)
    await gate.run(agent('three'), 'reads', nothing)
    expect(order).toEqual([])
    first.end()
    await Promise.all([...under, ...asked])
    expect(order.indexOf('two')).toBeLessThan(2)
  })

  it('begins although it weighs more than the bound, when nothing else does, and is not overtaken for ever', async () => {
    const gate = createGate()
    const order: string[] = []
    const first = lasting()
    const small = (name: string) =>
      gate.runWithRoom(agent(name), 1, async () => (await later(), void order.push(name)))
    const begun = gate.runWithRoom(agent('first'), 1, first.work)
    const heavy = gate.runWithRoom(agent('heavy'), 2 * WHOLE, async () => void order.push('heavy'))
    const others = Array.from({ length: 50 }, (_, at) => small(`small ${at}`))
    await later()
    first.end()
    await Promise.all([begun, heavy, ...others])
    expect(order.indexOf('heavy')).toBeLessThan(5)
  })

  it('gives its room to others when it fails, and when it hangs until its time is over', async () => {
    const gate = createGate()
    const life = new AbortController()
    const failing = gate.runWithRoom(agent('a'), WHOLE, () => Promise.reject(new Error('a defect')))
    await expect(failing).rejects.toThrow('a defect')
    const hanging = gate.runWithRoom(agent('a', life.signal), WHOLE, lasting().work)
    const next = gate.runWithRoom(agent('b'), WHOLE, () => Promise.resolve('served'))
    await later()
    life.abort(new Error('over'))
    await expect(hanging).rejects.toThrow('over')
    await expect(next).resolves.toBe('served')
  })
})

describe('what asks the database', () => {
  it('is under way up to a bound, of one agent up to a smaller one, and others do not wait for that agent', async () => {
    const gate = createGate()
    const { all, ofCaller } = MAX_LIGHT_AT_ONCE.agents
    const { work, end } = lasting()
    const begun: string[] = []
    const ask = (caller: string) =>
      gate.runWithRoom(agent(caller), 'light', () => {
        begun.push(caller)
        return work()
      })
    const asked = Array.from({ length: 2 * all }, () => ask('loud'))
    const others = Array.from({ length: 2 * all }, (_, at) => ask(`agent ${at}`))
    while (begun.length < all) await later()
    for (let pass = 0; pass < 20; pass++) await later()
    expect(begun.filter((caller) => caller === 'loud')).toHaveLength(ofCaller)
    expect(begun).toHaveLength(all)
    end()
    await Promise.all([...asked, ...others])
    expect(begun).toHaveLength(4 * all)
  })
})

describe('work that cannot be divided', () => {
  it('is followed by a longer rest of such work, in which all else goes on', async () => {
    const gate = createGate()
    const busy = () => {
      keepBusy(200)
      return performance.now()
    }
    const ended = await gate.runWhole(agent('one'), busy)
    let isOver = false
    const next = gate.runWhole(agent('one'), () => performance.now()).finally(() => (isOver = true))
    for (let at = 0; at < 10; at++) await gate.run(agent('two'), 'writes', nothing)
    await gate.run(agent('one'), 'writes', nothing)
    expect(isOver).toBe(false)
    expect((await next) - ended).toBeGreaterThan(400)
  })
})

describe('the room of an API process', () => {
  it('is refused to a request once as many of its kind are under way, and given again', async () => {
    const gate = createGate({ reads: 2, writes: 1 })
    const { work, end } = lasting()
    const first = gate.run(agent('one'), 'writes', work)
    await expect(gate.run(agent('two'), 'writes', nothing)).rejects.toThrow(Refusal)
    // A flood of writes leaves reads served.
    await expect(gate.run(agent('two'), 'reads', () => Promise.resolve('read'))).resolves.toBe('read')
    end()
    await first
    const fail = () => Promise.reject(new Error('a defect'))
    await expect(gate.run(agent('two'), 'writes', fail)).rejects.toThrow('a defect')
    await expect(gate.run(agent('two'), 'writes', () => Promise.resolve('written'))).resolves.toBe('written')
  })
})

describe('the room for bodies', () => {
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
