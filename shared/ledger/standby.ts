import fs from 'node:fs'
import type { Context } from '../context.ts'
import { ed25519PublicKey, keyToHex } from '../crypto/ed25519.ts'
import { verifySealFollows, verifySealSignature } from '../crypto/seal-payload.ts'
import { formatNote, parseNote, verifyNote } from '../crypto/note.ts'
import { isCopy } from '../platform/copy.ts'
import { adoptionFileOf } from './adoption-file.ts'
import { checkpointOf } from './checkpoint.ts'
import { readSealKey } from './seal-key.ts'
import { headOf, SealError, sealFields, sealSignature, type SealRecord } from './seal.ts'
import { readMemory, type Remembered } from './seal-memory.ts'
import { openSigner } from './signer.ts'

/*
 * A standby host keeps its seal memory up to date with the host that signs: a memory that is behind the
 * database would be taken for an older copy, and the standby could not take over. Each seal that it puts into
 * its memory has a signature by the same key and follows the one that it remembers, so it never signs a fork
 * of what the other host has signed. It does so only while the other host has the lease: without that, a
 * memory that is behind is still refused.
 */

/** Seals read at once. */
const PAGE_SEALS = 1_000

/**
 * The public key of this host's seal key, as hex.
 *
 * @throws SealError if there is no key, or it can't be used
 */
export function readSealPubkey({ config }: Pick<Context, 'config'>): string {
  const file = config.secrets.sealKeyFile
  const key = file === undefined ? undefined : readSealKey(file)
  if (key === undefined) throw new SealError('there is no seal key')
  return keyToHex(ed25519PublicKey(key))
}

/** The public key, as hex, of the last signed seal in the database; undefined if none is signed. */
export const lastSealPubkey = async ({ seals }: Pick<Context, 'seals'>): Promise<string | undefined> =>
  (await seals.lastSigned())?.pubkey

/**
 * Whether the operator has adopted a seal on this host and nothing was signed since. Either the adoption
 * still waits in its file, or it was applied: then the memory, which is of this host's key, holds the last
 * signed seal, although another key has signed that.
 */
export async function isAdoptedHere(ctx: Pick<Context, 'config' | 'seals'>): Promise<boolean> {
  const file = ctx.config.secrets.sealMemoryFile
  if (file === undefined) return false
  if (fs.existsSync(adoptionFileOf(file))) return true
  const remembered = readMemory(file)
  const last = await ctx.seals.lastSigned()
  const ownPubkey = readSealPubkey(ctx)
  return (
    last !== undefined &&
    last.pubkey !== ownPubkey &&
    remembered?.payload_hash === headOf(last).payloadHash &&
    remembered.pubkey === ownPubkey
  )
}

/**
 * Brings this host's seal memory up to date with the seals that another host has signed with the same key. Does
 * nothing if this host has no memory of its key, if another process has it open, or if the database is a copy.
 */
export async function updateSealMemory(ctx: Pick<Context, 'config' | 'database' | 'seals'>): Promise<void> {
  const opened = openSigner(ctx.config)
  if (opened.kind !== 'open') return
  const { pubkey, memory } = opened.signer
  try {
    let remembered = memory.read()
    if (remembered?.pubkey !== pubkey || (await isCopy(ctx.database.connection))) return
    for (;;) {
      const seals = await ctx.seals.listAfter(Math.max(0, remembered.seq - 1), PAGE_SEALS)
      const newer: Remembered = extendMemory(remembered, seals, pubkey)
      if (newer.seq === remembered.seq) return
      await memory.write(newer)
      remembered = newer
    }
  } finally {
    memory.close()
  }
}

/**
 * Returns the memory moved on over the seals that follow the remembered one, up to the last before one that
 * isn't signed by `pubkey` or doesn't follow. Returns `remembered` itself if the database has another seal in
 * the remembered one's place.
 *
 * @param seals ascending, from the remembered one on; from the first, if nothing was signed yet
 */
function extendMemory(remembered: Remembered, seals: readonly SealRecord[], pubkey: string): Remembered {
  const stored = seals.find(({ _id }) => _id === remembered.seq)
  if (headOf(stored).payloadHash !== remembered.payload_hash) return remembered
  let newer = remembered
  let previous = stored
  for (const seal of seals.slice(stored === undefined ? 0 : 1)) {
    if (!isNextSignedSeal(seal, previous, pubkey)) break
    const { log: _log, keys: _keys, ...rest } = newer
    const head = headOf(seal)
    newer = { ...rest, seq: head.seq, payload_hash: head.payloadHash }
    const checkpoint = checkpointOf(seal)
    if (checkpoint !== undefined) {
      const { origin, size, root } = checkpoint
      newer = { ...newer, origin, log: { size, root } }
    }
    previous = seal
  }
  return newer
}

/**
 * Whether a seal follows the one before and its signature by `pubkey` verifies, and that of its checkpoint if
 * it has one.
 */
function isNextSignedSeal(seal: SealRecord, before: SealRecord | undefined, pubkey: string): boolean {
  if (!seal.signed || seal.pubkey !== pubkey) return false
  const fields = sealFields(seal)
  const follows = verifySealFollows(before === undefined ? null : sealFields(before), fields)
  if (!follows.ok || !verifySealSignature({ ...fields, ...sealSignature(seal) }).ok) return false
  const checkpoint = checkpointOf(seal)
  if (checkpoint === undefined) return true
  const { text, line, key } = checkpoint
  return verifyNote(parseNote(formatNote(text, [line])), key)
}
