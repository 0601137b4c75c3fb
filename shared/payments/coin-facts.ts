import type { Config } from '../config.ts'
import type { Coin } from './coin.ts'
import { MONERO_FACTS } from './monero/monero-facts.ts'
import { NANO_FACTS } from './nano/nano-facts.ts'

/** What is known of a coin without its node or its keys: pure, so that the API may import it. */
export interface CoinFacts {
  /** Whether the workers of these settings have a node for it. */
  isSetUp(config: Config): boolean
  /**
   * The address that a payout can be sent to, in its usual spelling; undefined if the text is not one of the main network, or
   * nobody has a key to it. `account` is the same for all addresses whose money comes to one account.
   */
  parseAddress(text: string): { address: string; account: string } | undefined
  /** The payment URI of the coin's own scheme. */
  paymentUri(address: string, amountRaw: bigint): string
  /** What an address looks like, for a refusal. */
  readonly addressForm: string
  /** Confirmations that an invoice's payment needs. @param base what the coin asks for, by itself or by its setting */
  requiredConfirmations(invoice: { order_id?: string }, base: number): number
  /** A transaction pays one address, so its hash says which payment it is. */
  readonly paysOneAddress: boolean
  /** The transaction that one of ours of kind `receive` takes in. @param signed as it is stored */
  sourceOf?(signed: string): string
  /** The queues of its jobs; each name is on the operator's board, and stays. */
  readonly queues: {
    readonly check: 'check-nano' | 'check-monero'
    readonly fill: 'fill-nano' | 'fill-monero'
    readonly reconcile: 'reconcile-nano' | 'reconcile-monero'
  }
}

export const COIN_FACTS: Readonly<Record<Coin, CoinFacts>> = { xno: NANO_FACTS, xmr: MONERO_FACTS }
