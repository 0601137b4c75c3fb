import type { Context } from '../../shared/context.ts'
import { COINS, type Coin } from '../../shared/money/coin.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import * as arrivals from '../../shared/money/record-arrival.ts'
import * as transfers from '../../shared/money/transfer-service.ts'
import type { ChainHoldings } from './money.ts'

/*
 * The chain of suites that have no node: what a test says to the code under test, noted past it. What came in
 * is held here once it is counted, by what was said of it; the rest is on its way.
 */
interface Told {
  /** By coin, transaction and index of the address. */
  arrivals: Map<string, bigint>
  /** By coin and transaction. */
  sent: Map<string, bigint>
}

const chains = new Map<string, Told>()

function chainOf({ database }: Context): Told {
  const { name } = database.connection
  const told = chains.get(name) ?? { arrivals: new Map(), sent: new Map() }
  chains.set(name, told)
  return told
}

/** For the next test that gets the same database. */
export const forgetToldChain = (databaseName: string): boolean => chains.delete(databaseName)

const keyOf = (coin: Coin, tx: string, index: number): string => `${coin}/${tx}/${index}`

/** Payments that a test stores itself, with their lines of the journal. */
export function tellArrivals(ctx: Context, payments: readonly PaymentRecord[]): void {
  const { arrivals } = chainOf(ctx)
  for (const { coin, tx, address_index: index, amount_raw: raw } of payments)
    arrivals.set(keyOf(coin, tx, index), BigInt(raw))
}

/** The same, and its find is in the chain from then on if it is confirmed. */
export const telling =
  (recordPayment: typeof arrivals.recordPayment): typeof arrivals.recordPayment =>
  (ctx, found, by) => {
    const { arrivals } = chainOf(ctx)
    const key = keyOf(found.coin, found.tx, found.addressIndex)
    if (found.isConfirmed && !arrivals.has(key)) arrivals.set(key, found.amountRaw)
    return recordPayment(ctx, found, by)
  }

export const recordPayment = telling(arrivals.recordPayment)

/** A reorganisation takes it out of the chain. */
export const recordLoss: typeof arrivals.recordLoss = (ctx, payment) => {
  if (payment.state === 'settled')
    chainOf(ctx).arrivals.delete(keyOf(payment.coin, payment.tx, payment.address_index))
  return arrivals.recordLoss(ctx, payment)
}

export const moveTransfer: typeof transfers.moveTransfer = (ctx, transfer, step, reason) => {
  const { coin, tx, kind, amount_raw: raw, fee_raw: fee = '0' } = transfer
  const { sent } = chainOf(ctx)
  if (step === 'confirmed') sent.set(`${coin}/${tx}`, (kind === 'payout' ? BigInt(raw) : 0n) + BigInt(fee))
  if (step === 'replaced') sent.delete(`${coin}/${tx}`)
  return transfers.moveTransfer(ctx, transfer, step, reason)
}

export const toldChain = (ctx: Context): ChainHoldings[] =>
  COINS.map((coin) => ({ coin, held: () => readHeld(ctx, coin) }))

async function readHeld(ctx: Context, coin: Coin): Promise<bigint> {
  const { arrivals, sent } = chainOf(ctx)
  const payments = ctx.database.connection.collection('payments').find({ coin, state: 'settled' })
  let held = 0n
  for (const {
    tx,
    address_index: index,
    by,
    amount_raw: raw,
  } of (await payments.toArray()) as unknown as PaymentRecord[]) {
    // What stands on the operator's word is nowhere, and the books have it all the same.
    held += arrivals.get(keyOf(coin, tx, index)) ?? (by === 'operator' ? BigInt(raw) : 0n)
  }
  for (const [key, amount] of sent) if (key.startsWith(`${coin}/`)) held -= amount
  return held
}
