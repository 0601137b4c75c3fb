import type { Context } from '../context.ts'
import { sealPayloadHash } from '../crypto/seal-payload.ts'
import { copiesOf, readCopy, type CopyRecord } from '../servers/copy.ts'
import { formatAmount, type Coin } from '../payments/coin.ts'
import type { CoinDriver } from '../payments/driver.ts'
import { sealFields } from '../ledger/seal.ts'
import { findUnknownSeals } from '../ledger/seal-peers.ts'
import { unixSeconds } from '../foundation/time.ts'

/** A comparison by the copy's workers tells of the chain as it was so long ago at most. */
const COMPARED_SECONDS = 120

/**
 * What speaks against letting a copy be the network: others remember seals that it doesn't have, nobody could
 * be asked, or the chain of a coin was not compared with its books, or differs.
 *
 * @param drivers those of the coins whose node can be asked from here
 */
export async function findObjections(
  ctx: Context,
  copy: CopyRecord,
  drivers: readonly CoinDriver[],
): Promise<string[]> {
  const asked = new Set(drivers.map(({ coin }) => coin))
  const [peers, nodes, chains] = await Promise.all([
    askPeers(ctx),
    Promise.all(drivers.map((driver) => askNode(ctx, driver))),
    askChains(ctx, copy, asked),
  ])
  return [...peers, ...nodes.flat(), ...chains]
}

/** The node itself, now: what the chain holds against the copy's books. It changes nothing. */
async function askNode(ctx: Context, driver: CoinDriver): Promise<string[]> {
  const { coin } = driver
  try {
    const found = await driver.holdings()
    if (found === undefined) return [`the node of ${coin} did not say what the chain holds: it is moving`]
    const gapRaw = found.heldRaw - (await ctx.journal.held(coin))
    return gapRaw === 0n ? [] : [describeGap(coin, gapRaw, 'asked now')]
  } catch (error) {
    return [`the node of ${coin} gave no answer (${error instanceof Error ? error.message : String(error)})`]
  }
}

const describeGap = (coin: Coin, gapRaw: bigint, when: string): string =>
  `the chain of ${coin}, ${when}, holds ${formatAmount(gapRaw < 0n ? -gapRaw : gapRaw, coin)} ${coin.toUpperCase()} ${gapRaw < 0n ? 'less' : 'more'} than the books of the copy say: "reconcile ${coin}" is needed afterwards`

async function askPeers(ctx: Context): Promise<string[]> {
  const last = await ctx.seals.lastSigned()
  if (ctx.peers.length === 0)
    return ['nobody was asked what was signed since the backup: set BASE_URL, or SEAL_PEERS']
  const found = await Promise.all(
    ctx.peers.map(async ({ url, ask }): Promise<string[]> => {
      try {
        const theirs = await ask()
        const own = new Map<number, string>()
        for (const { seq } of theirs) {
          const seal = await ctx.seals.find(seq)
          if (seal !== undefined) own.set(seq, sealPayloadHash(sealFields(seal)))
        }
        const strange =
          last?.pubkey === undefined
            ? theirs.filter(({ signed }) => signed)
            : findUnknownSeals(theirs, (seq) => own.get(seq), last.pubkey)
        const highest = Math.max(0, ...strange.map(({ seq }) => seq))
        return strange.length === 0
          ? []
          : [
              `${url} remembers ${strange.length} seals that the copy does not have, up to ${highest}; the copy ends at ${last?._id ?? 0}. If that network still runs, stop it for good first`,
            ]
      } catch (error) {
        return [
          `${url} did not say what it remembers (${error instanceof Error ? error.message : String(error)})`,
        ]
      }
    }),
  )
  return found.flat()
}

/** Of a coin whose node isn't asked from here: the workers of the copy compare its chain with the books. */
async function askChains(
  ctx: Context,
  { restored_at: since }: CopyRecord,
  asked: ReadonlySet<Coin>,
): Promise<string[]> {
  const now = unixSeconds(ctx.databaseNow())
  return (await ctx.coins.listCoins())
    .filter(({ configured, _id }) => configured && !asked.has(_id))
    .flatMap(({ _id, gap_at: comparedAt = 0, gap_raw: gap = '0', halted }) => {
      if (comparedAt <= since || now - comparedAt > COMPARED_SECONDS)
        return [
          `the node of ${_id} was not asked, and its chain not compared with the books lately: set its address here (NANO_RPC_URL, MONERO_WALLET_RPC_URL), or start its workers on the copy`,
        ]
      return [
        ...(gap === '0' ? [] : [describeGap(_id, BigInt(gap), 'compared by its workers')]),
        ...(halted === undefined ? [] : [`${_id} is halted: ${halted.reason}`]),
      ]
    })
}

/** @returns false if it is none, or none any more */
export async function promoteCopy(ctx: Context): Promise<boolean> {
  const copy = await readCopy(ctx.database.connection)
  if (copy === undefined) return false
  const { modifiedCount } = await copiesOf(ctx.database.connection).updateOne(
    { _id: 'copy', promoted_at: { $exists: false } },
    { $set: { promoted_at: unixSeconds(ctx.now()) } },
  )
  return modifiedCount === 1
}
