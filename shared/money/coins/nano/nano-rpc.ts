import { z } from 'zod'
import type { Log } from '../../../platform/log.ts'
import { MINUTE_MS } from '../../../platform/time.ts'
import { NodeRefused, NodeUnreachable } from '../../node-errors.ts'
import * as answers from './nano-answers.ts'
import type { NanoBlock, NanoReceivable, NanoSubtype, NanoWorkThresholds } from './nano-blocks.ts'
import { assertHash, hashNanoBlock, isEpochBlock, isSignedByAccount } from './nano-blocks.ts'
import { LIVE_WORK_THRESHOLDS, MAX_RAW, workValue } from './nano-blocks.ts'
import { postJson, readNodeUrl, type NodeUrl } from './node-http.ts'

/** Accounts asked about in one request: 68 KB of request, and the bound of the answer below. */
export const RECEIVABLE_BATCH = 1_000
/**
 * Who has this many is asked for alone. 1,000 × 16 entries of at most 125 bytes stay under MAX_ANSWER_BYTES:
 * nobody can make the answer for a thousand accounts too long by sending dust to one.
 */
const RECEIVABLES_EACH = 16
/** 125 KB a page. */
const RECEIVABLE_PAGE = 1_000
/** 10,000 receivables of one account a scan, the largest first; the others come up as those are received. */
const MAX_RECEIVABLE_PAGES = 10
/** About 1,200 bytes a block. */
const BLOCKS_BATCH = 1_000
const MAX_ANSWER_BYTES = 4 * 1024 * 1024
/** 2^29 hashes, the live network's threshold, take a processor a minute on average and four now and then. */
const WORK_TIMEOUT_MS = 4 * MINUTE_MS

export type NanoAccountInfo = z.output<typeof answers.accountInfo> & { readonly address: string }
export type NanoBlockInfo = answers.Block & { readonly hash: string }

/**
 * A Nano node. Each answer is checked against what was asked; hashes are 64 upper-case hex characters,
 * addresses `nano_…`, amounts raw. Every call rejects with NodeUnreachable (no usable answer) or NodeRefused
 * (the node said no, in its own words), or with TypeError for a bad argument, before anything is sent.
 */
export type NanoRpc = ReturnType<typeof createNanoRpc>

interface RpcOptions {
  /** User and password in it become a header and are in no message. */
  url: string
  /** A work server that takes `work_generate`; without one the node needs `enable_control`. */
  workUrl?: string | undefined
  log: Log
  /** For each request but `work_generate`, from the first byte sent to the last received. */
  timeoutMs: number
  workTimeoutMs?: number
}

/** Makes the interface of a Nano node; asks nothing yet. @throws TypeError for a bad URL */
export function createNanoRpc(options: RpcOptions) {
  const node = openNode(options)
  const blocks = blockCalls(node)
  return {
    ...receivableCalls(node),
    ...blocks,
    ...accountCalls(node, blocks.blockInfo),
    ...workCalls(node, options),
    ...networkCalls(node),
  }
}

type NanoNode = ReturnType<typeof openNode>

/** Makes what asks a node, or its work server, and checks the form of its answers. */
function openNode({ url, workUrl, log, timeoutMs }: RpcOptions) {
  const node = readNodeUrl(url, 'http')
  const workServer = workUrl === undefined ? node : readNodeUrl(workUrl, 'http')

  /** Asks the node, or the work server, and checks the form of its answer. */
  async function ask<Answer extends z.ZodType>(
    request: { readonly action: string } & Readonly<Record<string, unknown>>,
    shape: Answer,
    from: NodeUrl = node,
    limitMs = timeoutMs,
  ): Promise<z.output<Answer>> {
    const asked = `${request.action} at ${from.origin}`
    try {
      // Numbers and booleans as texts. The node refuses a request in which more than 20 brackets open.
      const limits = { timeoutMs: limitMs, maxAnswerBytes: MAX_ANSWER_BYTES }
      const answer = await postJson(from, asked, JSON.stringify(request), limits)
      const refused = answers.refusal.safeParse(answer)
      if (refused.success) throw new NodeRefused(asked, refused.data.error)
      const read = shape.safeParse(answer)
      if (!read.success)
        throw new NodeUnreachable(`${asked} was answered in another form: ${describeIssue(read.error)}`)
      return read.data
    } catch (error) {
      log.debug({ err: error, action: request.action }, 'a Nano node gave no answer')
      throw error
    }
  }

  /** The error for an answer that can't be true. */
  function misled(action: string, what: string): NodeUnreachable {
    return new NodeUnreachable(`${action} at ${node.origin} was answered with ${what}`)
  }

  /** @throws NodeUnreachable unless `named` is what was asked for, each once. @param kind in the plural */
  function requireEach(action: string, kind: string, asked: readonly string[], named: readonly string[]) {
    const open = new Set(asked)
    if (!named.every((key) => open.delete(key))) throw misled(action, `${kind} that were not asked for`)
    if (open.size > 0) throw misled(action, `fewer ${kind} than were asked for`)
  }

  return { ask, misled, requireEach, workServer }
}

/** The calls about sends that wait to be received. */
function receivableCalls({ ask, misled }: NanoNode) {
  /**
   * Reads the sends of at least `thresholdRaw` that wait at these addresses: confirmed ones, with
   * `unconfirmed` the others too; the largest first, up to 10,000 of an address. An address without any is
   * not in the map.
   */
  async function receivable(
    addresses: readonly string[],
    thresholdRaw: bigint,
    { unconfirmed = false }: { unconfirmed?: boolean } = {},
  ): Promise<Map<string, NanoReceivable[]>> {
    // At a threshold of 0 the node answers in another shape, without amounts.
    if (thresholdRaw <= 0n || thresholdRaw > MAX_RAW)
      throw new TypeError(`"thresholdRaw" expected 1 to 2^128 - 1, got ${thresholdRaw}`)
    for (const address of addresses) assertAddress('addresses', address)
    const found = new Map<string, NanoReceivable[]>()
    const asked = new Set(addresses) // an account asked for twice is a duplicate key in the answer
    const unique = [...asked]
    for (let start = 0; start < unique.length; start += RECEIVABLE_BATCH) {
      const accounts = unique.slice(start, start + RECEIVABLE_BATCH)
      const options = { count: String(RECEIVABLES_EACH), ...receivableOptions(thresholdRaw, unconfirmed) }
      const request = { action: 'accounts_receivable', accounts, ...options }
      const answer = await ask(request, answers.accountsReceivable)
      for (const [address, entries] of answer.blocks) {
        if (!asked.has(address)) throw misled('accounts_receivable', 'an account that was not asked for')
        checkSends('accounts_receivable', entries, RECEIVABLES_EACH, thresholdRaw)
        // With this call the node cuts by hash and sorts what is left, so a full list may lack the largest.
        const isCut = entries.size === RECEIVABLES_EACH
        const all = isCut ? await receivableOfOne(address, thresholdRaw, unconfirmed) : entries
        if (all.size > 0) found.set(address, toReceivables(all))
      }
    }
    return found
  }

  /** Pages through one address. What is received meanwhile shifts pages: the next call finds what it hid. */
  async function receivableOfOne(address: string, thresholdRaw: bigint, unconfirmed: boolean) {
    const found = new Map<string, bigint>()
    for (let page = 0; page < MAX_RECEIVABLE_PAGES; page += 1) {
      const place = { count: String(RECEIVABLE_PAGE), offset: String(page * RECEIVABLE_PAGE) }
      const options = { ...place, ...receivableOptions(thresholdRaw, unconfirmed) }
      const { blocks } = await ask({ action: 'receivable', account: address, ...options }, answers.receivable)
      checkSends('receivable', blocks, RECEIVABLE_PAGE, thresholdRaw)
      const before = found.size
      for (const [hash, amountRaw] of blocks) found.set(hash, amountRaw)
      if (blocks.size < RECEIVABLE_PAGE) break
      if (found.size === before) throw misled('receivable', 'the same page for every offset')
    }
    return found
  }

  /** @throws NodeUnreachable for more sends than were asked for, or smaller ones */
  function checkSends(action: string, sends: ReadonlyMap<string, bigint>, count: number, leastRaw: bigint) {
    if (sends.size > count) throw misled(action, `more than the ${count} entries asked for`)
    for (const amountRaw of sends.values())
      if (amountRaw < leastRaw) throw misled(action, 'an amount below the threshold')
  }

  return { receivable }
}

/** The calls about blocks, each known by its hash. */
function blockCalls({ ask, misled, requireEach }: NanoNode) {
  /** Reads blocks by their hashes; one that the node doesn't have is not in the map. */
  async function blocksInfo(hashes: readonly string[]): Promise<Map<string, NanoBlockInfo>> {
    for (const hash of hashes) assertHash('hashes', hash)
    const found = new Map<string, NanoBlockInfo>()
    const unique = [...new Set(hashes)]
    for (let start = 0; start < unique.length; start += BLOCKS_BATCH) {
      const asked = unique.slice(start, start + BLOCKS_BATCH)
      const options = { json_block: 'true', include_not_found: 'true', receive_hash: 'true' }
      const answer = await ask({ action: 'blocks_info', hashes: asked, ...options }, answers.blocksInfo)
      const missing = new Set(answer.blocks_not_found)
      requireEach('blocks_info', 'blocks', asked, [...answer.blocks.keys(), ...missing])
      for (const [hash, info] of answer.blocks) {
        requireOwnHash(hash, info)
        found.set(hash, { hash, ...info })
      }
    }
    return found
  }

  /** @throws NodeUnreachable unless the block has this hash, and its account and balance are as told */
  function requireOwnHash(hash: string, { block, account, balanceRaw }: answers.Block): void {
    if (block === undefined) return
    if (hashNanoBlock(block) !== hash) throw misled('blocks_info', 'another block than its hash says')
    if (block.account !== account || BigInt(block.balance) !== balanceRaw)
      throw misled('blocks_info', 'an account or balance that the block does not have')
  }

  async function blockInfo(hash: string): Promise<NanoBlockInfo | undefined> {
    return (await blocksInfo([hash])).get(hash)
  }

  /**
   * Publishes a block. @returns its hash. @throws NodeRefused for many reasons, also if the node has the
   * block: ask blockInfo() before believing one
   */
  async function process(block: NanoBlock, subtype: NanoSubtype): Promise<string> {
    const hash = hashNanoBlock(block)
    const { type, account, previous, representative, balance, link, signature, work } = block
    const fields = { type, account, previous, representative, balance, link, signature, work }
    const request = { action: 'process', json_block: 'true', subtype, block: fields }
    const answer = await ask(request, answers.process)
    if (answer.hash !== hash) throw misled('process', 'the hash of another block')
    return hash
  }

  return { blocksInfo, blockInfo, process }
}

/** The calls about accounts. @param blockInfo reads the block that an account ends with */
function accountCalls(
  { ask, misled, requireEach }: NanoNode,
  blockInfo: ReturnType<typeof blockCalls>['blockInfo'],
) {
  /** Reads the last blocks of accounts, confirmed or not; an account without blocks is not in the map. */
  async function frontiers(addresses: readonly string[]): Promise<Map<string, string>> {
    for (const address of addresses) assertAddress('addresses', address)
    const found = new Map<string, string>()
    const unique = [...new Set(addresses)]
    for (let start = 0; start < unique.length; start += RECEIVABLE_BATCH) {
      const accounts = unique.slice(start, start + RECEIVABLE_BATCH)
      const answer = await ask({ action: 'accounts_frontiers', accounts }, answers.accountsFrontiers)
      for (const reason of answer.errors.values())
        if (reason !== 'Account not found') throw misled('accounts_frontiers', 'an error about an account')
      const named = [...answer.frontiers.keys(), ...answer.errors.keys()]
      requireEach('accounts_frontiers', 'accounts', accounts, named)
      for (const [address, hash] of answer.frontiers) found.set(address, hash)
    }
    return found
  }

  /**
   * Reads an account's newest block ("frontier"), its balance, height and representative, confirmed or not,
   * and its confirmed height and balance. Account, balance and height are compared with the frontier, which
   * is read as well: whoever signs a send over a wrong balance sends another amount than intended. What is
   * said of confirmation is the node's word.
   *
   * @returns undefined if the account has no blocks
   * @throws NodeUnreachable also if the answer contradicts the frontier
   */
  async function accountInfo(address: string): Promise<NanoAccountInfo | undefined> {
    assertAddress('address', address)
    let info: z.output<typeof answers.accountInfo>
    const options = { include_confirmed: 'true', representative: 'true' }
    try {
      info = await ask({ action: 'account_info', account: address, ...options }, answers.accountInfo)
    } catch (error) {
      if (error instanceof NodeRefused && error.reason === 'Account not found') return undefined
      throw error
    }
    // The frontier's hash, which blockInfo() has checked, and its signature cover account and balance.
    const frontier = await blockInfo(info.frontier)
    if (frontier === undefined) throw misled('account_info', 'a frontier that the node does not have')
    if (frontier.account !== address) throw misled('account_info', "another account's frontier")
    if (frontier.balanceRaw !== info.balanceRaw)
      throw misled('account_info', 'another balance than its frontier has')
    if (frontier.height !== info.height) throw misled('account_info', 'another height than its frontier has')
    if (info.confirmedHeight > info.height)
      throw misled('account_info', 'more blocks confirmed than there are')
    const { block } = frontier
    // Nothing is proven by an epoch block, which the account doesn't sign, or by a block of an older kind,
    // which comes without its fields: what is signed on it is compared with what is stored.
    if (block !== undefined && !isEpochBlock(block) && !isSignedByAccount(block))
      throw misled('account_info', 'a frontier that the account did not sign')
    return { address, ...info }
  }

  return { frontiers, accountInfo }
}

/** The calls about proof of work. */
function workCalls({ ask, workServer }: NanoNode, { workTimeoutMs = WORK_TIMEOUT_MS }: RpcOptions) {
  let knownThresholds: NanoWorkThresholds | undefined

  /**
   * Reads how much work the network asks for, at most as much as the live one: more would be a lie or a
   * mistake. For a node that refuses the (deprecated) call it is the live network's, which is enough
   * anywhere.
   */
  async function workThresholds(): Promise<NanoWorkThresholds> {
    if (knownThresholds !== undefined) return knownThresholds
    try {
      const answer = await ask({ action: 'active_difficulty' }, answers.activeDifficulty)
      knownThresholds = {
        send: lesser(answer.network_minimum, LIVE_WORK_THRESHOLDS.send),
        receive: lesser(answer.network_receive_minimum, LIVE_WORK_THRESHOLDS.receive),
      }
    } catch (error) {
      if (!(error instanceof NodeRefused)) throw error
      return LIVE_WORK_THRESHOLDS
    }
    return knownThresholds
  }

  /** Asks for work for a root (workRootOf()). @returns 16 lower-case hex characters, checked */
  async function generateWork(root: string, threshold: bigint, limitMs = workTimeoutMs): Promise<string> {
    assertHash('root', root)
    if (threshold < 0n || threshold > LIVE_WORK_THRESHOLDS.send)
      throw new TypeError(`"threshold" expected 0 to the live network's, got ${threshold}`)
    const difficulty = threshold.toString(16).padStart(16, '0')
    const request = { action: 'work_generate', hash: root, difficulty }
    let work: string
    try {
      ;({ work } = await ask(request, answers.work, workServer, limitMs))
    } catch (error) {
      // A search goes on after its caller has gone, and the next one for the root would queue behind it.
      if (error instanceof NodeUnreachable)
        await ask({ action: 'work_cancel', hash: root }, z.unknown(), workServer).catch(() => undefined)
      throw error
    }
    if (workValue(root, work) < threshold)
      throw new NodeUnreachable(`work_generate at ${workServer.origin} was answered with too little work`)
    return work
  }

  return { workThresholds, generateWork }
}

/** The calls about the network, and how far the node is with it. */
function networkCalls({ ask, misled }: NanoNode) {
  return {
    /** `live`, `beta`, `test` or `dev`. */
    network: async (): Promise<string> => (await ask({ action: 'version' }, answers.version)).network,
    countPeers: async (): Promise<number> => (await ask({ action: 'peers' }, answers.peers)).peers.size,
    /** How many blocks its peers have confirmed, on average; undefined if it does not know. */
    async peersCemented(): Promise<number | undefined> {
      try {
        return (await ask({ action: 'telemetry' }, answers.telemetry)).cemented_count
      } catch (error) {
        if (error instanceof NodeRefused) return undefined
        throw error
      }
    },
    /** How many blocks it has, has confirmed (`cemented`) and, if it does that, thrown away (`pruned`). */
    async blockCount() {
      const answer = await ask({ action: 'block_count' }, answers.blockCount)
      if (answer.cemented > answer.count) throw misled('block_count', 'more confirmed blocks than blocks')
      return answer
    },
  }
}

/** The node's options for confirmed sends alone, or for those in an election too; sorted by amount. */
function receivableOptions(thresholdRaw: bigint, unconfirmed: boolean): Readonly<Record<string, string>> {
  return {
    threshold: thresholdRaw.toString(),
    include_only_confirmed: String(!unconfirmed),
    include_active: String(unconfirmed),
    sorting: 'true',
  }
}

/** Lists sends, the largest first. */
function toReceivables(entries: ReadonlyMap<string, bigint>): NanoReceivable[] {
  const list = Array.from(entries, ([hash, amountRaw]) => ({ hash, amountRaw }))
  return list.sort(({ amountRaw: left }, { amountRaw: right }) =>
    left === right ? 0 : left > right ? -1 : 1,
  )
}

/** The path may hold what the node sent, so it is kept short. */
function describeIssue(error: z.ZodError): string {
  const issue = error.issues[0]
  return `${issue?.path.join('.').slice(0, 100) ?? ''}: ${issue?.message.slice(0, 100) ?? ''}`
}

const ADDRESS = /^nano_[13][13456789abcdefghijkmnopqrstuwxyz]{59}$/

/** Checks the form alone: these are our own addresses, and one bad checksum only makes the node refuse. */
function assertAddress(name: string, address: string): void {
  if (!ADDRESS.test(address)) throw new TypeError(`"${name}" expected nano_ addresses`)
}

const lesser = (left: bigint, right: bigint): bigint => (left < right ? left : right)
