/**
 * SHA-256 (FIPS 180-4) of messages of exactly 64 bytes, two hashes side by side, four messages a pass, one in
 * each 32-bit lane of a 128-bit vector. A message of 64 bytes is two blocks (§5.1.1), of which the second is
 * the same for all:
 *
 *   first    W0–W15, the message
 *   second   W0 = 80000000, W15 = 512, the length in bits, and nothing between; so its whole schedule is known
 */
import { hash } from 'node:crypto'
import {
  applyWord,
  generateRound,
  H,
  K,
  LANES,
  ROUNDS,
  SCHEDULE,
  applyVector,
  wordAt,
  writeSplat,
  type State,
} from './sha256-vector.ts'
import {
  assembleModule,
  canRunSimd,
  getLocal,
  i32,
  i32x4,
  instantiate,
  loopWhile,
  setLocal,
  type Code,
} from './wasm-module.ts'

const HASH_BYTES = 32
const PAIR_BYTES = 2 * HASH_BYTES
const MESSAGE_BITS = PAIR_BYTES * 8
const CHUNK_PAIRS = 1_024
/** Fewer are hashed as fast one by one. */
const WORTH_IT = 8
const CHECKED_PAIRS = 2 * LANES + 1

/*
 * Memory of the module, in bytes. "Splat" is one word four times over, so that one load fills a vector.
 *   ROUND_CONSTANTS  64 splats, K
 *   SECOND_BLOCK     64 splats, K[t] + W[t] of the second block
 *   INITIAL          8 splats, the initial hash value
 *   PAIRS            the messages, 64 bytes each
 *   HASHES           their digests, 32 bytes each
 */
const ROUND_CONSTANTS = 0
const SECOND_BLOCK = ROUND_CONSTANTS + ROUNDS * 16
const INITIAL = SECOND_BLOCK + ROUNDS * 16
const PAIRS = INITIAL + 8 * 16
const HASHES = PAIRS + CHUNK_PAIRS * PAIR_BYTES
const MEMORY_BYTES = HASHES + CHUNK_PAIRS * HASH_BYTES

/**
 * Hashes the first `pairs` messages of `level` into `above`, which may be the same buffer: what is written
 * has been read by then.
 */
export type HashPairs = (level: Uint8Array, above: Uint8Array, pairs: number) => void

let chosen: HashPairs | undefined

/** The fastest that runs here: WebAssembly with 128-bit vectors for many, or plain hashing. */
export const hashPairs: HashPairs = (level, above, pairs) => {
  if (pairs < WORTH_IT) return hashPairsPlainly(level, above, pairs)
  chosen ??= canRunSimd() ? createSimdHashPairs() : hashPairsPlainly
  chosen(level, above, pairs)
}

/** One platform hash a message. */
export const hashPairsPlainly: HashPairs = (level, above, pairs) => {
  const from = Buffer.from(level.buffer, level.byteOffset, level.length)
  const to = Buffer.from(above.buffer, above.byteOffset, above.length)
  for (let pair = 0; pair < pairs; pair++) {
    const message = from.subarray(pair * PAIR_BYTES, (pair + 1) * PAIR_BYTES)
    to.write(hash('sha256', message, 'binary'), pair * HASH_BYTES, 'latin1')
  }
}

/**
 * Compiles the vector code and compares it with the platform's hash. @throws Error where the two differ, or
 * without WebAssembly
 */
export function createSimdHashPairs(): HashPairs {
  const { memory, hashGroups } = instantiate<{
    memory: { buffer: ArrayBuffer }
    hashGroups: (groups: number) => number
  }>(generateModule())
  writeTables(new Uint32Array(memory.buffer))
  const bytes = new Uint8Array(memory.buffer)
  const hashChunk: HashPairs = (level, above, pairs) => {
    for (let done = 0; done < pairs; done += CHUNK_PAIRS) {
      const part = Math.min(CHUNK_PAIRS, pairs - done)
      bytes.set(level.subarray(done * PAIR_BYTES, (done + part) * PAIR_BYTES), PAIRS)
      hashGroups(Math.ceil(part / LANES))
      above.set(bytes.subarray(HASHES, HASHES + part * HASH_BYTES), done * HASH_BYTES)
    }
  }
  checkAgainstPlatform(hashChunk)
  return hashChunk
}

/** A vector unit or compiler that errs must not seal anything. */
function checkAgainstPlatform(hashChunk: HashPairs): void {
  const level = Buffer.alloc(CHECKED_PAIRS * PAIR_BYTES)
  for (let at = 0; at < level.length; at++) level[at] = (at * 151) & 0xff
  const [found, expected] = [
    Buffer.alloc(CHECKED_PAIRS * HASH_BYTES),
    Buffer.alloc(CHECKED_PAIRS * HASH_BYTES),
  ]
  hashChunk(level, found, CHECKED_PAIRS)
  hashPairsPlainly(level, expected, CHECKED_PAIRS)
  if (!found.equals(expected)) throw new Error('the vector code and node:crypto disagree about SHA-256')
}

function writeTables(memory: Uint32Array): void {
  const words = new Uint32Array(ROUNDS)
  words[0] = 0x80000000
  words[15] = MESSAGE_BITS
  for (let t = 0; t < ROUNDS; t++) {
    if (t >= 16)
      for (const { back, apply } of SCHEDULE)
        words[t] = wordAt(words, t) + valueOf(apply, wordAt(words, t - back))
    writeSplat(memory, ROUND_CONSTANTS + t * 16, wordAt(K, t))
    writeSplat(memory, SECOND_BLOCK + t * 16, wordAt(words, t) + wordAt(K, t))
  }
  for (let i = 0; i < 8; i++) writeSplat(memory, INITIAL + i * 16, wordAt(H, i))
}

const valueOf = (apply: Parameters<typeof applyWord>[0] | undefined, word: number): number =>
  apply ? applyWord(apply, word) : word

const GROUPS = 0 // parameter: fours of messages to do
const FROM = 1 // i32: where the next four messages are
const TO = 2 // i32: where their digests go
const FIRST_VECTOR_LOCAL = 3

const { add, xor } = i32x4
const loadSplat = (address: number): Code => i32x4.load(i32.const(0), address)

/** A module exporting `memory` and `hashGroups(groups)`. */
function generateModule(): Uint8Array<ArrayBuffer> {
  let locals = FIRST_VECTOR_LOCAL
  const takeLocal = (): number => locals++
  const body = [
    ...setLocal(FROM, i32.const(PAIRS)),
    ...setLocal(TO, i32.const(HASHES)),
    ...loopWhile(
      [
        ...generateGroup(takeLocal),
        ...setLocal(FROM, i32.add(getLocal(FROM), i32.const(LANES * PAIR_BYTES))),
        ...setLocal(TO, i32.add(getLocal(TO), i32.const(LANES * HASH_BYTES))),
        ...setLocal(GROUPS, i32.add(getLocal(GROUPS), i32.const(-1))),
      ],
      getLocal(GROUPS),
    ),
    ...getLocal(TO),
  ]
  return assembleModule(
    { name: 'hashGroups', params: 1, i32Locals: 2, v128Locals: locals - FIRST_VECTOR_LOCAL, body },
    MEMORY_BYTES,
  )
}

function generateGroup(takeLocal: () => number): Code {
  const code: number[] = []
  const schedule = Array.from({ length: 16 }, takeLocal) // W[t] lives in local t mod 16
  for (const [word, local] of schedule.entries()) code.push(...setLocal(local, loadWords(word)))
  const initial = Array.from({ length: 8 }, (_, i) => loadSplat(INITIAL + i * 16))
  const middle = generateBlock(initial, (t) => generateScheduleWord(t, schedule, code), takeLocal, code)
  const digest = generateBlock(middle, (t) => loadSplat(SECOND_BLOCK + t * 16), takeLocal, code)
  for (const [word, value] of digest.entries()) code.push(...storeWords(word, value, schedule[0] ?? 0))
  return code
}

/**
 * §6.2.2 for one block: all rounds, and the sums with the hash value before it, each in a local of its own.
 */
function generateBlock(
  before: readonly Code[],
  wordOf: (t: number) => Code,
  takeLocal: () => number,
  code: number[],
): Code[] {
  const [a = [], b = [], c = [], d = [], e = [], f = [], g = [], h = []] = before
  let state: State = { a, b, c, d, e, f, g, h, bXorC: xor(b, c) }
  for (let t = 0; t < ROUNDS; t++) state = generateRound(state, wordOf(t), takeLocal, code)
  const after = [state.a, state.b, state.c, state.d, state.e, state.f, state.g, state.h]
  return after.map((value, index) => {
    const local = takeLocal()
    code.push(...setLocal(local, add(value, before[index] ?? [])))
    return getLocal(local)
  })
}

/** §6.2.2 step 1 for the first block: gives K[t] + W[t] and keeps W[t]. */
function generateScheduleWord(t: number, schedule: readonly number[], code: number[]): Code {
  const local = schedule[t % 16] ?? 0
  if (t >= 16) {
    const terms = SCHEDULE.map(({ back, apply }) => {
      const word = getLocal(schedule[(t - back) % 16] ?? 0)
      return apply ? applyVector(apply, word) : word
    })
    code.push(...setLocal(local, terms.reduce(add)))
  }
  return add(getLocal(local), loadSplat(ROUND_CONSTANTS + t * 16))
}

/** Word number `word` of four messages, which lie big-endian one after the other (§3.1). */
function loadWords(word: number): Code {
  let vector = i32x4.loadSplat(getLocal(FROM), word * 4)
  for (let lane = 1; lane < LANES; lane++)
    vector = i32x4.loadLane(getLocal(FROM), lane * PAIR_BYTES + word * 4, lane, vector)
  return i32x4.swapBytes(vector)
}

function storeWords(word: number, value: Code, spare: number): Code {
  const code: number[] = [...setLocal(spare, i32x4.swapBytes(value))]
  for (let lane = 0; lane < LANES; lane++)
    code.push(...i32x4.storeLane(getLocal(TO), lane * HASH_BYTES + word * 4, lane, getLocal(spare)))
  return code
}
