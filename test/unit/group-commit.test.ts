import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createGroups,
  createBatchRead,
  createSharedReads,
  performEachAlone,
  performTogether,
  type Outcomes,
} from '../../shared/platform/group-commit.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { REQUEST_TIMEOUT_MS } from '../../shared/platform/limits.ts'
import { currentSignal, runInScope } from '../../shared/platform/scope.ts'

const done = <T>(value: T): PromiseSettledResult<T> => ({ status: 'fulfilled', value })

// Time stands still unless a test lets it pass: a group that is slow is given up, and so would one be on a
// slow machine.
beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => vi.useRealTimers())

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

/** The first of what `look` gives, turn after turn of the event loop. */
async function whenThere<T>(what: string, look: () => T | undefined): Promise<T> {
  for (let turns = 0; turns < 1_000; turns++) {
    const found = look()
    if (found !== undefined) return found
    await nextTurn()
  }
  throw new Error(`${what} did not come`)
}

/** Groups that end when the test says so. */
function openGroups(options: Parameters<typeof createGroups>[1] = {}) {
  const begun: { items: string[]; end(outcomes?: Outcomes<string>): void; fail(error: Error): void }[] = []
  const add = createGroups<string, string>(
    (items) =>
      new Promise((resolve, reject) => {
        begun.push({
          items,
          end: (outcomes = items.map((item) => done(`${item}!`))) => resolve(outcomes),
          fail: reject,
        })
      }),
    options,
  )
  const group = (index: number) => whenThere(`group ${index}`, () => begun[index])
  return { begun, add, group }
}

describe('items that arrive together', () => {
  it('are performed together, each answered with its own outcome', async () => {
    const { add, group, begun } = openGroups()
    const answers = Promise.allSettled(['a', 'b', 'c'].map(add))
    const first = await group(0)
    expect(first.items).toEqual(['a', 'b', 'c'])
    first.end([done('A'), { status: 'rejected', reason: new Error('b is bad') }, done('C')])
    expect(await answers).toEqual([
      done('A'),
      { status: 'rejected', reason: new Error('b is bad') },
      done('C'),
    ])
    expect(begun).toHaveLength(1)
  })

  it('are not answered before their group has ended, and what comes meanwhile is in a later one', async () => {
    const { add, group } = openGroups({ atOnce: 1 })
    const answered: string[] = []
    const ask = (item: string) => add(item).then((answer) => void answered.push(answer))
    const early = ask('early')
    const first = await group(0)
    const late = [ask('late'), ask('later')]
    first.end()
    await early
    const second = await group(1)
    expect([first.items, second.items]).toEqual([['early'], ['late', 'later']])
    expect(answered).toEqual(['early!'])
    second.end()
    await Promise.all(late)
    expect(answered).toEqual(['early!', 'late!', 'later!'])
  })

  it('go in groups of the largest size, so many at once and no more', async () => {
    const { add, group, begun } = openGroups({ maxItems: 2, atOnce: 2 })
    const answers = Promise.all(['a', 'b', 'c', 'd', 'e'].map(add))
    await group(1)
    expect(begun.map(({ items }) => items)).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ])
    begun[1]?.end()
    await group(2)
    begun[0]?.end()
    begun[2]?.end()
    expect(await answers).toEqual(['a!', 'b!', 'c!', 'd!', 'e!'])
  })

  it('that share a key are not under way in two groups, and hold up no other', async () => {
    const { add, group, begun } = openGroups({
      atOnce: 3,
      keysOf: (item) => (item as string).slice(0, 2).split(''),
    })
    const first = add('ab1')
    await group(0)
    const others = ['bc', 'de', 'af', 'ef'].map(add)
    expect((await group(1)).items).toEqual(['de', 'ef'])
    for (let turns = 0; turns < 20; turns++) await nextTurn()
    expect(begun).toHaveLength(2)
    begun[0]?.end()
    await first
    expect((await group(2)).items).toEqual(['bc'])
    begun[1]?.end()
    expect((await group(3)).items).toEqual(['af'])
    begun[2]?.end()
    begun[3]?.end()
    expect(await Promise.all(others)).toEqual(['bc!', 'de!', 'af!', 'ef!'])
  })

  it('all get the error of a group that fails as a whole, and the next group is none the worse', async () => {
    const { add, group } = openGroups({ atOnce: 1 })
    const answers = Promise.allSettled(['a', 'b'].map(add))
    ;(await group(0)).fail(new Error('away'))
    expect((await answers).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const next = add('c')
    ;(await group(1)).end()
    expect(await next).toBe('c!')
  })

  it('that get no outcome of their own fail', async () => {
    const { add, group } = openGroups()
    const answers = Promise.allSettled(['a', 'b'].map(add))
    ;(await group(0)).end([done('A')])
    expect((await answers).map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
  })

  it('do not wait for a group that has fallen silent, and what has waited too long is refused and not performed', async () => {
    const { add, group, begun } = openGroups({ atOnce: 1, patienceMs: REQUEST_TIMEOUT_MS / 2 })
    const silent = add('silent')
    const first = await group(0)
    const refused = expect(add('stale')).rejects.toMatchObject({ code: 'unavailable' })
    await nextTurn()
    expect(begun).toHaveLength(1)
    vi.advanceTimersByTime(REQUEST_TIMEOUT_MS)
    await refused
    const fresh = add('fresh')
    ;(await group(1)).end()
    expect(await fresh).toBe('fresh!')
    expect(begun.map(({ items }) => items)).toEqual([['silent'], ['fresh']])
    first.end()
    expect(await silent).toBe('silent!')
  })

  it('that are performed each alone fail each alone', async () => {
    const outcomes = await performEachAlone([1, 2, 3], async (item) => {
      if (item === 2) throw new Error('two')
      return item
    })
    expect(outcomes).toEqual([done(1), { status: 'rejected', reason: new Error('two') }, done(3)])
  })

  it('that fail together are tried each alone, unless they are refused or may have been stored', async () => {
    const tried: (readonly number[])[] = []
    const performing = (error: Error) =>
      performTogether([1, 2, 3], async (items) => {
        tried.push(items)
        if (items.includes(2)) throw error
        return items
      })
    const two = new Error('two')
    expect(await performing(two)).toEqual([done(1), { status: 'rejected', reason: two }, done(3)])
    expect(tried.splice(0)).toEqual([[1, 2, 3], [1], [2], [3]])
    const away = Object.defineProperty(new Error('away'), 'name', { value: 'MongoNetworkError' })
    for (const error of [new Refusal('unavailable', 'Too many.'), away]) {
      await expect(performing(error)).rejects.toBe(error)
      expect(tried.splice(0)).toEqual([[1, 2, 3]])
    }
  })
})

describe('one question of many', () => {
  it('is answered by one look, which begins after the last of them has asked', async () => {
    const share = createSharedReads<number>()
    let stored = 0
    const looks: ((answer: number) => void)[] = []
    const ask = () => share('feed', () => new Promise<number>((resolve) => looks.push(() => resolve(stored))))
    const look = (index: number) => whenThere('a look', () => looks[index])
    const early = ask()
    const first = await look(0)
    // The first look is under way and may have read already: whoever asks now must not be given what it
    // finds.
    const late = [ask(), ask(), ask()]
    first(0)
    expect(await early).toBe(0)
    stored = 7
    const second = await look(1)
    second(0)
    expect(await Promise.all(late)).toEqual([7, 7, 7])
    expect(looks).toHaveLength(2)
  })

  it('is none of another question, and an error is asked again', async () => {
    const share = createSharedReads<string>()
    const [one, other] = await Promise.all([share('1', async () => 'one'), share('2', async () => 'other')])
    expect([one, other]).toEqual(['one', 'other'])
    await expect(share('1', () => Promise.reject(new Error('away')))).rejects.toThrow('away')
    expect(await share('1', async () => 'again')).toBe('again')
  })

  it('stop when all who asked have left, and not before', async () => {
    const share = createSharedReads<string>()
    const [one, other] = [new AbortController(), new AbortController()]
    const life: { signal?: AbortSignal | undefined } = {}
    const look = () => {
      life.signal = currentSignal()
      return new Promise<string>((_, reject) =>
        life.signal?.addEventListener('abort', () => reject(new Error('nobody waits'))),
      )
    }
    const asked = [one, other].map(({ signal }) => runInScope({}, () => share('receipt', look), signal))
    const signal = await whenThere('a look', () => life.signal)
    one.abort()
    expect(signal.aborted).toBe(false)
    other.abort()
    expect(signal.aborted).toBe(true)
    for (const answer of asked) await expect(answer).rejects.toThrow('nobody waits')
    // Whoever wants it whatever happens keeps the look going.
    delete life.signal
    void runInScope({}, () => share('receipt', look))
    await nextTurn()
    await nextTurn()
    expect(life).toEqual({ signal: undefined })
  })
})

describe('things looked up by key', () => {
  it('are fetched in one query, each key once, and what is not there is undefined', async () => {
    const asked: string[][] = []
    const find = createBatchRead(
      async (keys: string[]) => {
        asked.push(keys)
        return [{ id: 'b' }, { id: 'a' }]
      },
      ({ id }) => id,
    )
    expect(await Promise.all(['a', 'b', 'a', 'none'].map(find))).toEqual([
      { id: 'a' },
      { id: 'b' },
      { id: 'a' },
      undefined,
    ])
    expect(asked).toEqual([['a', 'b', 'none']])
  })
})
