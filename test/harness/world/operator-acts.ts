import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import type { World } from './agent.ts'
import { checkFailedBackup } from '../auditor/backups.ts'
import { operate } from './operate.ts'
import type { Testbed } from '../testbed/testbed.ts'

/** By which random numbers an operator acts, how many times as long it rests as usual, and until when. */
interface Acting {
  numbers: SeededNumbers
  pace: number
  isOver: () => boolean
}

/**
 * Runs an operator's command every few seconds: bans and unbans one agent at a time, hides and shows posts,
 * accepts proposals, announces and seals. Each is recorded like an agent's call.
 */
export async function runOperatorActs(
  world: World,
  testbed: Testbed,
  { numbers, pace, isOver }: Acting,
): Promise<void> {
  let banned: string | undefined
  const hidden: string[] = []
  const succeeds = async (...words: string[]): Promise<boolean> =>
    (await operate(world.history, testbed.env, words)).exitCode === 0
  while (!isOver()) {
    await sleep(pace * numbers.between(1_000, 3_000))
    const dice = numbers.below(6)
    const postId = world.posts.length === 0 ? undefined : numbers.pick(world.posts).id
    const proposals = world.claims.filter(({ kind }) => kind === 'proposal')
    if (dice === 0) {
      // Never the prober, which must be able to post.
      const agentId = banned ?? numbers.pick(world.agents.slice(1)).id
      if (agentId === undefined) continue
      if (await succeeds(banned === undefined ? 'ban' : 'unban', agentId))
        banned = banned === undefined ? agentId : undefined
    } else if (dice === 1 && postId !== undefined) {
      if (await succeeds('hide', postId)) hidden.push(postId)
    } else if (dice === 2 && hidden.length > 0) await succeeds('unhide', numbers.pick(hidden))
    else if (dice === 3 && proposals.length > 0)
      await succeeds('accept-proposal', numbers.pick(proposals).id, String(numbers.between(1, 9)))
    else if (dice === 4) await succeeds('announce', `change ${numbers.below(1_000)}`)
    else await succeeds('seal')
  }
}

/** After the faults' end, so often is a backup tried until one succeeds. */
const LAST_TRIES = 10

/**
 * Makes backups of the network again and again, each into a folder of its own; the last one that is whole
 * is kept. Goes on after the end until one has succeeded.
 */
export async function runBackups(
  world: World,
  testbed: Testbed,
  { numbers, pace, isOver }: Acting,
): Promise<void> {
  let whole: string | undefined
  for (let count = 1, late = 0; !isOver() || (whole === undefined && late++ < LAST_TRIES); count++) {
    await sleep(pace * numbers.between(1_000, 8_000))
    const folder = path.join(testbed.folder, `backup-${count}`)
    const { exitCode, json } = await operate(world.history, testbed.env, ['backup', folder])
    if (exitCode !== 0) world.wrongAnswers.push(...(await checkFailedBackup(folder, json)))
    const old = exitCode === 0 ? whole : folder
    if (old !== undefined) fs.rmSync(old, { recursive: true, force: true })
    if (exitCode === 0) whole = folder
  }
}
