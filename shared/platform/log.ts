import pino from 'pino'
import { openStandardOutput } from './log-output.ts'
import { currentScope } from './scope.ts'

export type Log = pino.Logger

/**
 * Makes a log that writes one line of JSON per event to standard output. Callers pass ids and codes, never a
 * client's address, a token or a key; should a secret slip into an object, the paths below are removed. Each
 * line names the request or the job that it was written for.
 */
export function createLog(part: string, level = 'info', destination?: pino.DestinationStream): Log {
  return pino(
    {
      level,
      base: { part, pid: process.pid },
      redact: {
        paths: [
          'token',
          '*.token',
          'authorization',
          '*.authorization',
          'new_token',
          '*.new_token',
          'seed',
          '*.seed',
        ],
        remove: true,
      },
      serializers: { err: describeError },
      mixin: () => ({ ...currentScope() }),
    },
    destination ?? openStandardOutput(),
  )
}

/** How many errors of an AggregateError are logged. */
const MAX_PARTS = 5

/**
 * Describes an error for the log: name, message, stack, the code that MongoDB or Node has for it, and its
 * cause or parts. Its other properties are left out: they may hold a request, a socket or a connection
 * string.
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) }
  const cause = error.cause instanceof Error ? { cause: describeError(error.cause) } : {}
  const parts =
    error instanceof AggregateError ? { errors: error.errors.slice(0, MAX_PARTS).map(describeError) } : {}
  return {
    name: error.name,
    message: hideCredentials(error.message),
    stack: hideCredentials(error.stack ?? ''),
    ...findErrorCode(error),
    ...cause,
    ...parts,
  }
}

/**
 * Finds an error's code, such as `NoSuchTransaction` or `ECONNREFUSED`; none if it isn't a single word, since
 * anybody may have set the property.
 */
function findErrorCode(error: Error): { code?: string } {
  const { codeName, code } = error as { codeName?: unknown; code?: unknown }
  const word = [codeName, code].find((value) => typeof value === 'string' && /^\w{1,60}$/.test(value))
  return word === undefined ? {} : { code: word as string }
}

/** Replaces the user and password in each URL of a text by `***`. */
export function hideCredentials(text: string): string {
  return text.replace(/\/\/[^/@\s]+@/g, '//***@')
}
