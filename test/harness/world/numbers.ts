import { createSeededNumbers, type SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'

/** A stream of random numbers for one part of a run, the same for the same seed and part. */
export function numbersFor(seed: number, part: string): SeededNumbers {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(seed))
  return createSeededNumbers(part, bytes)
}
