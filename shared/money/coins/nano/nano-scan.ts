import type { Context } from '../../../context.ts'
import { pagesOf } from '../../../platform/records.ts'
import { dustThreshold } from '../../coin.ts'
import type { InvoiceRecord } from '../../invoice.ts'
import type { SeenPayment } from '../../arrival.ts'
import type { Scan, Sighting } from '../../driver.ts'
import type { WatchedAddress } from '../../invoice-store.ts'
import type { PaymentProgress } from '../../arrival-store.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import { hashOf, txOf } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import { recoverOrDiffer } from './nano-recovery.ts'
import { readNode } from './nano-health.ts'
import { CONFIRMED, logDoubt, proveSends, type ClaimedSend } from './nano-proof.ts'
import { RECEIVABLE_BATCH } from './nano-rpc.ts'

/*
 * Every scan reads what is receivable, which any process may do at any time, and again: a payment counts
 * once. Only what is settled is received (nano-sweep.ts): nothing leaves the list before it is counted.
 */

const AT_ONCE = 4
/** Unexpired invoices that are read at once, and asked about in batches. */
const OPEN_PAGE = 16 * RECEIVABLE_BATCH
const EXPIRED_PAGES = 100

/**
 * Scans every open address, expired ones that are due, and what isn't confirmed yet.
 *
 * @param startedAt of the round, in Unix seconds
 */
export async function* scanRound(ctx: NanoContext, startedAt: number): Scan {
  const { problems, end } = await readNode(ctx)
  yield* problems
  yield* scanOpen(ctx)
  yield* scanExpired(ctx, startedAt)
  yield* scanForgotten(ctx, startedAt)
  if (end.doubt === undefined) yield* scanUnconfirmed(ctx, startedAt)
  return end
}

/** Scans addresses of payments under way, which a crash may have left, and of all unexpired invoices. */
async function* scanOpen(ctx: NanoContext): AsyncGenerator<Sighting> {
  const underWay = await ctx.invoices.arrivals.listUnderWay('xno')
  const indexes = new Set(underWay.map(({ address_index }) => address_index))
  const invoices = await ctx.invoices.findByAddresses('xno', [...indexes])
  yield* scanAddresses(ctx, invoices.map(addressOf))
  const asked = readAhead(readOpen(ctx), async (addresses) => {
    const chains = await readChains(ctx, addresses)
    return { chains, listed: await askAbout(ctx, addresses) }
  })
  const read = readAhead(asked, async ({ chains, listed }) => [...chains, await readListed(ctx, listed)])
  for await (const sightings of read) yield* sightings
}

/** Yields batches of unexpired invoices' addresses. */
async function* readOpen(ctx: NanoContext): AsyncGenerator<string[]> {
  for (let after = ''; ;) {
    const page = await ctx.invoices.listOpenIndexes('xno', after, OPEN_PAGE)
    if (page === undefined) return
    const addresses = await addressesOf(ctx, page.indexes)
    for (let start = 0; start < addresses.length; start += RECEIVABLE_BATCH)
      yield addresses.slice(start, start + RECEIVABLE_BATCH)
    after = page.last
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
    for (const { index, address } of await ctx.coins.addresses.listAt('xno', missing))
      known.set(index, address)
  return indexes.map((index) => {
    const address = known.get(index)
    if (address === undefined) throw new Error(`the invoice address ${index} was not made here`)
    return address
  })
}

/** Scans the addresses of expired invoices that are due for it. */
async function* scanExpired(ctx: NanoContext, now: number): AsyncGenerator<Sighting> {
  const asked = readAhead(readExpired(ctx, now), async (page) => {
    return { page, listed: await askAbout(ctx, page.map(addressOf)) }
  })
  yield* readAhead(asked, async ({ page, listed }) => {
    return { ...(await readListed(ctx, listed)), expired: page.map(({ _id }) => _id) }
  })
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
 * Yields what is read of each page, in their order, and reads the next ones meanwhile, four at once.
 *
 * @throws the first error, after what was read of the other pages
 */
async function* readAhead<Page, Read>(
  pages: AsyncGenerator<Page>,
  read: (page: Page) => Promise<Read>,
): AsyncGenerator<Read> {
  const underWay: Promise<PromiseSettledResult<Read>>[] = []
  const errors: unknown[] = []
  let isLast = false
  for (;;) {
    // One page that always fails must not hide the others; but a node that is away is not asked about all.
    while (!isLast && underWay.length < AT_ONCE - errors.length) {
      try {
        const { done, value } = await pages.next()
        if (done === true) isLast = true
        else underWay.push(outcomeOf(read(value)))
      } catch (error) {
        errors.push(error)
        isLast = true
      }
    }
    const ended = await underWay.shift()
    if (ended === undefined) break
    if (ended.status === 'fulfilled') yield ended.value
    else errors.push(ended.reason)
  }
  if (errors.length > 0) throw errors[0]
}

const outcomeOf = async <Read>(reading: Promise<Read>): Promise<PromiseSettledResult<Read>> =>
  (await Promise.allSettled([reading]))[0]

/** Scans addresses of ours. @throws NodeUnreachable, NodeRefused */
async function* scanAddresses(
  ctx: NanoContext,
  addresses: readonly string[],
): AsyncGenerator<Sighting, void> {
  if (addresses.length > 0) yield await readListed(ctx, await askAbout(ctx, addresses))
}

/** Lists the sends to these addresses that the node says wait to be received. */
async function askAbout(ctx: NanoContext, addresses: readonly string[], options?: { unconfirmed: boolean }) {
  const receivable = await ctx.nano.rpc.receivable(addresses, dustThreshold('xno'), options)
  return [...receivable].flatMap(([address, sends]) => sends.map((send) => ({ address, ...send })))
}

/** Returns the listed sends that blocks prove and that are not on record, with a trouble for each untrue one. */
async function readListed(ctx: NanoContext, listed: readonly ClaimedSend[]): Promise<PaymentsSeen> {
  const fresh = await withoutKnown(ctx, listed)
  if (fresh.length === 0) return { kind: 'payments', found: [], troubles: [] }
  const { proven, doubtful } = await proveSends(ctx.nano.rpc, fresh)
  for (const { send, doubt } of doubtful) logDoubt(ctx.log, send, doubt)
  // A sender can make a bad signature, and no scan will ever prove what was pruned: if these were troubles,
  // nothing would ever expire.
  const untrue = doubtful.filter(({ doubt }) => doubt.kind === 'untrue')
  const troubles = untrue.map(({ send, doubt }) => `${send.hash}: ${doubt.reason}`)
  return { kind: 'payments', found: await toSeen(ctx, proven), troubles }
}

type PaymentsSeen = Extract<Sighting, { kind: 'payments' }>

/**
 * Reads the chains of accounts whose last block isn't on record: what another wallet with the seed has received
 * is on no list.
 *
 * @returns what doesn't agree with our records, and troubles about what must be waited for
 */
async function readChains(ctx: NanoContext, addresses: readonly string[]): Promise<Sighting[]> {
  const frontiers = await ctx.nano.rpc.frontiers(addresses)
  if (frontiers.size === 0) return [] // as of nearly every page: an invoice's account has no block of its own
  const sightings: Sighting[] = []
  const txs = [...frontiers.values()].map((hash) => txOf(hash))
  const known = new Set((await ctx.payouts.transfers.listByTx('xno', txs)).map(({ tx }) => tx))
  const strange = [...frontiers].flatMap(([address, hash]) => (known.has(txOf(hash)) ? [] : [address]))
  for (const { index, address } of await ctx.coins.addresses.listByAddress('xno', strange)) {
    try {
      const recovered = await recoverOrDiffer(ctx, { index, address })
      if (recovered.kind === 'differs') sightings.push(recovered)
    } catch (error) {
      if (!(error instanceof NodeUnreachable)) throw error
      sightings.push({ kind: 'payments', found: [], troubles: [error.message] })
    }
  }
  return sightings
}

const FORGOTTEN_AT_ONCE = 10_000

/**
 * Scans addresses of invoices that the database may have forgotten, each hourly for a month after a
 * reconciliation. What comes there belongs to no invoice: it is swept, and the operator is told.
 */
async function* scanForgotten(ctx: NanoContext, now: number): AsyncGenerator<Sighting> {
  const due = await ctx.coins.addresses.listForgottenDue('xno', now, FORGOTTEN_AT_ONCE)
  for (let start = 0; start < due.length; start += RECEIVABLE_BATCH) {
    const scanned = due.slice(start, start + RECEIVABLE_BATCH)
    const receivable = await ctx.nano.rpc.receivable(scanned.map(addressOf), dustThreshold('xno'))
    const holding = scanned.filter((one) => receivable.has(one.address) && one.unassigned !== true)
    yield { kind: 'forgotten', scanned, holding }
  }
}

const MOST_OVERDUE = 50_000

/** Scans overdue invoices for unconfirmed sends, so that they don't expire, and finds those that the node lacks. */
async function* scanUnconfirmed(ctx: NanoContext, startedAt: number): AsyncGenerator<Sighting> {
  const overdue = await ctx.invoices.listOverdue('xno', startedAt, MOST_OVERDUE)
  const listed = await askAbout(ctx, overdue.map(addressOf), { unconfirmed: true })
  const fresh = await withoutKnown(ctx, listed)
  const { proven } = await proveSends(ctx.nano.rpc, fresh, { unconfirmed: true })
  const seen = await toSeen(ctx, proven)
  const found = seen.map((payment) => ({ ...payment, confirmations: 0, isConfirmed: false }))
  yield { kind: 'payments', found, troubles: [] }
  const listedSeen = await ctx.invoices.arrivals.listUnderWay('xno')
  const underWay = listedSeen.filter((payment) => payment.by === 'chain' && payment.waits_for_rate !== true)
  const blocks = await ctx.nano.rpc.blocksInfo(underWay.map(hashOf))
  yield { kind: 'lost', payments: underWay.filter(({ tx }) => !blocks.has(hashOf({ tx }))) }
}

/** Returns sends as confirmed payments. @throws Error for an address that was not made here */
async function toSeen(ctx: Context, sends: readonly ClaimedSend[]): Promise<SeenPayment[]> {
  const records = await ctx.coins.addresses.listByAddress('xno', [
    ...new Set(sends.map(({ address }) => address)),
  ])
  const indexes = new Map(records.map(({ address, index }) => [address, index]))
  return sends.map(({ address, hash, amountRaw }) => {
    const addressIndex = indexes.get(address)
    if (addressIndex === undefined) throw new Error(`the invoice address ${address} was not made here`)
    return { coin: 'xno', tx: txOf(hash), addressIndex, amountRaw, ...CONFIRMED }
  })
}

const KNOWN_BATCH = 1_000

/** Returns the sends without those that are on record, with this amount, as payments that need no scan. */
async function withoutKnown(ctx: Context, listed: readonly ClaimedSend[]): Promise<ClaimedSend[]> {
  const known = new Set<string>()
  for (let start = 0; start < listed.length; start += KNOWN_BATCH) {
    const txs = listed.slice(start, start + KNOWN_BATCH).map(({ hash }) => txOf(hash))
    for (const payment of await ctx.invoices.arrivals.listProgress('xno', txs))
      if (needsNoScan(payment)) known.add(`${payment.tx}:${payment.amount_raw}`)
  }
  return listed.filter(({ hash, amountRaw }) => !known.has(`${txOf(hash)}:${amountRaw}`))
}

/** Whether a payment is settled and was not taken back, or waits for a rate. */
const needsNoScan = ({ state, waits_for_rate: waits, reversed_at: reversedAt }: PaymentProgress): boolean =>
  (state === 'settled' && reversedAt === undefined) || waits === true

/** Scans one invoice's address. */
export async function* scanInvoice(ctx: NanoContext, { address }: InvoiceRecord): Scan {
  // Payments that a node shows while it catches up are seen too.
  yield* scanAddresses(ctx, [address])
  const { problems, end } = await readNode(ctx)
  yield* problems
  return end
}

/** Scans those of the addresses that are invoices'. */
export async function* scanHinted(
  ctx: NanoContext,
  destinations: readonly string[],
): AsyncGenerator<Sighting, void> {
  const ours = await ctx.coins.addresses.listByAddress('xno', destinations)
  if (ours.length === 0) return
  const invoices = await ctx.invoices.findByAddresses(
    'xno',
    ours.map(({ index }) => index),
  )
  yield* scanAddresses(ctx, invoices.map(addressOf))
}
