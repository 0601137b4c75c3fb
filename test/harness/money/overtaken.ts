/*
 * Finds payouts that are stuck, however slow the machine is. Who is owed longest is paid first, so one is stuck if
 * payouts that came later are paid again and again; or if, in a run without faults, it takes many times as long as
 * others.
 */
import type { PayoutView } from './views.ts'
import { DUST_RAW } from '../auditor/outside.ts'
import { check, recoveredAtMs, type Sale, type Market } from './world.ts'

/**
 * The service lists what is due anew at least this often; a payout that came later than that stands behind.
 */
const LISTED_WITHIN_MS = 8_000
/** It takes this many to call a payout stuck: a round may be cut short, and drop what it had listed. */
const OVERTAKERS = 3
/** A payout takes too long if it takes this many times the median, and at least LEAST_MS. */
const TIMES_AS_LONG = 8
const LEAST_MS = 15_000
/** The fewest payouts that give a median. */
const LEAST_KNOWN = 5

/** What is remembered of a payout; times in milliseconds of the history. */
export interface SeenPayout {
  /** When it was owed, in Unix seconds. */
  readonly at: number
  readonly amountRaw: bigint
  /** When it was first looked at. */
  readonly firstMs: number
  /** Since when, at each look, it could be sent and the treasury had enough for it. */
  sendableSinceMs?: number | undefined
  isPaid: boolean
  /** How long it could be sent before it was paid. */
  tookMs?: number
}

const ON_THE_WAY: readonly PayoutView['state'][] = ['signed', 'sent', 'confirmed']

/** Whether a payout is owed and nothing holds it back. */
const canBeSent = ({ state, frozen, address, ...payout }: PayoutView): boolean =>
  state === 'owed' && !frozen && address !== null && !payout.waits_for_chain && !payout.to_self

/** Notes an order's payouts as they are now, and checks that none of them is stuck. */
export function checkNotStuck(
  world: Market,
  { sharesAddresses }: Sale,
  payouts: readonly PayoutView[],
): void {
  const nowMs = world.history.nowMs()
  const { seenPayouts: seen, treasury } = world
  const treasuryRaw = treasury === undefined ? 0n : world.chain.balanceOf(treasury)
  for (const payout of payouts) {
    const { payout_id: id, at, amount_raw: raw } = payout
    const known: SeenPayout = seen.get(id) ?? { at, amountRaw: BigInt(raw), firstMs: nowMs, isPaid: false }
    seen.set(id, known)
    known.isPaid = ON_THE_WAY.includes(payout.state)
    if (known.isPaid && known.sendableSinceMs !== undefined) known.tookMs = nowMs - known.sendableSinceMs
    const isAffordable = known.amountRaw >= DUST_RAW && treasuryRaw >= known.amountRaw
    known.sendableSinceMs = canBeSent(payout) && isAffordable ? (known.sendableSinceMs ?? nowMs) : undefined
    // If orders share its address, it waits until the treasury has enough for those before it.
    if (known.sendableSinceMs === undefined || sharesAddresses || world.history.faultsUnderWay > 0) continue
    const sinceMs = Math.max(known.sendableSinceMs, recoveredAtMs(world)) + LISTED_WITHIN_MS
    const overtakers = [...seen.values()].filter(
      (other) => other.isPaid && other.firstMs > sinceMs && other.at > at + LISTED_WITHIN_MS / 1_000,
    )
    const waitsMs = nowMs - known.sendableSinceMs
    const what = `payout ${id} of ${raw} raw is owed for ${Math.round(waitsMs / 1_000)} s`
    check(
      world,
      overtakers.length < OVERTAKERS,
      `${what}, and ${overtakers.length} that came after it have been paid`,
    )
    const usualMs = world.history.faults.length > 0 ? undefined : medianWaitMs([...seen.values()])
    check(
      world,
      usualMs === undefined || waitsMs < Math.max(LEAST_MS, TIMES_AS_LONG * usualMs),
      `${what}, and others take ${usualMs} ms`,
    )
  }
}

/** The median of how long payouts took; undefined if too few are known. */
function medianWaitMs(seen: readonly SeenPayout[]): number | undefined {
  const took = seen.flatMap(({ tookMs }) => tookMs ?? []).sort((one, other) => one - other)
  return took.length < LEAST_KNOWN ? undefined : took[Math.floor(took.length / 2)]
}
