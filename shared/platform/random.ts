import { randomFillSync } from 'node:crypto'

/** Drawn at once: a draw costs as much as a short hash, however few bytes it is for. */
const DRAWN_BYTES = 4_096

const drawn = Buffer.alloc(DRAWN_BYTES)
let next = DRAWN_BYTES

/**
 * Reserves the next `count` bytes of `drawn`, which is filled anew if it has fewer left.
 *
 * @returns where they begin in `drawn`
 * @throws RangeError if `count` is above DRAWN_BYTES
 */
function draw(count: number): number {
  if (count > DRAWN_BYTES) throw new RangeError(`"count" expected at most ${DRAWN_BYTES}, got ${count}`)
  if (next + count > DRAWN_BYTES) {
    randomFillSync(drawn)
    next = 0
  }
  next += count
  return next - count
}

/**
 * Random bytes of the system, drawn many at a time. Each is given out once and not kept.
 *
 * @throws RangeError if `count` is above 4,096
 */
export function takeRandomBytes(count: number): Buffer {
  const from = draw(count)
  const taken = Buffer.from(drawn.subarray(from, from + count))
  drawn.fill(0, from, from + count)
  return taken
}

/** A random number from 0 to below 1, in steps of 1/256. */
export function takeRandomFraction(): number {
  const from = draw(1)
  const byte = drawn.readUInt8(from)
  drawn[from] = 0
  return byte / 256
}
