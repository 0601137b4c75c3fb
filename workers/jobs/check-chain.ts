import type { Context } from '../../shared/context.ts'
import { verifyWholeChain } from '../../shared/ledger/chain-check.ts'
import { createTileRepair } from '../../shared/ledger/tile-repair.ts'
import { findContentFaults } from '../../shared/operation/content-check.ts'
import { compareOwed } from '../../shared/operation/owed-check.ts'

/**
 * Verifies the whole chain of seals with every entry, stores the chain's status, builds tiles again that are
 * not those of the entries, and compares the records with the entries. Logs the result, and counts an anomaly
 * for each record that isn't what the ledger says. Compares ledger and journal about what is owed.
 */
export async function checkChain(ctx: Context): Promise<void> {
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
  await compareOwed(ctx)
}
