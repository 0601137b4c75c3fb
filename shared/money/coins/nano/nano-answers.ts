import { z } from 'zod'
import { parseNanoAddress } from '../../../crypto/nano-address.ts'
import { MAX_RAW, ZERO_HASH } from './nano-blocks.ts'

/** What a Nano node answers: scalars are text, an empty list or object is empty text, keys may be missing. */

export const raw = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,38})$/, 'expected raw')
  .transform((text) => BigInt(text))
  .refine((value) => value <= MAX_RAW, 'expected at most 2^128 - 1 raw')
/** Heights and counts: at most 15 digits, so exact as a number. */
const count = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,14})$/, 'expected a count')
  .transform(Number)
export const hash = z.string().regex(/^[0-9A-F]{64}$/, 'expected a hash')
const hashOrZero = hash.transform((text) => (text === ZERO_HASH ? undefined : text))
const flag = z.enum(['true', 'false']).transform((text) => text === 'true')
export const address = z.string().transform((text, context) => {
  const parsed = parseNanoAddress(text)
  if (parsed !== undefined) return parsed.address
  context.addIssue({ code: 'custom', message: 'expected an address' })
  return z.NEVER
})
const shortText = z.string().max(200)

/**
 * A schema that reads an object as a map; empty text, as the node writes an empty object, as an empty one.
 */
function entriesOf<Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(key: Key, value: Value) {
  return z.union([
    z.literal('').transform(() => new Map<never, never>()),
    z.record(key, value).transform((fields) => new Map(Object.entries(fields))),
  ])
}

/**
 * A schema that reads an object of texts as a map. It checks all of them in one pass, and not each by a
 * schema of its own, since a page of a round over all invoices is answered with a text for each of its
 * thousand accounts.
 */
const textsOf = z.union([
  z.literal('').transform(() => new Map<never, never>()),
  z
    .custom<Record<string, string>>(
      (value) =>
        typeof value === 'object' &&
        value !== null &&
        !Array.isArray(value) &&
        Object.values(value).every((text) => typeof text === 'string'),
      'expected texts by their keys',
    )
    .transform((fields) => new Map(Object.entries(fields))),
])

const listOf = <Item extends z.ZodType>(item: Item) =>
  z.union([z.literal('').transform((): never[] => []), z.array(item)])

export const refusal = z.object({ error: z.string() })

const receivables = entriesOf(hash, raw)
export const receivable = z.object({ blocks: receivables })
export const accountsReceivable = z.object({ blocks: entriesOf(z.string(), receivables) })

export const accountsFrontiers = z.object({
  frontiers: entriesOf(z.string(), hash).default(new Map()),
  errors: textsOf.default(new Map()),
})

export const accountInfo = z
  .object({
    frontier: hash,
    balance: raw,
    block_count: count,
    representative: address,
    confirmed_balance: raw,
    confirmed_height: count,
    confirmed_frontier: hashOrZero,
  })
  .transform((account) => ({
    /** The last block, confirmed or not; height, balance and representative are as of it. */
    frontier: account.frontier,
    height: account.block_count,
    balanceRaw: account.balance,
    representative: account.representative,
    confirmedFrontier: account.confirmed_frontier,
    confirmedHeight: account.confirmed_height,
    confirmedBalanceRaw: account.confirmed_balance,
  }))

const stateBlock = z.object({
  type: z.literal('state'),
  account: address,
  previous: hash,
  representative: address,
  balance: raw.transform(String),
  link: hash,
  signature: z.string().regex(/^[0-9A-F]{128}$/, 'expected a signature'),
  work: z.string().regex(/^[0-9a-f]{16}$/, 'expected work'),
})
/** Blocks of the kinds that were made before 2018; their fields differ. */
const oldBlock = z.object({ type: z.enum(['open', 'send', 'receive', 'change']) }).transform(() => undefined)

const block = z
  .object({
    block_account: address,
    amount: raw.optional(),
    balance: raw,
    height: count,
    successor: hashOrZero,
    confirmed: flag,
    contents: z.union([stateBlock, oldBlock]),
    subtype: shortText.optional(),
    receive_hash: hashOrZero.optional(),
  })
  .transform(({ height, successor, confirmed, subtype, ...fields }) => ({
    account: fields.block_account,
    /** What was sent or received; undefined if the node no longer has the block before. */
    amountRaw: fields.amount,
    balanceRaw: fields.balance,
    height,
    successor,
    confirmed,
    /** `send`, `receive`, `change` or `epoch`; undefined for a block older than state blocks. */
    subtype,
    /** Undefined for a block older than state blocks. */
    block: fields.contents,
    /** Of a send: the block that received it; undefined while there is none. */
    receivedBy: fields.receive_hash,
  }))
export type Block = z.output<typeof block>
export const blocksInfo = z.object({ blocks: entriesOf(hash, block), blocks_not_found: listOf(hash) })

export const process = z.object({ hash })

export const work = z.object({
  work: z
    .string()
    .regex(/^[0-9a-fA-F]{1,16}$/, 'expected work')
    .transform((text) => text.toLowerCase().padStart(16, '0')),
})

const difficulty = z
  .string()
  .regex(/^[0-9a-f]{16}$/, 'expected a difficulty')
  .transform((text) => BigInt(`0x${text}`))
export const activeDifficulty = z.object({ network_minimum: difficulty, network_receive_minimum: difficulty })

export const version = z.object({ network: shortText })
/** By address and port; or their list, as older nodes give it. */
export const peers = z.object({
  peers: z.union([entriesOf(z.string(), z.unknown()), z.array(z.string()).transform((all) => new Set(all))]),
})
export const telemetry = z.object({ cemented_count: count })

/** `pruned` is there only if the node prunes its ledger. */
export const blockCount = z.object({ count, unchecked: count, cemented: count, pruned: count.optional() })
