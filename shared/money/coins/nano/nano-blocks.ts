import { ed25519 } from '@noble/curves/ed25519.js'
import { bytesToNumberLE } from '@noble/curves/utils.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import { parseNanoAddress } from '../../../crypto/nano-address.ts'

/**
 * A state block as the node takes and shows it, and as it is stored. Addresses are `nano_…`, hashes and
 * `link` 64 upper-case hex characters, `balance` decimal raw.
 */
export interface UnsignedNanoBlock {
  readonly type: 'state'
  readonly account: string
  /** The block before it in its account; 64 zeros for the first. */
  readonly previous: string
  readonly representative: string
  readonly balance: string
  /** A send: the destination's public key. A receive: the hash of the send. A change: 64 zeros. */
  readonly link: string
}

export interface NanoBlock extends UnsignedNanoBlock {
  readonly signature: string
  /** 16 lower-case hex characters. No hash or signature covers it, so it may be replaced at any time. */
  readonly work: string
}

/** What the node is told to expect of a block: it refuses a block that does something else. */
export type NanoSubtype = 'open' | 'receive' | 'send' | 'change'

export const ZERO_HASH = '0'.repeat(64)
/** All money there is: amounts are numbers of 128 bits. */
export const MAX_RAW = (1n << 128n) - 1n

/** The hash by which the node knows the block of a record: upper case, where records have lower case. */
export const hashOf = ({ tx }: { readonly tx: string }): string => tx.toUpperCase()
/** A block's hash as records have it. */
export const txOf = (hash: string): string => hash.toLowerCase()

/** Links of the blocks by which the network raises an account's version, which the account doesn't sign. */
const EPOCH_LINKS = ['epoch v1 block', 'epoch v2 block'].map((text) =>
  Buffer.from(text).toString('hex').toUpperCase().padEnd(64, '0'),
)

/** The number 6 in 32 bytes stands before the fields of a state block when it is hashed. */
const STATE_PREAMBLE = '6'.padStart(64, '0')
const HASH = /^[0-9A-F]{64}$/
const SIGNATURE = /^[0-9A-F]{128}$/
const WORK = /^[0-9a-f]{16}$/
const RAW = /^(?:0|[1-9][0-9]{0,38})$/

/** A send that waits to be received. */
export interface NanoReceivable {
  readonly hash: string
  readonly amountRaw: bigint
}

/** What the next block of an account is built on. */
export interface NanoAccountState {
  readonly account: string
  readonly frontier: string | undefined
  readonly balanceRaw: bigint
  /** Votes with the balance after the block. */
  readonly representative: string
}

/** Builds a block that receives exactly a send's amount; an account's first opens it. @throws TypeError */
export function buildReceive(state: NanoAccountState, send: NanoReceivable): UnsignedNanoBlock {
  assertHash('send.hash', send.hash)
  if (send.hash === ZERO_HASH) throw new TypeError('"send.hash" expected the hash of a block, got 64 zeros')
  assertAmount('send.amountRaw', send.amountRaw)
  if (state.frontier === undefined && state.balanceRaw !== 0n)
    throw new TypeError('"state.balanceRaw" expected 0 for an account without blocks')
  return buildBlock(state, state.balanceRaw + send.amountRaw, send.hash)
}

/** Builds a send. @throws TypeError if the account has no block, or too little, or a field is bad */
export function buildSend(
  state: NanoAccountState,
  payment: { readonly destination: string; readonly amountRaw: bigint },
): UnsignedNanoBlock {
  if (state.frontier === undefined)
    throw new TypeError('"state.frontier" expected a hash: the account has no block yet')
  assertAmount('payment.amountRaw', payment.amountRaw)
  assertRaw('state.balanceRaw', state.balanceRaw)
  const { amountRaw } = payment
  if (amountRaw > state.balanceRaw)
    throw new TypeError(`"payment.amountRaw" expected at most ${state.balanceRaw} raw, got ${amountRaw}`)
  const link = publicKeyOf('payment.destination', payment.destination)
  return buildBlock(state, state.balanceRaw - amountRaw, link)
}

/** Builds the block that follows a state. @throws TypeError for a bad field */
function buildBlock(state: NanoAccountState, balanceRaw: bigint, link: string): UnsignedNanoBlock {
  const { account, frontier: previous = ZERO_HASH, representative } = state
  assertRaw('balanceRaw', balanceRaw)
  assertHash('state.frontier', previous)
  publicKeyOf('state.account', account)
  publicKeyOf('state.representative', representative)
  return { type: 'state', account, previous, representative, balance: balanceRaw.toString(), link }
}

/**
 * Hashes a block, which is what is signed: Blake2b, 32 bytes, of preamble, account, previous,
 * representative, balance (16 bytes, big endian) and link, 176 bytes together (docs.nano.org, Blocks
 * specifications, "Block format"). 64 upper-case hex characters.
 *
 * @throws TypeError
 */
export function hashNanoBlock(block: UnsignedNanoBlock): string {
  assertHash('block.previous', block.previous)
  assertHash('block.link', block.link)
  if (!RAW.test(block.balance)) throw new TypeError('"block.balance" expected a decimal number of raw')
  const balanceRaw = BigInt(block.balance)
  assertRaw('block.balance', balanceRaw)
  const hex = [
    STATE_PREAMBLE,
    publicKeyOf('block.account', block.account),
    block.previous,
    publicKeyOf('block.representative', block.representative),
    balanceRaw.toString(16).padStart(32, '0'),
    block.link,
  ]
  return bytesToHex(blake2b(hexToBytes(hex.join('')), { dkLen: 32 })).toUpperCase()
}

/** Whether the account's key signed a block; the network's key signs epoch blocks. @throws TypeError */
export function isSignedByAccount(block: UnsignedNanoBlock & { readonly signature: string }): boolean {
  if (!SIGNATURE.test(block.signature))
    throw new TypeError('"block.signature" expected 128 upper-case hex characters')
  const publicKey = hexToBytes(publicKeyOf('block.account', block.account))
  return verify(hexToBytes(block.signature), hexToBytes(hashNanoBlock(block)), publicKey)
}

/**
 * Verifies a signature: Ed25519 with Blake2b-512 in the place of SHA-512 (docs.nano.org, Signing), by the
 * nodes' own equation: no cofactor, public keys of small order, an S below 2^253 and not reduced. RFC 8032
 * refuses such signatures, and whoever went by it would not see money that the network has confirmed.
 * Source: ed25519_sign_open in ed25519-donna's ed25519.c.
 */
function verify(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  const { Point } = ed25519
  if (((signature[63] ?? 0) & 0xe0) !== 0) return false
  const r = signature.subarray(0, 32)
  const s = bytesToNumberLE(signature.subarray(32)) % Point.Fn.ORDER
  const h = bytesToNumberLE(blake2b(concatBytes(r, publicKey, message))) % Point.Fn.ORDER
  let key: typeof Point.BASE
  try {
    key = Point.fromBytes(publicKey, true)
  } catch {
    return false // not on the curve
  }
  return bytesToHex(Point.BASE.multiplyUnsafe(s).subtract(key.multiplyUnsafe(h)).toBytes()) === bytesToHex(r)
}

export const isEpochBlock = (block: Pick<UnsignedNanoBlock, 'link'>): boolean =>
  EPOCH_LINKS.includes(block.link)

/** What a block's work is made for, 64 upper-case hex: the block before, or the account's public key. */
export const workRootOf = (block: Pick<UnsignedNanoBlock, 'account' | 'previous'>): string =>
  block.previous === ZERO_HASH ? publicKeyOf('block.account', block.account) : block.previous

/** The live network's, about 2^29 and 2^23 hashes; none asks for more (docs.nano.org, Work generation). */
export const LIVE_WORK_THRESHOLDS = { send: 0xfffffff800000000n, receive: 0xfffffe0000000000n }
/** A change needs as much as a send, an open as much as a receive. */
export type NanoWorkThresholds = Readonly<typeof LIVE_WORK_THRESHOLDS>

/**
 * The value of work for a root, to be compared with a threshold: Blake2b, 8 bytes, of work (8 bytes,
 * little endian) and root (32 bytes), read little endian.
 *
 * @throws TypeError
 */
export function workValue(root: string, work: string): bigint {
  assertHash('root', root)
  if (!WORK.test(work)) throw new TypeError('"work" expected 16 lower-case hex characters')
  const preimage = new Uint8Array(40)
  new DataView(preimage.buffer).setBigUint64(0, BigInt(`0x${work}`), true) // bytes 0 to 7
  preimage.set(hexToBytes(root), 8) // bytes 8 to 39
  const digest = blake2b(preimage, { dkLen: 8 })
  return new DataView(digest.buffer, digest.byteOffset).getBigUint64(0, true)
}

/** The public key of an address, 64 upper-case hex characters. @throws TypeError if it isn't one */
function publicKeyOf(name: string, address: string): string {
  const parsed = parseNanoAddress(address)
  // The other spelling is refused too: a block is stored and compared as text.
  if (parsed?.address !== address) throw new TypeError(`"${name}" expected a nano_ address`)
  return parsed.publicKey
}

export function assertHash(name: string, value: string): void {
  if (!HASH.test(value)) throw new TypeError(`"${name}" expected 64 upper-case hex characters`)
}

function assertRaw(name: string, value: bigint): void {
  if (value < 0n || value > MAX_RAW)
    throw new TypeError(`"${name}" expected 0 to 2^128 - 1 raw, got ${value}`)
}

function assertAmount(name: string, value: bigint): void {
  assertRaw(name, value)
  if (value === 0n) throw new TypeError(`"${name}" expected more than 0 raw`)
}
