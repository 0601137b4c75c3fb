import { SECOND_MS } from '../../../platform/time.ts'
import { noteProblem } from '../../coin-state.ts'
import { isNodeTrouble } from '../../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'
import type { NanoKeys } from './nano-keys.ts'

/** A node works on them one after another. */
const WORK_AT_ONCE = 2
let searches = 0
const waitingForWork = { urgent: [] as (() => void)[], others: [] as (() => void)[] }

/**
 * Asks for work for a root, two searches at once in this process, the urgent first: each may take a minute.
 * A failure is stored as a problem of the coin, which is not ready then: nothing could be paid out.
 */
export async function generateWork(
  ctx: NanoContext,
  root: string,
  threshold: bigint,
  { isUrgent = false, limitMs }: { isUrgent?: boolean; limitMs?: number } = {},
): Promise<string> {
  const queue = isUrgent ? waitingForWork.urgent : waitingForWork.others
  while (searches >= WORK_AT_ONCE) await new Promise<void>((resume) => queue.push(resume))
  searches++
  try {
    const work = await ctx.nano.rpc.generateWork(root, threshold, limitMs)
    await noteProblem(ctx, 'xno', 'work', undefined)
    return work
  } catch (error) {
    if (isNodeTrouble(error)) await noteProblem(ctx, 'xno', 'work', error.message)
    throw error
  } finally {
    searches--
    ;(waitingForWork.urgent.shift() ?? waitingForWork.others.shift())?.()
  }
}

/** The least work there is takes a processor a second. */
const TRIAL_LIMIT_MS = 10 * SECOND_MS

const tried = new WeakSet<NanoKeys>()

/**
 * Tries whether work can be generated, so that a failure is known before the first payout: once for this
 * wallet in this process, and again as long as a problem with work is on record.
 */
export async function tryWork(ctx: NanoContext): Promise<void> {
  const { keys, treasury } = ctx.nano.wallet()
  if (tried.has(keys) && (await ctx.coins.findCoin('xno'))?.problems?.work === undefined) return
  const { receive } = await ctx.nano.rpc.workThresholds()
  tried.add(keys)
  try {
    await generateWork(ctx, treasury.publicKey, receive, { limitMs: TRIAL_LIMIT_MS })
  } catch (error) {
    if (!isNodeTrouble(error)) throw error
  }
}
