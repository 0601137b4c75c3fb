import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { commit } from '../../shared/crypto/commitment.ts'
import { createKeyTree } from '../../shared/crypto/key-tree.ts'
import { logRoot, listLogTiles } from '../../shared/crypto/log-tree.ts'
import { parseNote, formatNote, verifyNote } from '../../shared/crypto/note.ts'
import { merkleRoot, buildTree, inclusionPath } from '../../shared/crypto/merkle.ts'
import { hashLeaves } from './merkle-leaves.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import {
  verifySealFollows,
  verifySealSignature,
  type Seal,
  type SealFields,
} from '../../shared/crypto/seal-payload.ts'
import { applyKeyChange, keyState } from '../../shared/ledger/agent-keys.ts'
import { checkpointOf } from '../../shared/ledger/checkpoint.ts'
import type { EntryRecord } from '../../shared/ledger/entry.ts'
import { newId } from '../../shared/platform/ids.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import type { WithSigning } from '../../shared/ledger/signing-state.ts'
import type { WatchStep } from '../../shared/platform/step.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import { createLog } from '../../shared/platform/log.ts'
import { emptyCollections, isolate, leaveDatabase, PATIENT } from './servers.ts'
import { withSigning } from './signing.ts'

/** A ledger of its own: database, seal key and seal memory, and a clock that can be moved. */
export interface TestLedger {
  ctx: SignerContext
  /** What another process needs to work on the same ledger. */
  env: Record<string, string>
  keyFile: string
  memoryFile: string
  advance(ms: number): void
  /** Writes that many posts with their pending entries. @returns their ids */
  write(count: number): Promise<string[]>
  /** Everything that the workers do, once: numbers what waits, seals it and signs. */
  seal(watch?: WatchStep): Promise<void>
  stop(): Promise<void>
}

/** Whether nothing waits for its number or its seal, and each seal has its signature. */
export async function isEverythingSealed({ entries, seals }: Context): Promise<boolean> {
  for (const collection of entries.pendingCollections()) {
    if ((await collection.list('', 1)).length > 0) return false
  }
  const [highest, last, unsigned] = [
    await entries.highestId(),
    await seals.last(),
    await seals.listUnsigned(1),
  ]
  return last?.to_id === highest && unsigned.length === 0
}

/** @param options.mongodbUrl a database of the test's own, in place of one on the servers of the run */
export async function openLedger(
  options: { withKey?: boolean; mongodbUrl?: string; env?: Record<string, string> } = {},
): Promise<TestLedger> {
  const { redisUrl, queuePrefix, ...isolated } = isolate()
  const mongodbUrl = options.mongodbUrl ?? isolated.mongodbUrl
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-seal-'))
  const keyFile = path.join(folder, 'seal-key')
  const memoryFile = path.join(folder, 'seal-memory')
  if (options.withKey !== false) ensureSealKey(keyFile)
  const env = {
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    SEAL_KEY_FILE: keyFile,
    SEAL_MEMORY_FILE: memoryFile,
    ...PATIENT,
    ...options.env,
  }
  let shiftMs = 0
  const ctx = await openWorkerContext(env, () => Date.now() + shiftMs)
  return {
    ctx,
    env,
    keyFile,
    memoryFile,
    advance(ms) {
      shiftMs += ms
    },
    write: (count) => writePosts(ctx, count),
    async seal(watch) {
      const options = watch === undefined ? {} : { watch }
      await sequencePending(ctx, { ...options, useLease: false })
      await makeSeal(ctx, { ...options, useLease: false })
      await signSeals(ctx, options)
    },
    async stop() {
      await leaveDatabase(ctx.database.connection)
      await closeContext(ctx)
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
}

export async function openWorkerContext(
  env: Record<string, string | undefined>,
  now: () => number = Date.now,
): Promise<SignerContext> {
  const ctx = openContext(readConfig(env, 'workers'), createLog('test', 'silent'), {
    now,
    databaseTimeoutMs: 30_000,
  })
  await ctx.database.whenReady()
  return withSigning(ctx)
}

export type SignerContext = Context & WithSigning

/** Posts as publishPost() stores them, many in one insert. */
export async function writePosts(ctx: Context, count: number): Promise<string[]> {
  const at = Math.floor(ctx.now() / 1_000)
  const posts = Array.from({ length: count }, (_, index) => {
    const id = newId('post')
    const salt = newSalt()
    const content = { body: `post ${index}`, topic: null }
    const data = {
      post_id: id,
      agent_id: 'agt_writer',
      content_hash: commit(Buffer.from(salt, 'hex'), content),
    }
    return {
      _id: id,
      agent_id: 'agt_writer',
      at,
      body: content.body,
      salt,
      pending: [{ source: `${id}/post`, at, kind: 'post' as const, data }],
    }
  })
  await ctx.posts.models.posts.insertMany(posts, { lean: true })
  return posts.map(({ _id }) => _id)
}

export interface LedgerState {
  entries: LedgerEntry[]
  sources: string[]
  seals: Seal[]
  /** Sources that still wait for a number. */
  waiting: string[]
  /** Of the log, as wide as they were before the entries were read. */
  logTiles: { _id: string; hashes: { buffer: Buffer } }[]
}

interface StoredEntry {
  _id: number
  source: string
  at: number
  kind: string
  data: LedgerEntry['data']
}

/** Reads everything that the ledger stores, past the code under test. */
export async function readLedger(ctx: Context): Promise<LedgerState> {
  const { connection } = ctx.database
  const logTiles = await connection.collection<LedgerState['logTiles'][number]>('log_tiles').find().toArray()
  // Marks first and entries last: what moves on meanwhile is found in its later place.
  const waiting: string[] = []
  for (const { collection, schema } of Object.values(connection.models)) {
    if (schema.path('pending') === undefined) continue
    for await (const { pending } of connection
      .collection<{ pending: { source: string }[] }>(collection.collectionName)
      .find({ 'pending.source': { $exists: true } }))
      waiting.push(...pending.map(({ source }) => source))
  }
  const seals = await connection
    .collection<Omit<SealFields, 'seq'> & { _id: number; signed: boolean }>('seals')
    .find()
    .sort({ _id: 1 })
    .toArray()
  const stored = await connection.collection<StoredEntry>('entries').find().sort({ _id: 1 }).toArray()
  return {
    entries: stored.map(({ _id, at, kind, data }) => ({ id: _id, at, kind, data })),
    sources: stored.map(({ source }) => source),
    seals: seals.map(({ _id, ...rest }) => ({ seq: _id, ...rest })) as unknown as Seal[],
    waiting,
    logTiles,
  }
}

/**
 * Verifies everything: numbers without a gap, one entry for each source, and of every seal the link, the
 * range, the closing entry, the root over the entries as they are stored now, the tiles, and the signature
 * where there is one. And of the log: its tiles, its checkpoints, and what closing entries say of it and of
 * the agents' keys.
 *
 * @param written ids of posts that were written: each has exactly one entry, or still waits for its number
 * @param isLive true where workers are at work meanwhile, and may have closed further seals since the seals
 *   were read
 * @throws Error with the first thing that doesn't hold
 */
export async function verifyLedger(
  ctx: Context,
  written: readonly string[] = [],
  isLive = false,
): Promise<LedgerState> {
  const state = await readLedger(ctx)
  const { entries, sources, seals, waiting } = state
  for (const [index, { id }] of entries.entries())
    if (id !== index + 1) throw new Error(`entry ${index + 1} is missing: the next one is ${id}`)
  const numbered = new Set(sources)
  if (numbered.size !== sources.length) throw new Error('a source has two entries')
  const marked = new Set(waiting)
  for (const id of written)
    if (!numbered.has(`${id}/post`) && !marked.has(`${id}/post`))
      throw new Error(`${id} has no entry and does not wait for one`)
  let previous: Seal | null = null
  for (const seal of seals) {
    const follows = verifySealFollows(previous, seal)
    if (!follows.ok) throw new Error(`seal ${seal.seq}: ${follows.message}`)
    const covered = entries.slice(seal.from_id - 1, seal.to_id)
    if (covered.length !== seal.count)
      throw new Error(`seal ${seal.seq} covers ${seal.count} entries, and ${covered.length} are stored`)
    const leaves = hashLeaves(covered)
    if (merkleRoot(leaves).toString('hex') !== seal.root)
      throw new Error(`seal ${seal.seq} has a root that is not that of its entries`)
    if (sources[seal.to_id - 1] !== `seal_${seal.seq}/solvency`)
      throw new Error(`seal ${seal.seq} does not end with its closing entry`)
    if (seal.signed) {
      const verdict = verifySealSignature(seal)
      if (!verdict.ok) throw new Error(`seal ${seal.seq}: ${verdict.message}`)
    } else if ('signature' in seal) throw new Error(`seal ${seal.seq} is unsigned and has a signature`)
    const { from_id: fromId, to_id: toId, root, count } = seal
    const ids = [...new Set([fromId, fromId + Math.floor(count / 2), toId])]
    const paths = await ctx.entries.readSealPaths({ _id: seal.seq, from_id: fromId, to_id: toId, root }, ids)
    const tree = buildTree(leaves)
    for (const [place, id] of ids.entries())
      if (!isDeepStrictEqual(paths[place], inclusionPath(tree, id - fromId)))
        throw new Error(`the path of entry ${id} under seal ${seal.seq} is another than that of its entries`)
    previous = seal
  }
  await verifyLog(ctx, state)
  const closing = sources.filter((source) => /^seal_\d+\/solvency$/.test(source)).length
  if (closing < seals.length || (!isLive && closing > seals.length + 1))
    throw new Error(`${closing} closing entries for ${seals.length} seals`)
  return state
}

async function verifyLog(ctx: Context, { entries, seals, logTiles: tiles }: LedgerState): Promise<void> {
  const leaves = hashLeaves(entries)
  let keys = createKeyTree()
  let before = { log: { size: 0, root: logRoot(Buffer.alloc(0)).toString('hex') }, keys: keyState(keys) }
  for (const { seq, to_id: size, from_id: fromId, signed } of seals) {
    const { log, keys: stated } = (entries[size - 1]?.data ?? {}) as { log?: unknown; keys?: unknown }
    if (log !== undefined && JSON.stringify(log) !== JSON.stringify(before.log))
      throw new Error(`seal ${seq} names another log before it`)
    if (stated !== undefined && JSON.stringify(stated) !== JSON.stringify(before.keys))
      throw new Error(`seal ${seq} names other keys before it`)
    for (const { id, ...entry } of entries.slice(fromId - 1, size))
      keys = applyKeyChange(keys, { _id: id, ...entry } as unknown as EntryRecord)
    before = {
      log: { size, root: logRoot(leaves.subarray(0, 32 * size)).toString('hex') },
      keys: keyState(keys),
    }
    const checkpoint = checkpointOf(await ctx.seals.find(seq))
    // Seals of versions without a log have none.
    if (signed && log !== undefined && checkpoint === undefined)
      throw new Error(`seal ${seq} is signed without a checkpoint`)
    if (checkpoint === undefined) continue
    if (checkpoint.size !== size || checkpoint.root !== before.log.root)
      throw new Error(`the checkpoint of seal ${seq} is not that of the entries`)
    if (!verifyNote(parseNote(formatNote(checkpoint.text, [checkpoint.line])), checkpoint.key))
      throw new Error(`the checkpoint of seal ${seq} does not verify`)
  }
  // What was written of a seal that is not made yet is of entries that are there.
  for (const { _id, hashes } of tiles) {
    const [level = 0, index = 0] = _id.split('/').map(Number)
    const span = 256 ** level
    for (let at = 0; at * 32 < hashes.buffer.length; at++) {
      const from = (index * 256 + at) * span
      const root = logRoot(leaves.subarray(from * 32, (from + span) * 32))
      if (
        from + span > entries.length ||
        Buffer.compare(root, hashes.buffer.subarray(at * 32, (at + 1) * 32)) !== 0
      )
        throw new Error(`hash ${at} of the log's tile ${_id} is not that of the entries`)
    }
  }
  const addresses = [...listLogTiles(seals.at(-1)?.to_id ?? 0)]
  const stored = await ctx.entries.tiles.find(addresses)
  const missing = addresses.find(({ width }, place) => (stored[place]?.length ?? 0) < 32 * width)
  if (missing !== undefined)
    throw new Error(`the log's tile ${missing.level}/${missing.index} is missing or too short`)
}

/**
 * The same, of a ledger where nobody is at work: nothing waits, each post has its entry, all is sealed and
 * signed.
 */
export async function verifyWholeLedger(ctx: Context, written: readonly string[]): Promise<LedgerState> {
  const state = await verifyLedger(ctx, written)
  if (state.waiting.length > 0) throw new Error(`${state.waiting.length} entries still wait for a number`)
  if (state.sources.filter((source) => source.endsWith('/post')).length !== written.length)
    throw new Error(`${written.length} posts were written, and the ledger has another number of them`)
  const last = state.seals.at(-1)
  if ((last?.to_id ?? 0) !== state.entries.length)
    throw new Error(`the last seal ends at ${last?.to_id ?? 0}, the ledger at ${state.entries.length}`)
  const unsigned = state.seals.filter(({ signed }) => !signed).map(({ seq }) => seq)
  if (unsigned.length > 0) throw new Error(`seals ${unsigned.join(', ')} have no signature`)
  return state
}

/** Everything that a restored backup brings back: the database as it is now, to be put back later. */
export async function takeBackup(ctx: Context): Promise<() => Promise<void>> {
  const { connection } = ctx.database
  const names = Object.values(connection.models).map(({ collection }) => collection.collectionName)
  const saved = await Promise.all(
    names.map(async (name) => ({ name, documents: await connection.collection(name).find().toArray() })),
  )
  return async () => {
    await emptyCollections(connection)
    for (const { name, documents } of saved)
      if (documents.length > 0) await connection.collection(name).insertMany(documents)
  }
}
