import { ed25519 } from '@noble/curves/ed25519.js'
import { keccak_256 } from '@noble/hashes/sha3.js'

// Pure and without key code, so that the API may check an address that it is given.

export type MoneroNetwork = 'mainnet' | 'testnet' | 'stagenet'
export type MoneroAddressKind = 'standard' | 'integrated' | 'subaddress'

export interface MoneroAddress {
  readonly address: string
  /** A private chain in regression testing mode has the addresses of mainnet. */
  readonly network: MoneroNetwork
  readonly kind: MoneroAddressKind
  /** Its two public keys, in hex: an integrated address has those of the standard one in it. */
  readonly keys: string
}

/** The first byte; CRYPTONOTE_PUBLIC_*_BASE58_PREFIX in Monero's cryptonote_config.h. */
const PREFIXES: ReadonlyMap<number, readonly [MoneroNetwork, MoneroAddressKind]> = new Map([
  [18, ['mainnet', 'standard']],
  [19, ['mainnet', 'integrated']],
  [42, ['mainnet', 'subaddress']],
  [53, ['testnet', 'standard']],
  [54, ['testnet', 'integrated']],
  [63, ['testnet', 'subaddress']],
  [24, ['stagenet', 'standard']],
  [25, ['stagenet', 'integrated']],
  [36, ['stagenet', 'subaddress']],
])

const KEY_BYTES = 32
const PAYMENT_ID_BYTES = 8
const CHECKSUM_BYTES = 4
/** prefix 1 | public spend key 32 | public view key 32 | payment id 8 if integrated | checksum 4 */
const PLAIN_BYTES = 1 + 2 * KEY_BYTES + CHECKSUM_BYTES
const INTEGRATED_BYTES = PLAIN_BYTES + PAYMENT_ID_BYTES

const DIGITS = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const FULL_BLOCK_BYTES = 8
const FULL_BLOCK_DIGITS = 11
/** How many bytes a block holds, by its number of digits; absent if no block has that length. */
const BYTES_OF_DIGITS: ReadonlyMap<number, number> = new Map(
  [2, 3, 5, 6, 7, 9, 10, FULL_BLOCK_DIGITS].map((digits, index) => [digits, index + 1]),
)
const MAX_DIGITS = Math.ceil(INTEGRATED_BYTES / FULL_BLOCK_BYTES) * FULL_BLOCK_DIGITS

/**
 * Parses an address; undefined for what no wallet would send to: a wrong checksum, length or digit, a
 * prefix of no network, a key that is not a point of the curve. Source: get_account_address_from_str and
 * base58.cpp; the checksum is the first 4 bytes of Keccak-256.
 */
export function parseMoneroAddress(text: string): MoneroAddress | undefined {
  const bytes = decodeBase58(text)
  if (bytes === undefined) return undefined
  const [network, kind] = PREFIXES.get(bytes[0] ?? 0) ?? []
  if (network === undefined || kind === undefined) return undefined
  if (bytes.length !== (kind === 'integrated' ? INTEGRATED_BYTES : PLAIN_BYTES)) return undefined
  const content = bytes.subarray(0, -CHECKSUM_BYTES)
  const checksum = keccak_256(content).subarray(0, CHECKSUM_BYTES)
  if (!checksum.every((byte, index) => byte === bytes[content.length + index])) return undefined
  const spendKey = bytes.subarray(1, 1 + KEY_BYTES)
  const viewKey = bytes.subarray(1 + KEY_BYTES, 1 + 2 * KEY_BYTES)
  if (!isPoint(spendKey) || !isPoint(viewKey)) return undefined
  const keys = Buffer.from(bytes.subarray(1, 1 + 2 * KEY_BYTES)).toString('hex')
  return { address: text, network, kind, keys }
}

/** Decodes Monero's base 58: blocks of 8 bytes, each a number of 11 digits, the last block shorter. */
function decodeBase58(text: string): Uint8Array | undefined {
  if (text.length > MAX_DIGITS) return undefined
  const bytes: number[] = []
  for (let start = 0; start < text.length; start += FULL_BLOCK_DIGITS) {
    const block = text.slice(start, start + FULL_BLOCK_DIGITS)
    const byteCount = BYTES_OF_DIGITS.get(block.length)
    if (byteCount === undefined) return undefined
    let value = 0n
    for (const digit of block) {
      const position = DIGITS.indexOf(digit)
      if (position === -1) return undefined
      value = value * 58n + BigInt(position)
    }
    if (value >> BigInt(8 * byteCount) !== 0n) return undefined
    for (let shift = byteCount - 1; shift >= 0; shift -= 1)
      bytes.push(Number((value >> BigInt(8 * shift)) & 0xffn))
  }
  return Uint8Array.from(bytes)
}

/** Whether a key is canonical and on the curve, as check_key in crypto.cpp; the subgroup is not checked. */
function isPoint(key: Uint8Array): boolean {
  try {
    ed25519.Point.fromBytes(key)
    return true
  } catch {
    return false
  }
}
