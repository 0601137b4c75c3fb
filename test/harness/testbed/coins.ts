import { createHash } from 'node:crypto'
import {
  deriveSecretKey,
  hashStateBlock,
  publicKeyOf,
  signHash,
  workRoot,
  type StateBlock,
} from '../../../devnet/nano-node/block.ts'
import { decodeAddress, encodeAddress, zeroHash } from '../../../devnet/nano-node/encoding.ts'
import {
  startNanoNode,
  type Lie,
  type NanoNode,
  type RpcExchange,
} from '../../../devnet/nano-node/nano-node.ts'
import { findWork } from '../../../devnet/nano-node/work.ts'
import type { History } from '../world/history.ts'

/** The coin's network: a stand-in for a Nano node, and the agents' own addresses. */
export interface Coins {
  /** Settings for the service's processes. */
  readonly env: Readonly<Record<string, string>>
  readonly node: NanoNode
  /** What the node answers instead, or does with its answer; null: what it has to say. */
  lie(instead: ((exchange: RpcExchange) => string | Lie | undefined) | null): void
  /** How many blocks were offered in a place where another stands. */
  forks(): number
  /** An agent's own address, always the same. */
  addressOf(name: string): string
  /**
   * Makes a confirmed payment.
   *
   * @returns its block's hash, in lower case
   */
  pay(address: string, amountRaw: bigint): string
  /** The sum of all payments to an agent's address, in raw. */
  arrivedAt(name: string): bigint
  close(): Promise<void>
}

/** The treasury's seed; a harness signs with it when it plays a wallet in use elsewhere. */
export const TREASURY_SEED = '7a'.repeat(32)
/** How long after its publication a block of the service is confirmed. */
export const CONFIRMED_AFTER_MS = 100

/** Starts the stand-in node, in this process. */
export async function startCoins(): Promise<Coins> {
  const node = await startNanoNode({ autoConfirmMs: CONFIRMED_AFTER_MS })
  let forks = 0
  let answerInstead: Parameters<Coins['lie']>[0] = null
  node.lie((exchange) => {
    if (exchange.action === 'process' && exchange.answerText.includes('"Fork"')) forks++
    return answerInstead?.(exchange)
  })
  const keyOfAgent = (name: string): string =>
    createHash('sha256').update(`payee ${name}`).digest('hex').toUpperCase()
  return {
    node,
    lie: (instead) => void (answerInstead = instead),
    forks: () => forks,
    env: {
      NANO_RPC_URL: node.rpcUrl,
      NANO_WS_URL: node.wsUrl,
      PAYMENT_POLL_SECONDS: '1',
      XNO_USD: '1',
      PAYOUTS: 'automatic',
      MIN_PAYOUT_XNO: '0.000001',
      ACCEPT_HOURS: '0.003',
      DISPUTE_HOLD_MINUTES: '0',
      PAY_BY_MINUTES: '0.5',
    },
    addressOf: (name) => encodeAddress(keyOfAgent(name)),
    pay: (address, amountRaw) => node.fund(address, amountRaw, { confirmed: true }).toLowerCase(),
    // Agents never receive, so all that was sent to them is still receivable.
    arrivedAt: (name) => node.state.ledger.receivableSum(keyOfAgent(name), false),
    close: () => node.close(),
  }
}

/** Makes a confirmed payment, and records it like a call of the agent; its marker is the block's hash. */
export function payOnRecord(
  network: Pick<Coins, 'pay'>,
  history: History,
  payment: { who: string; address: string; amountRaw: bigint; invoiceId: string | undefined },
): void {
  const { who, address, amountRaw, invoiceId } = payment
  history.record({
    atMs: history.nowMs(),
    tookMs: 0,
    who,
    did: 'pay',
    method: 'nano',
    path: address,
    status: 200,
    marker: network.pay(address, amountRaw),
    body: { amount_raw: String(amountRaw), ...(invoiceId !== undefined && { invoice_id: invoiceId }) },
  })
}

/**
 * Makes a block on the treasury's chain that the service hasn't made, as a wallet with the same seed
 * elsewhere would sign it. It changes the representative, and moves no money. It is not published.
 *
 * @param previous the hash of the block that it follows, which the node must have; a block of the service
 *   that follows the same one competes with it
 */
export function signTreasuryBlock({ state, genesis }: NanoNode, seed: string, previous: string): StateBlock {
  const { blocks, thresholds } = state.ledger
  const secretKey = deriveSecretKey(seed, 0)
  const account = publicKeyOf(secretKey)
  const before = blocks.get(previous)
  const other = decodeAddress(genesis.address) ?? account
  const isOther = before?.block.type === 'state' && before.block.representative === other
  const fields = {
    account,
    previous,
    representative: isOther ? account : other,
    balance: before?.balance ?? 0n,
    link: zeroHash,
  }
  const work = findWork(workRoot(fields), thresholds.epoch2)
  return { type: 'state', ...fields, signature: signHash(hashStateBlock(fields), secretKey), work }
}
