import type { Config } from '../foundation/config.ts'
import type { Coin } from './coin.ts'
import { MONERO_FACTS } from './monero/monero-facts.ts'
import { NANO_FACTS } from './nano/nano-facts.ts'

/** What is known of a coin without its node or its keys: pure, so that the API may import it. */
export interface CoinFacts {
  isSetUp(config: Config): boolean
  /** Undefined if nobody has a key to it. Addresses whose money comes to one account share `account`. */
  parseAddress(text: string): { address: string; account: string } | undefined
  paymentUri(address: string, amountRaw: bigint): string
  readonly addressForm: string
  /** Of an invoice's payment. `base`: what the coin asks for, by itself or by its setting. */
  requiredConfirmations(invoice: { order_id?: string }, base: number): number
  readonly menu: {
    anonymity: string
    anonymityDetail: string
    agentAutonomy: string
    settlementIfOff: 'automatic' | 'manual'
  }
  readonly hasPublicAccounts: boolean
  /** A transaction pays one address, so its hash says which payment it is. */
  readonly paysOneAddress: boolean
  /** The transaction that one of ours of kind `receive` takes in. @param signed as it is stored */
  sourceOf?(signed: string): string
  readonly queues: {
    readonly watch: 'watch-nano' | 'watch-monero'
    readonly check: 'check-nano' | 'check-monero'
    readonly fill: 'fill-nano' | 'fill-monero'
    readonly reconcile: 'reconcile-nano' | 'reconcile-monero'
  }
}

export const COIN_FACTS: Readonly<Record<Coin, CoinFacts>> = { xno: NANO_FACTS, xmr: MONERO_FACTS }
