import type { Context } from '../../shared/context.ts'
import { enqueueDueSealing } from '../../shared/ledger/seal-service.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'

/** Gives waiting ledger entries their numbers, and enqueues a seal where one is due. */
export async function sequence(ctx: Context): Promise<void> {
  await sequencePending(ctx)
  await enqueueDueSealing(ctx)
}
