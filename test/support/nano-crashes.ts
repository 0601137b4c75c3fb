import type { ChildProcess } from 'node:child_process'
import { expect } from 'vitest'
import { sweepNano } from './nano-jobs.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { checkMoney } from './money.ts'
import { DAY_RAW, XNO, strangerAddress, type NanoVenue } from './nano-venue.ts'
import { startChild } from './processes.ts'

const CHILD = new URL('./nano-child.ts', import.meta.url)

/** A call at which the worker is killed. `answered`: while the node's answer to it is on its way. */
export interface CrashPoint {
  call: 'transaction' | 'process' | 'generateWork' | 'setSwept'
  phase: 'before' | 'after' | 'answered'
  count: number
}

/**
 * Transactions and blocks of one whole passage: a payment, its three blocks to the treasury, and one payout.
 */
const TRANSACTIONS = 11
const BLOCKS = 4

const points = (
  call: CrashPoint['call'],
  phases: readonly CrashPoint['phase'][],
  most: number,
): CrashPoint[] =>
  Array.from({ length: most }, (_, place) =>
    phases.map((phase) => ({ call, phase, count: place + 1 })),
  ).flat()

/** Every step of settling, sweeping and sending, in their order. */
export const CRASH_POINTS: readonly CrashPoint[] = [
  ...points('transaction', ['before', 'after'], TRANSACTIONS),
  ...points('generateWork', ['after'], BLOCKS),
  ...points('process', ['before', 'answered', 'after'], BLOCKS),
  ...points('setSwept', ['before', 'after'], 1),
]

/** Payees and invoices of a passage whose blocks go out in runs, and the blocks of it. */
const IN_RUN = 3

/** Each block of a passage with runs: to several payees, and of several invoices into the treasury. */
export const RUN_CRASH_POINTS: readonly CrashPoint[] = points(
  'process',
  ['before', 'answered', 'after'],
  BLOCKS * IN_RUN,
)

export function startNanoChild(
  venue: NanoVenue,
  env: Record<string, string> = {},
): { child: ChildProcess; ended: Promise<string | number> } {
  return startChild(CHILD, { ...venue.env, ...env })
}

/** What is under way before the worker dies, and what must have become of it in the end. */
export interface Passage {
  /** @throws where anything was counted, moved or paid other than once, or was forgotten */
  verify(): Promise<void>
}

/** Payments to invoices, and sums owed, of which the treasury holds enough from the start. */
export async function prepareNanoPassage(venue: NanoVenue, count = 1): Promise<Passage> {
  const { ctx } = venue
  const filledRaw = 10n * XNO
  venue.pay(venue.wallet.treasury, filledRaw)
  await sweepNano(ctx)
  const invoices = await Promise.all(Array.from({ length: count }, () => venue.invoice(1)))
  for (const invoice of invoices) venue.pay(invoice, DAY_RAW)
  const owed: PayoutRecord[] = []
  for (let place = 0; place < count; place++) owed.push(await venue.owe(XNO / 2n, strangerAddress()))
  return {
    async verify() {
      for (const invoice of invoices) {
        expect(await venue.read(invoice)).toMatchObject({ credited_days: 1, received_raw: String(DAY_RAW) })
        expect(venue.holds(invoice.address)).toEqual({ balanceRaw: 0n, receivableRaw: 0n })
      }
      expect(await checkMoney(ctx)).toEqual({ invoices: count, payments: count, settled: count })
      expect(await ctx.invoices.arrivals.listUnswept('xno', '', 1)).toEqual([])
      for (const { _id, address = '' } of owed) {
        expect(venue.holds(address).receivableRaw).toBe(XNO / 2n)
        const { state, pending = [] } = await venue.payout(_id)
        expect([state, pending.map(({ data }) => data['step'])]).toEqual([
          'confirmed',
          ['owed', 'signed', 'sent', 'confirmed'],
        ])
      }
      const treasuryRaw = filledRaw + BigInt(count) * (DAY_RAW - XNO / 2n)
      expect(venue.holds(venue.wallet.treasury.address)).toEqual({
        balanceRaw: treasuryRaw,
        receivableRaw: 0n,
      })
      const transfers = await ctx.payouts.transfers.models.transfers.find({}).lean<TransferRecord[]>()
      expect(transfers.map(({ state }) => state).filter((state) => state !== 'confirmed')).toEqual([])
      // The treasury's first block, and for each: a receive, a sweep, a receive into the treasury, and a
      // payout.
      expect(transfers).toHaveLength(1 + 4 * count)
      expect((await ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
    },
  }
}

/** Kills a worker at that point of a passage with runs, and lets another go on. */
export const crashInRun = (venue: NanoVenue, point: CrashPoint): Promise<void> =>
  crashAt(venue, point, IN_RUN)

/** Kills a worker at that point, and lets another go on. */
export async function crashAt(
  venue: NanoVenue,
  { call, phase, count }: CrashPoint,
  passages = 1,
): Promise<void> {
  const { verify } = await prepareNanoPassage(venue, passages)
  const isAnswer = phase === 'answered'
  const { child, ended } = startNanoChild(
    venue,
    isAnswer ? {} : { CRASH_CALL: call, CRASH_PHASE: phase, CRASH_COUNT: String(count) },
  )
  let answers = 0
  venue.node.lie(({ action }) => {
    if (!isAnswer || action !== call || ++answers !== count) return undefined
    child.kill('SIGKILL')
    return { cutAfterBytes: 0 }
  })
  expect(await ended).toBe('SIGKILL')
  venue.node.lie(null)
  expect(await startNanoChild(venue, { ROUNDS: '2' }).ended).toBe(0)
  await verify()
}
