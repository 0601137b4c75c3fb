import { hash } from 'node:crypto'
import {
  fitNanoAssets,
  type Assets,
  type MoneroAssets,
  type NanoAssets,
  type UnreadReason,
} from '../ledger/assets.ts'
import { MINUTE_MS, SECOND_MS } from '../platform/time.ts'

/** What was read longer ago counts as not read. */
const FRESH_SECONDS = (15 * MINUTE_MS) / SECOND_MS

/** What a coin's workers have stored of it. */
interface ReadCoin {
  configured: boolean
  reachable: boolean
  treasury_address?: string
  assets?: NanoAssets | MoneroAssets
  assets_at?: number
}

/**
 * Makes of what the workers have read last what a closing entry states of the coins that are held.
 *
 * @param proof the text of the newest reserve proof of Monero
 * @param now Unix seconds
 */
export function assetsOf(
  { xno, xmr }: { xno: ReadCoin | undefined; xmr: ReadCoin | undefined },
  proof: string | undefined,
  now: number,
): Assets {
  const unread: Assets['unread'] = {}
  const reasons = { xno: unreadReason(xno, now), xmr: unreadReason(xmr, now) }
  if (reasons.xno !== undefined) unread.xno = reasons.xno
  const fitted = reasons.xno === undefined ? fitNanoAssets(xno?.assets as NanoAssets) : undefined
  const wallet = reasons.xmr === undefined ? (xmr?.assets as MoneroAssets) : undefined
  if (wallet === undefined || proof === undefined) unread.xmr = reasons.xmr ?? 'no_proof'
  const proofHash = proof === undefined ? null : hash('sha256', proof)
  return {
    xno: fitted?.accounts ?? null,
    xmr: wallet === undefined ? null : { ...wallet, proof_hash: proofHash },
    at: { xno: xno?.assets_at ?? null, xmr: xmr?.assets_at ?? null },
    unread,
    ...(fitted === undefined || fitted.more === 0 ? {} : { more: fitted.more }),
  }
}

/** Why the assets of a coin aren't stated; undefined if they are. */
function unreadReason(record: ReadCoin | undefined, now: number): UnreadReason | undefined {
  if (record?.configured !== true) return 'not_in_use'
  const { assets, assets_at: at, reachable, treasury_address: treasury } = record
  if (assets !== undefined && at !== undefined && now - at <= FRESH_SECONDS) return undefined
  if (!reachable) return 'unreachable'
  return assets === undefined && treasury === undefined ? 'manual' : 'stale'
}
