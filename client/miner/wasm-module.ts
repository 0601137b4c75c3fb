/**
 * As much of a WebAssembly assembler as the miner needs. Code is the bytes of
 * instructions that leave a value on the stack: operands come before their operator, and code is joined by
 * concatenation. Sections and opcodes: WebAssembly Core Specification 2.0, chapter 5 "Binary Format".
 */

export type Code = readonly number[]

export type WasmFunction = {
  /** Name under which the module exports it. */
  name: string
  /** How many i32 parameters it takes: locals 0 and up. It returns one i32. */
  params: number
  /** How many i32 locals follow the parameters, and how many v128 locals follow those. */
  i32Locals: number
  v128Locals: number
  body: Code
}

const I32 = 0x7f
const V128 = 0x7b
const FUNC_TYPE = 0x60
const EMPTY_BLOCK = 0x40
const END = 0x0b
const PAGE_BYTES = 65_536
const SIMD = 0xfd // §5.4.8: the prefix of all vector instructions, followed by the opcode in LEB128

/**
 * Encodes a u32 as unsigned LEB128 (§5.2.2): seven bits a byte, lowest first.
 *
 * @throws Error for anything else
 */
export function encodeUnsigned(value: number): number[] {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff)
    throw new Error(`"value" expected u32, got ${value}`)
  const bytes: number[] = []
  let rest = value
  do {
    const low = rest & 0x7f
    rest >>>= 7
    bytes.push(rest === 0 ? low : low | 0x80)
  } while (rest !== 0)
  return bytes
}

/**
 * Encodes an i32 as signed LEB128 (§5.2.2); the last byte's bit 6 is the sign.
 *
 * @throws Error for anything else
 */
export function encodeSigned(value: number): number[] {
  if ((value | 0) !== value) throw new Error(`"value" expected i32, got ${value}`)
  const bytes: number[] = []
  let rest = value
  for (;;) {
    const low = rest & 0x7f
    rest >>= 7
    if ((rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0)) return [...bytes, low]
    bytes.push(low | 0x80)
  }
}

// §5.4.5 locals and §5.4.7 numbers

export const getLocal = (index: number): Code => [0x20, ...encodeUnsigned(index)]
export const setLocal = (index: number, value: Code): Code => [...value, 0x21, ...encodeUnsigned(index)]

export const i32 = {
  const: (value: number): Code => [0x41, ...encodeSigned(value)],
  add: (x: Code, y: Code): Code => [...x, ...y, 0x6a],
  and: (x: Code, y: Code): Code => [...x, ...y, 0x71],
  or: (x: Code, y: Code): Code => [...x, ...y, 0x72],
  shiftLeft: (x: Code, bits: number): Code => [...x, ...i32.const(bits), 0x74],
  shiftRight: (x: Code, bits: number): Code => [...x, ...i32.const(bits), 0x76],
  lessThan: (x: Code, y: Code): Code => [...x, ...y, 0x49],
  /** Stores a 4-byte word at `address`, a 4-byte boundary (alignment 2^2). */
  store: (address: Code, value: Code): Code => [...address, ...value, 0x36, 2, 0],
} as const

// §5.4.8 vectors: four 32-bit lanes

const simd = (opcode: number): number[] => [SIMD, ...encodeUnsigned(opcode)]

export const i32x4 = {
  /** Loads 16 bytes from `address` + `offset` (a 16-byte boundary). */
  load: (address: Code, offset: number): Code => [...address, ...simd(0), 4, ...encodeUnsigned(offset)],
  /** Loads 4 bytes from `address` + `offset` into every lane; a 4-byte boundary is fastest. */
  loadSplat: (address: Code, offset: number): Code => [...address, ...simd(9), 2, ...encodeUnsigned(offset)],
  and: (x: Code, y: Code): Code => [...x, ...y, ...simd(78)],
  or: (x: Code, y: Code): Code => [...x, ...y, ...simd(80)],
  xor: (x: Code, y: Code): Code => [...x, ...y, ...simd(81)],
  zero: [...simd(12), ...new Array<number>(16).fill(0)] as Code,
  equal: (x: Code, y: Code): Code => [...x, ...y, ...simd(55)],
  /** The four lanes' top bits as an i32, lane 0 lowest. */
  bitmask: (x: Code): Code => [...x, ...simd(164)],
  shiftLeft: (x: Code, bits: number): Code => [...x, ...i32.const(bits), ...simd(171)],
  shiftRight: (x: Code, bits: number): Code => [...x, ...i32.const(bits), ...simd(173)],
  add: (x: Code, y: Code): Code => [...x, ...y, ...simd(174)],
} as const

// §5.4.1 control

/** Code that runs `body`, and again for as long as `condition` leaves something other than 0. */
export const doWhile = (body: Code, condition: Code): Code => [
  0x03,
  EMPTY_BLOCK,
  ...body,
  ...condition,
  0x0d,
  0,
  END,
] // loop … br_if 0 end
/** Code that runs `body` if `condition` leaves something other than 0. */
export const ifThen = (condition: Code, body: Code): Code => [...condition, 0x04, EMPTY_BLOCK, ...body, END]

/** Assembles a module with one exported function, and one memory of `memoryBytes`, exported as "memory". */
export function assembleModule(fn: WasmFunction, memoryBytes: number): Uint8Array<ArrayBuffer> {
  const pages = Math.ceil(memoryBytes / PAGE_BYTES)
  const locals = [
    ...encodeUnsigned(2),
    ...encodeUnsigned(fn.i32Locals),
    I32,
    ...encodeUnsigned(fn.v128Locals),
    V128,
  ]
  const params = new Array<number>(fn.params).fill(I32)
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d], // §5.5.16: "\0asm"
    ...[0x01, 0x00, 0x00, 0x00], // version 1
    ...section(1, vector([[FUNC_TYPE, ...vector(params.map((type) => [type])), ...vector([[I32]])]])), // types
    ...section(3, vector([[0]])), // functions: one, of type 0
    ...section(5, vector([[0x00, ...encodeUnsigned(pages)]])), // memories: one, no maximum
    ...section(
      7,
      vector([
        [...name(fn.name), 0x00, 0],
        [...name('memory'), 0x02, 0],
      ]),
    ), // exports
    ...section(10, vector([sized([...locals, ...fn.body, END])])), // code
  ])
}

/** §5.5.2: a section is its number, its size and its content. */
const section = (id: number, content: Code): Code => [id, ...sized(content)]
/** Content with its size in bytes before it. */
const sized = (content: Code): Code => [...encodeUnsigned(content.length), ...content]
/** §5.1.3: a vector is a count and its elements. */
const vector = (elements: readonly Code[]): Code => [...encodeUnsigned(elements.length), ...elements.flat()]
/** §5.2.4: a name is its length and its UTF-8 bytes (ASCII here). */
const name = (text: string): Code => sized(Array.from(text, (char) => char.charCodeAt(0)))

/** The part of the WebAssembly JavaScript interface used here; Node's type declarations lack it. */
interface WebAssemblyEngine {
  validate(bytes: Uint8Array): boolean
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object) => { exports: object }
}

const engine = (globalThis as { WebAssembly?: WebAssemblyEngine }).WebAssembly

/** Whether this runtime has WebAssembly with vector instructions, found by validating a module with two. */
export function canRunSimd(): boolean {
  if (engine === undefined) return false
  const body = i32x4.bitmask(i32x4.zero)
  return engine.validate(assembleModule({ name: 'probe', params: 0, i32Locals: 0, v128Locals: 0, body }, 0))
}

/**
 * Compiles a module and returns its exports. The caller states their type, which isn't checked.
 *
 * @throws Error if this runtime has no WebAssembly
 */
export function instantiate<Exports extends { memory: { buffer: ArrayBuffer } }>(
  module: Uint8Array,
): Exports {
  if (engine === undefined) throw new Error('this runtime has no WebAssembly')
  return new engine.Instance(new engine.Module(module)).exports as Exports
}
