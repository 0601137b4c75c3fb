import type { StoredPayout } from '../../../../shared/money/payout.ts'
import type { TransferRecord } from '../../../../shared/money/transfer.ts'
import type { World } from '../world.ts'

/** A payment that the chain shows from some time on. */
export interface ChainPayment {
  tx: string
  addressIndex: number
  amountRaw: bigint
  shownAtMs: number
  confirmedAtMs: number
  /** A reorganisation has taken it away for now; `wasHidden`: ever. */
  isHidden: boolean
  wasHidden: boolean
}

interface Block {
  tx: string
  /** What it pays, as the payouts were stored when it was published. */
  pays: readonly StoredPayout[]
  isRival: boolean
}

const START = '0'.repeat(64)
const MAX_RIVALS = 3
const MAX_REORGANISATIONS = 2

/** The coin's network: payments that come, and one account's chain, in which a place is had by one block. */
export type Chain = ReturnType<typeof createChain>

export function createChain({ schedule, set, fail }: World) {
  const { random } = schedule
  let made = 0
  let version = 0
  const newTx = (): string => (++made).toString(16).padStart(64, '0')
  const payments: ChainPayment[] = []
  /** By the block before. */
  const blocks = new Map<string, Block>()
  const walk = (): string[] => {
    const path = [START]
    for (let next = blocks.get(START); next !== undefined; next = blocks.get(next.tx)) path.push(next.tx)
    return path
  }
  /** Another wallet of the same seed takes the place of our last block, or the next one. */
  const putRival = (): void => {
    const path = walk()
    const isOurs = blocks.get(path.at(-2) ?? START)?.isRival === false
    const before = isOurs && random.chance(0.7) ? path.at(-2) : path.at(-1)
    blocks.set(before ?? START, { tx: newTx(), pays: [], isRival: true })
    version++
  }
  const isShown = ({ shownAtMs }: ChainPayment): boolean => shownAtMs <= schedule.nowMs
  const happens = (what: string, rate: number, most: number, run: () => void, canBe = () => true): void => {
    let left = most
    const weight = () => (schedule.isCalm || left === 0 || !canBe() ? 0 : rate)
    schedule.events.push({ what, weight, run: () => void (left--, run()) })
  }
  happens('rival', random.pick([0, 0.02, 0.05, 0.3]), MAX_RIVALS, putRival, () => blocks.size > 0)
  happens('reorganisation', random.pick([0, 0.02, 0.1]), MAX_REORGANISATIONS, () => {
    const shown = payments.filter(isShown)
    const lost = shown.length === 0 ? undefined : random.pick(shown)
    if (lost !== undefined) lost.isHidden = lost.wasHidden = true
  })
  happens('the chain has all again', 0.01, MAX_REORGANISATIONS, () => showAll())
  const showAll = (): void => payments.forEach((payment) => (payment.isHidden = false))
  return {
    newTx,
    putRival,
    /** Someone pays, within `spreadMs` from now. */
    pay(addressIndex: number, amountRaw: bigint, spreadMs: number): ChainPayment {
      const shownAtMs = schedule.nowMs + random.below(spreadMs)
      const confirmedAtMs = shownAtMs + random.below(spreadMs / 4)
      const hidden = { isHidden: false, wasHidden: false }
      const payment = { tx: newTx(), addressIndex, amountRaw, shownAtMs, confirmedAtMs, ...hidden }
      payments.push(payment)
      return payment
    },
    /** Every payment, shown yet or not. */
    payments: payments as readonly ChainPayment[],
    listShown: () => payments.filter(isShown),
    /** No more faults: what was taken away is there again. */
    showAll,
    /** Counts what changes the chain of blocks. */
    version: () => version,
    /** What the node finds, which may be out of date when its answer comes. */
    ask: <T>(find: () => T): Promise<T> =>
      new Promise((resolve) => {
        const answer = (found: T) => schedule.add('node answers', () => resolve(found), true)
        schedule.add('node', () => answer(find()), true)
      }),
    /** The last block of the account. */
    frontier: (): string => walk().at(-1) ?? START,
    placesOfRivals: () => walk().filter((tx) => blocks.get(tx)?.isRival),
    has: ({ previous = '', tx }: TransferRecord): boolean => blocks.get(previous)?.tx === tx,
    publish({ previous = '', tx, payout_ids: payoutIds }: TransferRecord): void {
      const isStored = set.lasting('transfers').some((stored) => stored['tx'] === tx)
      // Not thrown: it would end the payer's round like any error.
      if (!isStored) fail(`the block ${tx} is published before it is stored`)
      if (blocks.has(previous) || !walk().includes(previous)) return
      const stored = set.lasting('payouts') as unknown as StoredPayout[]
      blocks.set(previous, { tx, pays: stored.filter(({ _id }) => payoutIds.includes(_id)), isRival: false })
      version++
    },
    /** What the account's blocks pay, in their order. */
    paid: (): StoredPayout[] => walk().flatMap((tx) => blocks.get(tx)?.pays ?? []),
  }
}
