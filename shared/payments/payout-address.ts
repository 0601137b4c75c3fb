import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import { Refusal } from '../errors.ts'
import type { Coin } from './coin.ts'
import { parseMoneroAddress } from './monero/monero-address.ts'
import { NANO_BURN_ADDRESS, parseNanoAddress } from './nano/nano-address.ts'

interface PayoutAddress {
  /** In its usual spelling. */
  address: string
  /** The same for all addresses whose money comes to one account: an integrated address of Monero and the standard one in it. */
  account: string
}

function parse(coin: Coin, text: string): PayoutAddress | undefined {
  if (coin === 'xno') {
    const address = parseNanoAddress(text)?.address
    return address === undefined || address === NANO_BURN_ADDRESS ? undefined : { address, account: address }
  }
  const monero = parseMoneroAddress(text)
  return monero?.network === 'mainnet' ? { address: text, account: monero.keys } : undefined
}

/**
 * The address that a payout can be sent to, in its usual spelling; undefined if the text is not one of the coin's main
 * network: a wrong checksum, another network, another coin, or one that nobody has a key to.
 */
export function parsePayoutAddress(coin: Coin, text: string): string | undefined {
  return parse(coin, text)?.address
}

/**
 * Whether money sent there would come back to the venue: an address that was ever made for an invoice, or a treasury of any
 * time. A payout to it would arrive as late money, be owed again, and so on without end.
 */
export async function isOwnAddress(ctx: Context, coin: Coin, text: string): Promise<boolean> {
  const { address = text, account = text } = parse(coin, text) ?? {}
  const [made, record] = await Promise.all([ctx.coins.findAddresses(coin, [address]), ctx.coins.findCoin(coin)])
  const treasuries = [...(record?.treasuries ?? []), ...(record?.treasury_address === undefined ? [] : [record.treasury_address])]
  return made.length > 0 || treasuries.some((own) => own === address || parse(coin, own)?.account === account)
}

/** What an address of a coin looks like, for a refusal. */
export const ADDRESS_FORMS: Readonly<Record<Coin, string>> = {
  xno: 'a Nano address (nano_ and 60 characters, with its checksum)',
  xmr: 'a Monero address of the main network (standard, subaddress or integrated, with its checksum)',
}

/** @throws Refusal `invalid_field` naming `field` for an address that no payout in this coin can be sent to */
export async function requireAddress(ctx: Context, coin: Coin, text: string, field: string): Promise<string> {
  const address = parsePayoutAddress(coin, text)
  if (address === undefined)
    throw new Refusal('invalid_field', `The field "${field}" is not usable: expected ${ADDRESS_FORMS[coin]}.`, { field })
  if (await isOwnAddress(ctx, coin, address))
    throw new Refusal('invalid_field', `The field "${field}" is not usable: this address is the venue's own, expected one of yours.`, {
      field,
    })
  return address
}

/** What the ledger has in an address's place. */
export function commitAddress(salt: string, address: string): string {
  return commit(Buffer.from(salt, 'hex'), { address })
}
