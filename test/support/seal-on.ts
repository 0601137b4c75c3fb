import path from 'node:path'
import type { Context } from '../../shared/context.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { withSigning } from './signing.ts'

/** As the workers do every few minutes, here as fast as it goes. */
export async function sealOnAndOn(ctx: Context, keyFile: string, isOver: () => boolean): Promise<void> {
  const secrets = { sealKeyFile: keyFile, sealMemoryFile: path.join(path.dirname(keyFile), 'seal-memory') }
  const config = { ...ctx.config, secrets: { ...ctx.config.secrets, ...secrets } }
  const signer = withSigning({ ...ctx, config })
  while (!isOver()) {
    await sequencePending(ctx, { useLease: false })
    await makeSeal(ctx, { useLease: false })
    await signSeals(signer)
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}
