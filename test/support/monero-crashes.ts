import { expect } from 'vitest'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { sendMonero } from './monero-jobs.ts'
import { checkMoney } from './money.ts'
import {
  CONFIRMATIONS,
  DAY_PICO,
  UNLOCK_BLOCKS,
  XMR,
  type MoneroPayee,
  type MoneroVenue,
} from './monero-venue.ts'
import { startChild } from './processes.ts'

const CHILD = new URL('./monero-child.ts', import.meta.url)

/** A call at which the worker is killed; `confirmed`: the transaction that says so of the payout. */
export interface CrashPoint {
  call: 'transaction' | 'prepareTransfer' | 'relay' | 'confirmed'
  phase: 'before' | 'after'
  count: number
}

/** Of a payment that is found confirmed: noted, settled. Of a payout: stored, said to be sent. */
const TRANSACTIONS = 4

/** Every step of settling and sending. */
export const CRASH_POINTS: readonly CrashPoint[] = [
  ...Array.from({ length: TRANSACTIONS }, (_, place) =>
    (['before', 'after'] as const).map((phase) => ({
      call: 'transaction' as const,
      phase,
      count: place + 1,
    })),
  ).flat(),
  { call: 'prepareTransfer', phase: 'before', count: 1 },
  { call: 'prepareTransfer', phase: 'after', count: 1 },
  { call: 'relay', phase: 'before', count: 1 },
  { call: 'relay', phase: 'after', count: 1 },
  { call: 'confirmed', phase: 'before', count: 1 },
  { call: 'confirmed', phase: 'after', count: 1 },
]

/** Runs a worker in a process of its own. @returns the signal that ended it, or its exit code */
export function runMoneroChild(
  venue: MoneroVenue,
  env: Record<string, string> = {},
): Promise<string | number> {
  return startChild(CHILD, { ...venue.env, ...env }).ended
}

/**
 * A payment that nobody has seen yet, and a sum that is owed: kills a worker at that point, lets others go
 * on, and checks that there is one credit and one transfer.
 */
export async function crashAt(
  venue: MoneroVenue,
  payee: MoneroPayee,
  { call, phase, count }: CrashPoint,
): Promise<void> {
  const invoice = await venue.invoice(1)
  await venue.pay(invoice, DAY_PICO)
  await venue.generate(UNLOCK_BLOCKS)
  const address = await payee.address()
  const owed = await venue.owe(XMR / 3n, address)
  if (call === 'confirmed') {
    expect(await runMoneroChild(venue)).toBe(0)
    await venue.generate(CONFIRMATIONS + 1)
  }
  const crash = {
    CRASH_CALL: call === 'confirmed' ? 'transaction' : call,
    CRASH_PHASE: phase,
    CRASH_COUNT: String(count),
  }
  expect(await runMoneroChild(venue, crash)).toBe('SIGKILL')
  expect(await runMoneroChild(venue)).toBe(0)
  await confirmPayouts(venue, [owed])
  expect(await venue.check(invoice)).toMatchObject({
    status: 'settled',
    credited_days: 1,
    paid_raw: String(DAY_PICO),
  })
  await checkMoney(venue.ctx)
  expect(await payee.arrived(address)).toEqual([XMR / 3n])
  await expectConfirmed(venue, owed)
}

/** Mines until these have arrived for good. */
export async function confirmPayouts(venue: MoneroVenue, owed: readonly PayoutRecord[]): Promise<void> {
  for (let blocks = 0; blocks < UNLOCK_BLOCKS + 2 * CONFIRMATIONS; blocks++) {
    const states = await Promise.all(owed.map(async ({ _id }) => (await venue.payout(_id)).state))
    if (states.every((state) => state === 'confirmed')) return
    await venue.regtest.generate(1)
    await sendMonero(venue.ctx)
  }
}

export async function expectConfirmed(venue: MoneroVenue, { _id }: PayoutRecord): Promise<void> {
  const { state, pending = [] } = await venue.payout(_id)
  expect([state, pending.map(({ data }) => data['step'])]).toEqual([
    'confirmed',
    ['owed', 'signed', 'sent', 'confirmed'],
  ])
  const transfers = await venue.ctx.payouts.transfers.models.transfers.find({ payout_ids: _id }).lean()
  expect(transfers.map((transfer) => [transfer.state, transfer.in_flight])).toEqual([
    ['confirmed', undefined],
  ])
  expect((await venue.ctx.coins.findCoin('xmr'))?.halted).toBeUndefined()
}
