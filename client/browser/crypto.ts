/** What the client uses of node:crypto, for the build that runs in browsers. */
import { sha256 } from '@noble/hashes/sha2.js'
import { randomBytes } from '@noble/hashes/utils.js'
import { Buffer } from './buffer.ts'

export { randomBytes }

export function hash(_algorithm: 'sha256', data: string | Uint8Array, encoding = 'hex'): string {
  return Buffer.from(sha256(typeof data === 'string' ? Buffer.from(data) : data)).toString(encoding)
}

export function randomInt(end: number): number {
  const most = 2 ** 32 - (2 ** 32 % end)
  for (;;) {
    const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1))
    if (drawn < most) return drawn % end
  }
}
