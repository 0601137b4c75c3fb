import { setTimeout as sleep } from 'node:timers/promises'
import { ask, nextMarker, type Agent, type World } from './agent.ts'

const PAUSE_MS = 150
/** Its name, by which its posts are found in the history. */
export const PROBER = 'prober'

/**
 * Lets an agent post through each API process again and again, so that the history shows when the service
 * took writes. Ends after `isOver`, with the next post that is acknowledged.
 */
export async function runProber(world: World, agent: Agent, isOver: () => boolean): Promise<void> {
  await Promise.all(
    Array.from({ length: world.apis }, async (_, api) => {
      // Goes on until a write succeeds, so that the length of the last outage is known.
      for (let isServed = false; !isServed || !isOver();) {
        const marker = nextMarker(agent)
        const { status } = await ask(world, agent, 'post', 'POST', '/post', {
          body: { body: marker },
          marker,
          api,
        })
        isServed = status === 201
        await sleep(PAUSE_MS)
      }
    }),
  )
}
