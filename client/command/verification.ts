import { check, type Verification } from '../seal-verify.mjs'
import { RefusalError, TransportError, type Client } from '../client.ts'
import { setIn } from './format.ts'
import type { Session } from './session.ts'
import type { Shown } from './verb.ts'

/** What the verbs that verify take beside their own. */
export const VERIFY_OPTIONS = {
  pubkey: {
    kind: 'list',
    value: 'KEY',
    help: "the service's seal key, from a source that you trust; no other is accepted",
  },
} as const

/** What is through sooner shows no progress. */
const QUIET_MS = 2_000

/** Runs this command's own copy of seal-verify.mjs on what this agent remembers of the service. */
export function verify(
  session: Session,
  args: readonly string[],
  pubkeys: readonly string[] = [],
  receipt?: object,
) {
  const options = [
    '--state',
    session.trust.stateFile,
    '--service',
    session.baseUrl,
    ...pubkeys.flatMap((key) => ['--pubkey', key]),
  ]
  const showFromMs = performance.now() + QUIET_MS
  const progress = (line: string): void => {
    if (performance.now() > showFromMs) session.progress.show(`verify: ${line}`)
  }
  return check([...args, ...options], {
    progress,
    consistency: consistencyBy(session.client),
    ...(receipt === undefined ? {} : { receipt }),
  })
}

/** Asks for the proof between two logs; a service that has none leaves it open. */
const consistencyBy = (client: Client) => async (from: number, to: number) => {
  try {
    return await client.consistency({ from, to })
  } catch (error) {
    if (error instanceof RefusalError || error instanceof TransportError) return undefined
    throw error
  }
}

/**
 * An answer of the service with the verdict on it: `ok` and `binding` are the verdict's, and so is the exit
 * code.
 */
export function withVerdict(
  answer: object,
  text: string,
  { exitCode, result, text: verdict }: { exitCode: number; result: Verification; text: string },
): Shown {
  const { ok, binding } = result
  return {
    answer: { ...answer, ok, binding, verification: result },
    text: `${text}\nVerified here:\n${setIn(verdict)}`,
    exitCode,
  }
}
