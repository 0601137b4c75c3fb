import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS } from '../../shared/time.ts'

/** A second apart. */
const MAX_ASKED = 20

/**
 * What is asked before the first fault and after the last one: asked again while a busy machine's service says that it is
 * not available, as every client may.
 */
export async function askAtRest<Answer extends { readonly status?: number | undefined }>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let asked = 1; ; asked++) {
    const answer = await ask()
    if (answer.status !== 503 || asked === MAX_ASKED) return answer
    await sleep(SECOND_MS)
  }
}

/** Does again, as often as {@link askAtRest} asks, what is not done yet. @returns whether it is done */
export async function doAtRest(isDone: () => boolean, act: () => Promise<void>): Promise<boolean> {
  for (let acted = 0; !isDone() && acted < MAX_ASKED; acted++) {
    if (acted > 0) await sleep(SECOND_MS)
    await act()
  }
  return isDone()
}
