import { SECOND_MS } from '../../../platform/time.ts'
import { dustThreshold } from '../../coin.ts'
import { AGREES, type Agreement, type NextDue, type SweepRound } from '../../driver.ts'
import { leastToMove, type DueGroup } from '../../payout.ts'
import { TREASURY_INDEX } from '../../transfer.ts'
import { txOf, buildSend, type NanoAccountState } from './nano-blocks.ts'
import type { NanoContext } from './nano-gateway.ts'
import { MAX_RUN, buildRun, receiveStep, runSender, type SenderStep } from './nano-sender.ts'
import { CONFIRMED, logDoubt, proveSends, wasDoubted, type ClaimedSend } from './nano-proof.ts'

const ROUND_MS = 20 * SECOND_MS
/** This many sends are read for the next run, and as many again while too few of them are proven. */
const TREASURY_CANDIDATES = 2 * MAX_RUN
const MAX_READS = 8

/**
 * Sends due payouts from the treasury for up to 20 s, a block for each group.
 *
 * @returns what came of comparing the treasury's chain with the database before each run of blocks
 * @throws NodeUnreachable, NodeRefused
 */
export const payFromTreasury = (ctx: NanoContext, next: NextDue): Promise<Agreement> =>
  runTreasury(ctx, (state) => nextPayouts(ctx, state, next))

/**
 * Sends due payouts like payFromTreasury(), and then receives what waits at the treasury. Payouts come first: else
 * a stream of sales would keep the treasury busy.
 */
export const workTreasury = (ctx: NanoContext, round: SweepRound): Promise<Agreement> =>
  runTreasury(ctx, async (state) => {
    const payouts = await nextPayouts(ctx, state, round.nextDue)
    return payouts.length > 0 ? payouts : nextReceives(ctx, state, round)
  })

async function runTreasury(
  ctx: NanoContext,
  nextRun: (state: NanoAccountState) => Promise<SenderStep[]>,
): Promise<Agreement> {
  const { treasury } = ctx.nano.wallet()
  const end = await runSender(ctx, treasury, nextRun, performance.now() + ROUND_MS)
  return end.kind === 'done' || end.kind === 'waiting' ? AGREES : end
}

/** Returns a send for each group that can be paid out of this balance of the treasury. */
async function nextPayouts(ctx: NanoContext, state: NanoAccountState, next: NextDue): Promise<SenderStep[]> {
  const { account: address, balanceRaw } = state
  const onItsWay = () => sumOnItsWay(ctx, address)
  const groups = await next({ address, totalRaw: balanceRaw, spendableRaw: balanceRaw, onItsWay })
  return buildPayouts(state, groups)
}

/** Sums, in raw, what waits at invoices' accounts to be swept, and at the treasury to be received. */
async function sumOnItsWay(ctx: NanoContext, treasury: string): Promise<bigint> {
  const waiting = (await ctx.nano.rpc.receivable([treasury], dustThreshold('xno'))).get(treasury) ?? []
  return waiting.reduce(
    (sum, { amountRaw }) => sum + amountRaw,
    await ctx.invoices.arrivals.sumUnswept('xno'),
  )
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
async function nextReceives(
  ctx: NanoContext,
  state: NanoAccountState,
  round: SweepRound,
): Promise<SenderStep[]> {
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
  const arrivals = await recordProven(ctx, proven.slice(0, MAX_RUN), round)
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
async function recordProven(
  ctx: NanoContext,
  sends: readonly ClaimedSend[],
  round: SweepRound,
): Promise<Arrived[]> {
  const txs = sends.map(({ hash }) => txOf(hash))
  const ours = new Set((await ctx.payouts.transfers.listByTx('xno', txs)).map(({ tx }) => tx))
  const arrived: Arrived[] = []
  for (const send of sends) {
    const { hash, amountRaw } = send
    const tx = txOf(hash)
    const place = { coin: 'xno', tx, addressIndex: TREASURY_INDEX, amountRaw } as const
    const id = ours.has(tx) ? undefined : await round.recordArrival({ ...place, ...CONFIRMED })
    arrived.push({ send, paymentIds: id === undefined ? [] : [id] })
  }
  return arrived
}
