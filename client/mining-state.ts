import { findProblem, schemaOf } from './answer-check.ts'
import type { WorkOrder } from './client.ts'
import { readPrivateFile, writePrivateFile } from './private-file.ts'
import { isObject } from './verify/values.ts'

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

const NONCE = /^[0-9a-z]{1,20}$/

/**
 * Reads the state in a file; undefined if there is no such file.
 *
 * @throws Error that names the file if it holds something else
 */
export function readMiningState(filePath: string): MiningState | undefined {
  return readPrivateFile(
    filePath,
    (value) => (isMiningState(value) ? value : undefined),
    'does not hold the state of a miner; move it away to begin anew.',
  )
}

/** Replaces the state in a file, atomically. */
export const writeMiningState = (filePath: string, state: MiningState): void =>
  writePrivateFile(filePath, state)

/** Whether a parsed file has all that mining needs, in its right form. */
function isMiningState(value: unknown): value is MiningState {
  const { order, unsent } = isObject(value) ? value : {}
  const isNonce = (nonce: unknown) => typeof nonce === 'string' && NONCE.test(nonce)
  return (
    findProblem(schemaOf('WorkOrder'), order) === undefined && Array.isArray(unsent) && unsent.every(isNonce)
  )
}

/** Whether an order, as last heard, can still be worked on. */
export function isUnfinished(order: WorkOrder, nowSeconds: number): boolean {
  return order.credited_days < order.days && order.expires_at > nowSeconds
}
