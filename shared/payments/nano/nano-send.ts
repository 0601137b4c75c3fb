import { payoutRound } from '../payout-round.ts'
import { nanoDriver } from './nano-driver.ts'
import type { NanoContext } from './nano-gateway.ts'

/** What the venue owes in Nano goes out from the treasury, one block for each payee. */
export const sendNano = (ctx: NanoContext): Promise<void> => payoutRound(ctx, nanoDriver(ctx))
