import fs from 'node:fs'
import type { Context } from '../../shared/context.ts'
import { memoryText, readMemory } from '../../shared/ledger/seal-memory.ts'
import { createSigningState, type WithSigning } from '../../shared/ledger/signing-state.ts'

/** The context of a process of the workers that has just been started: its signer has asked nobody yet. */
export const withSigning = <T extends Context>(ctx: T): T & WithSigning => ({
  ...ctx,
  signing: createSigningState(ctx.config),
})

/** Names the log of a key that has signed nothing yet, as if a checkpoint of that name had been signed. */
export function nameLog(memoryFile: string, origin: string): void {
  const remembered = readMemory(memoryFile)
  if (remembered === undefined) throw new Error(`there is no seal memory at ${memoryFile}`)
  fs.writeFileSync(memoryFile, memoryText({ ...remembered, origin }))
}
