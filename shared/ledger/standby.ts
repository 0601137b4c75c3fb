import fs from 'node:fs'
import type { Context } from '../context.ts'
import { ed25519PublicKey, keyToHex } from '../crypto/ed25519.ts'
import { verifySealFollows, verifySealSignature } from '../crypto/seal-payload.ts'
import { formatNote, parseNote, verifyNote } from '../crypto/note.ts'
import { isCopy } from '../servers/copy.ts'
import { adoptionFileOf } from './adoption.ts'
import { checkpointOf } from './checkpoint.ts'
import { readSealKey } from './seal-key.ts'
import { SealError, sealFields, sealSignature, type SealRecord } from './seal.ts'
import { headOf, NOTHING_SIGNED, readMemory, type Remembered } from './seal-memory.ts'
import { openSigner } from './signing.ts'

/*
 * A host that waits to sign keeps its seal memory up with the host that signs: without that it could not go
 * on, since a memory that is behind the database is taken for an older copy. Each seal that it takes up has
 * a signature by its own key and follows the one that it remembers, so what it will sign is never beside
 * what the other one has signed. It follows only while the other host has the lease: a memory that is alone
 * and behind is still refused.
 */

const PAGE = 1_000

/** As hex. @throws SealError if there is none, or it cannot be used */
export function ownSealKey({ config }: Pick<Context, 'config'>): string {
  const file = config.secrets.sealKeyFile
  const key = file === undefined ? undefined : readSealKey(file)
  if (key === undefined) throw new SealError('there is no seal key')
  return keyToHex(ed25519PublicKey(key))
}

export const lastSealKey = async ({ seals }: Pick<Context, 'seals'>): Promise<string | undefined> =>
  (await seals.lastSigned())?.pubkey

/** An adoption lies here, or was taken here and nothing was signed since: by the operator, on this host. */
export async function isAdoptedHere(ctx: Pick<Context, 'config' | 'seals'>): Promise<boolean> {
  const file = ctx.config.secrets.sealMemoryFile
  if (file === undefined) return false
  if (fs.existsSync(adoptionFileOf(file))) return true
  const [remembered, last] = [readMemory(file), await ctx.seals.lastSigned()]
  return (
    last !== undefined &&
    last.pubkey !== ownSealKey(ctx) &&
    remembered?.payload_hash === headOf(last).payloadHash &&
    remembered.pubkey === ownSealKey(ctx)
  )
}

/** @returns up to which seal the memory goes now; undefined if it cannot follow */
export async function updateSealMemory(ctx: Context): Promise<number | undefined> {
  const signer = openSigner(ctx)
  if (signer === undefined) return undefined
  try {
    let remembered = signer.memory.read()
    if (remembered?.pubkey !== signer.pubkey || (await isCopy(ctx.database.connection))) return undefined
    for (;;) {
      const seals = await ctx.seals.listAfter(Math.max(0, remembered.seq - 1), PAGE)
      const followed: Remembered = follow(remembered, seals, signer.pubkey)
      if (followed.seq === remembered.seq) return remembered.seq
      await signer.memory.write(followed, signer.watch)
      remembered = followed
    }
  } finally {
    signer.memory.close()
  }
}

/** @param seals from the remembered one on, or from the first */
function follow(remembered: Remembered, seals: readonly SealRecord[], pubkey: string): Remembered {
  const own = seals.find(({ _id }) => _id === remembered.seq)
  const { payloadHash } = own === undefined ? NOTHING_SIGNED : headOf(own)
  if (payloadHash !== remembered.payload_hash) return remembered
  let [last, before] = [remembered, own]
  for (const seal of seals.slice(own === undefined ? 0 : 1)) {
    if (!isSignedNext(seal, before, pubkey)) break
    const checkpoint = checkpointOf(seal)
    const { log: _log, keys: _keys, ...rest } = last
    last = {
      ...rest,
      ...headFields(seal),
      ...(checkpoint === undefined
        ? {}
        : { origin: checkpoint.origin, log: { size: checkpoint.size, root: checkpoint.root } }),
    }
    before = seal
  }
  return last
}

function headFields(seal: SealRecord): Pick<Remembered, 'seq' | 'payload_hash'> {
  const { seq, payloadHash } = headOf(seal)
  return { seq, payload_hash: payloadHash }
}

function isSignedNext(seal: SealRecord, before: SealRecord | undefined, pubkey: string): boolean {
  if (!seal.signed || seal.pubkey !== pubkey) return false
  const fields = sealFields(seal)
  const follows = verifySealFollows(before === undefined ? null : sealFields(before), fields)
  if (!follows.ok || !verifySealSignature({ ...fields, ...sealSignature(seal) }).ok) return false
  const checkpoint = checkpointOf(seal)
  if (checkpoint === undefined) return true
  const { text, line, key } = checkpoint
  return verifyNote(parseNote(formatNote(text, [line])), key)
}
