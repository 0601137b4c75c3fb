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
import {
  createVariedSchedule,
  generateRound,
  K,
  LANES,
  writeAsciiText,
  generateHitCheck,
  ROUNDS,
  runRounds,
  wordAt,
  writeSplat,
  writeTarget,
  type State,
} from './sha256-vector.ts'
import { assembleModule, getLocal, i32, i32x4, doWhile, setLocal, type Code } from './wasm-module.ts'

export const HEAD_LENGTH = 15
export const TAIL_LENGTH = 4
/** Nonces with the same head, and the passes that search them. */
export const BLOCK_NONCES = 16 ** TAIL_LENGTH
export const BLOCK_PASSES = BLOCK_NONCES / LANES

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

const SCHEDULE = createVariedSchedule([VARIED_WORD], ROUND_WORDS, ROUND_CONSTANTS)

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
  const words = new Uint32Array(16)
  writeAsciiText(words, `${prefix}:${head}`)
  words[13] = 0x80000000
  words[15] = MESSAGE_BITS
  SCHEDULE.write(memory, words)
  const state = runRounds(words, VARIED_WORD + 1)
  for (let i = 0; i < 8; i++) writeSplat(memory, STATE + i * 16, wordAt(state, i))
  writeTarget(memory, TARGET, difficultyBits)
}

// What is done for every four nonces, as generated code

const FIRST_PASS = 0 // parameter: the next pass to do
const END_PASS = 1 // parameter: the pass before which to stop
const HITS_END = 2 // i32: where the next hit is written
const LANE_HITS = 3 // i32: lanes of this pass that hit
const FIRST_VECTOR_LOCAL = 4

const { add, or, xor } = i32x4
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
    const word = SCHEDULE.emitRoundInput(t, schedule, code)
    state = generateRound(state, word, takeLocal, code)
  }
  return [
    ...code,
    ...generateHitCheck(state.a, TARGET, { pass: FIRST_PASS, hitsEnd: HITS_END, laneHits: LANE_HITS }),
  ]
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
