import { eddsa } from '@noble/curves/abstract/edwards.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { parseNanoAddress } from '../../shared/crypto/nano-address.ts'
import { Refused } from './findings.ts'
import { isSum } from './money.ts'
import { isHexHash, isObject, isWhole, show, type Fields } from './values.ts'

/*
 * What a venue says that it holds, and the proofs that it controls it: see "Solvency" in docs/security.md.
 */

/** Nano signs with Ed25519 over Blake2b. */
const nano = eddsa(ed25519.Point, blake2b)
const isNanoHash = (text: unknown): text is string =>
  typeof text === 'string' && /^[0-9A-Fa-f]{64}$/.test(text)
const isRaw = (text: unknown): text is string => isSum(text) && !text.startsWith('-')
const ZERO_HASH = '0'.repeat(64)
/** A block may be seen that much before a node's answer is. */
const SEEN_SECONDS = 60

interface NanoAccount {
  account: string
  /** Null or zeros: it has no block. */
  frontier: string | null
  balance: string
  receivable: { hash: string; amount: string }[]
}
export interface Assets {
  xno: NanoAccount[] | null
  xmr: { height: number; balance: string; proof_hash: string | null } | null
  at: { xno: number | null; xmr: number | null }
  unread: Fields
}

/** Reads the assets that a closing entry states. @throws Refused `malformed_assets` */
export function readAssets(value: unknown): Assets {
  const { xno, xmr, at, unread } = isObject(value) ? value : {}
  const isReceivable = (one: unknown) => isObject(one) && isNanoHash(one['hash']) && isRaw(one['amount'])
  const isAccount = (one: unknown) =>
    isObject(one) &&
    typeof one['account'] === 'string' &&
    (one['frontier'] === null || isNanoHash(one['frontier'])) &&
    isRaw(one['balance']) &&
    Array.isArray(one['receivable']) &&
    one['receivable'].every(isReceivable)
  const isRight =
    (xno === null || (Array.isArray(xno) && xno.every(isAccount))) &&
    (xmr === null ||
      (isObject(xmr) &&
        isRaw(xmr['balance']) &&
        (xmr['proof_hash'] === null || isHexHash(xmr['proof_hash'])))) &&
    isObject(at) &&
    (xno === null || isWhole(at['xno'])) &&
    (xmr === null || isWhole(at['xmr']))
  if (!isRight) throw new Refused('malformed_assets', `the closing entry states the assets ${show(value)}`)
  return { xno, xmr, at, unread: isObject(unread) ? unread : {} } as unknown as Assets
}

/** What a Nano node's `blocks_info` says of blocks, by their hashes in capitals. */
export type ReadBlocks = (hashes: readonly string[]) => Promise<ReadonlyMap<string, Fields>>

/**
 * Compares Nano accounts with a node's word: each frontier is the account's last block at the time, the balance is
 * the one after it, and what is to be received was sent to the account and not received by then.
 *
 * @returns what each account has, by address
 * @throws Refused `wrong_assets`
 */
export async function checkNanoAssets(
  accounts: readonly NanoAccount[],
  at: number,
  read: ReadBlocks,
): Promise<Map<string, bigint>> {
  const held = new Map<string, bigint>()
  const wrong = (message: string) => new Refused('wrong_assets', message)
  const sends = accounts.flatMap(({ account, receivable }) => receivable.map((one) => ({ account, ...one })))
  const named = [...accounts.map(({ frontier }) => frontier ?? ZERO_HASH), ...sends.map(({ hash }) => hash)]
  const hashes = named.filter((hash) => hash !== ZERO_HASH).map((hash) => hash.toUpperCase())
  const addresses = accounts.map(({ account }) => account)
  if (new Set([...addresses, ...hashes]).size < addresses.length + hashes.length)
    throw wrong('the assets name an account or a block twice')
  const blocks = await read(hashes)
  const next = [...blocks.values()].flatMap(({ successor, receive_hash: received }) => [successor, received])
  const after = await read(
    [...new Set(next)].filter((hash) => isNanoHash(hash) && hash !== ZERO_HASH) as string[],
  )
  const wasBefore = (hash: unknown) =>
    Number(after.get(hash as string)?.['local_timestamp'] ?? Infinity) < at - SEEN_SECONDS
  const blockOf = (hash: string): Fields => {
    const block = blocks.get(hash.toUpperCase())
    if (block?.['confirmed'] !== 'true') throw wrong(`the node has no confirmed block ${hash}`)
    return block
  }
  for (const { account, frontier, balance } of accounts) {
    if ((frontier ?? ZERO_HASH) === ZERO_HASH && balance === '0') {
      held.set(account, 0n) // without a block
      continue
    }
    const block = blockOf(frontier ?? ZERO_HASH)
    if (block['block_account'] !== account) throw wrong(`block ${frontier} is not of ${account}`)
    if (block['balance'] !== balance)
      throw wrong(`${account} has ${show(block['balance'])} after ${frontier}, not ${balance}`)
    if (wasBefore(block['successor']))
      throw wrong(`${frontier} was not the last block of ${account} any more`)
    held.set(account, BigInt(balance))
  }
  for (const { account, hash, amount } of sends) {
    const { subtype, amount: sent, contents, receive_hash: received } = blockOf(hash)
    const to = isObject(contents) ? contents['link_as_account'] : undefined
    if (subtype !== 'send' || to !== account || sent !== amount || wasBefore(received))
      throw wrong(`block ${hash} does not send ${amount} that ${account} has still to receive`)
    held.set(account, (held.get(account) ?? 0n) + BigInt(amount))
  }
  return held
}

/** Whether a signature, 128 hex characters, is that of a Nano account over a text. */
export function isSignedByAccount(account: string, message: string, signature: unknown): boolean {
  const key = parseNanoAddress(account)?.publicKey
  if (key === undefined || typeof signature !== 'string' || !/^[0-9A-Fa-f]{128}$/.test(signature))
    return false
  const [raw, bytes] = [Buffer.from(key, 'hex'), Buffer.from(signature, 'hex')]
  try {
    return (
      !ed25519.Point.fromBytes(raw).isSmallOrder() &&
      nano.verify(bytes, Buffer.from(message), raw, { zip215: false })
    )
  } catch {
    return false // no point of the curve
  }
}
