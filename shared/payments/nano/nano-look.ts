import type { Context } from '../../context.ts'
import { LAPSED_LOOK_EVERY_MS, LAPSED_WATCH_MS } from '../../foundation/limits.ts'
import { unixSeconds } from '../../foundation/time.ts'
import { pagesOf } from '../../servers/records.ts'
import { dustThreshold } from '../coin.ts'
import { recordPayments } from '../coin-round.ts'
import type { InvoiceRecord, SeenPayment } from '../invoice.ts'
import type { Look as RoundLook } from '../driver.ts'
import type { PaymentProgress, WatchedAddress } from '../invoice-store.ts'
import { recordLoss } from '../settlement.ts'
import { NodeUnreachable } from '../node-errors.ts'
import { parseNanoAddress } from '../../crypto/nano-address.ts'
import type { NanoContext } from './nano-gateway.ts'
import { settleOrStop } from './nano-sender.ts'
import { readNode } from './nano-health.ts'
import { noteDoubt, proveSends } from './nano-proof.ts'
import { RECEIVABLE_BATCH } from './nano-rpc.ts'

/**
 * A round, a look because an owner asked, and one because the node's websocket spoke: all look at what is
 * receivable, at any time, from any process, and again: a payment counts once. It stays receivable until our
 * own account receives it, and only what is settled is received (nano-sweep.ts): nothing leaves the list
 * before it is counted, however long nobody looked.
 */

const AT_ONCE = 4
/** Few at first, so that the node is soon asked, then twice as many each time. */
const FIRST_OPEN_PAGE = AT_ONCE * RECEIVABLE_BATCH
const MAX_OPEN_PAGE = 16 * RECEIVABLE_BATCH
const EXPIRED_PAGES = 100

interface Look {
  troubles: string[]
}

/** @throws NodeUnreachable if the node's word is no news; what it has is taken in before that */
export async function lookAtRound(ctx: NanoContext, startedAt: number): Promise<RoundLook> {
  const { seen, trouble } = await readNode(ctx)
  const troubles = [...(await lookAtOpen(ctx)), ...(await lookAtExpired(ctx, startedAt))]
  if (trouble !== undefined) throw trouble
  troubles.push(...(await lookAtUnconfirmed(ctx, startedAt)))
  return { troubles, seen }
}

/** And those of payments that a crash left half taken in. */
async function lookAtOpen(ctx: NanoContext): Promise<string[]> {
  const halfTaken = await ctx.invoices.listUnderWay('xno')
  const indexes = new Set(halfTaken.map(({ address_index }) => address_index))
  const left = await ctx.invoices.findByAddresses('xno', [...indexes])
  const { troubles } = await lookAtAddresses(ctx, left.map(addressOf))
  const found = await forEachPage(
    readOpen(ctx),
    async (addresses) => {
      troubles.push(...(await lookAtChains(ctx, addresses)))
      return askAbout(ctx, addresses)
    },
    (_, listed) => takeIn(ctx, listed),
  )
  return [...troubles, ...found]
}

/** The next page is read while these are asked about. */
async function* readOpen(ctx: NanoContext): AsyncGenerator<string[]> {
  let limit = FIRST_OPEN_PAGE
  const read = (after: string) => {
    const page = ctx.invoices.listOpenIndexes('xno', after, limit)
    limit = Math.min(2 * limit, MAX_OPEN_PAGE)
    page.catch(() => undefined) // whoever awaits it gets the error; nobody does where another page failed before
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
    if (address === undefined) throw new Error(`the invoice address ${index} is none that was made here`)
    return address
  })
}

async function lookAtExpired(ctx: NanoContext, now: number): Promise<string[]> {
  return forEachPage(
    readExpired(ctx, now),
    (page) => askAbout(ctx, page.map(addressOf)),
    async (page, listed) => {
      const look = await takeIn(ctx, listed)
      const nowMs = ctx.databaseNow()
      const later = unixSeconds(nowMs + LAPSED_LOOK_EVERY_MS)
      const ids = page.map(({ _id }) => _id)
      // What could not be taken in is looked at in the next round.
      if (look.troubles.length === 0)
        await ctx.invoices.lookLater(ids, later, unixSeconds(nowMs - LAPSED_WATCH_MS))
      return look
    },
  )
}

const addressOf = ({ address }: Pick<InvoiceRecord, 'address'>): string => address

async function* readExpired(ctx: NanoContext, now: number): AsyncGenerator<WatchedAddress[]> {
  let left = EXPIRED_PAGES
  for await (const page of pagesOf((after) =>
    ctx.invoices.listExpiredDue('xno', now, after, RECEIVABLE_BATCH),
  )) {
    yield page
    if (--left === 0) return
  }
}

/** Takes in the answers about one page while the next is asked about. @throws what the first failure threw */
async function forEachPage<Page>(
  pages: AsyncGenerator<Page>,
  ask: (page: Page) => Promise<ListedSend[]>,
  take: (page: Page, listed: ListedSend[]) => Promise<Look>,
): Promise<string[]> {
  const troubles: string[] = []
  // A generator queues the calls of next(), so that each reader gets a page of its own.
  const readers = Array.from({ length: AT_ONCE }, async () => {
    let taking = Promise.resolve()
    try {
      for await (const page of { [Symbol.asyncIterator]: () => ({ next: () => pages.next() }) }) {
        const listed = await ask(page)
        await taking
        taking = take(page, listed).then((look) => void troubles.push(...look.troubles))
        taking.catch(() => undefined) // it is awaited below
      }
    } finally {
      await taking
    }
  })
  const ended = await Promise.allSettled(readers)
  const failed = ended.find((reader) => reader.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return troubles
}

/** What can't be taken in is logged and holds nothing else up. @throws NodeUnreachable, NodeRefused */
export const lookAtAddresses = async (ctx: NanoContext, addresses: readonly string[]): Promise<Look> =>
  addresses.length === 0 ? { troubles: [] } : takeIn(ctx, await askAbout(ctx, addresses))

async function askAbout(ctx: NanoContext, addresses: readonly string[], options?: { unconfirmed: boolean }) {
  const receivable = await ctx.nano.rpc.receivable(addresses, dustThreshold('xno'), options)
  return [...receivable].flatMap(([address, sends]) =>
    sends.map(({ hash, amountRaw }) => ({ address, hash, amountRaw })),
  )
}

/** What the node lists is its word: only what its blocks bear out is counted. */
async function takeIn(ctx: NanoContext, listed: readonly ListedSend[]): Promise<Look> {
  const fresh = await leaveOutKnown(ctx, listed)
  if (fresh.length === 0) return { troubles: [] }
  const { proven, doubtful } = await proveSends(ctx.nano.rpc, await nameAccounts(ctx, fresh))
  // A bad signature is the sender's to make, and no look will ever prove what was pruned: were it a trouble,
  // nothing would expire.
  const troubles = doubtful.flatMap(({ send, doubt: { kind, reason } }) =>
    kind !== 'untrue' ? [] : [`${send.hash}: ${reason}`],
  )
  for (const { send, doubt } of doubtful) noteDoubt(ctx.log, send, doubt)
  troubles.push(...(await recordPayments(ctx, proven.map(toSeen))))
  return { troubles }
}

/** What another wallet with the seed has received is on no list. @returns what has to be waited for */
async function lookAtChains(ctx: NanoContext, addresses: readonly string[]): Promise<string[]> {
  const frontiers = await ctx.nano.rpc.frontiers(addresses)
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

const MOST_OVERDUE = 50_000

/** What was sent in time and isn't confirmed holds its invoice and order until it is confirmed or gone. */
async function lookAtUnconfirmed(ctx: NanoContext, startedAt: number): Promise<string[]> {
  const overdue = await ctx.invoices.listOverdue('xno', startedAt, MOST_OVERDUE)
  const listed =
    overdue.length === 0 ? [] : await askAbout(ctx, overdue.map(addressOf), { unconfirmed: true })
  const fresh = await leaveOutKnown(ctx, listed)
  const { proven } = await proveSends(ctx.nano.rpc, await nameAccounts(ctx, fresh), { unconfirmed: true })
  const seen = proven.map((send) => ({ ...toSeen(send), confirmations: 0, isConfirmed: false }))
  const troubles = await recordPayments(ctx, seen)
  const underWay = (await ctx.invoices.listUnderWay('xno')).filter(
    ({ by, waits_for_rate: waits }) => by === 'chain' && waits !== true,
  )
  const blocks = await ctx.nano.rpc.blocksInfo(underWay.map(({ tx }) => tx.toUpperCase()))
  for (const payment of underWay) if (!blocks.has(payment.tx.toUpperCase())) await recordLoss(ctx, payment)
  return troubles
}

interface ListedSend {
  readonly address: string
  readonly hash: string
  readonly amountRaw: bigint
}

interface FoundSend extends ListedSend {
  readonly addressIndex: number
  readonly publicKey: string
}

function toSeen({ hash, amountRaw, addressIndex }: FoundSend): SeenPayment {
  // A confirmed block is final: there is nothing to count up.
  return { coin: 'xno', tx: hash.toLowerCase(), addressIndex, amountRaw, confirmations: 1, isConfirmed: true }
}

async function nameAccounts(ctx: Context, listed: readonly ListedSend[]): Promise<FoundSend[]> {
  const records = await ctx.coins.findAddresses('xno', [...new Set(listed.map(({ address }) => address))])
  const indexes = new Map(records.map(({ address, index }) => [address, index]))
  return listed.map((send) => {
    const addressIndex = indexes.get(send.address)
    const publicKey = parseNanoAddress(send.address)?.publicKey
    if (addressIndex === undefined || publicKey === undefined)
      throw new Error(`the invoice address ${send.address} is none that was made here`)
    return { ...send, addressIndex, publicKey }
  })
}

const KNOWN_BATCH = 1_000

/**
 * A block has one recipient, so its hash says which payment it is. The round settles what waits for a rate.
 */
async function leaveOutKnown(ctx: Context, listed: readonly ListedSend[]): Promise<ListedSend[]> {
  const counted = new Set<string>()
  for (let start = 0; start < listed.length; start += KNOWN_BATCH) {
    const txs = listed.slice(start, start + KNOWN_BATCH).map(({ hash }) => hash.toLowerCase())
    for (const payment of await ctx.invoices.listPaymentProgress('xno', txs))
      if (needsNoLook(payment)) counted.add(`${payment.tx}:${payment.amount_raw}`)
  }
  return listed.filter(({ hash, amountRaw }) => !counted.has(`${hash.toLowerCase()}:${amountRaw}`))
}

const needsNoLook = ({ state, waits_for_rate: waits, reversed_at: reversedAt }: PaymentProgress): boolean =>
  (state === 'settled' && reversedAt === undefined) || waits === true

export async function lookAtOne(ctx: NanoContext, { address }: InvoiceRecord): Promise<void> {
  // What a node that is catching up has is taken in; that it shows nothing is no news.
  await lookAtAddresses(ctx, [address])
  const { trouble } = await readNode(ctx)
  if (trouble !== undefined) throw trouble
}
