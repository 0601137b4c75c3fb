/*
 * One side of the seal benchmark, in a process of its own so that its memory can be measured: `ours` numbers,
 * seals and signs the pending entries in the database; `raw` does the same reads, inserts and updates with
 * the driver alone, and builds no tree. Prints a SealRun as JSON.
 */
import mongoose from 'mongoose'
import { readConfig } from '../../../shared/platform/config.ts'
import { closeContext, openContext } from '../../../shared/context.ts'
import { makeSeal } from '../../../shared/ledger/sealer.ts'
import { sequencePending } from '../../../shared/ledger/sequencer.ts'
import { signSeals } from '../../../shared/ledger/signing.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { MAJORITY } from '../../../shared/platform/database.ts'
import { withSigning } from '../../support/signing.ts'

export interface SealRun {
  entries: number
  /** Reading pending entries, inserting them numbered, and removing them from their records. */
  sequenceMs: number
  /** Sealing and signing; for `raw`, reading all entries twice, as these do. */
  sealMs: number
  /** The process's maximum resident memory. */
  peakBytes: number
}

const BATCH_ENTRIES = 2_000
const PAGE_ENTRIES = 5_000

/** Numbers, seals and signs all pending entries by the service's own code. */
async function runOurs(): Promise<SealRun> {
  const ctx = openContext(readConfig(process.env, 'workers'), createLog('bench', 'silent'), {
    databaseTimeoutMs: 30_000,
  })
  await ctx.database.whenReady()
  const started = performance.now()
  const entries = await sequencePending(ctx, { limitMs: Number.POSITIVE_INFINITY })
  const sequenced = performance.now()
  await makeSeal(ctx)
  await signSeals(withSigning(ctx))
  const sealed = performance.now()
  await closeContext(ctx)
  return {
    entries,
    sequenceMs: sequenced - started,
    sealMs: sealed - sequenced,
    peakBytes: process.resourceUsage().maxRSS * 1024,
  }
}

interface PendingPost {
  _id: string
  pending: { source: string; at: number; kind: string; data: object }[]
}

/** Does the same reads, inserts and updates with the driver alone. */
async function runRaw(): Promise<SealRun> {
  const client = await new mongoose.mongo.MongoClient(process.env['MONGODB_URL'] ?? '', {
    writeConcern: { w: 'majority', journal: true },
  }).connect()
  const db = client.db()
  const posts = db.collection<PendingPost>('posts')
  const entries = db.collection<{ _id: number }>('entries')
  await entries.createIndex({ source: 1 }, { unique: true })
  await entries.createIndex({ record: 1, _id: 1 })
  const started = performance.now()
  let count = 0
  for (let after = ''; ;) {
    const batch = await posts
      .find(
        { 'pending.source': { $gt: after } },
        { ...MAJORITY, projection: { pending: 1 }, hint: { 'pending.source': 1 }, batchSize: BATCH_ENTRIES },
      )
      .limit(BATCH_ENTRIES)
      .toArray()
    const pendingEntries = batch.flatMap(({ pending }) => pending)
    const last = pendingEntries.at(-1)
    if (last === undefined) break
    after = last.source
    await entries.insertMany(
      pendingEntries.map((entry, index) => ({
        _id: count + 1 + index,
        record: entry.source.slice(0, entry.source.indexOf('/')),
        ...entry,
      })),
      { ordered: true },
    )
    count += pendingEntries.length
    await posts.updateMany(
      { _id: { $in: batch.map(({ _id }) => _id) } },
      { $pull: { pending: { source: { $in: pendingEntries.map(({ source }) => source) } } } },
    )
  }
  const sequenced = performance.now()
  // The sealer reads the entries once, and the signer once more.
  for (let round = 0; round < 2; round++) {
    for (let from = 1; from <= count; from += PAGE_ENTRIES) {
      await entries
        .find({ _id: { $gte: from } }, { ...MAJORITY, batchSize: PAGE_ENTRIES })
        .sort({ _id: 1 })
        .limit(PAGE_ENTRIES)
        .toArray()
    }
  }
  const read = performance.now()
  await client.close()
  return {
    entries: count,
    sequenceMs: sequenced - started,
    sealMs: read - sequenced,
    peakBytes: process.resourceUsage().maxRSS * 1024,
  }
}

process.stdout.write(`${JSON.stringify(await (process.argv[2] === 'raw' ? runRaw() : runOurs()))}\n`)
process.exit(0)
