import { STATUS_SECTIONS } from './status-sections.ts'
import type { StatusSection } from './status-section.ts'
import { defineOperatorVerb, type OperatorVerb } from './verb.ts'
import type { Context } from '../../shared/context.ts'
import { withDeadline } from '../../shared/foundation/deadline.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'

/** If a server is away, its section says so and the others are shown. */
const SECTION_LIMIT_MS = 8 * SECOND_MS

export const statusVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'status',
    words: [],
    options: {},
    help: 'Queues and workers, seals, passes, coins, payouts and sums owed, on one screen',
    changes: false,
    needsDatabase: false,
    async run({ ctx }) {
      const read = await Promise.all(STATUS_SECTIONS.map((section) => readSection(ctx, section)))
      return {
        answer: { ok: true, ...Object.fromEntries(read.map(({ name, answer }) => [name, answer])) },
        text: read
          .map(({ title, lines }) => [title, ...lines.map((line) => `  ${line}`)].join('\n'))
          .join('\n'),
      }
    },
  }),
]

async function readSection(ctx: Context, section: StatusSection) {
  const { name, title } = section
  try {
    const { answer, lines } = await withDeadline(
      section.read(ctx),
      SECTION_LIMIT_MS,
      () => new Error(`MongoDB or Redis did not answer within ${SECTION_LIMIT_MS / SECOND_MS} s`),
    )
    return { name, title, answer, lines }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { name, title, answer: { error: message }, lines: [`cannot be read: ${message}`] }
  }
}
