import { usageError } from '../../client/command/command-error.ts'
import { formatCount } from '../../client/command/format.ts'
import { CHECK_NAMES, runChecks } from '../../shared/operation/check.ts'
import { defineOperatorVerb, type OperatorVerb } from './verb.ts'

const HALF_A_DAY_MS = 12 * 3_600_000
/** A fault of every record of a large database is a fault of the check's reader too. */
const MAX_SHOWN = 50

export const checkVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'check',
    words: [],
    options: {
      mend: { kind: 'flag', help: 'give lost entries back to the records that say all that was in them' },
      only: { kind: 'text', value: 'NAME', help: `one check: ${CHECK_NAMES.join(', ')}` },
    },
    help: 'Look whether records, ledger, books and chains agree, with a command beside each fault; exit code 1 if not',
    changes: false,
    limitMs: HALF_A_DAY_MS,
    async run({ ctx, options: { mend, only } }) {
      if (only !== undefined && !CHECK_NAMES.includes(only))
        throw usageError(`--only takes one of ${CHECK_NAMES.join(', ')}.`)
      const checks = await runChecks(ctx, { mends: mend, only })
      const count = checks.reduce((sum, { faults }) => sum + faults.length, 0)
      const mended = checks.reduce((sum, one) => sum + one.mended, 0)
      return {
        answer: { ok: count === 0, faults: count, mended, checks },
        text: [
          ...checks.flatMap(({ name, title, faults, mended: own }) => [
            `${faults.length === 0 ? 'good' : 'BAD '}  ${name}: ${title}${own === 0 ? '' : `; ${formatCount(own, 'lost entry', 'lost entries')} mended`}`,
            ...faults
              .slice(0, MAX_SHOWN)
              .flatMap(({ what, command }) => [`      ${what}`, `      > ${command}`]),
            ...(faults.length > MAX_SHOWN
              ? [`      and ${faults.length - MAX_SHOWN} more (--json has all)`]
              : []),
          ]),
          count === 0 ? 'Everything agrees.' : `${formatCount(count, 'fault')}.`,
        ].join('\n'),
        exitCode: count === 0 ? 0 : 1,
      }
    },
  }),
]
