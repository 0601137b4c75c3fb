import path from 'node:path'
import type { Context } from '../../shared/context.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'

/** As the workers do every few minutes, here as fast as it goes. */
export async function sealOnAndOn(ctx: Context, keyFile: string, isOver: () => boolean): Promise<void> {
  const secrets = { sealKeyFile: keyFile, sealMemoryFile: path.join(path.dirname(keyFile), 'seal-memory') }
  const signing: Context = {
    ...ctx,
    config: { ...ctx.config, secrets: { ...ctx.config.secrets, ...secrets } },
  }
  while (!isOver()) {
    await sequencePending(ctx, { useLease: false })
    await makeSeal(ctx, { useLease: false })
    await signSeals(signing)
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}
