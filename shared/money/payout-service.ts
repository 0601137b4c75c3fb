import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import type { Session } from '../platform/database.ts'
import { Refusal } from '../platform/errors.ts'
import { newId, newStepId } from '../platform/ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { nowSeconds } from '../platform/time.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { formatAmount, type Coin } from './coin.ts'
import { payoutLine } from './journal.ts'
import { payoutEntry, type PayoutEvent } from './payout-steps.ts'
import { payoutMark } from './payout-store.ts'
import type { PayoutRecord, StoredPayout } from './payout.ts'
import { isTxHash, type UnexplainedSend } from './transfer.ts'
import { wentTo } from './unexplained-sends.ts'
import { requirePayoutStep, takePayoutStep, takePayoutStepAlone } from './payout-updates.ts'
import { moveTransfer } from './transfer-service.ts'

interface NewPayout {
  source: string
  coin: Coin
  amountRaw: bigint
  address: string | undefined
  at: number
}

/** Makes a payout with its ledger entry; the caller stores it in the transaction of what it is owed for. */
export function newPayout({
  agentId: agent_id,
  orderId: order_id,
  ...fields
}: NewPayout & { agentId: string; orderId: string }): PayoutRecord {
  const payout: PayoutRecord = { ...newOwed(fields), agent_id, order_id }
  const entry = payoutEntry(payout, 'owed', payout.at)
  return { ...payout, tells: [payoutMark(payout, entry)], pending: [entry] }
}

/** Makes a payout that sends back what came to nobody. The ledger and events, which are of agents, leave it out. */
export const newReturn = (fields: NewPayout, arrivalId: string): PayoutRecord => ({
  ...newOwed(fields),
  agent_id: arrivalId,
  arrival_id: arrivalId,
})

/** Makes a payout of what is the venue's own, which the operator asks for. The ledger is told once it has left. */
export const newWithdrawal = (fields: NewPayout): PayoutRecord => ({
  ...newOwed(fields),
  agent_id: 'operator',
  withdraws: true,
  asked_at: fields.at,
})

function newOwed({ amountRaw, address, ...sum }: NewPayout) {
  if (amountRaw <= 0n) throw new TypeError(`"amountRaw" expected more than 0, got ${amountRaw}`)
  const owed = { ...sum, amount_raw: String(amountRaw), ...omitUndefined({ address }), salt: newSalt() }
  return { _id: newId('payout'), ...owed, state: 'owed' as const, changed_at: sum.at }
}

/**
 * Holds those of the payouts that are free, because the unexplained transfer `heldBy` may have paid them.
 *
 * @param because goes into the source of the ledger entries
 * @returns the ids of those held now
 */
export async function holdPayouts(ctx: Context, ids: readonly string[], heldBy: string, because = heldBy) {
  const held: string[] = []
  for (const payoutId of ids) {
    // Outside the transaction, so that a transaction that is run again makes the same entry.
    const attempt = `${because}/${newStepId()}`
    if (await takePayoutStepAlone(ctx, payoutId, { step: 'held', by: heldBy }, attempt)) held.push(payoutId)
  }
  return held
}

/**
 * Takes the operator's word that a payout was not paid by what it is held for, or by a send that the database
 * did not know and that went to its address. It is owed again, and sent once such a send is accounted for. If a
 * transfer of another wallet carries it, all payouts in that are owed again.
 *
 * @returns false if it is not held, and no such send went to its address
 */
export async function oweAgain(ctx: Context, payoutId: string): Promise<boolean> {
  const [payout] = await ctx.payouts.findStored([payoutId])
  if (payout === undefined) return false
  const transfer = await ctx.payouts.transfers.find(payout.transfer_id ?? '')
  if (transfer?.foreign === true)
    return moveTransfer(ctx, transfer, 'given_up', 'the operator found that it paid nobody')
  const sends = await listSendsTo(ctx, payout)
  const cleared_of = [...new Set([...(payout.cleared_of ?? []), ...sends.map(({ _id }) => _id)])]
  return freePayout(ctx, payoutId, cleared_of)
}

/** The transactions of which oweAgain() takes the operator's word that they did not pay the payout. */
export async function listMayHavePaid(ctx: Context, payout: PayoutRecord): Promise<string[]> {
  const { held_by: heldBy, transfer_id: transferId } = payout
  const transfer = await ctx.payouts.transfers.find(transferId ?? '')
  if (transfer?.foreign === true) return [transfer.tx]
  const sends = await listSendsTo(ctx, payout)
  // An operator's record that was taken back names a transaction, and not the record of one.
  const named = heldBy !== undefined && isTxHash(heldBy) ? [heldBy] : []
  return [...named, ...sends.map(({ tx }) => tx)]
}

/** The sends that the database did not know and that hold a payout, or went to its address. */
async function listSendsTo(
  ctx: Context,
  { coin, address, held_by: heldBy }: Pick<StoredPayout, 'coin' | 'address' | 'held_by'>,
) {
  const sends = await ctx.payouts.transfers.listUnknownSends(coin)
  return sends.filter((send) => send._id === heldBy || wentTo(send, address))
}

/** What holds a payout that the operator is about to pay by hand, in place of a send that may have paid it. */
const BY_HAND = 'operator'

/** Holds a payout that is owed, so that the operator can pay it by hand. @returns false if it is not owed or is held */
export const holdForHand = async (ctx: Context, payoutId: string): Promise<boolean> =>
  (await holdPayouts(ctx, [payoutId], BY_HAND)).length === 1

/** Ends that hold, and no other. @returns false if the payout isn't held so */
export async function endHoldForHand(ctx: Context, payoutId: string): Promise<boolean> {
  const [payout] = await ctx.payouts.findStored([payoutId])
  return payout?.held_by === BY_HAND && freePayout(ctx, payoutId, payout.cleared_of ?? [])
}

/** Ends the hold of payouts that the operator has found unpaid by this send, which is accounted for now. */
export async function freeCleared(ctx: Context, { coin, _id: sendId }: UnexplainedSend): Promise<void> {
  for (const { _id, cleared_of: cleared = [] } of await ctx.payouts.listHeldBy(coin, sendId))
    if (cleared.includes(sendId)) await freePayout(ctx, _id, cleared)
}

function freePayout(ctx: Context, payoutId: string, clearedOf: readonly string[]): Promise<boolean> {
  return takePayoutStepAlone(ctx, payoutId, { step: 'cleared', of: clearedOf }, newStepId())
}

/**
 * Records that the operator paid a payout by hand.
 *
 * @param isAddressNamed whether its address was named with that
 * @param sentRaw what the transaction sent to its address, if the chain could say
 * @returns false if it is frozen, has no address, or is in a transfer, unless that is of another wallet
 * @throws Refusal `wrong_state` if the transaction is on record for what leaves nothing for this payout
 */
export async function markPaidByHand(
  ctx: Context,
  payoutId: string,
  tx: string,
  { isAddressNamed = false, sentRaw }: { isAddressNamed?: boolean; sentRaw?: bigint | undefined } = {},
) {
  return ctx.database.transaction(async (session) => {
    const [payout] = await ctx.payouts.findStored([payoutId], session)
    if (payout === undefined) return false
    const transfer = await ctx.payouts.transfers.find(payout.transfer_id ?? '', session)
    const isGivenUp = transfer?.foreign === true && transfer.state !== 'confirmed'
    const given = isGivenUp ? { transferId: transfer._id } : {}
    const event: PayoutEvent = { step: 'paid_by_hand', tx, isAddressNamed, ...given }
    // It may have been paid by hand before, and that taken back.
    const { kind } = await takePayoutStep(ctx, payout, event, newStepId(), session)
    if (kind === 'stays') return false
    await requireNotUsedUp(ctx, payout, tx, sentRaw, session)
    return true
  })
}

/**
 * Checks what else a transaction is on record for, and claims it: of two payouts that are recorded at once
 * with one transaction, one sees the other.
 *
 * @throws Refusal `wrong_state` if it paid another address, or too little for all
 */
async function requireNotUsedUp(
  ctx: Context,
  { _id, coin, address, amount_raw: raw }: StoredPayout,
  tx: string,
  sentRaw: bigint | undefined,
  session: Session,
): Promise<void> {
  await ctx.coins.claimTransaction(coin, tx, session)
  const others = (await ctx.payouts.listPaidByHand(coin, tx, session)).filter((other) => other._id !== _id)
  const elsewhere = others.find((other) => other.address !== address)
  if (COIN_FACTS[coin].paysOneAddress && elsewhere !== undefined)
    throw new Refusal(
      'wrong_state',
      `This transaction is on record for the payout ${elsewhere._id} to another address; it cannot have paid this payout.`,
    )
  if (sentRaw === undefined) return
  const toAddress = others.filter((other) => other.address === address)
  const neededRaw = toAddress.reduce((sum, other) => sum + BigInt(other.amount_raw), BigInt(raw))
  if (neededRaw > sentRaw)
    throw new Refusal(
      'wrong_state',
      `This transaction pays ${formatAmount(sentRaw, coin)} ${coin} to this address, less than the ${formatAmount(neededRaw, coin)} that it is said to; it cannot have paid this payout.`,
    )
}

/**
 * Splits a payout, paid in part by hand, into that and the rest.
 *
 * @param sentRaw what the transaction sent to its address
 * @returns undefined if that can't be
 * @throws Refusal `wrong_state` if the transaction is on record for what leaves less than `paidRaw`
 */
export async function markPartPaid(
  ctx: Context,
  payoutId: string,
  tx: string,
  { paidRaw, sentRaw }: { paidRaw: bigint; sentRaw: bigint },
) {
  const whole = await ctx.payouts.find(payoutId)
  if (whole?.order_id === undefined || whole.address === undefined) return undefined
  const { source, coin, agent_id: agentId, order_id: orderId, address, decided } = whole
  const at = nowSeconds(ctx)
  const [attempt, wholeRaw] = [newStepId(), BigInt(whole.amount_raw)]
  const split = (name: string, amountRaw: bigint) => ({
    ...newPayout({ source: `${source}/${name}`, coin, agentId, orderId, amountRaw, address, at }),
    ...omitUndefined({ decided }),
  })
  const [part, rest] = [split('part', paidRaw), split('rest', wholeRaw - paidRaw)]
  return ctx.database.transaction(async (session) => {
    const [now] = await ctx.payouts.findStored([payoutId], session)
    if (now === undefined) return undefined
    const taken = await takePayoutStep(ctx, now, { step: 'paid_in_part' }, undefined, session)
    if (taken.kind === 'stays') return undefined
    await ctx.payouts.insert([part, rest], session)
    const lines = [part, rest].flatMap((payout) => payoutLine(payout, 'owed', at))
    await ctx.journal.write(lines, session)
    const event = { step: 'paid_by_hand', tx, isAddressNamed: false } as const
    await requirePayoutStep(ctx, { ...part, state: 'owed' }, event, attempt, session)
    await requireNotUsedUp(ctx, { ...part, state: 'owed' }, tx, sentRaw, session)
    return { part, rest }
  })
}

/**
 * Makes a payout owed again that was recorded as paid by hand.
 *
 * @param heldBy the transaction that it was recorded with, if that may have paid it all the same: then the
 *   payout is held
 * @returns false if it was not recorded so
 */
export const undoPaidByHand = (ctx: Context, payoutId: string, heldBy?: string): Promise<boolean> =>
  takePayoutStepAlone(ctx, payoutId, { step: 'hand_undone', mayStandBy: heldBy }, newStepId())

/** Cancels an owed payout, because the money is for somebody else. @throws Error if it is no longer owed */
export async function withdrawPayout(ctx: Context, payoutId: string, session: Session): Promise<void> {
  const [payout] = await ctx.payouts.findStored([payoutId], session)
  if (payout === undefined) throw new Error(`there is no payout ${payoutId}`)
  await requirePayoutStep(ctx, payout, { step: 'withdrawn' }, undefined, session)
}
