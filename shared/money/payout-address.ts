import type { Context } from '../context.ts'
import { Refusal } from '../platform/errors.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { Coin } from './coin.ts'

/** Whether an address is the venue's own: a payout to it would arrive as late money and be owed again. */
export async function isOwnAddress(ctx: Context, coin: Coin, text: string): Promise<boolean> {
  const { parseAddress } = COIN_FACTS[coin]
  const { address = text, account = text } = parseAddress(text) ?? {}
  if ((await ctx.coins.addresses.listByAddress(coin, [address])).length > 0) return true
  const record = await ctx.coins.findCoin(coin)
  const treasuries = [...(record?.treasuries ?? []), record?.treasury_address ?? []].flat()
  const isTreasury = (own: string) => own === address || parseAddress(own)?.account === account
  return treasuries.some(isTreasury)
}

/** @returns the address in canonical form. @throws Refusal `invalid_field` if no payout can go there */
export async function requireAddress(ctx: Context, coin: Coin, text: string, field: string): Promise<string> {
  const refuse = (why: string) =>
    new Refusal('invalid_field', `The field "${field}" is not usable: ${why}.`, { field })
  const { address } = COIN_FACTS[coin].parseAddress(text) ?? {}
  if (address === undefined) throw refuse(`expected ${COIN_FACTS[coin].addressForm}`)
  if (await isOwnAddress(ctx, coin, address))
    throw refuse("this address is the venue's own, expected one of yours")
  return address
}
