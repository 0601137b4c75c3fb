import type { WorkOrder } from './client.ts'
import { parseJson, readPrivateFile, writePrivateFile } from './private-file.ts'

/**
 * What a stopped miner needs to go on: found work is never lost. (Where it searched isn't kept: work has no memory,
 * and two runs hardly ever search the same nonces.)
 *
 * - `order`: as the service answered it, with `shares_accepted` and `credited_days` as last heard
 * - `unsent`: shares found and not yet known to be counted
 */
export interface MiningState {
  order: WorkOrder
  unsent: string[]
}

const PREFIX = /^[0-9a-f]{32}$/
const NONCE = /^[0-9a-z]{1,20}$/

/**
 * Reads the state in a file; undefined if there is no such file.
 *
 * @throws Error that names the file if it holds something else
 */
export function readMiningState(filePath: string): MiningState | undefined {
  return readPrivateFile(filePath, (text) => {
    const value = parseJson(text)
    if (!isMiningState(value))
      throw new Error(`${filePath} does not hold the state of a miner; move it away to begin anew.`)
    return value
  })
}

/** Replaces the state in a file, atomically. */
export function writeMiningState(filePath: string, state: MiningState): void {
  writePrivateFile(filePath, `${JSON.stringify(state)}\n`)
}

/** Whether a parsed file has all that mining needs, in its right form. */
function isMiningState(value: unknown): value is MiningState {
  if (typeof value !== 'object' || value === null) return false
  const { order, unsent } = value as Partial<Record<keyof MiningState, unknown>>
  return isWorkOrder(order) && isListOf(unsent, NONCE)
}

/** Whether a value has the fields of a work order that mining rests on. */
function isWorkOrder(value: unknown): value is WorkOrder {
  if (typeof value !== 'object' || value === null) return false
  const order = value as Partial<Record<keyof WorkOrder, unknown>>
  const counts = [
    order.days,
    order.shares_required,
    order.difficulty_bits,
    order.shares_accepted,
    order.credited_days,
    order.expires_at,
  ]
  return (
    typeof order.order_id === 'string' &&
    typeof order.prefix === 'string' &&
    PREFIX.test(order.prefix) &&
    counts.every((count) => Number.isSafeInteger(count) && Number(count) >= 0)
  )
}

function isListOf(value: unknown, form: RegExp): value is string[] {
  return Array.isArray(value) && value.every((element) => typeof element === 'string' && form.test(element))
}

/** Whether an order, as last heard, can still be worked on. */
export function isUnfinished(order: WorkOrder, nowSeconds: number): boolean {
  return order.credited_days < order.days && order.expires_at > nowSeconds
}
