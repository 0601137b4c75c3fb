import { omitUndefined } from '../../../platform/omit-undefined.ts'
import type { z } from 'zod'
import type { Log } from '../../../platform/log.ts'
import { AnswerTooLong, NodeRefused, NodeUnreachable } from '../../node-errors.ts'
import * as answers from './monero-answers.ts'
import { openMoneroConnection } from './monero-connection.ts'

/** Outputs of one transaction are 16 at most, and one of them is the change. */
export const MAX_DESTINATIONS = 15
/** Of one destination. Beyond it a JSON number loses digits: 9,007 XMR. */
export const MAX_AMOUNT_PICO = BigInt(Number.MAX_SAFE_INTEGER)
const MAX_ANSWER_BYTES = 25 * 1024 * 1024
/** monero-wallet-rpc makes no more addresses in one call. */
const ADDRESSES_A_CALL = 64
/** A wallet may have several accounts; everything here is in the first. */
const ACCOUNT = 0

/** Numbers of errors in wallet_rpc_server_error_codes.h. */
export const MONERO_ERROR = {
  wrongAddress: -2,
  wrongTxid: -8,
  addressIndexOutOfBounds: -15,
  notEnoughMoney: -17,
  txTooLarge: -18,
  watchOnly: -29,
  notEnoughUnlockedMoney: -37,
} as const

export interface MoneroDestination {
  readonly address: string
  readonly amountPico: bigint
}

/** What one transaction pays to one address of ours, all of its outputs there together. */
export interface MoneroIncoming {
  readonly txHash: string
  /** Index of the subaddress in the account; 0: the primary address. */
  readonly minor: number
  /** It says whose money it is: another wallet has other addresses with the same indexes. */
  readonly address: string
  readonly amountPico: bigint
  /** The number of its block; absent while it is in the pool. */
  readonly height?: number
  /** 1 if its block is the newest, 0 in the pool. */
  readonly confirmations: number
  /** 0: none. A block number, or Unix seconds from 500,000,000 on. The payer's choice, up to 2^64 - 1. */
  readonly unlockTime: bigint
  readonly inPool: boolean
  /** The pool has seen another transaction that spends the same money. */
  readonly doubleSpendSeen: boolean
}

/**
 * `pool`: sent, not known to be in a block, perhaps no longer in a pool. `failed`: the wallet gave it up.
 * `unknown`: the wallet does not know it.
 */
export type MoneroOutgoingState = 'pool' | 'confirmed' | 'failed' | 'unknown'

export interface MoneroOutgoing {
  readonly txHash: string
  readonly state: MoneroOutgoingState
  /** Without the fee and the change, and without what it pays to this wallet itself. */
  readonly amountPico: bigint
  readonly feePico: bigint
  readonly height?: number
  readonly confirmations: number
  /** Empty if the wallet lost its own memory of it, as after a restore. */
  readonly destinations: readonly MoneroDestination[]
}

/** A signed transaction, not sent. */
export type MoneroPrepared = answers.Prepared

/**
 * The wallet that monero-wallet-rpc has open. Everything that reads asks for a refresh first, so that a
 * daemon that is down means NodeUnreachable and not "nothing has come". (Now and then 0.18.0.0 fetches
 * nothing though its daemon has more: what a scan shows decides, never what it lacks.) Only
 * createSubaddresses, prepareTransfer and relay throw NodeRefused.
 */
export type MoneroWallet = ReturnType<typeof createMoneroWallet>

interface Options {
  /** Of monero-wallet-rpc with one wallet open; user and password in it are in no message. */
  url: string
  log: Log
  /** For each call. A wallet far behind its daemon is busy for longer, and unreachable meanwhile. */
  timeoutMs: number
  maxAnswerBytes?: number
}

/** Makes the wallet's interface; asks nothing yet. @throws TypeError for a bad URL */
export function createMoneroWallet({ url, log, timeoutMs, maxAnswerBytes = MAX_ANSWER_BYTES }: Options) {
  const rpc = openWalletRpc(openMoneroConnection(url, { timeoutMs, maxAnswerBytes }))
  const outgoing = outgoingCalls(rpc)
  return {
    ...addressCalls(rpc),
    ...incomingCalls(rpc),
    ...outgoing,
    ...signingCalls(rpc, outgoing.findOutgoing, log),
    ...balanceCalls(rpc),
  }
}

type WalletRpc = ReturnType<typeof openWalletRpc>

/** Makes what asks the wallet: each way to ask says what a refusal means. */
function openWalletRpc(connection: ReturnType<typeof openMoneroConnection>) {
  /** Calls a method and reads its answer. @throws NodeUnreachable, NodeRefused */
  async function call<Schema extends z.ZodType>(
    schema: Schema,
    method: string,
    params: Record<string, unknown> = {},
  ): Promise<z.output<Schema>> {
    const parsed = schema.safeParse(await connection.call(method, params))
    if (parsed.success) return parsed.data
    const [issue] = parsed.error.issues
    throw unreadable(method, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`)
  }

  const unreadable = (method: string, why: string) =>
    new NodeUnreachable(`${method} at ${connection.origin} was answered in another form (${why})`)

  /** Turns a refusal into NodeUnreachable: a wallet that refuses a question has told nothing. */
  const refusedQuestion = (error: unknown): unknown =>
    error instanceof NodeRefused ? new NodeUnreachable(error.message) : error

  /** Asks a question. @throws NodeUnreachable, also if it is refused */
  const query: typeof call = async (schema, method, params) => {
    try {
      return await call(schema, method, params)
    } catch (error) {
      throw refusedQuestion(error)
    }
  }

  /**
   * Asks for something that may not be there.
   *
   * @param code the error by which the wallet says that it isn't
   * @returns undefined for that error
   * @throws NodeUnreachable, also for any other refusal
   */
  async function find<Schema extends z.ZodType>(
    code: number,
    schema: Schema,
    method: string,
    params: Record<string, unknown>,
  ): Promise<z.output<Schema> | undefined> {
    try {
      return await call(schema, method, params)
    } catch (error) {
      if (error instanceof NodeRefused && error.code === code) return undefined
      throw refusedQuestion(error)
    }
  }

  const refresh = () => query(answers.refresh, 'refresh')

  /**
   * Orders something. Many errors, with their codes, are the same if the daemon is down as if the wallet says
   * no: so a refusal counts only if the daemon can be reached.
   */
  const order: typeof call = async (schema, method, params) => {
    try {
      return await call(schema, method, params)
    } catch (error) {
      if (error instanceof NodeRefused) await refresh()
      throw error
    }
  }

  /** Has the wallet's file written. */
  const store = () => query(answers.nothing, 'store')

  return { query, find, order, refresh, store, unreadable }
}

/** The calls about the wallet's own addresses. */
function addressCalls({ query, find, order, store, unreadable }: WalletRpc) {
  /** Whether the wallet has made the address with this minor index. */
  async function hasAddress(minor: number): Promise<boolean> {
    const params = { account_index: ACCOUNT, address_index: [minor] }
    const found = await find(MONERO_ERROR.addressIndexOutOfBounds, answers.address, 'get_address', params)
    return found !== undefined
  }

  return {
    hasAddress,

    async primaryAddress(): Promise<string> {
      const params = { account_index: ACCOUNT, address_index: [0] }
      return (await query(answers.address, 'get_address', params)).address
    },

    /** Reads the addresses with these minor indexes; one that it has not made is not in the map. */
    async listAddresses(minors: readonly number[]): Promise<Map<number, string>> {
      // Without any the wallet names all that it has.
      if (minors.length === 0) return new Map()
      const params = { account_index: ACCOUNT, address_index: [...new Set(minors)] }
      const { addresses } = await query(answers.addresses, 'get_address', params)
      return new Map(addresses.map(({ address_index: minor, address }) => [minor, address]))
    },

    /** How many addresses it has made: the highest minor index is one less. */
    async subaddressCount(): Promise<number> {
      // The whole list would be long one day, and the wallet gives no number.
      let there = 0
      let absent = ADDRESSES_A_CALL
      while (await hasAddress(absent)) [there, absent] = [absent, absent * 2]
      while (absent - there > 1) {
        const middle = Math.floor((there + absent) / 2)
        if (await hasAddress(middle)) there = middle
        else absent = middle
      }
      return there + 1
    },

    /** Makes the next addresses, and has the wallet's file written. @returns them with their minor indexes */
    async createSubaddresses(count: number): Promise<{ index: number; address: string }[]> {
      if (!Number.isSafeInteger(count) || count < 1)
        throw new TypeError(`"count" expected a whole number from 1, got ${count}`)
      const made: { index: number; address: string }[] = []
      while (made.length < count) {
        const wanted = Math.min(ADDRESSES_A_CALL, count - made.length)
        const params = { account_index: ACCOUNT, count: wanted }
        const answer = await order(answers.createAddress, 'create_address', params)
        const { addresses, address_indices: indices } = answer
        const isWhole = addresses.length === wanted && indices.length === wanted
        if (!isWhole || new Set([...addresses, ...indices]).size !== 2 * wanted)
          throw unreadable('create_address', `not ${wanted} addresses`)
        addresses.forEach((address, place) => made.push({ index: indices[place] as number, address }))
      }
      await store()
      return made
    },
  }
}

/** The calls about what came in, and how far the wallet is with the chain. */
function incomingCalls({ query, refresh }: WalletRpc) {
  /** Lists what came in blocks `from` to `to`; in halves, if there is too much for one answer. */
  async function listInBlocks(from: number, to?: number): Promise<answers.TransferRow[]> {
    try {
      const params = { in: true, all_accounts: true, ...between(from, to) }
      return (await query(answers.transfers, 'get_transfers', params)).in
    } catch (error) {
      const last = to ?? (await query(answers.height, 'get_height')).height
      if (!(error instanceof AnswerTooLong) || from >= last) throw error
      const middle = Math.floor((from + last) / 2)
      return [...(await listInBlocks(from, middle)), ...(await listInBlocks(middle + 1, to))]
    }
  }

  return {
    /** How many blocks the wallet has taken in, which is all that its daemon has. */
    async getHeight(): Promise<number> {
      await refresh()
      return (await query(answers.height, 'get_height')).height
    },

    /**
     * Lists what came to the account: in the pool, in a block numbered `sinceHeight` or higher, or in one of
     * `blocks`; oldest first, the pool last.
     *
     * @throws AnswerTooLong if the pool alone has too many, which `withoutPool` leaves out
     */
    async listIncoming({
      sinceHeight,
      blocks = [],
      withoutPool = false,
    }: {
      readonly sinceHeight: number
      readonly blocks?: readonly number[]
      readonly withoutPool?: boolean
    }): Promise<MoneroIncoming[]> {
      await refresh()
      // The pool first: what is taken into a block meanwhile is in both, and not in neither.
      const pool = withoutPool
        ? []
        : (await query(answers.transfers, 'get_transfers', { pool: true, all_accounts: true })).pool
      const rows = await listInBlocks(sinceHeight)
      for (const block of new Set(blocks))
        if (block < sinceHeight) rows.push(...(await listInBlocks(block, block)))
      const payments = new Map<string, MoneroIncoming>()
      for (const row of rows) addPayment(payments, row, false)
      const inBlocks = new Set(payments.keys())
      for (const row of pool) if (!inBlocks.has(keyOf(row))) addPayment(payments, row, true)
      const heightOf = ({ height = Infinity }: MoneroIncoming) => height
      return [...payments.values()].sort((one, other) => heightOf(one) - heightOf(other) || 0)
    },
  }
}

/** The calls about what the wallet has sent. */
function outgoingCalls({ query, find, refresh, unreadable }: WalletRpc) {
  /**
   * Reads what the wallet knows of one transaction: its payments to us, and the transaction itself if we sent
   * it. If both are absent, the transaction may exist all the same.
   */
  async function findTransaction(txHash: string) {
    await refresh()
    const params = { txid: txHash, account_index: ACCOUNT }
    const found = await find(MONERO_ERROR.wrongTxid, answers.transferByTxid, 'get_transfer_by_txid', params)
    const rows = found?.transfers ?? []
    if (rows.some((row) => row.txid !== txHash))
      throw unreadable('get_transfer_by_txid', 'another transaction')
    const payments = new Map<string, MoneroIncoming>()
    for (const row of rows)
      if (row.type === 'in' || row.type === 'pool') addPayment(payments, row, row.type === 'pool')
    const sent = OUTGOING_TYPES.flatMap(([type, state]) =>
      rows.filter((row) => row.type === type).map((row) => toOutgoing(row, state)),
    )
    return { incoming: [...payments.values()], outgoing: sent[0] }
  }

  /**
   * Reads how far a transaction of ours is. One that is `unknown` may exist: a wallet that was killed before
   * it wrote its file doesn't know what it sent until that is in a block.
   */
  async function findOutgoing(txHash: string) {
    const { state, confirmations } = (await findTransaction(txHash)).outgoing ?? NOT_KNOWN
    return { state, confirmations }
  }

  return {
    findTransaction,
    findOutgoing,

    /** Lists transactions that spend the wallet's money: in blocks from `sinceHeight` on, or in none. */
    async listOutgoing({ sinceHeight }: { readonly sinceHeight: number }): Promise<MoneroOutgoing[]> {
      await refresh()
      const params = { out: true, pending: true, failed: true, all_accounts: true, ...between(sinceHeight) }
      const answer = await query(answers.transfers, 'get_transfers', params)
      const found = new Map<string, MoneroOutgoing>()
      for (const [type, state] of OUTGOING_TYPES)
        for (const row of answer[type]) if (!found.has(row.txid)) found.set(row.txid, toOutgoing(row, state))
      return [...found.values()]
    },
  }
}

/** The calls that sign and send. @param findOutgoing says whether a transaction is in a block already */
function signingCalls(
  { order, refresh, store, unreadable }: WalletRpc,
  findOutgoing: ReturnType<typeof outgoingCalls>['findOutgoing'],
  log: Log,
) {
  return {
    /**
     * Signs a transaction, which is neither sent nor are its inputs reserved: the next one may use the same.
     *
     * @throws TypeError for other than 1 to MAX_DESTINATIONS, or amounts that are not 1 to 2^53 - 1
     */
    async prepareTransfer(destinations: readonly MoneroDestination[]): Promise<MoneroPrepared> {
      if (destinations.length < 1 || destinations.length > MAX_DESTINATIONS)
        throw new TypeError(`"destinations" expected 1 to ${MAX_DESTINATIONS}, got ${destinations.length}`)
      for (const { amountPico } of destinations)
        if (amountPico < 1n || amountPico > MAX_AMOUNT_PICO)
          throw new TypeError(`"amountPico" expected 1 to ${MAX_AMOUNT_PICO}, got ${amountPico}`)
      await refresh()
      const payees = destinations.map(({ address, amountPico }) => ({ address, amount: Number(amountPico) }))
      const options = { unlock_time: 0, do_not_relay: true, get_tx_metadata: true }
      const params = { account_index: ACCOUNT, destinations: payees, ...options }
      const prepared = await order(answers.prepared, 'transfer', params)
      const wantedPico = destinations.reduce((sum, { amountPico }) => sum + amountPico, 0n)
      if (prepared.amountPico !== wantedPico)
        throw unreadable('transfer', `amount: ${prepared.amountPico} instead of ${wantedPico}`)
      return prepared
    },

    /**
     * Sends a prepared transaction; may be repeated.
     *
     * @throws NodeUnreachable if it may or may not have been sent.
     * @throws NodeRefused if it was not taken now: before signing anything else ask findOutgoing and
     *   spentKeyImages
     */
    async relay({ txHash, txMetadata }: Pick<MoneroPrepared, 'txHash' | 'txMetadata'>): Promise<void> {
      // Sent again when it is in a block already, it would be pending for ever in the wallet's books, its
      // change counted twice.
      if ((await findOutgoing(txHash)).state === 'confirmed') return
      try {
        const answer = await order(answers.relay, 'relay_tx', { hex: txMetadata })
        if (answer.tx_hash !== txHash) throw unreadable('relay_tx', 'another transaction')
      } catch (error) {
        if (!(error instanceof NodeRefused) || (await findOutgoing(txHash)).state !== 'confirmed') throw error
      }
      const noteLost = (error: unknown) =>
        log.warn({ err: error, tx: txHash }, 'the wallet sent a transaction and could not write its file')
      await store().catch(noteLost)
    },
  }
}

/** The calls about what the wallet holds, and what of that is spent. */
function balanceCalls({ query, order, refresh }: WalletRpc) {
  return {
    /** Makes the wallet ask its daemon what is spent. @returns false if it doesn't trust its daemon */
    async rescanSpent(): Promise<boolean> {
      try {
        await order(answers.nothing, 'rescan_spent')
        return true
      } catch (error) {
        if (error instanceof NodeRefused) return false
        throw error
      }
    },

    /** Returns those of the key images whose money is spent, in a block or by what this wallet has sent. */
    async spentKeyImages(keyImages: readonly string[]): Promise<string[]> {
      await refresh()
      const params = { transfer_type: 'unavailable', account_index: ACCOUNT, verbose: true }
      const { transfers } = await query(answers.ownOutputs, 'incoming_transfers', params)
      const spent = new Set(transfers.filter((output) => output.spent).map((output) => output.key_image))
      return keyImages.filter((keyImage) => spent.has(keyImage))
    },

    /**
     * Reads the balance, with what was last seen in the pool. `blocksToUnlock`: blocks until all of it can be
     * spent, cut to 2^53 - 1; anybody can make it that high by one piconero with a long lock.
     */
    async balance(): Promise<{ totalPico: bigint; unlockedPico: bigint; blocksToUnlock: number }> {
      await refresh()
      const answer = await query(answers.balance, 'get_balance', { account_index: ACCOUNT })
      const blocksToUnlock = Math.min(Number(answer.blocks_to_unlock), Number.MAX_SAFE_INTEGER)
      return { totalPico: answer.balance, unlockedPico: answer.unlocked_balance, blocksToUnlock }
    },

    /**
     * Makes a proof of all outputs that aren't spent, bound to a message, and checks it.
     *
     * @returns `totalPico`: what it shows, less what of that is spent
     * @throws NodeRefused, also if the proof isn't good
     */
    async proveReserve(address: string, message: string): Promise<{ signature: string; totalPico: bigint }> {
      await refresh()
      const { signature } = await order(answers.reserveProof, 'get_reserve_proof', { all: true, message })
      const checked = await order(answers.checkedProof, 'check_reserve_proof', {
        address,
        message,
        signature,
      })
      if (!checked.good) throw new NodeRefused('check_reserve_proof', 'the proof is not good')
      return { signature, totalPico: checked.total - checked.spent }
    },

    /** Reads the balance in blocks, in piconero: balance() also counts what was last seen in the pool. */
    async heldInBlocks(): Promise<bigint> {
      await refresh()
      return (await query(answers.balance, 'get_balance', { account_index: ACCOUNT, strict: true })).balance
    },
  }
}

const NOT_KNOWN = { state: 'unknown', confirmations: 0 } as const

/** One that was sent again after it was in a block stands in two lists, and the block is right. */
const OUTGOING_TYPES = [
  ['out', 'confirmed'],
  ['pending', 'pool'],
  ['failed', 'failed'],
] as const satisfies readonly [string, MoneroOutgoingState][]

/** Parameters for blocks `from` to `to`: the wallet gives what lies above `min_height`. */
function between(from: number, to?: number): Record<string, unknown> {
  if (!Number.isSafeInteger(from) || from < 0)
    throw new TypeError(`"sinceHeight" expected a whole number from 0, got ${from}`)
  return { filter_by_height: true, min_height: Math.max(0, from - 1), ...omitUndefined({ max_height: to }) }
}

const keyOf = (row: answers.TransferRow): string =>
  `${row.txid}/${row.subaddr_index.major}/${row.subaddr_index.minor}`

/** Adds a row to the payment that it is a part of; a row of another account is left out. */
function addPayment(payments: Map<string, MoneroIncoming>, row: answers.TransferRow, inPool: boolean): void {
  const { major, minor } = row.subaddr_index
  if (major !== ACCOUNT) return
  const key = keyOf(row)
  const before = payments.get(key)
  payments.set(key, {
    txHash: row.txid,
    minor,
    address: row.address,
    amountPico: row.amount + (before?.amountPico ?? 0n),
    ...(inPool ? {} : { height: row.height }),
    confirmations: inPool ? 0 : row.confirmations,
    unlockTime: row.unlock_time,
    inPool,
    doubleSpendSeen: row.double_spend_seen || before?.doubleSpendSeen === true,
  })
}

function toOutgoing(row: answers.TransferRow, state: MoneroOutgoingState): MoneroOutgoing {
  return {
    txHash: row.txid,
    state,
    amountPico: row.amount,
    feePico: row.fee,
    ...(state === 'confirmed' ? { height: row.height } : {}),
    confirmations: state === 'confirmed' ? row.confirmations : 0,
    destinations: row.destinations.map(({ address, amount }) => ({ address, amountPico: amount })),
  }
}
