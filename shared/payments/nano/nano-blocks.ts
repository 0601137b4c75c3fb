import { ed25519 } from '@noble/curves/ed25519.js'
import { bytesToNumberLE } from '@noble/curves/utils.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import { parseNanoAddress } from './nano-address.ts'

/**
 * A state block, the one kind that is made today, in the form in which the node takes and shows it; this is also the form
 * to store. Addresses are `nano_…`, hashes and `link` 64 upper-case hex characters, `balance` is the account's in raw
 * after the block, in decimal.
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
  /** 128 upper-case hex characters. */
  readonly signature: string
  /** 16 lower-case hex characters. Neither hash nor signature covers it, so it may be replaced at any time. */
  readonly work: string
}

/** What the node is told to expect of a block: it refuses a block that does something else. */
export type NanoSubtype = 'open' | 'receive' | 'send' | 'change'

export const ZERO_HASH = '0'.repeat(64)
/** All money there is: amounts are numbers of 128 bits. */
export const MAX_RAW = (1n << 128n) - 1n

/** Links of the blocks by which the network raises an account's version: a text, filled with zeros. Not signed by the account. */
const EPOCH_LINKS = ['epoch v1 block', 'epoch v2 block'].map((text) => Buffer.from(text).toString('hex').toUpperCase().padEnd(64, '0'))

/** The number 6 in 32 bytes stands before the fields of a state block when it is hashed. */
const STATE_PREAMBLE = '6'.padStart(64, '0')
const HASH = /^[0-9A-F]{64}$/
const SIGNATURE = /^[0-9A-F]{128}$/
const WORK = /^[0-9a-f]{16}$/
const RAW = /^(?:0|[1-9][0-9]{0,38})$/

/** What a builder needs of the account that the block belongs to: as it stands before the block. */
export interface NanoAccountState {
  readonly account: string
  /** Hash of its last block; undefined while it has none. */
  readonly frontier: string | undefined
  readonly balanceRaw: bigint
  /** Votes with the balance after the block. */
  readonly representative: string
}

/**
 * Takes a confirmed send into the account; where it is the account's first block, that opens it (subtype `open`).
 *
 * @param send the hash of the send block and the amount that it sent, exactly: the network refuses any other
 * @throws TypeError for an amount of 0, a balance above {@link MAX_RAW}, a balance without a frontier, a bad address or hash
 */
export function buildReceive(state: NanoAccountState, send: { readonly hash: string; readonly amountRaw: bigint }): UnsignedNanoBlock {
  assertHash('send.hash', send.hash)
  if (send.hash === ZERO_HASH) throw new TypeError('"send.hash" expected the hash of a block, got 64 zeros')
  assertAmount('send.amountRaw', send.amountRaw)
  if (state.frontier === undefined && state.balanceRaw !== 0n)
    throw new TypeError('"state.balanceRaw" expected 0 for an account without blocks')
  return buildBlock(state, state.balanceRaw + send.amountRaw, send.hash)
}

/**
 * @throws TypeError where the account has no block yet, the amount is 0 or above the balance, or an address or hash is bad
 */
export function buildSend(
  state: NanoAccountState,
  payment: { readonly destination: string; readonly amountRaw: bigint },
): UnsignedNanoBlock {
  assertOpened(state)
  assertAmount('payment.amountRaw', payment.amountRaw)
  assertRaw('state.balanceRaw', state.balanceRaw)
  if (payment.amountRaw > state.balanceRaw) {
    throw new TypeError(`"payment.amountRaw" expected at most the balance, ${state.balanceRaw} raw, got ${payment.amountRaw}`)
  }
  return buildBlock(state, state.balanceRaw - payment.amountRaw, publicKeyOf('payment.destination', payment.destination))
}

function buildBlock(state: NanoAccountState, balanceRaw: bigint, link: string): UnsignedNanoBlock {
  assertRaw('balanceRaw', balanceRaw)
  const previous = state.frontier ?? ZERO_HASH
  assertHash('state.frontier', previous)
  publicKeyOf('state.account', state.account)
  publicKeyOf('state.representative', state.representative)
  return { type: 'state', account: state.account, previous, representative: state.representative, balance: balanceRaw.toString(), link }
}

/**
 * The block's hash, which is what is signed: Blake2b, 32 bytes, of preamble, account, previous, representative, balance
 * (16 bytes, big endian) and link, 176 bytes together (docs.nano.org, Blocks specifications, "Block format"). As 64
 * upper-case hex characters.
 *
 * @throws TypeError for a field that is not of its form
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

/**
 * Whether the block is signed by the account it belongs to. Blocks of {@link isEpochBlock} are signed by the network's key
 * instead.
 *
 * @throws TypeError as {@link hashNanoBlock}, and for a signature that is not 64 bytes in upper-case hex
 */
export function isSignedByAccount(block: UnsignedNanoBlock & { readonly signature: string }): boolean {
  if (!SIGNATURE.test(block.signature)) throw new TypeError('"block.signature" expected 128 upper-case hex characters')
  return verify(hexToBytes(block.signature), hexToBytes(hashNanoBlock(block)), hexToBytes(publicKeyOf('block.account', block.account)))
}

/**
 * Whether the network's nodes take the signature: Ed25519 with Blake2b-512 in the place of SHA-512 (docs.nano.org, Signing),
 * by their own equation. It has no cofactor, takes public keys of small order, and an S that is below 2^253 and not reduced.
 * RFC 8032 refuses such signatures, and whoever went by it would not see money that the network has confirmed.
 *
 * Source: ed25519_sign_open in ed25519-donna's ed25519.c, which nano-node verifies with.
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

export function isEpochBlock(block: Pick<UnsignedNanoBlock, 'link'>): boolean {
  return EPOCH_LINKS.includes(block.link)
}

/** What work is done over: the block before, or the account's public key for its first block. 64 upper-case hex characters. */
export function workRootOf(block: Pick<UnsignedNanoBlock, 'account' | 'previous'>): string {
  return block.previous === ZERO_HASH ? publicKeyOf('block.account', block.account) : block.previous
}

/** Least values of work, by what the block does; a change needs as much as a send, an open as much as a receive. */
export interface NanoWorkThresholds {
  readonly send: bigint
  readonly receive: bigint
}

/**
 * The live network's (docs.nano.org, Work generation, "Difficulty thresholds", epoch 2): about 2^29 and 2^23 hashes. No
 * network asks for more, so a block that reaches them is good anywhere.
 */
export const LIVE_WORK_THRESHOLDS: NanoWorkThresholds = { send: 0xfffffff800000000n, receive: 0xfffffe0000000000n }

/**
 * The value of work: Blake2b, 8 bytes, of the work (8 bytes, little endian) and the root (32 bytes), read little endian.
 *
 * @throws TypeError for a root that is not 64 upper-case or work that is not 16 lower-case hex characters
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

function publicKeyOf(name: string, address: string): string {
  const parsed = parseNanoAddress(address)
  // The other spelling is refused too: a block is stored and compared as text.
  if (parsed?.address !== address) throw new TypeError(`"${name}" expected a nano_ address`)
  return parsed.publicKey
}

function assertOpened(state: NanoAccountState): void {
  if (state.frontier === undefined) throw new TypeError('"state.frontier" expected a hash: the account has no block yet')
}

function assertHash(name: string, value: string): void {
  if (!HASH.test(value)) throw new TypeError(`"${name}" expected 64 upper-case hex characters`)
}

function assertRaw(name: string, value: bigint): void {
  if (value < 0n || value > MAX_RAW) throw new TypeError(`"${name}" expected 0 to 2^128 - 1 raw, got ${value}`)
}

function assertAmount(name: string, value: bigint): void {
  assertRaw(name, value)
  if (value === 0n) throw new TypeError(`"${name}" expected more than 0 raw`)
}
