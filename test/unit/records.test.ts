import { describe, expect, it } from 'vitest'
import { pagesOf } from '../../shared/platform/records.ts'

describe('pages of records', () => {
  /** Reads `count` records in pages of two. @returns the ids that were yielded, and how many reads it took */
  async function readAll(count: number, size?: number) {
    const stored = ['a', 'b', 'c', 'd', 'e'].slice(0, count).map((_id) => ({ _id }))
    const ids: string[] = []
    let reads = 0
    const read = async (after: string) => {
      reads++
      return stored.filter(({ _id }) => _id > after).slice(0, 2)
    }
    for await (const page of pagesOf(read, size)) ids.push(...page.map(({ _id }) => _id))
    return { ids: ids.join(''), reads }
  }

  it('end with the first that is not full', async () => {
    expect(await readAll(0, 2)).toEqual({ ids: '', reads: 1 })
    expect(await readAll(1, 2)).toEqual({ ids: 'a', reads: 1 })
    expect(await readAll(2, 2)).toEqual({ ids: 'ab', reads: 2 })
    expect(await readAll(5, 2)).toEqual({ ids: 'abcde', reads: 3 })
  })

  it('end with an empty one if it is not said how many make a full one', async () => {
    expect(await readAll(0)).toEqual({ ids: '', reads: 1 })
    expect(await readAll(1)).toEqual({ ids: 'a', reads: 2 })
    expect(await readAll(5)).toEqual({ ids: 'abcde', reads: 4 })
  })
})
