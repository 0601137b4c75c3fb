import { MAX_LIGHT_COST } from './limits.ts'

/*
 * Costs are counted as work turns out, in the unit of MAX_LIGHT_COST. A request that has come to no more than
 * that waits for nobody, whatever its `limit` would have allowed; one that would come to more takes its turn
 * before it reads on.
 */

/** Counts what a request costs, and makes it wait for its turn once that is more than a light one may cost. */
export interface Meter {
  /** Counts work of this cost; if the request is costly with it, resolves when its turn has come. */
  spend(cost: number): Promise<void>
  /**
   * Says how many more items may be read at once, of up to `wanted`: as many as a light request may read if
   * each is as long as they can be, or all that are wanted when the request's turn has come.
   *
   * @param longest the most that an item costs
   */
  room(wanted: number, longest: number): Promise<number>
}

/** Fewer are not worth a command to the database, which costs as much as some ten documents. */
const MIN_READ = 16

/** Creates the meter of a request that has cost nothing yet. @param takeTurn is called once at most */
export function createMeter(takeTurn: () => Promise<void>): Meter {
  let spent = 0
  let turn: Promise<void> | undefined
  const inTurn = (): Promise<void> => (turn ??= takeTurn())
  return {
    async spend(cost) {
      spent += cost
      if (spent > MAX_LIGHT_COST) await inTurn()
    },
    async room(wanted, longest) {
      const light = Math.floor((MAX_LIGHT_COST - spent) / longest)
      if (turn === undefined && light >= Math.min(wanted, MIN_READ)) return Math.min(wanted, light)
      await inTurn()
      return wanted
    },
  }
}

/**
 * Reads up to `limit` items of a list. In a light request no read can bring more than the request may still
 * cost, so a short list, or a long one of short items, is read without a turn.
 *
 * @param longest the most that an item costs
 * @param read reads the list from its beginning, or past an item
 */
export async function readMetered<Listed extends object>(
  meter: Meter,
  limit: number,
  longest: number,
  read: (limit: number, after: Listed | undefined) => Promise<readonly Listed[]>,
): Promise<Listed[]> {
  const listed: Listed[] = []
  while (listed.length < limit) {
    const size = await meter.room(limit - listed.length, longest)
    const more = await read(size, listed.at(-1))
    listed.push(...more)
    await meter.spend(costOf(more))
    if (more.length < size) break
  }
  return listed
}

const KIB = 1024

/** What records cost to read and to answer with: 1 each, and 1 for each KiB of their texts in UTF-8. */
export const costOf = (records: readonly (object | string)[]): number =>
  records.length + bytesOf(records) / KIB

/** Bytes of all texts in a value. */
function bytesOf(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  if (ArrayBuffer.isView(value)) return value.byteLength
  let bytes = 0
  for (const part of Object.values(value)) bytes += bytesOf(part)
  return bytes
}
