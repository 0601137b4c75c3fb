import { formatFields } from '../../client/command/format.ts'
import type { Shown } from './verb.ts'

type Value = string | number | boolean | null

/**
 * What a verb did, or would do, as lines of `name: value` and as an object. A record that was in the wanted
 * state already is `changed: false`: nothing happened and no ledger entry was made.
 */
export function showDone(fields: Readonly<Record<string, Value>>, dryRun: boolean, note?: string): Shown {
  const text = formatFields(
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [
        name.replaceAll('_', ' '),
        value === null ? 'none' : value,
      ]),
    ),
  )
  return {
    answer: { ok: true, ...(dryRun ? { dry_run: true } : {}), ...fields },
    text: [
      ...(dryRun ? ['Dry run: nothing was changed.'] : []),
      text,
      ...(note === undefined ? [] : [note]),
    ].join('\n'),
  }
}
