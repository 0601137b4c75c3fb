import { randomInt } from 'node:crypto'
import { readIndexFile } from '../../address-index.ts'
import { AGREES, type AddressSource, type Agreement, type KnownIndexes } from '../../driver.ts'
import type { MoneroContext } from './monero-gateway.ts'

/** One index for each 10 s is left out. */
const SECONDS_PER_INDEX = 10
const MOST_LEFT_OUT = 5_000
/** A process that begins so soon after another may be one that dies again and again. */
const SOON_SECONDS = 60
const LEFT_OUT_AT_RANDOM = 1_000

/**
 * The first index of a process's run: after all that database, file and wallet know. All three may be of one
 * backup; so what could have been given out since is left out, and a number at random that no backup knows: an
 * address may be given out twice only if more than one each 10 s was, and seldom then. Each index left out is an
 * address that the wallet has to make, so a process that begins soon after another leaves out next to none.
 *
 * @param made how many addresses the wallet has
 */
export function firstOfRun({ highest, ageSeconds }: KnownIndexes, made: number): number {
  const since = Math.min(Math.floor(ageSeconds / SECONDS_PER_INDEX), MOST_LEFT_OUT)
  const atRandom = ageSeconds < SOON_SECONDS ? 0 : LEFT_OUT_AT_RANDOM
  return Math.max(highest + 1, FIRST_MINOR, made) + since + randomInt(since + atRandom + 1)
}

/** (0, 0) is the wallet's primary address, where the operator fills it up. */
const FIRST_MINOR = 1

/** The source of invoices' addresses: subaddresses of the wallet's first account. */
export function moneroAddresses({ monero: { wallet, indexFile } }: MoneroContext): AddressSource {
  return {
    coin: 'xmr',
    indexFile,
    treasury: () => wallet.primaryAddress(),
    session: wallet,
    beginRun: async (known) => firstOfRun(known, await wallet.subaddressCount()),
    async derive(from, count) {
      // The wallet makes only the next ones: those below `from` are made and not used.
      const behind = from - (await wallet.subaddressCount())
      if (behind > 0) await wallet.createSubaddresses(behind)
      return wallet.createSubaddresses(count)
    },
  }
}

/**
 * Compares the addresses that were made with those of the wallet: one restored from its seed lacks them, and has to
 * make them again and to scan the chain again.
 */
export async function compareAddresses(ctx: MoneroContext): Promise<Agreement> {
  const highest = await ctx.coins.addresses.highestIndex('xmr')
  if (highest < 0 || (await ctx.monero.wallet.hasAddress(highest))) return AGREES
  return {
    kind: 'differs',
    why: 'the wallet lacks addresses that were made, as after it was restored from its seed; let it rescan the chain (rescan_blockchain)',
    onceHalted: () => makeLackingAddresses(ctx),
  }
}

/** Makes the wallet make the addresses that were given out once and that it lacks. */
export async function makeLackingAddresses(ctx: MoneroContext): Promise<void> {
  const { wallet, indexFile } = ctx.monero
  const wanted = Math.max(await ctx.coins.addresses.highestIndex('xmr'), readIndexFile(indexFile).highest) + 1
  const lacking = wanted - (await wallet.subaddressCount())
  if (lacking > 0) await wallet.createSubaddresses(lacking)
}
