import { createGroups } from '../../servers/group-commit.ts'
import { isNodeTrouble } from '../node-errors.ts'
import type { NanoContext } from './nano-gateway.ts'
import { lookAtAddresses } from './nano-look.ts'

const HINTS_AT_ONCE = 500

/**
 * Takes the destinations of all confirmed sends. Hints that come while one look is under way share the next.
 */
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
  const invoices = await ctx.invoices.findByAddresses(
    'xno',
    ours.map(({ index }) => index),
  )
  await lookAtAddresses(
    ctx,
    invoices.map(({ address }) => address),
  )
}
