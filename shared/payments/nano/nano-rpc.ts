import type { z } from 'zod'
import type { Log } from '../../foundation/log.ts'
import { MINUTE_MS } from '../../foundation/time.ts'
import { NodeRefused, NodeUnreachable } from '../node-errors.ts'
import type { BlockFields } from './nano-answers.ts'
import {
  accountInfoAnswer,
  accountsFrontiersAnswer,
  accountsReceivableAnswer,
  activeDifficultyAnswer,
  blockCountAnswer,
  blocksInfoAnswer,
  peersAnswer,
  processAnswer,
  receivableAnswer,
  refusal,
  telemetryAnswer,
  versionAnswer,
  workAnswer,
} from './nano-answers.ts'
import type { NanoBlock, NanoSubtype, NanoWorkThresholds } from './nano-blocks.ts'
import {
  hashNanoBlock,
  isEpochBlock,
  isSignedByAccount,
  LIVE_WORK_THRESHOLDS,
  MAX_RAW,
  workValue,
  ZERO_HASH,
} from './nano-blocks.ts'
import { postJson } from './node-http.ts'
import { readNodeUrl, type NodeUrl } from './node-url.ts'

/** Accounts asked about in one request: 68 KB of request, and the bound of the answer below. */
export const RECEIVABLE_BATCH = 1_000
/**
 * Who has this many is asked for alone. 1,000 × 16 entries of at most 125 bytes stay under MAX_ANSWER_BYTES:
 * nobody can make the answer for a thousand accounts too long by sending dust to one.
 */
const RECEIVABLES_EACH = 16
/** 125 KB a page. */
const RECEIVABLE_PAGE = 1_000
/** 10,000 receivables of one account a look, the largest first; the others come up as those are received. */
const MAX_RECEIVABLE_PAGES = 10
/** About 1,200 bytes a block. */
const BLOCKS_BATCH = 1_000
const MAX_ANSWER_BYTES = 4 * 1024 * 1024
/** 2^29 hashes, the live network's threshold, take a processor a minute on average and four now and then. */
const WORK_TIMEOUT_MS = 4 * MINUTE_MS

export interface NanoRpcOptions {
  /** User and password in it become a header and are in no message. */
  readonly url: string
  /** A work server that takes `work_generate`; without one the node needs `enable_control`. */
  readonly workUrl?: string | undefined
  readonly log: Log
  /** For each request but `work_generate`, from the first byte sent to the last received. */
  readonly timeoutMs: number
  readonly workTimeoutMs?: number
}

export interface NanoReceivable {
  readonly hash: string
  readonly amountRaw: bigint
}

export interface NanoAccountInfo {
  readonly address: string
  /** Confirmed or not; height, balance and representative are as of it. */
  readonly frontier: string
  readonly height: number
  readonly balanceRaw: bigint
  readonly representative: string
  readonly confirmedFrontier: string | undefined
  readonly confirmedBalanceRaw: bigint
}

export interface NanoBlockInfo {
  readonly hash: string
  readonly account: string
  /** What was sent or received; undefined if the node no longer has the block before. */
  readonly amountRaw: bigint | undefined
  readonly balanceRaw: bigint
  readonly height: number
  readonly successor: string | undefined
  readonly confirmed: boolean
  /** `send`, `receive`, `change` or `epoch`; undefined for a block older than state blocks. */
  readonly subtype: string | undefined
  readonly block: NanoBlock | undefined
  /** Of a send: the block that received it; undefined while there is none. */
  readonly receivedBy: string | undefined
}

type Request = { readonly action: string } & Readonly<Record<string, unknown>>

/**
 * Each answer is checked against what was asked; hashes are 64 upper-case hex characters, addresses `nano_…`,
 * amounts raw. Every call rejects with NodeUnreachable (no news) or NodeRefused (the node's own sentence), or
 * a TypeError for a bad argument, before anything is sent.
 */
export type NanoRpc = ReturnType<typeof createNanoRpc>

export function createNanoRpc({
  url,
  workUrl,
  log,
  timeoutMs,
  workTimeoutMs = WORK_TIMEOUT_MS,
}: NanoRpcOptions) {
  const node = readNodeUrl(url, 'http')
  const workServer = workUrl === undefined ? node : readNodeUrl(workUrl, 'http')
  let knownThresholds: NanoWorkThresholds | undefined

  async function ask<Answer extends z.ZodType>(
    request: Request,
    shape: Answer,
    from: NodeUrl = node,
    limitMs = timeoutMs,
  ): Promise<z.output<Answer>> {
    const asked = `${request.action} at ${from.origin}`
    try {
      // Numbers and booleans as texts. The node refuses a request in which more than 20 brackets open.
      const answer = await postJson(from, asked, JSON.stringify(request), {
        timeoutMs: limitMs,
        maxAnswerBytes: MAX_ANSWER_BYTES,
      })
      const refused = refusal.safeParse(answer)
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

  function misled(action: string, what: string): NodeUnreachable {
    return new NodeUnreachable(`${action} at ${node.origin} was answered with ${what}`)
  }

  async function receivable(
    addresses: readonly string[],
    thresholdRaw: bigint,
    { unconfirmed = false }: { unconfirmed?: boolean } = {},
  ): Promise<Map<string, NanoReceivable[]>> {
    // At a threshold of 0 the node answers in another shape, without amounts.
    if (thresholdRaw <= 0n || thresholdRaw > MAX_RAW)
      throw new TypeError(`"thresholdRaw" expected 1 to 2^128 - 1, got ${thresholdRaw}`)
    // By length and prefix alone: a round asks for very many.
    for (const address of addresses)
      if (address.length !== ADDRESS_LENGTH || !address.startsWith('nano_'))
        throw new TypeError('"addresses" expected nano_ addresses')
    const found = new Map<string, NanoReceivable[]>()
    const asked = new Set(addresses) // an account asked for twice is a duplicate key in the answer
    const unique = [...asked]
    for (let start = 0; start < unique.length; start += RECEIVABLE_BATCH) {
      const accounts = unique.slice(start, start + RECEIVABLE_BATCH)
      const options = { count: String(RECEIVABLES_EACH), ...receivableOptions(thresholdRaw, unconfirmed) }
      const answer = await ask(
        { action: 'accounts_receivable', accounts, ...options },
        accountsReceivableAnswer,
      )
      for (const [address, entries] of answer.blocks) {
        if (!asked.has(address)) throw misled('accounts_receivable', 'an account that was not asked for')
        checkReceivables('accounts_receivable', entries, RECEIVABLES_EACH, thresholdRaw)
        // With this call the node cuts by hash and sorts what is left, so a full list may lack the largest.
        const isCut = entries.size === RECEIVABLES_EACH
        const all = isCut ? await receivableOfOne(address, thresholdRaw, unconfirmed) : entries
        if (all.size > 0) found.set(address, toReceivables(all))
      }
    }
    return found
  }

  /** What is received meanwhile shifts the pages; the next call finds what that hid. */
  async function receivableOfOne(address: string, thresholdRaw: bigint, unconfirmed: boolean) {
    const found = new Map<string, bigint>()
    for (let page = 0; page < MAX_RECEIVABLE_PAGES; page += 1) {
      const place = { count: String(RECEIVABLE_PAGE), offset: String(page * RECEIVABLE_PAGE) }
      const options = { ...place, ...receivableOptions(thresholdRaw, unconfirmed) }
      const { blocks } = await ask({ action: 'receivable', account: address, ...options }, receivableAnswer)
      checkReceivables('receivable', blocks, RECEIVABLE_PAGE, thresholdRaw)
      const before = found.size
      for (const [hash, amountRaw] of blocks) found.set(hash, amountRaw)
      if (blocks.size < RECEIVABLE_PAGE) break
      if (found.size === before) throw misled('receivable', 'the same page for every offset')
    }
    return found
  }

  function checkReceivables(
    action: string,
    entries: ReadonlyMap<string, bigint>,
    count: number,
    thresholdRaw: bigint,
  ): void {
    if (entries.size > count) throw misled(action, `more than the ${count} entries asked for`)
    for (const amountRaw of entries.values())
      if (amountRaw < thresholdRaw) throw misled(action, 'an amount below the threshold')
  }

  async function frontiers(addresses: readonly string[]): Promise<Map<string, string>> {
    for (const address of addresses) assertAddress('addresses', address)
    const found = new Map<string, string>()
    const unique = [...new Set(addresses)]
    for (let start = 0; start < unique.length; start += RECEIVABLE_BATCH) {
      const batch = new Set(unique.slice(start, start + RECEIVABLE_BATCH))
      const answer = await ask(
        { action: 'accounts_frontiers', accounts: [...batch] },
        accountsFrontiersAnswer,
      )
      for (const [address, hash] of answer.frontiers ?? []) {
        if (!batch.delete(address)) throw misled('accounts_frontiers', 'an account that was not asked for')
        found.set(address, hash)
      }
      for (const [address, reason] of answer.errors ?? [])
        if (reason !== 'Account not found' || !batch.delete(address))
          throw misled('accounts_frontiers', 'an error about an account')
      if (batch.size > 0) throw misled('accounts_frontiers', 'fewer accounts than were asked for')
    }
    return found
  }

  async function accountInfo(address: string): Promise<NanoAccountInfo | undefined> {
    assertAddress('address', address)
    let answer: z.output<typeof accountInfoAnswer>
    try {
      answer = await ask(
        { action: 'account_info', account: address, include_confirmed: 'true', representative: 'true' },
        accountInfoAnswer,
      )
    } catch (error) {
      if (error instanceof NodeRefused && error.reason === 'Account not found') return undefined
      throw error
    }
    // Who signs a send over a wrong balance sends another amount than he means: the block itself names
    // account and balance, and its hash and signature cover both.
    const frontier = await blockInfo(answer.frontier)
    if (frontier === undefined) throw misled('account_info', 'a frontier that the node does not have')
    if (frontier.account !== address) throw misled('account_info', "another account's frontier")
    if (frontier.balanceRaw !== answer.balance)
      throw misled('account_info', 'another balance than its frontier has')
    if (frontier.height !== answer.block_count)
      throw misled('account_info', 'another height than its frontier has')
    if (answer.confirmed_height > answer.block_count)
      throw misled('account_info', 'more blocks confirmed than there are')
    const { block } = frontier
    // The balance of a block of another kind is the node's word: what is signed on it is compared with what
    // is stored.
    if (block !== undefined && !isEpochBlock(block) && !isSignedByAccount(block))
      throw misled('account_info', 'a frontier that the account did not sign')
    return {
      address,
      frontier: answer.frontier,
      height: answer.block_count,
      balanceRaw: answer.balance,
      representative: answer.representative,
      confirmedFrontier: unlessZero(answer.confirmed_frontier),
      confirmedBalanceRaw: answer.confirmed_balance,
    }
  }

  async function blocksInfo(hashes: readonly string[]): Promise<Map<string, NanoBlockInfo>> {
    for (const hash of hashes) assertHash('hashes', hash)
    const found = new Map<string, NanoBlockInfo>()
    const unique = [...new Set(hashes)]
    for (let start = 0; start < unique.length; start += BLOCKS_BATCH) {
      const batch = new Set(unique.slice(start, start + BLOCKS_BATCH))
      const options = { json_block: 'true', include_not_found: 'true', receive_hash: 'true' }
      const answer = await ask({ action: 'blocks_info', hashes: [...batch], ...options }, blocksInfoAnswer)
      const missing = new Set(answer.blocks_not_found)
      for (const hash of [...answer.blocks.keys(), ...missing])
        if (!batch.delete(hash)) throw misled('blocks_info', 'a block that was not asked for')
      if (batch.size > 0) throw misled('blocks_info', 'fewer blocks than were asked for')
      for (const [hash, fields] of answer.blocks) found.set(hash, readBlock(hash, fields))
    }
    return found
  }

  function readBlock(hash: string, fields: BlockFields): NanoBlockInfo {
    const block = fields.contents
    if (block !== undefined) {
      if (hashNanoBlock(block) !== hash) throw misled('blocks_info', 'another block than its hash says')
      if (block.account !== fields.block_account || BigInt(block.balance) !== fields.balance)
        throw misled('blocks_info', 'an account or balance that the block does not have')
    }
    return {
      hash,
      account: fields.block_account,
      amountRaw: fields.amount,
      balanceRaw: fields.balance,
      height: fields.height,
      successor: unlessZero(fields.successor),
      confirmed: fields.confirmed,
      subtype: fields.subtype,
      block,
      receivedBy: unlessZero(fields.receive_hash ?? ZERO_HASH),
    }
  }

  async function blockInfo(hash: string): Promise<NanoBlockInfo | undefined> {
    return (await blocksInfo([hash])).get(hash)
  }

  async function process(block: NanoBlock, subtype: NanoSubtype): Promise<string> {
    const hash = hashNanoBlock(block)
    const { type, account, previous, representative, balance, link, signature, work } = block
    const fields = { type, account, previous, representative, balance, link, signature, work }
    const answer = await ask({ action: 'process', json_block: 'true', subtype, block: fields }, processAnswer)
    if (answer.hash !== hash) throw misled('process', 'the hash of another block')
    return hash
  }

  /**
   * Without a difficulty work_generate makes 64 times as much as a receive needs. More than the live
   * network's is a lie or a mistake. A node that refuses the (deprecated) call gets live work, good anywhere.
   */
  async function workThresholds(): Promise<NanoWorkThresholds> {
    if (knownThresholds !== undefined) return knownThresholds
    try {
      const answer = await ask({ action: 'active_difficulty' }, activeDifficultyAnswer)
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

  async function generateWork(root: string, threshold: bigint, limitMs = workTimeoutMs): Promise<string> {
    assertHash('root', root)
    if (threshold < 0n || threshold > LIVE_WORK_THRESHOLDS.send)
      throw new TypeError(`"threshold" expected 0 to the live network's, got ${threshold}`)
    const difficulty = threshold.toString(16).padStart(16, '0')
    const request = { action: 'work_generate', hash: root, difficulty }
    let work: string
    try {
      ;({ work } = await ask(request, workAnswer, workServer, limitMs))
    } catch (error) {
      if (error instanceof NodeUnreachable) await cancelWork(root)
      throw error
    }
    if (workValue(root, work) < threshold)
      throw new NodeUnreachable(`work_generate at ${workServer.origin} was answered with too little work`)
    return work
  }

  /** A search goes on after its caller has gone, and the next one for the root would queue behind it. */
  async function cancelWork(root: string): Promise<void> {
    try {
      await postJson(workServer, 'work_cancel', JSON.stringify({ action: 'work_cancel', hash: root }), {
        timeoutMs,
        maxAnswerBytes: MAX_ANSWER_BYTES,
      })
    } catch (error) {
      log.debug({ err: error }, 'work was not cancelled')
    }
  }

  return {
    /** Confirmed sends, largest first, up to 10,000 an account; with `unconfirmed` the others, too. */
    receivable,
    /** Confirmed or not; accounts without blocks are not in the map. */
    frontiers,
    /** Undefined for an account without blocks. */
    accountInfo,
    /** Those that the node does not have are not in the map. */
    blocksInfo,
    blockInfo,
    /** One that the node has already is refused in several ways: ask blockInfo() before believing one. */
    process,
    /** Never more than the live network does. */
    workThresholds,
    /** For a root (workRootOf): 16 lower-case hex characters, checked to reach the threshold. */
    generateWork,
    /** `live`, `beta`, `test` or `dev`. */
    network: async (): Promise<string> => (await ask({ action: 'version' }, versionAnswer)).network,
    countPeers: async (): Promise<number> => (await ask({ action: 'peers' }, peersAnswer)).peers.size,
    /** On average; undefined if it does not know. */
    async peersCemented(): Promise<number | undefined> {
      try {
        return (await ask({ action: 'telemetry' }, telemetryAnswer)).cemented_count
      } catch (error) {
        if (error instanceof NodeRefused) return undefined
        throw error
      }
    },
    /** `pruned`: blocks that it has thrown away; undefined if it keeps all. */
    async blockCount() {
      const answer = await ask({ action: 'block_count' }, blockCountAnswer)
      if (answer.cemented > answer.count) throw misled('block_count', 'more confirmed blocks than blocks')
      return answer
    },
  }
}

/** Only confirmed sends (nothing else is money), or those that an election still holds as well; sorted. */
function receivableOptions(thresholdRaw: bigint, unconfirmed: boolean): Readonly<Record<string, string>> {
  return {
    threshold: thresholdRaw.toString(),
    include_only_confirmed: String(!unconfirmed),
    include_active: String(unconfirmed),
    sorting: 'true',
  }
}

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

const ADDRESS_LENGTH = 65
const ADDRESS = /^nano_[13][13456789abcdefghijkmnopqrstuwxyz]{59}$/

/** By form alone: these are our own addresses, and one bad checksum only makes the node refuse. */
function assertAddress(name: string, address: string): void {
  if (!ADDRESS.test(address)) throw new TypeError(`"${name}" expected nano_ addresses`)
}

function assertHash(name: string, hash: string): void {
  if (!/^[0-9A-F]{64}$/.test(hash)) throw new TypeError(`"${name}" expected 64 upper-case hex characters`)
}

const unlessZero = (hash: string): string | undefined => (hash === ZERO_HASH ? undefined : hash)

const lesser = (left: bigint, right: bigint): bigint => (left < right ? left : right)
