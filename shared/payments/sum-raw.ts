import type { Model, PipelineStage } from 'mongoose'
import { COINS, type Coin } from './coin.ts'

/** Digits of a limb, and limbs: 45 digits hold any amount of any coin. */
const LIMB_DIGITS = 15
const LIMBS = 3
const PAD = '0'.repeat(LIMB_DIGITS * LIMBS)

/** A value for each coin. */
export function eachCoin<T>(valueOf: (coin: Coin) => T): Record<Coin, T> {
  return Object.fromEntries(COINS.map((coin) => [coin, valueOf(coin)])) as Record<Coin, T>
}

/**
 * Exact sums per coin of amounts that are stored as decimal text. They are summed in the database in parts of 15 digits,
 * because none of its numbers holds an amount of Nano.
 */
export async function sumByCoin<T>(model: Model<T>, match: PipelineStage.Match['$match'], field: string): Promise<Record<Coin, bigint>> {
  const padded = { $concat: [PAD, `$${field}`] }
  const limbs = Object.fromEntries(
    Array.from({ length: LIMBS }, (_, place) => {
      const start = { $subtract: [{ $strLenCP: padded }, LIMB_DIGITS * (place + 1)] }
      return [`limb${place}`, { $sum: { $toDecimal: { $substrCP: [padded, start, LIMB_DIGITS] } } }]
    }),
  )
  const stages: PipelineStage[] = [{ $match: match }, { $group: { _id: '$coin', ...limbs } } as PipelineStage.Group]
  const found = await model.aggregate<{ _id: Coin } & Record<string, unknown>>(stages)
  const sums = eachCoin(() => 0n)
  for (const group of found) {
    for (let place = 0; place < LIMBS; place++)
      sums[group._id] += BigInt(String(group[`limb${place}`])) * 10n ** BigInt(LIMB_DIGITS * place)
  }
  return sums
}
