import type { Model, PipelineStage } from 'mongoose'
import { within, type Session } from '../platform/database.ts'
import { COINS, type Coin } from './coin.ts'

/** Amounts are summed in 3 limbs of 15 digits: 45 digits hold any amount of any coin. */
const LIMB_DIGITS = 15
const LIMBS = 3
const PAD = '0'.repeat(LIMB_DIGITS * LIMBS)

/** Makes an object with a value for each coin. */
export const eachCoin = <T>(valueOf: (coin: Coin) => T): Record<Coin, T> =>
  Object.fromEntries(COINS.map((coin) => [coin, valueOf(coin)])) as Record<Coin, T>

/** Exact sums of a field of decimal text by `key`: none of MongoDB's numbers holds an amount of Nano. */
export async function sumBy<Key, T>(
  model: Model<T>,
  match: PipelineStage.Match['$match'],
  field: string,
  key: PipelineStage.Group['$group']['_id'],
  session?: Session,
): Promise<{ key: Key; sum: bigint }[]> {
  const padded = { $concat: [PAD, `$${field}`] }
  const limbs = Object.fromEntries(
    Array.from({ length: LIMBS }, (_, place) => {
      const start = { $subtract: [{ $strLenCP: padded }, LIMB_DIGITS * (place + 1)] }
      return [`limb${place}`, { $sum: { $toDecimal: { $substrCP: [padded, start, LIMB_DIGITS] } } }]
    }),
  )
  const stages: PipelineStage[] = [{ $match: match }, { $group: { _id: key, ...limbs } }]
  const found = await model.aggregate<{ _id: Key } & Record<string, unknown>>(stages, within(session))
  const valueOf = (limb: unknown, place: number): bigint =>
    BigInt(String(limb)) * 10n ** BigInt(LIMB_DIGITS * place)
  return found.map((group) => ({
    key: group._id,
    sum: Array.from({ length: LIMBS }, (_, place) => valueOf(group[`limb${place}`], place)).reduce(
      (sum, part) => sum + part,
    ),
  }))
}

/** Sums a field of decimal text exactly, by coin; 0 for a coin without any. */
export async function sumByCoin<T>(model: Model<T>, match: PipelineStage.Match['$match'], field: string) {
  const sums = eachCoin(() => 0n)
  for (const { key, sum } of await sumBy<Coin, T>(model, match, field, '$coin')) sums[key] = sum
  return sums
}
