import { usageError } from '../../client/command/command-error.ts'
import { flagOption, textOption } from '../../client/command/verb.ts'
import { formatCount } from '../../client/command/format.ts'
import { CHECK_NAMES, runChecks, type CheckResult } from '../../shared/operation/check.ts'
import { defineOperatorVerb, HALF_A_DAY_MS, type OperatorVerb } from './verb.ts'

/** How many faults of one check are shown as text: all records of a large database may have the same. */
const MAX_SHOWN = 50

export const checkVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'check',
    words: [],
    options: {
      mend: flagOption('give lost entries back to the records that say all that was in them'),
      only: textOption('NAME', `one check: ${CHECK_NAMES.join(', ')}`),
    },
    help: 'Look whether records, ledger, books and chains agree, with a command beside each fault; exit code 1 if not',
    changes: false,
    limitMs: HALF_A_DAY_MS,
    async run({ ctx, options: { mend, only } }) {
      if (only !== undefined && !CHECK_NAMES.includes(only))
        throw usageError(`--only takes one of ${CHECK_NAMES.join(', ')}.`)
      const checks = await runChecks(ctx, { mends: mend, only })
      const count = checks.reduce((sum, { faults }) => sum + faults.length, 0)
      const mended = checks.reduce((sum, check) => sum + check.mended, 0)
      const verdict = count === 0 ? 'Everything agrees.' : `${formatCount(count, 'fault')}.`
      return {
        answer: { ok: count === 0, faults: count, mended, checks },
        text: [...checks.flatMap(formatCheck), verdict].join('\n'),
        exitCode: count === 0 ? 0 : 1,
      }
    },
  }),
]

/** A check as lines of text: whether it is good, and its first faults with a command each. */
function formatCheck({ name, title, faults, mended }: CheckResult): string[] {
  const note = mended === 0 ? '' : `; ${formatCount(mended, 'lost entry', 'lost entries')} mended`
  const lines = [`${faults.length === 0 ? 'good' : 'BAD '}  ${name}: ${title}${note}`]
  for (const { what, command } of faults.slice(0, MAX_SHOWN))
    lines.push(`      ${what}`, `      > ${command}`)
  if (faults.length > MAX_SHOWN) lines.push(`      and ${faults.length - MAX_SHOWN} more (--json has all)`)
  return lines
}
