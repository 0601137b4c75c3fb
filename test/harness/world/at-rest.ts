import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS } from '../../../shared/platform/time.ts'

const MAX_ASKED = 20

/**
 * Sends a request, and again each second while it is answered with 503, which a service on a busy machine may
 * do even while nothing is broken.
 *
 * @returns the first other answer, or the 20th
 */
export async function askAtRest<Answer extends { readonly status?: number | undefined }>(
  ask: () => Promise<Answer>,
): Promise<Answer> {
  for (let asked = 1; ; asked++) {
    const answer = await ask()
    if (answer.status !== 503 || asked === MAX_ASKED) return answer
    await sleep(SECOND_MS)
  }
}
