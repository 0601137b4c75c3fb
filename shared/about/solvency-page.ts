import { z } from 'zod'
import type { Context } from '../context.ts'
import { assetsView, isAssets } from '../ledger/assets.ts'
import type { EntryRecord } from '../ledger/entry.ts'
import type { SealRecord } from '../ledger/seal.ts'
import { LIABILITY_NAMES, closesSeal, type LiabilityName } from '../ledger/solvency.ts'
import { COINS, type Coin } from '../money/coin.ts'
import type { ControlProof } from '../money/control-store.ts'
import { Refusal } from '../platform/errors.ts'
import { hex, idView, unixTime } from '../platform/schema.ts'
import { unixSeconds } from '../platform/time.ts'

/** Proofs of one coin that are shown beside a seal: one for each account that it states, at most. */
const MOST_PROOFS = 500

const sumView = z.string().describe('decimal text of the smallest unit; below 0 too')
const sums = Object.fromEntries(LIABILITY_NAMES.map((name) => [name, sumView]))
const coinSums = z.object(sums as Record<LiabilityName, typeof sumView>).meta({ id: 'Liabilities' })
const liabilitiesView = z.object({ xno: coinSums, xmr: coinSums })

const proofFields = {
  id: idView('control_proof'),
  at: unixTime(),
  seal_seq: z.int().min(1),
  seal_hash: hex(64).describe('SHA-256 of the canonical payload of that seal'),
  message: z.string().describe('what was signed, as ASCII'),
  signature: z
    .string()
    .describe('Nano: Ed25519 with Blake2b-512, 128 hex characters; Monero: a reserve proof'),
}
export const controlProofView = z
  .object({
    coin: z.enum(COINS),
    account: z.string().optional().describe('of Nano'),
    address: z.string().optional().describe('of Monero: the primary address of the wallet'),
    ...proofFields,
    total_raw: z
      .string()
      .optional()
      .describe('of Monero: what it shows, less what of that is spent; piconero'),
  })
  .meta({ id: 'ControlProof' })

export const statementView = z.object({
  at: unixTime(),
  seal: z
    .object({ seq: z.int().min(1), at: unixTime(), entry_id: z.int().min(1), signed: z.boolean() })
    .nullable()
    .describe('the newest, or the one that was asked for; entry_id is its closing entry'),
  liabilities: liabilitiesView
    .nullable()
    .describe("what isn't the venue's own, as that entry states it; null in seals from before it did"),
  assets: assetsView.nullable().describe('what is held, as that entry states it'),
  control: z
    .object({ xno: z.array(controlProofView), xmr: z.array(controlProofView) })
    .describe('the newest proofs, or those of the seal that was asked for'),
  how_to_check: z.array(z.string()),
  honest_limits: z.array(z.string()),
})

const HOW_TO_CHECK = [
  'Take a signed seal and prove that its last entry, entry_id, is under it: a receipt or GET /seal/proof, under the key that you know. Both verifiers compute the liabilities of every seal again from the entries below it.',
  'Look for what you are owed in the entries: your orders, payouts and passes. If it is there, it lies in the sums: every amount stands in the clear.',
  "Nano: ask a node of your own for each account: the frontier is a confirmed block of that account's chain and states the balance, and each hash in receivable is a confirmed send of its amount to the account that no block receives up to the frontier.",
  'Nano, control: each message names the seal and the account, and the account is the public key of its signature.',
  'Monero: let a wallet of your own check the newest reserve proof (check_reserve_proof with address, message and signature). It shows total less spent; SHA-256 of its text is proof_hash of the seals made after it.',
  'Add up what is confirmed and what waits to be received. A payout that a node has and whose entry says sent for less than an hour has left the accounts and is in the sums still.',
]

/** What no statement of a seal shows; `/limits` says it too. */
export const HONEST_LIMITS = [
  'Borrowed coins look like own ones: assets and control are shown for a moment, not for the time between.',
  'Money that came and was entered nowhere is in no sum: only its payer can miss it.',
  'A seal states the assets as they were read at assets.at, and the liabilities as of its entries; what moved between is in one of the two alone.',
  'A reserve proof of Monero shows which outputs are the wallet’s and that they are unspent when it is checked: an old proof is worth less as time goes by.',
  'Holding the coins today says nothing of tomorrow: no code forces a payout.',
]

type StatementContext = Pick<Context, 'coins' | 'entries' | 'seals' | 'database'>

/**
 * Reads what a seal states of liabilities and assets.
 *
 * @param seq the newest seal if absent
 * @throws Refusal `no_such_seal`
 */
export async function readStatement(
  ctx: StatementContext,
  seq?: number,
): Promise<z.input<typeof statementView>> {
  const seal = seq === undefined ? await ctx.seals.last() : await ctx.seals.find(seq)
  if (seal === undefined && seq !== undefined)
    throw new Refusal('no_such_seal', 'There is no seal with this seq.', { field: 'seq' })
  const [xno, xmr] = await Promise.all(COINS.map((coin) => listProofs(ctx, coin, seq)))
  return {
    at: unixSeconds(ctx.database.now()),
    seal: viewSealed(seal),
    ...viewStated(seal && (await ctx.entries.find(seal.to_id)), seal),
    control: { xno: xno ?? [], xmr: xmr ?? [] },
    how_to_check: HOW_TO_CHECK,
    honest_limits: HONEST_LIMITS,
  }
}

const viewSealed = (seal: SealRecord | undefined) =>
  seal === undefined ? null : { seq: seal._id, at: seal.at, entry_id: seal.to_id, signed: seal.signed }

/** What a closing entry states; null for what it doesn't. */
function viewStated(closing: EntryRecord | undefined, seal: SealRecord | undefined) {
  if (closing === undefined || seal === undefined || !closesSeal(closing, seal._id))
    return { liabilities: null, assets: null }
  const { liabilities = null, assets } = closing.data
  return {
    liabilities: liabilities as z.input<typeof liabilitiesView> | null,
    assets: isAssets(assets) ? assets : null,
  }
}

async function listProofs({ coins }: StatementContext, coin: Coin, seq: number | undefined) {
  const of = seq ?? (await coins.controls.last(coin))?.seal_seq
  return of === undefined ? [] : (await coins.controls.listOfSeal(coin, of, MOST_PROOFS)).map(viewProof)
}

export function viewProof({
  _id: id,
  account,
  coin,
  total_raw: totalRaw,
  ...proof
}: ControlProof): z.input<typeof controlProofView> {
  const about = totalRaw === undefined ? { account } : { address: account, total_raw: totalRaw }
  return { id, coin, ...about, ...proof }
}
