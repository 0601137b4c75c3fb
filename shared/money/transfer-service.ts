import type { Context } from '../context.ts'
import { Overtaken, isDuplicateKey, isOutage, type Session } from '../platform/database.ts'
import { LeaseLost } from '../platform/lease-store.ts'
import { newId, newStepId } from '../platform/ids.ts'
import type { Log } from '../platform/log.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { nowSeconds } from '../platform/time.ts'
import { decideArrival } from './arrival-steps.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { Coin } from './coin.ts'
import { reverse, transferLines, type JournalLine } from './journal.ts'
import { payoutEntry, type EntryDetails } from './payout-steps.ts'
import {
  TREASURY_INDEX,
  countRefusal,
  isRefusedForLong,
  type TransferRecord,
  type TransferState,
} from './transfer.ts'
import { isIn, type PayoutRecord, type StoredPayout } from './payout.ts'
import { purposeOf } from './purpose.ts'
import { storeArrivalStep } from './arrival-updates.ts'
import {
  TRANSFER_STEPS,
  decideTransfer,
  type TransferStep,
  type TransferStepDetails,
} from './transfer-steps.ts'
import { requirePayoutStep } from './payout-updates.ts'

/** Makes the record of a transaction of ours; the caller stores it with storeOrDrop() before it is sent. */
export function newTransfer(ctx: Context, fields: Omit<TransferRecord, '_id' | 'at' | 'changed_at'>) {
  const at = nowSeconds(ctx)
  return { _id: newId('transfer'), ...fields, at, changed_at: at }
}

/**
 * Stores signed transfers with the payouts that they carry, in one transaction, before they may be broadcast.
 *
 * @param listed the payouts as they were when the transfers were signed
 * @throws a duplicate-key error if another transfer has the place of one in its account's chain, or is in
 *   flight
 * @throws Overtaken if the block that they are built on was replaced, or a payout or an arrival of theirs is gone
 * @throws Error if a payout may no longer be sent, or is no longer to the address that was signed for
 */
export async function storeTransfers(
  ctx: Context,
  transfers: readonly TransferRecord[],
  listed: readonly Pick<PayoutRecord, '_id' | 'address'>[] = [],
): Promise<void> {
  const addresses = new Map(listed.map(({ _id, address }) => [_id, address]))
  await ctx.database.transaction(async (session) => {
    await requireConfirmedBelow(ctx, transfers, session)
    for (const { transfer, payouts } of await insertWithCarried(ctx, transfers, session))
      for (const payout of payouts) {
        if (addresses.has(payout._id) && addresses.get(payout._id) !== payout.address)
          throw new Error(`payout ${payout._id} is no longer to the address that was signed for`)
        await requirePayoutStep(ctx, payout, { step: 'signed', transfer }, transfer._id, session)
      }
  })
  for (const transfer of transfers) logTransfer(ctx.log, transfer, transfer.state)
}

/**
 * Stores transfers whose payouts and arrivals were read before this transaction. An election may have taken one of
 * those back, and it may come again, by the same id: then it would be owed again beside the transfer that carries it.
 *
 * @returns the transfers with their payouts, as this transaction reads them
 * @throws Overtaken if one of them is not on record
 */
async function insertWithCarried(ctx: Context, transfers: readonly TransferRecord[], session: Session) {
  const carried: { transfer: TransferRecord; payouts: StoredPayout[] }[] = []
  for (const transfer of transfers) {
    const { _id, payout_ids: payoutIds, payment_ids: arrivalIds } = transfer
    const payouts = payoutIds.length === 0 ? [] : await ctx.payouts.findStored(payoutIds, session)
    const arrivals = arrivalIds.length === 0 ? [] : await ctx.invoices.arrivals.findMany(arrivalIds, session)
    if (payouts.length < payoutIds.length || arrivals.length < arrivalIds.length)
      throw new Overtaken(`an election has taken back what transfer ${_id} carries`)
    carried.push({ transfer, payouts })
  }
  await ctx.payouts.transfers.insert(transfers, session)
  return carried
}

/** Logs a transfer's state, with ids alone. */
function logTransfer(log: Log, transfer: TransferRecord, state: TransferState): void {
  const { _id, coin, kind, payout_ids, payment_ids } = transfer
  const about = { money: 'transfer', transfer_id: _id, coin, kind, state, payout_ids, payment_ids }
  log.info(about, `a transaction of ours is ${state}`)
}

/**
 * Notes that a block is built on the one before. @throws Overtaken unless that is confirmed: if it was
 * replaced, a block on it could never be published, and would keep its place for ever
 */
async function requireConfirmedBelow(ctx: Context, [first]: readonly TransferRecord[], session: Session) {
  if (first?.account_index === undefined || first.previous === undefined) return
  const before = await ctx.payouts.transfers.noteSuccessor(first.coin, first.previous, first.tx, session)
  if (before !== undefined && before.state !== 'confirmed')
    throw new Overtaken(`transfer ${first._id} is built on ${before.tx}, which is ${before.state}`)
}

/**
 * Stores signed transfers with their payouts' steps, like storeTransfers().
 *
 * @returns `dropped`, with nothing stored, if something has changed meanwhile: they are to be sent by nobody
 * @throws what storeTransfers() throws in an outage, without the lease, or for transfers without payouts
 */
export async function storeOrDrop(
  ctx: Context,
  transfers: readonly TransferRecord[],
  listed?: readonly Pick<PayoutRecord, '_id' | 'address'>[],
): Promise<'stored' | 'dropped'> {
  try {
    await storeTransfers(ctx, transfers, listed)
    return 'stored'
  } catch (error) {
    if (isDuplicateKey(error) || error instanceof Overtaken) return 'dropped'
    const payoutIds = transfers.flatMap(({ payout_ids: ids }) => ids)
    if (isOutage(error) || error instanceof LeaseLost || payoutIds.length === 0) throw error
    ctx.log.warn({ err: error, payout_ids: payoutIds }, 'a payout has changed: its transaction is dropped')
    return 'dropped'
  }
}

/** Takes a step of transfers, with their payouts' steps. @returns how many took it; the others stay */
export async function moveTransfers(
  ctx: Context,
  transfers: readonly TransferRecord[],
  step: TransferStep,
  reason?: string,
): Promise<number> {
  if (transfers.length === 0) return 0
  const moved = await ctx.database.transaction(async (session) => {
    const ids = transfers.map(({ _id }) => _id)
    const stored = new Map((await ctx.payouts.transfers.findMany(ids, session)).map((one) => [one._id, one]))
    const changed: TransferRecord[] = []
    for (const transfer of transfers) {
      const before = stored.get(transfer._id)
      if (before === undefined) continue
      if ((await storeTransferStep(ctx, before, step, { reason }, session)).kind === 'stays') continue
      await followTransfer(ctx, before, TRANSFER_STEPS[step].to, session)
      changed.push(transfer)
    }
    return changed
  })
  for (const transfer of moved) logTransfer(ctx.log, transfer, TRANSFER_STEPS[step].to)
  return moved.length
}

/** Takes a transfer's step, with its payouts' steps. @returns false if its state doesn't allow it */
export const moveTransfer = async (
  ctx: Context,
  transfer: TransferRecord,
  step: TransferStep,
  reason?: string,
): Promise<boolean> => (await moveTransfers(ctx, [transfer], step, reason)) === 1

/**
 * Decides a transfer's step and stores it, without what follows from it.
 *
 * @param transfer as it was read in this transaction
 * @returns the decision; nothing is written if the transfer stays
 * @throws Overtaken if the transfer is in another state than was read
 */
async function storeTransferStep(
  ctx: Context,
  transfer: TransferRecord,
  step: TransferStep,
  details: TransferStepDetails,
  session: Session,
) {
  const decision = decideTransfer(transfer, step, nowSeconds(ctx), details)
  if (decision.kind === 'moves') await ctx.payouts.transfers.move(transfer._id, decision, session)
  return decision
}

/**
 * Marks a transfer as replaced, because another transaction has its place in the chain: reverses its journal
 * lines, and makes those of its payouts that are still in it owed again.
 *
 * @returns false, with nothing changed, if it was replaced before, or a transfer that is not replaced is
 *   built on it: that one has to be replaced first
 */
export function replaceTransfer(ctx: Context, transfer: TransferRecord, reason: string): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const { _id, account_index: index, tx } = transfer
    const next =
      index === undefined ? undefined : await ctx.payouts.transfers.findSuccessor(index, tx, session)
    if (next !== undefined) return false
    const before = await ctx.payouts.transfers.find(_id, session)
    if (before === undefined) return false
    if ((await storeTransferStep(ctx, before, 'replaced', { reason }, session)).kind === 'stays') return false
    await followTransfer(ctx, before, 'replaced', session)
    return true
  })
}

/**
 * Writes what follows from a transfer's new state: the books, and the entries and orders of its payouts.
 *
 * @param transfer as it was stored before: what it undoes depends on that, and the caller's copy may be older,
 *   since another worker may have confirmed or held it meanwhile
 */
async function followTransfer(ctx: Context, transfer: TransferRecord, to: TransferState, session: Session) {
  const carried =
    transfer.payout_ids.length === 0 ? [] : await ctx.payouts.findStored(transfer.payout_ids, session)
  const own = carried.filter((payout) => isIn(transfer, payout))
  if (to === 'replaced') {
    await unbookTransfer(ctx, transfer, session)
    await oweAgainAll(ctx, transfer, own, session)
    return
  }
  if (to === 'confirmed') {
    const others = carried.filter((payout) => !isIn(transfer, payout))
    await bookTransfer(ctx, transfer, { own, others }, session)
  }
  await tellPayouts(ctx, transfer, own, to, session)
}

/** Makes the payouts of a replaced transfer owed again. */
async function oweAgainAll(
  ctx: Context,
  { _id: transferId, state }: TransferRecord,
  payouts: readonly StoredPayout[],
  session: Session,
) {
  const event = { step: 'returned', transferId, wasConfirmed: state === 'confirmed' } as const
  for (const payout of payouts)
    await requirePayoutStep(ctx, payout, event, `${transferId}/${newStepId()}`, session)
}

/** Tells the ledger and the orders of a transfer's payouts which state they are in with it. */
async function tellPayouts(
  ctx: Context,
  { _id, tx, state: before }: TransferRecord,
  payouts: readonly StoredPayout[],
  to: Exclude<TransferState, 'replaced'>,
  session: Session,
) {
  // A transfer may be held, or be missing from the chain again, more than once.
  const isRepeatable = to === 'held' || before === 'held'
  const details: EntryDetails = { tx, attempt: isRepeatable ? `${_id}/${newStepId()}` : _id }
  const at = nowSeconds(ctx)
  const entries = payouts.map((payout) => [payout, payoutEntry(payout, to, at, details)] as const)
  await ctx.payouts.addEntries(new Map(entries), session)
  for (const payout of payouts) await purposeOf(ctx, payout).payoutMoved?.(ctx, payout, to, session)
}

/**
 * Books a transfer that is in the chain. `others`, payouts of it that were paid otherwise, may have been paid twice:
 * what it sent to them is the operator's loss in the books, and stays a finding until the operator has accounted
 * for it.
 *
 * @param payouts.step tells the lines apart from those of an earlier booking
 */
async function bookTransfer(
  ctx: Context,
  transfer: TransferRecord,
  payouts: { own: readonly StoredPayout[]; others: readonly StoredPayout[]; step?: string },
  session: Session,
): Promise<void> {
  const { own, others, step } = payouts
  if (others.length > 0) {
    const ids = others.map(({ _id }) => _id)
    await ctx.payouts.transfers.setPaidAgain(transfer._id, ids, session)
    const about = { transfer_id: transfer._id, payout_ids: ids }
    ctx.log.error(about, 'payouts paid otherwise are in a confirmed transfer: they may have been paid twice')
  }
  const at = nowSeconds(ctx)
  await ctx.journal.write(transferLines(transfer, own, at, step), session)
  if (takesToTreasury(transfer)) await ctx.invoices.arrivals.setSwept(transfer.payment_ids, at, session)
}

/** Whether a transfer brings the money of its arrivals into the treasury. */
const takesToTreasury = ({ kind, account_index: index, payment_ids: arrived }: TransferRecord): boolean =>
  kind === 'receive' && index === TREASURY_INDEX && arrived.length > 0

/** Stores and books transfers that only the chain knew. @throws a duplicate-key error if one is on record */
export async function adoptTransfers(ctx: Context, transfers: readonly TransferRecord[]): Promise<void> {
  await ctx.database.transaction(async (session) => {
    await insertWithCarried(ctx, transfers, session)
    for (const transfer of transfers) {
      await bookTransfer(ctx, transfer, { own: [], others: [] }, session)
      await forgetOwnMoney(ctx, transfer, session)
    }
  })
}

/** If a transfer sent money to another account of ours, that may be on record as money which came to nobody. */
async function forgetOwnMoney(ctx: Context, { coin, tx }: TransferRecord, session: Session): Promise<void> {
  if (!COIN_FACTS[coin].paysOneAddress) return
  const at = nowSeconds(ctx)
  for (const arrival of await ctx.invoices.arrivals.listUnclaimed(tx, session)) {
    const update = decideArrival(arrival, { step: 'own' }, at)
    if (update.kind === 'moves') await storeArrivalStep(ctx, arrival, update, session)
  }
}

/**
 * Reverses the journal lines of a transfer that are not reversed yet; what it was thought to have moved on is at its
 * address again. Versions before schema 2 booked with it what it took in, which has a record of its own.
 */
async function unbookTransfer(ctx: Context, transfer: TransferRecord, session: Session): Promise<void> {
  const lines = await ctx.journal.list({ transfer_id: transfer._id }, Number.MAX_SAFE_INTEGER, session)
  const ids = new Set(lines.map(({ _id }) => _id))
  const isOwn = ({ from, to }: JournalLine): boolean => from !== 'chain' && to !== 'chain'
  const standing = lines.filter(
    (line) => isOwn(line) && !line._id.endsWith('/undone') && !ids.has(`${line._id}/undone`),
  )
  const reversed = standing.map((line) => reverse(line, 'undone', nowSeconds(ctx)))
  await ctx.journal.write(reversed, session)
  if (transfer.payment_ids.length > 0)
    await ctx.invoices.arrivals.setSwept(transfer.payment_ids, undefined, session)
}

/** Stores that the node refused a transfer. After 10 minutes of refusals it is held: offered, but rarely. */
export async function noteRefusal(ctx: Context, transfer: TransferRecord, reason: string): Promise<void> {
  const at = nowSeconds(ctx)
  const refused = countRefusal(transfer, reason, at)
  await ctx.payouts.transfers.setRefused(transfer._id, refused)
  const { _id: transfer_id, tx, payout_ids } = transfer
  const about = { transfer_id, tx, payout_ids, reason, refusals: refused.count }
  if (!isRefusedForLong({ refused }, at))
    ctx.log.warn(about, 'a transaction of ours is refused; it will be offered again')
  else if ((await moveTransfers(ctx, [transfer], 'held', `it is refused: ${reason}`)) > 0)
    ctx.log.error(about, 'a transaction of ours has been refused for long; it is offered with longer pauses')
}

/**
 * Notes that a replaced transfer is in the chain after all, with those of its payouts that are still owed.
 *
 * @param place in its account's chain, which no other transfer on record may have
 * @returns false if it was not replaced
 */
export function reinstateTransfer(
  ctx: Context,
  transfer: TransferRecord,
  place?: TransferStepDetails['place'],
) {
  return ctx.database.transaction(async (session) => {
    const before = await ctx.payouts.transfers.find(transfer._id, session)
    if (before === undefined) return false
    const details = { reason: 'it is in the chain after all', place }
    if ((await storeTransferStep(ctx, before, 'reinstated', details, session)).kind === 'stays') return false
    const carried = await ctx.payouts.findStored(transfer.payout_ids, session)
    const own = carried.filter(({ state }) => state === 'owed')
    for (const payout of own) {
      const attempt = `${transfer._id}/${newStepId()}`
      await requirePayoutStep(ctx, payout, { step: 'reinstated', transfer }, attempt, session)
    }
    const others = carried.filter(({ state }) => state !== 'owed')
    await bookTransfer(ctx, before, { own, others, step: newStepId() }, session)
    return true
  })
}

/**
 * Stores that the operator has accounted for a transaction which the database did not know.
 *
 * @returns false if it needs no explanation, or the coin was never reconciled to the end
 */
export async function explainTransfer(ctx: Context, coin: Coin, tx: string): Promise<boolean> {
  const transfer = await ctx.payouts.transfers.findByTx(coin, tx)
  const reconciliation = await ctx.journal.reconciliations.last(coin)
  if (transfer === undefined || reconciliation === undefined) return false
  const { _id } = reconciliation
  const data = { reconciliation_id: _id, step: 'explained', coin, transfer_id: transfer._id }
  const source = `${_id}/explained/${transfer._id}`
  const entry: PendingEntry = { source, at: nowSeconds(ctx), kind: 'reconcile', data }
  return ctx.database.transaction(async (session) => {
    if (!(await ctx.payouts.transfers.setExplained(coin, tx, session))) return false
    await ctx.journal.reconciliations.addEntry(_id, entry, session)
    return true
  })
}
