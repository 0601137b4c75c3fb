import { omitUndefined } from '../../foundation/omit-undefined.ts'
import type { z } from 'zod'
import type { Log } from '../../foundation/log.ts'
import { AnswerTooLong, NodeRefused, NodeUnreachable } from '../node-errors.ts'
import {
  addressAnswer,
  addressesAnswer,
  balanceAnswer,
  createAddressAnswer,
  heightAnswer,
  nothingAnswer,
  ownOutputsAnswer,
  refreshAnswer,
  relayAnswer,
  transferAnswer,
  transferByTxidAnswer,
  transfersAnswer,
  type TransferAnswer,
} from './monero-answers.ts'
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
  notEnoughUnlockedMoney: -37,
} as const

export interface MoneroDestination {
  readonly address: string
  readonly amountPico: bigint
}

export interface MoneroSubaddress {
  readonly major: number
  readonly minor: number
  readonly address: string
}

/** What one transaction pays to one address of ours, all of its outputs there together. */
export interface MoneroIncoming {
  readonly txHash: string
  readonly major: number
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

/** `pool`: sent, not known to be in a block, perhaps no longer in a pool. `failed`: the wallet gave it up. */
export type MoneroOutgoingState = 'pool' | 'confirmed' | 'failed'

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

export interface MoneroPrepared {
  readonly txHash: string
  /** The signed transaction and the wallet's notes: hex, about 8 KB, and 3 KB more for each input. */
  readonly txMetadata: string
  readonly feePico: bigint
  readonly amountPico: bigint
  /** Of its inputs, 64 hex characters each: what spentKeyImages() is asked about. */
  readonly keyImages: readonly string[]
}

export interface MoneroWalletOptions {
  /** Of monero-wallet-rpc with one wallet open; user and password in it are in no message. */
  readonly url: string
  readonly log: Log
  /** For each call. A wallet far behind its daemon is busy for longer, and unreachable meanwhile. */
  readonly timeoutMs: number
  readonly maxAnswerBytes?: number
}

/**
 * Everything that reads asks for a refresh first, so that a daemon that is down means NodeUnreachable and not
 * "nothing has come". (Now and then 0.18.0.0 fetches nothing though its daemon has more: what a look shows
 * decides, never what it lacks.) Only createSubaddresses, prepareTransfer and relay throw NodeRefused.
 */
export type MoneroWallet = ReturnType<typeof createMoneroWallet>

/** @throws TypeError for a bad URL; nothing is asked of it yet */
export function createMoneroWallet({
  url,
  log,
  timeoutMs,
  maxAnswerBytes = MAX_ANSWER_BYTES,
}: MoneroWalletOptions) {
  const connection = openMoneroConnection(url, { timeoutMs, maxAnswerBytes })

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
    new NodeUnreachable(
      `${method} at ${connection.origin} was answered with something else than expected (${why})`,
    )

  /** For questions: a wallet that says no to one has told nothing. */
  const query: typeof call = async (schema, method, params) => {
    try {
      return await call(schema, method, params)
    } catch (error) {
      if (error instanceof NodeRefused) throw new NodeUnreachable(error.message)
      throw error
    }
  }

  const refresh = () => query(refreshAnswer, 'refresh')

  /** For orders: many errors, with their numbers, are the same if the daemon is down as if it says no. */
  const order: typeof call = async (schema, method, params) => {
    try {
      return await call(schema, method, params)
    } catch (error) {
      if (error instanceof NodeRefused) await refresh()
      throw error
    }
  }

  async function hasAddress(minor: number): Promise<boolean> {
    try {
      await call(addressAnswer, 'get_address', { account_index: ACCOUNT, address_index: [minor] })
      return true
    } catch (error) {
      if (!(error instanceof NodeRefused)) throw error
      if (error.code === MONERO_ERROR.addressIndexOutOfBounds) return false
      throw new NodeUnreachable(error.message)
    }
  }

  async function findTransaction(txHash: string) {
    await refresh()
    let rows: z.output<typeof transferByTxidAnswer>['transfers']
    try {
      ;({ transfers: rows } = await call(transferByTxidAnswer, 'get_transfer_by_txid', {
        txid: txHash,
        account_index: ACCOUNT,
      }))
    } catch (error) {
      if (!(error instanceof NodeRefused)) throw error
      if (error.code === MONERO_ERROR.wrongTxid) return { incoming: [], outgoing: undefined }
      throw new NodeUnreachable(error.message)
    }
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

  /** In halves, if there are too many for one answer. */
  async function listInBlocks(from: number, to?: number): Promise<TransferAnswer[]> {
    try {
      const params = { in: true, all_accounts: true, ...between(from, to) }
      return (await query(transfersAnswer, 'get_transfers', params)).in
    } catch (error) {
      const last = to ?? (await query(heightAnswer, 'get_height')).height
      if (!(error instanceof AnswerTooLong) || from >= last) throw error
      const middle = Math.floor((from + last) / 2)
      return [...(await listInBlocks(from, middle)), ...(await listInBlocks(middle + 1, to))]
    }
  }

  const store = () => query(nothingAnswer, 'store')

  async function findOutgoing(txHash: string) {
    const { state, confirmations } = (await findTransaction(txHash)).outgoing ?? NOT_KNOWN
    return { state, confirmations }
  }

  return {
    /** What is known of one transaction; nothing is no proof that there is none. */
    findTransaction,
    /**
     * `unknown` proves nothing: a wallet killed before it wrote its file forgets what it sent until that is
     * in a block.
     */
    findOutgoing,
    hasAddress,

    /** How many blocks the wallet has taken in, which is all that its daemon has. */
    async getHeight(): Promise<number> {
      await refresh()
      return (await query(heightAnswer, 'get_height')).height
    },

    async primaryAddress(): Promise<string> {
      const params = { account_index: ACCOUNT, address_index: [0] }
      return (await query(addressAnswer, 'get_address', params)).address
    },

    /** All of which it has made. */
    async listAddresses(minors: readonly number[]): Promise<Map<number, string>> {
      // Without any the wallet names all that it has.
      if (minors.length === 0) return new Map()
      const params = { account_index: ACCOUNT, address_index: [...new Set(minors)] }
      const { addresses } = await query(addressesAnswer, 'get_address', params)
      return new Map(addresses.map(({ address_index: minor, address }) => [minor, address]))
    },

    /** The highest minor index is one less. */
    async subaddressCount(): Promise<number> {
      // The whole list would be long one day, and the wallet gives no number.
      let [there, absent] = [0, ADDRESSES_A_CALL]
      while (await hasAddress(absent)) [there, absent] = [absent, absent * 2]
      while (absent - there > 1) {
        const middle = Math.floor((there + absent) / 2)
        if (await hasAddress(middle)) there = middle
        else absent = middle
      }
      return there + 1
    },

    /** The wallet's file is written before they are returned. */
    async createSubaddresses(count: number): Promise<MoneroSubaddress[]> {
      if (!Number.isSafeInteger(count) || count < 1)
        throw new TypeError(`"count" expected a whole number from 1, got ${count}`)
      const made: MoneroSubaddress[] = []
      while (made.length < count) {
        const wanted = Math.min(ADDRESSES_A_CALL, count - made.length)
        const params = { account_index: ACCOUNT, count: wanted }
        const answer = await order(createAddressAnswer, 'create_address', params)
        const { addresses, address_indices: indices } = answer
        const isWhole = addresses.length === wanted && indices.length === wanted
        if (!isWhole || new Set([...addresses, ...indices]).size !== 2 * wanted)
          throw unreadable('create_address', `not ${wanted} addresses`)
        addresses.forEach((address, index) =>
          made.push({ major: ACCOUNT, minor: indices[index] as number, address }),
        )
      }
      await store()
      return made
    },

    /**
     * In the pool, in a block numbered `sinceHeight` or higher, or in one of `blocks`; oldest first, the pool
     * last.
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
        : (await query(transfersAnswer, 'get_transfers', { pool: true, all_accounts: true })).pool
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

    /** All that spends the wallet's money, each once: in blocks from `sinceHeight` on, or in no block. */
    async listOutgoing({ sinceHeight }: { readonly sinceHeight: number }): Promise<MoneroOutgoing[]> {
      await refresh()
      const params = { out: true, pending: true, failed: true, all_accounts: true, ...between(sinceHeight) }
      const answer = await query(transfersAnswer, 'get_transfers', params)
      const found = new Map<string, MoneroOutgoing>()
      for (const [type, state] of OUTGOING_TYPES)
        for (const row of answer[type]) if (!found.has(row.txid)) found.set(row.txid, toOutgoing(row, state))
      return [...found.values()]
    },

    /**
     * Sends and reserves nothing: the next one may use the same inputs.
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
      const answer = await order(transferAnswer, 'transfer', {
        account_index: ACCOUNT,
        destinations: destinations.map(({ address, amountPico: amount }) => ({
          address,
          amount: Number(amount),
        })),
        unlock_time: 0,
        do_not_relay: true,
        get_tx_metadata: true,
      })
      const wantedPico = destinations.reduce((sum, { amountPico }) => sum + amountPico, 0n)
      if (answer.amount !== wantedPico)
        throw unreadable('transfer', `amount: ${answer.amount} instead of ${wantedPico}`)
      return {
        txHash: answer.tx_hash,
        txMetadata: answer.tx_metadata,
        feePico: answer.fee,
        amountPico: answer.amount,
        keyImages: answer.spent_key_images.key_images,
      }
    },

    /**
     * May be repeated.
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
        const answer = await order(relayAnswer, 'relay_tx', { hex: txMetadata })
        if (answer.tx_hash !== txHash) throw unreadable('relay_tx', 'another transaction')
      } catch (error) {
        if (!(error instanceof NodeRefused) || (await findOutgoing(txHash)).state !== 'confirmed') throw error
      }
      const noteLost = (error: unknown) =>
        log.warn({ err: error, tx: txHash }, 'the wallet sent a transaction and could not write its file')
      await store().catch(noteLost)
    },

    /**
     * Asks the daemon; the wallet takes for spent all it sent.
     *
     * @returns false if it doesn't trust its daemon
     */
    async rescanSpent(): Promise<boolean> {
      try {
        await order(nothingAnswer, 'rescan_spent')
        return true
      } catch (error) {
        if (error instanceof NodeRefused) return false
        throw error
      }
    },

    /** Those of the given key images whose money is spent, in a block or by what this wallet has sent. */
    async spentKeyImages(keyImages: readonly string[]): Promise<string[]> {
      await refresh()
      const params = { transfer_type: 'unavailable', account_index: ACCOUNT, verbose: true }
      const { transfers } = await query(ownOutputsAnswer, 'incoming_transfers', params)
      const spent = new Set(transfers.filter((output) => output.spent).map((output) => output.key_image))
      return keyImages.filter((keyImage) => spent.has(keyImage))
    },

    /** `blocksToUnlock`: 0 to 2^53 - 1; whoever sends a piconero with a lock decides it. */
    async balance(): Promise<{ totalPico: bigint; unlockedPico: bigint; blocksToUnlock: number }> {
      await refresh()
      const answer = await query(balanceAnswer, 'get_balance', { account_index: ACCOUNT })
      const blocksToUnlock = Math.min(Number(answer.blocks_to_unlock), Number.MAX_SAFE_INTEGER)
      return { totalPico: answer.balance, unlockedPico: answer.unlocked_balance, blocksToUnlock }
    },

    /** balance() also counts what the wallet last saw in the pool, which may be in a block by now. */
    async heldInBlocks(): Promise<bigint> {
      await refresh()
      return (await query(balanceAnswer, 'get_balance', { account_index: ACCOUNT, strict: true })).balance
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

/** monero-wallet-rpc gives what lies above `min_height`; the first block holds nobody's payment. */
function between(from: number, to?: number): Record<string, unknown> {
  if (!Number.isSafeInteger(from) || from < 0)
    throw new TypeError(`"sinceHeight" expected a whole number from 0, got ${from}`)
  return {
    filter_by_height: true,
    min_height: Math.max(0, from - 1),
    ...omitUndefined({ max_height: to }),
  }
}

const keyOf = (row: TransferAnswer): string =>
  `${row.txid}/${row.subaddr_index.major}/${row.subaddr_index.minor}`

function addPayment(payments: Map<string, MoneroIncoming>, row: TransferAnswer, inPool: boolean): void {
  const key = keyOf(row)
  const before = payments.get(key)
  payments.set(key, {
    txHash: row.txid,
    ...row.subaddr_index,
    address: row.address,
    amountPico: row.amount + (before?.amountPico ?? 0n),
    ...(inPool ? {} : { height: row.height }),
    confirmations: inPool ? 0 : row.confirmations,
    unlockTime: row.unlock_time,
    inPool,
    doubleSpendSeen: row.double_spend_seen || before?.doubleSpendSeen === true,
  })
}

function toOutgoing(row: TransferAnswer, state: MoneroOutgoingState): MoneroOutgoing {
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
