import type { StateBlock } from './block.ts'
import { blockContents, hashStateBlock, publicKeyOf, signHash, workRoot } from './block.ts'
import { describeTally } from './elections.ts'
import { decodeAddress, encodeAddress, formatHex64, parseHash, parseRaw, zeroHash } from './encoding.ts'
import type { Tree, TreeReader } from './json-tree.ts'
import { formatTree, Pairs } from './json-tree.ts'
import type { LedgerBlock, ProcessStatus } from './ledger.ts'
import { epochOfLink } from './ledger.ts'
import type { NodeState } from './node-state.ts'
import type { Command } from './rpc-arguments.ts'
import {
  parseAccount,
  readBlock,
  readCount,
  readHash,
  readOffset,
  readOptionalWork,
  RpcError,
} from './rpc-arguments.ts'
import { generateWork, readDifficulty } from './rpc-work.ts'
import { entryThreshold, workDifficulty } from './work.ts'

/** Returns the ledger's block with this hash. @throws RpcError if the ledger has no such block */
function requireBlock(node: NodeState, hash: string): LedgerBlock {
  const entry = node.ledger.blocks.get(hash)
  if (entry === undefined) throw new RpcError('Block not found')
  return entry
}

/** A block's contents: as fields, or as JSON in a text. */
function showContents(block: LedgerBlock['block'], asFields: boolean): Tree {
  return asFields ? blockContents(block) : formatTree(blockContents(block))
}

/** What `block_info` says of a block. @param jsonBlock whether to show its contents as fields */
function describeBlock(entry: LedgerBlock, jsonBlock: boolean): { [name: string]: Tree } {
  return {
    block_account: encodeAddress(entry.account),
    amount: entry.amount.toString(),
    balance: entry.balance.toString(),
    height: String(entry.height),
    local_timestamp: String(entry.timestampS),
    successor: entry.successor,
    confirmed: String(entry.confirmed),
    contents: showContents(entry.block, jsonBlock),
    ...(entry.kind === null ? {} : { subtype: entry.kind }),
  }
}

const blockInfo: Command = (node, request) =>
  describeBlock(requireBlock(node, readHash(request)), request.flag('json_block', false))

/**
 * Shows several blocks as `block_info` does. An unknown one is an error; with `include_not_found` it is
 * listed.
 */
const blocksInfo: Command = (node, request) => {
  const jsonBlock = request.flag('json_block', false)
  const withReceivable = request.flag('receivable', request.flag('pending', false))
  const withReceiveHash = request.flag('receive_hash', false)
  const withSource = request.flag('source', false)
  const includeNotFound = request.flag('include_not_found', false)
  const blocks = new Pairs()
  const notFound: string[] = []
  for (const asked of request.texts('hashes')) {
    const hash = parseHash(asked)
    if (hash === null) throw new RpcError('Bad hash number')
    const entry = node.ledger.blocks.get(hash)
    if (entry === undefined) {
      if (!includeNotFound) throw new RpcError('Block not found')
      notFound.push(asked)
      continue
    }
    const info = describeBlock(entry, jsonBlock)
    if (withReceivable) {
      const isReceivable = entry.kind === 'send' && entry.receivedBy === zeroHash ? '1' : '0'
      Object.assign(info, { pending: isReceivable, receivable: isReceivable })
    }
    if (withReceiveHash) info['receive_hash'] = entry.receivedBy
    if (withSource) {
      const isReceive = entry.kind === 'receive' && entry.block.type === 'state'
      const source = isReceive ? node.ledger.blocks.get(entry.block.link) : undefined
      info['source_account'] = source === undefined ? '0' : encodeAddress(source.account)
    }
    blocks.add(asked, info)
  }
  return { blocks, ...(includeNotFound ? { blocks_not_found: notFound } : {}) }
}

/** What the node answers if a block that is submitted is not added. */
const refusals: { readonly [status in Exclude<ProcessStatus, 'progress'>]: string } = {
  old: 'Old block',
  bad_signature: 'Bad signature',
  opened_burn_account: 'Block attempts to open the burn account',
  fork: 'Fork',
  gap_previous: 'Gap previous block',
  gap_source: 'Gap source block',
  gap_epoch_open_pending: 'Gap pending for open epoch block',
  unreceivable: 'Unreceivable',
  balance_mismatch: 'Balance and amount delta do not match',
  representative_mismatch: 'Error processing block',
  block_position: 'This block cannot follow the previous block',
  insufficient_work: 'Block work is insufficient',
}

/**
 * Checks that a block is what the request says. Compares with the account's present balance, as the node
 * does: so a send that is submitted again is refused.
 *
 * @throws RpcError if it isn't, or the block before it is unknown
 */
function checkSubtype(node: NodeState, block: StateBlock, subtype: string): void {
  const isOpening = block.previous === zeroHash
  if (!isOpening && !node.ledger.blocks.has(block.previous)) throw new RpcError(refusals.gap_previous)
  const balance = node.ledger.balance(block.account)
  const wrongBalance = new RpcError('Invalid block balance for given subtype')
  const wrongPrevious = new RpcError('Invalid previous block for given subtype')
  if (subtype === 'send') {
    if (balance <= block.balance) throw wrongBalance
  } else if (subtype === 'receive') {
    if (balance > block.balance) throw wrongBalance
  } else if (subtype === 'open') {
    if (!isOpening) throw wrongPrevious
  } else if (subtype === 'change') {
    if (balance !== block.balance) throw wrongBalance
    if (isOpening) throw wrongPrevious
  } else if (subtype === 'epoch') {
    if (balance !== block.balance) throw wrongBalance
    if (epochOfLink(block.link) === 0) throw new RpcError('Invalid epoch link')
  } else {
    throw new RpcError('Invalid block subtype')
  }
}

/** Submits a block; with `force`, in the place of an unconfirmed competitor. */
const processBlock: Command = (node, request) => {
  const block = readBlock(request)
  const subtype = request.optionalText('subtype') ?? ''
  if (subtype !== '') checkSubtype(node, block, subtype)
  if (workDifficulty(workRoot(block), block.work) < entryThreshold(node.settings.thresholds))
    throw new RpcError('Block work is less than threshold')
  const force = request.flag('force', false)
  if (request.flag('async', false)) {
    node.submit(block)
    return { started: '1' }
  }
  const { status, hash } = node.submit(block, { force })
  if (status !== 'progress' && !(status === 'fork' && force)) throw new RpcError(refusals[status])
  return { hash }
}

const blockHash: Command = (_node, request) => ({ hash: hashStateBlock(readBlock(request)) })

/** Confirms a block after the node's delay; one that is confirmed is announced again at once. */
const blockConfirm: Command = (node, request) => {
  const entry = requireBlock(node, readHash(request))
  if (entry.confirmed) node.confirmAgain(entry.hash)
  else node.scheduleConfirmation(entry.hash)
  return { started: '1' }
}

/** A field, parsed; `byDefault` if it is missing. @throws RpcError with `message` if `parse` gives null */
function readOptional<Value>(
  request: TreeReader,
  name: string,
  parse: (text: string) => Value | null,
  byDefault: Value,
  message: string,
): Value {
  const text = request.optionalText(name)
  const value = text === undefined ? byDefault : parse(text)
  if (value === null) throw new RpcError(message)
  return value
}

/**
 * Makes, signs and works a state block with the request's key. Older kinds, and keys of wallets, are refused.
 */
const blockCreate: Command = async (node, request) => {
  const type = request.text('type')
  const askedDifficulty = readDifficulty(node, request)
  const account = request.has('account') ? parseAccount(request.text('account')) : null
  const representative = request.has('representative')
    ? parseAccount(request.text('representative'), 'Bad representative number')
    : zeroHash
  const destination = request.has('destination')
    ? parseAccount(request.text('destination'), 'Bad destination account')
    : zeroHash
  const source = readOptional(request, 'source', parseHash, zeroHash, 'Bad source')
  const givenWork = readOptionalWork(request)
  if (givenWork === 0n && !node.settings.localWork) throw new RpcError('Work generation is disabled')
  const key = readOptional(request, 'key', parseHash, zeroHash, 'Bad private key')
  const givenPrevious = readOptional(request, 'previous', parseHash, zeroHash, 'Bad previous')
  const givenBalance = readOptional(request, 'balance', parseRaw, 0n, 'Invalid balance number')
  const impliedLink = source === zeroHash ? destination : source
  const link = readOptional(
    request,
    'link',
    (text) => decodeAddress(text) ?? parseHash(text),
    impliedLink,
    'Bad link number',
  )
  if (key === zeroHash) throw new RpcError('Private key or local wallet and account required')
  const publicKey = publicKeyOf(key)
  if (account !== null && account !== publicKey) throw new RpcError('Incorrect key for given account')
  if (type !== 'state') throw new RpcError('Invalid block type')
  if (
    !request.has('previous') ||
    representative === zeroHash ||
    (link === zeroHash && !request.has('link'))
  ) {
    throw new RpcError(
      'Previous, representative, final balance and link (source or destination) are required',
    )
  }
  const fields = {
    type,
    account: publicKey,
    previous: givenPrevious,
    representative,
    balance: givenBalance,
    link,
  } as const
  const hash = hashStateBlock(fields)
  const unworked: StateBlock = { ...fields, signature: signHash(hash, key), work: givenWork }
  const root = workRoot(unworked)
  const difficulty = request.has('difficulty')
    ? askedDifficulty
    : (node.ledger.requiredDifficulty(unworked) ?? askedDifficulty)
  const work = givenWork === 0n ? await generateWork(node, root, difficulty) : givenWork
  if (work === null) throw new RpcError('Work generation cancellation or failure')
  const shown = showContents({ ...unworked, work }, request.flag('json_block', false))
  return { hash, difficulty: formatHex64(workDifficulty(root, work)), block: shown }
}

/**
 * Makes a command that lists hashes from a block on.
 *
 * @param isForward towards the frontier; `reverse` turns it
 */
function createWalk(isForward: boolean): Command {
  return (node, request) => {
    const isSuccessorNext = isForward !== request.flag('reverse', false)
    const start = readHash(request, 'block')
    const count = readCount(request)
    let offset = readOffset(request)
    const hashes: string[] = []
    for (let entry = node.ledger.blocks.get(start); entry !== undefined && hashes.length < count;) {
      if (offset > 0) offset -= 1
      else hashes.push(entry.hash)
      const previous = entry.block.type === 'state' ? entry.block.previous : zeroHash
      entry = node.ledger.blocks.get(isSuccessorNext ? entry.successor : previous)
    }
    return { blocks: hashes }
  }
}

const confirmationHistory: Command = (node, request) => {
  const hash = request.has('hash') ? readHash(request) : null
  const shown = node.elections.history.filter((result) => hash === null || result.hash === hash)
  const confirmations = shown.map((result) => ({ hash: result.hash, ...describeTally(result) }))
  const stats: { [name: string]: Tree } = { count: String(shown.length) }
  if (shown.length > 0) {
    // Of all results, even if one block's are shown.
    const totalMs = node.elections.history.reduce((sum, result) => sum + result.durationMs, 0)
    stats['average'] = String(Math.floor(totalMs / shown.length))
  }
  return { confirmation_stats: stats, confirmations }
}

/** The qualified root of an election: the block's root, then its previous block's hash or zeros. */
function electionRoot(entry: LedgerBlock): string {
  if (entry.block.type !== 'state') throw new Error('the genesis block is confirmed from the start')
  return workRoot(entry.block) + entry.block.previous
}

const confirmationActive: Command = (node) => {
  const roots = node.elections.activeHashes().map((hash) => electionRoot(requireBlock(node, hash)))
  return { confirmations: roots, unconfirmed: String(roots.length), confirmed: '0' }
}

/** Describes the election under way with a qualified root. */
const confirmationInfo: Command = (node, request) => {
  const root = request.text('root').toUpperCase()
  if (!/^[0-9A-F]{1,128}$/.test(root)) throw new RpcError('Invalid root hash')
  const winner = node.elections
    .activeHashes()
    .find((hash) => electionRoot(requireBlock(node, hash)) === root.padStart(128, '0'))
  if (winner === undefined) throw new RpcError('Active confirmation not found')
  const candidate: { [name: string]: Tree } = { tally: '0' }
  if (request.flag('contents', true))
    candidate['contents'] = showContents(requireBlock(node, winner).block, request.flag('json_block', false))
  const blocks = new Pairs([[winner, candidate]])
  return { announcements: '0', voters: '1', last_winner: winner, total_tally: '0', final_tally: '0', blocks }
}

export const blockCommands: { readonly [action: string]: Command } = {
  block_confirm: blockConfirm,
  block_create: blockCreate,
  block_hash: blockHash,
  block_info: blockInfo,
  blocks_info: blocksInfo,
  chain: createWalk(false),
  confirmation_active: confirmationActive,
  confirmation_history: confirmationHistory,
  confirmation_info: confirmationInfo,
  process: processBlock,
  successors: createWalk(true),
}
