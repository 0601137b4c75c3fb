/*
 * A worker of the Nano wallet for tests that dies at one call: looks, sweeps and sends, in a process of its own.
 * CRASH_CALL, CRASH_PHASE and CRASH_COUNT name the place; without them it runs to its end. ROUNDS is how often it does all of it.
 */
import { readConfig } from '../../shared/config.ts'
import { createLog } from '../../shared/log.ts'
import { requireNano } from '../../shared/payments/nano/nano-gateway.ts'
import { sendNano } from '../../shared/payments/nano/nano-send.ts'
import { sweepNano } from '../../shared/payments/nano/nano-sweep.ts'
import { watchNano } from '../../shared/payments/nano/nano-watch.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'

const { CRASH_CALL, CRASH_PHASE, CRASH_COUNT = '1', ROUNDS = '1' } = process.env
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

const opened = requireNano(openWorkerContext(readConfig(process.env, 'workers'), createLog('test', 'silent'), { databaseTimeoutMs: 30_000 }))
await opened.database.whenReady()
const ctx = {
  ...opened,
  database: watched(opened.database, 'transaction'),
  invoices: watched(opened.invoices, 'setSwept'),
  nano: { ...opened.nano, rpc: watched(watched(opened.nano.rpc, 'process'), 'generateWork') },
}
for (let round = 0; round < Number(ROUNDS); round++) {
  await watchNano(ctx)
  await sweepNano(ctx)
  await sendNano(ctx)
}
await opened.close()
process.exit(0)
