import { storeEndorsements } from '../../shared/claims/claim-store.ts'
import type { Context } from '../../shared/context.ts'
import { walkOn } from '../../shared/ledger/chain-check.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { compareOwed } from '../../shared/operation/owed-check.ts'
import type { JobResult } from '../job-result.ts'

/**
 * Continues the walk over the chain of seals, and compares the records with the entries of the seals that this
 * run has verified. Logs the result, and counts an anomaly for each record that isn't what the ledger says.
 * Compares ledger and journal about what is owed, and mends what processes of an older version left.
 */
export async function checkChain(ctx: Context): Promise<JobResult> {
  const { after, seq, fault, isEnd, repairedTiles: tiles } = await walkOn(ctx)
  if (tiles > 0) ctx.log.error({ tiles }, 'stored tiles were not those of the entries: they are built again')
  if (fault !== undefined) ctx.log.error({ seq, fault }, 'the chain of seals does not hold')
  else ctx.log.info({ seq }, isEnd ? 'the chain of seals holds' : 'the chain of seals holds so far')
  const upTo = isEnd ? undefined : (await ctx.seals.find(seq))?.to_id
  const { count, sentences } = await findContentFaults(ctx, { after, upTo })
  for (let counted = 0; counted < count; counted++) ctx.metrics.countAnomaly('content')
  if (count > 0) ctx.log.error({ count, faults: sentences }, 'records are not what the ledger says')
  await compareOwed(ctx)
  await storeEndorsements(ctx.database.connection)
  return { intact: fault === undefined, seals: seq, content_faults: count }
}
