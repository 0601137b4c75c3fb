/** What the client uses of node:crypto, for the build that runs in browsers. */
import { sha256 } from '@noble/hashes/sha2.js'
import { randomBytes } from '@noble/hashes/utils.js'
import { Buffer } from './buffer.ts'

export { randomBytes }

export function hash(_algorithm: 'sha256', data: string | Uint8Array, encoding = 'hex'): string {
  return Buffer.from(sha256(typeof data === 'string' ? Buffer.from(data) : data)).toString(encoding)
}

/** A whole number from 0 to `end` - 1, each equally likely; `end` is at most 2^32. */
export function randomInt(end: number): number {
  // Numbers from here on are drawn again: they would make the small remainders likelier.
  const unevenFrom = 2 ** 32 - (2 ** 32 % end)
  for (;;) {
    const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1))
    if (drawn < unevenFrom) return drawn % end
  }
}
