import type { Context } from '../context.ts'
import { isAssets } from '../ledger/assets.ts'
import { headOf } from '../ledger/seal.ts'
import { isDuplicateKey } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { DAY_MS, HOUR_MS, nowSeconds, SECOND_MS } from '../platform/time.ts'
import { endOnNodeTrouble, isHalted } from './coin-state.ts'
import type { Coin } from './coin.ts'
import type { ControlProof } from './control-store.ts'
import type { CoinRecord } from './coin-store.ts'
import type { CoinDriver, ControlledSeal } from './driver.ts'

const DAY_SECONDS = DAY_MS / SECOND_MS
const HOUR_SECONDS = HOUR_MS / SECOND_MS

/**
 * Whether proofs of a coin are to be made now: daily, and when the operator asks; after a failure an hour later.
 *
 * @param lastAt when the newest proof was made; undefined if there is none. Unix seconds, as `now`
 */
export function isProofDue(
  { prove_asked_at: askedAt, prove_tried_at: triedAt }: Pick<CoinRecord, 'prove_asked_at' | 'prove_tried_at'>,
  lastAt: number | undefined,
  now: number,
): boolean {
  if (askedAt !== undefined) return true
  if (triedAt !== undefined && now - triedAt < HOUR_SECONDS) return false
  return lastAt === undefined || now - lastAt >= DAY_SECONDS
}

/**
 * Makes proofs that the venue controls what the newest signed seal states of a coin, if they are due, and stores
 * them. Nothing waits for them: what fails is tried again an hour later.
 */
export async function proveControl(ctx: Context, driver: CoinDriver): Promise<void> {
  const { coin } = driver
  const now = nowSeconds(ctx)
  const record = await ctx.coins.findCoin(coin)
  if (record === undefined || (await isHalted(ctx, coin))) return
  if (!isProofDue(record, (await ctx.coins.controls.last(coin))?.at, now)) return
  const seal = await readControlled(ctx, coin)
  if (seal === undefined) return
  await ctx.coins.noteProveTried(coin, now)
  await endOnNodeTrouble(ctx, coin, async () => {
    const made = await driver.proveControl(seal)
    const about = { coin, at: now, seal_seq: seal.seq, seal_hash: seal.hash }
    const proofs = made.map((proof): ControlProof => ({ _id: newId('control_proof'), ...about, ...proof }))
    await ctx.database
      .transaction((session) => ctx.coins.controls.add(proofs, session))
      .catch((error: unknown) => {
        // This seal has its proofs: another process, or an earlier run whose answer was lost.
        if (!isDuplicateKey(error)) throw error
      })
    ctx.log.info(
      { coin, seal: seal.seq, proofs: proofs.length },
      'the control of the assets of a seal is proven',
    )
  })
}

/** The newest signed seal, if it states assets of the coin. */
async function readControlled(ctx: Context, coin: Coin): Promise<ControlledSeal | undefined> {
  const seal = await ctx.seals.lastSigned()
  const assets = seal && (await ctx.entries.find(seal.to_id))?.data['assets']
  if (seal === undefined || !isAssets(assets) || assets[coin] === null) return undefined
  return { seq: seal._id, hash: headOf(seal).payloadHash, assets }
}
