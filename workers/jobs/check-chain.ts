import type { Context } from '../../shared/context.ts'
import { walkChain } from '../../shared/ledger/chain-check.ts'

/** Verifies the whole chain of seals again, with every entry. */
export async function checkChain(ctx: Context): Promise<void> {
  const { intact, seq, fault } = await walkChain(ctx)
  if (intact) ctx.log.info({ seq }, 'the chain of seals holds')
  else ctx.log.error({ seq, fault }, 'the chain of seals does not hold')
}
