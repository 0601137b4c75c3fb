import type { Context } from '../../shared/context.ts'
import { adoptSeal, signSeals } from '../../shared/ledger/signing.ts'
import type { Payload } from '../../shared/queues.ts'

/** Carries out an operator's decision to go on from the database as it is, and signs what waited for it. */
export async function adoptSealJob(ctx: Context, payload: Payload<'adopt-seal'>): Promise<void> {
  await adoptSeal(ctx, payload.seq, payload.payload_hash, payload.adoption_id)
  ctx.log.warn({ seq: payload.seq, payload_hash: payload.payload_hash }, 'the operator adopted a seal: signing goes on from it')
  // The refused job waits for its next try by now.
  await signSeals(ctx)
}
