import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import type { Context } from '../context.ts'
import { lockFile, readJsonFile, writeDurably } from '../durable-file.ts'
import type { WatchStep } from '../ledger/step.ts'
import { performStep } from '../ledger/step.ts'
import { ADDRESS_POOL } from '../limits.ts'
import { unixSeconds } from '../time.ts'
import type { Coin } from './coin.ts'
import { untilNodeFails } from './coin-round.ts'
import type { AddressRecord } from './coin-store.ts'
import type { CoinDriver } from './driver.ts'

/**
 * Terms.
 *
 * - The *pool* holds addresses that the workers made ahead; the API takes one from it at a time.
 * - The *index file* lies beside the seed and not in the database: a restored database cannot make it forget which
 *   addresses may have been given out. `highest` is the highest index that was ever put into a pool.
 * - The *epoch* is a number that file and database count up together, file first. Where they differ, the database is not
 *   the one that was in use, or the last count was cut short: then every free address in it is suspect, since it may have
 *   been given out after the backup was made. Such addresses are retired; indexes cost nothing.
 * - A database and an index file that were restored from one backup agree. So each process that opens the wallet begins
 *   with a pool of its own: it retires the one that it finds, and leaves a range of indexes out, as the source says.
 */
const indexFile = z.object({ highest: z.int().min(-1), epoch: z.int().min(0) })
type IndexFile = z.output<typeof indexFile>

/** The wallets whose pool this process has begun. */
const renewed = new WeakSet<object>()

const NOTHING_YET: IndexFile = { highest: -1, epoch: 0 }

/** Where a coin's addresses come from. */
export interface AddressSource {
  coin: Coin
  /** Path of the index file. */
  indexFile: string
  /** The address at which the wallet's money comes together. */
  treasury(): Promise<string>
  /** The lowest index that an invoice may have. */
  firstIndex: number
  /** Lives as long as this process has the wallet open. */
  session: object
  /**
   * The lowest index from `from` on of which it is certain enough that no database before this one has given it out: asked
   * when a process begins, since a database and an index file that were restored together do not know what they lack.
   *
   * @param isNew no index was ever given, as far as file and database know
   */
  skipUsed(from: number, isNew: boolean): Promise<number>
  /** `count` addresses with indexes of `from` or more, each higher than the one before. */
  derive(from: number, count: number): Promise<{ index: number; address: string }[]>
}

/**
 * Fills the pool. The wallet and its chain are compared with what is stored before: a database that is not the one that was in
 * use gives out no address. While the node is away the pool stays as it is.
 */
export async function fillCoinPool(ctx: Context, driver: CoinDriver, watch?: WatchStep): Promise<void> {
  await untilNodeFails(ctx, driver.coin, async () => {
    if (!(await driver.agrees())) return
    await fillPool(ctx, driver.addresses, watch)
    // From its first address on a wallet is known.
    await ctx.coins.noteTreasury(driver.coin, { treasury_address: await driver.addresses.treasury() })
  })
}

/**
 * Fills a coin's pool and counts its epoch. The order of writes: 1 the index file, synced; 2 the addresses; 3 the epoch in
 * the database, without which the API takes none of them (`pool_at`). A death between 1 and 3 retires what was made.
 *
 * @throws Error where the index file cannot be read: a machine must not decide which addresses are new
 */
async function fillPool(ctx: Context, source: AddressSource, watch?: WatchStep): Promise<void> {
  fs.mkdirSync(path.dirname(source.indexFile), { recursive: true })
  const unlock = lockFile(source.indexFile)
  // Another process of this host fills it.
  if (unlock === undefined) return
  try {
    await fillLocked(ctx, source, watch)
  } finally {
    unlock()
  }
}

async function fillLocked(ctx: Context, source: AddressSource, watch: WatchStep | undefined): Promise<void> {
  const { coin } = source
  const record = await ctx.coins.findCoin(coin)
  if (record?.halted !== undefined) return
  const known = readIndexFile(source.indexFile)
  const highestStored = await ctx.coins.highestIndex(coin)
  const isContinuous = known.epoch === (record?.pool_epoch ?? 0) && known.highest >= highestStored
  const isRenewed = !isContinuous || !renewed.has(source.session)
  const missing = isRenewed ? ADDRESS_POOL : Math.max(0, ADDRESS_POOL - (await ctx.coins.countFree(coin)))
  const isNew = known.epoch === 0 && highestStored < 0
  const from = Math.max(known.highest + 1, highestStored + 1, source.firstIndex)
  const made = missing === 0 ? [] : await source.derive(isRenewed ? await source.skipUsed(from, isNew) : from, missing)
  const next = {
    highest: Math.max(known.highest, highestStored, made.at(-1)?.index ?? -1),
    epoch: Math.max(known.epoch, record?.pool_epoch ?? 0) + 1,
  }
  await writeDurably(source.indexFile, `${JSON.stringify(next)}\n`, 'index', watch)
  if (isRenewed) {
    const retired = await ctx.coins.retireFree(coin)
    if (!isContinuous)
      ctx.log.warn(
        { coin, retired },
        'the address pool and its index file disagree, as after a restore or a death in the middle of filling; free addresses were retired',
      )
  }
  await performStep(watch, 'addresses', () =>
    ctx.coins.addAddresses(
      made.map(({ index, address }): AddressRecord => ({ _id: `${coin}:${index}`, coin, index, address, state: 'free' })),
    ),
  )
  await performStep(watch, 'epoch', () => ctx.coins.notePool(coin, next.epoch, unixSeconds(ctx.now())))
  renewed.add(source.session)
}

/** What the index file holds; nothing yet where there is none. @throws Error where it holds something else */
export function readIndexFile(file: string): IndexFile {
  const broken = `The address index ${file} does not hold what was written there; restore it from where it was kept.`
  return readJsonFile(file, indexFile, (cause) => new Error(broken, { cause })) ?? NOTHING_YET
}
