import { commit } from '../crypto/commitment.ts'
import { Refusal } from '../errors.ts'
import type { Coin } from '../payments/coin.ts'
import { parseMoneroAddress } from '../payments/monero/monero-address.ts'
import { NANO_BURN_ADDRESS, parseNanoAddress } from '../payments/nano/nano-address.ts'

/**
 * The address that a payout can be sent to, in its usual spelling; undefined where the text is none of the coin's main
 * network: a wrong checksum, another network, another coin, or one that nobody has a key to.
 */
export function parsePayoutAddress(coin: Coin, text: string): string | undefined {
  if (coin === 'xno') {
    const address = parseNanoAddress(text)?.address
    return address === NANO_BURN_ADDRESS ? undefined : address
  }
  return parseMoneroAddress(text)?.network === 'mainnet' ? text : undefined
}

/** What an address of a coin looks like, for a refusal. */
export const ADDRESS_FORMS: Readonly<Record<Coin, string>> = {
  xno: 'a Nano address (nano_ and 60 characters, with its checksum)',
  xmr: 'a Monero address of the main network (standard, subaddress or integrated, with its checksum)',
}

/** @throws Refusal `invalid_field` naming `field` for an address that no payout in this coin can be sent to */
export function requireAddress(coin: Coin, text: string, field: string): string {
  const address = parsePayoutAddress(coin, text)
  if (address === undefined)
    throw new Refusal('invalid_field', `The field "${field}" is not usable: expected ${ADDRESS_FORMS[coin]}.`, { field })
  return address
}

/** What the ledger has in an address's place. */
export function commitAddress(salt: string, address: string): string {
  return commit(Buffer.from(salt, 'hex'), { address })
}
