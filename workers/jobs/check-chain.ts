import type { Context } from '../../shared/context.ts'
import { verifyWholeChain } from '../../shared/ledger/chain-check.ts'
import { createTileRepair } from '../../shared/ledger/tile-repair.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import type { JobResult } from '../job-result.ts'

/**
 * Verifies the whole chain of seals with every entry, stores the chain's status, builds tiles again that are
 * not those of the entries, and compares the records with the entries. Logs the result, and counts an anomaly
 * for each record that isn't what the ledger says.
 */
export async function checkChain(ctx: Context): Promise<JobResult> {
  const repair = createTileRepair(ctx)
  const { intact, seq, fault } = await verifyWholeChain(ctx, repair)
  if (intact) {
    ctx.log.info({ seq }, 'the chain of seals holds')
    const tiles = await repair.finish()
    if (tiles > 0)
      ctx.log.error({ tiles }, 'stored tiles were not those of the entries: they are built again')
  } else ctx.log.error({ seq, fault }, 'the chain of seals does not hold')
  const { count, sentences } = await findContentFaults(ctx)
  for (let counted = 0; counted < count; counted++) ctx.metrics.countAnomaly('content')
  if (count > 0) ctx.log.error({ count, faults: sentences }, 'records are not what the ledger says')
  return { intact, seals: seq, content_faults: count }
}
