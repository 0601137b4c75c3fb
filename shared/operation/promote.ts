import type { Context } from '../context.ts'
import { sealPayloadHash } from '../crypto/seal-payload.ts'
import { copiesOf, readCopy, type CopyRecord } from '../servers/copy.ts'
import { formatAmount } from '../payments/coin.ts'
import { sealFields } from '../ledger/seal.ts'
import { findStrangeSeals } from '../ledger/seal-peers.ts'
import { unixSeconds } from '../foundation/time.ts'

/**
 * What speaks against letting a copy be the network: others remember seals that it doesn't have, nobody could
 * be asked, or the chain of a coin was not compared with its books, or differs.
 */
export async function findObjections(ctx: Context, copy: CopyRecord): Promise<string[]> {
  return [...(await askPeers(ctx)), ...(await askChains(ctx, copy))]
}

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
            : findStrangeSeals(theirs, (seq) => own.get(seq), last.pubkey)
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

/** The workers of the copy look at the chains as before, and compare them with the books. */
async function askChains(ctx: Context, { restored_at: since }: CopyRecord): Promise<string[]> {
  return (await ctx.coins.listCoins())
    .filter(({ configured }) => configured)
    .flatMap(({ _id, gap_at: comparedAt = 0, gap_raw: gap = '0', halted }) => {
      if (comparedAt <= since)
        return [
          `the chain of ${_id} was not compared with the books since the restore: start its workers on the copy`,
        ]
      return [
        ...(gap === '0'
          ? []
          : [
              `the chain of ${_id} holds ${formatAmount(BigInt(gap), _id)} more than the books of the copy: "reconcile ${_id}" is needed afterwards`,
            ]),
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
