import type { Refusal } from '../../shared/foundation/errors.ts'
import { hideCredentials, type Log } from '../../shared/foundation/log.ts'
import { runInScope } from '../../shared/foundation/scope.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'

/** Why requests are refused or cut that nobody made a mistake in, and why connections are. */
export type RefusalKind = NonNullable<Refusal['countedAs']> | 'large_headers' | 'malformed' | 'cut_for_room'

/** Notes a refusal; `error` is shown once in a line, without its stack. */
export type NoteRefusal = (kind: RefusalKind, error?: unknown) => void

/**
 * Leaves a trace of what is refused: one line a second at most, with how often each kind was, however many
 * there are.
 */
export function createRefusalLogger(log: Log): NoteRefusal {
  let counts: Partial<Record<RefusalKind, number>> = {}
  let example: unknown
  let pause: NodeJS.Timeout | undefined
  const write = (): void => {
    pause = undefined
    if (Object.keys(counts).length === 0) return
    const error =
      example instanceof Error ? { error: hideCredentials(`${example.name}: ${example.message}`) } : {}
    // That the database is away is said by its connection; at a start it is away for a moment.
    const level = Object.keys(counts).every((kind) => kind === 'database') ? 'info' : 'warn'
    runInScope({}, () => log[level]({ refused: counts, ...error }, 'requests were refused'))
    counts = {}
    example = undefined
    pause = setTimeout(write, SECOND_MS).unref()
  }
  return (kind, error) => {
    counts[kind] = (counts[kind] ?? 0) + 1
    example ??= error
    if (pause === undefined) write()
  }
}
