import { isOutage, unavailable } from '../../shared/platform/database.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { hideCredentials, type Log } from '../../shared/platform/log.ts'
import { runInScope } from '../../shared/platform/scope.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'

/**
 * Notes an error, and returns the refusal to answer it with. An outage of the database and a path that Express
 * can't decode have their own; any other error is a defect, which is logged and becomes `internal`, without its
 * details.
 *
 * @param note counts a refusal for lack of room, an outage and the like
 */
export function noteError(error: unknown, log: Log, note: NoteRefusal, requestId: string): Refusal {
  if (error instanceof Refusal || isOutage(error)) {
    const refusal = error instanceof Refusal ? error : unavailable(error)
    if (refusal.countedAs !== undefined) note(refusal.countedAs, refusal.cause)
    return refusal
  }
  if (error instanceof URIError)
    return new Refusal(
      'invalid_field',
      'The path has a % that two hex digits do not follow, or that is not UTF-8; escape it as %25.',
    )
  log.error({ request_id: requestId, err: error }, 'a request ended in a defect')
  return new Refusal('internal', 'The service failed at this request; it has been logged.')
}

/** Whether a request is refused since it came too slowly, which is answered as 408. */
export const isLate = ({ countedAs }: Refusal): boolean => countedAs === 'slow_request'

/** Why requests or connections were refused or cut, for reasons that the log only counts. */
export type RefusalKind = NonNullable<Refusal['countedAs']> | 'large_headers' | 'malformed' | 'cut_for_room'

/** Counts a refusal for the next log line, which also has the first `error` given, without its stack. */
export type NoteRefusal = (kind: RefusalKind, error?: unknown) => void

/** Creates a function that counts refusals, and logs how many of each kind: at most one line a second. */
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
