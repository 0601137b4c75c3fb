import { MINUTE_MS, SECOND_MS, nowSeconds } from '../../../platform/time.ts'
import type { ScanEnd, Sighting } from '../../driver.ts'
import { NodeUnreachable } from '../../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'

/** A node with fewer confirmed blocks than before, or than its peers, by more than this, is catching up. */
const HEIGHT_SLACK = 1_000
/** The live network confirms blocks each second. Others may be quiet, and have no other node. */
const STANDS_STILL_MS = 5 * MINUTE_MS

/**
 * Asks whether the node is behind or cut off: such a node answers as any other, and lacks what was paid
 * since. In the live network one that stands still lacks what was sent since the chain last grew (`sureUntil`).
 *
 * @returns also whether it is a new problem of the coin that the node prunes, or no longer one
 */
export async function readNode(ctx: NanoContext): Promise<{ problems: Sighting[]; end: ScanEnd }> {
  const { rpc } = ctx.nano
  const [{ cemented, pruned }, before] = await Promise.all([rpc.blockCount(), ctx.coins.findCoin('xno')])
  const sentence = pruned === undefined ? undefined : PRUNING
  const isNews = sentence !== before?.problems?.node
  const highest = before?.height ?? 0
  const now = nowSeconds(ctx)
  const grownAt = cemented > highest || before?.grown_at === undefined ? now : before.grown_at
  const isLive = (await rpc.network()) === 'live'
  let reason: string | undefined
  if (cemented + HEIGHT_SLACK < highest)
    reason = `the node has ${cemented} confirmed blocks, and had ${highest} before: it is still catching up`
  else if (isLive) reason = await doubtLive(ctx, cemented, now - grownAt)
  const problems: Sighting[] = isNews ? [{ kind: 'problem', about: 'node', sentence }] : []
  if (reason !== undefined) {
    // What it has grown by since is not known to be the newest: that counts from when it was last in reach.
    const seen = cemented > highest ? {} : { height_at: now }
    return { problems, end: { seen, doubt: new NodeUnreachable(reason) } }
  }
  const seen = { height: Math.max(cemented, highest), height_at: now, grown_at: grownAt }
  // It has grown at some time after it was last read.
  const sureUntil = cemented > highest ? (before?.height_at ?? 0) : 0
  return { problems, end: { seen, ...(isLive ? { sureUntil } : {}) } }
}

const PRUNING = 'it throws away old blocks (enable_pruning), and without them payments cannot be proven'

/** Returns why a node of the live network may be cut off or behind; undefined if nothing says so. */
async function doubtLive({ nano: { rpc } }: NanoContext, cemented: number, stillSeconds: number) {
  if ((await rpc.countPeers()) === 0) return 'the node is connected to no other node of the live network'
  if (stillSeconds * SECOND_MS > STANDS_STILL_MS)
    return `the node has confirmed no block for ${stillSeconds} s`
  const peersHave = (await rpc.peersCemented()) ?? 0
  if (cemented + HEIGHT_SLACK >= peersHave) return undefined
  return `the node has ${cemented} confirmed blocks, and its peers have ${peersHave}`
}
