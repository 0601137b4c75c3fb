import type { Context } from '../../shared/context.ts'
import { createSigningState, type WithSigning } from '../../shared/ledger/signing-state.ts'

/** The context of a process of the workers that has just been started: its signer has asked nobody yet. */
export const withSigning = <T extends Context>(ctx: T): T & WithSigning => ({
  ...ctx,
  signing: createSigningState(ctx.config),
})
