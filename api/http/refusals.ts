import type { Refusal } from '../../shared/foundation/errors.ts'
import { hideCredentials, type Log } from '../../shared/foundation/log.ts'
import { runInScope } from '../../shared/foundation/scope.ts'
import { SECOND_MS } from '../../shared/foundation/time.ts'

/** Reasons for which requests or connections are refused or cut, and that are only counted in the log. */
export type RefusalKind = NonNullable<Refusal['countedAs']> | 'large_headers' | 'malformed' | 'cut_for_room'

/** Counts a refusal; the first `error` of a line is logged in it, without its stack. */
export type NoteRefusal = (kind: RefusalKind, error?: unknown) => void

/**
 * Makes a function that logs refusals: at most one line a second, with the number of each kind.
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
    // The connection logs that the database is out of reach, which is normal for a moment at a start.
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
