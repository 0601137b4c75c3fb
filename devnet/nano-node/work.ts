import { blake2b } from '@noble/hashes/blake2.js'
import { hexToBytes } from '@noble/hashes/utils.js'

/** The least difficulty a block's work must reach, by the epoch of its account and by what it does. */
export interface WorkThresholds {
  readonly epoch1: bigint
  readonly epoch2: bigint
  readonly epoch2Receive: bigint
}

/** The dev network's: about 128, 1,024 and 16 hashes. */
export const devThresholds: WorkThresholds = {
  epoch1: 0xfe00000000000000n,
  epoch2: 0xffc0000000000000n,
  epoch2Receive: 0xf000000000000000n,
}

export interface WorkDetails {
  readonly epoch: number
  readonly isReceiveOrEpoch: boolean
}

/** The least difficulty of a block with these details. */
export function thresholdFor(thresholds: WorkThresholds, details: WorkDetails): bigint {
  if (details.epoch < 2) return thresholds.epoch1
  return details.isReceiveOrEpoch ? thresholds.epoch2Receive : thresholds.epoch2
}

/** The least of the thresholds: a block with less work is refused before anything else is checked. */
export function entryThreshold(thresholds: WorkThresholds): bigint {
  return thresholds.epoch1 < thresholds.epoch2Receive ? thresholds.epoch1 : thresholds.epoch2Receive
}

/**
 * The difficulty that a work value reaches: Blake2b (8 bytes) of work and root, both numbers little-endian.
 *
 * @param rootHex the previous block's hash, or the public key of an unopened account
 */
export function workDifficulty(rootHex: string, work: bigint): bigint {
  const preimage = new Uint8Array(40)
  const view = new DataView(preimage.buffer)
  view.setBigUint64(0, work, true)
  preimage.set(hexToBytes(rootHex), 8)
  const digest = blake2b(preimage, { dkLen: 8 })
  return new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true)
}

/** Tries `count` work values from `start` on; null if none reaches the difficulty. */
export function searchWork(rootHex: string, difficulty: bigint, start: bigint, count: number): bigint | null {
  const preimage = new Uint8Array(40)
  const view = new DataView(preimage.buffer)
  preimage.set(hexToBytes(rootHex), 8)
  for (let step = 0; step < count; step += 1) {
    const work = BigInt.asUintN(64, start + BigInt(step))
    view.setBigUint64(0, work, true)
    const digest = blake2b(preimage, { dkLen: 8 })
    if (new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true) >= difficulty) return work
  }
  return null
}

/** Searches work without yielding to the event loop; for low difficulties only. */
export function findWork(rootHex: string, difficulty: bigint): bigint {
  for (let start = 0n; ; start += 4096n) {
    const work = searchWork(rootHex, difficulty, start, 4096)
    if (work !== null) return work
  }
}

/** How many times as much work a difficulty takes on average as the base difficulty. */
export function workMultiplier(difficulty: bigint, base: bigint): number {
  return Number((1n << 64n) - base) / Number((1n << 64n) - difficulty)
}

/** The difficulty that takes `multiplier` times as much work on average as the base difficulty. */
export function difficultyFromMultiplier(multiplier: number, base: bigint): bigint {
  return BigInt.asUintN(64, (1n << 64n) - BigInt(Math.floor(Number((1n << 64n) - base) / multiplier)))
}
