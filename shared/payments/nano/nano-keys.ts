import { eddsa } from '@noble/curves/abstract/edwards.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import fs from 'node:fs'
import { block as signer } from 'nanocurrency-web'
import { StartError } from '../../process.ts'
import { encodeNanoAddress } from './nano-address.ts'
import type { UnsignedNanoBlock } from './nano-blocks.ts'
import { hashNanoBlock, isSignedByAccount } from './nano-blocks.ts'

/** Permission bits of anyone but the owner. */
const OTHERS = 0o077
const SEED = /^[0-9a-fA-F]{64}$/
/** An index is hashed as 4 bytes. */
const MAX_INDEX = 2 ** 32 - 1
/** A seed file holds 64 characters and a line feed; whatever is longer is another file. */
const MAX_FILE_BYTES = 1_024

/** Ed25519 as in RFC 8032, with Blake2b-512 in the place of SHA-512 (docs.nano.org, Signing). Here it derives and never signs. */
const nanoEd25519 = eddsa(ed25519.Point, blake2b, { adjustScalarBytes: clampScalar })

/** Invoices count from 1. */
export { TREASURY_INDEX } from '../payout.ts'

export interface NanoAccount {
  readonly index: number
  /** In the `nano_` spelling. */
  readonly address: string
  /** 64 upper-case hex characters. */
  readonly publicKey: string
}

/** Accounts of one seed. Neither the seed nor a secret key can be read from it; it signs blocks and nothing else. */
export interface NanoKeys {
  /** @throws TypeError for an index that is not a whole number from 0 to 2^32 - 1 */
  deriveAccount(index: number): NanoAccount
  /**
   * Hash and signature (64 and 128 upper-case hex characters) of a block of the account of `index`. Deterministic: the
   * same block is signed the same way each time.
   *
   * @throws TypeError for a block of another account, and for a field that is not of its form
   */
  signBlock(index: number, block: UnsignedNanoBlock): { readonly hash: string; readonly signature: string }
}

/**
 * Opens the seed file of `NANO_SEED_FILE`: 64 hex characters and a line feed, readable by its owner alone.
 *
 * @throws StartError with a sentence for the operator where there is no such file, others may read or write it, or it
 *   holds something else. What it holds is never in the sentence.
 */
export function openNanoSeed(file: string): NanoKeys {
  return createNanoKeys(readSeed(file))
}

/**
 * Accounts by Nano's own ("legacy") derivation: the secret key of an index is Blake2b, 32 bytes, of the seed and the index
 * (4 bytes, big endian); docs.nano.org, Integration guides, "Seeds". A node's wallet and every Nano wallet that takes a seed
 * of 64 hex characters find the same accounts.
 *
 * @throws TypeError for a seed that is not 64 hex characters
 */
export function createNanoKeys(seed: string): NanoKeys {
  if (!SEED.test(seed)) throw new TypeError('"seed" expected 64 hex characters')
  const seedBytes = hexToBytes(seed)

  function derive(index: number): { account: NanoAccount; secretKey: string } {
    if (!Number.isInteger(index) || index < 0 || index > MAX_INDEX) {
      throw new TypeError(`"index" expected a whole number from 0 to ${MAX_INDEX}, got ${index}`)
    }
    const indexBytes = new Uint8Array(4)
    new DataView(indexBytes.buffer).setUint32(0, index)
    const secretKey = blake2b(concatBytes(seedBytes, indexBytes), { dkLen: 32 })
    // Not by the library that signs: it takes milliseconds for each, and filling the pool would hold up the worker's other jobs.
    const publicKey = bytesToHex(nanoEd25519.getPublicKey(secretKey)).toUpperCase()
    return { account: { index, address: encodeNanoAddress(publicKey), publicKey }, secretKey: bytesToHex(secretKey) }
  }

  return {
    deriveAccount: (index) => derive(index).account,
    signBlock: (index, block) => {
      const { account, secretKey } = derive(index)
      if (block.account !== account.address) throw new TypeError(`"block" belongs to another account than index ${index}`)
      const hash = hashNanoBlock(block)
      const signature = signStateBlock(block, secretKey)
      // By a second library: a signature made wrongly, by a fault of memory for one, can give away the key, and one over
      // another balance would send another amount.
      if (!isSignedByAccount({ ...block, signature })) throw new Error('a block was signed wrongly; the signature was thrown away')
      return { hash, signature }
    },
  }
}

/**
 * The library signs by what a block does and computes the balance itself. A receive on top of 0 raw signs each field as it
 * is given, whatever the block does: balance 0 + amount, link the hash.
 */
function signStateBlock(block: UnsignedNanoBlock, secretKey: string): string {
  const { signature } = signer.receive(
    {
      toAddress: block.account,
      frontier: block.previous,
      representativeAddress: block.representative,
      walletBalanceRaw: '0',
      amountRaw: block.balance,
      transactionHash: block.link,
    },
    secretKey,
  )
  return signature.toUpperCase()
}

/** RFC 8032, section 5.1.5, step 2. */
function clampScalar(bytes: Uint8Array): Uint8Array {
  const scalar = Uint8Array.from(bytes)
  scalar[0] = (scalar[0] ?? 0) & 0b1111_1000
  scalar[31] = ((scalar[31] ?? 0) & 0b0111_1111) | 0b0100_0000
  return scalar
}

function readSeed(file: string): string {
  let handle: number
  try {
    handle = fs.openSync(file, 'r')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new StartError(`The Nano seed ${file} cannot be read (${code ?? 'unknown error'}); NANO_SEED_FILE has to name it.`, {
      cause: error,
    })
  }
  try {
    const stat = fs.fstatSync(handle)
    if ((stat.mode & OTHERS) !== 0) {
      throw new StartError(
        `The Nano seed ${file} can be read or written by others than its owner (mode ${(stat.mode & 0o777).toString(8)}); set its mode to 600, and move the money to a new seed if others had access.`,
      )
    }
    const text = stat.isFile() && stat.size <= MAX_FILE_BYTES ? fs.readFileSync(handle, 'utf8').trim() : ''
    if (!SEED.test(text)) throw new StartError(`The Nano seed ${file} does not hold a seed: expected 64 hex characters.`)
    return text
  } finally {
    fs.closeSync(handle)
  }
}
