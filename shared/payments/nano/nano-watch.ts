import { createGroups } from '../../group-commit.ts'
import { checkCoin, watchCoin } from '../coin-round.ts'
import { isNodeTrouble } from '../node-errors.ts'
import { nanoDriver } from './nano-driver.ts'
import type { NanoContext } from './nano-gateway.ts'
import { lookAtAddresses } from './nano-look.ts'

export const watchNano = (ctx: NanoContext): Promise<void> => watchCoin(ctx, nanoDriver(ctx))
export const checkNanoInvoice = (ctx: NanoContext, invoiceId: string): Promise<void> => checkCoin(ctx, nanoDriver(ctx), invoiceId)

/** Confirmations looked up in one query. */
const HINTS_AT_ONCE = 500

/**
 * A function that takes the destinations of confirmed sends, all of the network's, and looks at once at those that are an
 * invoice's, however that is watched. Hints that come while one look is under way are looked up together.
 */
export function createNanoHints(ctx: NanoContext): (destination: string) => Promise<void> {
  return createGroups<string, void>(
    async (destinations) => {
      try {
        await lookAtHinted(ctx, [...new Set(destinations)])
      } catch (error) {
        // The round finds what the hint was about.
        ctx.log[isNodeTrouble(error) ? 'debug' : 'warn']({ err: error }, 'a confirmation in Nano could not be followed')
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
