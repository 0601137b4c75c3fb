import { describe, expect, it } from 'vitest'
import { MAX_LIGHT_COST } from '../../shared/foundation/limits.ts'
import { costOf, createMeter, readMetered } from '../../shared/foundation/meter.ts'

const LONGEST = 17

/** A list of records with texts of so many KiB, and a meter that notes each read and each turn taken. */
function listOf(count: number, kib: number) {
  const records = Array.from({ length: count }, (_, at) => ({ at, text: 'x'.repeat(kib * 1024) }))
  const seen: (number | 'turn')[] = []
  const meter = createMeter(() => Promise.resolve(void seen.push('turn')))
  const read = async (limit: number) =>
    readMetered<(typeof records)[number]>(meter, limit, LONGEST, (size, after) => {
      seen.push(size)
      const from = (after?.at ?? -1) + 1
      return Promise.resolve(records.slice(from, from + size))
    })
  return { records, seen, read }
}

describe('a metered list', () => {
  it('of few records takes one read and no turn, however long they are and whatever the limit', async () => {
    const { records, seen, read } = listOf(20, 16)
    expect(await read(200)).toEqual(records)
    expect(seen).toEqual([Math.floor(MAX_LIGHT_COST / LONGEST)])
  })

  it('of many short records takes no turn', async () => {
    const { records, seen, read } = listOf(300, 0.5)
    expect(await read(50)).toEqual(records.slice(0, 50))
    expect(await read(50)).toEqual(records.slice(0, 50))
    expect(seen).not.toContain('turn')
  })

  it('of many long records takes one turn before it reads more than a light request may, and then the rest', async () => {
    const { records, seen, read } = listOf(300, 16)
    expect(await read(200)).toEqual(records.slice(0, 200))
    expect(seen).toEqual([29, 'turn', 171])
  })

  it('never reads more without a turn than would be light if each record were the longest', async () => {
    for (const kib of [0, 0.1, 1, 2, 5, 8, 16]) {
      const { seen, read } = listOf(400, kib)
      await read(200)
      let left = MAX_LIGHT_COST
      for (const step of seen) {
        if (step === 'turn') break
        expect(step * LONGEST).toBeLessThanOrEqual(left)
        left -= step * (1 + kib)
      }
      // Texts of a usual length.
      if (kib < 1) expect(seen).not.toContain('turn')
      expect(seen.length).toBeLessThan(10)
    }
  })

  it('counts a document as 1, and a KiB of its texts in UTF-8 as 1', () => {
    expect(costOf([{ a: 'é'.repeat(512), b: [1, null] }, { c: { d: 'x'.repeat(512) } }])).toBe(3.5)
  })
})
