import type { Config } from '../platform/config.ts'
import type { Coin } from './coin.ts'
import { MONERO_FACTS } from './coins/monero/monero-facts.ts'
import { NANO_FACTS } from './coins/nano/nano-facts.ts'

type CoinJob = 'watch' | 'check' | 'fill' | 'reconcile'

/** What is known of a coin without its node or its keys, so the API may import it. */
export interface CoinFacts {
  isSetUp(config: Config): boolean
  /** Parses an address that somebody has a key to; those with one `account` pay into one account. */
  parseAddress(text: string): { address: string; account: string } | undefined
  paymentUri(address: string, amountRaw: bigint): string
  readonly addressForm: string
  /** Confirmations that an invoice's payment needs. @param base the coin's own number, or its setting's */
  requiredConfirmations(invoice: { order_id?: string }, base: number): number
  readonly menu: {
    anonymity: string
    anonymityDetail: string
    agentAutonomy: string
    settlementIfOff: 'automatic' | 'manual'
  }
  readonly hasPublicAccounts: boolean
  /** Whether a transaction pays one address alone, so that its hash says which payment it is. */
  readonly paysOneAddress: boolean
  /** The address that our transaction of kind `payout` pays, if it says so itself. @param signed as it is stored */
  payeeOf?(signed: string): string
  readonly queues: { readonly [Job in CoinJob]: `${Job}-${'nano' | 'monero'}` }
}

export const COIN_FACTS: Readonly<Record<Coin, CoinFacts>> = { xno: NANO_FACTS, xmr: MONERO_FACTS }
