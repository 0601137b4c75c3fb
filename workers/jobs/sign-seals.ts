import type { Context } from '../../shared/context.ts'
import { signSeals } from '../../shared/ledger/signing.ts'

/** Signs what has no signature yet. */
export async function signSealsJob(ctx: Context): Promise<void> {
  const signed = await signSeals(ctx)
  if (signed > 0) ctx.log.info({ signed }, 'seals were signed')
}
