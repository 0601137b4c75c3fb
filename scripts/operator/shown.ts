import { formatFields } from '../../client/command/format.ts'
import type { Shown } from './verb.ts'

type Value = string | number | boolean | null

/**
 * What a verb did, or would do in a dry run, as lines of `name: value` and as an object. `changed: false` among
 * the fields says that the record was in the wanted state already: nothing happened, and no ledger entry was
 * made.
 */
export function showDone(fields: Readonly<Record<string, Value>>, dryRun: boolean, note?: string): Shown {
  const named = Object.entries(fields).map(([name, value]) => [name.replaceAll('_', ' '), value ?? 'none'])
  const lines = [formatFields(Object.fromEntries(named))]
  if (dryRun) lines.unshift('Dry run: nothing was changed.')
  if (note !== undefined) lines.push(note)
  return {
    answer: { ok: true, ...(dryRun ? { dry_run: true } : {}), ...fields },
    text: lines.join('\n'),
  }
}

/** The sum of records' amounts, in the coin's smallest unit. */
export const sumAmounts = (records: readonly { amount_raw: string }[]): bigint =>
  records.reduce((sum, { amount_raw: raw }) => sum + BigInt(raw), 0n)
