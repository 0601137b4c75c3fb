import type { Context } from '../context.ts'
import { canonicalJson } from '../crypto/canonical-json.ts'
import type { KeyTree } from '../crypto/key-tree.ts'
import type { LogTree } from '../crypto/log-tree.ts'
import { ed25519PublicKey, keyToHex } from '../crypto/ed25519.ts'
import { HASH_BYTES, TILE_HEIGHT, TILE_WIDTH, type Tile } from '../crypto/merkle.ts'
import { signSeal, verifySealFollows, verifySealSignature } from '../crypto/seal-payload.ts'
import { MAX_SIGNED_AHEAD_MS } from '../platform/limits.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { refuseCopy } from '../platform/copy.ts'
import { endAdoption, requireLastSigned, readAdoption, type Adoption } from './adoption.ts'
import { verifyNewSeals, verifyWholeChain } from './chain-check.ts'
import { computeLeaves, type EntryRecord } from './entry.ts'
import { applyKeyChange, keyState, readTreeAsStated } from './agent-keys.ts'
import { checkpointOf, findLogConflict, originOf, signCheckpoint } from './checkpoint.ts'
import { createEntryTree } from './entry-tree.ts'
import { logState, readLogFromTiles, buildLogFromEntries, type LogState } from './log.ts'
import { proveEntries } from './proofs.ts'
import { sealFields, sealRecordId, SealError, SIGNING_REMEDY, type SealRecord } from './seal.ts'
import { readSealKey } from './seal-key.ts'
import {
  findMemoryConflict,
  headOf,
  NOTHING_SIGNED,
  openSealMemory,
  readMemoryUnlessDamaged,
  type Remembered,
  type SealMemory,
} from './seal-memory.ts'
import { requireAgreement } from './outsider.ts'
import { askForUnknownSeals, recallOfPeer, type KnownHere } from './seal-peers.ts'
import {
  allowedClosings,
  closesSeal,
  closingEntry,
  tryAddToOwed,
  NOTHING_OWED,
  parseOwed,
  type Owed,
} from './solvency.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import { recallOfWitness } from './witnesses.ts'

/*
 * Signing, in the one process that has the key. Steps 1 and 2 of the order are in sealer.ts. It trusts
 * nobody: neither the database nor the queues can tell it what to sign, only what there is to look at. Under
 * the exclusive lock of the seal memory:
 *
 *   a. An adoption that lies beside the memory is taken: recorded in the database, then in the memory, then
 *      removed. A death in between leaves the file, and the next run does what is left (adoption.ts).
 *   b. The memory must be there, and the chain must hold as far as the workers have verified it.
 *   c. Once after each start, what others remember of the chain is compared with the database: see
 *      outsider.ts.
 *
 * Then, for each unsigned seal, the lowest first:
 *
 *   3. Read the entries again, recompute leaves, tiles, root, sums, keys and closing entry, and compare all
 *      of them with what is stored. The log goes on from tiles that lead to the root in the memory; without
 *      them, from the first entry. A signature is a statement about the ledger as it lies in the database,
 *      not about what some process once had in memory. The seal's time must not be ahead, of this clock or of
 *      the database's, unless the seal before has it.
 *   4. The seal memory: it must not know another payload for this seq or a later one, nor another root for
 *      this size of the log or a larger size; then it is written, synced and renamed. From here on no other
 *      payload and no other checkpoint can be signed in this place by this host, whatever is restored.
 *   5. Sign the seal, and the checkpoint of the log at its end. Only after 4: a signature that exists must be
 *      remembered, also if we die before it is stored.
 *   6. Verify both signatures by the rules of every verifier.
 *   7. Store them by one write where there are none, on exactly the seal that was signed.
 *
 * A death before 4 leaves an unsigned seal, as if nothing had been done. A death after 4 leaves an unsigned
 * seal that the memory knows: the next run finds the same payload in it and goes on, and since Ed25519 is
 * deterministic it makes the same signature; only `signed_at`, which is not signed, may differ. A write of 7
 * that failed and was stored is found signed. So recovery is the next run.
 */

export interface SigningOptions {
  watch?: WatchStep
}

type SigningContext = Pick<
  Context,
  | 'database'
  | 'entries'
  | 'seals'
  | 'logTiles'
  | 'readKeyTree'
  | 'config'
  | 'peers'
  | 'witnesses'
  | 'cosignatures'
  | 'metrics'
  | 'log'
  | 'now'
>

interface Signer {
  key: Uint8Array
  /** As hex. */
  pubkey: string
  memory: SealMemory
  memoryFile: string
  watch: WatchStep | undefined
}

/** After this many signatures of one run they are verified once more, and the chain's status is stored. */
const STATUS_EVERY = 100

/**
 * Applies a waiting adoption, then signs every unsigned seal with its checkpoint, in order, and stores the
 * signatures.
 *
 * @returns how many seals were signed; 0 also if there is no key yet, another process of this host is
 *   signing, a peer that didn't answer is given a pause, the chain is known not to hold, or this machine's
 *   clock is behind
 * @throws SealError if what is stored can't be trusted; nothing is signed from there on
 * @throws StartError if the database is a restored copy
 */
export async function signSeals(ctx: SigningContext, options: SigningOptions = {}): Promise<number> {
  const signer = openSigner(ctx, options.watch)
  if (signer === undefined) return 0
  try {
    await refuseCopy(ctx.database.connection, 'nothing is signed')
    await applyWaitingAdoption(ctx, signer)
    let signed = 0
    for (;;) {
      const { last, firstUnsigned, next } = await readSigningPosition(ctx)
      if (signed > 0 && (signed % STATUS_EVERY === 0 || firstUnsigned === undefined))
        await performStep(options.watch, 'status', () => verifyNewSeals(ctx))
      if (firstUnsigned === undefined) return signed
      if (last !== undefined && firstUnsigned < last._id)
        throw new SealError(
          `seal ${firstUnsigned} has no signature and seal ${last._id} after it has one. ${SIGNING_REMEDY}`,
        )
      if (next === undefined)
        throw new SealError(
          `seal ${(last?._id ?? 0) + 1} is missing, and seal ${firstUnsigned} comes after it. ${SIGNING_REMEDY}`,
        )
      if (signed === 0 && !(await checkBeforeFirstSignature(ctx, signer, last))) return 0
      if (!(await signNextSeal(ctx, next, last, signer))) return signed
      signed++
    }
  } finally {
    signer.memory.close()
  }
}

/**
 * Checks before the first signature of a run that signing may begin (steps b and c): by the memory, the
 * chain's status, and what peers and witnesses remember.
 *
 * @returns whether signing may begin: false if the chain doesn't hold, or a named peer is given a pause
 * @throws SealError if the memory is missing, a named peer doesn't answer, or a peer or witness remembers
 *   another chain
 */
async function checkBeforeFirstSignature(
  ctx: SigningContext,
  signer: Signer,
  last: SealRecord | undefined,
): Promise<boolean> {
  const remembered = requireSealMemory(signer)
  const { intact, fault } = await ctx.seals.readStatus()
  if (!intact) {
    ctx.log.error({ fault }, 'nothing is signed while the chain of seals does not hold')
    return false
  }
  const known = { pubkey: signer.pubkey, remembered, last }
  return performStep(signer.watch, 'peers', () => askOutsiders(ctx, known))
}

/**
 * Reads the seal memory, without which the key signs nothing, announcements included.
 *
 * @throws SealError if there is none
 */
export function requireSealMemory({ memory, memoryFile }: Pick<Signer, 'memory' | 'memoryFile'>): Remembered {
  const remembered = memory.read()
  if (remembered !== undefined) return remembered
  throw new SealError(
    `Nothing is signed: there is no seal memory at ${memoryFile}, which was made together with the key and says what was signed with it. Give it back as it was at last; only if it is lost, or the key is new and came without one, adopt the last signed seal of the database on this host (operator seal --adopt SEQ HASH; 0 and 64 zeros if there is none).`,
  )
}

/**
 * Step c: asks witnesses and peers that have not agreed since the start what they remember.
 *
 * @returns whether signing may begin
 * @throws SealError see requireAgreement()
 */
function askOutsiders(ctx: SigningContext, known: KnownHere): Promise<boolean> {
  const checkpoint = checkpointOf(known.last)
  const peers = ctx.peers.map((peer) => ({ outsider: peer, recall: () => recallOfPeer(ctx, peer, known) }))
  // Without a checkpoint there is nothing to ask a witness.
  const witnesses =
    checkpoint === undefined
      ? []
      : ctx.witnesses.map((witness) => ({
          outsider: witness,
          recall: () => recallOfWitness(ctx, witness, checkpoint),
        }))
  return requireAgreement([...peers, ...witnesses], ctx.config.witnessQuorum)
}

/**
 * Reads where signing stands: the last signed seal, the seq of the first unsigned one, and the seal after the
 * last signed one; each undefined if there is none. One transaction reads them all: separate reads may be
 * answered by a primary and by its successor, which knows less at first.
 */
export function readSigningPosition(ctx: Pick<Context, 'database' | 'seals'>) {
  return ctx.database.transaction(async (session) => {
    const last = await ctx.seals.lastSigned(session)
    const [firstUnsigned] = await ctx.seals.listUnsigned(1, session)
    const next = await ctx.seals.find((last?._id ?? 0) + 1, session)
    return { last, firstUnsigned, next }
  })
}

/**
 * Reads the key and locks the seal memory; the caller must close the memory.
 *
 * @returns undefined if there is no key here yet, or another process of this host has the memory open
 * @throws SealError if no place is set for the memory, or the key can't be used
 */
export function openSigner(ctx: Pick<Context, 'config'>, watch?: WatchStep): Signer | undefined {
  const { sealKeyFile, sealMemoryFile } = ctx.config.secrets
  if (sealKeyFile === undefined) return undefined
  if (sealMemoryFile === undefined)
    throw new SealError(
      'SEAL_KEY_FILE is set and SEAL_MEMORY_FILE is not; what was signed must be remembered, so set both.',
    )
  const key = readSealKey(sealKeyFile)
  if (key === undefined) return undefined
  const memory = openSealMemory(sealMemoryFile)
  if (memory === undefined) return undefined
  return { key, pubkey: keyToHex(ed25519PublicKey(key)), memory, memoryFile: sealMemoryFile, watch }
}

/**
 * Steps 3 to 7 for one seal: recomputes it, remembers it, signs it with its checkpoint, and stores the
 * signatures.
 *
 * @param last the last signed seal, which `seal` follows
 * @returns false, and nothing is signed, if this machine's clock is behind
 * @throws SealError if the seal must not be signed
 */
async function signNextSeal(
  ctx: SigningContext,
  seal: SealRecord,
  last: SealRecord | undefined,
  signer: Signer,
): Promise<boolean> {
  const { key, pubkey, memory, watch } = signer
  const seq = seal._id
  const fields = sealFields(seal)
  const remembered = requireSealMemory(signer)
  const origin = originOf(ctx.config, remembered, last)
  const head = headOf(seal)
  const refuseIfConflict = (conflict: string | undefined): void => {
    if (conflict === undefined) return
    const adoptable = last === undefined ? NOTHING_SIGNED : headOf(last)
    throw new SealError(
      `Seal ${seq} is not signed: ${conflict}. ${SIGNING_REMEDY} The last signed seal of the database: ${adoptable.seq} ${adoptable.payloadHash}`,
    )
  }
  refuseIfConflict(
    findMemoryConflict(remembered, last === undefined ? undefined : headOf(last), head, pubkey),
  )
  const { log, keys } = await performStep(watch, 'read-again', () =>
    recomputeSeal(ctx, seal, last, remembered),
  )
  // A time that was signed before may be repeated: the next seal can't have an earlier one.
  const fault = findTimeFault(ctx, seal.at === last?.at ? 0 : seal.at)
  if (fault?.isOurs === false)
    throw new SealError(`Seal ${seq} is not signed: ${fault.sentence}. ${SIGNING_REMEDY}`)
  if (fault !== undefined) {
    ctx.log.error({ seq }, `a seal is not signed: ${fault.sentence}`)
    return false
  }

  refuseIfConflict(findLogConflict(remembered, log))
  await memory.write({ ...remembered, seq, payload_hash: head.payloadHash, pubkey, origin, log, keys }, watch)

  // By this machine's clock, unless it is too far ahead of the database's.
  const nowMs = Math.min(ctx.now(), ctx.database.now() + MAX_SIGNED_AHEAD_MS)
  const signedAt = Math.max(unixSeconds(nowMs), seal.at)
  const signature = await performStep(watch, 'sign', () => ({
    ...signSeal(fields, key, signedAt),
    ...signCheckpoint(origin, log, key, pubkey),
  }))
  await performStep(watch, 'verify', () => {
    const verdict = verifySealSignature({ ...fields, ...signature })
    if (!verdict.ok)
      throw new SealError(`the signature made for seal ${seq} does not verify: ${verdict.message}`)
  })
  const isStored = await performStep(watch, 'signature', () =>
    ctx.database.transaction((session) => ctx.seals.storeSignature(seal, signature, session)),
  )
  if (!isStored) await requireSignedPayload(ctx, seal)
  return true
}

/** What is wrong with a time that the key is to state. */
export interface TimeFault {
  sentence: string
  /** This machine's clock is at fault, so another machine could sign. */
  isOurs: boolean
}

/**
 * Checks that a time which is to be signed lies ahead of neither this machine's clock nor the database's, by
 * more than MAX_SIGNED_AHEAD_MS: a date that is once too late makes every later one too late. A fault is
 * counted as an anomaly.
 *
 * @param at Unix seconds
 * @returns undefined if the time may be signed
 */
export function findTimeFault(
  ctx: Pick<Context, 'database' | 'metrics' | 'now'>,
  at: number,
): TimeFault | undefined {
  const [nowMs, databaseMs] = [ctx.now(), ctx.database.now()]
  const isAhead = (timeMs: number): boolean => at * SECOND_MS - timeMs > MAX_SIGNED_AHEAD_MS
  if (!isAhead(nowMs) && !isAhead(databaseMs)) return undefined
  ctx.metrics.countAnomaly('clock')
  if (isAhead(databaseMs))
    return { sentence: `its time ${at} is ahead of the database's clock`, isOurs: false }
  return {
    sentence: `this machine's clock is ${(databaseMs - nowMs) / SECOND_MS} s behind the database's`,
    isOurs: true,
  }
}

/**
 * Checks that a stored seal is signed and has the same payload as `seal`: so another process has signed it.
 *
 * @throws SealError if it isn't
 */
async function requireSignedPayload(ctx: SigningContext, seal: SealRecord): Promise<void> {
  const stored = await ctx.seals.find(seal._id)
  if (stored?.signed !== true || headOf(stored).payloadHash !== headOf(seal).payloadHash)
    throw new SealError(`seal ${seal._id} changed while it was being signed. ${SIGNING_REMEDY}`)
}

/** Tiles compared at once. */
const TILE_GROUP = 64

type Refuse = (sentence: string) => SealError

/**
 * Step 3: recomputes from the stored entries all that the seal states, and compares.
 *
 * @param previous the seal before
 * @returns the state of the log and the keys after the seal
 * @throws SealError naming the entry, the leaf or the level that is not what was sealed
 */
async function recomputeSeal(
  ctx: SigningContext,
  seal: SealRecord,
  previous: SealRecord | undefined,
  remembered: Remembered,
): Promise<{ log: LogState; keys: ReturnType<typeof keyState> }> {
  const refuse: Refuse = (sentence) =>
    new SealError(`Seal ${seal._id} is not signed: ${sentence}. ${SIGNING_REMEDY}`)
  const follows = verifySealFollows(previous === undefined ? null : sealFields(previous), sealFields(seal))
  if (!follows.ok) throw refuse(follows.message)

  const sealTiles = createTileComparer((tiles) => ctx.seals.findTiles(seal._id, tiles))
  // A tile of the log may have grown since.
  const logTiles = createTileComparer(async (tiles) => {
    const stored = await ctx.logTiles.findTiles(tiles)
    return stored.map((hashes, place) => hashes?.subarray(0, tiles[place]?.hashes.length))
  })

  const tree = createEntryTree()
  const base = await readOrBuildStateBefore(ctx, seal, previous, remembered, refuse)
  const { log } = base
  const logBefore = logState(log)
  let keys = base.keys
  const previousClosing = await readClosingEntry(ctx, previous, refuse)
  let owed = previousClosing === undefined ? NOTHING_OWED : parseOwed(previousClosing)
  let owedBelow: Owed = owed // below the last entry, which closes the seal
  let due = seal.from_id
  let last: EntryRecord | undefined
  for await (const page of ctx.entries.pages(seal.from_id, seal.to_id)) {
    const { leaves, unreadable } = computeLeaves(page)
    for (const entry of page) {
      if (entry._id !== due) throw refuse(`entry ${due} is missing from the ledger`)
      due++
      owedBelow = owed
      owed = tryAddToOwed(owed, entry, !unreadable.has(entry)).owed
      keys = applyKeyChange(keys, entry)
    }
    last = page.at(-1)
    await Promise.all([sealTiles.add(tree.add(leaves), false), logTiles.add(log.append(leaves), false)])
  }
  if (last === undefined || tree.count !== seal.count) throw refuse(`entry ${due} is missing from the ledger`)
  const { tiles, root } = tree.finish()
  await sealTiles.add(tiles, true)
  await logTiles.add(log.edge(), true)

  const treeFault = findTreeFault(seal, root, sealTiles.differing)
  if (treeFault !== undefined) throw refuse(treeFault)
  if (!closesSeal(last, seal._id) || last.at !== seal.at)
    throw refuse(`entry ${last._id} is its last and does not close it`)
  const [wrongTile] = logTiles.differing
  if (wrongTile !== undefined)
    throw refuse(
      `hash ${wrongTile.position} of level ${wrongTile.level} of the log's stored tiles is not that of the entries; if the entries are right, drop the collection log_tiles, and the next seal builds it again`,
    )
  const prevSeal = previous === undefined ? null : headOf(previous).payloadHash
  const { data } = closingEntry(seal._id, seal.at, owedBelow, {
    prevSeal,
    log: logBefore,
    keys: keyState(base.keys),
  })
  const inForm1 = base.keys.form === 1 ? base.keys : await ctx.readKeyTree(seal.from_id - 1, undefined, 1)
  const allowed = allowedClosings(data, keyState(inForm1), previousClosing)
  if (!allowed.map(canonicalJson).includes(canonicalJson(last.data)))
    throw refuse(
      `entry ${last._id} closes it with ${canonicalJson(last.data)}, and the entries give ${canonicalJson(data)}`,
    )
  const after = { log: logState(log), keys: keyState(keys) }
  if (
    remembered.seq === seal._id &&
    remembered.log !== undefined &&
    canonicalJson(remembered.log) !== canonicalJson(after.log)
  )
    throw refuse(
      `a log of size ${remembered.log.size} with the root ${remembered.log.root} was signed before, and the entries give ${after.log.root}`,
    )
  return after
}

/**
 * Says what is wrong with a seal's stored root and tiles; undefined if nothing is.
 *
 * @param root the one that its entries give
 * @param differing where its stored tiles differ from those that its entries give
 */
function findTreeFault(seal: SealRecord, root: string, differing: readonly Difference[]): string | undefined {
  const leaf = differing.find(({ level }) => level === 0)
  if (leaf !== undefined) {
    const entry = `entry ${seal.from_id + leaf.position}`
    return root === seal.root
      ? `the stored leaf of ${entry} is not that of the entry`
      : `${entry} is not what it was when the seal was made: the stored entry gives another leaf`
  }
  if (root !== seal.root)
    return `its root ${seal.root} is not that of its entries, ${root}, and the stored leaves agree with the entries`
  const [node] = differing
  return node === undefined
    ? undefined
    : `hash ${node.position} of level ${node.level * TILE_HEIGHT} of its stored tree is not that of the entries below it`
}

/**
 * Returns the log and the keys up to the seal before: from stored tiles and cached keys if these agree with
 * the memory, else from all entries. A memory without log or keys comes from an earlier version, an
 * adoption, or a standby that has taken over: then the whole chain is verified first.
 *
 * @throws SealError if the entries up to the seal before are not those that were signed
 */
async function readOrBuildStateBefore(
  ctx: SigningContext,
  seal: SealRecord,
  previous: SealRecord | undefined,
  remembered: Remembered,
  refuse: Refuse,
): Promise<{ log: LogTree; keys: KeyTree }> {
  const size = previous?.to_id ?? 0
  // The memory is of this very seal, not of the one before: recomputeSeal() compares what comes out of it.
  const isSignedAgain = remembered.seq === seal._id
  const isInMemory = remembered.log !== undefined && (isSignedAgain || remembered.log.size === size)
  // The memory of a standby, which has taken over, has no keys to compare with.
  const isWhole = isInMemory && (isSignedAgain || remembered.keys !== undefined)
  if (!isWhole && size > 0) {
    const { intact, fault } = await verifyWholeChain(ctx)
    if (!intact) throw refuse(`the chain does not hold: ${fault ?? 'no reason is stored'}`)
  }
  const isSignedLog = (log: LogTree): boolean =>
    isSignedAgain || !isInMemory || logState(log).root === remembered.log?.root
  const stored = isInMemory ? await readLogFromTiles(ctx, size) : undefined
  const log = stored !== undefined && isSignedLog(stored) ? stored : await buildLogFromEntries(ctx, size)
  if (!isSignedLog(log))
    throw refuse(
      `the entries up to ${size} give a log with the root ${logState(log).root}, and the root ${remembered.log?.root ?? ''} was signed`,
    )

  const { keys } = remembered
  if (isSignedAgain || !isInMemory || keys === undefined)
    return { log, keys: await ctx.readKeyTree(size, isSignedAgain ? undefined : 'first') }
  const signed = await readTreeAsStated(ctx.readKeyTree, size, keys)
  if (signed === undefined) {
    const { root } = keyState(await ctx.readKeyTree(size, undefined, keys.v ?? 1))
    throw refuse(
      `the entries up to ${size} give keys with the root ${root}, and the root ${keys.root} was signed`,
    )
  }
  // What an earlier version signed may be of form 1.
  return { log, keys: keys.v === 2 ? signed : await ctx.readKeyTree(size) }
}

/** Where a stored hash is not the computed one: its level of tiles, and its position in that level. */
interface Difference {
  level: number
  position: number
}

/**
 * Creates a comparer that collects computed tiles and compares them with the stored ones, {@link TILE_GROUP}
 * at a time. `differing` gets the first difference of each tile. The last call of `add` has to say that it is
 * the last.
 *
 * @param find reads the stored tiles, in the given order
 */
function createTileComparer(find: (tiles: readonly Tile[]) => Promise<(Buffer | undefined)[]>) {
  const differing: Difference[] = []
  let waiting: Tile[] = []
  return {
    differing,
    async add(tiles: readonly Tile[], isLast: boolean): Promise<void> {
      waiting.push(...tiles)
      if (waiting.length < TILE_GROUP && !isLast) return
      const stored = await find(waiting)
      for (const [place, tile] of waiting.entries()) {
        const difference = findDifference(tile, stored[place])
        if (difference !== undefined) differing.push(difference)
      }
      waiting = []
    },
  }
}

/**
 * Reads the closing entry of a seal and proves that it is under that seal; undefined without a seal.
 *
 * @throws SealError (by `refuse`) if it is missing, doesn't close the seal, or isn't under it
 */
async function readClosingEntry(
  ctx: SigningContext,
  previous: SealRecord | undefined,
  refuse: Refuse,
): Promise<EntryRecord | undefined> {
  if (previous === undefined) return undefined
  const entry = await ctx.entries.find(previous.to_id)
  if (entry === undefined || !closesSeal(entry, previous._id))
    throw refuse(`entry ${previous.to_id} does not close seal ${previous._id}`)
  try {
    await proveEntries(ctx, previous, [entry])
  } catch (error) {
    throw refuse(
      `entry ${previous.to_id} does not stand under seal ${previous._id}: ${(error as Error).message}`,
    )
  }
  return entry
}

/**
 * Finds the first hash of a computed tile that differs from the stored tile; undefined if the tiles are
 * equal.
 */
function findDifference({ level, index, hashes }: Tile, stored: Buffer | undefined): Difference | undefined {
  if (stored?.equals(hashes)) return undefined
  const hashAt = (tile: Buffer, place: number) => tile.subarray(place * HASH_BYTES, (place + 1) * HASH_BYTES)
  const lastPlace = hashes.length / HASH_BYTES - 1
  let place = 0
  while (stored !== undefined && place < lastPlace && hashAt(stored, place).equals(hashAt(hashes, place)))
    place++
  // Of a tile that is missing, the first hash; of one that only is too long or too short, the last.
  return { level, position: index * TILE_WIDTH + place }
}

/**
 * Step a: applies the adoption that lies beside the memory, if there is one. If it is refused, that is
 * logged, its file is renamed, and signing goes on from what the memory holds.
 */
async function applyWaitingAdoption(ctx: SigningContext, signer: Signer): Promise<void> {
  try {
    const adoption = readAdoption(signer.memoryFile)
    if (adoption !== undefined) await applyAdoption(ctx, signer, adoption)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    endAdoption(signer.memoryFile, false)
    ctx.log.error({ err: error }, 'an adoption was refused and put aside')
  }
}

/**
 * Records an adoption as a ledger entry, then puts the adopted seal into the memory, then removes the file.
 * Skips what an earlier run has done. The entry comes first: an adoption may make a fork, which must not go
 * unseen.
 *
 * @throws SealError if the database or the memory is not what the operator decided on, or the chain doesn't
 *   hold
 */
async function applyAdoption(ctx: SigningContext, signer: Signer, adoption: Adoption): Promise<void> {
  const { memory, memoryFile, pubkey, watch } = signer
  const { seq, payload_hash } = adoption
  const remembered = readMemoryUnlessDamaged(memoryFile)
  const isInMemory =
    remembered?.seq === seq && remembered.payload_hash === payload_hash && remembered.pubkey === pubkey
  if (!isInMemory || !(await isRecorded(ctx, adoption))) {
    requireMemoryUnchanged(adoption, remembered)
    await requireLastSigned(ctx, seq, payload_hash)
    const status = await verifyWholeChain(ctx)
    if (!status.intact)
      throw new SealError(
        `Seal ${seq} is not adopted, because the chain in the database does not hold: ${status.fault ?? 'no reason is stored'}.`,
      )
    if (!(await isRecorded(ctx, adoption)))
      await performStep(watch, 'adoption', () => recordAdoption(ctx, adoption))
    const givenUp = await findGivenUpSeqs(ctx, pubkey, seq, remembered)
    const adopted: Remembered = { seq, payload_hash, pubkey }
    if (remembered?.origin !== undefined) adopted.origin = remembered.origin
    if (givenUp !== undefined) adopted.given_up = givenUp
    await memory.write(adopted, watch)
  }
  await performStep(watch, 'adopted', () => endAdoption(memoryFile, true))
  ctx.log.warn({ seq, payload_hash }, 'the operator adopted a seal: signing goes on from it')
}

/**
 * @throws SealError if the memory isn't what it was when the operator decided; one that is gone is accepted
 */
function requireMemoryUnchanged(
  { seq, remembered: decidedOn }: Adoption,
  remembered: Remembered | undefined,
): void {
  if (
    (decidedOn?.seq ?? 0) === (remembered?.seq ?? 0) &&
    (remembered === undefined || decidedOn?.payload_hash === remembered.payload_hash)
  )
    return
  throw new SealError(
    `Seal ${seq} is not adopted: the seal memory ends at seal ${remembered?.seq ?? 0}, and ended at seal ${decidedOn?.seq ?? 0} when the operator decided. Adopt again.`,
  )
}

/** Whether there is a ledger entry with the content of this adoption, numbered or pending. */
async function isRecorded(ctx: SigningContext, adoption: Adoption): Promise<boolean> {
  const { source, data } = adoptionEntry(adoption, 0)
  const numbered = await ctx.entries.findBySource(source)
  const pending = await ctx.seals.findAdoption(adoption.id)
  return [numbered, ...(pending ?? [])].some(
    (entry) =>
      entry?.source === source &&
      entry.kind === 'seal_adoption' &&
      canonicalJson(entry.data) === canonicalJson(data),
  )
}

/** Stores an adoption with its pending ledger entry. @throws SealError if one of this id is stored already */
async function recordAdoption(ctx: SigningContext, adoption: Adoption): Promise<void> {
  const at = unixSeconds(ctx.now())
  const { id, seq, payload_hash } = adoption
  const pending = [adoptionEntry(adoption, at)]
  if (await ctx.seals.insertAdoption({ _id: id, seq, payload_hash, at, pending })) return
  throw new SealError(
    `Seal ${seq} is not adopted: another adoption ${id} is stored, with no entry of its own. Adopt again.`,
  )
}

/** The pending ledger entry of an adoption. @param at Unix seconds */
function adoptionEntry({ id, seq, payload_hash }: Adoption, at: number) {
  const kind = 'seal_adoption' as const
  return {
    source: `${sealRecordId(seq)}/adoption/${id}`,
    at,
    kind,
    data: { seal: sealRecordId(seq), payload_hash },
  }
}

/**
 * Finds the range of seqs that the operator gives up by adopting seal `seq`: from the one after it to the
 * last that our memory remembers, extended by what an earlier adoption gave up and by every seal of this key
 * that a peer has and our database doesn't.
 *
 * @returns the first and the last seq; undefined if nothing is given up
 */
async function findGivenUpSeqs(
  ctx: SigningContext,
  pubkey: string,
  seq: number,
  remembered: Remembered | undefined,
): Promise<Remembered['given_up']> {
  const nothing: Remembered = { seq: 0, payload_hash: NOTHING_SIGNED.payloadHash, pubkey }
  const known = { pubkey, remembered: nothing, last: await ctx.seals.lastSigned() }
  const unknownSeals = await Promise.all(ctx.peers.map((peer) => askForUnknownSeals(ctx, peer, known)))
  const seqs = unknownSeals.flatMap((seals) => (seals ?? []).map((seal) => seal.seq))
  const earlier = remembered?.given_up
  const from = Math.min(seq + 1, earlier?.from ?? Infinity, ...seqs)
  const to = Math.max(remembered?.seq ?? 0, earlier?.to ?? 0, ...seqs)
  return to < from ? undefined : { from, to }
}
