import type { Refusal } from '../../shared/platform/errors.ts'
import { hideCredentials, type Log } from '../../shared/platform/log.ts'
import { runInScope } from '../../shared/platform/scope.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'

/** Why requests or connections were refused or cut, for reasons that the log only counts. */
export type RefusalKind = NonNullable<Refusal['countedAs']> | 'large_headers' | 'malformed' | 'cut_for_room'

/** Counts a refusal for the next log line, which also has the first `error` given, without its stack. */
export type NoteRefusal = (kind: RefusalKind, error?: unknown) => void

/**
 * Creates a function that counts refusals and logs them: at most one line a second, with the number of each
 * kind.
 */
export function createRefusalLogger(log: Log): NoteRefusal {
  let counts: Partial<Record<RefusalKind, number>> = {}
  let example: unknown
  let pause: NodeJS.Timeout | undefined
  const writeLine = (): void => {
    pause = undefined
    if (Object.keys(counts).length === 0) return
    const error =
      example instanceof Error ? { error: hideCredentials(`${example.name}: ${example.message}`) } : {}
    // Normal for a moment at a start; a real outage is logged by the connection to the database.
    const level = Object.keys(counts).every((kind) => kind === 'database') ? 'info' : 'warn'
    runInScope({}, () => log[level]({ refused: counts, ...error }, 'requests were refused'))
    counts = {}
    example = undefined
    pause = setTimeout(writeLine, SECOND_MS).unref()
  }
  return (kind, error) => {
    counts[kind] = (counts[kind] ?? 0) + 1
    example ??= error
    if (pause === undefined) writeLine()
  }
}
