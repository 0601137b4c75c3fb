import { z } from 'zod'
import type { JsonValue } from '../crypto/canonical-json.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'

/*
 * What closing entries state of the coins that the venue holds: read from nodes and wallet by the workers that have
 * them, and stated by the sealer as it was read last. The signer has neither: it checks the form alone. Whoever has a
 * node of their own can check the rest.
 */

const amount = z.string().regex(/^(0|[1-9]\d{0,38})$/)
const hash = (letters: string) => z.string().regex(new RegExp(`^[0-9${letters}]{64}$`))

const receivable = z.strictObject({ hash: hash('A-F'), amount })

/** `frontier`: the last confirmed block; null if the account has none yet. */
const nanoAccount = z.strictObject({
  account: z.string().regex(/^nano_[13][13456789abcdefghijkmnopqrstuwxyz]{59}$/),
  frontier: hash('A-F').nullable(),
  balance: amount,
  receivable: z.array(receivable),
})
const moneroWallet = z.strictObject({ height: z.int().min(0), balance: amount })

/** Why the assets of a coin aren't stated; `no_proof`: they are, and no proof of the wallet was made yet. */
export const UNREAD_REASONS = ['not_in_use', 'manual', 'unreachable', 'stale', 'no_proof'] as const
const unread = z.enum(UNREAD_REASONS)
export type UnreadReason = z.output<typeof unread>

export const assetsView = z.strictObject({
  xno: z
    .array(nanoAccount)
    .nullable()
    .describe('confirmed blocks alone: the treasury first, then invoices’ accounts, the largest first'),
  xmr: moneroWallet
    .extend({ proof_hash: hash('a-f').nullable().describe('SHA-256 of the newest reserve proof') })
    .nullable(),
  at: z
    .strictObject({ xno: z.int().min(0).nullable(), xmr: z.int().min(0).nullable() })
    .describe('when they were read'),
  unread: z.strictObject({ xno: unread.optional(), xmr: unread.optional() }),
  more: z.int().min(1).optional().describe('accounts of Nano that are left out, the smallest'),
})

export type NanoAssets = z.output<typeof nanoAccount>[]
export type MoneroAssets = z.output<typeof moneroWallet>
export type Assets = z.output<typeof assetsView>

/** Assets as an entry's data, in which nothing is undefined. */
export const showAssets = ({ unread: reasons, more, ...assets }: Assets): JsonValue => ({
  ...assets,
  unread: omitUndefined(reasons),
  ...omitUndefined({ more }),
})

/** Whether a closing entry's `assets` have the right form. Whether they are there isn't checked. */
export const isAssets = (stated: unknown): stated is Assets => assetsView.safeParse(stated).success

const MOST_ACCOUNTS = 500
/** An entry has 65,000 bytes at most, and states more than this. */
const MOST_BYTES = 48_000
const MOST_RECEIVABLE = 20

const sumOf = ({ balance, receivable: waiting }: NanoAssets[number]): bigint =>
  waiting.reduce((sum, one) => sum + BigInt(one.amount), BigInt(balance))

/**
 * Chooses the accounts that an entry has room for: the first, which is the treasury, then those with most; of each
 * the largest of what waits to be received.
 *
 * @returns them, and how many are left out
 */
export function fitNanoAssets([treasury, ...others]: NanoAssets): { accounts: NanoAssets; more: number } {
  if (treasury === undefined) return { accounts: [], more: 0 }
  const bySum = others
    .filter((account) => sumOf(account) > 0n)
    .sort((left, right) => (sumOf(left) < sumOf(right) ? 1 : -1))
  const accounts: NanoAssets = []
  let bytes = 0
  for (const account of [treasury, ...bySum]) {
    const waiting = [...account.receivable].sort((a, b) => (BigInt(a.amount) < BigInt(b.amount) ? 1 : -1))
    const shown = { ...account, receivable: waiting.slice(0, MOST_RECEIVABLE) }
    bytes += JSON.stringify(shown).length
    if (accounts.length === MOST_ACCOUNTS || bytes > MOST_BYTES) break
    accounts.push(shown)
  }
  return { accounts, more: 1 + bySum.length - accounts.length }
}
