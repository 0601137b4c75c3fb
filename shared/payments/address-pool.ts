import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import type { Context } from '../context.ts'
import { lockFile, readJsonFile, textWithSum, writeDurably } from '../foundation/durable-file.ts'
import { performStep, type WatchStep } from '../foundation/step.ts'
import { ADDRESS_POOL } from '../foundation/limits.ts'
import { nowSeconds } from '../foundation/time.ts'
import type { Coin } from './coin.ts'
import { isStopped, runWalletRound } from './coin-round.ts'
import type { AddressRecord, AddressStock } from './coin-store.ts'
import type { CoinDriver } from './driver.ts'

/**
 * The *pool* holds addresses that a worker made ahead, each for one process of the API. That process alone
 * gives it out, once, and remembers that it has, even if the database is restored beneath it.
 *
 * The *index file* lies beside the seed, so restoring the database doesn't reset it. `highest` is the highest
 * index ever put into a pool or skipped; `at` is when that was written, in Unix seconds. Database and file
 * may both be of an old backup, so a worker that starts continues above every index that the chain knows,
 * that the asking process has given out, or that could have been given out since the file was written.
 * Indexes cost nothing.
 */
const indexFile = z.object({ highest: z.int().min(-1), at: z.int().min(0).optional() })
type IndexFile = z.output<typeof indexFile>

/** What this process wrote last to the index file, by the session of the wallet that the file belongs to. */
const lastWritten = new WeakMap<object, IndexFile>()

/** Indexes that a worker skips when it starts: 500, and one for each 10 s since the file was written. */
const LEAST_SKIPPED = 500
const SECONDS_PER_INDEX = 10
const MOST_SKIPPED = 50_000
/** Addresses made for a process that has none; afterwards its stock is filled up to ADDRESS_POOL. */
const FIRST_STOCK = 20

export interface AddressSource {
  coin: Coin
  indexFile: string
  treasury(): Promise<string>
  firstIndex: number
  /** An object that lives as long as this process has the wallet open. */
  session: object
  /** The first index from `from` on above all that the chain knows, and whether it knows any. */
  skipUsed(from: number): Promise<{ from: number; isUsed: boolean }>
  /** `count` addresses with indexes of `from` or more, each higher than the one before. */
  derive(from: number, count: number): Promise<{ index: number; address: string }[]>
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
    await ctx.serialize(`pool of ${driver.coin}`, () => withIndexFile(driver.addresses, fill))
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
  const before = lastWritten.get(source.session)
  const highest = Math.max(stored.highest, before?.highest ?? -1, await ctx.coins.highestIndex(coin))
  const at = nowSeconds(ctx)
  let from = Math.max(highest, asker?.given ?? -1, source.firstIndex - 1) + 1
  if (before === undefined) {
    const used = await source.skipUsed(from)
    const isNewWallet = highest < 0 && !used.isUsed
    const skipped = LEAST_SKIPPED + Math.max(0, Math.ceil((at - (stored.at ?? at)) / SECONDS_PER_INDEX))
    from = used.from + (isNewWallet ? 0 : Math.min(skipped, MOST_SKIPPED))
    await ctx.database.transaction((session) => ctx.coins.retireFree(coin, session))
  }
  const holders = holdersOfNewAddresses(await ctx.coins.countFree(coin), asker)
  const made = holders.length === 0 ? [] : await source.derive(from, holders.length)
  const next = { highest: made.at(-1)?.index ?? from - 1, at }
  await writeDurably(source.indexFile, textWithSum(next), 'index', watch)
  const added = made.map(({ index, address }, place): AddressRecord => {
    return { _id: `${coin}:${index}`, coin, index, address, state: 'free', holder: holders[place] ?? '' }
  })
  await performStep(watch, 'addresses', () =>
    ctx.database.transaction(async (session) => {
      await ctx.coins.addAddresses(added, session)
      await ctx.coins.notePool(coin, at, session)
    }),
  )
  lastWritten.set(source.session, next)
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

/** Reads the index file; -1 if there is none. @throws Error if it isn't as it was written */
export function readIndexFile(file: string): IndexFile {
  const broken = `The address index ${file} does not hold what was written there; restore it from where it was kept.`
  return readJsonFile(file, indexFile, (cause) => new Error(broken, { cause })) ?? { highest: -1 }
}
