/**
 * SHA-256 (FIPS 180-4) over the one block `prefix ":" nonce` of many nonces of one length, four a pass, one
 * in each 32-bit lane of a 128-bit vector: finds those whose first 32 bits begin with enough zero bits.
 *
 * The message block, word by word (§5.2.1), with nonces of 1 to 20 characters:
 *
 *   W0–W7    the prefix, 32 characters: with them, rounds 0 to 7 are done once
 *   W8–W13   ":" and the nonce, the 1 bit after it (§5.1.1), and zeros
 *   W14–W15  the message length in bits
 *
 * The nonces are read from text such as `one two six`. So the text has W8 to W13 as the message has them, except
 * what stands before the nonce, which becomes ":", and what follows it, which is masked.
 */
import { hash } from 'node:crypto'
import { MAX_NONCE_LENGTH, PREFIX_LENGTH } from './pow.ts'
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
import {
  assembleModule,
  getLocal,
  i32,
  i32x4,
  instantiate,
  doWhile,
  setLocal,
  type Code,
} from './wasm-module.ts'

const FIRST_VARIED = PREFIX_LENGTH / 4
const VARIED = [8, 9, 10, 11, 12, 13]
const CHUNK_NONCES = 4_096
const COLON = 0x3a

/*
 * Memory of the module, in bytes. "Splat" is one word four times over, so that one load fills a vector.
 *   ROUND_CONSTANTS  64 splats, K
 *   ROUND_WORDS      64 splats, the sums of what does not vary (createVariedSchedule)
 *   STATE            8 splats, a to h after round 7
 *   TARGET           2 splats, H0 and the mask of the bits of digest word 0 that must be zero
 *   MASKS            6 splats, the bytes of W8 to W13 that belong to the nonce
 *   PADDING          6 splats, ":" before the nonce, and the 1 bit behind it
 *   HITS             one word for every pass that found something: pass × 16 + one bit a lane, lane 0 lowest
 *   TEXT             the nonces, each behind one byte of any value
 */
const ROUND_CONSTANTS = 0
const ROUND_WORDS = ROUND_CONSTANTS + ROUNDS * 16
const STATE = ROUND_WORDS + ROUNDS * 16
const TARGET = STATE + 8 * 16
const MASKS = TARGET + 2 * 16
const PADDING = MASKS + VARIED.length * 16
const HITS = PADDING + VARIED.length * 16
const TEXT = HITS + (CHUNK_NONCES / LANES) * 4
/** With room after the text, since the last pass reads beyond it. */
const MEMORY_BYTES = TEXT + (CHUNK_NONCES + LANES) * (1 + MAX_NONCE_LENGTH) + VARIED.length * 4

const SCHEDULE = createVariedSchedule(VARIED, ROUND_WORDS, ROUND_CONSTANTS)

/**
 * Finds the nonces for which SHA-256 of `prefix:nonce` begins with `difficultyBits` zero bits; only the first
 * 32 bits are checked. Returns their indexes, ascending. A nonce with characters beyond U+00FF is hashed
 * wrongly.
 *
 * @param prefix 32 ASCII characters
 * @param nonces as one text, with one character between two of them
 * @param length of each of them, 1 to 20 UTF-16 code units
 */
export type SearchNonces = (
  prefix: string,
  nonces: string,
  length: number,
  difficultyBits: number,
) => number[]

/**
 * Makes the search of vector code, which is compiled and compared with node:crypto.
 *
 * @throws Error if the two differ, or without WebAssembly
 */
export function createSearchNonces(): SearchNonces {
  const { memory, search } = instantiate<{
    memory: { buffer: ArrayBuffer }
    search: (stride: number, passes: number) => number
  }>(generateSearchModule())
  const words = new Uint32Array(memory.buffer)
  const bytes = Buffer.from(memory.buffer)
  for (let t = 0; t < ROUNDS; t++) writeSplat(words, ROUND_CONSTANTS + t * 16, wordAt(K, t))
  const searchNonces: SearchNonces = (prefix, nonces, length, difficultyBits) => {
    writeSharedParts(words, prefix, length, difficultyBits)
    const stride = length + 1
    const count = Math.floor((nonces.length + 1) / stride)
    const places: number[] = []
    for (let from = 0; from < count; from += CHUNK_NONCES) {
      const chunk = Math.min(count - from, CHUNK_NONCES)
      bytes.write(nonces.slice(from * stride, (from + chunk) * stride), TEXT + 1, 'latin1')
      const end = search(stride, Math.ceil(chunk / LANES))
      for (let at = HITS; at < end; at += 4) {
        const hit = wordAt(words, at / 4)
        const first = (hit >>> LANES) * LANES
        for (let lane = 0; lane < LANES && first + lane < chunk; lane++)
          if (((hit >> lane) & 1) === 1) places.push(from + first + lane)
      }
    }
    return places
  }
  checkAgainstPlatform(searchNonces)
  return searchNonces
}

/**
 * Compares the vector code with node:crypto on a few nonces of each length, so that a faulty vector unit or
 * compiler never counts or rejects a nonce wrongly.
 *
 * @throws Error if they differ
 */
function checkAgainstPlatform(searchNonces: SearchNonces): void {
  const prefix = '0123456789abcdef'.repeat(2)
  for (let length = 1; length <= MAX_NONCE_LENGTH; length++) {
    const nonces = Array.from({ length: 2 * LANES + 1 }, (_, i) => String(i).repeat(length))
    const expected = nonces.flatMap((nonce, place) =>
      hash('sha256', `${prefix}:${nonce}`, 'hex') < '8' ? [place] : [],
    )
    if (String(searchNonces(prefix, nonces.join(' '), nonces[0]?.length ?? 0, 1)) !== String(expected))
      throw new Error('the vector code and node:crypto disagree about SHA-256')
  }
}

/** Writes into the module's memory what is the same for all nonces of one length. */
function writeSharedParts(memory: Uint32Array, prefix: string, length: number, difficultyBits: number): void {
  const words = new Uint32Array(16)
  writeAsciiText(words, prefix)
  words[15] = (PREFIX_LENGTH + 1 + length) * 8
  SCHEDULE.write(memory, words)
  for (const [index, word] of runRounds(words, FIRST_VARIED).entries())
    writeSplat(memory, STATE + index * 16, word)
  writeTarget(memory, TARGET, difficultyBits)
  for (const [index] of VARIED.entries()) {
    const nonceBytes = Math.min(Math.max(1 + length - index * 4, 0), 4) // of this word, ":" included
    const hasEnd = nonceBytes < 4 && index * 4 + nonceBytes === 1 + length // the 1 bit is in this word
    const mask = nonceBytes === 0 ? 0 : 0xffffffff << (32 - 8 * nonceBytes)
    const end = hasEnd ? 0x80000000 >>> (8 * nonceBytes) : 0
    writeSplat(memory, MASKS + index * 16, index === 0 ? mask & 0x00ffffff : mask)
    writeSplat(memory, PADDING + index * 16, index === 0 ? end | (COLON << 24) : end)
  }
}

const STRIDE = 0 // parameter: bytes from one nonce to the next
const PASSES = 1 // parameter: how many groups of four nonces
const PASS = 2 // i32: the current pass
const HITS_END = 3 // i32: where the next hit is written
const LANE_HITS = 4 // i32: lanes of this pass that hit
const LANE = 5 // i32 × 4: where the nonce of each lane begins
const I32_LOCALS = 3 + LANES
const FIRST_VECTOR_LOCAL = LANE + LANES

const { and, or, xor } = i32x4
/** Code that loads the splat at an address of the module's memory. */
const loadSplat = (address: number): Code => i32x4.load(i32.const(0), address)

/**
 * Generates a module that exports `memory` and `search(stride, passes)`, which returns the address after the
 * last hit that it wrote at HITS.
 */
function generateSearchModule(): Uint8Array<ArrayBuffer> {
  let locals = FIRST_VECTOR_LOCAL
  const takeLocal = (): number => locals++
  const nextLane = (lane: number, before: Code): Code =>
    setLocal(LANE + lane, i32.add(before, getLocal(STRIDE)))
  const body = [
    ...setLocal(HITS_END, i32.const(HITS)),
    ...setLocal(LANE, i32.const(TEXT)),
    ...doWhile(
      [
        ...[1, 2, 3].flatMap((lane) => nextLane(lane, getLocal(LANE + lane - 1))),
        ...generatePass(takeLocal),
        ...nextLane(0, getLocal(LANE + LANES - 1)),
        ...setLocal(PASS, i32.add(getLocal(PASS), i32.const(1))),
      ],
      i32.lessThan(getLocal(PASS), getLocal(PASSES)),
    ),
    ...getLocal(HITS_END),
  ]
  return assembleModule(
    { name: 'search', params: 2, i32Locals: I32_LOCALS, v128Locals: locals - FIRST_VECTOR_LOCAL, body },
    MEMORY_BYTES,
  )
}

/** Code for four nonces: loads their words, runs rounds 8 to 63, and checks digest word 0. */
function generatePass(takeLocal: () => number): Code {
  const code: number[] = []
  const schedule = Array.from({ length: 16 }, takeLocal) // W[t] lives in local t mod 16
  for (const [index, word] of VARIED.entries())
    code.push(...setLocal(schedule[word] ?? 0, loadNonceWord(index)))
  const before = Array.from({ length: 8 }, (_, index) => loadSplat(STATE + index * 16))
  const [a = [], b = [], c = [], d = [], e = [], f = [], g = [], h = []] = before
  let state: State = { a, b, c, d, e, f, g, h, bXorC: xor(b, c) }
  for (let t = FIRST_VARIED; t < ROUNDS; t++)
    state = generateRound(state, SCHEDULE.emitRoundInput(t, schedule, code), takeLocal, code)
  return [
    ...code,
    ...generateHitCheck(state.a, TARGET, { pass: PASS, hitsEnd: HITS_END, laneHits: LANE_HITS }),
  ]
}

/**
 * Code for word 8 + `index` of four messages, big-endian (§3.1), with the 1 bit in place of what follows a
 * nonce.
 */
function loadNonceWord(index: number): Code {
  // Alignment is a hint (§4.4.7): a nonce may begin at any byte.
  let vector = i32x4.loadSplat(getLocal(LANE), index * 4)
  for (let lane = 1; lane < LANES; lane++)
    vector = i32x4.loadLane(getLocal(LANE + lane), index * 4, lane, vector)
  return or(and(i32x4.swapBytes(vector), loadSplat(MASKS + index * 16)), loadSplat(PADDING + index * 16))
}
