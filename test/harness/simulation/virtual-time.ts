import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'
import type { Schedule } from './schedule.ts'

let schedule: Schedule | undefined

/** Makes all timers, clocks and random numbers of this process those of a schedule, until the next one. */
export function useSchedule(next: Schedule): void {
  if (schedule === undefined) replaceGlobals()
  schedule = next
}

const current = (): Schedule => schedule as Schedule

/** For good: this process does nothing else. The modules of the service see it through their own imports. */
function replaceGlobals(): void {
  // A failure is told by its steps; each lost answer's stack would cost more than the answer.
  Error.stackTraceLimit = 0
  const setVirtual = (run: (...given: unknown[]) => void, delayMs = 0, ...given: unknown[]) => {
    const timer = current().addTimer(delayMs, () => run(...given))
    const handle = { timer, ref: () => handle, unref: () => handle, hasRef: () => false }
    return handle
  }
  const clearVirtual = (handle?: { timer: ReturnType<Schedule['addTimer']> }) => {
    if (handle?.timer !== undefined) current().removeTimer(handle.timer)
  }
  const RealDate = Date
  class VirtualDate extends RealDate {
    constructor(...given: [] | [number]) {
      if (given.length === 0) super(current().nowMs)
      else super(...given)
    }
    static override now(): number {
      return current().nowMs
    }
  }
  Object.assign(globalThis, {
    setTimeout: setVirtual,
    clearTimeout: clearVirtual,
    // Only the first time: what does work again and again is called by the scenarios themselves.
    setInterval: setVirtual,
    clearInterval: clearVirtual,
    setImmediate: (run: () => void) => setVirtual(run),
    Date: VirtualDate,
  })
  performance.now = () => current().nowMs
  Math.random = () => current().random.fraction()
  timers.setTimeout = ((delayMs?: number, value?: unknown) =>
    new Promise<unknown>((resolve) => {
      current().addTimer(delayMs ?? 0, () => resolve(value))
    })) as unknown as typeof timers.setTimeout
  // Modules keep a chain of these, which must not end with one of the processes that share them here.
  timers.setImmediate = ((value?: unknown) => Promise.resolve(value)) as typeof timers.setImmediate
  crypto.randomFillSync = ((buffer: Buffer) => {
    for (let place = 0; place < buffer.length; place++) buffer[place] = place & 0xff
    return buffer
  }) as typeof crypto.randomFillSync
  crypto.randomUUID = () =>
    `00000000-0000-4000-8000-${String(current().random.below(10 ** 12)).padStart(12, '0')}`
  syncBuiltinESMExports()
}
