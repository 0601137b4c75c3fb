import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { StartError } from '../../shared/platform/process.ts'
import type { ServerSetup } from './server.ts'

/*
 * The start script runs for as long as the network, so it holds no library of the servers' clients and none of what
 * reads keys: a process of its own does what needs them, and ends with the start.
 */

export interface Setup extends ServerSetup {
  /** See start-keys.ts. */
  prepareKeys(
    ...args: Parameters<typeof import('./start-keys.ts').prepareKeys>
  ): Promise<ReturnType<typeof import('./start-keys.ts').prepareKeys>>
  /** Ends the process. */
  close(): void
}

export interface SetupQuestion {
  id: number
  task: string
  args: readonly unknown[]
}

export type SetupAnswer =
  { id: number; result: unknown } | { id: number; error: { name: string; message: string } }

/** Starts the process. What it throws for the operator is a StartError here. */
export function openSetup(): Setup {
  const child = fork(fileURLToPath(new URL('setup-child.ts', import.meta.url)), { serialization: 'advanced' })
  const waiting = new Map<number, PromiseWithResolvers<never>>()
  let asked = 0
  let isGone = false
  const gone = (): Error => new StartError('The process that sets the servers up has ended.')
  child.on('message', (answer: SetupAnswer) => {
    const asking = waiting.get(answer.id)
    waiting.delete(answer.id)
    if (!('error' in answer)) return asking?.resolve(answer.result as never)
    const { name, message } = answer.error
    const isForOperator = name === 'StartError' || name === 'ConfigError'
    asking?.reject(isForOperator ? new StartError(message) : Object.assign(new Error(message), { name }))
  })
  const end = (): void => {
    isGone = true
    for (const asking of waiting.values()) asking.reject(gone())
    waiting.clear()
  }
  child.once('exit', end).once('error', end)
  const task =
    (name: string) =>
    (...args: readonly unknown[]): Promise<never> => {
      if (isGone) return Promise.reject(gone())
      const asking = Promise.withResolvers<never>()
      waiting.set(asked, asking)
      child.send({ id: asked++, task: name, args } satisfies SetupQuestion)
      return asking.promise
    }
  return {
    answersPing: task('answersPing'),
    becomePrimary: task('becomePrimary'),
    makeAdmin: task('makeAdmin'),
    makeUsers: task('makeUsers'),
    prepareKeys: task('prepareKeys'),
    close() {
      if (child.connected) child.disconnect()
    },
  }
}
