import { isDuplicateKey } from '../servers/database.ts'
import { pagesOf } from '../servers/records.ts'
import type { Context } from '../context.ts'
import { newId } from '../foundation/ids.ts'
import { nowSeconds } from '../foundation/time.ts'
import { COIN_UNITS, type Coin } from './coin.ts'
import { stopToReconcile } from './coin-round.ts'
import type { CoinDriver } from './driver.ts'
import { holdSuspects } from './due-payouts.ts'
import type { InvoiceRecord, SeenPayment } from './invoice.ts'
import { adoptTransfers } from './payout-service.ts'
import type { TransferRecord } from './payout.ts'
import type { FoundSend, StrayMoney } from './reconciliation-store.ts'
import { recordPayment } from './settlement.ts'

/*
 * After a database was restored, or the wallet was used elsewhere or replaced: what its chain holds is put on
 * record, with the coin stopped. Whatever is owed to the recipient of a transaction that the database did not
 * know is held, now and later, until the operator has explained it: so no forgotten payout is made twice in
 * silence. Money that came to an invoice is counted, once.
 */

/** A transaction of ours that the database does not know, as the chain has it. */
export interface FoundTransaction extends Pick<
  TransferRecord,
  'kind' | 'account_index' | 'previous' | 'tx' | 'signed' | 'fee_raw'
> {
  readonly amountRaw: bigint
  /** Where it sent money to outside the wallet; empty if nowhere. */
  readonly to: readonly string[]
  /** How much to each, if the wallet knows. */
  readonly sent?: readonly { readonly address: string; readonly amountRaw: bigint }[]
  readonly paymentIds?: readonly string[]
}

export interface Findings {
  adopt(found: FoundTransaction): Promise<void>
  /** Counts a payment, once. @returns its id; undefined if no invoice has the address */
  count(payment: SeenPayment): Promise<string | undefined>
  stray(money: StrayMoney): void
}

/** @param reason why it is on record */
export function startFindings(ctx: Context, coin: Coin, reason: string) {
  const found = { transactions: 0, payments: 0, sends: [] as FoundSend[], stray: [] as StrayMoney[] }
  const findings: Findings = {
    async adopt(transaction) {
      const adopted = await adoptTransaction(ctx, coin, transaction, reason)
      if (adopted === undefined) return
      found.transactions++
      if (adopted.unexplained_to !== undefined)
        found.sends.push({ tx: adopted.tx, to: adopted.unexplained_to, amount_raw: adopted.amount_raw })
    },
    async count(payment) {
      const before = await ctx.invoices.findPayment(coin, payment.tx, payment.addressIndex)
      if (before?.state === 'settled') return before._id
      await recordPayment(ctx, payment)
      const after = await ctx.invoices.findPayment(coin, payment.tx, payment.addressIndex)
      if (after !== undefined) found.payments++
      return after?._id
    },
    stray: (money) => void found.stray.push(money),
  }
  return { found, findings }
}

/**
 * @param takeOver the treasury that the operator has named, if it is not to be the known one
 * @throws Error for the wallet of another treasury: nothing is changed
 * @throws NodeUnreachable: the coin stays stopped, and what was put on record stays; it may be run again
 */
export async function reconcileCoin(ctx: Context, driver: CoinDriver, takeOver?: string): Promise<void> {
  const { coin } = driver
  const own = await driver.addresses.treasury()
  const known = (await ctx.coins.findCoin(coin))?.treasury_address
  if (own !== (takeOver ?? known ?? own))
    throw new Error(
      `This wallet has the treasury ${own}, and not ${takeOver ?? known}: "operator reconcile ${coin} --take-over ${own}" takes it over.`,
    )
  const { reason, record } = await stopToReconcile(ctx, coin)
  const { found, findings } = startFindings(ctx, coin, 'found by a reconciliation')
  const { address, height, totalRaw } = await driver.reconcile(record, findings)
  for (const { address_index: index, address } of found.stray)
    await ctx.coins.noteUnassigned(coin, { index, address })
  const _id = newId('reconciliation')
  const held = await holdSuspects(ctx, coin, _id)
  await ctx.database.transaction((session) => ctx.coins.retireFree(coin, session))
  const foreign = await markForeign(ctx, driver)
  const at = nowSeconds(ctx)
  await ctx.coins.report(coin, { height, grown_at: at }, at)
  const before = record?.treasury_address
  const treasury = {
    treasury_address: address,
    ...(totalRaw === undefined ? {} : { treasury_raw: String(totalRaw) }),
  }
  const reconciliation = { _id, coin, at, reason, ...found, held_payout_ids: held, treasury: address }
  await ctx.database.transaction(async (session) => {
    await ctx.reconciliations.insert(
      { ...reconciliation, ...(before === undefined ? {} : { treasury_before: before }) },
      session,
    )
    await ctx.coins.noteTreasury(coin, treasury, session)
    await ctx.coins.resume(coin, { session })
  })
  if (before !== address) ctx.log.warn({ coin, before, treasury: address }, 'this wallet is taken over')
  const { transactions, payments, sends, stray } = found
  const about = { reconciliation_id: _id, transactions, payments }

  ctx.log.warn(
    { ...about, sends: sends.length, held: held.length, stray: stray.length, foreign },
    `${COIN_UNITS[coin].name} is reconciled and goes on`,
  )
}

const MARKED_AT_ONCE = 100

/** Or whose wallet is back. @returns how many are marked */
async function markForeign(ctx: Context, driver: CoinDriver): Promise<number> {
  let count = 0
  const readPage = (after: string) => ctx.invoices.listUnexpired(driver.coin, after, MARKED_AT_ONCE)
  for await (const page of pagesOf(readPage)) {
    const own = await driver.addressesAt(page.map(({ address_index: index }) => index))
    const isForeign = ({ address, address_index: index }: InvoiceRecord): boolean =>
      own.get(index) !== address
    for (const is of [true, false]) {
      const changed = page.filter((invoice) => isForeign(invoice) === is && (invoice.foreign === true) !== is)
      await ctx.invoices.setForeign(
        changed.map(({ _id }) => _id),
        is,
      )
    }
    count += page.filter(isForeign).length
  }
  return count
}

/**
 * One that sent money away stays unexplained until the operator accounts for it.
 *
 * @returns undefined if it is on record
 */
export async function adoptTransaction(
  ctx: Context,
  coin: Coin,
  found: FoundTransaction,
  reason: string,
): Promise<TransferRecord | undefined> {
  const { amountRaw, to: _to, sent: _sent, paymentIds = [], ...transaction } = found
  const unexplained = await listUnexplained(ctx, coin, found)
  const at = nowSeconds(ctx)
  const transfer: TransferRecord = {
    _id: newId('transfer'),
    coin,
    ...transaction,
    amount_raw: String(amountRaw),
    payment_ids: [...paymentIds],
    payout_ids: [],
    state: 'confirmed',
    at,
    changed_at: at,
    reason,
    ...(unexplained.length === 0 ? {} : { unexplained_to: unexplained }),
  }
  try {
    await adoptTransfers(ctx, [transfer])
    return transfer
  } catch (error) {
    if (isDuplicateKey(error)) return undefined
    throw error
  }
}

/** All of it to each address, if the wallet knows how much that is. */
export async function listUnexplained(ctx: Context, coin: Coin, { tx, amountRaw, to, sent }: Sending) {
  const paid = await ctx.payouts.listPaidByHand(coin, tx)
  const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n)
  const paidTo = (is: (address: string | undefined) => boolean): bigint =>
    sum(paid.flatMap(({ address, amount_raw: raw }) => (is(address) ? [BigInt(raw)] : [])))
  if (sent === undefined) return paidTo(() => true) === amountRaw ? [] : [...to]
  return to.filter(
    (one) =>
      sum(sent.flatMap(({ address, amountRaw: raw }) => (address === one ? [raw] : []))) !==
      paidTo((address) => address === one),
  )
}

type Sending = Pick<FoundTransaction, 'tx' | 'amountRaw' | 'to' | 'sent'>

/** And they sum up to what it sent. */
export const isPaidByHand = async (ctx: Context, coin: Coin, tx: string, amountRaw: bigint) =>
  (await listUnexplained(ctx, coin, { tx, amountRaw, to: ['its one recipient'] })).length === 0
