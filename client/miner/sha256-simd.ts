/**
 * SHA-256 (FIPS 180-4) over the one message block `prefix ":" nonce`, four nonces a pass, one in each 32-bit
 * lane of a 128-bit vector. It generates the WebAssembly of the inner loop, and computes what is the same for
 * a whole block of 65,536 nonces.
 *
 * The message block, word by word (§5.2.1), with nonces of 19 characters:
 *
 *   W0–W7    the prefix, 32 characters
 *   W8       ":" and nonce characters 0–2
 *   W9–W11   nonce characters 3–14; with those of W8 they are the `head`, fixed for a block of 65,536 nonces
 *   W12      nonce characters 15–18, four hex digits: the `tail`, the only word that varies
 *   W13      80000000: the 1 bit after the message (§5.1.1)
 *   W14–W15  the message length in bits: 52 × 8 = 416
 *
 * So of one block's 64 rounds (§6.2.2 step 3) rounds 0–11 are done once, in round 12 W12 is only added, and
 * rounds 13–63 are done for every nonce. In the message schedule (step 1), sums of words that don't depend on
 * W12 are computed once.
 */
import { BLOCK_NONCES } from './block.ts'
import { assembleModule, doWhile, getLocal, i32, i32x4, ifThen, setLocal, type Code } from './wasm-module.ts'

export const LANES = 4
/** The passes that search a block. */
export const BLOCK_PASSES = BLOCK_NONCES / LANES
const ROUNDS = 64
const VARIED_WORD = 12
const MESSAGE_BITS = 52 * 8
const HEX_DIGITS = '0123456789abcdef'

/**
 * Memory of the module, in bytes. "Splat" is one word four times over, so that one load fills a vector.
 *   ROUND_CONSTANTS  64 splats, K
 *   ROUND_WORDS      64 splats; K[t] + W[t] where W[t] is fixed, else the sum of the fixed terms of W[t]
 *   STATE            8 splats, a to h after round 12, where a and e still lack W12
 *   TARGET           2 splats, H0 and the mask of the bits of digest word 0 that must be zero
 *   TAIL_LOW         64 vectors, the tail's last two characters for four nonces, in the low half of each word
 *   TAIL_HIGH        256 words, the tail's first two characters, in the high half
 *   HITS             one word for every pass that found something: pass × 16 + one bit a lane, lane 0 lowest
 */
const ROUND_CONSTANTS = 0
const ROUND_WORDS = ROUND_CONSTANTS + ROUNDS * 16
const STATE = ROUND_WORDS + ROUNDS * 16
const TARGET = STATE + 8 * 16
const TAIL_LOW = TARGET + 2 * 16
const TAIL_HIGH = TAIL_LOW + (256 / LANES) * 16
export const HITS = TAIL_HIGH + 256 * 4
const MEMORY_BYTES = HITS + BLOCK_PASSES * 4

// The standard's constants and functions

const PRIMES: number[] = []
for (let number = 2; PRIMES.length < ROUNDS; number++)
  if (PRIMES.every((prime) => number % prime !== 0)) PRIMES.push(number)

/** The first 32 bits of the fractional part. */
const fractionOf = (root: number): number => (root * 2 ** 32) >>> 0
/** §4.2.2: of the cube roots of the first 64 primes. */
export const K = Uint32Array.from(PRIMES, (prime) => fractionOf(Math.cbrt(prime)))
/** §5.3.3, the initial hash value: of the square roots of the first 8 primes. */
export const H = Uint32Array.from(PRIMES.slice(0, 8), (prime) => fractionOf(Math.sqrt(prime)))

/** The four functions of one word, §4.1.2 (4.4) to (4.7): rotations right, and for the small sigmas a shift right. */
type WordFunction = { rotations: readonly number[]; shift?: number }
const SUM_0: WordFunction = { rotations: [2, 13, 22] }
const SUM_1: WordFunction = { rotations: [6, 11, 25] }
const SIGMA_0: WordFunction = { rotations: [7, 18], shift: 3 }
const SIGMA_1: WordFunction = { rotations: [17, 19], shift: 10 }

/** §6.2.2 step 1: W[t] = σ1(W[t−2]) + W[t−7] + σ0(W[t−15]) + W[t−16]. */
const SCHEDULE: readonly { back: number; apply?: WordFunction }[] = [
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
function runRounds(words: Uint32Array, rounds: number): Uint32Array {
  const state = Uint32Array.from(H)
  for (let t = 0; t < rounds; t++) {
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
    const t1 = h + applyWord(SUM_1, e) + ((e & f) ^ (~e & g)) + wordAt(K, t) + wordAt(words, t)
    const t2 = applyWord(SUM_0, a) + ((a & b) ^ (a & c) ^ (b & c))
    state.set([t1 + t2, a, b, c, d + t1, e, f, g]) // stored modulo 2^32
  }
  return state
}

/** Whether W[t] depends on W12. */
const IS_VARIED: boolean[] = []
for (let t = 0; t < ROUNDS; t++)
  IS_VARIED.push(t < 16 ? t === VARIED_WORD : SCHEDULE.some(({ back }) => IS_VARIED[t - back]))

const wordAt = (words: Uint32Array, index: number): number => words[index] ?? 0

/** Writes `word` four times. @param address in bytes */
function writeSplat(memory: Uint32Array, address: number, word: number): void {
  memory.fill(word, address / 4, address / 4 + LANES)
}

// What is done once for a block, in plain arithmetic

/** Writes into the module's memory what is the same for all blocks: the round constants and the tails. */
export function writeTables(memory: Uint32Array): void {
  for (let t = 0; t < ROUNDS; t++) writeSplat(memory, ROUND_CONSTANTS + t * 16, wordAt(K, t))
  for (let i = 0; i < 256; i++) {
    const pair = (HEX_DIGITS.charCodeAt(i >> 4) << 8) | HEX_DIGITS.charCodeAt(i & 15)
    memory[TAIL_LOW / 4 + i] = pair
    memory[TAIL_HIGH / 4 + i] = pair << 16
  }
}

/**
 * Writes into the module's memory what the nonces of a block have in common.
 *
 * @param prefix 32 ASCII characters
 * @param head 15 ASCII characters
 * @param difficultyBits beyond 32 the search gives candidates whose first 32 bits are zero
 */
export function writeBlock(memory: Uint32Array, prefix: string, head: string, difficultyBits: number): void {
  const words = new Uint32Array(ROUNDS)
  for (const [i, char] of [...`${prefix}:${head}`].entries())
    // big-endian, §3.1
    words[i >> 2] = wordAt(words, i >> 2) | (char.charCodeAt(0) << (24 - 8 * (i & 3)))
  words[13] = 0x80000000
  words[15] = MESSAGE_BITS
  const state = runRounds(words, VARIED_WORD + 1)
  for (let i = 0; i < 8; i++) writeSplat(memory, STATE + i * 16, wordAt(state, i))
  for (let t = 0; t < ROUNDS; t++) {
    for (const { back, apply } of t < 16 ? [] : SCHEDULE) {
      if (IS_VARIED[t - back]) continue
      const word = wordAt(words, t - back)
      words[t] = wordAt(words, t) + (apply ? applyWord(apply, word) : word)
    }
    writeSplat(memory, ROUND_WORDS + t * 16, wordAt(words, t) + (IS_VARIED[t] ? 0 : wordAt(K, t)))
  }
  const bits = Math.min(difficultyBits, 32)
  writeSplat(memory, TARGET, wordAt(H, 0))
  writeSplat(memory, TARGET + 16, bits === 0 ? 0 : 0xffffffff << (32 - bits))
}

// What is done for every four nonces, as generated code

const FIRST_PASS = 0 // parameter: the next pass to do
const END_PASS = 1 // parameter: the pass before which to stop
const HITS_END = 2 // i32: where the next hit is written
const LANE_HITS = 3 // i32: lanes of this pass that hit
const FIRST_VECTOR_LOCAL = 4

const { add, and, or, shiftLeft, shiftRight, xor } = i32x4
const loadWord = (address: number): Code => i32x4.load(i32.const(0), address)

/**
 * Generates a WebAssembly module that exports `memory` and `search(firstPass, endPass)`. That writes hits at
 * HITS and returns the address of their end.
 */
export function generateSearchModule(): Uint8Array<ArrayBuffer> {
  let locals = FIRST_VECTOR_LOCAL
  const takeLocal = (): number => locals++
  const pass = generatePass(takeLocal)
  const nextPass = setLocal(FIRST_PASS, i32.add(getLocal(FIRST_PASS), i32.const(1)))
  const body = [
    ...setLocal(HITS_END, i32.const(HITS)),
    ...doWhile([...pass, ...nextPass], i32.lessThan(getLocal(FIRST_PASS), getLocal(END_PASS))),
    ...getLocal(HITS_END),
  ]
  return assembleModule(
    { name: 'search', params: 2, i32Locals: 2, v128Locals: locals - FIRST_VECTOR_LOCAL, body },
    MEMORY_BYTES,
  )
}

/** Code for four nonces: loads their tails into W12, runs rounds 13 to 63, and checks digest word 0. */
function generatePass(takeLocal: () => number): Code {
  const schedule = Array.from({ length: 16 }, takeLocal) // W[t] lives in local t mod 16
  const code: number[] = [...setLocal(schedule[VARIED_WORD] ?? 0, loadTails())]
  let state = startState(schedule[VARIED_WORD] ?? 0, takeLocal, code)
  for (let t = VARIED_WORD + 1; t < ROUNDS; t++) {
    const word = generateRoundInput(t, schedule, code)
    state = generateRound(state, word, takeLocal, code)
  }
  return [...code, ...generateHitCheck(state.a)]
}

/**
 * Code for the four tails of a pass: the pass's upper 8 bits choose the first two characters, its lower 6
 * bits the last two.
 */
function loadTails(): Code {
  const high = i32.shiftLeft(i32.shiftRight(getLocal(FIRST_PASS), 6), 2)
  const low = i32.shiftLeft(i32.and(getLocal(FIRST_PASS), i32.const(63)), 4)
  return or(i32x4.loadSplat(high, TAIL_HIGH), i32x4.load(low, TAIL_LOW))
}

/** Code for the state after round 12, which was computed with 0 for W12: adds W12 to a and e. */
function startState(word: number, takeLocal: () => number, code: number[]): State {
  const variable = (index: number): Code => loadWord(STATE + index * 16)
  const a = takeLocal()
  const e = takeLocal()
  code.push(...setLocal(a, add(getLocal(word), variable(0))))
  code.push(...setLocal(e, add(getLocal(word), variable(4))))
  return {
    a: getLocal(a),
    b: variable(1),
    c: variable(2),
    d: variable(3),
    e: getLocal(e),
    f: variable(5),
    g: variable(6),
    h: variable(7),
    bXorC: xor(variable(1), variable(2)),
  }
}

/**
 * Code that loads the working variables before a round, and b xor c, which the previous round has computed as
 * its a xor b. Every round uses new locals; the engine's register allocation makes that free.
 */
type State = Record<'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g' | 'h' | 'bXorC', Code>

/**
 * Appends code for one round (§6.2.2 step 3) to `code`, and returns code that loads the working variables
 * after it. Ch and Maj (§4.1.2) have forms of three operations:
 *   Ch(e, f, g)  = g xor (e and (f xor g))
 *   Maj(a, b, c) = b xor ((a xor b) and (b xor c))
 *
 * @param word code for K[t] + W[t]
 */
function generateRound(state: State, word: Code, takeLocal: () => number, code: number[]): State {
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

/** Returns code for K[t] + W[t]. If W[t] varies, appends code that stores it in local t mod 16. */
function generateRoundInput(t: number, locals: readonly number[], code: number[]): Code {
  if (!IS_VARIED[t]) return loadWord(ROUND_WORDS + t * 16)
  const local = locals[t % 16] ?? 0
  if (t >= 16) {
    const terms = SCHEDULE.filter(({ back }) => IS_VARIED[t - back]).map(({ back, apply }) => {
      const word = getLocal(locals[(t - back) % 16] ?? 0)
      return apply ? generateWordFunction(apply, word) : word
    })
    if (terms.length < SCHEDULE.length) terms.unshift(loadWord(ROUND_WORDS + t * 16))
    code.push(...setLocal(local, terms.reduce(add)))
  }
  return add(getLocal(local), loadWord(ROUND_CONSTANTS + t * 16))
}

/** Code that applies a word function to four lanes: a rotation is two shifts, and xor joins all shifts in pairs. */
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
 * Code that stores a hit, if any lane's digest meets the target: one word, pass × 16 + one bit for each lane.
 *
 * @param a the working variable a after the last round: digest word 0 is H0 + a (§6.2.2 step 4)
 */
function generateHitCheck(a: Code): Code {
  const zeroBits = i32x4.equal(and(add(a, loadWord(TARGET)), loadWord(TARGET + 16)), i32x4.zero)
  const hit = i32.or(i32.shiftLeft(getLocal(FIRST_PASS), LANES), getLocal(LANE_HITS))
  return [
    ...setLocal(LANE_HITS, i32x4.bitmask(zeroBits)),
    ...ifThen(getLocal(LANE_HITS), [
      ...i32.store(getLocal(HITS_END), hit),
      ...setLocal(HITS_END, i32.add(getLocal(HITS_END), i32.const(4))),
    ]),
  ]
}
