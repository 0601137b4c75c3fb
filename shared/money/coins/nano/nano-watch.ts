import { createGroups } from '../../../platform/group-commit.ts'
import { isNodeTrouble } from '../../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'
import { scanAddresses } from './nano-scan.ts'

const HINTS_AT_ONCE = 500

/**
 * Makes a function that takes the destination of each confirmed send, and scans it if it is an invoice's
 * address. Destinations that come during a scan share the next one; errors are logged.
 */
export function createNanoHints(ctx: NanoContext): (destination: string) => Promise<void> {
  return createGroups<string, void>(
    async (destinations) => {
      try {
        await scanHinted(ctx, [...new Set(destinations)])
      } catch (error) {
        const level = isNodeTrouble(error) ? 'debug' : 'warn'
        ctx.log[level]({ err: error }, 'a confirmation in Nano could not be followed')
      }
      return destinations.map(() => ({ status: 'fulfilled', value: undefined }))
    },
    { maxItems: HINTS_AT_ONCE, atOnce: 2 },
  )
}

/** Scans those of the addresses that are invoices', and records the payments found. */
async function scanHinted(ctx: NanoContext, destinations: readonly string[]): Promise<void> {
  const ours = await ctx.coins.findAddresses('xno', destinations)
  if (ours.length === 0) return
  const indexes = ours.map(({ index }) => index)
  const invoices = await ctx.invoices.findByAddresses('xno', indexes)
  const addresses = invoices.map(({ address }) => address)
  await scanAddresses(ctx, addresses)
}
