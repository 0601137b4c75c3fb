import type { Caller } from './turns.ts'

/** A semaphore whose holders take room by their weight, in turns over callers. */
export interface Room {
  /**
   * Resolves when there is room for the weight, which the caller then holds. What weighs more than all room, or
   * than the caller's, has that alone.
   *
   * @throws the reason of the signal if that is aborted before
   */
  take(caller: Caller, weight: number, signal: AbortSignal | undefined): Promise<void>
  /** The same without waiting: returns whether there was room, whoever waits for it. */
  tryTake(caller: Caller, weight: number): boolean
  /** Gives back what was taken. */
  putDown(caller: Caller, weight: number): void
}

interface Waiting {
  weight: number
  begin(): void
}

/** Creates a room that is empty. @param ofCaller what one caller may hold of all */
export function createRoom({ all, ofCaller }: { all: number; ofCaller: number }): Room {
  /** What waits of each caller, in the order in which the callers have their turns. */
  const callers = new Map<Caller, Set<Waiting>>()
  const held = new Map<Caller, number>()
  let taken = 0

  const fits = (weight: number, used: number, most: number): boolean => used === 0 || used + weight <= most
  const hasShareFor = (caller: Caller, weight: number): boolean =>
    fits(weight, held.get(caller) ?? 0, ofCaller)

  function tryTake(caller: Caller, weight: number): boolean {
    if (!hasShareFor(caller, weight) || !fits(weight, taken, all)) return false
    taken += weight
    held.set(caller, (held.get(caller) ?? 0) + weight)
    return true
  }

  /**
   * Lets in what is next, as far as there is room. What doesn't fit is waited for, or smaller weights would
   * pass it for ever; but a caller who has his share is passed.
   */
  function letIn(): void {
    for (const [caller, waiting] of callers) {
      const [next] = waiting
      if (next === undefined || !hasShareFor(caller, next.weight)) continue
      if (!tryTake(caller, next.weight)) return
      remove(caller, next)
      // At the end, if it has more.
      if (callers.delete(caller)) callers.set(caller, waiting)
      next.begin()
    }
  }

  function remove(caller: Caller, one: Waiting): void {
    const waiting = callers.get(caller)
    waiting?.delete(one)
    if (waiting?.size === 0) callers.delete(caller)
  }

  return {
    take(caller, weight, signal) {
      if (callers.size === 0 && signal?.aborted !== true && tryTake(caller, weight)) return Promise.resolve()
      return new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error)
        const leave = (): void => {
          remove(caller, one)
          reject(signal?.reason as Error)
          letIn()
        }
        const one: Waiting = {
          weight,
          begin() {
            signal?.removeEventListener('abort', leave)
            resolve()
          },
        }
        signal?.addEventListener('abort', leave, { once: true })
        callers.set(caller, (callers.get(caller) ?? new Set()).add(one))
        letIn()
      })
    },
    tryTake,
    putDown(caller, weight) {
      taken -= weight
      const left = (held.get(caller) ?? 0) - weight
      if (left > 0) held.set(caller, left)
      else held.delete(caller)
      letIn()
    },
  }
}
