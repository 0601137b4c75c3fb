import { createHash, randomBytes } from 'node:crypto'
import type { Context } from '../../shared/context.ts'
import { newId } from '../../shared/platform/ids.ts'
import { parseAmount, type Coin } from '../../shared/money/coin.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import type { SeenPayment } from '../../shared/money/arrival.ts'
import { payoutLine } from '../../shared/money/journal.ts'
import { newPayout } from '../../shared/money/payout-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { recordPayment } from './told-chain.ts'

export interface ReadyCoin {
  /** USD per coin; 1 where absent. */
  rate?: string
  /** Free addresses that are added; 100 where absent. */
  addresses?: number
  /** False: no round over all addresses has come to its end. True where absent. */
  isRound?: boolean
}

/**
 * Tells the API what the coin's worker would: the chain in reach, a pool of addresses, a rate. May be told
 * again, as a living worker does.
 */
export async function makeCoinReady(
  ctx: Context,
  coin: Coin,
  { rate = '1', addresses = 100, isRound = true }: ReadyCoin = {},
): Promise<void> {
  const now = unixSeconds(ctx.database.now())
  await ctx.coins.report(
    coin,
    {
      ...{
        configured: true,
        reachable: true,
        checked_at: now,
        required_confirmations: coin === 'xno' ? 1 : 10,
      },
      ...(isRound ? { round_at: now } : {}),
    },
    now,
  )
  await ctx.coins.notePool(coin, now)
  await setRate(ctx, coin, rate)
  await addAddresses(ctx, coin, addresses)
}

export async function setRate(ctx: Context, coin: Coin, usd: string): Promise<void> {
  await ctx.coins.saveRate({
    _id: coin,
    usd,
    source: 'two exchanges of this test',
    at: unixSeconds(ctx.database.now()),
  })
}

/** Makes the coin's rate as old as that. */
export async function ageRate(ctx: Context, coin: Coin, ms: number): Promise<void> {
  await ctx.coins.models.rates.updateOne({ _id: coin }, { $inc: { at: -Math.floor(ms / 1_000) } })
}

export async function addAddresses(ctx: Context, coin: Coin, count: number): Promise<void> {
  const from = (await ctx.coins.addresses.highestIndex(coin)) + 1
  const records = Array.from({ length: count }, (_, place) => {
    const index = from + place
    return {
      _id: `${coin}:${index}`,
      coin,
      index,
      address: addressOf(`${ctx.database.connection.name} ${coin} ${index}`, coin),
      state: 'free' as const,
      holder: ctx.coins.addresses.stock(coin).holder,
    }
  })
  if (count > 0) await ctx.coins.addresses.add(records)
}

/** Text of an address's length; nobody has its key. */
function addressOf(name: string, coin: Coin): string {
  const digest = createHash('sha512').update(name).digest('hex')
  return coin === 'xno' ? `nano_1${digest.replace(/[02l]/g, '3').slice(0, 59)}` : `8${digest.slice(0, 94)}`
}

export interface Pay {
  /** Decimal text of coins. */
  amount: string
  tx?: string
  /** True where absent. */
  confirmed?: boolean
  confirmations?: number
}

/** What a worker found at the invoice's address. */
export function foundAt(
  invoice: Pick<InvoiceRecord, 'coin' | 'address_index'>,
  { amount, tx = newTx(), confirmed = true, confirmations }: Pay,
): SeenPayment {
  const { coin, address_index: addressIndex } = invoice
  return {
    coin,
    tx,
    addressIndex,
    amountRaw: parseAmount(amount, coin),
    confirmations: confirmations ?? (confirmed ? 10 : 0),
    isConfirmed: confirmed,
  }
}

/** A payment arrives at the invoice's address and a worker finds it. @returns its transaction */
export async function pay(ctx: Context, invoiceId: string, payment: Pay): Promise<string> {
  const invoice = await ctx.invoices.find(invoiceId)
  if (invoice === undefined) throw new Error(`there is no invoice ${invoiceId}`)
  const found = foundAt(invoice, payment)
  if ((await recordPayment(ctx, found)) !== invoiceId)
    throw new Error('the payment was not taken to its invoice')
  return found.tx
}

export function newTx(): string {
  return randomBytes(32).toString('hex')
}

/**
 * Stores a sum owed to nobody in particular at an address, and of no order: the market has tests of its own.
 */
export async function owe(
  ctx: Context,
  coin: Coin,
  amountRaw: bigint,
  address: string,
  agentId = newId('agent'),
): Promise<PayoutRecord> {
  const payout = newPayout({
    source: `${newId('order')}/release`,
    coin,
    agentId,
    orderId: newId('order'),
    amountRaw,
    address,
    at: unixSeconds(ctx.database.now()),
  })
  delete payout.order_id
  payout.pending =
    payout.pending?.map((entry) => {
      const { order_id: _, ...data } = entry.data
      return { ...entry, data }
    }) ?? []
  await ctx.database.transaction(async (session) => {
    await ctx.payouts.insert([payout], session)
    await ctx.journal.write(payoutLine(payout, 'owed', payout.at), session)
  })
  return payout
}

/** Takes back what owe() stored, with the books as before, so that later tests have nothing of it to pay. */
export async function disown(ctx: Context, ...payouts: readonly PayoutRecord[]): Promise<void> {
  const at = unixSeconds(ctx.database.now())
  await ctx.database.transaction(async (session) => {
    await ctx.payouts.models.payouts.deleteMany({ _id: { $in: payouts.map(({ _id }) => _id) } }, { session })
    for (const payout of payouts) await ctx.journal.write(payoutLine(payout, 'withdrawn', at), session)
  })
}

export async function readPayout(ctx: Context, payoutId: string): Promise<PayoutRecord> {
  const found = await ctx.payouts.find(payoutId)
  if (found === undefined) throw new Error(`there is no payout ${payoutId}`)
  return found
}
