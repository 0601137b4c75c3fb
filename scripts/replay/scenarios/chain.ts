import type { TransferRecord } from '../../../shared/payments/payout.ts'
import { requireThat } from '../stubs.ts'
import type { World } from '../world.ts'

/** A payment that the chain shows from some time on. */
interface ChainPayment {
  tx: string
  addressIndex: number
  amountRaw: bigint
  confirmedAtMs: number
}

const START = '0'.repeat(64)
const SPREAD_MS = 50_000

/** The coin's network: payments that come, and one account's chain, in which a place is had by one block. */
export type Chain = ReturnType<typeof createChain>

/** @param due the indexes and prices of the addresses that are paid, in parts, some too much */
export function createChain({ schedule, set }: World, due: readonly (readonly [number, bigint])[]) {
  const { random } = schedule
  let made = 0
  const newTx = (): string => (++made).toString(16).padStart(64, '0')
  const payments = due.flatMap(([addressIndex, price]) =>
    Array.from({ length: 1 + random.below(3) }, () => {
      const shownAtMs = schedule.nowMs + random.below(SPREAD_MS)
      const amountRaw = (price / 10n) * BigInt(random.pick([4, 6, 10]))
      return {
        tx: newTx(),
        addressIndex,
        amountRaw,
        shownAtMs,
        confirmedAtMs: shownAtMs + random.below(5_000),
      }
    }),
  )
  /** By the block before. */
  const blocks = new Map<string, { tx: string; payoutIds: readonly string[] }>()
  const walk = (): string[] => {
    const path = [START]
    for (let next = blocks.get(START); next !== undefined; next = blocks.get(next.tx)) path.push(next.tx)
    return path
  }
  return {
    newTx,
    payments: (isAll: boolean): ChainPayment[] =>
      payments
        .filter(({ shownAtMs }) => isAll || shownAtMs <= schedule.nowMs)
        .map(({ tx, addressIndex, amountRaw, confirmedAtMs }) => ({
          tx,
          addressIndex,
          amountRaw,
          confirmedAtMs,
        })),
    /** The last block of the account. */
    frontier: (): string => walk().at(-1) ?? START,
    has: ({ previous = '', tx }: TransferRecord): boolean => blocks.get(previous)?.tx === tx,
    publish({ previous = '', tx, payout_ids: payoutIds }: TransferRecord): void {
      const isStored = set.lasting('transfers').some((stored) => stored['tx'] === tx)
      requireThat(isStored, `the block ${tx} is published before it is stored`)
      if (!blocks.has(previous) && walk().includes(previous)) blocks.set(previous, { tx, payoutIds })
    },
    /** Another wallet of the same seed takes the last block's place, or the next one. */
    putRival(): void {
      const path = walk()
      const before = random.chance(0.5) ? path.at(-2) : path.at(-1)
      blocks.set(before ?? START, { tx: newTx(), payoutIds: [] })
    },
    check(): void {
      const paid = walk().flatMap((tx) => blocks.get(tx)?.payoutIds ?? [])
      requireThat(new Set(paid).size === paid.length, 'the chain pays a payout twice')
    },
  }
}
