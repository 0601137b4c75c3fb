/**
 * Runs work of the same key one after another in this process, in the order it came. It makes nothing
 * correct: what must hold between processes holds by an index or a conditional update. It keeps transactions
 * on one document from conflicting with each other, because each conflict costs a pause and a try.
 */
export function createTurns(): <T>(key: string, work: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<unknown>>()
  return (key, work) => {
    const before = last.get(key)
    const mine = before === undefined ? work() : before.then(work, work)
    last.set(key, mine)
    const leave = (): void => {
      if (last.get(key) === mine) last.delete(key)
    }
    mine.then(leave, leave)
    return mine
  }
}
