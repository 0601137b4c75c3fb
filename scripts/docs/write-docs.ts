import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { CLAIM_STEPS, type ClaimStepRule } from '../../shared/claims/claim-steps.ts'
import { ARRIVAL_STEPS, type ArrivalStepRule } from '../../shared/money/arrival-steps.ts'
import { INVOICE_STEPS, type InvoiceStepRule } from '../../shared/money/invoice-steps.ts'
import { HOLD_REASONS, PAYOUT_STEPS, type PayoutStepRule } from '../../shared/money/payout-steps.ts'
import { TRANSFER_STEPS, type TransferStepRule } from '../../shared/money/transfer-steps.ts'
import { endAfterFreeDays, endAfterPaidDays, endAfterTakenBackDays } from '../../shared/passes/pass.ts'
import { WORK_STEPS, type WorkStepRule } from '../../shared/passes/work-steps.ts'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import { DAY_MS } from '../../shared/platform/time.ts'

/** The path of a file in docs/. */
const pathOf = (name: string): string => fileURLToPath(new URL(`../../docs/${name}.md`, import.meta.url))

/** The table of error codes for docs/agents.md. */
export function errorTable(): string {
  const rows = (Object.keys(ERRORS) as ErrorCode[]).map(
    (code) => `| ${statusOf(code)} | \`${code}\` | ${ERRORS[code].meaning} |`,
  )
  return ['| status | `error` | meaning |', '|---|---|---|', ...rows].join('\n')
}

const code = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(' ')

/** The table of a transfer's steps for docs/architecture.md. */
export function transferTable(): string {
  const rows = Object.entries<TransferStepRule>(TRANSFER_STEPS).map(
    ([step, { from, to, text }]) => `| \`${step}\` | ${code(from)} | \`${to}\` | ${text} |`,
  )
  return ['| step | from | to | when |', '|---|---|---|---|', ...rows].join('\n')
}

/** The table of an arrival's steps for docs/architecture.md. */
export function arrivalTable(): string {
  const rows = Object.entries<ArrivalStepRule>(ARRIVAL_STEPS).map(
    ([step, { from, to, word, text }]) =>
      `| \`${step}\` | ${code(from)} | ${to === 'same' ? to : code([to])} | ${word === undefined ? '' : code([word])} | ${text} |`,
  )
  return ['| step | from | to | if | when |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** The table of an invoice's steps for docs/architecture.md. */
export function invoiceTable(): string {
  const rows = Object.entries<InvoiceStepRule>(INVOICE_STEPS).map(
    ([step, { unless, text }]) => `| \`${step}\` | ${code(unless)} | ${text} |`,
  )
  return ['| step | unless | when, and what is so then |', '|---|---|---|', ...rows].join('\n')
}

/** The table of a payout's steps for docs/architecture.md. */
export function payoutTable(): string {
  const rows = Object.entries<PayoutStepRule>(PAYOUT_STEPS).map(([step, { from, to, unless, text }]) => {
    const holds = unless.length === HOLD_REASONS.length ? 'any' : code(unless)
    return `| \`${step}\` | ${code(from)} | \`${to}\` | ${holds || 'none'} | ${text} |`
  })
  return ['| step | from | to | not with a hold of | when |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** A table of steps, each of which somebody takes and may lead to one of several statuses. */
function stepTable(steps: Readonly<Record<string, ClaimStepRule | WorkStepRule>>): string {
  const rows = Object.entries(steps).map(
    ([step, { from, to, actor, text }]) =>
      `| \`${step}\` | ${code(from)} | ${code(to)} | ${actor} | ${text} |`,
  )
  return ['| step | from | to | by | when |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** The table of a claim's steps for docs/architecture.md. */
export const claimTable = (): string => stepTable(CLAIM_STEPS)
/** The table of a work order's steps for docs/architecture.md. */
export const workTable = (): string => stepTable(WORK_STEPS)

/** The table of what becomes of a pass's end for docs/architecture.md: what the rules say of a few examples. */
export function passTable(): string {
  const nowMs = Date.UTC(2026, 0)
  const inDays = (days: number): number => nowMs + days * DAY_MS
  const cell = (untilMs: number, days: number): string => `${(untilMs - nowMs) / DAY_MS} (${days})`
  const free = (freeDays: number) => (before: number | undefined) => {
    const { untilMs, creditedDays } = endAfterFreeDays(before, nowMs, 3, inDays(freeDays))
    return cell(untilMs, creditedDays)
  }
  const events: Record<string, (before: number | undefined) => string> = {
    '3 days are bought by coin or work, or earned by a proposal': (before) =>
      cell(endAfterPaidDays(before, nowMs, 3), 3),
    '3 days are free, for 4 days': free(4),
    '3 days are free, for 6 hours': free(0.25),
    '3 days are taken back': (before) => {
      const decision = endAfterTakenBackDays(before, nowMs, 3)
      return decision.kind === 'moves' ? cell(decision.untilMs, -3) : 'refused: used up'
    },
  }
  const before = [undefined, inDays(-0.5), inDays(0.5), inDays(2.5), inDays(5)]
  const rows = Object.entries(events).map(([event, tell]) => `| ${event} | ${before.map(tell).join(' | ')} |`)
  const head = '| event | none so far | ended half a day ago | 0.5 | 2.5 | 5 |'
  return [head, '|---|---|---|---|---|---|', ...rows].join('\n')
}

/** The file in docs/ of each generated table, between `<!-- name -->` and `<!-- /name -->`. */
const FILE_OF = {
  arrivals: 'architecture',
  claims: 'architecture',
  errors: 'agents',
  invoices: 'architecture',
  pass: 'architecture',
  payouts: 'architecture',
  transfers: 'architecture',
  work: 'architecture',
} as const

/**
 * The text with one of its tables replaced by what `change` gives for it.
 *
 * @throws Error if the text has no markers for the table
 */
export function changeTable(
  text: string,
  name: keyof typeof FILE_OF,
  change: (table: string) => string,
): string {
  const [begin, end] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from === -1 || to < from)
    throw new Error(`docs/${FILE_OF[name]}.md has no ${begin.trim()} … ${end} for its table`)
  const table = text.slice(from + begin.length, to).trimEnd()
  return `${text.slice(0, from)}${begin}${change(table)}\n${text.slice(to)}`
}

function writeTable(name: keyof typeof FILE_OF, change: (table: string) => string): void {
  const file = pathOf(FILE_OF[name])
  writeFileSync(file, changeTable(readFileSync(file, 'utf8'), name, change))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeTable('arrivals', arrivalTable)
  writeTable('claims', claimTable)
  writeTable('errors', errorTable)
  writeTable('invoices', invoiceTable)
  writeTable('pass', passTable)
  writeTable('payouts', payoutTable)
  writeTable('transfers', transferTable)
  writeTable('work', workTable)
}
