import type { Context } from '../context.ts'
import { sealPayloadHash } from '../crypto/seal-payload.ts'
import { copiesOf, readCopy, type CopyRecord } from '../platform/copy.ts'
import type { Coin } from '../money/coin.ts'
import type { CoinDriver } from '../money/driver.ts'
import { sealFields } from '../ledger/seal.ts'
import { createSealPeers, fetchSeals, findUnknownSeals } from '../ledger/seal-peers.ts'
import { messageOf } from '../platform/errors.ts'
import { nowSeconds, unixSeconds } from '../platform/time.ts'
import { formatGap } from './finding.ts'

type PromoteContext = Pick<Context, 'config' | 'database' | 'coins' | 'journal' | 'seals' | 'now'>

/** How old a comparison by the copy's workers may be to count. */
const COMPARED_SECONDS = 120

/**
 * Finds what speaks against letting a restored copy be the network: others remember seals that it doesn't
 * have, nobody could be asked, or a coin's chain was not compared with the books, or differs from them.
 * Changes nothing.
 *
 * @param drivers of the coins whose node can be asked from here
 * @returns a sentence for each objection
 */
export async function findObjections(
  ctx: PromoteContext,
  copy: CopyRecord,
  drivers: readonly CoinDriver[],
): Promise<string[]> {
  const asked = new Set(drivers.map(({ coin }) => coin))
  const objections = await Promise.all([
    askPeers(ctx),
    ...drivers.map((driver) => askNode(ctx, driver)),
    readComparisons(ctx, copy, asked),
  ])
  return objections.flat()
}

/** Asks a coin's node what the chain holds, and compares that with the copy's books. @returns objections */
async function askNode(ctx: PromoteContext, driver: CoinDriver): Promise<string[]> {
  const { coin } = driver
  try {
    const holdings = await driver.holdings()
    if (holdings === undefined) return [`the node of ${coin} did not say what the chain holds: it is moving`]
    const gapRaw = holdings.heldRaw - (await ctx.journal.held(coin))
    return gapRaw === 0n ? [] : [describeDifference(coin, gapRaw, 'asked now')]
  } catch (error) {
    return [`the node of ${coin} gave no answer (${messageOf(error)})`]
  }
}

const describeDifference = (coin: Coin, gapRaw: bigint, when: string): string =>
  `the chain of ${coin}, ${when}, holds ${formatGap(gapRaw, coin)} than the books of the copy say: "reconcile ${coin}" is needed afterwards`

/**
 * Asks each peer, which remembers seals of the network, for those that the copy lacks.
 *
 * @returns objections
 */
async function askPeers(ctx: PromoteContext): Promise<string[]> {
  const peers = createSealPeers(ctx.config)
  if (peers.length === 0)
    return ['nobody was asked what was signed since the backup: set BASE_URL, or SEAL_PEERS']
  const last = await ctx.seals.lastSigned()
  const objections = await Promise.all(
    peers.map(async ({ url }): Promise<string[]> => {
      try {
        const theirs = await fetchSeals(url)
        const ourHashes = new Map<number, string>()
        for (const { seq } of theirs) {
          const seal = await ctx.seals.find(seq)
          if (seal !== undefined) ourHashes.set(seq, sealPayloadHash(sealFields(seal)))
        }
        const unknown =
          last?.pubkey === undefined
            ? theirs.filter(({ signed }) => signed)
            : findUnknownSeals(theirs, (seq) => ourHashes.get(seq), last.pubkey)
        if (unknown.length === 0) return []
        const highest = Math.max(...unknown.map(({ seq }) => seq))
        return [
          `${url} remembers ${unknown.length} seals that the copy does not have, up to ${highest}; the copy ends at ${last?._id ?? 0}. If that network still runs, stop it for good first`,
        ]
      } catch (error) {
        return [`${url} did not say what it remembers (${messageOf(error)})`]
      }
    }),
  )
  return objections.flat()
}

/**
 * Reads what the copy's workers have stored about the coins whose node isn't asked from here: their
 * comparison of chain and books, made after the restore.
 *
 * @returns objections
 */
async function readComparisons(
  ctx: PromoteContext,
  { restored_at: restoredAt }: CopyRecord,
  asked: ReadonlySet<Coin>,
): Promise<string[]> {
  const now = nowSeconds(ctx)
  const others = (await ctx.coins.listCoins()).filter(({ configured, _id }) => configured && !asked.has(_id))
  return others.flatMap(({ _id: coin, gap_at: comparedAt = 0, gap_raw: gap = '0', halted }) => {
    if (comparedAt <= restoredAt || now - comparedAt > COMPARED_SECONDS)
      return [
        `the node of ${coin} was not asked, and its chain not compared with the books lately: set its address here (NANO_RPC_URL, MONERO_WALLET_RPC_URL), or start its workers on the copy`,
      ]
    return [
      ...(gap === '0' ? [] : [describeDifference(coin, BigInt(gap), 'compared by its workers')]),
      ...(halted === undefined ? [] : [`${coin} is halted: ${halted.reason}`]),
    ]
  })
}

/**
 * Stores that a restored copy is the network now.
 *
 * @returns false if it isn't a copy, or was promoted before
 */
export async function promoteCopy(ctx: PromoteContext): Promise<boolean> {
  const copy = await readCopy(ctx.database.connection)
  if (copy === undefined) return false
  const { modifiedCount } = await copiesOf(ctx.database.connection).updateOne(
    { _id: 'copy', promoted_at: { $exists: false } },
    { $set: { promoted_at: unixSeconds(ctx.now()) } },
  )
  return modifiedCount === 1
}
