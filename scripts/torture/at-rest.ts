import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS } from '../../shared/foundation/time.ts'

/** A second apart. */
const MAX_ASKED = 20

/**
 * What is asked before the first fault and after the last one: asked again while a busy machine's service
 * says that it is not available, as every client may.
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
