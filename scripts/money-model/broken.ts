/* The checker checked: the payout code with one line broken, ten times over, and what is said of it. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const LEFT_OUT = ['node_modules', '.git', '.data']
const SECONDS = 45
const PAY_BY_SECONDS = 8
const LIMIT_MS = 180_000

interface Break {
  readonly file: string
  /** Stands there once. */
  readonly text: string
  readonly instead: string
}

const TREASURY = 'shared/payments/nano/nano-treasury.ts'
const DUE = 'shared/payments/due-payouts.ts'
const UPDATES = 'shared/market/order-updates.ts'
const RECEIVED = 'shared/market/order-payments.ts'

export const BREAKS: readonly Break[] = [
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

/** Runs the model on each of them. @returns a line for each; `isSeen` if the model found every one */
export function tryBreaks(seed: number, say: (line: string) => void): boolean {
  let isSeen = true
  for (const one of BREAKS) {
    const copy = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-broken-'))
    try {
      const found = tryBreak(one, copy, seed)
      say(`${one.file}: ${one.text} → ${one.instead}\n    ${found ?? 'NOT SEEN'}`)
      isSeen &&= found !== undefined
    } finally {
      fs.rmSync(copy, { recursive: true, force: true })
    }
  }
  return isSeen
}

/** @returns the file with its line broken. @throws Error if the line isn't there, or more than once */
export function breakLine({ file, text, instead }: Break): string {
  const [before, after, ...more] = fs.readFileSync(path.join(ROOT, file), 'utf8').split(text)
  if (after === undefined || more.length > 0)
    throw new Error(`${file} does not have ${JSON.stringify(text)} once`)
  return `${before}${instead}${after}`
}

/** @returns what was found, and when */
function tryBreak({ file, text, instead }: Break, copy: string, seed: number): string | undefined {
  for (const name of fs.readdirSync(ROOT).filter((entry) => !LEFT_OUT.includes(entry)))
    fs.cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true })
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'))
  fs.writeFileSync(path.join(copy, file), breakLine({ file, text, instead }))
  const args = [
    SECONDS,
    seed,
    '--no-faults',
    'all',
    '--pay-by',
    PAY_BY_SECONDS,
    '--history',
    path.join(copy, 'history'),
  ].map(String)
  const { status, stdout } = spawnSync(
    process.execPath,
    [path.join(copy, 'scripts/money-model.ts'), ...args],
    {
      ...{ cwd: copy, encoding: 'utf8', timeout: LIMIT_MS },
    },
  )
  return status === 1 ? stdout.split('\n').find((line) => line.startsWith('- at ')) : undefined
}
