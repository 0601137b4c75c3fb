import { SECOND_MS } from '../../foundation/time.ts'
import { dustThreshold } from '../coin.ts'
import type { NextDue } from '../driver.ts'
import type { DueGroup } from '../due-payouts.ts'
import { buildSend } from './nano-blocks.ts'
import type { NanoContext, NanoWallet } from './nano-gateway.ts'
import {
  buildRun,
  MAX_RUN,
  receiveStep,
  runSender,
  stateOf,
  type SenderStep,
  type Standing,
} from './nano-sender.ts'
import { noteDoubt, proveSends, wasDoubted, type ClaimedSend } from './nano-proof.ts'

/**
 * Payouts come first, in every process: else a stream of sales would keep the treasury busy with receiving.
 */

const ROUND_MS = 20 * SECOND_MS
/** So many of the largest are looked at for the next run, and as many again while too few are proven. */
const TREASURY_CANDIDATES = 2 * MAX_RUN
const MAX_LOOKS = 8

/** Each group in a block of its own; with `takesIn` receives, too. @throws NodeUnreachable, NodeRefused */
export async function runTreasury(ctx: NanoContext, next: NextDue, options: { takesIn: boolean }) {
  const wallet = ctx.nano.wallet()
  const nextRun = async (standing: Standing): Promise<SenderStep[]> => {
    const { balanceRaw } = standing
    const { address } = wallet.treasury
    const groups = await next({
      address,
      totalRaw: balanceRaw,
      spendableRaw: balanceRaw,
      onItsWay: () => sumOnItsWay(ctx, address),
    })
    if (groups.length > 0) return payEach(wallet, standing, groups)
    return options.takesIn ? nextToTakeIn(ctx, wallet, standing) : []
  }
  await runSender(ctx, wallet.treasury, nextRun, performance.now() + ROUND_MS)
}

/** What waits at the invoices' accounts to be swept, and at the treasury to be received. */
async function sumOnItsWay(ctx: NanoContext, treasury: string): Promise<bigint> {
  const waiting = (await ctx.nano.rpc.receivable([treasury], dustThreshold('xno'))).get(treasury) ?? []
  return waiting.reduce((sum, { amountRaw }) => sum + amountRaw, await ctx.invoices.sumUnswept('xno'))
}

function payEach(wallet: NanoWallet, standing: Standing, groups: readonly DueGroup[]): SenderStep[] {
  const pay = (before: Standing, { address: destination, sumRaw, payouts }: DueGroup): SenderStep => ({
    block: buildSend(stateOf(wallet, before), { destination, amountRaw: sumRaw }),
    kind: 'payout',
    amountRaw: sumRaw,
    payouts,
  })
  return buildRun(standing, groups, pay).run
}

/** From our own sweeps, or the operator's. */
async function nextToTakeIn(ctx: NanoContext, wallet: NanoWallet, standing: Standing): Promise<SenderStep[]> {
  const { rpc } = ctx.nano
  const { address, publicKey } = wallet.treasury
  const listed = (await rpc.receivable([address], dustThreshold('xno'))).get(address) ?? []
  const receivable = listed.map((send) => ({ ...send, publicKey }))
  // What was in doubt before comes last: however many of those there are, some round gets past them.
  const candidates = [...receivable.filter((send) => !wasDoubted(send)), ...receivable.filter(wasDoubted)]
  const proven: ClaimedSend[] = []
  for (let look = 0; look < MAX_LOOKS && proven.length < MAX_RUN; look++) {
    const sends = candidates.slice(look * TREASURY_CANDIDATES, (look + 1) * TREASURY_CANDIDATES)
    if (sends.length === 0) break
    const looked = await proveSends(rpc, sends)
    proven.push(...looked.proven)
    for (const { send, doubt } of looked.doubtful) noteDoubt(ctx.log, send, doubt)
  }
  const receive = (before: Standing, send: ClaimedSend) => receiveStep(wallet, before, send)
  return buildRun(standing, proven.slice(0, MAX_RUN), receive).run
}
