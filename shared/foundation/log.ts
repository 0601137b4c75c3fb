import pino from 'pino'
import { openStandardOutput } from './log-output.ts'
import { currentScope } from './scope.ts'

export type Log = pino.Logger

/**
 * One line of JSON an event on standard output. Nothing here ever sees a request's address, a token or a key:
 * callers pass ids and codes, and the paths below are cut out should one slip into an object. Request and job
 * stand in every line that is written on their behalf.
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

/** Of an error that stands for several, so many are described. */
const MAX_PARTS = 5

/**
 * Name, message and stack alone: an error's other properties may hold a request, a socket or a connection
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
    ...cause,
    ...parts,
  }
}

/** A message without the user and password of a connection string. */
export function hideCredentials(text: string): string {
  return text.replace(/\/\/[^/@\s]+@/g, '//***@')
}
