import { randomFillSync } from 'node:crypto'

/** Drawn at once: a draw costs as much as a short hash, however few bytes it is for. */
const DRAWN_BYTES = 4_096

const drawn = Buffer.alloc(DRAWN_BYTES)
let next = DRAWN_BYTES

/** @returns where the next `count` bytes stand in `drawn` */
function draw(count: number): number {
  // More would come out short, without a word.
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

/** As takeRandomBytes(), a fraction of 256 steps: at least 0, below 1. */
export function takeRandomFraction(): number {
  const from = draw(1)
  const byte = drawn.readUInt8(from)
  drawn[from] = 0
  return byte / 256
}
