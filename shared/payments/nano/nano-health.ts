import { MINUTE_MS, SECOND_MS, nowSeconds } from '../../foundation/time.ts'
import { noteProblem } from '../coin-round.ts'
import type { Look } from '../driver.ts'
import { NodeUnreachable } from '../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'

/** A node that is cut off, or stands still, answers as any other does, and lacks what was paid since. */

/** A node with fewer confirmed blocks than before, or than its peers, by more than this, is catching up. */
const HEIGHT_SLACK = 1_000
/** The live network confirms blocks each second. Others may be quiet, and have no other node. */
const STANDS_STILL_MS = 5 * MINUTE_MS

/** @returns what is reported of it; `trouble` if what it lacks says nothing */
export async function readNode(
  ctx: NanoContext,
): Promise<{ seen: Look['seen']; trouble: NodeUnreachable | undefined }> {
  const { rpc } = ctx.nano
  const [{ cemented, pruned }, before] = await Promise.all([rpc.blockCount(), ctx.coins.findCoin('xno')])
  const isPruning =
    pruned === undefined
      ? undefined
      : 'it throws away old blocks (enable_pruning), and without them payments cannot be proven'
  if (isPruning !== before?.problems?.node) await noteProblem(ctx, 'xno', 'node', isPruning)
  const highest = before?.height ?? 0
  const now = nowSeconds(ctx)
  const grownAt = cemented > highest || before?.grown_at === undefined ? now : before.grown_at
  const reason =
    cemented + HEIGHT_SLACK < highest
      ? `the node has ${cemented} confirmed blocks, and had ${highest} before: it is still catching up`
      : (await rpc.network()) === 'live'
        ? await doubtLive(ctx, cemented, now - grownAt)
        : undefined
  return {
    seen: { height: Math.max(cemented, highest), grown_at: grownAt },
    trouble: reason === undefined ? undefined : new NodeUnreachable(reason),
  }
}

async function doubtLive({ nano: { rpc } }: NanoContext, cemented: number, stillSeconds: number) {
  if ((await rpc.countPeers()) === 0) return 'the node is connected to no other node of the live network'
  if (stillSeconds * SECOND_MS > STANDS_STILL_MS)
    return `the node has confirmed no block for ${stillSeconds} s`
  const peersHave = (await rpc.peersCemented()) ?? 0
  return cemented + HEIGHT_SLACK < peersHave
    ? `the node has ${cemented} confirmed blocks, and its peers have ${peersHave}`
    : undefined
}
