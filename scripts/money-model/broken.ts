/* Checks the model itself: does it find that one line of the payout code is broken? */
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import type { CodeChange } from '../planted/code-change.ts'
import { withCopy } from '../planted/run.ts'

const SECONDS = 45
const PAY_BY_SECONDS = 8
const LIMIT_MS = 180_000

const TREASURY = 'shared/payments/nano/nano-treasury.ts'
const DUE = 'shared/payments/due-payouts.ts'
const UPDATES = 'shared/market/order-updates.ts'
const RECEIVED = 'shared/market/order-payments.ts'

/** Each makes the venue pay wrongly. */
export const BREAKS: readonly CodeChange[] = [
  {
    file: TREASURY,
    text: 'buildSend(before, { destination, amountRaw })',
    instead: 'buildSend(before, { destination, amountRaw: amountRaw - 1n })',
  },
  {
    file: TREASURY,
    text: 'before, { destination, amountRaw',
    instead: 'before, { destination: before.account, amountRaw',
  },
  {
    file: TREASURY,
    text: "'payout', amountRaw, payouts }",
    instead: "'payout', amountRaw, payouts: payouts.slice(1) }",
  },
  { file: DUE, text: 'group?.address !== address || isFull', instead: 'group === undefined || isFull' },
  { file: DUE, text: 'return groups.sort(', instead: 'return groups.slice(1).sort(' },
  { file: UPDATES, text: 'step, sellerShare(order), at', instead: 'step, BigInt(order.amount_raw), at' },
  {
    file: UPDATES,
    text: "address: side === 'buyer' ? order.refund_address",
    instead: "address: side === 'buyer' ? order.payout_address",
  },
  { file: RECEIVED, text: 'payouts: excessRaw === 0n', instead: 'payouts: excessRaw >= 0n' },
  { file: RECEIVED, text: 'payouts = receivedRaw === 0n', instead: 'payouts = receivedRaw >= 0n' },
  {
    file: 'shared/market/order-deadlines.ts',
    text: "payoutFor(order, 'buyer', 'undelivered'",
    instead: "payoutFor(order, 'seller', 'undelivered'",
  },
]

/**
 * Breaks one line after the other in a copy of the project, and runs the model there.
 *
 * @param say called with two lines of text for each: the change, and what the model found
 * @returns whether the model found every one
 */
export function tryBreaks(seed: number, say: (line: string) => void): boolean {
  let areAllFound = true
  for (const change of BREAKS) {
    const finding = withCopy(change, (copy) => findByModel(copy, seed))
    say(`${change.file}: ${change.text} → ${change.instead}\n    ${finding ?? 'NOT FOUND'}`)
    areAllFound &&= finding !== undefined
  }
  return areAllFound
}

/** Runs the model of a copy of the project. @returns its first finding; undefined if there is none */
function findByModel(copy: string, seed: number): string | undefined {
  const script = path.join(copy, 'scripts/money-model.ts')
  const history = path.join(copy, 'history')
  const options = ['--no-faults', 'all', '--pay-by', String(PAY_BY_SECONDS), '--history', history]
  const { status, stdout } = spawnSync(
    process.execPath,
    [script, String(SECONDS), String(seed), ...options],
    { cwd: copy, encoding: 'utf8', timeout: LIMIT_MS },
  )
  return status === 1 ? stdout.split('\n').find((line) => line.startsWith('- at ')) : undefined
}
