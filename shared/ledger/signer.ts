import { ed25519PublicKey, keyToHex } from '../crypto/ed25519.ts'
import type { Config } from '../platform/config.ts'
import type { WatchStep } from '../platform/step.ts'
import { readSealKey } from './seal-key.ts'
import { openSealMemory, type Remembered, type SealMemory } from './seal-memory.ts'
import { SigningStopped } from './signing-refusals.ts'

/** The key with the memory of what it signed, in the one process that may use it now. */
export interface Signer {
  key: Uint8Array
  /** As hex. */
  pubkey: string
  memory: SealMemory
  memoryFile: string
  watch: WatchStep | undefined
}

export type OpenedSigner = { kind: 'open'; signer: Signer } | { kind: 'no_key' } | { kind: 'locked' }

/**
 * Reads the key and locks the seal memory; the caller must close the memory of an open signer.
 *
 * @returns `no_key` if this host has no key yet, `locked` if another of its processes has the memory open
 * @throws SealError if no place is set for the memory, or the key can't be used
 */
export function openSigner({ secrets }: Pick<Config, 'secrets'>, watch?: WatchStep): OpenedSigner {
  const { sealKeyFile, sealMemoryFile } = secrets
  if (sealKeyFile === undefined) return { kind: 'no_key' }
  if (sealMemoryFile === undefined)
    throw new SigningStopped('no_place_for_memory', 'SEAL_KEY_FILE is set and SEAL_MEMORY_FILE is not')
  const key = readSealKey(sealKeyFile)
  if (key === undefined) return { kind: 'no_key' }
  const memory = openSealMemory(sealMemoryFile)
  if (memory === undefined) return { kind: 'locked' }
  const pubkey = keyToHex(ed25519PublicKey(key))
  return { kind: 'open', signer: { key, pubkey, memory, memoryFile: sealMemoryFile, watch } }
}

/**
 * Reads the seal memory, without which the key signs nothing, announcements included.
 *
 * @throws SigningStopped if there is no memory
 */
export function requireSealMemory({ memory, memoryFile }: Pick<Signer, 'memory' | 'memoryFile'>): Remembered {
  const remembered = memory.read()
  if (remembered !== undefined) return remembered
  throw new SigningStopped(
    'no_memory',
    `Nothing is signed: there is no seal memory at ${memoryFile}, which was made together with the key and says what was signed with it`,
  )
}
