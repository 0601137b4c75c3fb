/*
 * A worker of the Monero wallet for tests that dies at one call: looks and sends, in a process of its own. CRASH_CALL,
 * CRASH_PHASE and CRASH_COUNT name the place; without them it runs to its end.
 */
import { readConfig } from '../../shared/config.ts'
import { createLog } from '../../shared/log.ts'
import { requireMonero } from '../../shared/payments/monero/monero-gateway.ts'
import { sendMonero } from '../../shared/payments/monero/monero-send.ts'
import { watchMonero } from '../../shared/payments/monero/monero-watch.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'

const { CRASH_CALL, CRASH_PHASE, CRASH_COUNT = '1' } = process.env
let left = Number(CRASH_COUNT)

async function pass(call: string, phase: 'before' | 'after'): Promise<void> {
  if (call !== CRASH_CALL || phase !== CRASH_PHASE || --left > 0) return
  process.kill(process.pid, 'SIGKILL')
  await new Promise(() => {}) // the signal takes a moment
}

/** The same object, with one of its calls watched. */
function watched<T extends object, K extends keyof T & string>(target: T, name: K): T {
  const call = target[name] as (...args: unknown[]) => Promise<unknown>
  const replaced = async (...args: unknown[]): Promise<unknown> => {
    await pass(name, 'before')
    const result = await call(...args)
    await pass(name, 'after')
    return result
  }
  return { ...target, [name]: replaced }
}

const opened = requireMonero(openWorkerContext(readConfig(process.env, 'workers'), createLog('test', 'silent'), { databaseTimeoutMs: 30_000 }))
await opened.database.whenReady()
const ctx = {
  ...opened,
  database: watched(opened.database, 'transaction'),
  monero: { ...opened.monero, wallet: watched(watched(opened.monero.wallet, 'prepareTransfer'), 'relay') },
}
await watchMonero(ctx)
await sendMonero(ctx)
await opened.close()
process.exit(0)
