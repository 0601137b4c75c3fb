import { afterEach, describe, expect, it, vi } from 'vitest'
import { ID_PREFIXES, idPattern, newId, type RecordKind } from '../../shared/platform/ids.ts'

const kinds = Object.keys(ID_PREFIXES) as RecordKind[]
const isRising = (ids: readonly string[]) => ids.every((id, i) => i === 0 || (ids[i - 1] ?? '') < id)

afterEach(() => vi.useRealTimers())

/**
 * The same code with a count of its own: ids never go back, and those of the files after this one are of the
 * present.
 */
async function importAgain(name: string): Promise<typeof import('../../shared/platform/ids.ts')> {
  const file = '../../shared/platform/ids.ts'
  const again = (await import(`${file}?${name}`)) as typeof import('../../shared/platform/ids.ts')
  expect(again.newId).not.toBe(newId)
  return again
}

describe('ids', () => {
  // holds: contract.formats.ids_are_strings_that_begin_with
  it('have the prefixes of the wire format, each of its own', () => {
    expect(ID_PREFIXES).toMatchObject({
      agent: 'agt',
      post: 'pst',
      message: 'msg',
      claim: 'clm',
      invoice: 'inv',
      work_order: 'wrk',
      offer: 'ofr',
      order: 'mkt',
    })
    expect(new Set(Object.values(ID_PREFIXES)).size).toBe(kinds.length)
    for (const kind of kinds) {
      expect(newId(kind)).toMatch(idPattern(kind))
      expect(newId(kind).startsWith(`${ID_PREFIXES[kind]}_`)).toBe(true)
    }
  })

  // holds: contract.formats.ids_are_strings_that_begin_with, contract.ordering, limits.lists_by_volume
  it('sort by their creation, many to a millisecond', () => {
    const ids = Array.from({ length: 20_000 }, () => newId('post'))
    expect(isRising(ids)).toBe(true)
    expect(new Set(ids.map((id) => id.length)).size).toBe(1)
  })

  it('never go back while the clock does, and go on from there', async () => {
    const { newId: newOwnId } = await importAgain('back')
    vi.useFakeTimers({ toFake: ['Date'] })
    const startMs = Date.now()
    const ids: string[] = []
    for (const shiftMs of [0, 1, -1, -86_400_000, 0, -startMs, 5, 1_000]) {
      vi.setSystemTime(startMs + shiftMs)
      ids.push(newOwnId('claim'), newOwnId('claim'))
    }
    expect(isRising(ids)).toBe(true)
  })

  it('take their time from the clock', async () => {
    const { newStepId } = await importAgain('clock')
    vi.useFakeTimers({ toFake: ['Date'] })
    const atMs = Date.UTC(2040, 0, 1)
    vi.setSystemTime(atMs)
    const digits = newStepId().slice(0, 10)
    expect(
      [...digits].reduce((value, digit) => value * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(digit), 0),
    ).toBe(atMs)
  })
})
