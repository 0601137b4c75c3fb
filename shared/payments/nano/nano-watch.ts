import { createGroups } from '../../servers/group-commit.ts'
import { isNodeTrouble } from '../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'
import { lookAtAddresses } from './nano-look.ts'

const HINTS_AT_ONCE = 500

/** Takes the destinations of all confirmed sends. Hints that come during a look share the next one. */
export function createNanoHints(ctx: NanoContext): (destination: string) => Promise<void> {
  return createGroups<string, void>(
    async (destinations) => {
      try {
        await lookAtHinted(ctx, [...new Set(destinations)])
      } catch (error) {
        ctx.log[isNodeTrouble(error) ? 'debug' : 'warn'](
          { err: error },
          'a confirmation in Nano could not be followed',
        )
      }
      return destinations.map(() => ({ status: 'fulfilled', value: undefined }))
    },
    { maxItems: HINTS_AT_ONCE, atOnce: 2 },
  )
}

async function lookAtHinted(ctx: NanoContext, destinations: readonly string[]): Promise<void> {
  const ours = await ctx.coins.findAddresses('xno', destinations)
  if (ours.length === 0) return
  const indexes = ours.map(({ index }) => index)
  const invoices = await ctx.invoices.findByAddresses('xno', indexes)
  const addresses = invoices.map(({ address }) => address)
  await lookAtAddresses(ctx, addresses)
}
