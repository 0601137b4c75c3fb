import { omitUndefined } from '../../../platform/omit-undefined.ts'
import { nowSeconds } from '../../../platform/time.ts'
import { dustThreshold } from '../../coin.ts'
import type { Findings, Scan, Sighting } from '../../driver.ts'
import {
  FIRST_UNLOCK_SECONDS,
  isOnWordAlone,
  type ArrivalRecord,
  type PaymentRecord,
  type SeenPayment,
} from '../../arrival.ts'
import type { InvoiceRecord } from '../../invoice.ts'
import { AnswerTooLong, NodeUnreachable } from '../../node-errors.ts'
import { compareOutgoing, firstCompared, readHeight, sureUntil, toFound } from './monero-chain.ts'
import { MONERO_FACTS } from './monero-facts.ts'
import type { MoneroContext } from './monero-gateway.ts'
import type { MoneroIncoming } from './monero-wallet.ts'

/**
 * The wallet knows every address that it ever made, so one question scans all of them. Any process may
 * scan at any time, and again: a payment counts once. One that its payer locked (`unlock_time`) holds nothing
 * open until its lock ends: else a payer could keep an invoice's price for as long as it likes.
 */

/**
 * What the wallet lacks is lost once the chain has grown by so many blocks without it: after a reorganisation
 * its transaction is back in the pool, where the wallet doesn't see it a second time.
 */
const LOST_AFTER_BLOCKS = 5
const UNLOCKED_AT_ONCE = 500

/** Compares the wallet's sends with the database, and yields what came in, and what it no longer shows. */
export async function* scanWallet(ctx: MoneroContext): Scan {
  const coin = await ctx.coins.findCoin('xmr')
  const height = await readHeight(ctx, coin)
  const comparison = await compareOutgoing(ctx, coin, height)
  const isAgreed = comparison.kind === 'agrees'
  if (comparison.kind === 'differs') yield comparison
  if (isAgreed) yield { kind: 'recorded by hand', transactions: comparison.byHand.map(toFound) }
  const sinceHeight = firstCompared(coin, height)
  const underWay = await listUnderWay(ctx, height)
  const blocks = underWay.flatMap(({ height: block }) => block ?? [])
  const { incoming, troubles } = await listIncoming(ctx, sinceHeight, blocks)
  const found = await readFound(ctx, incoming, height)
  yield { kind: 'payments', found: await withoutKnown(ctx, found), troubles }
  // A wallet that does not agree may have been restored, and not have found everything again yet.
  const settled = isAgreed ? await ctx.invoices.arrivals.listSettledSince('xmr', sinceHeight) : []
  const isPoolRead = troubles.length === 0
  if (isPoolRead) yield* findLosses(ctx, [...underWay, ...settled], found, height)
  if (coin !== undefined && coin.treasury_address === undefined)
    yield { kind: 'treasury', address: await ctx.monero.wallet.primaryAddress() }
  if (!isAgreed) return { seen: {} }
  return { seen: {}, agreedHeight: height, ...omitUndefined({ sureUntil: sureUntil(coin, height) }) }
}

/** Lists what came in; without the pool, and with a trouble, if that has too much for one answer. */
async function listIncoming(ctx: MoneroContext, sinceHeight: number, blocks: readonly number[] = []) {
  const { wallet } = ctx.monero
  try {
    return { incoming: await wallet.listIncoming({ sinceHeight, blocks }), troubles: [] }
  } catch (error) {
    if (!(error instanceof AnswerTooLong)) throw error
    // What is in the pool is not seen until it is in a block: nothing may expire or be lost meanwhile.
    const incoming = await wallet.listIncoming({ sinceHeight, blocks, withoutPool: true })
    return { incoming, troubles: [error.message] }
  }
}

/** Lists payments that a scan has to find again: not confirmed yet, or locked with a lock that has ended. */
async function listUnderWay(ctx: MoneroContext, height: number): Promise<PaymentRecord[]> {
  const seen = await ctx.invoices.arrivals.listUnderWay('xmr')
  const waiting = seen.filter(({ waits_for_rate: waits }) => waits !== true)
  return [
    ...waiting,
    ...(await ctx.invoices.arrivals.listUnlocked('xmr', height, nowSeconds(ctx), UNLOCKED_AT_ONCE)),
  ]
}

/** Gives `findings` the payments from a height on, and what came to addresses without an invoice. */
export async function countPayments(ctx: MoneroContext, from: number, height: number, findings: Findings) {
  const { incoming } = await listIncoming(ctx, from)
  const found = await readFound(ctx, incoming, height)
  for (const payment of found) await findings.recordArrival(payment)
  const counted = new Set(found.map(({ addressIndex }) => addressIndex))
  const strays = incoming.filter(({ minor }) => minor > 0 && !counted.has(minor))
  for (const [address, parts] of Map.groupBy(strays, (payment) => payment.address)) {
    const sumPico = parts.reduce((sum, { amountPico }) => sum + amountPico, 0n)
    if (sumPico >= dustThreshold('xmr'))
      findings.noteStray({ address, address_index: parts[0]?.minor ?? 0, amount_raw: String(sumPico) })
  }
}

/** Returns what came to invoices' addresses, above dust, as payments. */
async function readFound(ctx: MoneroContext, incoming: readonly MoneroIncoming[], height: number) {
  const dust = dustThreshold('xmr')
  const payments = incoming.filter(({ amountPico }) => amountPico >= dust)
  const invoices = await ctx.invoices.findByAddresses('xmr', [...new Set(payments.map(({ minor }) => minor))])
  const byIndex = new Map(invoices.map((invoice) => [invoice.address_index, invoice]))
  return payments.flatMap((payment) => {
    const invoice = byIndex.get(payment.minor)
    // Another wallet has addresses with the same indexes.
    return invoice?.address !== payment.address ? [] : [toSeen(ctx, payment, invoice, height)]
  })
}

/** Returns what the wallet shows of a payment as the coin's watcher reports it. */
function toSeen(
  ctx: MoneroContext,
  payment: MoneroIncoming,
  invoice: InvoiceRecord,
  height: number,
): SeenPayment {
  const { confirmations, unlockTime, inPool, doubleSpendSeen } = payment
  const isLocked = isLockedAt(unlockTime, height, nowSeconds(ctx))
  const isDeep = confirmations >= MONERO_FACTS.requiredConfirmations(invoice, ctx.config.monero.confirmations)
  return {
    coin: 'xmr',
    tx: payment.txHash,
    addressIndex: payment.minor,
    amountRaw: payment.amountPico,
    confirmations,
    isConfirmed: isDeep && !inPool && !doubleSpendSeen && !isLocked,
    ...omitUndefined({ height: payment.height }),
    ...(isLocked ? { lockedUntil: Number(unlockTime > MAX_SAFE ? MAX_SAFE : unlockTime) } : {}),
  }
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER)

/**
 * Whether money with this unlock time is still locked: by the rule of is_tx_spendtime_unlocked in Monero's
 * wallet2.cpp, without its two minutes of grace.
 */
const isLockedAt = (unlockTime: bigint, height: number, nowSeconds: number): boolean =>
  unlockTime > BigInt(unlockTime < BigInt(FIRST_UNLOCK_SECONDS) ? height : nowSeconds)

const KNOWN_BATCH = 1_000

/** Returns the payments that aren't on record, or say something new. */
async function withoutKnown(ctx: MoneroContext, found: readonly SeenPayment[]): Promise<SeenPayment[]> {
  const known = new Map<string, ArrivalRecord>()
  const txs = [...new Set(found.map(({ tx }) => tx))]
  for (let start = 0; start < txs.length; start += KNOWN_BATCH)
    for (const record of await ctx.invoices.arrivals.listByTx('xmr', txs.slice(start, start + KNOWN_BATCH)))
      known.set(keyOf(record), record)
  return found.filter((payment) => {
    const record = known.get(keyOfFound(payment))
    return record === undefined || isNews(payment, record)
  })
}

const keyOf = (payment: ArrivalRecord): string => `${payment.tx}:${payment.address_index}`
const keyOfFound = ({ tx, addressIndex }: SeenPayment): string => `${tx}:${addressIndex}`

/** Whether a payment that was found says more than its record. */
function isNews(found: SeenPayment, record: ArrivalRecord): boolean {
  if (record.amount_raw !== String(found.amountRaw)) return true
  const isMoved = found.height !== undefined && record.height !== found.height
  // Each block more is news only before it is counted.
  if (record.state === 'settled') return isMoved || record.reversed_at !== undefined || isOnWordAlone(record)
  if (record.state === 'locked') return isMoved || found.lockedUntil === undefined
  if (record.waits_for_rate === true) return isMoved
  return true
}

/**
 * Yields as lost each expected payment that the wallet has not shown for LOST_AFTER_BLOCKS blocks: a settled
 * one in a block, any other in a block or the pool. Left out are those on the operator's word alone, and
 * settled ones to an address of another wallet.
 *
 * @throws NodeUnreachable if the wallet lacks an address that it once had: then it shows nothing of it
 */
async function* findLosses(
  ctx: MoneroContext,
  expected: readonly PaymentRecord[],
  found: readonly SeenPayment[],
  height: number,
): AsyncGenerator<Sighting> {
  const places = new Map(found.map((payment) => [keyOfFound(payment), payment]))
  const back: string[] = []
  const fresh: string[] = []
  const lost: PaymentRecord[] = []
  for (const payment of expected) {
    const shown = places.get(keyOf(payment))
    const { _id, missing_since: since = height } = payment
    if (shown !== undefined && (payment.state !== 'settled' || shown.height !== undefined)) {
      if (payment.missing_since !== undefined) back.push(_id)
      continue
    }
    // After a reorganisation the chain may be shorter than it was then.
    if (payment.missing_since === undefined || since > height) fresh.push(_id)
    if (!isOnWordAlone(payment) && height - since >= LOST_AFTER_BLOCKS) lost.push(payment)
  }
  if (back.length > 0) yield { kind: 'missing', paymentIds: back, since: undefined }
  if (fresh.length > 0) yield { kind: 'missing', paymentIds: fresh, since: height }
  if (lost.length === 0) return
  const highest = lost.reduce((most, { address_index: index }) => Math.max(most, index), 0)
  if (!(await ctx.monero.wallet.hasAddress(highest)))
    throw new NodeUnreachable(
      `the wallet does not have the address ${highest}, to which a payment came; it was restored, and has to make it again`,
    )
  const foreign = await listForeign(ctx, lost)
  // What was not settled yet is gone all the same: it would hold its invoice open for ever.
  const isGone = ({ state, address_index: index }: PaymentRecord) =>
    state !== 'settled' || !foreign.has(index)
  yield { kind: 'lost', payments: lost.filter(isGone) }
}

/** Returns the indexes at which our address is another wallet's: this one can't see what came there. */
async function listForeign(ctx: MoneroContext, payments: readonly PaymentRecord[]): Promise<Set<number>> {
  const indexes = [...new Set(payments.map(({ address_index: index }) => index))]
  const stored = await ctx.coins.addresses.listAt('xmr', indexes)
  const ownAddresses = await ctx.monero.wallet.listAddresses(indexes)
  const foreign = stored.filter(({ index, address }) => ownAddresses.get(index) !== address)
  return new Set(foreign.map(({ index }) => index))
}
