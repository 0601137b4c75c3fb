import type { StateBlock } from './block.ts'
import { parseStateBlock } from './block.ts'
import { decodeAddress, parseHash, parseHex64, parseRaw } from './encoding.ts'
import type { Tree, TreeReader } from './json-tree.ts'
import { parseTree, UnreadableRequest } from './json-tree.ts'
import type { NodeState } from './node-state.ts'

/** A refusal of a request: the answer is `{"error": message}` with HTTP status 200. */
export class RpcError extends Error {}

/** Carries out the requests of one action and gives the answer. @throws RpcError; UnreadableRequest */
export type Command = (node: NodeState, request: TreeReader) => Tree | Promise<Tree>

export const noLimit = Number.MAX_SAFE_INTEGER

/** Parses an address to its public key. @throws RpcError with `message` if it is invalid */
export function parseAccount(address: string, message = 'Bad account number'): string {
  const publicKey = decodeAddress(address)
  if (publicKey === null) throw new RpcError(message)
  return publicKey
}

/** Reads a field with a block's hash. @throws RpcError with `message` if it is invalid */
export function readHash(request: TreeReader, name = 'hash', message = 'Invalid block hash'): string {
  const hash = parseHash(request.text(name))
  if (hash === null) throw new RpcError(message)
  return hash
}

/**
 * Parses a whole number; a negative one becomes noLimit.
 *
 * @throws RpcError with `message` for anything else
 */
function parseCount(text: string, message: string): number {
  const match = /^\s*([+-]?)([0-9]+)$/.exec(text)
  if (match === null) throw new RpcError(message)
  // The node reads an unsigned number: -1 wraps around to "all".
  return match[1] === '-' && Number(match[2]) > 0 ? noLimit : Number(match[2])
}

/** Reads the field `count`, which must be there and not 0. @throws RpcError if it isn't */
export function readCount(request: TreeReader): number {
  const count = parseCount(request.text('count'), 'Invalid count')
  if (count === 0) throw new RpcError('Invalid count')
  return count
}

/** Reads the field `count`, or returns `byDefault` if it is absent. @throws RpcError if it is invalid */
export function readOptionalCount(request: TreeReader, byDefault: number): number {
  const text = request.optionalText('count')
  return text === undefined ? byDefault : parseCount(text, 'Invalid count')
}

/** Reads the field `offset`, 0 if it is absent. @throws RpcError if it is invalid */
export function readOffset(request: TreeReader): number {
  const text = request.optionalText('offset')
  return text === undefined ? 0 : parseCount(text, 'Invalid offset')
}

/** Reads the field `threshold` in raw, 0 if it is absent. @throws RpcError if it is invalid */
export function readThreshold(request: TreeReader): bigint {
  const text = request.optionalText('threshold')
  const threshold = text === undefined ? 0n : parseRaw(text)
  if (threshold === null) throw new RpcError('Bad threshold number')
  return threshold
}

/** Reads the field `work`, up to 16 hex digits, 0 if it is absent. @throws RpcError if it is invalid */
export function readOptionalWork(request: TreeReader): bigint {
  const text = request.optionalText('work')
  const work = text === undefined ? 0n : parseHex64(text)
  if (work === null) throw new RpcError('Bad work')
  return work
}

/**
 * Reads the block of a request: an object if `json_block` is set, else JSON in a text.
 *
 * @throws UnreadableRequest if the request has no block; RpcError for an invalid one
 */
export function readBlock(request: TreeReader): StateBlock {
  let tree = request.child('block')
  if (tree === undefined) throw new UnreadableRequest('"block" is missing')
  if (!request.flag('json_block', false)) tree = parseBlockText(request.text('block'))
  const block = parseStateBlock(tree)
  if (block === null) throw new RpcError('Block is invalid')
  return block
}

function parseBlockText(text: string): Tree {
  try {
    return parseTree(text)
  } catch (cause) {
    throw new RpcError('Block is invalid', { cause })
  }
}
