import { SECOND_MS } from '../../../platform/time.ts'
import { recordUnassigned } from '../../arrivals.ts'
import { dustThreshold } from '../../coin.ts'
import type { Difference, NextDue } from '../../driver.ts'
import { leastToMove, TREASURY_INDEX, type DueGroup } from '../../payout.ts'
import { buildSend, type NanoAccountState } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import { buildRun, MAX_RUN, receiveStep, runSender, type SenderStep } from './nano-sender.ts'
import { logDoubt, proveSends, wasDoubted, type ClaimedSend } from './nano-proof.ts'

const ROUND_MS = 20 * SECOND_MS
/** This many sends are read for the next run, and as many again while too few of them are proven. */
const TREASURY_CANDIDATES = 2 * MAX_RUN
const MAX_READS = 8

/**
 * Sends due payouts from the treasury for up to 20 s, a block for each group, and then with `isReceiving`
 * receives what waits there. Payouts come first: else a stream of sales would keep the treasury busy.
 *
 * @returns the difference between the treasury's chain and the database that ended it, if there is one
 * @throws NodeUnreachable, NodeRefused
 */
export async function runTreasury(
  ctx: NanoContext,
  next: NextDue,
  { isReceiving = false } = {},
): Promise<Difference | undefined> {
  const { treasury } = ctx.nano.wallet()
  /** Chooses the blocks that follow on `state`: payouts, or else receives. */
  const nextRun = async (state: NanoAccountState): Promise<SenderStep[]> => {
    const { account: address, balanceRaw } = state
    const onItsWay = () => sumOnItsWay(ctx, address)
    const groups = await next({ address, totalRaw: balanceRaw, spendableRaw: balanceRaw, onItsWay })
    if (groups.length > 0) return buildPayouts(state, groups)
    return isReceiving ? nextReceives(ctx, state) : []
  }
  const end = await runSender(ctx, treasury, nextRun, performance.now() + ROUND_MS)
  return end.kind === 'differs' ? end : undefined
}

/** Sums, in raw, what waits at invoices' accounts to be swept, and at the treasury to be received. */
async function sumOnItsWay(ctx: NanoContext, treasury: string): Promise<bigint> {
  const waiting = (await ctx.nano.rpc.receivable([treasury], dustThreshold('xno'))).get(treasury) ?? []
  return waiting.reduce((sum, { amountRaw }) => sum + amountRaw, await ctx.invoices.sumUnswept('xno'))
}

/** Builds a send for each group, one on the other, on the account's state. */
function buildPayouts(state: NanoAccountState, groups: readonly DueGroup[]): SenderStep[] {
  const pay = (before: NanoAccountState, group: DueGroup): SenderStep => {
    const { address: destination, sumRaw: amountRaw, payouts } = group
    return { block: buildSend(before, { destination, amountRaw }), kind: 'payout', amountRaw, payouts }
  }
  return buildRun(state, groups, pay).run
}

/** Returns receives of proven sends to the treasury (our sweeps, or the operator's), the largest first. */
async function nextReceives(ctx: NanoContext, state: NanoAccountState): Promise<SenderStep[]> {
  const { rpc } = ctx.nano
  const { account: address } = state
  const listed = (await rpc.receivable([address], leastToMove(ctx.config, 'xno'))).get(address) ?? []
  const receivable = listed.map((send) => ({ ...send, address }))
  // What was in doubt before comes last: however many of those there are, some round gets past them.
  const candidates = [...receivable.filter((send) => !wasDoubted(send)), ...receivable.filter(wasDoubted)]
  const proven: ClaimedSend[] = []
  for (let read = 0; read < MAX_READS && proven.length < MAX_RUN; read++) {
    const sends = candidates.slice(read * TREASURY_CANDIDATES, (read + 1) * TREASURY_CANDIDATES)
    if (sends.length === 0) break
    const proved = await proveSends(rpc, sends)
    proven.push(...proved.proven)
    for (const { send, doubt } of proved.doubtful) logDoubt(ctx.log, send, doubt)
  }
  const arrivals = await recordProven(ctx, proven.slice(0, MAX_RUN))
  const receive = (before: NanoAccountState, { send, paymentIds }: Arrived) =>
    receiveStep(before, send, paymentIds)
  return buildRun(state, arrivals, receive).run
}

interface Arrived {
  readonly send: ClaimedSend
  /** None: it is one of our own sweeps. */
  readonly paymentIds: readonly string[]
}

/** Records proven sends to the treasury, but for our own: what is received was booked before. */
async function recordProven(ctx: NanoContext, sends: readonly ClaimedSend[]): Promise<Arrived[]> {
  const txs = sends.map(({ hash }) => hash.toLowerCase())
  const ours = new Set((await ctx.payouts.listTransfersByTx('xno', txs)).map(({ tx }) => tx))
  const arrived: Arrived[] = []
  for (const send of sends) {
    const { hash, amountRaw } = send
    const found = { coin: 'xno', tx: hash.toLowerCase(), addressIndex: TREASURY_INDEX, amountRaw } as const
    const id = ours.has(found.tx) ? undefined : await recordUnassigned(ctx, found)
    arrived.push({ send, paymentIds: id === undefined ? [] : [id] })
  }
  return arrived
}
