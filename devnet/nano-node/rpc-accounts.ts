import { encodeAddress, formatHex64, zeroHash } from './encoding.ts'
import type { Tree, TreeReader } from './json-tree.ts'
import { Pairs } from './json-tree.ts'
import type { LedgerAccount, LedgerBlock, NanoLedger, Receivable } from './ledger.ts'
import type { NodeState } from './node-state.ts'
import type { Command } from './rpc-arguments.ts'
import {
  noLimit,
  parseAccount,
  readCount,
  readHash,
  readOffset,
  readOptionalCount,
  readThreshold,
  RpcError,
} from './rpc-arguments.ts'

/** Returns an account of the ledger. @throws RpcError if it has no block */
function requireOpened(node: NodeState, publicKey: string): LedgerAccount {
  const account = node.ledger.accounts.get(publicKey)
  if (account === undefined) throw new RpcError('Account not found')
  return account
}

/** An account's balance and what it can still receive, in raw; 0 for an unknown account. */
function showBalances(node: NodeState, publicKey: string, onlyConfirmed: boolean): Tree {
  const ledger = node.ledger
  const balance = onlyConfirmed
    ? (ledger.confirmedFrontier(publicKey)?.balance ?? 0n)
    : ledger.balance(publicKey)
  const receivable = ledger.receivableSum(publicKey, onlyConfirmed).toString()
  return { balance: balance.toString(), pending: receivable, receivable }
}

const accountBalance: Command = (node, request) =>
  showBalances(node, parseAccount(request.text('account')), request.flag('include_only_confirmed', true))

/**
 * Answers for each of the request's accounts once.
 *
 * @param name of the field with the answers; the accounts that failed are in `errors`
 * @throws RpcError if no account is named
 */
function answerPerAccount(
  request: TreeReader,
  name: string,
  answer: (publicKey: string, address: string) => [key: string, value: Tree],
): Tree {
  const answers = new Map<string, Tree>()
  const errors = new Map<string, Tree>()
  for (const address of request.texts('accounts')) {
    try {
      const [key, value] = answer(parseAccount(address), address)
      answers.set(key, value)
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      errors.set(address, error.message)
    }
  }
  if (answers.size + errors.size === 0) throw new RpcError('Empty response')
  const result = new Pairs()
  if (answers.size > 0) result.add(name, new Pairs(answers))
  if (errors.size > 0) result.add('errors', new Pairs(errors))
  return result
}

const accountsBalances: Command = (node, request) => {
  const onlyConfirmed = request.flag('include_only_confirmed', true)
  return answerPerAccount(request, 'balances', (publicKey, address) => [
    address,
    showBalances(node, publicKey, onlyConfirmed),
  ])
}

const accountsFrontiers: Command = (node, request) =>
  answerPerAccount(request, 'frontiers', (publicKey) => [
    encodeAddress(publicKey),
    requireOpened(node, publicKey).chain.at(-1) ?? zeroHash,
  ])

const accountsRepresentatives: Command = (node, request) =>
  answerPerAccount(request, 'representatives', (publicKey, address) => [
    address,
    encodeAddress(requireOpened(node, publicKey).representative),
  ])

const accountInfo: Command = (node, request) => {
  const publicKey = parseAccount(request.text('account'))
  const account = requireOpened(node, publicKey)
  const ledger = node.ledger
  const withConfirmed = request.flag('include_confirmed', false)
  const confirmed = ledger.confirmedFrontier(publicKey)
  const confirmedHash = confirmed?.hash ?? zeroHash
  const answer: { [name: string]: Tree } = {
    frontier: account.chain.at(-1) ?? zeroHash,
    open_block: account.chain[0] ?? zeroHash,
    // Every state block names a representative, so it is the frontier itself.
    representative_block: account.chain.at(-1) ?? zeroHash,
    balance: account.balance.toString(),
  }
  if (withConfirmed) answer['confirmed_balance'] = (confirmed?.balance ?? 0n).toString()
  answer['modified_timestamp'] = String(account.modifiedS)
  answer['block_count'] = String(account.chain.length)
  answer['account_version'] = String(account.epoch)
  answer[withConfirmed ? 'confirmed_height' : 'confirmation_height'] = String(account.confirmedHeight)
  answer[withConfirmed ? 'confirmed_frontier' : 'confirmation_height_frontier'] = confirmedHash
  if (request.flag('representative', false)) {
    answer['representative'] = encodeAddress(account.representative)
    if (withConfirmed)
      answer['confirmed_representative'] = encodeAddress(confirmed?.block.representative ?? zeroHash)
  }
  if (request.flag('weight', false)) answer['weight'] = ledger.weight(publicKey).toString()
  if (request.flag('receivable', request.flag('pending', false))) {
    const sum = ledger.receivableSum(publicKey, false).toString()
    const confirmedSum = ledger.receivableSum(publicKey, true).toString()
    Object.assign(answer, { pending: sum, receivable: sum })
    if (withConfirmed)
      Object.assign(answer, { confirmed_pending: confirmedSum, confirmed_receivable: confirmedSum })
  }
  return answer
}

/** Which receivables are shown; the names are the request's options. */
interface Visibility {
  readonly includeActive: boolean
  readonly onlyConfirmed: boolean
}

/** Reads the request's options: without active elections, and confirmed sends alone, by default. */
function readVisibility(request: TreeReader): Visibility {
  return {
    includeActive: request.flag('include_active', false),
    onlyConfirmed: request.flag('include_only_confirmed', true),
  }
}

/**
 * Whether a send is shown as receivable. Without include_active an unconfirmed one stays hidden while it is
 * being voted on, whatever include_only_confirmed says.
 */
function isVisible(node: NodeState, hash: string, { includeActive, onlyConfirmed }: Visibility): boolean {
  if (node.ledger.blocks.get(hash)?.confirmed === true) return true
  if (onlyConfirmed) return false
  return includeActive || !node.elections.isActive(hash)
}

interface ReceivableOptions extends Visibility {
  readonly count: number
  readonly offset: number
  /** Leaves out receivables of less than this, in raw. */
  readonly threshold: bigint
  /** Shows who sent it. */
  readonly source: boolean
  /** Shows the epoch of the send. */
  readonly minVersion: boolean
  /** Sorts by amount, the largest first. */
  readonly sorting: boolean
}

/** A receivable's amount, or fields with the amount and what the options ask for. */
function describeReceivable(entry: Receivable, options: ReceivableOptions): Tree {
  const amount = entry.amount.toString()
  if (!options.source && !options.minVersion) return amount
  return {
    amount,
    ...(options.source ? { source: encodeAddress(entry.source) } : {}),
    ...(options.minVersion ? { min_version: String(entry.epoch) } : {}),
  }
}

/** Largest first, for sort(). */
const byAmount = (left: bigint, right: bigint): number => (left === right ? 0 : left > right ? -1 : 1)

/**
 * An account's receivables: a list of hashes, or hash → amount, or hash → fields, depending on the options.
 */
function listReceivables(node: NodeState, publicKey: string, options: ReceivableOptions): Tree[] | Pairs {
  const visible = node.ledger.receivablesOf(publicKey).filter((entry) => isVisible(node, entry.hash, options))
  const end = options.offset + options.count
  if (options.threshold === 0n && !options.source && !options.minVersion && !options.sorting) {
    return visible.slice(options.offset, end).map((entry) => entry.hash)
  }
  const pairs = new Pairs()
  // Unsorted, the offset counts entries below the threshold too.
  const candidates = options.sorting ? visible : visible.slice(options.offset)
  const enough = candidates.filter((entry) => entry.amount >= options.threshold)
  if (options.sorting) enough.sort((left, right) => byAmount(left.amount, right.amount))
  const page = options.sorting ? enough.slice(options.offset, end) : enough.slice(0, options.count)
  for (const entry of page) pairs.add(entry.hash, describeReceivable(entry, options))
  return pairs
}

const receivable: Command = (node, request) => {
  const publicKey = parseAccount(request.text('account'))
  const options = {
    ...readVisibility(request),
    count: readOptionalCount(request, noLimit),
    offset: readOffset(request),
    threshold: readThreshold(request),
    source: request.flag('source', false),
    minVersion: request.flag('min_version', false),
    sorting: request.flag('sorting', false),
  }
  const deprecated = request.optionalText('action') === 'pending' ? { deprecated: '1' } : {}
  return { ...deprecated, blocks: listReceivables(node, publicKey, options) }
}

const accountsReceivable: Command = (node, request) => {
  const count = readOptionalCount(request, noLimit)
  const options = {
    ...readVisibility(request),
    count,
    offset: 0,
    threshold: readThreshold(request),
    source: request.flag('source', false),
    minVersion: false,
    sorting: false,
  }
  const sorting = request.flag('sorting', false)
  const accounts = request.texts('accounts').map((address) => parseAccount(address))
  const blocks = new Pairs()
  for (const publicKey of accounts) {
    // The node takes the first `count`, then sorts those.
    const page = sorting
      ? listCutThenSorted(node, publicKey, options)
      : listReceivables(node, publicKey, options)
    if ((page instanceof Pairs ? page.entries : page).length > 0) blocks.add(encodeAddress(publicKey), page)
  }
  return { blocks }
}

/**
 * Cuts an account's receivables to `count` by their hashes and sorts what is left, as the node does: so the
 * largest may be missing.
 */
function listCutThenSorted(node: NodeState, publicKey: string, options: ReceivableOptions): Pairs {
  const amounts = new Map(node.ledger.receivablesOf(publicKey).map((entry) => [entry.hash, entry.amount]))
  const amountOf = (hash: string): bigint => amounts.get(hash) ?? 0n
  // A threshold of 1 raw selects the form with amounts and leaves out nothing, since nobody can send 0.
  const threshold = options.threshold === 0n ? 1n : options.threshold
  const page = listReceivables(node, publicKey, { ...options, threshold })
  if (!(page instanceof Pairs)) throw new Error('a threshold gives pairs')
  page.entries.sort(([left], [right]) => byAmount(amountOf(left), amountOf(right)))
  return page
}

const receivableExists: Command = (node, request) => {
  const hash = readHash(request)
  const entry = node.ledger.blocks.get(hash)
  if (entry === undefined) throw new RpcError('Block not found')
  const waits =
    entry.block.type === 'state' && node.ledger.receivables.get(entry.block.link)?.has(hash) === true
  return { exists: waits && isVisible(node, hash, readVisibility(request)) ? '1' : '0' }
}

interface HistoryOptions {
  /** Shows blocks of every kind, with all their fields. */
  readonly raw: boolean
  /** Shows only sends to and receives from these public keys; if empty, everything. */
  readonly only: readonly string[]
}

/** The fields of a block in an account's history; null if the options leave it out. */
function toHistoryEntry(
  ledger: NanoLedger,
  entry: LedgerBlock,
  { raw, only }: HistoryOptions,
): { [name: string]: Tree } | null {
  const { block, kind } = entry
  if (block.type === 'open') {
    const shown = raw
      ? {
          type: 'open',
          representative: encodeAddress(block.representative),
          source: block.source,
          opened: encodeAddress(block.account),
        }
      : { type: 'receive' }
    return { ...shown, account: encodeAddress(ledger.genesisAccount), amount: entry.amount.toString() }
  }
  const ofType = (name: string): { [name: string]: Tree } => {
    if (!raw) return { type: name }
    const { representative, link, balance, previous } = block
    return {
      type: 'state',
      representative: encodeAddress(representative),
      link,
      balance: balance.toString(),
      previous,
      subtype: name,
    }
  }
  if (kind === 'send' || kind === 'receive') {
    const counterparty = kind === 'send' ? block.link : ledger.blocks.get(block.link)?.account
    if (counterparty !== undefined && only.length > 0 && !only.includes(counterparty)) return null
    const named = counterparty === undefined ? {} : { account: encodeAddress(counterparty) }
    return { ...ofType(kind), ...named, amount: entry.amount.toString() }
  }
  if (!raw || only.length > 0) return null
  return kind === 'epoch'
    ? { ...ofType('epoch'), account: encodeAddress(ledger.genesisAccount) }
    : ofType('change')
}

/**
 * Lists an account's blocks, from the frontier or the block `head` back, or with `reverse` from the first one
 * on. Ends with the hash to go on from, if there is more.
 */
const accountHistory: Command = (node, request) => {
  const ledger = node.ledger
  const only = request.has('account_filter')
    ? request.texts('account_filter').map((address) => parseAccount(address))
    : []
  const reverse = request.flag('reverse', false)
  const raw = request.flag('raw', false)
  const count = readCount(request)
  let offset = readOffset(request)
  let publicKey: string
  let hash: string
  if (request.has('head')) {
    hash = readHash(request, 'head', 'Bad hash number')
    const head = ledger.blocks.get(hash)
    if (head === undefined) throw new RpcError('Block not found')
    publicKey = head.account
  } else {
    publicKey = parseAccount(request.text('account'))
    hash = reverse ? (requireOpened(node, publicKey).chain[0] ?? zeroHash) : ledger.frontier(publicKey)
  }
  const history: Tree[] = []
  for (
    let entry = ledger.blocks.get(hash);
    entry !== undefined && history.length < count;
    entry = ledger.blocks.get(hash)
  ) {
    const shown = offset > 0 ? null : toHistoryEntry(ledger, entry, { raw, only })
    offset = Math.max(0, offset - 1)
    if (shown !== null) {
      const proof = raw ? { work: formatHex64(entry.block.work), signature: entry.block.signature } : {}
      const place = {
        local_timestamp: String(entry.timestampS),
        height: String(entry.height),
        hash,
        confirmed: String(entry.confirmed),
      }
      history.push({ ...shown, ...place, ...proof })
    }
    const previous = entry.block.type === 'state' ? entry.block.previous : zeroHash
    hash = reverse ? entry.successor : previous
  }
  const rest = hash === zeroHash ? {} : { [reverse ? 'next' : 'previous']: hash }
  return { account: encodeAddress(publicKey), history, ...rest }
}

const accountBlockCount: Command = (node, request) => ({
  block_count: String(requireOpened(node, parseAccount(request.text('account'))).chain.length),
})

const accountWeight: Command = (node, request) => ({
  weight: node.ledger.weight(parseAccount(request.text('account'))).toString(),
})

/** Lists the accounts that a representative votes for, by public key, with their balances. */
const delegators: Command = (node, request) => {
  const representative = parseAccount(request.text('account'))
  const count = readOptionalCount(request, 1024)
  const threshold = readThreshold(request)
  const accounts = [...node.ledger.accounts.values()]
    .filter((account) => account.representative === representative && account.balance >= threshold)
    .sort((left, right) => (left.publicKey < right.publicKey ? -1 : 1))
  const pairs = new Pairs()
  for (const account of accounts.slice(0, count))
    pairs.add(encodeAddress(account.publicKey), account.balance.toString())
  return { delegators: pairs }
}

export const accountCommands: { readonly [action: string]: Command } = {
  account_balance: accountBalance,
  account_block_count: accountBlockCount,
  account_history: accountHistory,
  account_info: accountInfo,
  account_weight: accountWeight,
  accounts_balances: accountsBalances,
  accounts_frontiers: accountsFrontiers,
  accounts_receivable: accountsReceivable,
  accounts_representatives: accountsRepresentatives,
  delegators,
  pending: receivable,
  receivable,
  receivable_exists: receivableExists,
}
