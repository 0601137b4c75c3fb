import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import type { Context } from '../context.ts'
import { readJsonFile, writeDurably } from '../foundation/durable-file.ts'
import { performStep, type WatchStep } from '../foundation/step.ts'
import { ADDRESS_POOL } from '../foundation/limits.ts'
import { nowSeconds } from '../foundation/time.ts'
import type { Coin } from './coin.ts'
import { isStopped, untilNodeFails } from './coin-round.ts'
import type { AddressRecord, AddressStock } from './coin-store.ts'
import type { CoinDriver } from './driver.ts'

/**
 * The *pool* holds addresses made ahead, each for one process of the API, which alone gives it out, once, and
 * remembers that it has, even if the database is replaced beneath it.
 *
 * The *index file* lies beside the seed, so a restored database can't make it forget. `highest` is the
 * highest index ever put into a pool or left out. Database and index file may be from one backup, so a worker
 * that starts goes on behind all that the chain knows, that the asking process has given out, and that could
 * have been given out since the file was written. Indexes cost nothing.
 */
const indexFile = z.object({ highest: z.int().min(-1), at: z.int().min(0).optional() })
type IndexFile = z.output<typeof indexFile>

const NOTHING_YET: IndexFile = { highest: -1 }

/** By the wallet that it has open. */
const written = new WeakMap<object, IndexFile>()

/** Left out in any case, and one more for so many seconds each since the file was written. */
const LEFT_OUT = 500
const SECONDS_AN_INDEX = 10
const MOST_LEFT_OUT = 50_000
const FIRST_STOCK = 20

export interface AddressSource {
  coin: Coin
  indexFile: string
  treasury(): Promise<string>
  firstIndex: number
  /** Lives as long as this process has the wallet open. */
  session: object
  /** Behind all that the wallet's chain knows; and whether it knows anything of the wallet. */
  skipUsed(from: number): Promise<{ from: number; isUsed: boolean }>
  /** `count` addresses with indexes of `from` or more, each higher than the one before. */
  derive(from: number, count: number): Promise<{ index: number; address: string }[]>
}

/** Only with the database that was in use. `asks`: who asks; other processes' stocks are filled too. */
export async function fillCoinPool(ctx: Context, driver: CoinDriver, asks?: AddressStock, watch?: WatchStep) {
  await untilNodeFails(ctx, driver.coin, async () => {
    if (!(await driver.agrees())) return
    await ctx.serialize(`pool of ${driver.coin}`, () => fillPool(ctx, driver.addresses, asks, watch))
    await ctx.coins.noteTreasury(driver.coin, { treasury_address: await driver.addresses.treasury() })
  })
}

/**
 * The order of writes: 1 the index file, synced; 2 the addresses, with the time.
 *
 * @throws Error if the index file can't be read: a machine must not decide which addresses are new
 */
async function fillPool(ctx: Context, source: AddressSource, asks?: AddressStock, watch?: WatchStep) {
  const { coin } = source
  fs.mkdirSync(path.dirname(source.indexFile), { recursive: true })
  if (await isStopped(ctx, coin)) return
  const stored = readIndexFile(source.indexFile)
  const before = written.get(source.session)
  const known = Math.max(stored.highest, before?.highest ?? -1, await ctx.coins.highestIndex(coin))
  const at = nowSeconds(ctx)
  let from = Math.max(known, asks?.given ?? -1, source.firstIndex - 1) + 1
  if (before === undefined) {
    const used = await source.skipUsed(from)
    const unknown = LEFT_OUT + Math.max(0, Math.ceil((at - (stored.at ?? at)) / SECONDS_AN_INDEX))
    from = used.from + (known < 0 && !used.isUsed ? 0 : Math.min(unknown, MOST_LEFT_OUT))
    await ctx.database.transaction((session) => ctx.coins.retireFree(coin, session))
  }
  const free = await ctx.coins.countFree(coin)
  if (asks !== undefined && !free.has(asks.holder)) free.set(asks.holder, 0)
  const lackOf = (count: number): number => (count === 0 ? FIRST_STOCK : Math.max(0, ADDRESS_POOL - count))
  const lacks = [...free].flatMap(([holder, count]) => Array<string>(lackOf(count)).fill(holder))
  const made = lacks.length === 0 ? [] : await source.derive(from, lacks.length)
  const next = { highest: made.at(-1)?.index ?? from - 1, at }
  await writeDurably(source.indexFile, `${JSON.stringify(next)}\n`, 'index', watch)
  const added = made.map(({ index, address }, place): AddressRecord => {
    return { _id: `${coin}:${index}`, coin, index, address, state: 'free', holder: lacks[place] ?? '' }
  })
  await performStep(watch, 'addresses', () =>
    ctx.database.transaction(async (session) => {
      await ctx.coins.addAddresses(added, session)
      await ctx.coins.notePool(coin, at, session)
    }),
  )
  written.set(source.session, next)
}

/** @throws Error if it holds something else */
export function readIndexFile(file: string): IndexFile {
  const broken = `The address index ${file} does not hold what was written there; restore it from where it was kept.`
  return readJsonFile(file, indexFile, (cause) => new Error(broken, { cause })) ?? NOTHING_YET
}
