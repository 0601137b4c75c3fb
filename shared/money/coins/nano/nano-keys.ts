import { eddsa } from '@noble/curves/abstract/edwards.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import { readPrivateFile } from '../../../platform/private-file.ts'
import { StartError } from '../../../platform/process.ts'
import { controlMessage } from '../../../crypto/control-message.ts'
import { encodeNanoAddress } from '../../../crypto/nano-address.ts'
import { hashNanoBlock, isSignedByAccount, type UnsignedNanoBlock } from './nano-blocks.ts'

const SEED = /^[0-9a-fA-F]{64}$/
/** An index is hashed as 4 bytes. */
const MAX_INDEX = 2 ** 32 - 1
/** Accounts of a seed that are kept: deriving one takes half a millisecond, and rounds ask again for them. */
const REMEMBERED = 10_000
/** By the address of the seed's first account, so that a seed that is opened again finds them. */
const rememberedOf = new Map<string, Map<number, NanoAccount>>()

/** Ed25519 as in RFC 8032, with Blake2b-512 in the place of SHA-512 (docs.nano.org, Signing). */
const nanoEd25519 = eddsa(ed25519.Point, blake2b, { adjustScalarBytes: clampScalar })

export { TREASURY_INDEX } from '../../transfer.ts'

export interface NanoAccount {
  readonly index: number
  readonly address: string
  /** 64 upper-case hex characters. */
  readonly publicKey: string
}

/** Neither the seed nor a secret key can be read from it; it signs blocks and proofs of control, and nothing else. */
export interface NanoKeys {
  /** @throws TypeError */
  deriveAccount(index: number): NanoAccount
  /** 64 and 128 upper-case hex characters; deterministic. @throws TypeError for a block of another account */
  signBlock(index: number, block: UnsignedNanoBlock): { readonly hash: string; readonly signature: string }
  /** Signs the text by which an account shows that it knows a seal; it is no block, and the signature 128 hex characters. */
  signControl(index: number, seq: number, sealHash: string): { message: string; signature: string }
}

/** Opens the seed in a file that its owner alone may read. @throws StartError without the file's content */
export const openNanoSeed = (file: string): NanoKeys => createNanoKeys(readSeed(file))

/**
 * Opens a seed, 64 hex characters. The secret key of an index is Blake2b, 32 bytes, of seed and index (4
 * bytes, big endian); docs.nano.org, Integration guides, "Seeds".
 *
 * @throws TypeError for a seed that is not 64 hex characters
 */
export function createNanoKeys(seed: string): NanoKeys {
  if (!SEED.test(seed)) throw new TypeError('"seed" expected 64 hex characters')
  const seedBytes = hexToBytes(seed)

  function derive(index: number): { account: NanoAccount; secretKey: Uint8Array } {
    if (!Number.isInteger(index) || index < 0 || index > MAX_INDEX)
      throw new TypeError(`"index" expected a whole number from 0 to ${MAX_INDEX}, got ${index}`)
    const indexBytes = new Uint8Array(4)
    new DataView(indexBytes.buffer).setUint32(0, index)
    const secretKey = blake2b(concatBytes(seedBytes, indexBytes), { dkLen: 32 })
    const publicKey = bytesToHex(nanoEd25519.getPublicKey(secretKey)).toUpperCase()
    return { account: { index, address: encodeNanoAddress(publicKey), publicKey }, secretKey }
  }

  const { address } = derive(0).account
  const known = rememberedOf.get(address) ?? new Map<number, NanoAccount>()
  rememberedOf.set(address, known)
  return {
    deriveAccount(index) {
      const account = known.get(index) ?? derive(index).account
      if (known.size >= REMEMBERED) known.clear()
      known.set(index, account)
      return account
    },
    signBlock: (index, block) => {
      const { account, secretKey } = derive(index)
      if (block.account !== account.address)
        throw new TypeError(`"block" belongs to another account than index ${index}`)
      const hash = hashNanoBlock(block)
      const signature = bytesToHex(nanoEd25519.sign(hexToBytes(hash), secretKey)).toUpperCase()
      // By another equation than it was made by: a faulty signature can give away the key.
      if (!isSignedByAccount({ ...block, signature }))
        throw new Error('a block was signed wrongly; the signature was thrown away')
      return { hash, signature }
    },
    signControl: (index, seq, sealHash) => {
      const { account, secretKey } = derive(index)
      const message = controlMessage(seq, sealHash, account.address)
      const bytes = new TextEncoder().encode(message)
      const signature = nanoEd25519.sign(bytes, secretKey)
      if (!nanoEd25519.verify(signature, bytes, hexToBytes(account.publicKey)))
        throw new Error('a text was signed wrongly; the signature was thrown away')
      return { message, signature: bytesToHex(signature) }
    },
  }
}

/** RFC 8032, section 5.1.5, step 2. */
function clampScalar(bytes: Uint8Array): Uint8Array {
  const scalar = Uint8Array.from(bytes)
  scalar[0] = (scalar[0] ?? 0) & 0b1111_1000
  scalar[31] = ((scalar[31] ?? 0) & 0b0111_1111) | 0b0100_0000
  return scalar
}

/** @throws StartError if the file can't be read, others may read it, or it holds no seed */
function readSeed(file: string): string {
  try {
    const text = readPrivateFile('The Nano seed', file, (problem) => new StartError(problem))
    if (SEED.test(text)) return text
  } catch (error) {
    if (error instanceof StartError) throw error
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    const why = `The Nano seed ${file} cannot be read (${code}); NANO_SEED_FILE has to name it.`
    throw new StartError(why, { cause: error })
  }
  throw new StartError(
    `The Nano seed ${file} does not hold a seed: expected 64 hex characters. Restore it from where it was kept.`,
  )
}
