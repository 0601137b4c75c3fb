/*
 * A payout that is stuck is known as that long before patience ends, however slow the machine is: those who
 * are owed longest are paid first, and others are paid after it again and again; or, where nothing was ever
 * disturbed, it takes many times as long as others do.
 */
import type { PayoutView } from './views.ts'
import { check, DUST_RAW, recoveredMs, type Sale, type World } from './world.ts'

/** What is due is listed anew after so long at the latest: what came later than that stands behind. */
const LISTED_WITHIN_MS = 8_000
/** So many have to overtake: a round may be cut, and drop what it had listed. */
const OVERTAKERS = 3
/** As long as so many took in the middle, and at least so long, is long. */
const TIMES_AS_LONG = 8
const LEAST_MS = 15_000
const LEAST_KNOWN = 5

export interface SeenPayout {
  readonly at: number
  readonly amountRaw: bigint
  readonly firstMs: number
  /** Since then it could be sent and the treasury had enough for it, each time that it was looked at. */
  freeMs?: number | undefined
  isPaid: boolean
  tookMs?: number
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
    if (known.isPaid && known.freeMs !== undefined) known.tookMs = nowMs - known.freeMs
    const isMoney = known.amountRaw >= DUST_RAW && thereRaw >= known.amountRaw
    known.freeMs = mayGo(payout) && isMoney ? (known.freeMs ?? nowMs) : undefined
    // With others to its address it waits until the treasury has enough for those before it.
    if (known.freeMs === undefined || sharesAddresses || world.faults > 0) continue
    const sinceMs = Math.max(known.freeMs, recoveredMs(world)) + LISTED_WITHIN_MS
    const before = [...seen.values()].filter(
      (other) => other.isPaid && other.firstMs > sinceMs && other.at > at + LISTED_WITHIN_MS / 1_000,
    )
    const waitsMs = nowMs - known.freeMs
    const what = `payout ${id} of ${raw} raw is owed for ${Math.round(waitsMs / 1_000)} s`
    check(
      world,
      before.length < OVERTAKERS,
      `${what}, and ${before.length} that came after it have been paid`,
    )
    const usualMs = world.history.faults.length > 0 ? undefined : readUsual([...seen.values()])
    check(
      world,
      usualMs === undefined || waitsMs < Math.max(LEAST_MS, TIMES_AS_LONG * usualMs),
      `${what}, and others take ${usualMs} ms`,
    )
  }
}

/** How long others waited, in the middle; undefined as long as too few are known. */
function readUsual(seen: readonly SeenPayout[]): number | undefined {
  const took = seen.flatMap(({ tookMs }) => tookMs ?? []).sort((one, other) => one - other)
  return took.length < LEAST_KNOWN ? undefined : took[Math.floor(took.length / 2)]
}
