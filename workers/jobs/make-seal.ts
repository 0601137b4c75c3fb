import type { Context } from '../../shared/context.ts';
import { enqueueSigning } from '../../shared/ledger/seal-service.ts';
import { makeSeal } from '../../shared/ledger/sealer.ts';
import { sequencePending } from '../../shared/ledger/sequencer.ts';

/** Makes a seal over everything that is written by now, where there is anything new, and leaves the signature to the process that has the key. */
export async function makeSealJob(ctx: Context): Promise<void> {
  await sequencePending(ctx);
  const seal = await makeSeal(ctx);
  if (seal !== undefined) ctx.log.info({ seq: seal._id, count: seal.count }, 'a seal was made');
  await enqueueSigning(ctx);
}
