import { describe, expect, it, vi } from 'vitest'
import { change } from '../../shared/platform/change.ts'
import { Overtaken } from '../../shared/platform/database.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { runInScope } from '../../shared/platform/scope.ts'

/** A stored number that only who knows its version can replace; `others` add to it before each such write. */
function openAccount(others = 0) {
  const stored = { version: 1, sum: 0 }
  let left = others
  return {
    stored,
    read: async () => ({ ...stored }),
    async store(sum: number, known: typeof stored): Promise<string> {
      if (left-- > 0) Object.assign(stored, { version: stored.version + 1, sum: stored.sum + 10 })
      if (known.version !== stored.version) throw new Overtaken('the account has changed')
      Object.assign(stored, { version: stored.version + 1, sum })
      return `stored ${sum}`
    },
  }
}
const never = () => 0

describe('a change', () => {
  it('stores what was decided by what was read, and gives what the store says', async () => {
    const { read, store, stored } = openAccount()
    const outcome = await change({ now: never, read, decide: ({ sum }) => sum + 1, store })
    expect([outcome, stored]).toEqual(['stored 1', { version: 2, sum: 1 }])
  })

  it('is decided anew, by what is stored and the time then, each time that another was faster', async () => {
    const { read, store, stored } = openAccount(2)
    let nowMs = 100
    const decided: [number, number][] = []
    const decide = ({ sum }: { sum: number }, atMs: number): number => {
      decided.push([sum, atMs])
      return sum + 1
    }
    await change({ now: () => nowMs++, read, decide, store })
    expect([decided, stored.sum]).toEqual([
      [
        [0, 100],
        [10, 101],
        [20, 102],
      ],
      21,
    ])
  })

  it('begins again if the reads themselves contradict each other', async () => {
    const { read, store } = openAccount()
    let reads = 0
    const readTogether = async () => {
      if (++reads === 1) throw new Overtaken('its parts are of two versions')
      return read()
    }
    await expect(change({ now: never, read: readTogether, decide: () => 5, store })).resolves.toBe('stored 5')
    expect(reads).toBe(2)
  })

  it('that the decision refuses stores nothing', async () => {
    const { read, store, stored } = openAccount()
    const refusal = new Refusal('wrong_state', 'No.')
    const decide = (): number => {
      throw refusal
    }
    await expect(change({ now: never, read, decide, store })).rejects.toBe(refusal)
    expect(stored).toEqual({ version: 1, sum: 0 })
  })

  it('is not tried again after any other error, when it may have been stored', async () => {
    const { read } = openAccount()
    let writes = 0
    const store = async () => {
      writes++
      throw new Error('the connection is gone')
    }
    await expect(change({ now: never, read, decide: () => 1, store })).rejects.toThrow('is gone')
    expect(writes).toBe(1)
  })

  it('goes on while the database is so slow that each attempt takes seconds', async () => {
    const { read, store } = openAccount(8)
    let nowMs = 0
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const slowly = async (sum: number, known: Awaited<ReturnType<typeof read>>) => {
      nowMs += 2_000
      return store(sum, known)
    }
    const changing = change({ now: never, read, decide: () => 5, store: slowly })
    await expect(changing.finally(() => clock.mockRestore())).resolves.toBe('stored 5')
  })

  it('is not tried again for a request that is over', async () => {
    const { read, store, stored } = openAccount(Number.POSITIVE_INFINITY)
    const life = new AbortController()
    const leave = (): number => {
      life.abort(new Error('left'))
      return 1
    }
    const changing = runInScope({}, () => change({ now: never, read, decide: leave, store }), life.signal)
    await expect(changing).rejects.toThrow('left')
    expect(stored.sum).toBe(10)
  })

  it('that others overtake for as long as it may be tried is refused as unavailable', async () => {
    const { read, store, stored } = openAccount(Number.POSITIVE_INFINITY)
    const parts = { now: never, read, decide: () => 1, store, patienceMs: 0 }
    await expect(change(parts)).rejects.toMatchObject({ code: 'unavailable' })
    expect(stored.sum).toBe(10)
  })
})
