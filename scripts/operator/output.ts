import { formatFields } from '../../client/command/format.ts'
import { formatAmount, type Coin } from '../../shared/money/coin.ts'
import type { VerbOutput } from './verb.ts'

type Value = string | number | boolean | null

/**
 * Formats what a verb did, or would do in a dry run, as lines of `name: value` and as an object. `changed:
 * false` among the fields says that the record was in the wanted state already: nothing happened, and no
 * ledger entry was made.
 *
 * @param note follows the lines
 */
export function showDone(
  fields: Readonly<Record<string, Value>>,
  dryRun: boolean,
  note?: string,
): VerbOutput {
  const named = Object.entries(fields).map(([name, value]) => [name.replaceAll('_', ' '), value ?? 'none'])
  const lines = [formatFields(Object.fromEntries(named))]
  if (dryRun) lines.unshift('Dry run: nothing was changed.')
  if (note !== undefined) lines.push(note)
  return {
    answer: { ok: true, ...(dryRun ? { dry_run: true } : {}), ...fields },
    text: lines.join('\n'),
  }
}

/** A record's amount in coins, as decimal text. */
export const formatAmountOf = ({ amount_raw: raw, coin }: { amount_raw: string; coin: Coin }): string =>
  formatAmount(BigInt(raw), coin)

/** An amount that may be below 0, in coins. */
export const formatSigned = (raw: bigint, coin: Coin): string =>
  raw < 0n ? `-${formatAmount(-raw, coin)}` : formatAmount(raw, coin)
