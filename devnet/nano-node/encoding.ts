import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js'
import { blake2b } from '@noble/hashes/blake2.js'

/** 32 zero bytes: "no previous block", "no link", and the public key of the burn account. */
export const zeroHash = '0'.repeat(64)

/** The most that an amount can be: 128 bits. */
export const maxRaw = (1n << 128n) - 1n

const addressDigits = '13456789abcdefghijkmnopqrstuwxyz'
const addressPattern = /^(?:nano|xrb)_[13][13456789abcdefghijkmnopqrstuwxyz]{59}$/

const addressByKey = new Map<string, string>()
const keyByAddress = new Map<string, string>()

/**
 * The `nano_` address of a public key (64 hex digits): 4 zero bits, 256 bits of key, 40 bits of checksum, 5
 * bits a digit.
 */
export function encodeAddress(publicKeyHex: string): string {
  const known = addressByKey.get(publicKeyHex)
  if (known !== undefined) return known
  const checksum = blake2b(hexToBytes(publicKeyHex), { dkLen: 5 }).reverse()
  let rest = (BigInt(`0x${publicKeyHex}`) << 40n) | BigInt(`0x${bytesToHex(checksum)}`)
  let digits = ''
  for (let index = 0; index < 60; index += 1) {
    digits = addressDigits.charAt(Number(rest & 31n)) + digits
    rest >>= 5n
  }
  const address = `nano_${digits}`
  addressByKey.set(publicKeyHex, address)
  return address
}

/** The public key of an address with either prefix (`nano_`, `xrb_`), or null if it is not an address. */
export function decodeAddress(address: string): string | null {
  const known = keyByAddress.get(address)
  if (known !== undefined) return known
  if (!addressPattern.test(address)) return null
  const digits = address.slice(-60)
  let value = 0n
  for (const digit of digits) value = (value << 5n) | BigInt(addressDigits.indexOf(digit))
  const publicKeyHex = (value >> 40n).toString(16).toUpperCase().padStart(64, '0')
  if (publicKeyHex.length !== 64 || encodeAddress(publicKeyHex).slice(-60) !== digits) return null
  keyByAddress.set(address, publicKeyHex)
  return publicKeyHex
}

/** 256 bits as 64 upper-case hex digits, padded on the left as the node does; null for anything else. */
export function parseHash(text: string): string | null {
  return /^[0-9a-fA-F]{1,64}$/.test(text) ? text.toUpperCase().padStart(64, '0') : null
}

/** 512 bits as 128 upper-case hex digits, padded on the left; null for anything else. */
export function parseSignature(text: string): string | null {
  return /^[0-9a-fA-F]{1,128}$/.test(text) ? text.toUpperCase().padStart(128, '0') : null
}

/** 64 bits of hex (a work value or a difficulty), or null. */
export function parseHex64(text: string): bigint | null {
  return /^[0-9a-fA-F]{1,16}$/.test(text) ? BigInt(`0x${text}`) : null
}

/** 64 bits as 16 lower-case hex digits. */
export function formatHex64(value: bigint): string {
  return value.toString(16).padStart(16, '0')
}

/** An amount in raw: decimal without a leading zero, at most 128 bits; null for anything else. */
export function parseRaw(text: string): bigint | null {
  if (!/^(?:0|[1-9][0-9]{0,38})$/.test(text)) return null
  const value = BigInt(text)
  return value <= maxRaw ? value : null
}
