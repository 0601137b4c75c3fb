import fs from 'node:fs'
import path from 'node:path'
import type { Context } from '../context.ts'
import { lockFile, textWithSum, writeDurably } from '../platform/durable-file.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { ADDRESS_POOL } from '../platform/limits.ts'
import { nowSeconds } from '../platform/time.ts'
import { readIndexFile, runsOf, type IndexFile, type Run } from './address-index.ts'
import type { Coin } from './coin.ts'
import { isHalted, runWalletRound } from './coin-state.ts'
import type { AddressRecord, AddressStock } from './address-store.ts'
import type { AddressSource, CoinDriver } from './driver.ts'

/**
 * The *pool* holds addresses that a worker made ahead, each for one process of the API. That process alone
 * gives it out, once, and remembers that it has, even if the database is restored beneath it.
 *
 * A *run* is the addresses that one process of the workers makes, one index after the other. Database and files
 * may all be of an old backup, so each process begins a run where no backup can have one; how, the coin says.
 */

/** What this process has made, by the session of the wallet that it is of. */
const ownRuns = new WeakMap<object, Run>()
/** The file names so many of the newest runs. */
const MOST_RUNS = 10_000

/** Addresses made for a process that has none; afterwards its stock is filled up to ADDRESS_POOL. */
const FIRST_STOCK = 20

/**
 * Fills the stocks of all API processes, if wallet and database agree.
 *
 * @param asker the process that asked for addresses: it gets a stock even if it has none yet
 * @returns how many addresses were made
 */
export async function fillStocks(
  ctx: Context,
  driver: CoinDriver,
  asker?: AddressStock,
  watch?: WatchStep,
): Promise<{ addresses: number }> {
  let addresses = 0
  await runWalletRound(ctx, driver.coin, async () => {
    const agreement = await driver.checkAgreement()
    if (agreement.kind !== 'agrees') return agreement
    const fill = async () => {
      addresses += await fillPool(ctx, driver.addresses, asker, watch)
    }
    await ctx.database.serialize(`pool of ${driver.coin}`, () => withIndexFile(driver.addresses, fill))
    await ctx.coins.noteTreasury(driver.coin, { treasury_address: await driver.addresses.treasury() })
    return agreement
  })
  return { addresses }
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
 * @returns how many addresses were made
 * @throws Error if the index file can't be read: a machine must not decide which addresses are new
 */
async function fillPool(
  ctx: Context,
  source: AddressSource,
  asker?: AddressStock,
  watch?: WatchStep,
): Promise<number> {
  const { coin } = source
  if (await isHalted(ctx, coin)) return 0
  const stored = readIndexFile(source.indexFile)
  const at = nowSeconds(ctx)
  const own = ownRuns.get(source.session)
  // What is free now may have been given out by a database that was replaced since.
  if (own === undefined)
    await ctx.database.transaction((session) => ctx.coins.addresses.retireFree(coin, session))
  const holders = holdersOfNewAddresses(await ctx.coins.addresses.countFree(coin), asker)
  const place = await findPlace(ctx, source, { stored, own, count: holders.length, asker, at })
  const made = holders.length === 0 ? [] : await source.derive(place.from, holders.length)
  const [first, last] = [made[0]?.index, made.at(-1)?.index]
  if (first === undefined || last === undefined) {
    await ctx.coins.notePool(coin, at)
    return 0
  }
  const run: Run = [place.continued?.[0] ?? first, last]
  await writeDurably(source.indexFile, textWithSum(withRun(stored, run, own, at)), 'index', watch)
  const added = made.map(({ index, address }, count): AddressRecord => {
    const holder = holders[count] ?? ''
    return { _id: `${coin}:${index}`, coin, index, run: run[0], address, state: 'free', holder }
  })
  await performStep(watch, 'addresses', () =>
    ctx.database.transaction(async (session) => {
      await ctx.coins.addresses.add(added, session)
      await ctx.coins.notePool(coin, at, session)
    }),
  )
  ownRuns.set(source.session, run)
  return made.length
}

/**
 * Finds where `count` addresses can be made: behind this process's own run, if no other run has begun there, or
 * else where a new run may begin.
 *
 * @returns `continued`: the own run, if they go on with it
 */
async function findPlace(
  ctx: Context,
  source: AddressSource,
  known: {
    stored: IndexFile
    own: Run | undefined
    count: number
    asker: AddressStock | undefined
    at: number
  },
): Promise<{ from: number; continued?: Run }> {
  const { stored, own, count, asker, at } = known
  const { coin } = source
  const runs = runsOf(stored)
  if (own !== undefined && (await isFreeFor(ctx, coin, runs, own[1] + 1, count)))
    return { from: own[1] + 1, continued: own }
  const lastAt = Math.max(stored.at ?? 0, (await ctx.coins.findCoin(coin))?.pool_at ?? 0)
  const highest = Math.max(stored.highest, await ctx.coins.addresses.highestIndex(coin), asker?.given ?? -1)
  const ageSeconds = lastAt === 0 ? 0 : Math.max(0, at - lastAt)
  for (;;) {
    const from = await source.beginRun({ highest, ageSeconds })
    if (await isFreeFor(ctx, coin, runs, from, ROOM)) return { from }
  }
}

/** The index file with a run as it is now. @param own this process's last one: its indexes stay known */
function withRun(stored: IndexFile, run: Run, own: Run | undefined, at: number): IndexFile {
  const others = runsOf(stored).filter(([begin]) => begin !== run[0])
  return {
    highest: Math.max(run[1], own?.[1] ?? -1, ...others.map(([, end]) => end)),
    at,
    runs: [...others, run].slice(-MOST_RUNS),
  }
}

/** A run begins where so many indexes are free. */
const ROOM = 1_000

/** Whether neither a run of the index file nor an address on record lies at these indexes. */
async function isFreeFor(ctx: Context, coin: Coin, runs: readonly Run[], from: number, count: number) {
  const to = from + count - 1
  return (
    !runs.some(([begin, end]) => begin <= to && from <= end) &&
    !(await ctx.coins.addresses.hasAnyIn(coin, from, to))
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
