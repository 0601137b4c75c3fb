import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import type { Context } from '../context.ts'
import { lockFile, readJsonFile, textWithSum, writeDurably } from '../platform/durable-file.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { ADDRESS_POOL } from '../platform/limits.ts'
import { nowSeconds } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import { isStopped, runWalletRound } from './coin-round.ts'
import type { AddressRecord, AddressStock } from './coin-store.ts'
import type { CoinDriver } from './driver.ts'

/**
 * The *pool* holds addresses that a worker made ahead, each for one process of the API. That process alone
 * gives it out, once, and remembers that it has, even if the database is restored beneath it.
 *
 * A *run* is the addresses that one process of the workers makes, one index after the other. Database and files
 * may all be of an old backup, so each process begins a run where no backup can have one; how, the coin says.
 *
 * The *index file* lies beside the seed, so restoring the database doesn't reset it. It names the runs, in the
 * order in which they began, so that a reconciliation finds money at addresses that the database has forgotten.
 * `highest` is the highest index in any of them; `at` is when it was written, in Unix seconds.
 */
const run = z.tuple([z.int().min(0), z.int().min(0)])
const indexFile = z.object({
  highest: z.int().min(-1),
  at: z.int().min(0).optional(),
  runs: z.array(run).optional(),
})
type IndexFile = z.output<typeof indexFile>
/** The first and the last index of a run. */
export type Run = z.output<typeof run>

/** What this process has made, by the session of the wallet that it is of. */
const ownRuns = new WeakMap<object, Run>()
/** The file names so many of the newest runs. */
const MOST_RUNS = 10_000

/** Addresses made for a process that has none; afterwards its stock is filled up to ADDRESS_POOL. */
const FIRST_STOCK = 20

export interface AddressSource {
  coin: Coin
  indexFile: string
  treasury(): Promise<string>
  /** An object that lives as long as this process has the wallet open. */
  session: object
  /** An index at which a run may begin that no backup knows. */
  beginRun(known: KnownIndexes): Promise<number>
  /** `count` addresses with indexes of `from` or more, each higher than the one before. */
  derive(from: number, count: number): Promise<{ index: number; address: string }[]>
}

export interface KnownIndexes {
  /** The highest index that the database, the index file or the asking process knows; -1 if there is none. */
  highest: number
  /** How long ago this venue is known to have made addresses last; 0 if it never has. */
  ageSeconds: number
}

/**
 * Fills the stocks of all API processes, if wallet and database agree.
 *
 * @param asker the process that asked for addresses: it gets a stock even if it has none yet
 */
export async function fillStocks(ctx: Context, driver: CoinDriver, asker?: AddressStock, watch?: WatchStep) {
  await runWalletRound(ctx, driver.coin, async () => {
    if (!(await driver.checkAgreement())) return
    const fill = () => fillPool(ctx, driver.addresses, asker, watch)
    await ctx.database.serialize(`pool of ${driver.coin}`, () => withIndexFile(driver.addresses, fill))
    await ctx.coins.noteTreasury(driver.coin, { treasury_address: await driver.addresses.treasury() })
  })
}

/**
 * Runs `work` while no other process of this host writes the index file: one that has just lost the wallet
 * may still be at it. Does nothing if one does, since the turn comes again.
 */
async function withIndexFile({ indexFile: file }: AddressSource, work: () => Promise<void>): Promise<void> {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  const release = lockFile(file)
  if (release === undefined) return
  try {
    await work()
  } finally {
    release()
  }
}

/**
 * Makes addresses for every holder whose stock is not full. The order of writes: 1 the index file, synced;
 * 2 the addresses, with the time.
 *
 * @throws Error if the index file can't be read: a machine must not decide which addresses are new
 */
async function fillPool(ctx: Context, source: AddressSource, asker?: AddressStock, watch?: WatchStep) {
  const { coin } = source
  if (await isStopped(ctx, coin)) return
  const stored = readIndexFile(source.indexFile)
  const runs = runsOf(stored)
  const at = nowSeconds(ctx)
  const own = ownRuns.get(source.session)
  let from = own === undefined ? undefined : own[1] + 1
  if (own === undefined) await ctx.database.transaction((session) => ctx.coins.retireFree(coin, session))
  const holders = holdersOfNewAddresses(await ctx.coins.countFree(coin), asker)
  // Where the next run begins, one may have been begun before it.
  if (from !== undefined && !(await isFreeFor(ctx, coin, runs, from, holders.length))) from = undefined
  const isNewRun = from === undefined
  const poolAt = (await ctx.coins.findCoin(coin))?.pool_at
  const lastAt = Math.max(stored.at ?? 0, poolAt ?? 0)
  const known = {
    highest: Math.max(stored.highest, await ctx.coins.highestIndex(coin), asker?.given ?? -1),
    ageSeconds: lastAt === 0 ? 0 : Math.max(0, at - lastAt),
  }
  while (from === undefined) {
    const place = await source.beginRun(known)
    if (await isFreeFor(ctx, coin, runs, place, ROOM)) from = place
  }
  const made = holders.length === 0 ? [] : await source.derive(from, holders.length)
  const [first, last] = [made[0]?.index, made.at(-1)?.index]
  if (first === undefined || last === undefined) return ctx.coins.notePool(coin, at)
  const start = own === undefined || isNewRun ? first : own[0]
  const others = runs.filter(([begin]) => begin !== start)
  const next: IndexFile = {
    highest: Math.max(last, own?.[1] ?? -1, ...others.map(([, end]) => end)),
    at,
    runs: [...others, [start, last] satisfies Run].slice(-MOST_RUNS),
  }
  await writeDurably(source.indexFile, textWithSum(next), 'index', watch)
  const added = made.map(({ index, address }, place): AddressRecord => {
    const holder = holders[place] ?? ''
    return { _id: `${coin}:${index}`, coin, index, run: start, address, state: 'free', holder }
  })
  await performStep(watch, 'addresses', () =>
    ctx.database.transaction(async (session) => {
      await ctx.coins.addAddresses(added, session)
      await ctx.coins.notePool(coin, at, session)
    }),
  )
  ownRuns.set(source.session, [start, last])
}

/** A run begins where so many indexes are free. */
const ROOM = 1_000

/** Whether neither a run of the index file nor an address on record lies at these indexes. */
async function isFreeFor(ctx: Context, coin: Coin, runs: readonly Run[], from: number, count: number) {
  const to = from + count - 1
  return (
    !runs.some(([begin, end]) => begin <= to && from <= end) &&
    !(await ctx.coins.hasAddressIn(coin, from, to))
  )
}

/**
 * One holder for each address to be made: FIRST_STOCK times for a holder with none, else enough times to fill
 * its stock up to ADDRESS_POOL. `free` says how many free ones each holder has; the asker counts in any case.
 */
function holdersOfNewAddresses(free: ReadonlyMap<string, number>, asker: AddressStock | undefined): string[] {
  const stocks = asker === undefined ? free : new Map([...free, [asker.holder, free.get(asker.holder) ?? 0]])
  return [...stocks].flatMap(([holder, count]) =>
    Array<string>(count === 0 ? FIRST_STOCK : Math.max(0, ADDRESS_POOL - count)).fill(holder),
  )
}

/** The runs that the index file names, the oldest first; of an older version's file, one with all. */
export const runsOf = ({ highest, runs }: IndexFile): Run[] => runs ?? (highest < 0 ? [] : [[0, highest]])

/** Reads the index file; -1 if there is none. @throws Error if it isn't as it was written */
export function readIndexFile(file: string): IndexFile {
  const broken = `The address index ${file} does not hold what was written there; restore it from where it was kept.`
  return readJsonFile(file, indexFile, (cause) => new Error(broken, { cause })) ?? { highest: -1 }
}
