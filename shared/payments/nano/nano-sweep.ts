import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS, nowSeconds } from '../../foundation/time.ts'
import { pagesOf } from '../../servers/records.ts'
import { dustThreshold } from '../coin.ts'
import { isStopped, runWalletRound } from '../coin-round.ts'
import type { PaymentRecord } from '../invoice.ts'
import { isNodeTrouble } from '../node-errors.ts'
import { nextDue } from '../payout-round.ts'
import { OPEN_TRANSFERS } from '../payout.ts'
import { noteShown } from '../settlement.ts'
import { buildSend } from './nano-blocks.ts'
import { nanoDriver } from './nano-driver.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import type { NanoAccount } from './nano-keys.ts'
import {
  buildRun,
  MAX_RUN,
  receiveStep,
  runSender,
  stateOf,
  type SenderStep,
  type Standing,
} from './nano-sender.ts'
import { proveSends, requireProvenSend, type ClaimedSend } from './nano-proof.ts'
import { runTreasury } from './nano-treasury.ts'

/**
 * A payment at an invoice's account is received there, sent on to the treasury in one block, and received
 * there. Only settled payments are received: nothing leaves the list of what is receivable before it is
 * counted.
 */

/** The invoices' part of a round ends after so long; the next round goes on. */
const ROUND_MS = 20 * SECOND_MS
const TREASURY_EVERY_MS = 500
const ACCOUNTS_AT_ONCE = 8
const MAX_ACCOUNTS = 500
const PAGE = 500
/** Of one account's payments; a step is found in the first page that has one. */
const ACCOUNT_PAGE = 100

/** Compares the treasury's chain with what is stored even if there is nothing to do. */
export async function sweepNano(ctx: NanoContext): Promise<void> {
  if (await isStopped(ctx, 'xno')) return
  await runWalletRound(ctx, 'xno', () => sweepRound(ctx))
}

async function sweepRound(ctx: NanoContext): Promise<void> {
  const wallet = ctx.nano.wallet()
  const untilMs = performance.now() + ROUND_MS
  const indexes = await listAccounts(ctx, wallet)
  // One account's trouble is no other's.
  const errors: unknown[] = []
  const sendFromNext = async (): Promise<void> => {
    while (performance.now() < untilMs) {
      const index = indexes.shift()
      if (index === undefined) return
      try {
        const next = (standing: Standing) => nextForInvoice(ctx, wallet, standing)
        if ((await runSender(ctx, wallet.keys.deriveAccount(index), next, untilMs)) === 'stopped') return
      } catch (error) {
        errors.push(error)
      }
    }
  }
  const next = nextDue(ctx, nanoDriver(ctx))
  let isSent = false
  const sending = Promise.all(Array.from({ length: ACCOUNTS_AT_ONCE }, sendFromNext)).finally(
    () => (isSent = true),
  )
  const takeIn = async (): Promise<void> => {
    for (let isLast = false; !isLast;) {
      isLast = isSent
      await runTreasury(ctx, next, { takesIn: true })
      if (!isLast) await Promise.race([sending, sleep(TREASURY_EVERY_MS)])
    }
  }
  for (const ended of await Promise.allSettled([sending, takeIn()]))
    if (ended.status === 'rejected') errors.push(ended.reason)
  const [error] = errors.filter((one) => !isNodeTrouble(one)).concat(errors)
  if (error !== undefined) throw error
}

/** With settled payments that have not arrived in the treasury, or a block under way. */
async function listAccounts(ctx: NanoContext, { treasury }: NanoWallet): Promise<number[]> {
  const found = new Set<number>()
  for (const { account_index: index } of await ctx.payouts.listTransfers('xno', OPEN_TRANSFERS, MAX_ACCOUNTS))
    if (index !== undefined) found.add(index)
  for await (const page of pagesOf((after) => ctx.invoices.listUnswept('xno', after, PAGE))) {
    if (found.size >= MAX_ACCOUNTS) break

    // A payment that the operator recorded by hand may name a block that is none.
    const blocks = await ctx.nano.rpc.blocksInfo(page.filter(namesBlock).map(hashOf))
    for (const payment of page) if (blocks.has(hashOf(payment))) found.add(payment.address_index)
  }
  for (const index of await listUnassigned(ctx)) found.add(index)
  found.delete(treasury.index)
  const accounts = [...found].slice(0, MAX_ACCOUNTS)
  // From a place of its own: processes that begin at the same one get into each other's way at each account.
  const start = randomInt(accounts.length + 1)
  return [...accounts.slice(start), ...accounts.slice(0, start)]
}

/** Money that belongs to no invoice is swept all the same. */
async function listUnassigned(ctx: NanoContext): Promise<number[]> {
  const accounts = await ctx.coins.listUnassigned('xno')
  if (accounts.length === 0) return []
  const addresses = accounts.map(({ address }) => address)
  const receivable = await ctx.nano.rpc.receivable(addresses, dustThreshold('xno'))
  const frontiers = await ctx.nano.rpc.frontiers(addresses)
  const last = new Map([...frontiers].map(([address, hash]) => [hash.toLowerCase(), address]))
  const own = await ctx.payouts.listTransfersByTx('xno', [...last.keys()])
  const holding = new Set(own.flatMap(({ kind, tx }) => (kind === 'receive' ? [last.get(tx)] : [])))
  return accounts
    .filter(({ address }) => receivable.has(address) || holding.has(address))
    .map(({ index }) => index)
}

const hashOf = ({ tx }: PaymentRecord): string => tx.toUpperCase()
const namesBlock = ({ tx }: PaymentRecord): boolean => /^[0-9a-f]{64}$/.test(tx)

async function nextForInvoice(ctx: NanoContext, wallet: NanoWallet, standing: Standing) {
  const { account, balanceRaw } = standing
  const readPage = (after: string) => ctx.invoices.listUnsweptAt('xno', account.index, after, ACCOUNT_PAGE)
  for await (const page of pagesOf(readPage)) {
    const { receivable, receivedIds } = await lookAtPage(ctx, account, page.filter(namesBlock))
    if (receivable.length > 0) return receiveAndSend(wallet, standing, receivable, receivedIds)
    if (receivedIds.length > 0 && balanceRaw > 0n) return [sweepStep(wallet, standing, receivedIds)]
    if (receivedIds.length > 0) await ctx.invoices.setSwept(receivedIds, nowSeconds(ctx))
  }
  const [address] = await ctx.coins.listAddresses('xno', [account.index])
  const unassigned = address?.unassigned === true ? await listProven(ctx, account) : []
  if (unassigned.length > 0) return receiveAndSend(wallet, standing, unassigned, [])
  return balanceRaw > 0n ? [sweepStep(wallet, standing, [])] : []
}

async function listProven(ctx: NanoContext, { address, publicKey }: NanoAccount): Promise<Receivable[]> {
  const listed = (await ctx.nano.rpc.receivable([address], dustThreshold('xno'))).get(address) ?? []
  const claimed = listed.slice(0, MAX_RUN).map((send) => ({ ...send, publicKey }))
  const { proven } = await proveSends(ctx.nano.rpc, claimed)
  return proven.map((send) => ({ send, paymentIds: [] }))
}

/** And, if the run is long enough for all of them, sends everything on. */
function receiveAndSend(
  wallet: NanoWallet,
  standing: Standing,
  receivable: readonly Receivable[],
  receivedIds: readonly string[],
): SenderStep[] {
  const { run, after } = buildRun(standing, receivable.slice(0, MAX_RUN), (before, { send, paymentIds }) =>
    receiveStep(wallet, before, send, paymentIds),
  )
  const paymentIds = [...receivedIds, ...receivable.flatMap(({ paymentIds }) => paymentIds)]
  return receivable.length < MAX_RUN ? [...run, sweepStep(wallet, after, paymentIds)] : run
}

function sweepStep(wallet: NanoWallet, standing: Standing, paymentIds: readonly string[]): SenderStep {
  const amountRaw = standing.balanceRaw
  const block = buildSend(stateOf(wallet, standing), { destination: wallet.treasury.address, amountRaw })
  return { block, kind: 'sweep', amountRaw, paymentIds }
}

interface Receivable {
  readonly send: ClaimedSend
  /** None: the money belongs to no invoice. */
  readonly paymentIds: readonly string[]
}

/** Which of these payments are to be received, and which of them blocks of ours received. */
async function lookAtPage(ctx: NanoContext, account: NanoAccount, payments: readonly PaymentRecord[]) {
  const blocks = await ctx.nano.rpc.blocksInfo(payments.map(hashOf))
  const receivable: Receivable[] = []
  const received: { payment: PaymentRecord; by: string }[] = []
  for (const payment of payments) {
    const found = blocks.get(hashOf(payment))
    if (found?.amountRaw === undefined) continue
    const isHere = found.block?.link === account.publicKey
    const isShown = BigInt(payment.amount_raw) === found.amountRaw && found.confirmed
    // What came to another address of ours, and belonged to nobody, counts for this invoice because the
    // operator said so.
    if (isShown && (isHere || (found.receivedBy !== undefined && (await isOurs(ctx, found.receivedBy)))))
      await noteShown(ctx, payment)
    if (found.receivedBy !== undefined) received.push({ payment, by: found.receivedBy.toLowerCase() })
    else if (isHere && receivable.length < MAX_RUN) {
      const send = { hash: found.hash, amountRaw: found.amountRaw, publicKey: account.publicKey }
      await requireProvenSend(ctx.nano.rpc, send)
      if (BigInt(payment.amount_raw) !== send.amountRaw)
        ctx.log.error(
          { payment_id: payment._id, sent_raw: String(send.amountRaw) },
          'a payment was counted with another amount than its block sends',
        )
      receivable.push({ send, paymentIds: [payment._id] })
    }
  }
  return { receivable, receivedIds: await listReceivedByUs(ctx, received) }
}

const isOurs = async (ctx: NanoContext, hash: string): Promise<boolean> =>
  (await ctx.payouts.findTransferByTx('xno', hash.toLowerCase())) !== undefined

/** By blocks of this account, or of another if the money came to belong to nobody. */
async function listReceivedByUs(
  ctx: NanoContext,
  received: readonly { payment: PaymentRecord; by: string }[],
): Promise<string[]> {
  const hashes = received.map(({ by }) => by)
  const ours = await ctx.payouts.listTransfersByTx('xno', hashes)
  const known = new Set(ours.map(({ tx }) => tx))
  return received.filter(({ by }) => known.has(by)).map(({ payment }) => payment._id)
}
