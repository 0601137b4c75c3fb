import type { Context } from '../context.ts'
import { isOutage } from '../platform/database.ts'
import { LAPSED_LOOK_EVERY_MS, LAPSED_WATCH_MS } from '../platform/limits.ts'
import { nowSeconds, unixSeconds } from '../platform/time.ts'
import type { Coin } from './coin.ts'
import { haltCoin, noteProblem } from './coin-state.ts'
import type { CoinDriver, RecordedScan, Sighting } from './driver.ts'
import type { InvoiceRecord } from './invoice.ts'
import type { SeenPayment } from './arrival.ts'
import { adoptTransaction } from './reconcile.ts'
import { recordLoss, recordPayment } from './record-arrival.ts'

/*
 * What a driver saw goes on record here, in the order in which it was seen. Any number of workers may see the
 * same, at any time: a payment counts once.
 */

/** Scans every open address. With a driver that shares scans, whoever asks before one begins shares it. */
export function scanAll(ctx: Context, driver: CoinDriver, startedAt: number): Promise<RecordedScan> {
  const scan = () => recordScan(ctx, driver.coin, driver.scan(startedAt))
  return driver.shareScan === undefined ? scan() : driver.shareScan(scan)
}

/** Scans one invoice's address; with a driver that reads all addresses at once, all of them. */
export const scanOne = (ctx: Context, driver: CoinDriver, invoice: InvoiceRecord) =>
  driver.scanInvoice === undefined
    ? scanAll(ctx, driver, nowSeconds(ctx))
    : recordScan(ctx, driver.coin, driver.scanInvoice(invoice))

/**
 * Records what a scan sees: the driver goes on once what it yielded is on record.
 *
 * @throws what the driver throws; what it saw before that is on record
 */
export async function recordScan<End>(
  ctx: Context,
  coin: Coin,
  scan: AsyncGenerator<Sighting, End>,
): Promise<RecordedScan<End>> {
  const troubles: string[] = []
  let seen = 0
  for (;;) {
    const { done, value } = await scan.next()
    if (done === true) return { end: value, troubles, seen }
    if (value.kind === 'payments') seen += value.found.length
    troubles.push(...(await recordSighting(ctx, coin, value)))
  }
}

const NO_TROUBLES: readonly string[] = []

/** @returns sentences about what could not be recorded */
async function recordSighting(ctx: Context, coin: Coin, sighting: Sighting): Promise<readonly string[]> {
  switch (sighting.kind) {
    case 'payments': {
      const troubles = [...sighting.troubles, ...(await recordPayments(ctx, sighting.found))]
      // What could not be recorded is scanned in the next round.
      if (troubles.length === 0 && sighting.expired !== undefined) await putOff(ctx, sighting.expired)
      return troubles
    }
    case 'lost':
      for (const payment of sighting.payments) await recordLoss(ctx, payment)
      return NO_TROUBLES
    case 'missing':
      await ctx.invoices.arrivals.noteMissing(sighting.paymentIds, sighting.since)
      return NO_TROUBLES
    case 'forgotten':
      await noteForgotten(ctx, coin, sighting)
      return NO_TROUBLES
    case 'recorded by hand':
      for (const found of sighting.transactions)
        await adoptTransaction(ctx, coin, found, 'the operator has recorded it')
      return NO_TROUBLES
    case 'treasury':
      await ctx.coins.noteTreasury(coin, { treasury_address: sighting.address })
      return NO_TROUBLES
    case 'problem':
      await noteProblem(ctx, coin, sighting.about, sighting.sentence)
      return NO_TROUBLES
    case 'differs':
      await haltCoin(ctx, coin, sighting)
      return NO_TROUBLES
  }
}

/** Puts off the next scan of expired invoices' addresses; those that were watched long enough have none. */
async function putOff(ctx: Context, invoiceIds: readonly string[]): Promise<void> {
  const nowMs = ctx.database.now()
  const later = unixSeconds(nowMs + LAPSED_LOOK_EVERY_MS)
  await ctx.invoices.postponeScan(invoiceIds, later, unixSeconds(nowMs - LAPSED_WATCH_MS))
}

/** Notes money at addresses that no invoice on record has, tells the operator, and puts off their next scan. */
async function noteForgotten(
  ctx: Context,
  coin: Coin,
  { scanned, holding }: Extract<Sighting, { kind: 'forgotten' }>,
): Promise<void> {
  for (const found of holding) {
    await ctx.coins.addresses.noteUnassigned(coin, found)
    ctx.log.error(
      { address: found.address },
      'money came to an address of ours that no invoice on record has',
    )
  }
  const later = unixSeconds(ctx.database.now() + LAPSED_LOOK_EVERY_MS)
  await ctx.coins.addresses.postponeForgotten(scanned, nowSeconds(ctx), later)
}

/** Each waits for the database most of the time. */
const RECORDED_AT_ONCE = 32

/** Records payments; one that fails is logged and delays no other. @returns a sentence about each failure */
export async function recordPayments(ctx: Context, found: readonly SeenPayment[]): Promise<string[]> {
  const troubles: string[] = []
  for (let start = 0; start < found.length; start += RECORDED_AT_ONCE) {
    const batch = found.slice(start, start + RECORDED_AT_ONCE)
    const ended = await Promise.allSettled(batch.map((payment) => recordPayment(ctx, payment)))
    for (const [index, outcome] of ended.entries()) {
      if (outcome.status === 'fulfilled') continue
      const { coin, tx } = batch[index] as SeenPayment
      troubles.push(`${tx}: ${String(outcome.reason)}`)
      const level = isOutage(outcome.reason) ? 'warn' : 'error'
      ctx.log[level]({ err: outcome.reason, coin, tx }, 'a payment that was found could not be recorded')
    }
  }
  return troubles
}
