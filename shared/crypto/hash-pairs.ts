/**
 * SHA-256 (FIPS 180-4) of pairs of hashes, the nodes of a Merkle tree: four messages a pass, one in each
 * 32-bit lane of a 128-bit vector. A seal's tree hashes the 64 bytes as they are, the log's tree puts the
 * byte 01 before them. Either message fills two blocks (§5.1.1).
 *
 * Without the prefix, the second block is the same for all messages, so its schedule is computed once:
 *
 *   first    W0–W15, the 64 bytes
 *   second   W0 = 80000000, W15 = 512, the length in bits, the rest 0
 *
 * With the prefix, every byte moves by one, and the last one into the second block:
 *
 *   first    W0 = 01 and bytes 0 to 2, then W1–W15 from byte 3 on
 *   second   W0 = byte 63 and 800000, W15 = 520, the rest 0
 */
import { hash } from 'node:crypto'
import {
  applyWord,
  createVariedSchedule,
  generateRound,
  H,
  K,
  LANES,
  ROUNDS,
  SCHEDULE,
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
  doWhile,
  setLocal,
  type Code,
} from './wasm-module.ts'

const HASH_BYTES = 32
const PAIR_BYTES = 2 * HASH_BYTES
const BARE_BITS = PAIR_BYTES * 8
const NODE_PREFIX = 1
const NODE_BITS = BARE_BITS + 8
const CHUNK_PAIRS = 1_024
/** Fewer pairs are hashed as fast one by one. */
const MIN_VECTOR_PAIRS = 8
const CHECKED_PAIRS = 2 * LANES + 1

/*
 * Memory of the module, in bytes. "Splat" is one word four times over, so that one load fills a vector.
 *   ROUND_CONSTANTS  64 splats, K
 *   SECOND_BLOCK     64 splats, K[t] + W[t] of the second block
 *   INITIAL          8 splats, the initial hash value
 *   PADDING          3 splats, the constant bits of a prefixed message: prefix, end marker, length
 *   PAIRS            the messages, 64 bytes each
 *   HASHES           their digests, 32 bytes each
 */
const ROUND_CONSTANTS = 0
const SECOND_BLOCK = ROUND_CONSTANTS + ROUNDS * 16
const INITIAL = SECOND_BLOCK + ROUNDS * 16
const PADDING = INITIAL + 8 * 16
const PAIRS = PADDING + 3 * 16
const HASHES = PAIRS + CHUNK_PAIRS * PAIR_BYTES
const MEMORY_BYTES = HASHES + CHUNK_PAIRS * HASH_BYTES

/**
 * Hashes the first `pairs` messages of `level` (64 bytes each) into `above` (32 bytes each). Both may be the
 * same buffer.
 */
export type HashPairs = (level: Uint8Array, above: Uint8Array, pairs: number) => void

/**
 * Makes a function that hashes fewer than MIN_VECTOR_PAIRS pairs by `plainly`, and more by the vector code,
 * which it creates at its first use. On a runtime without vectors all go by `plainly`.
 */
function chooseHashPairs(plainly: HashPairs, createSimd: () => HashPairs): HashPairs {
  let chosen: HashPairs | undefined
  return (level, above, pairs) => {
    if (pairs < MIN_VECTOR_PAIRS) return plainly(level, above, pairs)
    chosen ??= canRunSimd() ? createSimd() : plainly
    chosen(level, above, pairs)
  }
}

/** Creates a function that hashes one message after the other with node:crypto, `prefix` before each. */
function createPlainHashPairs(prefix: Buffer): HashPairs {
  const message = Buffer.concat([prefix, Buffer.alloc(PAIR_BYTES)])
  return (level, above, pairs) => {
    const digests = Buffer.from(above.buffer, above.byteOffset, above.length)
    for (let pair = 0; pair < pairs; pair++) {
      message.set(level.subarray(pair * PAIR_BYTES, (pair + 1) * PAIR_BYTES), prefix.length)
      digests.write(hash('sha256', message, 'binary'), pair * HASH_BYTES, 'latin1')
    }
  }
}

export const hashPairsPlainly: HashPairs = /* @__PURE__ */ createPlainHashPairs(/* @__PURE__ */ Buffer.of())
export const hashNodesPlainly: HashPairs = /* @__PURE__ */ createPlainHashPairs(
  /* @__PURE__ */ Buffer.of(NODE_PREFIX),
)

/** SHA-256(left || right) of each pair. */
export const hashPairs: HashPairs = /* @__PURE__ */ chooseHashPairs(hashPairsPlainly, createSimdHashPairs)

/** SHA-256(01 || left || right) of each pair. */
export const hashNodes: HashPairs = /* @__PURE__ */ chooseHashPairs(hashNodesPlainly, createSimdHashNodes)

/**
 * Makes hashPairs of vector code, which is compiled and compared with node:crypto.
 *
 * @throws Error if the two differ, or without WebAssembly
 */
export function createSimdHashPairs(): HashPairs {
  return compile(generateModule(generateBareGroup), hashPairsPlainly)
}

/**
 * Makes hashNodes of vector code, as createSimdHashPairs() makes hashPairs.
 *
 * @throws Error in the same cases
 */
export function createSimdHashNodes(): HashPairs {
  return compile(generateModule(generateNodeGroup), hashNodesPlainly)
}

/**
 * Makes a HashPairs of a module that generateModule() gives.
 *
 * @throws Error if it gives other hashes than `plainly`, or without WebAssembly
 */
function compile(module: Uint8Array, plainly: HashPairs): HashPairs {
  const { memory, hashGroups } = instantiate<{
    memory: { buffer: ArrayBuffer }
    hashGroups: (groups: number) => number
  }>(module)
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
  checkAgainstPlatform(hashChunk, plainly)
  return hashChunk
}

/**
 * Compares the vector code with node:crypto on a few messages, so that a faulty vector unit or compiler never
 * makes a wrong seal.
 *
 * @throws Error if the hashes differ
 */
function checkAgainstPlatform(hashChunk: HashPairs, plainly: HashPairs): void {
  const level = Buffer.alloc(CHECKED_PAIRS * PAIR_BYTES)
  for (let at = 0; at < level.length; at++) level[at] = (at * 151) & 0xff
  const actual = Buffer.alloc(CHECKED_PAIRS * HASH_BYTES)
  const expected = Buffer.alloc(CHECKED_PAIRS * HASH_BYTES)
  hashChunk(level, actual, CHECKED_PAIRS)
  plainly(level, expected, CHECKED_PAIRS)
  if (!actual.equals(expected)) throw new Error('the vector code and node:crypto disagree about SHA-256')
}

/** Writes the module's constant tables: see the map of its memory above. */
function writeTables(memory: Uint32Array): void {
  const words = new Uint32Array(ROUNDS)
  words[0] = 0x80000000
  words[15] = BARE_BITS
  for (let t = 0; t < ROUNDS; t++) {
    if (t >= 16)
      for (const { back, apply } of SCHEDULE)
        words[t] = wordAt(words, t) + valueOf(apply, wordAt(words, t - back))
    writeSplat(memory, ROUND_CONSTANTS + t * 16, wordAt(K, t))
    writeSplat(memory, SECOND_BLOCK + t * 16, wordAt(words, t) + wordAt(K, t))
  }
  for (let i = 0; i < 8; i++) writeSplat(memory, INITIAL + i * 16, wordAt(H, i))
  for (const [place, word] of [NODE_PREFIX << 24, 0x800000, NODE_BITS].entries())
    writeSplat(memory, PADDING + place * 16, word)
}

/** The word function of a word; the word itself without one. */
const valueOf = (apply: Parameters<typeof applyWord>[0] | undefined, word: number): number =>
  apply ? applyWord(apply, word) : word

const GROUPS = 0 // parameter: how many groups of four messages to hash
const FROM = 1 // i32: where the next four messages are
const TO = 2 // i32: where their digests go
const FIRST_VECTOR_LOCAL = 3

const { add, or, shiftLeft, shiftRight, xor, zero } = i32x4
/** Code that loads the splat at an address of the module's memory. */
const loadSplat = (address: number): Code => i32x4.load(i32.const(0), address)

/** Generates code that hashes four messages; `takeLocal` gives the index of an unused vector local. */
type GenerateGroup = (takeLocal: () => number) => Code

/** A module exporting `memory` and `hashGroups(groups)`. */
function generateModule(generateGroup: GenerateGroup): Uint8Array<ArrayBuffer> {
  let locals = FIRST_VECTOR_LOCAL
  const takeLocal = (): number => locals++
  const body = [
    ...setLocal(FROM, i32.const(PAIRS)),
    ...setLocal(TO, i32.const(HASHES)),
    ...doWhile(
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

/** All 16 words differ from message to message, so no sum is computed beforehand. */
const WHOLE_BLOCK = createVariedSchedule([...Array(16).keys()], ROUND_CONSTANTS, ROUND_CONSTANTS)
const INITIAL_VALUE: readonly Code[] = Array.from({ length: 8 }, (_, i) => loadSplat(INITIAL + i * 16))

/** Code for SHA-256(left || right) of four pairs; the second block is the same for all. */
const generateBareGroup: GenerateGroup = (takeLocal) => {
  const code: number[] = []
  const schedule = takeSchedule(takeLocal)
  for (const [word, local] of schedule.entries()) code.push(...setLocal(local, loadWords(word * 4)))
  const middle = generateBlock(
    INITIAL_VALUE,
    (t) => WHOLE_BLOCK.emitRoundInput(t, schedule, code),
    takeLocal,
    code,
  )
  const digest = generateBlock(middle, (t) => loadSplat(SECOND_BLOCK + t * 16), takeLocal, code)
  return [...code, ...storeDigest(digest, schedule)]
}

/** Code for SHA-256(01 || left || right) of four pairs. */
const generateNodeGroup: GenerateGroup = (takeLocal) => {
  const code: number[] = []
  const schedule = takeSchedule(takeLocal)
  const [prefix, end, length] = [0, 1, 2].map((place) => loadSplat(PADDING + place * 16)) as [
    Code,
    Code,
    Code,
  ]
  const hashBlock = (before: readonly Code[], wordOf: (word: number) => Code): Code[] => {
    for (const [word, local] of schedule.entries()) code.push(...setLocal(local, wordOf(word)))
    return generateBlock(before, (t) => WHOLE_BLOCK.emitRoundInput(t, schedule, code), takeLocal, code)
  }
  const middle = hashBlock(INITIAL_VALUE, (word) =>
    word === 0 ? or(shiftRight(loadWords(0), 8), prefix) : loadWords(word * 4 - 1),
  )
  const digest = hashBlock(middle, (word) => {
    if (word === 0) return or(shiftLeft(loadWords(PAIR_BYTES - 4), 24), end)
    return word === 15 ? length : zero
  })
  return [...code, ...storeDigest(digest, schedule)]
}

/** W[t] lives in local t mod 16. */
const takeSchedule = (takeLocal: () => number): number[] => Array.from({ length: 16 }, takeLocal)

/** Code that stores the digests of four messages; uses the first local of `spare` as scratch. */
const storeDigest = (digest: readonly Code[], [spare = 0]: readonly number[]): Code =>
  digest.flatMap((value, word) => storeWords(word, value, spare))

/**
 * Appends code for one block (§6.2.2) to `code`.
 *
 * @param before loads the eight words of the hash value so far
 * @param wordOf gives the code for K[t] + W[t]
 * @returns code that loads the eight words of the new hash value
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

/** Code for a vector of the big-endian words (§3.1) at `offset` in four messages. */
function loadWords(offset: number): Code {
  let vector = i32x4.loadSplat(getLocal(FROM), offset)
  for (let lane = 1; lane < LANES; lane++)
    vector = i32x4.loadLane(getLocal(FROM), lane * PAIR_BYTES + offset, lane, vector)
  return i32x4.swapBytes(vector)
}

/** Code that stores one word of the four digests, big-endian; uses the local `spare` as scratch. */
function storeWords(word: number, value: Code, spare: number): Code {
  const code: number[] = [...setLocal(spare, i32x4.swapBytes(value))]
  for (let lane = 0; lane < LANES; lane++)
    code.push(...i32x4.storeLane(getLocal(TO), lane * HASH_BYTES + word * 4, lane, getLocal(spare)))
  return code
}
