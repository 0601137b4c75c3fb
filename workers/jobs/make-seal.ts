import type { Context } from '../../shared/context.ts'
import { enqueueSigning } from '../../shared/ledger/seal-service.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'

/** Whoever asks for a seal means what is written by now, so another's run that began before is waited for; a dead one's lease ends sooner. */
const OTHERS_WAIT_MS = 15_000

/** Makes a seal over everything that is written by now, where there is anything new, and leaves the signature to the process that has the key. */
export async function makeSealJob(ctx: Context): Promise<void> {
  await sequencePending(ctx, { waitMs: OTHERS_WAIT_MS })
  const seal = await makeSeal(ctx, { waitMs: OTHERS_WAIT_MS })
  if (seal !== undefined) ctx.log.info({ seq: seal._id, count: seal.count }, 'a seal was made')
  await enqueueSigning(ctx)
}
