import type { Answer, GetChallengeAnswer, Client, RegisterAgentAnswer } from './client.ts'
import { RefusalError } from './errors.ts'
import { given } from './given.ts'
import { solvePuzzle } from './puzzle-solver.ts'
import { assertInTime, assertPossible, type MiningProgress } from './work-bound.ts'

/** What a registration reports. `work` comes again and again while the proof of work is sought. */
export type RegistrationProgress =
  | { step: 'challenge'; attempt: number; challenge: GetChallengeAnswer }
  | { step: 'work'; attempt: number; difficultyBits: number; mining: MiningProgress }
  | { step: 'refused'; attempt: number; reason: string }

const MAX_ATTEMPTS = 3
/** Refusals after which another challenge helps. */
const ANOTHER_CHALLENGE = new Set(['challenge_expired', 'wrong_answer'])

/**
 * Registers an agent: fetches a challenge, solves its puzzle and its proof of work, and hands both in. A
 * challenge that has expired, whose answer was wrong, or whose puzzle this client cannot read is replaced,
 * three challenges at most. Keep the answer's token before anything else: it is shown this once.
 *
 * @param answerPuzzle answers the question in place of this client's own solver
 * @param threads mining threads, one for each core if absent
 * @param signal stops it; it then rejects with the signal's reason
 * @throws RefusalError and TransportError as the client does. After a TransportError of the last step an
 *   agent may have been registered whose token nobody knows; registering again makes another.
 * @throws WorkTooHardError if the proof of work cannot be done before the challenge ends
 */
export async function registerAgent(options: {
  client: Client
  handle?: string | undefined
  ref?: string | undefined
  threads?: number | undefined
  answerPuzzle?: (puzzle: GetChallengeAnswer['puzzle']) => string | Promise<string>
  onProgress?: ((progress: RegistrationProgress) => void) | undefined
  signal?: AbortSignal | undefined
}): Promise<Answer<RegisterAgentAnswer>> {
  const { handle, ref, threads, answerPuzzle = solvePuzzle, onProgress, signal } = options
  const client = signal === undefined ? options.client : options.client.with({ signal })
  for (let attempt = 1; ; attempt++) {
    const challenge = await client.challenge()
    onProgress?.({ step: 'challenge', attempt, challenge })
    let answer: string
    try {
      answer = await answerPuzzle(challenge.puzzle)
    } catch (error) {
      if (attempt === MAX_ATTEMPTS) throw error
      onProgress?.({
        step: 'refused',
        attempt,
        reason: error instanceof Error ? error.message : String(error),
      })
      continue
    }
    const { prefix, difficulty_bits: difficultyBits } = challenge.pow
    const { expires_at: endsAt } = challenge
    assertPossible({ difficultyBits, count: 1, endsAt, threads })
    // Whoever only reads and writes loads no miner.
    const { solveWork } = await import('./mine.ts')
    const pow = await solveWork({
      prefix,
      difficultyBits,
      ...given({ threads, signal }),
      onProgress: (mining) => {
        assertInTime(endsAt, mining)
        onProgress?.({ step: 'work', attempt, difficultyBits, mining })
      },
    })
    try {
      return await client.register({
        challenge_id: challenge.challenge_id,
        answer,
        pow,
        ...given({ handle, ref }),
      })
    } catch (error) {
      if (!(error instanceof RefusalError) || !ANOTHER_CHALLENGE.has(error.error) || attempt === MAX_ATTEMPTS)
        throw error
      onProgress?.({ step: 'refused', attempt, reason: error.message })
    }
  }
}
