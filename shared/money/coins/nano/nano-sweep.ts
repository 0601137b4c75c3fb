import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS, nowSeconds } from '../../../platform/time.ts'
import { pagesOf } from '../../../platform/records.ts'
import { dustThreshold } from '../../coin.ts'
import type { SweepRound } from '../../driver.ts'
import type { ArrivalRecord } from '../../arrival.ts'
import { isNodeTrouble } from '../../node-errors.ts'
import { leastToMove } from '../../payout.ts'
import { isTxHash, OPEN_TRANSFERS, TREASURY_INDEX } from '../../transfer.ts'
import { hashOf, txOf, buildSend, type NanoAccountState, type NanoReceivable } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import type { NanoAccount } from './nano-keys.ts'
import { MAX_RUN, buildRun, receiveStep, runSender, type SenderStep } from './nano-sender.ts'
import { CONFIRMED, proveSends, requireProvenSend } from './nano-proof.ts'
import { workTreasury } from './nano-treasury.ts'

/* Money on the books is received at its account, sent to the treasury in one block, received there. */

/** The invoices' part of a round ends after this long; the next round goes on. */
const ROUND_MS = 20 * SECOND_MS
const TREASURY_EVERY_MS = 500
const ACCOUNTS_AT_ONCE = 8
const MAX_ACCOUNTS = 500
const PAGE = 500
const MISCOUNTED = 'a payment was counted with another amount than its block sends'
/** Payments of one account read at once. */
const ACCOUNT_PAGE = 100

/**
 * Moves money on the books from the invoices' accounts to the treasury, eight accounts at once, and works the
 * treasury meanwhile, for about 20 s. Each chain is compared with the database before a block is built on it.
 *
 * @throws the worst error, at the end: an account's error ends the work on that account alone
 */
export async function sweep(ctx: NanoContext, round: SweepRound): Promise<void> {
  const untilMs = performance.now() + ROUND_MS
  const indexes = await listAccounts(ctx)
  const errors: unknown[] = []
  const sweepers = Array.from({ length: ACCOUNTS_AT_ONCE }, () =>
    sweepAccounts(ctx, round, indexes, untilMs, errors),
  )
  let areSwept = false
  const sweeping = Promise.all(sweepers).finally(() => (areSwept = true))
  const workMeanwhile = async (): Promise<void> => {
    // Once more after the last account, whose money is at the treasury by then.
    for (let isLast = false; !isLast;) {
      isLast = areSwept
      const agreement = await workTreasury(ctx, round)
      if (agreement.kind === 'differs') await round.halt(agreement)
      if (!isLast) await Promise.race([sweeping, sleep(TREASURY_EVERY_MS)])
    }
  }
  for (const ended of await Promise.allSettled([sweeping, workMeanwhile()]))
    if (ended.status === 'rejected') errors.push(ended.reason)
  const worst = errors.find((error) => !isNodeTrouble(error)) ?? errors[0]
  if (worst !== undefined) throw worst
}

/**
 * Takes one account after another from `indexes`, which several sweepers share, and empties it.
 *
 * @param untilMs when no account is begun any more, by performance.now
 * @param errors gets the errors of accounts
 */
async function sweepAccounts(
  ctx: NanoContext,
  round: SweepRound,
  indexes: number[],
  untilMs: number,
  errors: unknown[],
): Promise<void> {
  const { keys } = ctx.nano.wallet()
  while (performance.now() < untilMs) {
    const index = indexes.shift()
    if (index === undefined) return
    try {
      const account = keys.deriveAccount(index)
      const next = (state: NanoAccountState) => nextForAccount(ctx, round, account, state)
      const end = await runSender(ctx, account, next, untilMs)
      if (end.kind === 'differs') await round.halt(end)
      if (end.kind === 'differs' || end.kind === 'not compared') return
    } catch (error) {
      errors.push(error)
    }
  }
}

/**
 * Lists indexes of accounts whose settled payments aren't in the treasury yet and are worth it, or with a block
 * under way.
 */
async function listAccounts(ctx: NanoContext): Promise<number[]> {
  const found = new Set<number>()
  for (const { account_index: index } of await ctx.payouts.transfers.list(
    'xno',
    OPEN_TRANSFERS,
    MAX_ACCOUNTS,
  ))
    if (index !== undefined) found.add(index)
  const leastRaw = leastToMove(ctx.config, 'xno')
  const sums = new Map<number, bigint>()
  for await (const page of pagesOf((after) => ctx.invoices.arrivals.listUnswept('xno', after, PAGE))) {
    if (found.size >= MAX_ACCOUNTS) break
    for (const { address_index: index, amount_raw: raw } of page)
      sums.set(index, (sums.get(index) ?? 0n) + BigInt(raw))
    const worthIt = page.filter(({ address_index: index }) => (sums.get(index) ?? 0n) >= leastRaw)
    // A payment that the operator recorded by hand may name something that is not a block.
    const blocks = await ctx.nano.rpc.blocksInfo(worthIt.filter(namesBlock).map(hashOf))
    for (const payment of worthIt) if (blocks.has(hashOf(payment))) found.add(payment.address_index)
  }
  for (const index of await listUnassigned(ctx)) found.add(index)
  found.delete(TREASURY_INDEX)
  const accounts = [...found].slice(0, MAX_ACCOUNTS)
  // Each process begins at a random one, so that two don't meet at every account.
  const start = randomInt(accounts.length + 1)
  return [...accounts.slice(start), ...accounts.slice(0, start)]
}

/** Lists indexes of accounts that hold, or could receive, money of no invoice: it is swept too. */
async function listUnassigned(ctx: NanoContext): Promise<number[]> {
  const accounts = await ctx.coins.addresses.listUnassigned('xno')
  if (accounts.length === 0) return []
  const addresses = accounts.map(({ address }) => address)
  const receivable = await ctx.nano.rpc.receivable(addresses, leastToMove(ctx.config, 'xno'))
  const frontiers = await ctx.nano.rpc.frontiers(addresses)
  const last = new Map([...frontiers].map(([address, hash]) => [txOf(hash), address]))
  const ours = await ctx.payouts.transfers.listByTx('xno', [...last.keys()])
  const holding = new Set(ours.flatMap(({ kind, tx }) => (kind === 'receive' ? [last.get(tx)] : [])))
  return accounts
    .filter(({ address }) => receivable.has(address) || holding.has(address))
    .map(({ index }) => index)
}

/** Whether its `tx` has the form of a block's hash. */
const namesBlock = ({ tx }: ArrivalRecord): boolean => isTxHash(tx)

/** Returns the next steps of an account; none if all its money is in the treasury. */
async function nextForAccount(
  ctx: NanoContext,
  round: SweepRound,
  account: NanoAccount,
  state: NanoAccountState,
): Promise<SenderStep[]> {
  let steps = await nextForArrivals(ctx, round, account, state)
  if (steps.length > 0) return steps
  const [address] = await ctx.coins.addresses.listAt('xno', [account.index])
  if (address?.unassigned === true && (await recordWaiting(ctx, round, account)))
    steps = await nextForArrivals(ctx, round, account, state)
  return steps.length > 0 || state.balanceRaw === 0n ? steps : [sweepStep(ctx, state, [])]
}

/** Returns the next steps for what is on record at an account and not in the treasury; none if there is nothing. */
async function nextForArrivals(
  ctx: NanoContext,
  round: SweepRound,
  account: NanoAccount,
  state: NanoAccountState,
): Promise<SenderStep[]> {
  const isEmpty = state.balanceRaw === 0n
  const readPage = (after: string) =>
    ctx.invoices.arrivals.listUnsweptAt('xno', account.index, after, ACCOUNT_PAGE)
  for await (const page of pagesOf(readPage)) {
    const { receivable, receivedIds } = await readSweepPage(ctx, round, account, page.filter(namesBlock))
    if (receivable.length > 0) return receiveAndSend(ctx, state, receivable, receivedIds)
    if (receivedIds.length > 0 && !isEmpty) return [sweepStep(ctx, state, receivedIds)]
    if (receivedIds.length > 0) await ctx.invoices.arrivals.setSwept(receivedIds, nowSeconds(ctx))
  }
  return []
}

/** Records up to MAX_RUN sends to an account that the node lists and its blocks prove. @returns false if none */
async function recordWaiting(
  ctx: NanoContext,
  round: SweepRound,
  { address, index }: NanoAccount,
): Promise<boolean> {
  const listed = (await ctx.nano.rpc.receivable([address], dustThreshold('xno'))).get(address) ?? []
  const claimed = listed.slice(0, MAX_RUN).map((send) => ({ ...send, address }))
  const { proven } = await proveSends(ctx.nano.rpc, claimed)
  for (const { hash, amountRaw } of proven)
    await round.recordArrival({ coin: 'xno', tx: txOf(hash), addressIndex: index, amountRaw, ...CONFIRMED })
  return proven.length > 0
}

/** Returns steps that receive up to MAX_RUN sends and, if there are no more, then send everything on. */
function receiveAndSend(
  ctx: NanoContext,
  state: NanoAccountState,
  receivable: readonly Receivable[],
  receivedIds: readonly string[],
): SenderStep[] {
  const { run, after } = buildRun(state, receivable.slice(0, MAX_RUN), (before, { send, paymentIds }) =>
    receiveStep(before, send, paymentIds),
  )
  const paymentIds = [...receivedIds, ...receivable.flatMap(({ paymentIds }) => paymentIds)]
  return receivable.length < MAX_RUN ? [...run, sweepStep(ctx, after, paymentIds)] : run
}

/** Returns the step that sends an account's whole balance to the treasury. */
function sweepStep(ctx: NanoContext, state: NanoAccountState, paymentIds: readonly string[]): SenderStep {
  const destination = ctx.nano.wallet().treasury.address
  const amountRaw = state.balanceRaw
  return { block: buildSend(state, { destination, amountRaw }), kind: 'sweep', amountRaw, paymentIds }
}

interface Receivable {
  readonly send: NanoReceivable
  readonly paymentIds: readonly string[]
}

/**
 * Asks the node for the sends that are on record at an account, and notes those that the chain shows.
 *
 * @returns up to MAX_RUN that can be received, and the ids of those that blocks of ours have received
 * @throws NodeUnreachable if a send that can be received isn't proven
 */
async function readSweepPage(
  ctx: NanoContext,
  round: SweepRound,
  account: NanoAccount,
  payments: readonly ArrivalRecord[],
) {
  const blocks = await ctx.nano.rpc.blocksInfo(payments.map(hashOf))
  const receivable: Receivable[] = []
  const receivedBy = new Map<string, string>()
  for (const payment of payments) {
    const found = blocks.get(hashOf(payment))
    if (found?.amountRaw === undefined) continue
    const isHere = found.block?.link === account.publicKey
    const isShown = BigInt(payment.amount_raw) === found.amountRaw && found.confirmed
    if (isShown && isHere) await round.noteShown(payment)
    if (found.receivedBy !== undefined) receivedBy.set(payment._id, txOf(found.receivedBy))
    else if (isHere && receivable.length < MAX_RUN) {
      const send = { hash: found.hash, amountRaw: found.amountRaw }
      await requireProvenSend(ctx.nano.rpc, { ...send, address: account.address })
      if (BigInt(payment.amount_raw) !== send.amountRaw)
        ctx.log.error({ payment_id: payment._id, sent_raw: String(send.amountRaw) }, MISCOUNTED)
      receivable.push({ send, paymentIds: [payment._id] })
    }
  }
  const ours = await ctx.payouts.transfers.listByTx('xno', [...receivedBy.values()])
  const ourTxs = new Set(ours.map(({ tx }) => tx))
  const receivedIds = [...receivedBy].flatMap(([id, tx]) => (ourTxs.has(tx) ? [id] : []))
  return { receivable, receivedIds }
}
