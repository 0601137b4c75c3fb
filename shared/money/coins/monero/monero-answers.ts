import { z } from 'zod'

/** What monero-wallet-rpc answers. What a payer chooses (unlock_time) may have any value. */

const MAX_U64 = 2n ** 64n - 1n
const u32 = z.int().min(0).max(0xffff_ffff)
/** Numbers of up to 15 digits come as numbers, longer ones as their text. */
const u64 = z
  .union([z.int().min(0), z.string().regex(/^\d{1,20}$/)])
  .transform((value) => BigInt(value))
  .refine((value) => value <= MAX_U64)
const blockHeight = z.int().min(0).max(0xffff_ffff)
const hash = z.string().regex(/^[0-9a-f]{64}$/)
const base58 = z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{95,106}$/)

export const refresh = z.object({ blocks_fetched: z.int().min(0) })
export const height = z.object({ height: blockHeight })
export const address = z.object({ address: base58 })
export const addresses = z.object({ addresses: z.array(z.object({ address: base58, address_index: u32 })) })
export const createAddress = z.object({ addresses: z.array(base58), address_indices: z.array(u32) })
export const nothing = z.object({})
export const reserveProof = z.object({
  signature: z.string().regex(/^ReserveProofV[0-9][0-9A-Za-z]{1,10000000}$/),
})
export const checkedProof = z.object({ good: z.boolean(), total: u64.default(0n), spent: u64.default(0n) })

const row = z.object({
  txid: hash,
  amount: u64,
  fee: u64,
  height: blockHeight,
  confirmations: blockHeight.default(0),
  unlock_time: u64,
  double_spend_seen: z.boolean(),
  subaddr_index: z.object({ major: u32, minor: u32 }),
  /** Of ours: what was paid, or what paid. */
  address: base58,
  destinations: z.array(z.object({ address: base58, amount: u64 })).default([]),
})
export type TransferRow = z.output<typeof row>

export const transfers = z.object({
  in: z.array(row).default([]),
  pool: z.array(row).default([]),
  out: z.array(row).default([]),
  pending: z.array(row).default([]),
  failed: z.array(row).default([]),
})

export const transferByTxid = z.object({
  transfers: z.array(row.extend({ type: z.enum(['in', 'pool', 'block', 'out', 'pending', 'failed']) })),
})

export const prepared = z
  .object({
    tx_hash: hash,
    tx_metadata: z.string().regex(/^(?:[0-9a-f]{2}){1,500000}$/),
    fee: u64,
    amount: u64,
    spent_key_images: z.object({ key_images: z.array(hash).min(1) }),
  })
  .transform((answer) => ({
    txHash: answer.tx_hash,
    /** The signed transaction and the wallet's notes: hex, about 8 KB, and 3 KB more for each input. */
    txMetadata: answer.tx_metadata,
    feePico: answer.fee,
    amountPico: answer.amount,
    /** Of its inputs, 64 hex characters each: what spentKeyImages() is asked about. */
    keyImages: answer.spent_key_images.key_images,
  }))
export type Prepared = z.output<typeof prepared>

export const relay = z.object({ tx_hash: hash })

export const balance = z.object({ balance: u64, unlocked_balance: u64, blocks_to_unlock: u64 })

export const ownOutputs = z.object({
  transfers: z.array(z.object({ key_image: z.union([hash, z.literal('')]), spent: z.boolean() })).default([]),
})
