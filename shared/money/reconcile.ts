import { omitUndefined } from '../platform/omit-undefined.ts'
import { isDuplicateKey } from '../platform/database.ts'
import { pagesOf } from '../platform/records.ts'
import type { Context } from '../context.ts'
import { newId } from '../platform/ids.ts'
import { nowSeconds } from '../platform/time.ts'
import { recordArrival } from './record-arrival.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import { haltToReconcile } from './coin-state.ts'
import type { CoinDriver, Findings, FoundTransaction } from './driver.ts'
import { holdSuspects } from './due-payouts.ts'
import { decideInvoice } from './invoice-steps.ts'
import { isPayment } from './arrival.ts'
import type { InvoiceRecord } from './invoice.ts'
import { adoptTransfers, explainTransfer, newTransfer } from './transfer-service.ts'
import { freeCleared } from './payout-service.ts'
import type { FoundSend, StrayMoney } from './reconciliation-store.ts'
import { listUndecided, unexplainedRecipients } from './unexplained-sends.ts'

/*
 * After a database was restored, or the wallet was used elsewhere or replaced, a reconciliation puts on
 * record what the chain holds, with the coin halted. What is owed to the recipient of a transaction that
 * the database did not know is held until the operator has explained that transaction: so nothing is
 * silently paid twice.
 */

/** @returns `found` sums up what `findings` was given. @param reason why the transactions are on record */
export function startFindings(ctx: Context, coin: Coin, reason: string) {
  const found = { transactions: 0, payments: 0, sends: [] as FoundSend[], stray: [] as StrayMoney[] }
  const findings: Findings = {
    async adoptTransaction(transaction) {
      const adopted = await adoptTransaction(ctx, coin, transaction, reason)
      if (adopted === undefined) return
      found.transactions++
      if (adopted.unexplained_to !== undefined)
        found.sends.push({ tx: adopted.tx, to: adopted.unexplained_to, amount_raw: adopted.amount_raw })
    },
    async recordArrival(arrival) {
      const { tx, addressIndex } = arrival
      const before = await ctx.invoices.arrivals.find(coin, tx, addressIndex)
      if (before?.state === 'settled') return before._id
      const id = await recordArrival(ctx, arrival)
      const after = await ctx.invoices.arrivals.find(coin, tx, addressIndex)
      if (after !== undefined && isPayment(after)) found.payments++
      return id
    },
    noteStray: (money) => void found.stray.push(money),
  }
  return { found, findings }
}

/**
 * Reconciles a coin: puts on record what its chain holds, holds suspect payouts, and resumes the coin.
 *
 * @param takeOver the wallet's treasury, named by the operator if it is not the known one
 * @param _id of the operator's request: one that is done already is not done again, however often its job runs
 * @throws Error if the wallet has another treasury: nothing is changed
 * @throws NodeUnreachable: the coin stays halted, and what was put on record stays; it may be run again
 */
export async function reconcileCoin(
  ctx: Context,
  driver: CoinDriver,
  takeOver?: string,
  _id: string = newId('reconciliation'),
): Promise<void> {
  const { coin } = driver
  await requireTreasury(ctx, driver, takeOver)
  const stopped = await haltToReconcile(ctx, coin, _id)
  if (stopped === undefined) return
  const { reason, record } = stopped
  const { found, findings } = startFindings(ctx, coin, 'found by a reconciliation')
  const { address, height, totalRaw } = await driver.reconcile(record, findings)
  for (const { address_index: index, address } of found.stray)
    await ctx.coins.addresses.noteUnassigned(coin, { index, address })
  const held = await holdSuspects(ctx, coin, _id)
  const foreign = await markForeign(ctx, driver)
  const at = nowSeconds(ctx)
  await ctx.coins.report(coin, { height, grown_at: at }, at)
  const before = record?.treasury_address
  const treasury = { treasury_address: address, ...omitUndefined({ treasury_raw: totalRaw?.toString() }) }
  const result = { _id, coin, at, reason, ...found, held_payout_ids: held, treasury: address }
  await ctx.database.transaction(async (session) => {
    await ctx.journal.reconciliations.insert(
      { ...result, ...omitUndefined({ treasury_before: before }) },
      session,
    )
    // Addresses that were made meanwhile, after another run of this job, stay: the insert fails then.
    await ctx.coins.addresses.retireFree(coin, session)
    await ctx.coins.noteTreasury(coin, treasury, session)
    await ctx.coins.resume(coin, session)
  })
  if (before !== address) ctx.log.warn({ coin, before, treasury: address }, 'this wallet is taken over')
  const counts = { sends: found.sends.length, held: held.length, stray: found.stray.length, foreign }
  const { transactions, payments } = found
  const about = { reconciliation_id: _id, transactions, payments, ...counts }
  ctx.log.warn(about, `${COIN_UNITS[coin].name} is reconciled and goes on`)
}

/** @throws Error if the wallet has another treasury than the operator named, or than the database knows */
async function requireTreasury(ctx: Context, { coin, addresses }: CoinDriver, takeOver?: string) {
  const own = await addresses.treasury()
  const known = (await ctx.coins.findCoin(coin))?.treasury_address
  if (own !== (takeOver ?? known ?? own))
    throw new Error(
      `This wallet has the treasury ${own}, and not ${takeOver ?? known}: "operator reconcile ${coin} --take-over ${own}" takes it over.`,
    )
}

const MARKED_AT_ONCE = 100

/**
 * Marks as foreign the unexpired invoices whose address is not of this wallet, and unmarks the other
 * unexpired ones.
 *
 * @returns how many are foreign now
 */
async function markForeign(ctx: Context, driver: CoinDriver): Promise<number> {
  let count = 0
  const readPage = (after: string) => ctx.invoices.listUnexpired(driver.coin, after, MARKED_AT_ONCE)
  for await (const page of pagesOf(readPage)) {
    const ownAddresses = await driver.addressesAt(page.map(({ address_index: index }) => index))
    const isForeign = ({ address, address_index: index }: InvoiceRecord): boolean =>
      ownAddresses.get(index) !== address
    const at = nowSeconds(ctx)
    const happens = (step: 'foreign' | 'own_again') => (invoice: InvoiceRecord) =>
      isForeign(invoice) === (step === 'foreign') && decideInvoice(invoice, step, at).kind === 'happens'
    await ctx.invoices.setForeign(page.filter(happens('foreign')), true)
    await ctx.invoices.setForeign(page.filter(happens('own_again')), false)
    count += page.filter(isForeign).length
  }
  return count
}

/**
 * Stores a transaction of ours that the database did not know, as confirmed. One that sent money away stays
 * unexplained until the operator accounts for it.
 *
 * @returns undefined if it is on record
 */
export async function adoptTransaction(ctx: Context, coin: Coin, found: FoundTransaction, reason: string) {
  const { amountRaw, to: _to, sent: _sent, paymentIds = [], ...transaction } = found
  const unexplained = await unexplainedRecipients(ctx, coin, found)
  const transfer = newTransfer(ctx, {
    coin,
    ...transaction,
    amount_raw: String(amountRaw),
    payment_ids: [...paymentIds],
    payout_ids: [],
    state: 'confirmed',
    reason,
    ...(unexplained.length === 0 ? {} : { unexplained_to: unexplained }),
  })
  try {
    await adoptTransfers(ctx, [transfer])
    return transfer
  } catch (error) {
    if (isDuplicateKey(error)) return undefined
    throw error
  }
}

/** What came of the operator's word that a send is accounted for. */
export type Explained =
  | { readonly kind: 'explained'; readonly resumedOrderIds: readonly string[] }
  /** It may have paid these, and the operator has to say so of each first. */
  | {
      readonly kind: 'undecided'
      readonly payoutIds: readonly string[]
      readonly orderIds: readonly string[]
    }
  /** It needs no explanation, or the database didn't know it and the coin was never reconciled to the end. */
  | { readonly kind: 'unknown' }

/**
 * Takes the operator's word that a transaction which paid a payout again is accounted for; or one which the database
 * did not know, once all that it may have paid is decided. Orders that are disputed because of that alone go on.
 */
export async function accountForSend(ctx: Context, coin: Coin, tx: string): Promise<Explained> {
  const isPaidAgain = (await ctx.payouts.transfers.listPaidAgain(coin)).some((one) => one.tx === tx)
  if (isPaidAgain) {
    const isNew = await ctx.payouts.transfers.setExplained(coin, tx)
    return isNew ? { kind: 'explained', resumedOrderIds: [] } : { kind: 'unknown' }
  }
  const send = (await ctx.payouts.transfers.listUnexplained(coin)).find((one) => one.tx === tx)
  if (send === undefined || (await ctx.journal.reconciliations.last(coin)) === undefined)
    return { kind: 'unknown' }
  const { payouts, orderIds } = await listUndecided(ctx, send)
  if (payouts.length + orderIds.length > 0)
    return { kind: 'undecided', payoutIds: payouts.map(({ _id }) => _id), orderIds }
  // The orders first: if this ends between the two, it is done again.
  const resumedOrderIds = await ctx.purposes.order.cleared(ctx, send)
  if (!(await explainTransfer(ctx, coin, tx))) return { kind: 'unknown' }
  await freeCleared(ctx, send)
  return { kind: 'explained', resumedOrderIds }
}
