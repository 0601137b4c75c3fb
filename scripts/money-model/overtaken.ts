/*
 * Those who are owed longest are paid first. A payout that others overtake again and again is stuck, and that
 * is known long before patience ends, however slow the machine is.
 */
import type { PayoutView } from './views.ts'
import { check, RECOVERY_MS, type Sale, type World } from './world.ts'

/** What is due is listed anew after so long at the latest: what came later than that stands behind. */
const LISTED_WITHIN_MS = 8_000
/** So many have to overtake: a round may be cut, and drop what it had listed. */
const OVERTAKERS = 3

export interface SeenPayout {
  readonly at: number
  readonly amountRaw: bigint
  readonly firstMs: number
  /** Since then it could be sent and the treasury had enough for it, each time that it was looked at. */
  freeMs?: number | undefined
  isPaid: boolean
}

const ON_THE_WAY: readonly PayoutView['state'][] = ['signed', 'sent', 'confirmed']

const mayGo = ({ state, frozen, address, ...payout }: PayoutView): boolean =>
  state === 'owed' && !frozen && address !== null && !payout.waits_for_chain && !payout.to_self

/** Notes the payouts of an order as they are now. */
export function checkTurn(world: World, { sharesAddresses }: Sale, payouts: readonly PayoutView[]): void {
  const nowMs = world.history.nowMs()
  const { seenPayouts: seen, treasury } = world
  const thereRaw = treasury === undefined ? 0n : world.chain.balanceOf(treasury)
  for (const payout of payouts) {
    const { payout_id: id, at, amount_raw: raw } = payout
    const known: SeenPayout = seen.get(id) ?? { at, amountRaw: BigInt(raw), firstMs: nowMs, isPaid: false }
    seen.set(id, known)
    known.isPaid = ON_THE_WAY.includes(payout.state)
    known.freeMs = mayGo(payout) && thereRaw >= known.amountRaw ? (known.freeMs ?? nowMs) : undefined
    // With others to its address it waits until the treasury has enough for those before it.
    if (known.freeMs === undefined || sharesAddresses || world.faults > 0) continue
    const sinceMs = Math.max(known.freeMs, world.disturbedMs + RECOVERY_MS) + LISTED_WITHIN_MS
    const before = [...seen.values()].filter(
      (other) => other.isPaid && other.firstMs > sinceMs && other.at > at + LISTED_WITHIN_MS / 1_000,
    )
    check(
      world,
      before.length < OVERTAKERS,
      `payout ${id} of ${raw} raw is owed for ${Math.round((nowMs - known.freeMs) / 1_000)} s, and ${before.length} that came after it have been paid`,
    )
  }
}
