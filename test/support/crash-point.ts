/*
 * For a process of a test that dies at one call: CRASH_CALL, CRASH_PHASE and CRASH_COUNT name the place;
 * without them it runs to its end.
 */

const { CRASH_CALL, CRASH_PHASE, CRASH_COUNT = '1' } = process.env
let left = Number(CRASH_COUNT)

async function pass(call: string, phase: 'before' | 'after'): Promise<void> {
  if (call !== CRASH_CALL || phase !== CRASH_PHASE || --left > 0) return
  process.kill(process.pid, 'SIGKILL')
  await new Promise(() => {}) // the signal takes a moment
}

/** The same object, with one of its calls watched. */
export function watched<T extends object, K extends keyof T & string>(target: T, name: K): T {
  const call = target[name] as (...args: unknown[]) => Promise<unknown>
  const replaced = async (...args: unknown[]): Promise<unknown> => {
    await pass(name, 'before')
    const result = await call(...args)
    await pass(name, 'after')
    return result
  }
  return { ...target, [name]: replaced }
}
