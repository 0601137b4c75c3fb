import type { Context } from '../../../context.ts'
import { omitUndefined } from '../../../platform/omit-undefined.ts'
import { LAPSED_LOOK_EVERY_MS, LAPSED_WATCH_MS } from '../../../platform/limits.ts'
import { nowSeconds, unixSeconds } from '../../../platform/time.ts'
import { pagesOf } from '../../../platform/records.ts'
import { dustThreshold } from '../../coin.ts'
import { recordPayments } from '../../coin-round.ts'
import type { InvoiceRecord, SeenPayment } from '../../invoice.ts'
import type { Scan } from '../../driver.ts'
import type { PaymentProgress, WatchedAddress } from '../../invoice-store.ts'
import { recordLoss } from '../../settlement.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'
import { settleOrStop } from './nano-sender.ts'
import { readNode } from './nano-health.ts'
import { logDoubt, proveSends, type ClaimedSend } from './nano-proof.ts'
import { RECEIVABLE_BATCH } from './nano-rpc.ts'

/*
 * Every scan reads what is receivable, which any process may do at any time, and again: a payment counts
 * once. Only what is settled is received (nano-sweep.ts): nothing leaves the list before it is counted.
 */

const AT_ONCE = 4
/** Few at first, so that the node is soon asked, then twice as many each time. */
const FIRST_OPEN_PAGE = AT_ONCE * RECEIVABLE_BATCH
const MAX_OPEN_PAGE = 16 * RECEIVABLE_BATCH
const EXPIRED_PAGES = 100

/**
 * Scans every open address, at expired ones that are due, and at what isn't confirmed yet; records the
 * payments found.
 *
 * @param startedAt of the round, in Unix seconds
 * @throws NodeUnreachable if the node is cut off or behind; what it showed is recorded before that
 */
export async function scanRound(ctx: NanoContext, startedAt: number): Promise<Scan> {
  const { seen, trouble, sureUntil } = await readNode(ctx)
  const troubles = [...(await scanOpen(ctx)), ...(await scanExpired(ctx, startedAt))]
  await scanForgotten(ctx, startedAt)
  if (trouble !== undefined) {
    await ctx.coins.report('xno', { height_at: seen.height_at }, nowSeconds(ctx))
    throw trouble
  }
  troubles.push(...(await scanUnconfirmed(ctx, startedAt)))
  return { troubles, seen, ...omitUndefined({ sureUntil }) }
}

/** Scans addresses of payments under way, which a crash may have left, and of all unexpired invoices. */
async function scanOpen(ctx: NanoContext): Promise<string[]> {
  const underWay = await ctx.invoices.listUnderWay('xno')
  const indexes = new Set(underWay.map(({ address_index }) => address_index))
  const invoices = await ctx.invoices.findByAddresses('xno', [...indexes])
  const troubles = await scanAddresses(ctx, invoices.map(addressOf))
  const ask = async (addresses: string[]) => {
    troubles.push(...(await scanChains(ctx, addresses)))
    return askAbout(ctx, addresses)
  }
  const found = await forEachPage(readOpen(ctx), ask, (_, listed) => recordListed(ctx, listed))
  return [...troubles, ...found]
}

/** Yields batches of unexpired invoices' addresses; reads the next page while these are asked about. */
async function* readOpen(ctx: NanoContext): AsyncGenerator<string[]> {
  let limit = FIRST_OPEN_PAGE
  const read = (after: string) => {
    const page = ctx.invoices.listOpenIndexes('xno', after, limit)
    limit = Math.min(2 * limit, MAX_OPEN_PAGE)
    page.catch(() => undefined) // whoever awaits it gets the error; nobody does if another page failed before
    return page
  }
  let next = read('')
  for (let page = await next; page !== undefined; page = await next) {
    next = read(page.last)
    const addresses = await addressesOf(ctx, page.indexes)
    for (let start = 0; start < addresses.length; start += RECEIVABLE_BATCH)
      yield addresses.slice(start, start + RECEIVABLE_BATCH)
  }
}

const knownAddresses = new WeakMap<NanoContext, Map<number, string>>()
const MOST_KNOWN = 200_000

/** Returns the addresses with these indexes, from this process's memory if it has them. */
async function addressesOf(ctx: NanoContext, indexes: readonly number[]): Promise<string[]> {
  const kept = knownAddresses.get(ctx)
  // A new one, and the old one not emptied: another round may be reading it.
  const known = kept === undefined || kept.size > MOST_KNOWN ? new Map<number, string>() : kept
  knownAddresses.set(ctx, known)
  const missing = indexes.filter((index) => !known.has(index))
  if (missing.length > 0)
    for (const { index, address } of await ctx.coins.listAddresses('xno', missing)) known.set(index, address)
  return indexes.map((index) => {
    const address = known.get(index)
    if (address === undefined) throw new Error(`the invoice address ${index} was not made here`)
    return address
  })
}

/** Scans the addresses of expired invoices that are due for it, and puts off their next scan. */
async function scanExpired(ctx: NanoContext, now: number): Promise<string[]> {
  return forEachPage(
    readExpired(ctx, now),
    (page) => askAbout(ctx, page.map(addressOf)),
    async (page, listed) => {
      const troubles = await recordListed(ctx, listed)
      const nowMs = ctx.database.now()
      const later = unixSeconds(nowMs + LAPSED_LOOK_EVERY_MS)
      const ids = page.map(({ _id }) => _id)
      // What could not be recorded is scanned in the next round.
      if (troubles.length === 0)
        await ctx.invoices.postponeScan(ids, later, unixSeconds(nowMs - LAPSED_WATCH_MS))
      return troubles
    },
  )
}

const addressOf = ({ address }: Pick<InvoiceRecord, 'address'>): string => address

/** Yields up to 100 pages of expired invoices whose addresses are due for a scan at `now` (Unix seconds). */
async function* readExpired(ctx: NanoContext, now: number): AsyncGenerator<WatchedAddress[]> {
  let left = EXPIRED_PAGES
  const readPage = (after: string) => ctx.invoices.listExpiredDue('xno', now, after, RECEIVABLE_BATCH)
  for await (const page of pagesOf(readPage)) {
    yield page
    if (--left === 0) return
  }
}

/**
 * Records the answers about one page while the next is asked about, four pages at once.
 *
 * @param record returns sentences about what could not be recorded
 * @returns all those sentences
 * @throws the first error, after all work has ended
 */
async function forEachPage<Page>(
  pages: AsyncGenerator<Page>,
  ask: (page: Page) => Promise<ClaimedSend[]>,
  record: (page: Page, listed: ClaimedSend[]) => Promise<string[]>,
): Promise<string[]> {
  const troubles: string[] = []
  // A generator queues the calls of next(), so that each reader gets a page of its own.
  const readers = Array.from({ length: AT_ONCE }, async () => {
    let recording = Promise.resolve()
    try {
      for await (const page of { [Symbol.asyncIterator]: () => ({ next: () => pages.next() }) }) {
        const listed = await ask(page)
        await recording
        recording = record(page, listed).then((sentences) => void troubles.push(...sentences))
        recording.catch(() => undefined) // it is awaited below
      }
    } finally {
      await recording
    }
  })
  const ended = await Promise.allSettled(readers)
  const failed = ended.find((reader) => reader.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return troubles
}

/**
 * Scans addresses of ours, and records the payments found.
 *
 * @returns a sentence about each that could not be recorded
 * @throws NodeUnreachable, NodeRefused
 */
export const scanAddresses = async (ctx: NanoContext, addresses: readonly string[]): Promise<string[]> =>
  addresses.length === 0 ? [] : recordListed(ctx, await askAbout(ctx, addresses))

/** Lists the sends to these addresses that the node says wait to be received. */
async function askAbout(ctx: NanoContext, addresses: readonly string[], options?: { unconfirmed: boolean }) {
  const receivable = await ctx.nano.rpc.receivable(addresses, dustThreshold('xno'), options)
  return [...receivable].flatMap(([address, sends]) => sends.map((send) => ({ address, ...send })))
}

/** Records listed sends that blocks prove. @returns a sentence about each untrue or unrecorded one */
async function recordListed(ctx: NanoContext, listed: readonly ClaimedSend[]): Promise<string[]> {
  const fresh = await withoutKnown(ctx, listed)
  if (fresh.length === 0) return []
  const { proven, doubtful } = await proveSends(ctx.nano.rpc, fresh)
  const troubles: string[] = []
  for (const { send, doubt } of doubtful) {
    logDoubt(ctx.log, send, doubt)
    // A sender can make a bad signature, and no scan will ever prove what was pruned: if these were troubles,
    // nothing would ever expire.
    if (doubt.kind === 'untrue') troubles.push(`${send.hash}: ${doubt.reason}`)
  }
  return [...troubles, ...(await recordPayments(ctx, await toSeen(ctx, proven)))]
}

/**
 * Scans the chains of accounts whose last block isn't on record: what another wallet with the seed has
 * received is on no list. Halts the coin if a chain doesn't agree with our records.
 *
 * @returns sentences about what must be waited for
 */
async function scanChains(ctx: NanoContext, addresses: readonly string[]): Promise<string[]> {
  const frontiers = await ctx.nano.rpc.frontiers(addresses)
  if (frontiers.size === 0) return [] // as of nearly every page: an invoice's account has no block of its own
  const troubles: string[] = []
  const txs = [...frontiers.values()].map((hash) => hash.toLowerCase())
  const known = new Set((await ctx.payouts.listTransfersByTx('xno', txs)).map(({ tx }) => tx))
  const strange = [...frontiers].flatMap(([address, hash]) =>
    known.has(hash.toLowerCase()) ? [] : [address],
  )
  for (const { index, address } of await ctx.coins.findAddresses('xno', strange)) {
    try {
      await settleOrStop(ctx, { index, address })
    } catch (error) {
      if (!(error instanceof NodeUnreachable)) throw error
      troubles.push(error.message)
    }
  }
  return troubles
}

const FORGOTTEN_AT_ONCE = 10_000

/**
 * Scans addresses of invoices that the database may have forgotten, each hourly for a month after a
 * reconciliation. What comes there belongs to no invoice: it is swept, and the operator is told.
 */
async function scanForgotten(ctx: NanoContext, now: number): Promise<void> {
  const due = await ctx.coins.listForgottenDue('xno', now, FORGOTTEN_AT_ONCE)
  for (let start = 0; start < due.length; start += RECEIVABLE_BATCH) {
    const page = due.slice(start, start + RECEIVABLE_BATCH)
    const receivable = await ctx.nano.rpc.receivable(page.map(addressOf), dustThreshold('xno'))
    for (const found of page) {
      if (!receivable.has(found.address) || found.unassigned === true) continue
      await ctx.coins.noteUnassigned('xno', found)
      ctx.log.error(
        { address: found.address },
        'money came to an address of ours that no invoice on record has',
      )
    }
    await ctx.coins.postponeForgotten(page, now, unixSeconds(ctx.database.now() + LAPSED_LOOK_EVERY_MS))
  }
}

const MOST_OVERDUE = 50_000

/**
 * Records unconfirmed sends to overdue invoices, so that they don't expire, and as lost those that the node
 * no longer has. @returns a sentence about each that could not be recorded
 */
async function scanUnconfirmed(ctx: NanoContext, startedAt: number): Promise<string[]> {
  const overdue = await ctx.invoices.listOverdue('xno', startedAt, MOST_OVERDUE)
  const listed = await askAbout(ctx, overdue.map(addressOf), { unconfirmed: true })
  const fresh = await withoutKnown(ctx, listed)
  const { proven } = await proveSends(ctx.nano.rpc, fresh, { unconfirmed: true })
  const seen = await toSeen(ctx, proven)
  const unconfirmed = seen.map((payment) => ({ ...payment, confirmations: 0, isConfirmed: false }))
  const troubles = await recordPayments(ctx, unconfirmed)
  const listedSeen = await ctx.invoices.listUnderWay('xno')
  const underWay = listedSeen.filter((payment) => payment.by === 'chain' && payment.waits_for_rate !== true)
  const blocks = await ctx.nano.rpc.blocksInfo(underWay.map(({ tx }) => tx.toUpperCase()))
  for (const payment of underWay) if (!blocks.has(payment.tx.toUpperCase())) await recordLoss(ctx, payment)
  return troubles
}

/** Returns sends as confirmed payments. @throws Error for an address that was not made here */
async function toSeen(ctx: Context, sends: readonly ClaimedSend[]): Promise<SeenPayment[]> {
  const records = await ctx.coins.findAddresses('xno', [...new Set(sends.map(({ address }) => address))])
  const indexes = new Map(records.map(({ address, index }) => [address, index]))
  return sends.map(({ address, hash, amountRaw }) => {
    const addressIndex = indexes.get(address)
    if (addressIndex === undefined) throw new Error(`the invoice address ${address} was not made here`)
    // A confirmed block is final: there are no further confirmations to count.
    const confirmed = { confirmations: 1, isConfirmed: true }
    return { coin: 'xno', tx: hash.toLowerCase(), addressIndex, amountRaw, ...confirmed }
  })
}

const KNOWN_BATCH = 1_000

/** Returns the sends without those that are on record, with this amount, as payments that need no scan. */
async function withoutKnown(ctx: Context, listed: readonly ClaimedSend[]): Promise<ClaimedSend[]> {
  const known = new Set<string>()
  for (let start = 0; start < listed.length; start += KNOWN_BATCH) {
    const txs = listed.slice(start, start + KNOWN_BATCH).map(({ hash }) => hash.toLowerCase())
    for (const payment of await ctx.invoices.listPaymentProgress('xno', txs))
      if (needsNoScan(payment)) known.add(`${payment.tx}:${payment.amount_raw}`)
  }
  return listed.filter(({ hash, amountRaw }) => !known.has(`${hash.toLowerCase()}:${amountRaw}`))
}

/** Whether a payment is settled and was not taken back, or waits for a rate. */
const needsNoScan = ({ state, waits_for_rate: waits, reversed_at: reversedAt }: PaymentProgress): boolean =>
  (state === 'settled' && reversedAt === undefined) || waits === true

/**
 * Scans one invoice's address, and records the payments found.
 *
 * @throws NodeUnreachable if the node doesn't answer or is behind its peers, so that there may be more
 */
export async function scanInvoice(ctx: NanoContext, { address }: InvoiceRecord): Promise<void> {
  // Payments that a node shows while it catches up are recorded too.
  await scanAddresses(ctx, [address])
  const { trouble } = await readNode(ctx)
  if (trouble !== undefined) throw trouble
}
