/*
 * What a start needs only once, in a process of its own: see setup.ts.
 */
import { answersPing, becomePrimary, makeAdmin, makeUsers } from './server-setup.ts'
import type { SetupAnswer, SetupQuestion } from './setup.ts'
import { prepareKeys } from './start-keys.ts'

const TASKS = { answersPing, becomePrimary, makeAdmin, makeUsers, prepareKeys } as Record<
  string,
  (...args: unknown[]) => unknown
>

async function answer({ id, task, args }: SetupQuestion): Promise<void> {
  let given: SetupAnswer
  try {
    given = { id, result: await TASKS[task]?.(...args) }
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error))
    given = { id, error: { name, message } }
  }
  if (process.connected) process.send?.(given)
}

process.on('message', (question: SetupQuestion) => void answer(question))
process.on('disconnect', () => process.exit(0))
