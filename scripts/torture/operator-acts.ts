import { setTimeout as sleep } from 'node:timers/promises'
import { runOperator } from '../operator/run.ts'
import type { SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import type { World } from './agent.ts'
import type { Stack } from './stack.ts'

/** Runs an operator's command every few seconds, and records each like an agent's call. */
export async function runOperatorActs(
  world: World,
  stack: Stack,
  numbers: SeededNumbers,
  isOver: () => boolean,
): Promise<void> {
  let banned: string | undefined
  const hidden: string[] = []
  while (!isOver()) {
    await sleep(numbers.between(1_000, 3_000))
    const dice = numbers.below(6)
    const postId = world.posts.length === 0 ? undefined : numbers.pick(world.posts).id
    const proposal = world.claims.filter(({ kind }) => kind === 'proposal')
    if (dice === 0) {
      // Never the canary, which must be able to post.
      const agentId = banned ?? numbers.pick(world.agents.slice(1)).id
      if (agentId === undefined) continue
      if ((await run(world, stack, [banned === undefined ? 'ban' : 'unban', agentId])) !== 0) continue
      banned = banned === undefined ? agentId : undefined
    } else if (dice === 1 && postId !== undefined) {
      if ((await run(world, stack, ['hide', postId])) === 0) hidden.push(postId)
    } else if (dice === 2 && hidden.length > 0) await run(world, stack, ['unhide', numbers.pick(hidden)])
    else if (dice === 3 && proposal.length > 0)
      await run(world, stack, ['accept-proposal', numbers.pick(proposal).id, String(numbers.between(1, 9))])
    else if (dice === 4) await run(world, stack, ['announce', `change ${numbers.below(1_000)}`])
    else await run(world, stack, ['seal'])
  }
}

/** @returns the exit code */
async function run(world: World, stack: Stack, words: readonly string[]): Promise<number> {
  const atMs = world.history.nowMs()
  const said: string[] = []
  const screen = { write: (text: string) => void said.push(text) }
  const code = await runOperator({
    argv: [...words, '--json'],
    env: { ...stack.env },
    stdout: screen,
    stderr: { write: () => undefined },
  })
  const answer = JSON.parse(said.join('')) as Record<string, unknown>
  world.history.record({
    ...{
      atMs,
      tookMs: world.history.nowMs() - atMs,
      who: 'operator',
      did: words[0] ?? '',
      method: 'operator',
      path: words.join(' '),
      answer,
    },
    ...(code === 0
      ? { status: 200 }
      : { status: answer['error'] === 'unavailable' ? 503 : 400, error: String(answer['error']) }),
  })
  return code
}
