import { eddsa } from '@noble/curves/abstract/edwards.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import { tools } from 'nanocurrency-web'

import {
  decodeAddress,
  encodeAddress,
  formatHex64,
  parseHash,
  parseHex64,
  parseRaw,
  parseSignature,
  zeroHash,
} from './encoding.ts'
import type { Tree } from './json-tree.ts'
import { readTree } from './json-tree.ts'

/** Keys, hashes and links: 64 upper-case hex digits. `balance` in raw, after this block. */
export interface StateBlock {
  readonly type: 'state'
  readonly account: string
  readonly previous: string
  readonly representative: string
  readonly balance: bigint
  readonly link: string
  readonly signature: string
  readonly work: bigint
}

/** The old kind of block. Only the genesis block is one; others are refused. */
export interface OpenBlock {
  readonly type: 'open'
  readonly source: string
  readonly representative: string
  readonly account: string
  readonly signature: string
  readonly work: bigint
}

/** Nano's Ed25519, with Blake2b (64 bytes) in place of SHA-512. */
const nanoEd25519 = eddsa(ed25519.Point, blake2b, {
  adjustScalarBytes: (bytes: Uint8Array) => {
    const scalar = Uint8Array.from(bytes)
    scalar[0] = (scalar[0] ?? 0) & 248 // RFC 8032, 5.1.5: clear the lowest three bits,
    scalar[31] = ((scalar[31] ?? 0) & 127) | 64 // clear the highest and set the second highest
    return scalar
  },
  zip215: false,
})

/** Hashed before a state block's fields: 31 zero bytes and a 6. */
const statePreamble = new Uint8Array(32).fill(6, 31)

/** The hash of a state block: Blake2b (32 bytes) of its fields, as upper-case hex. */
export function hashStateBlock(block: Omit<StateBlock, 'signature' | 'work' | 'type'>): string {
  const balance = hexToBytes(block.balance.toString(16).padStart(32, '0'))
  const parts = [block.account, block.previous, block.representative].map((hex) => hexToBytes(hex))
  return bytesToHex(
    blake2b(concatBytes(statePreamble, ...parts, balance, hexToBytes(block.link)), { dkLen: 32 }),
  ).toUpperCase()
}

export function hashOpenBlock(block: OpenBlock): string {
  const parts = [block.source, block.representative, block.account].map((hex) => hexToBytes(hex))
  return bytesToHex(blake2b(concatBytes(...parts), { dkLen: 32 })).toUpperCase()
}

export function publicKeyOf(secretKeyHex: string): string {
  return bytesToHex(nanoEd25519.getPublicKey(hexToBytes(secretKeyHex))).toUpperCase()
}

/** The signature of a hash, as 128 upper-case hex digits. */
export function signHash(hashHex: string, secretKeyHex: string): string {
  return bytesToHex(nanoEd25519.sign(hexToBytes(hashHex), hexToBytes(secretKeyHex))).toUpperCase()
}

/**
 * Whether a block has its account's signature, by nanocurrency-web, which shares no code with this project:
 * so this node accepts only blocks that other implementations accept.
 */
export function isSignedByAccount(block: StateBlock): boolean {
  return tools.verifyBlock(block.account, {
    account: encodeAddress(block.account),
    previous: block.previous,
    representative: encodeAddress(block.representative),
    balance: block.balance.toString(),
    link: block.link,
    signature: block.signature,
  })
}

/** Whether the signature of the hash is the key's. */
export function verifyHash(hashHex: string, signatureHex: string, publicKeyHex: string): boolean {
  return nanoEd25519.verify(hexToBytes(signatureHex), hexToBytes(hashHex), hexToBytes(publicKeyHex))
}

/** The secret key with this index: Blake2b (32 bytes) of the seed and the index (4 bytes, big-endian). */
export function deriveSecretKey(seedHex: string, index: number): string {
  const indexBytes = new Uint8Array(4)
  new DataView(indexBytes.buffer).setUint32(0, index, false)
  return bytesToHex(blake2b(concatBytes(hexToBytes(seedHex), indexBytes), { dkLen: 32 })).toUpperCase()
}

/** What work is computed for: the previous block's hash, or the public key for an account's first block. */
export function workRoot(block: Pick<StateBlock, 'account' | 'previous'>): string {
  return block.previous === zeroHash ? block.account : block.previous
}

/** The block of a request, or null if a field is missing or wrong. */
export function parseStateBlock(tree: Tree | undefined): StateBlock | null {
  const fields = readTree(tree)
  if (fields.optionalText('type') !== 'state') return null
  const read = <Value>(name: string, parse: (text: string) => Value | null): Value | null => {
    const text = fields.optionalText(name)
    return text === undefined ? null : parse(text)
  }
  const account = read('account', decodeAddress)
  const previous = read('previous', parseHash)
  const representative = read('representative', decodeAddress)
  const balance = read('balance', parseRaw)
  const link = read('link', (text) => decodeAddress(text) ?? parseHash(text))
  const signature = read('signature', parseSignature)
  const work = read('work', parseHex64)
  if (
    account === null ||
    previous === null ||
    representative === null ||
    balance === null ||
    link === null ||
    signature === null ||
    work === null
  ) {
    return null
  }
  return { type: 'state', account, previous, representative, balance, link, signature, work }
}

/** A block's fields as the node's answers show them. */
export function blockContents(block: StateBlock | OpenBlock): { [name: string]: Tree } {
  if (block.type === 'open') {
    return {
      type: 'open',
      source: block.source,
      representative: encodeAddress(block.representative),
      account: encodeAddress(block.account),
      work: formatHex64(block.work),
      signature: block.signature,
    }
  }
  return {
    type: 'state',
    account: encodeAddress(block.account),
    previous: block.previous,
    representative: encodeAddress(block.representative),
    balance: block.balance.toString(),
    link: block.link,
    link_as_account: encodeAddress(block.link),
    signature: block.signature,
    work: formatHex64(block.work),
  }
}
