import { createHash } from 'node:crypto'
import { encodeAddress } from '../../devnet/nano-node/encoding.ts'
import { startNanoNode, type NanoNode } from '../../devnet/nano-node/nano-node.ts'

/** The coin's network: a stand-in node that checks what a node checks, and agents' own addresses on it. */
export interface Coins {
  /** Settings of the processes that use it. */
  readonly env: Readonly<Record<string, string>>
  readonly node: NanoNode
  /** Where an agent wants its money; nobody else's, and the same each time. */
  addressOf(name: string): string
  /** A payment that the network has confirmed. @returns its hash, in lower case */
  pay(address: string, amountRaw: bigint): string
  /** What arrived at an agent's address, from whomever. */
  arrivedAt(name: string): bigint
  close(): Promise<void>
}

/** Our own blocks are confirmed that much after they were published. */
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
    // Nobody receives there, so whatever was sent still waits.
    arrivedAt: (name) => node.state.ledger.receivableSum(publicKeyOf(name), false),
    close: () => node.close(),
  }
}
