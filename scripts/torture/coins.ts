import { createHash } from 'node:crypto'
import { encodeAddress } from '../../devnet/nano-node/encoding.ts'
import { startNanoNode, type NanoNode } from '../../devnet/nano-node/nano-node.ts'

/** The coin's network: a stand-in for a Nano node, and the agents' own addresses. */
export interface Coins {
  /** Settings for the service's processes. */
  readonly env: Readonly<Record<string, string>>
  readonly node: NanoNode
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

/** How long after its publication a block of the service is confirmed. */
const CONFIRMED_AFTER_MS = 100

export async function startCoins(): Promise<Coins> {
  const node = await startNanoNode({ autoConfirmMs: CONFIRMED_AFTER_MS })
  const publicKeyOf = (name: string): string =>
    createHash('sha256').update(`payee ${name}`).digest('hex').toUpperCase()
  return {
    node,
    env: {
      ...{ NANO_RPC_URL: node.rpcUrl, NANO_WS_URL: node.wsUrl, PAYMENT_POLL_SECONDS: '1', XNO_USD: '1' },
      ...{ PAYOUTS: 'automatic', MIN_PAYOUT_XNO: '0.000001', ACCEPT_HOURS: '0.003', PAY_BY_MINUTES: '0.5' },
    },
    addressOf: (name) => encodeAddress(publicKeyOf(name)),
    pay: (address, amountRaw) => node.fund(address, amountRaw, { confirmed: true }).toLowerCase(),
    // Agents never receive, so all that was sent to them is still receivable.
    arrivedAt: (name) => node.state.ledger.receivableSum(publicKeyOf(name), false),
    close: () => node.close(),
  }
}
