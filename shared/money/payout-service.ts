import { omitUndefined } from '../platform/omit-undefined.ts'
import type { Context } from '../context.ts'
import { isDuplicateKey, isOutage, Overtaken, type Session } from '../platform/database.ts'
import { LeaseLost } from '../platform/lease-store.ts'
import { Refusal } from '../platform/errors.ts'
import { newId, newStepId } from '../platform/ids.ts'
import type { Log } from '../platform/log.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { nowSeconds } from '../platform/time.ts'
import { decideArrival } from './arrival-steps.ts'
import { COIN_FACTS } from './coin-facts.ts'
import { formatAmount, type Coin } from './coin.ts'
import { payoutLine, reverse, transferLines, type JournalLine } from './journal.ts'
import { decidePayout, payoutEntry, type EntryDetails, type PayoutEvent } from './payout-steps.ts'
import { payoutMark } from './payout-store.ts'
import { countRefusal, isRefusedForLong, TREASURY_INDEX } from './payout.ts'
import type { PayoutRecord, StoredPayout, TransferRecord, TransferState, UnexplainedSend } from './payout.ts'
import { purposeOf } from './purpose.ts'
import { storeStep } from './settlement.ts'
import { wentTo } from './suspects.ts'
import {
  decideTransfer,
  TRANSFER_STEPS,
  type TransferStep,
  type TransferStepDetails,
} from './transfer-steps.ts'

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

function newOwed({ amountRaw, address, ...sum }: NewPayout) {
  if (amountRaw <= 0n) throw new TypeError(`"amountRaw" expected more than 0, got ${amountRaw}`)
  const owed = { ...sum, amount_raw: String(amountRaw), ...omitUndefined({ address }), salt: newSalt() }
  return { _id: newId('payout'), ...owed, state: 'owed' as const, changed_at: sum.at }
}

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
        await requireStep(ctx, payout, { step: 'signed', transfer }, transfer._id, session)
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
    const payouts = payoutIds.length === 0 ? [] : await ctx.payouts.findMany(payoutIds, session)
    const arrivals = arrivalIds.length === 0 ? [] : await ctx.invoices.findArrivals(arrivalIds, session)
    if (payouts.length < payoutIds.length || arrivals.length < arrivalIds.length)
      throw new Overtaken(`an election has taken back what transfer ${_id} carries`)
    carried.push({ transfer, payouts })
  }
  await ctx.payouts.insertTransfers(transfers, session)
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
  const before = await ctx.payouts.noteSuccessor(first.coin, first.previous, first.tx, session)
  if (before !== undefined && before.state !== 'confirmed')
    throw new Overtaken(`transfer ${first._id} is built on ${before.tx}, which is ${before.state}`)
}

/**
 * Stores signed transfers with their payouts' steps, like storeTransfers().
 *
 * @returns false, with nothing stored, if something has changed meanwhile: then the transactions are dropped
 * @throws what storeTransfers() throws in an outage, without the lease, or for transfers without payouts
 */
export async function storeOrDrop(...[ctx, transfers, listed]: Parameters<typeof storeTransfers>) {
  try {
    await storeTransfers(ctx, transfers, listed)
    return true
  } catch (error) {
    if (isDuplicateKey(error) || error instanceof Overtaken) return false
    const payoutIds = transfers.flatMap(({ payout_ids: ids }) => ids)
    if (isOutage(error) || error instanceof LeaseLost || payoutIds.length === 0) throw error
    ctx.log.warn({ err: error, payout_ids: payoutIds }, 'a payout has changed: its transaction is dropped')
    return false
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
    const stored = new Map((await ctx.payouts.findTransfers(ids, session)).map((one) => [one._id, one]))
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
  if (decision.kind === 'moves') await ctx.payouts.moveTransfer(transfer._id, decision, session)
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
    const next = index === undefined ? undefined : await ctx.payouts.findSuccessor(index, tx, session)
    if (next !== undefined) return false
    const before = await ctx.payouts.findTransfer(_id, session)
    if (before === undefined) return false
    if ((await storeTransferStep(ctx, before, 'replaced', { reason }, session)).kind === 'stays') return false
    await followTransfer(ctx, before, 'replaced', session)
    return true
  })
}

/**
 * Writes what follows from a transfer's new state: the books, and the entries and orders of its payouts.
 *
 * @param transfer as it was stored before. What its entries undo depends on it, and the caller's copy may be
 *   older: another worker may have confirmed or held the transfer since.
 */
async function followTransfer(ctx: Context, transfer: TransferRecord, to: TransferState, session: Session) {
  const at = nowSeconds(ctx)
  const carried =
    transfer.payout_ids.length === 0 ? [] : await ctx.payouts.findMany(transfer.payout_ids, session)
  const undoes = transfer.state === 'confirmed' && to !== 'confirmed' ? 'confirmed' : undefined
  const isOwn = ({ transfer_id: id, state }: StoredPayout) => state === 'in_transfer' && id === transfer._id
  const [own, others] = [carried.filter(isOwn), carried.filter((payout) => !isOwn(payout))]
  if (to === 'confirmed') await bookTransfer(ctx, transfer, { own, others }, session)
  if (to === 'replaced') {
    await unbookTransfer(ctx, transfer, session)
    for (const payout of own) {
      const wasConfirmed = transfer.state === 'confirmed'
      const event = { step: 'returned', transferId: transfer._id, wasConfirmed } as const
      await requireStep(ctx, payout, event, `${transfer._id}/${newStepId()}`, session)
    }
  } else {
    // A transfer may be held, or be missing from the chain again, more than once.
    const isRepeatable = to === 'held' || transfer.state === 'held'
    const attempt = isRepeatable ? `${transfer._id}/${newStepId()}` : transfer._id
    const details: EntryDetails = { tx: transfer.tx, attempt, undoes }
    const entries = own.map((payout) => [payout, payoutEntry(payout, to, at, details)] as const)
    await ctx.payouts.addEntries(new Map(entries), session)
    for (const payout of own) await purposeOf(ctx, payout).payoutMoved?.(ctx, payout, to, session)
  }
}

/**
 * Books a transfer that is in the chain, and logs `others`: payouts of it that were paid otherwise.
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
  for (const { _id, state, transfer_id: other, tx } of others) {
    const about = { payout_id: _id, transfer_id: transfer._id, paid_by: other ?? tx, payout_state: state }
    ctx.log.error(about, 'a payout paid otherwise is in a confirmed transfer: it may have been paid twice')
  }
  const at = nowSeconds(ctx)
  await ctx.journal.write(transferLines(transfer, own, at, step), session)
  const { kind, account_index: index, payment_ids: arrived } = transfer
  if (kind === 'receive' && index === TREASURY_INDEX && arrived.length > 0)
    await ctx.invoices.setSwept(arrived, at, session)
}

/**
 * Stores and books transfers that only the chain knew.
 *
 * @throws a duplicate-key error if one is on record; Overtaken if an arrival of theirs is gone
 */
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
  for (const arrival of await ctx.invoices.listUnclaimed(tx, session)) {
    const update = decideArrival(arrival, { step: 'own' }, at)
    if (update.kind === 'moves') await storeStep(ctx, arrival, update, session)
  }
}

/**
 * Reverses the journal lines of a transfer that are not reversed yet. Versions before schema 2 booked with it what it
 * took in, which has a record of its own.
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
}

/** Stores that the node refused a transfer. After 10 minutes of refusals it is held: offered, but rarely. */
export async function noteRefusal(ctx: Context, transfer: TransferRecord, reason: string): Promise<void> {
  const at = nowSeconds(ctx)
  const refused = countRefusal(transfer, reason, at)
  await ctx.payouts.setRefused(transfer._id, refused)
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
    const before = await ctx.payouts.findTransfer(transfer._id, session)
    if (before === undefined) return false
    const details = { reason: 'it is in the chain after all', place }
    if ((await storeTransferStep(ctx, before, 'reinstated', details, session)).kind === 'stays') return false
    const carried = await ctx.payouts.findMany(transfer.payout_ids, session)
    const own = carried.filter(({ state }) => state === 'owed')
    for (const payout of own) {
      const attempt = `${transfer._id}/${newStepId()}`
      await requireStep(ctx, payout, { step: 'reinstated', transfer }, attempt, session)
    }
    const others = carried.filter(({ state }) => state !== 'owed')
    await bookTransfer(ctx, before, { own, others, step: newStepId() }, session)
    return true
  })
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
    if (await movePayout(ctx, payoutId, { step: 'held', by: heldBy }, attempt)) held.push(payoutId)
  }
  return held
}

/** Takes a payout's step in a transaction of its own. @returns whether it was taken */
function movePayout(ctx: Context, payoutId: string, event: PayoutEvent, attempt: string): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const [payout] = await ctx.payouts.findMany([payoutId], session)
    if (payout === undefined) return false
    return (await takeStep(ctx, payout, event, attempt, session)).kind === 'moves'
  })
}

/**
 * Decides what an event makes of a payout and stores it, with its ledger entry, its journal lines and what its
 * order notes of it.
 *
 * @param payout as it was read in this transaction
 * @param attempt see decidePayout()
 * @returns the decision; nothing is written if the payout stays
 * @throws Overtaken if the payout is another than was read
 */
async function takeStep(
  ctx: Context,
  payout: StoredPayout,
  event: PayoutEvent,
  attempt: string | undefined,
  session: Session,
) {
  const decision = decidePayout(payout, event, nowSeconds(ctx), attempt)
  if (decision.kind === 'stays') return decision
  await ctx.payouts.move(payout, decision, session)
  if (decision.lines.length > 0) await ctx.journal.write(decision.lines, session)
  await purposeOf(ctx, payout).payoutMoved?.(ctx, payout, decision.told, session)
  return decision
}

/** Takes a payout's step that has to be possible, like takeStep(). @throws Error if the payout stays */
async function requireStep(...[ctx, payout, event, attempt, session]: Parameters<typeof takeStep>) {
  const decision = await takeStep(ctx, payout, event, attempt, session)
  if (decision.kind === 'moves') return
  const hold = decision.because === 'state' ? '' : ` (${decision.because})`
  throw new Error(`payout ${payout._id} is ${payout.state}${hold}, so it can't be ${event.step}`)
}

/**
 * Takes the operator's word that a payout was not paid by what it is held for, or by a send that the database
 * did not know and that went to its address. It is owed again, and sent once such a send is accounted for. If a
 * transfer of another wallet carries it, all payouts in that are owed again.
 *
 * @returns false if it is not held, and no such send went to its address
 */
export async function oweAgain(ctx: Context, payoutId: string): Promise<boolean> {
  const [payout] = await ctx.payouts.findMany([payoutId])
  if (payout === undefined) return false
  const { held_by: heldBy, cleared_of: before = [] } = payout
  const transfer = await ctx.payouts.findTransfer(payout.transfer_id ?? '')
  if (transfer?.foreign === true)
    return moveTransfer(ctx, transfer, 'given_up', 'the operator found that it paid nobody')
  const sends = (await ctx.payouts.listUnknownSends(payout.coin)).filter(
    (send) => send._id === heldBy || wentTo(send, payout.address),
  )
  const cleared_of = [...new Set([...before, ...sends.map(({ _id }) => _id)])]
  return freePayout(ctx, payoutId, cleared_of)
}

/** Ends the hold of payouts that the operator has found unpaid by this send, which is accounted for now. */
export async function freeCleared(ctx: Context, { coin, _id: sendId }: UnexplainedSend): Promise<void> {
  for (const { _id, cleared_of: cleared = [] } of await ctx.payouts.listHeldBy(coin, sendId))
    if (cleared.includes(sendId)) await freePayout(ctx, _id, cleared)
}

function freePayout(ctx: Context, payoutId: string, clearedOf: string[]): Promise<boolean> {
  return movePayout(ctx, payoutId, { step: 'cleared', of: clearedOf }, newStepId())
}

/**
 * Stores that the operator has accounted for a transaction which the database did not know.
 *
 * @returns false if it needs no explanation, or the coin was never reconciled to the end
 */
export async function explainTransfer(ctx: Context, coin: Coin, tx: string): Promise<boolean> {
  const transfer = await ctx.payouts.findTransferByTx(coin, tx)
  const reconciliation = await ctx.journal.reconciliations.last(coin)
  if (transfer === undefined || reconciliation === undefined) return false
  const { _id } = reconciliation
  const data = { reconciliation_id: _id, step: 'explained', coin, transfer_id: transfer._id }
  const source = `${_id}/explained/${transfer._id}`
  const entry: PendingEntry = { source, at: nowSeconds(ctx), kind: 'reconcile', data }
  return ctx.database.transaction(async (session) => {
    if (!(await ctx.payouts.setExplained(coin, tx, session))) return false
    await ctx.journal.reconciliations.addEntry(_id, entry, session)
    return true
  })
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
    const [payout] = await ctx.payouts.findMany([payoutId], session)
    if (payout === undefined) return false
    const transfer = await ctx.payouts.findTransfer(payout.transfer_id ?? '', session)
    const isGivenUp = transfer?.foreign === true && transfer.state !== 'confirmed'
    const given = isGivenUp ? { transferId: transfer._id } : {}
    const event: PayoutEvent = { step: 'paid_by_hand', tx, isAddressNamed, ...given }
    // It may have been paid by hand before, and that taken back.
    const { kind } = await takeStep(ctx, payout, event, newStepId(), session)
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
  await ctx.coins.claim(coin, tx, session)
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
    const [now] = await ctx.payouts.findMany([payoutId], session)
    if (now === undefined) return undefined
    const taken = await takeStep(ctx, now, { step: 'paid_in_part' }, undefined, session)
    if (taken.kind === 'stays') return undefined
    await ctx.payouts.insert([part, rest], session)
    const lines = [part, rest].flatMap((payout) => payoutLine(payout, 'owed', at))
    await ctx.journal.write(lines, session)
    const event = { step: 'paid_by_hand', tx, isAddressNamed: false } as const
    await requireStep(ctx, { ...part, state: 'owed' }, event, attempt, session)
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
  movePayout(ctx, payoutId, { step: 'hand_undone', mayStandBy: heldBy }, newStepId())

/** Cancels an owed payout, because the money is for somebody else. @throws Error if it is no longer owed */
export async function withdrawPayout(ctx: Context, payoutId: string, session: Session): Promise<void> {
  const [payout] = await ctx.payouts.findMany([payoutId], session)
  if (payout === undefined) throw new Error(`there is no payout ${payoutId}`)
  await requireStep(ctx, payout, { step: 'withdrawn' }, undefined, session)
}
