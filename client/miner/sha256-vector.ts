/**
 * The parts of SHA-256 (FIPS 180-4) that code for vectors of four 32-bit lanes is made of: the constants, the
 * functions of one word in plain arithmetic, and the same functions and one round as WebAssembly.
 */
import { getLocal, i32, i32x4, ifThen, setLocal, type Code } from './wasm-module.ts'

export const LANES = 4
export const ROUNDS = 64

/** §4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
export const K = Uint32Array.of(
  0x428a2f98,
  0x71374491,
  0xb5c0fbcf,
  0xe9b5dba5,
  0x3956c25b,
  0x59f111f1,
  0x923f82a4,
  0xab1c5ed5,
  0xd807aa98,
  0x12835b01,
  0x243185be,
  0x550c7dc3,
  0x72be5d74,
  0x80deb1fe,
  0x9bdc06a7,
  0xc19bf174,
  0xe49b69c1,
  0xefbe4786,
  0x0fc19dc6,
  0x240ca1cc,
  0x2de92c6f,
  0x4a7484aa,
  0x5cb0a9dc,
  0x76f988da,
  0x983e5152,
  0xa831c66d,
  0xb00327c8,
  0xbf597fc7,
  0xc6e00bf3,
  0xd5a79147,
  0x06ca6351,
  0x14292967,
  0x27b70a85,
  0x2e1b2138,
  0x4d2c6dfc,
  0x53380d13,
  0x650a7354,
  0x766a0abb,
  0x81c2c92e,
  0x92722c85,
  0xa2bfe8a1,
  0xa81a664b,
  0xc24b8b70,
  0xc76c51a3,
  0xd192e819,
  0xd6990624,
  0xf40e3585,
  0x106aa070,
  0x19a4c116,
  0x1e376c08,
  0x2748774c,
  0x34b0bcb5,
  0x391c0cb3,
  0x4ed8aa4a,
  0x5b9cca4f,
  0x682e6ff3,
  0x748f82ee,
  0x78a5636f,
  0x84c87814,
  0x8cc70208,
  0x90befffa,
  0xa4506ceb,
  0xbef9a3f7,
  0xc67178f2,
)

/** §5.3.3: the initial hash value. */
const H = Uint32Array.of(
  0x6a09e667,
  0xbb67ae85,
  0x3c6ef372,
  0xa54ff53a,
  0x510e527f,
  0x9b05688c,
  0x1f83d9ab,
  0x5be0cd19,
)

/**
 * The four functions of one word, §4.1.2 (4.4) to (4.7): rotations right, and for the small sigmas a shift
 * right.
 */
type WordFunction = { rotations: readonly number[]; shift?: number }
const SUM_0: WordFunction = { rotations: [2, 13, 22] }
const SUM_1: WordFunction = { rotations: [6, 11, 25] }
const SIGMA_0: WordFunction = { rotations: [7, 18], shift: 3 }
const SIGMA_1: WordFunction = { rotations: [17, 19], shift: 10 }

/** §6.2.2 step 1: W[t] = σ1(W[t−2]) + W[t−7] + σ0(W[t−15]) + W[t−16]. */
export const SCHEDULE: readonly { back: number; apply?: WordFunction }[] = [
  { back: 16 },
  { back: 15, apply: SIGMA_0 },
  { back: 7 },
  { back: 2, apply: SIGMA_1 },
]

const rotateRight = (x: number, bits: number): number => (x >>> bits) | (x << (32 - bits))

/** Applies a word function in plain arithmetic. */
function applyWord({ rotations, shift }: WordFunction, x: number): number {
  let result = shift === undefined ? 0 : x >>> shift
  for (const bits of rotations) result ^= rotateRight(x, bits)
  return result
}

/**
 * Computes the working variables a to h after the first `rounds` rounds (§6.2.2 steps 2 and 3), in plain
 * arithmetic.
 *
 * @param words W[0] to W[rounds - 1]
 */
export function runRounds(words: Uint32Array, rounds: number): Uint32Array {
  const state = Uint32Array.from(H)
  for (let t = 0; t < rounds; t++) {
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
    const t1 = h + applyWord(SUM_1, e) + ((e & f) ^ (~e & g)) + wordAt(K, t) + wordAt(words, t)
    const t2 = applyWord(SUM_0, a) + ((a & b) ^ (a & c) ^ (b & c))
    state.set([t1 + t2, a, b, c, d + t1, e, f, g]) // stored modulo 2^32
  }
  return state
}

/** Writes ASCII text, big-endian (§3.1), into the first words of a message block, which must be 0 before. */
export function writeAsciiText(words: Uint32Array, text: string): void {
  for (let i = 0; i < text.length; i++)
    words[i >> 2] = wordAt(words, i >> 2) | (text.charCodeAt(i) << (24 - 8 * (i & 3)))
}

export const wordAt = (words: Uint32Array, index: number): number => words[index] ?? 0

/** Writes `word` four times. @param address in bytes */
export function writeSplat(memory: Uint32Array, address: number, word: number): void {
  memory.fill(word, address / 4, address / 4 + LANES)
}

const { add, and, shiftLeft, shiftRight, xor } = i32x4

/**
 * Code that loads the working variables before a round, and b xor c, which the previous round has computed as
 * its a xor b. Every round uses new locals; the engine's register allocation makes that free.
 */
export type State = Record<'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g' | 'h' | 'bXorC', Code>

/**
 * Appends code for one round (§6.2.2 step 3) to `code`, and returns code that loads the working variables
 * after it. Ch and Maj (§4.1.2) have forms of three operations:
 *   Ch(e, f, g)  = g xor (e and (f xor g))
 *   Maj(a, b, c) = b xor ((a xor b) and (b xor c))
 *
 * @param word code for K[t] + W[t]
 */
export function generateRound(state: State, word: Code, takeLocal: () => number, code: number[]): State {
  const { a, b, c, d, e, f, g, h, bXorC } = state
  const t1 = takeLocal()
  const aXorB = takeLocal()
  const nextA = takeLocal()
  const nextE = takeLocal()
  const ch = xor(g, and(e, xor(f, g)))
  code.push(...setLocal(t1, add(add(add(h, word), ch), generateWordFunction(SUM_1, e))))
  code.push(...setLocal(nextE, add(d, getLocal(t1))))
  code.push(...setLocal(aXorB, xor(a, b)))
  const maj = xor(b, and(getLocal(aXorB), bXorC))
  code.push(...setLocal(nextA, add(add(getLocal(t1), maj), generateWordFunction(SUM_0, a))))
  return {
    a: getLocal(nextA),
    b: a,
    c: b,
    d: c,
    e: getLocal(nextE),
    f: e,
    g: f,
    h: g,
    bXorC: getLocal(aXorB),
  }
}

/**
 * A message schedule (§6.2.2 step 1) in which only some of the first 16 words differ from message to message.
 * Sums of the terms that don't depend on those words are computed once, into a table of splats.
 */
export interface VariedSchedule {
  /**
   * Writes the table: K[t] + W[t] if W[t] is the same for all messages, else the sum of its terms that are.
   */
  write(memory: Uint32Array, words: Uint32Array): void
  /** Returns code for K[t] + W[t]. If W[t] varies, appends code that stores it in local t mod 16. */
  emitRoundInput(t: number, locals: readonly number[], code: number[]): Code
}

/**
 * Creates the schedule for messages that differ only in the words `varied` of their block.
 *
 * @param varied indexes from 0 to 15
 * @param table the address of 64 splats for the sums
 * @param constants the address of 64 splats, K
 */
export function createVariedSchedule(
  varied: readonly number[],
  table: number,
  constants: number,
): VariedSchedule {
  const isVaried: boolean[] = []
  for (let t = 0; t < ROUNDS; t++)
    isVaried.push(t < 16 ? varied.includes(t) : SCHEDULE.some(({ back }) => isVaried[t - back]))
  const loadSplat = (address: number): Code => i32x4.load(i32.const(0), address)
  return {
    write(memory, block) {
      const words = new Uint32Array(ROUNDS)
      words.set(block.subarray(0, 16))
      for (let t = 0; t < ROUNDS; t++) {
        if (t >= 16)
          for (const { back, apply } of SCHEDULE) {
            if (isVaried[t - back]) continue
            const word = wordAt(words, t - back)
            words[t] = wordAt(words, t) + (apply ? applyWord(apply, word) : word)
          }
        writeSplat(memory, table + t * 16, isVaried[t] ? wordAt(words, t) : wordAt(words, t) + wordAt(K, t))
      }
    },
    emitRoundInput(t, locals, code) {
      if (!isVaried[t]) return loadSplat(table + t * 16)
      const local = locals[t % 16] ?? 0
      if (t >= 16) {
        const terms = SCHEDULE.filter(({ back }) => isVaried[t - back]).map(({ back, apply }) => {
          const word = getLocal(locals[(t - back) % 16] ?? 0)
          return apply ? generateWordFunction(apply, word) : word
        })
        if (terms.length < SCHEDULE.length) terms.unshift(loadSplat(table + t * 16))
        code.push(...setLocal(local, terms.reduce(add)))
      }
      return add(getLocal(local), loadSplat(constants + t * 16))
    },
  }
}

/**
 * Code that applies a word function to four lanes: a rotation is two shifts, and xor joins all shifts in
 * pairs.
 */
function generateWordFunction({ rotations, shift }: WordFunction, x: Code): Code {
  let terms = rotations.flatMap((bits) => [shiftRight(x, bits), shiftLeft(x, 32 - bits)])
  if (shift !== undefined) terms.push(shiftRight(x, shift))
  while (terms.length > 1) {
    terms = terms.flatMap((term, i) =>
      i % 2 === 1 ? [] : [i + 1 < terms.length ? xor(term, terms[i + 1] ?? []) : term],
    )
  }
  return terms[0] ?? []
}

/**
 * Writes two splats at `address`, which generateHitCheck() reads: H0, and the mask of the bits of digest word
 * 0 that must be zero, 32 at most.
 */
export function writeTarget(memory: Uint32Array, address: number, difficultyBits: number): void {
  const bits = Math.min(difficultyBits, 32)
  writeSplat(memory, address, wordAt(H, 0))
  writeSplat(memory, address + 16, bits === 0 ? 0 : 0xffffffff << (32 - bits))
}

/**
 * The i32 locals of a search: the pass, the address of the next hit, and scratch for the bits of the lanes.
 */
export interface HitLocals {
  pass: number
  hitsEnd: number
  laneHits: number
}

/**
 * Code that stores a hit, if any lane's digest meets the target: one word, pass × 16 + one bit for each lane.
 *
 * @param a the working variable a after the last round: digest word 0 is H0 + a (§6.2.2 step 4)
 * @param target the address that writeTarget() wrote to
 */
export function generateHitCheck(a: Code, target: number, { pass, hitsEnd, laneHits }: HitLocals): Code {
  const load = (address: number): Code => i32x4.load(i32.const(0), address)
  const zeroBits = i32x4.equal(and(add(a, load(target)), load(target + 16)), i32x4.zero)
  return [
    ...setLocal(laneHits, i32x4.bitmask(zeroBits)),
    ...ifThen(getLocal(laneHits), [
      ...i32.store(getLocal(hitsEnd), i32.or(i32.shiftLeft(getLocal(pass), LANES), getLocal(laneHits))),
      ...setLocal(hitsEnd, i32.add(getLocal(hitsEnd), i32.const(4))),
    ]),
  ]
}
