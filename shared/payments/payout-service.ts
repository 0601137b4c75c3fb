import { given } from '../foundation/given.ts'
import type { Context } from '../context.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { isDuplicateKey, isOutage, Overtaken, requireOwn, type Session } from '../servers/database.ts'
import { LeaseLost } from '../servers/lease-store.ts'
import { newId, newStepId } from '../foundation/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { nowSeconds } from '../foundation/time.ts'
import type { Coin } from './coin.ts'
import { broughtBy, payoutLine, reverse, sourceOf, transferLines } from './journal.ts'
import { logTransfer } from './money-log.ts'
import { payoutMark, type PayoutChange, type PayoutFrom } from './payout-store.ts'
import { isRefusedForLong, OPEN_TRANSFERS, refuse } from './payout.ts'
import type { PayoutRecord, PayoutState, StoredPayout, TransferRecord, TransferState } from './payout.ts'
import { purposeOf } from './purpose.ts'

/** With its ledger entry; store it in the transaction of what it is owed for. */
export function newPayout(fields: {
  source: string
  coin: Coin
  agentId: string
  orderId: string
  amountRaw: bigint
  address: string | undefined
  at: number
}): PayoutRecord {
  const { source, coin, agentId, orderId, amountRaw, address, at } = fields
  if (amountRaw <= 0n) throw new TypeError(`"amountRaw" expected more than 0, got ${amountRaw}`)
  const payout: PayoutRecord = {
    _id: newId('payout'),
    source,
    coin,
    agent_id: agentId,
    order_id: orderId,
    amount_raw: String(amountRaw),
    ...given({ address }),
    state: 'owed',
    at,
    changed_at: at,
    salt: newSalt(),
  }
  const entry = payoutEntry(payout, 'owed', at)
  return { ...payout, tells: [payoutMark(payout, entry)], pending: [entry] }
}

/** The amount is in the clear, since sums owed are public. `attempt` tells apart a step taken twice. */
function payoutEntry(
  payout: StoredPayout | PayoutRecord,
  step: PayoutState,
  at: number,
  tx?: string,
  attempt?: string,
  undoes?: 'manual' | 'confirmed',
): PendingEntry {
  return {
    source: `${payout._id}/${step}${attempt === undefined ? '' : `/${attempt}`}`,
    at,
    kind: 'payout',
    data: {
      payout_id: payout._id,
      ...given({ order_id: payout.order_id }),
      coin: payout.coin,
      amount_raw: payout.amount_raw,
      step,
      ...given({ undoes }),
      ...(tx === undefined ? {} : { tx_hash: commitRecord(payout._id, payout.salt, { tx }) }),
    },
  }
}

/**
 * Stores signed transfers with the payouts that they carry, in one transaction, before they may be broadcast.
 * `listed`: the payouts as they were when the transfers were signed.
 *
 * @throws a duplicate-key error if a place is taken
 * @throws Overtaken if the block below was replaced
 * @throws Error if a payout is no longer free, or no longer to the address that was signed for
 */
export async function storeTransfers(
  ctx: Context,
  transfers: readonly TransferRecord[],
  listed: readonly Pick<PayoutRecord, '_id' | 'address'>[] = [],
): Promise<void> {
  const addresses = new Map(listed.map(({ _id, address }) => [_id, address]))
  await ctx.database.transaction(async (session) => {
    await buildOnConfirmed(ctx, transfers, session)
    await insertNamed(ctx, transfers, session)
    for (const transfer of transfers)
      for (const payout of await ctx.payouts.findMany(transfer.payout_ids, session)) {
        if (addresses.has(payout._id) && addresses.get(payout._id) !== payout.address)
          throw new Error(`payout ${payout._id} is no longer to the address that was signed for`)
        await carry(ctx, transfer, payout, { from: 'free', step: 'signed', attempt: transfer._id }, session)
      }
  })
  for (const transfer of transfers) logTransfer(ctx.log, transfer, transfer.state)
}

/** A block built on a replaced one can never be published, and nothing would ever take its place. */
async function buildOnConfirmed(ctx: Context, [first]: readonly TransferRecord[], session: Session) {
  if (first?.account_index === undefined || first.previous === undefined) return
  const before = await ctx.payouts.noteSuccessor(first.coin, first.previous, first.tx, session)
  if (before !== undefined && before.state !== 'confirmed')
    throw new Overtaken(`transfer ${first._id} is built on ${before.tx}, which is ${before.state}`)
}

/** Those that take in money which is under no payment and comes from none of ours say whose it is. */
async function insertNamed(ctx: Context, transfers: readonly TransferRecord[], session: Session) {
  const sources = transfers.flatMap((transfer) => sourceOf(transfer) ?? [])
  const own = new Set(transfers.map(({ tx }) => tx))
  const [first] = transfers
  if (first !== undefined && sources.length > 0) {
    for (const { tx } of await ctx.payouts.listTransfersByTx(first.coin, sources, session)) own.add(tx)
    const others = sources.filter((source) => !own.has(source))
    await ctx.coins.claim(first.coin, others, session)
    for (const { tx, state } of await ctx.invoices.listPaymentsByTx(first.coin, others, session))
      if (state === 'settled') own.add(tx)
  }
  const named = transfers.map((transfer): TransferRecord => ({ ...transfer, ...broughtBy(transfer, own) }))
  await ctx.payouts.insertTransfers(named, session)
  return named
}

/**
 * Stores transfers signed just now.
 *
 * @returns false, with nothing stored, if a place is taken, the block below was replaced, or a payout has
 *   changed
 */
export async function storeOrDrop(...[ctx, transfers, listed]: Parameters<typeof storeTransfers>) {
  try {
    await storeTransfers(ctx, transfers, listed)
    return true
  } catch (error) {
    if (isDuplicateKey(error) || error instanceof Overtaken) return false
    const payoutIds = transfers.flatMap(({ payout_ids: ids }) => ids)
    if (isOutage(error) || error instanceof LeaseLost || payoutIds.length === 0) throw error
    ctx.log.warn(
      { err: error, payout_ids: payoutIds },
      'a payout changed while its transaction was made; the transaction is dropped',
    )
    return false
  }
}

/** @throws Error if the payout is not `from`, or no longer */
async function carry(
  ctx: Context,
  transfer: TransferRecord,
  payout: StoredPayout,
  { from, step, attempt }: { from: PayoutFrom; step: PayoutState; attempt: string },
  session: Session,
): Promise<void> {
  const at = nowSeconds(ctx)
  const change = { state: 'in_transfer' as const, changed_at: at, transfer_id: transfer._id, held_by: null }
  const entry = payoutEntry(payout, step, at, transfer.tx, attempt)
  if (!(await ctx.payouts.move(payout, from, change, entry, session)))
    throw new Error(
      `payout ${payout._id} is ${payout.state}${payout.frozen ? ' and frozen' : ''}, so it cannot go into a transfer`,
    )
}

/** Moves transfers in one of the states `from`, with their payouts' steps. @returns how many were moved */
export async function moveTransfers(
  ctx: Context,
  transfers: readonly TransferRecord[],
  from: readonly TransferState[],
  to: TransferState,
  reason?: string,
): Promise<number> {
  if (transfers.length === 0) return 0
  const moved = await ctx.database.transaction(async (session) => {
    const change = {
      state: to,
      changed_at: nowSeconds(ctx),
      ...given({ reason }),
    }
    const changed: TransferRecord[] = []
    for (const transfer of transfers) {
      if (!(await ctx.payouts.moveTransfer(transfer._id, from, change, session))) continue
      await movePayouts(ctx, transfer, to, session)
      changed.push(transfer)
    }
    return changed
  })
  for (const transfer of moved) logTransfer(ctx.log, transfer, to)
  return moved.length
}

/** @returns whether it was in one of the states `from` */
export const moveTransfer = async (
  ctx: Context,
  transfer: TransferRecord,
  from: readonly TransferState[],
  to: TransferState,
  reason?: string,
): Promise<boolean> => (await moveTransfers(ctx, [transfer], from, to, reason)) === 1

/** @returns false if one on record is built on it, which has to go first, or it is replaced */
export function replaceTransfer(ctx: Context, transfer: TransferRecord, reason: string): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const { _id, account_index: index, tx } = transfer
    if (index !== undefined && (await ctx.payouts.findSuccessor(index, tx, session)) !== undefined)
      return false
    const change = { state: 'replaced' as const, changed_at: nowSeconds(ctx), reason }
    if (!(await ctx.payouts.moveTransfer(_id, [...OPEN_TRANSFERS, 'confirmed'], change, session)))
      return false
    await movePayouts(ctx, transfer, 'replaced', session)
    return true
  })
}

async function movePayouts(ctx: Context, transfer: TransferRecord, to: TransferState, session: Session) {
  const at = nowSeconds(ctx)
  const carried =
    transfer.payout_ids.length === 0 ? [] : await ctx.payouts.findMany(transfer.payout_ids, session)
  const undoes = transfer.state === 'confirmed' && to !== 'confirmed' ? 'confirmed' : undefined
  const own = carried.filter(({ transfer_id: id, state }) => state === 'in_transfer' && id === transfer._id)
  const others = carried.filter((payout) => !own.includes(payout))
  if (to === 'confirmed') await enterChain(ctx, transfer, { own, others }, session)
  if (to === 'replaced') {
    await leaveChain(ctx, transfer, session)
    for (const payout of own) {
      const change = { state: 'owed' as const, changed_at: at, transfer_id: null }
      const entry = payoutEntry(payout, 'owed', at, undefined, `${transfer._id}/${newStepId()}`, undoes)
      const moved = ctx.payouts.move(payout, { transferId: transfer._id }, change, entry, session)
      await requireOwn(moved, `payout ${payout._id}`)
    }
  } else {
    // A transfer may be held, and lack in the chain, more than once.
    const attempt =
      to === 'held' || transfer.state === 'held' ? `${transfer._id}/${newStepId()}` : transfer._id
    const entryOf = (payout: StoredPayout) => payoutEntry(payout, to, at, transfer.tx, attempt, undoes)
    await ctx.payouts.addEntries(new Map(own.map((payout) => [payout, entryOf(payout)])), session)
  }
  for (const payout of own)
    await purposeOf(ctx, payout).payoutMoved(ctx, payout, to === 'replaced' ? 'owed' : to, session)
}

async function enterChain(
  ctx: Context,
  transfer: TransferRecord,
  { own, others, step }: { own: readonly StoredPayout[]; others: readonly StoredPayout[]; step?: string },
  session: Session,
): Promise<void> {
  noteTwicePaid(ctx, transfer, others)
  // What it brings was found out when it was stored: whoever signed it has it without.
  const stored =
    sourceOf(transfer) === undefined ? transfer : await ctx.payouts.findTransfer(transfer._id, session)
  const lines = transferLines(stored ?? transfer, own, nowSeconds(ctx), step)
  await ctx.journal.write(lines, session)
}

/** That the chain has and the database did not know. @throws as storeTransfers() */
export async function adoptTransfers(ctx: Context, transfers: readonly TransferRecord[]): Promise<void> {
  await ctx.database.transaction(async (session) => {
    for (const transfer of await insertNamed(ctx, transfers, session)) {
      await enterChain(ctx, transfer, { own: [], others: [] }, session)
      // What it sent to another account of ours may have been found there before.
      const taker = await ctx.payouts.claimBrought(transfer.coin, transfer.tx, session)
      if (taker !== undefined) await leaveChain(ctx, taker, session)
    }
  })
}

async function leaveChain(ctx: Context, transfer: TransferRecord, session: Session): Promise<void> {
  const lines = await ctx.journal.list({ transfer_id: transfer._id }, Number.MAX_SAFE_INTEGER, session)
  // What was taken back before, and its lines anew, come to nothing together but for the last time.
  const ids = new Set(lines.map(({ _id }) => _id))
  const standing = lines.filter(({ _id }) => !_id.endsWith('/undone') && !ids.has(`${_id}/undone`))
  const reversed = standing.map((line) => reverse(line, 'undone', nowSeconds(ctx)))
  await ctx.journal.write(reversed, session)
}

function noteTwicePaid(ctx: Context, transfer: TransferRecord, payouts: readonly StoredPayout[]): void {
  for (const { _id, state, transfer_id: other, tx } of payouts)
    ctx.log.error(
      { payout_id: _id, transfer_id: transfer._id, paid_by: other ?? tx, payout_state: state },
      'a payout was paid otherwise, and the transfer that carried it is in the chain after all: it may have been paid twice',
    )
}

/** After long refusal a transfer is held: still offered, and the operator is told. */
export async function noteRefusal(ctx: Context, transfer: TransferRecord, reason: string): Promise<void> {
  const at = nowSeconds(ctx)
  const refused = refuse(transfer, reason, at)
  await ctx.payouts.setRefused(transfer._id, refused)
  const { _id: transfer_id, tx, payout_ids } = transfer
  const about = { transfer_id, tx, payout_ids, reason, refusals: refused.count }
  if (!isRefusedForLong({ refused }, at))
    ctx.log.warn(about, 'a transaction of ours is refused; it will be offered again')
  else if ((await moveTransfers(ctx, [transfer], ['signed', 'sent'], 'held', `it is refused: ${reason}`)) > 0)
    ctx.log.error(about, 'a transaction of ours has been refused for long; it is offered with longer pauses')
}

/**
 * Nothing may stand at `place`. Payouts that something else has stay there.
 *
 * @returns false if not replaced
 */
export async function takeBack(
  ctx: Context,
  transfer: TransferRecord,
  place?: Pick<TransferRecord, 'account_index' | 'previous'>,
): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const at = nowSeconds(ctx)
    const change = {
      state: 'confirmed' as const,
      changed_at: at,
      reason: 'it is in the chain after all',
      ...(place && { place }),
    }
    if (!(await ctx.payouts.moveTransfer(transfer._id, ['replaced'], change, session))) return false
    const carried = await ctx.payouts.findMany(transfer.payout_ids, session)
    const own = carried.filter(({ state }) => state === 'owed')
    for (const payout of own) {
      const attempt = `${transfer._id}/${newStepId()}`
      await carry(ctx, transfer, payout, { from: 'owed', step: 'confirmed', attempt }, session)
      await purposeOf(ctx, payout).payoutMoved(ctx, payout, 'confirmed', session)
    }
    const others = carried.filter(({ state }) => state !== 'owed')
    await enterChain(ctx, transfer, { own, others, step: newStepId() }, session)
    return true
  })
}

/**
 * An unexplained transaction may have paid them; only free ones are held. `because` goes into the entry's
 * source.
 *
 * @returns the ids of those held now
 */
export async function holdPayouts(
  ctx: Context,
  payoutIds: readonly string[],
  heldBy: string,
  because = heldBy,
): Promise<string[]> {
  const held: string[] = []
  for (const payoutId of payoutIds) {
    // Out here, so that a transaction that is run again makes the same entry.
    const attempt = `${because}/${newStepId()}`
    const change = { state: 'owed', held_by: heldBy } as const
    if (await moveOne(ctx, payoutId, { from: 'free', change, to: 'held', attempt })) held.push(payoutId)
  }
  return held
}

/** In a transaction. @returns false if it is not in the expected state */
function moveOne(ctx: Context, payoutId: string, step: OwnStep): Promise<boolean> {
  return ctx.database.transaction(async (session) => {
    const [payout] = await ctx.payouts.findMany([payoutId], session)
    return payout !== undefined && takeOwnStep(ctx, payout, step, session)
  })
}

interface OwnStep {
  from: PayoutFrom
  change: Omit<PayoutChange, 'changed_at'>
  to: PayoutState
  tx?: string
  attempt?: string
  /** How it moves money. */
  line?: 'manual' | 'unpaid'
  /** The step that an earlier entry said, and that is true no more. */
  undoes?: 'manual'
}

async function takeOwnStep(
  ctx: Context,
  payout: StoredPayout,
  { from, change, to, tx, attempt, line, undoes }: OwnStep,
  session: Session,
): Promise<boolean> {
  const at = nowSeconds(ctx)
  const entry = payoutEntry(payout, to, at, tx, attempt, undoes)
  if (!(await ctx.payouts.move(payout, from, { ...change, changed_at: at }, entry, session))) return false
  if (line !== undefined) await ctx.journal.write(payoutLine(payout, `${line}/${attempt}`, at), session)
  await purposeOf(ctx, payout).payoutMoved(ctx, payout, to, session)
  return true
}

/** All that a transfer of another wallet carried is owed again. @returns false if it is not held so */
export async function oweAgain(ctx: Context, payoutId: string): Promise<boolean> {
  const [payout] = await ctx.payouts.findMany([payoutId])
  const transfer =
    payout?.transfer_id === undefined ? undefined : await ctx.payouts.findTransfer(payout.transfer_id)
  if (transfer?.foreign === true)
    return moveTransfer(ctx, transfer, OPEN_TRANSFERS, 'replaced', 'the operator found that it paid nobody')
  const change = { state: 'owed', held_by: null } as const
  return moveOne(ctx, payoutId, { from: 'held', change, to: 'owed', attempt: newStepId() })
}

/** @returns false if it does not wait to be accounted for, or the coin was never reconciled to the end */
export async function explainTransfer(ctx: Context, coin: Coin, tx: string): Promise<boolean> {
  const [transfer, reconciliation] = await Promise.all([
    ctx.payouts.findTransferByTx(coin, tx),
    ctx.reconciliations.last(coin),
  ])
  if (transfer === undefined || reconciliation === undefined) return false
  const entry: PendingEntry = {
    source: `${reconciliation._id}/explained/${transfer._id}`,
    at: nowSeconds(ctx),
    kind: 'reconcile',
    data: { reconciliation_id: reconciliation._id, step: 'explained', coin, transfer_id: transfer._id },
  }
  return ctx.database.transaction(async (session) => {
    if (!(await ctx.payouts.setExplained(coin, tx, session))) return false
    await ctx.reconciliations.addEntry(reconciliation._id, entry, session)
    return true
  })
}

/** Only a transfer of another wallet gives its payouts up. @returns false if it can't be paid by hand */
export async function markPaidByHand(ctx: Context, payoutId: string, tx: string, isAddressNamed = false) {
  return ctx.database.transaction(async (session) => {
    const [payout] = await ctx.payouts.findMany([payoutId], session)
    if (payout?.address === undefined || payout.frozen === true) return false
    const transfer =
      payout.transfer_id === undefined
        ? undefined
        : await ctx.payouts.findTransfer(payout.transfer_id, session)
    const isGivenUp = transfer?.foreign === true && transfer.state !== 'confirmed'
    const from: PayoutFrom = isGivenUp ? { transferId: transfer._id } : 'owed'
    const named_address = isAddressNamed ? (true as const) : null
    const change = { state: 'manual' as const, tx, held_by: null, transfer_id: null, named_address }
    // It may have been paid so before, and that taken back.
    const step = { from, change, to: 'manual', tx, attempt: newStepId(), line: 'manual' } as const
    return takeOwnStep(ctx, payout, step, session)
  })
}

/**
 * A transaction has paid a part of it: two payouts take its place, the part, paid by hand, and the rest.
 *
 * @returns undefined if it can't be paid by hand
 */
export async function markPartPaid(
  ctx: Context,
  payoutId: string,
  tx: string,
  paidRaw: bigint,
): Promise<{ part: PayoutRecord; rest: PayoutRecord } | undefined> {
  const whole = await ctx.payouts.find(payoutId)
  if (whole?.order_id === undefined || whole.address === undefined) return undefined
  const { source, coin, agent_id: agentId, order_id: orderId, address } = whole
  const at = nowSeconds(ctx)
  const [attempt, wholeRaw] = [newStepId(), BigInt(whole.amount_raw)]
  const [part, rest] = (['part', 'rest'] as const).map((name) => {
    const amountRaw = name === 'part' ? paidRaw : wholeRaw - paidRaw
    return newPayout({ source: `${source}/${name}`, coin, agentId, orderId, amountRaw, address, at })
  }) as [PayoutRecord, PayoutRecord]
  return ctx.database.transaction(async (session) => {
    const [now] = await ctx.payouts.findMany([payoutId], session)
    if (now?.state !== 'owed' || now.frozen === true) return undefined
    await withdrawPayout(ctx, whole, session)
    await ctx.payouts.insert([part, rest], session)
    await ctx.journal.write(
      [part, rest].flatMap((payout) => payoutLine(payout, 'owed', at)),
      session,
    )
    const change = { state: 'manual' as const, tx }
    const step: OwnStep = { from: 'owed', change, to: 'manual', tx, attempt, line: 'manual' }
    await requireOwn(takeOwnStep(ctx, { ...part, state: 'owed' }, step, session), `payout ${part._id}`)
    return { part, rest }
  })
}

/** @returns false if it was not recorded so */
export const undoPaidByHand = (ctx: Context, payoutId: string): Promise<boolean> =>
  moveOne(ctx, payoutId, {
    from: 'manual',
    change: { state: 'owed', tx: null, named_address: null },
    to: 'owed',
    attempt: newStepId(),
    line: 'unpaid',
    undoes: 'manual',
  })

/** @throws Error if it is not owed any more */
export async function withdrawPayout(ctx: Context, payout: PayoutRecord, session: Session): Promise<void> {
  const at = nowSeconds(ctx)
  const change = { state: 'withdrawn' as const, changed_at: at }
  if (!(await ctx.payouts.move(payout, 'owed', change, payoutEntry(payout, 'withdrawn', at), session)))
    throw new Error(`payout ${payout._id} is not owed, so it cannot be withdrawn`)
  await ctx.journal.write(payoutLine(payout, 'withdrawn', at), session)
}
