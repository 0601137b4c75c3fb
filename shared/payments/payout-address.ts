import type { Context } from '../context.ts'
import { Refusal } from '../foundation/errors.ts'
import { COIN_FACTS } from './coin-facts.ts'
import type { Coin } from './coin.ts'

/** A payout to the venue itself would arrive as late money, be owed again, and so on without end. */
export async function isOwnAddress(ctx: Context, coin: Coin, text: string): Promise<boolean> {
  const { parseAddress } = COIN_FACTS[coin]
  const { address = text, account = text } = parseAddress(text) ?? {}
  const [made, record] = await Promise.all([
    ctx.coins.findAddresses(coin, [address]),
    ctx.coins.findCoin(coin),
  ])
  const treasuries = [
    ...(record?.treasuries ?? []),
    ...(record?.treasury_address === undefined ? [] : [record.treasury_address]),
  ]
  return (
    made.length > 0 || treasuries.some((own) => own === address || parseAddress(own)?.account === account)
  )
}

/** @throws Refusal `invalid_field` naming `field` if no payout in this coin can be sent to the address */
export async function requireAddress(ctx: Context, coin: Coin, text: string, field: string): Promise<string> {
  const refuse = (why: string) =>
    new Refusal('invalid_field', `The field "${field}" is not usable: ${why}.`, { field })
  const { address } = COIN_FACTS[coin].parseAddress(text) ?? {}
  if (address === undefined) throw refuse(`expected ${COIN_FACTS[coin].addressForm}`)
  if (await isOwnAddress(ctx, coin, address))
    throw refuse("this address is the venue's own, expected one of yours")
  return address
}
