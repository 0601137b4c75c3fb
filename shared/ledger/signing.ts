import type { Context } from '../context.ts'
import { ed25519PublicKey, keyToHex } from '../crypto/ed25519.ts'
import { HASH_BYTES, TILE_HEIGHT, TILE_WIDTH, type Tile } from '../crypto/merkle.ts'
import { sealPayloadHash, signSeal, verifySealFollows, verifySealSignature } from '../crypto/seal-payload.ts'
import { newStepId } from '../ids.ts'
import { unixSeconds } from '../time.ts'
import { extendChain, walkChain } from './chain-check.ts'
import { viewEntry, type EntryRecord } from './entry.ts'
import { createEntryTree } from './entry-tree.ts'
import { closingSource, sealFields, sealRecord, SealError, type SealRecord } from './seal.ts'
import { readSealKey } from './seal-key.ts'
import { findMemoryConflict, NO_PAYLOAD_HASH, openSealMemory, type Remembered, type SealHead, type SealMemory } from './seal-memory.ts'
import { performStep, type WatchStep } from './step.ts'

/*
 * Signing, in the one process that has the key. Steps 1 and 2 of the order are in sealer.ts. For each unsigned seal, the
 * lowest first, under the exclusive lock of the seal memory:
 *
 *   3. Read the entries again, recompute leaves, tiles and root, and compare all of them with what is stored. A signature
 *      is a statement about the ledger as it lies in the database, not about what some process once had in memory.
 *   4. The seal memory: it must not know another payload for this seq or a later one; then it is written, synced and
 *      renamed. From here on no other payload can be signed for this seq by this host, whatever is restored.
 *   5. Sign. Only after 4: a signature that exists must be remembered, also if we die before it is stored.
 *   6. Verify the signature by the rules of every verifier.
 *   7. Store it where there is none, on exactly the seal that was signed.
 *
 * A death before 4 leaves an unsigned seal, as if nothing had been done. A death after 4 leaves an unsigned seal that the
 * memory knows: the next run finds the same payload in it and goes on, and since Ed25519 is deterministic it makes the
 * same signature; only `signed_at`, which is not signed, may differ. A write of 7 that failed and was stored is found
 * signed. So recovery is the next run.
 */

export interface SigningOptions {
  watch?: WatchStep
}

type SigningContext = Pick<Context, 'database' | 'entries' | 'seals' | 'config' | 'now'>

/** Of many seals that waited for a key, the signatures are verified once more and noted so many at a time. */
const NOTE_EVERY = 100

/** What an operator does about a refusal. */
const REMEDY =
  'Nothing is signed until an operator has looked: give back the database, the seal memory and the key that belong together, or, where the database is the one to go on from, adopt its last signed seal (operator seal --adopt SEQ HASH).'

/**
 * Signs every unsigned seal, in order.
 *
 * @returns how many were signed; 0 also where there is no key yet, or where another process of this host is signing
 * @throws SealError where what is stored can't be trusted; nothing is signed from there on
 */
export async function signSeals(ctx: SigningContext, options: SigningOptions = {}): Promise<number> {
  const opened = openKeyAndMemory(ctx)
  if (opened === undefined) return 0
  const { key, memory } = opened
  try {
    let signed = 0
    for (;;) {
      const { last, firstUnsigned, next } = await readFront(ctx)
      if (signed > 0 && (signed % NOTE_EVERY === 0 || firstUnsigned === undefined))
        await performStep(options.watch, 'status', () => extendChain(ctx))
      if (firstUnsigned === undefined) return signed
      if (last !== undefined && firstUnsigned < last._id)
        throw new SealError(`seal ${firstUnsigned} has no signature and seal ${last._id} after it has one. ${REMEDY}`)
      if (next === undefined)
        throw new SealError(`seal ${(last?._id ?? 0) + 1} is missing, and seal ${firstUnsigned} comes after it. ${REMEDY}`)
      await signOne(ctx, next, last, key, memory, options.watch)
      signed++
    }
  } finally {
    memory.close()
  }
}

/**
 * Where signing stands: the last signed seal, the seq of the first unsigned one and the seal after the last signed one, all
 * as of one moment. Reads that come one after the other may come from one primary and from its successor, which knows less
 * at first.
 */
export function readFront(ctx: Pick<Context, 'database' | 'seals'>) {
  return ctx.database.transaction(async (session) => {
    const last = await ctx.seals.lastSigned(session)
    const [firstUnsigned] = await ctx.seals.listUnsigned(1, session)
    const next = await ctx.seals.find((last?._id ?? 0) + 1, session)
    return { last, firstUnsigned, next }
  })
}

function openKeyAndMemory(ctx: SigningContext): { key: Uint8Array; memory: SealMemory } | undefined {
  const { sealKeyFile, sealMemoryFile } = ctx.config.secrets
  if (sealKeyFile === undefined) return undefined
  if (sealMemoryFile === undefined)
    throw new SealError('SEAL_KEY_FILE is set and SEAL_MEMORY_FILE is not; what was signed must be remembered, so set both.')
  const key = readSealKey(sealKeyFile)
  if (key === undefined) return undefined
  const memory = openSealMemory(sealMemoryFile)
  return memory === undefined ? undefined : { key, memory }
}

async function signOne(
  ctx: SigningContext,
  seal: SealRecord,
  last: SealRecord | undefined,
  key: Uint8Array,
  memory: SealMemory,
  watch: WatchStep | undefined,
): Promise<void> {
  const seq = seal._id
  const fields = sealFields(seal)
  await performStep(watch, 'read-again', () => readAgain(ctx, seal, last))

  const pubkey = keyToHex(ed25519PublicKey(key))
  const head = headOf(seal)
  const lastHead = last === undefined ? undefined : headOf(last)
  const conflict = findMemoryConflict(memory.read(), lastHead, head, pubkey)
  if (conflict !== undefined) {
    const adoptable = lastHead ?? { seq: 0, payloadHash: NO_PAYLOAD_HASH }
    throw new SealError(
      `Seal ${seq} is not signed: ${conflict}. ${REMEDY} The last signed seal of the database: ${adoptable.seq} ${adoptable.payloadHash}`,
    )
  }
  await memory.write({ seq, payload_hash: head.payloadHash, pubkey }, watch)

  const signature = await performStep(watch, 'sign', () => signSeal(fields, key, Math.max(unixSeconds(ctx.now()), seal.at)))
  await performStep(watch, 'verify', () => {
    const verdict = verifySealSignature({ ...fields, ...signature })
    if (!verdict.ok) throw new SealError(`the signature made for seal ${seq} does not verify: ${verdict.message}`)
  })
  const isStored = await performStep(watch, 'signature', () => ctx.seals.sign(seal, signature))
  if (!isStored) await expectSigned(ctx, seal)
}

/** Where our signature found no place, the seal must have one over the same payload. */
async function expectSigned(ctx: SigningContext, seal: SealRecord): Promise<void> {
  const stored = await ctx.seals.find(seal._id)
  if (stored?.signed !== true || headOf(stored).payloadHash !== headOf(seal).payloadHash)
    throw new SealError(`seal ${seal._id} changed while it was being signed. ${REMEDY}`)
}

function headOf(seal: SealRecord): SealHead {
  return { seq: seal._id, payloadHash: sealPayloadHash(sealFields(seal)) }
}

/** Tiles compared at once. */
const TILE_GROUP = 64

/** Step 3. @throws SealError naming the entry, the leaf or the level that is not what was sealed */
async function readAgain(ctx: SigningContext, seal: SealRecord, previous: SealRecord | undefined): Promise<void> {
  const refuse = (sentence: string): SealError => new SealError(`Seal ${seal._id} is not signed: ${sentence}. ${REMEDY}`)
  const follows = verifySealFollows(previous === undefined ? null : sealFields(previous), sealFields(seal))
  if (!follows.ok) throw refuse(follows.message)

  const differing: { level: number; position: number }[] = []
  let waiting: Tile[] = []
  const compare = async (tiles: readonly Tile[], isLast: boolean): Promise<void> => {
    waiting.push(...tiles)
    if (waiting.length < TILE_GROUP && !isLast) return
    const stored = await ctx.seals.findTiles(seal._id, waiting)
    for (const [place, tile] of waiting.entries()) differing.push(...findDifference(tile, stored[place]))
    waiting = []
  }

  const tree = createEntryTree()
  let due = seal.from_id
  let last: EntryRecord | undefined
  for await (const page of ctx.entries.pages(seal.from_id, seal.to_id)) {
    for (const entry of page) if (entry._id !== due++) throw refuse(`entry ${due - 1} is missing from the ledger`)
    last = page.at(-1)
    await compare(tree.add(page.map(viewEntry)), false)
  }
  if (last === undefined || tree.count !== seal.count) throw refuse(`entry ${due} is missing from the ledger`)
  const { tiles, root } = tree.finish()
  await compare(tiles, true)

  const wrongLeaf = differing.find(({ level }) => level === 0)
  if (root !== seal.root) {
    if (wrongLeaf === undefined)
      throw refuse(`its root ${seal.root} is not that of its entries, ${root}, and the stored leaves agree with the entries`)
    throw refuse(
      `entry ${seal.from_id + wrongLeaf.position} is not what it was when the seal was made: the stored entry gives another leaf`,
    )
  }
  if (wrongLeaf !== undefined) throw refuse(`the stored leaf of entry ${seal.from_id + wrongLeaf.position} is not that of the entry`)
  const [wrong] = differing
  if (wrong !== undefined)
    throw refuse(`hash ${wrong.position} of level ${wrong.level * TILE_HEIGHT} of its stored tree is not that of the entries below it`)
  if (last.source !== closingSource(seal._id) || last.at !== seal.at) throw refuse(`entry ${last._id} is its last and does not close it`)
}

/** The first hash of a tile that is stored otherwise, by its position in its level. */
function findDifference(tile: Tile, stored: Buffer | undefined): { level: number; position: number }[] {
  if (stored?.equals(tile.hashes)) return []
  let index = 0
  while (
    stored
      ?.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)
      .equals(tile.hashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)) &&
    (index + 1) * HASH_BYTES < tile.hashes.length
  )
    index++
  return [{ level: tile.level, position: tile.index * TILE_WIDTH + index }]
}

/**
 * The operator's decision that the database is the one to go on from: the seal memory takes over its last signed seal.
 * It is put on record as a ledger entry first, so that a fork which this may be can't be made in silence. Done again with
 * the id of an act that is on record, it does only what that left undone: signing may have gone on from the seal since.
 *
 * @param seq the last signed seal of the database; 0 where it has none
 * @param payloadHash SHA-256 of its payload, as hex; 64 zeros for seq 0
 * @param id names the operator's act
 * @throws SealError where the database ends otherwise, its chain doesn't hold, or there is no key here
 */
export async function adoptSeal(ctx: SigningContext, seq: number, payloadHash: string, id: string = newStepId()): Promise<void> {
  const opened = openKeyAndMemory(ctx)
  if (opened === undefined)
    throw new SealError(
      'A seal can be adopted where the key is, and while nothing else is being signed: there is no key here, or the seal memory is locked.',
    )
  const { key, memory } = opened
  const pubkey = keyToHex(ed25519PublicKey(key))
  try {
    const isOnRecord = await ctx.seals.hasAdoption(id)
    const { last, next } = await readFront(ctx)
    if (isOnRecord && last !== undefined && last._id > seq) return
    const head = last === undefined ? { seq: 0, payloadHash: NO_PAYLOAD_HASH } : headOf(last)
    if (head.seq !== seq || head.payloadHash !== payloadHash) {
      throw new SealError(
        `Seal ${seq} with the payload hash ${payloadHash} is not adopted: the last signed seal of the database is ${head.seq}, with the payload hash ${head.payloadHash}.`,
      )
    }
    if (isOnRecord && goesOnFrom(memory, last, next, pubkey)) return
    const status = await walkChain(ctx)
    if (!status.intact)
      throw new SealError(
        `Seal ${seq} is not adopted, because the chain in the database does not hold: ${status.fault ?? 'no reason is stored'}.`,
      )
    if (!isOnRecord) {
      const at = unixSeconds(ctx.now())
      const entry = {
        source: `${sealRecord(seq)}/adoption/${id}`,
        at,
        kind: 'seal_adoption' as const,
        data: { seal: sealRecord(seq), payload_hash: payloadHash },
      }
      await ctx.seals.insertAdoption({ id, seq, payloadHash, at, entry })
    }
    await memory.write({ seq, payload_hash: payloadHash, pubkey })
  } finally {
    memory.close()
  }
}

/** Whether signing could go on with what the memory holds: then it has taken over the seal, and perhaps a later one. */
function goesOnFrom(memory: SealMemory, last: SealRecord | undefined, next: SealRecord | undefined, pubkey: string): boolean {
  const remembered = readIfWhole(memory)
  if (remembered === undefined) return false
  const lastHead = last === undefined ? undefined : headOf(last)
  // A seal is stored before it is remembered: where there is none after the last one, only that one may be remembered.
  if (next === undefined && remembered.seq > (last?._id ?? 0)) return false
  const nextHead = next === undefined ? { seq: (last?._id ?? 0) + 1, payloadHash: NO_PAYLOAD_HASH } : headOf(next)
  return findMemoryConflict(remembered, lastHead, nextHead, pubkey) === undefined
}

/** What lies in a damaged memory is what an adoption replaces. */
function readIfWhole(memory: SealMemory): Remembered | undefined {
  try {
    return memory.read()
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}
