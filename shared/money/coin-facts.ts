import type { Coin, CoinFacts } from './coin.ts'
import { MONERO_FACTS } from './coins/monero/monero-facts.ts'
import { NANO_FACTS } from './coins/nano/nano-facts.ts'

export const COIN_FACTS: Readonly<Record<Coin, CoinFacts>> = { xno: NANO_FACTS, xmr: MONERO_FACTS }
