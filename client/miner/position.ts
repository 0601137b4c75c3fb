/**
 * A position is the 15-character head of the next block that a thread searches.
 *
 *   characters 0–8    the range, 0-9 a-z: drawn at random for each thread of each run out of 36^9 = 1.0e14,
 *                     so that two threads or runs hardly ever search the same one
 *   characters 9–14   the block's number in that range, hex: 2^24 blocks of 2^16 nonces
 */
import { randomInt } from 'node:crypto'

const RANGE_LENGTH = 9
const BLOCK_DIGITS = 6
const LAST_BLOCK = 16 ** BLOCK_DIGITS - 1
const POSITION_FORM = /^[0-9a-z]{9}[0-9a-f]{6}$/

/** The first position of a new, random range. */
export function drawPosition(): string {
  const range = Array.from({ length: RANGE_LENGTH }, () => randomInt(36).toString(36)).join('')
  return range + '0'.repeat(BLOCK_DIGITS)
}

/**
 * The block after `position`; after a range's last block, the first of a new range.
 *
 * @throws Error for a malformed position
 */
export function advancePosition(position: string): string {
  assertPosition(position)
  const block = Number.parseInt(position.slice(RANGE_LENGTH), 16)
  if (block === LAST_BLOCK) return drawPosition()
  return position.slice(0, RANGE_LENGTH) + (block + 1).toString(16).padStart(BLOCK_DIGITS, '0')
}

export function assertPosition(position: string): void {
  if (!POSITION_FORM.test(position)) {
    throw new Error(
      `"position" must be 9 characters of 0-9 a-z and 6 of 0-9 a-f, got ${JSON.stringify(position)}`,
    )
  }
}
