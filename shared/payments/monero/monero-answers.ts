import { z } from 'zod'

/** What a payer chooses (unlock_time) may have any value: one odd payment must not hide the others. */

const MAX_U64 = 2n ** 64n - 1n
const u32 = z.int().min(0).max(0xffff_ffff)
/** Numbers of up to 15 digits come as numbers, longer ones as their text. */
const u64 = z
  .union([z.int().min(0), z.string().regex(/^\d{1,20}$/)])
  .transform((value) => BigInt(value))
  .refine((value) => value <= MAX_U64)
const height = z.int().min(0).max(0xffff_ffff)
const hash = z.string().regex(/^[0-9a-f]{64}$/)
const address = z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{95,106}$/)

export const refreshAnswer = z.object({ blocks_fetched: z.int().min(0) })
export const heightAnswer = z.object({ height })
export const addressAnswer = z.object({ address })
export const addressesAnswer = z.object({ addresses: z.array(z.object({ address, address_index: u32 })) })
export const createAddressAnswer = z.object({ addresses: z.array(address), address_indices: z.array(u32) })
export const nothingAnswer = z.object({})

const transfer = z.object({
  txid: hash,
  amount: u64,
  fee: u64,
  height,
  confirmations: height.default(0),
  unlock_time: u64,
  double_spend_seen: z.boolean(),
  subaddr_index: z.object({ major: u32, minor: u32 }),
  /** Of ours: what was paid, or what paid. */
  address,
  destinations: z.array(z.object({ address, amount: u64 })).default([]),
})
export type TransferAnswer = z.output<typeof transfer>

export const transfersAnswer = z.object({
  in: z.array(transfer).default([]),
  pool: z.array(transfer).default([]),
  out: z.array(transfer).default([]),
  pending: z.array(transfer).default([]),
  failed: z.array(transfer).default([]),
})

export const transferByTxidAnswer = z.object({
  transfers: z.array(transfer.extend({ type: z.enum(['in', 'pool', 'block', 'out', 'pending', 'failed']) })),
})

export const transferAnswer = z.object({
  tx_hash: hash,
  tx_metadata: z.string().regex(/^(?:[0-9a-f]{2}){1,500000}$/),
  fee: u64,
  amount: u64,
  spent_key_images: z.object({ key_images: z.array(hash).min(1) }),
})

export const relayAnswer = z.object({ tx_hash: hash })

export const balanceAnswer = z.object({ balance: u64, unlocked_balance: u64, blocks_to_unlock: u64 })

export const ownOutputsAnswer = z.object({
  transfers: z.array(z.object({ key_image: z.union([hash, z.literal('')]), spent: z.boolean() })).default([]),
})
