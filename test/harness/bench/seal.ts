import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import fs from 'node:fs'
import { createServer, type Server } from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { MerkleTree } from 'merkletreejs'
import mongoose from 'mongoose'
import { createApp } from '../../../api/app.ts'
import { readConfig } from '../../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../../shared/context.ts'
import { commitRecord } from '../../../shared/crypto/commitment.ts'
import { postContent } from '../../../shared/posts/post.ts'
import { buildTree, HASH_BYTES } from '../../../shared/crypto/merkle.ts'
import { signSeal } from '../../../shared/crypto/seal-payload.ts'
import { readProof } from '../../../shared/ledger/proofs.ts'
import { ensureSealKey } from '../../../shared/ledger/seal-key.ts'
import { listen } from '../../../shared/platform/listen.ts'
import { createLog } from '../../../shared/platform/log.ts'
import { YOUNG } from '../../../scripts/embedded/parts.ts'
import { startServers } from '../../../scripts/embedded/temporary.ts'
import { compareInTurns, compareWith, formatFigures, median, type Figure } from './figure.ts'
import { openLightReader } from './light.ts'
import { databaseUrl } from './processes.ts'
import type { SealRun } from './seal-worker.ts'

const DEFAULT_ENTRIES = 1_000_000
const SMALL_SEAL = 1_000
const LISTED_SEALS = 10_000
const MEMORY_LIMIT_MIB = 512
const MIB = 2 ** 20
const SETUP_BATCH = 10_000
const PROOFS = 400
const WORKER = path.join(import.meta.dirname, 'seal-worker.ts')

const runProgram = promisify(execFile)

/**
 * Compares numbering and sealing `entries` with the raw driver, and proofs from a large seal with those from
 * a small one; measures a light reader, the longest list of seals, and the Merkle tree.
 */
export async function benchSeal(
  options: { entries?: number; report?: (line: string) => void } = {},
): Promise<Figure[]> {
  const { entries = DEFAULT_ENTRIES, report = () => undefined } = options
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-bench-'))
  try {
    const keyFile = path.join(folder, 'seal-key')
    ensureSealKey(keyFile, path.join(folder, 'memory-ours'))
    const envOf = (database: string) => ({
      MONGODB_URL: databaseUrl(servers.mongod.url, database),
      REDIS_URL: servers.redis.url,
      QUEUE_PREFIX: database,
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, `memory-${database}`),
    })
    /** Lets seal-worker.ts, with the memory that `npm start` gives a worker, number and seal what is pending in a database. */
    const runWorker = async (side: 'ours' | 'raw', database: string): Promise<SealRun> => {
      const { stdout } = await runProgram(process.execPath, [...YOUNG, WORKER, side], {
        env: { ...process.env, ...envOf(database) },
        maxBuffer: MIB,
      })
      const result = JSON.parse(stdout) as SealRun
      report(
        `${side}: ${result.entries} entries, ${(result.sequenceMs / 1_000).toFixed(1)} s of numbering, ${(result.sealMs / 1_000).toFixed(1)} s of ${side === 'ours' ? 'sealing and signing' : 'reading them twice'}, ${(result.peakBytes / MIB).toFixed(0)} MiB`,
      )
      return result
    }

    const ctx = openContext(readConfig(envOf('ours'), 'workers'), createLog('bench', 'silent'), {
      databaseTimeoutMs: 30_000,
    })
    await ctx.database.whenReady()
    await storePosts(envOf('ours').MONGODB_URL, SMALL_SEAL - 1, 'a')
    await runWorker('ours', 'ours')
    const reader = await openLightReader(envOf('ours'), folder)
    // In turns and in halves, so that a slow phase of the machine affects both.
    const half = Math.ceil(entries / 2)
    const ours: SealRun[] = []
    const raw: SealRun[] = []
    await storePosts(envOf('ours').MONGODB_URL, entries, 'b')
    await storePosts(envOf('raw1').MONGODB_URL, half, 'b')
    raw.push(await runWorker('raw', 'raw1'))
    await dropDatabase(envOf('raw1').MONGODB_URL)
    ours.push(await runWorker('ours', 'ours'))
    await storePosts(envOf('raw2').MONGODB_URL, entries - half, 'b')
    raw.push(await runWorker('raw', 'raw2'))
    await dropDatabase(envOf('raw2').MONGODB_URL)

    const sum = (runs: readonly SealRun[], of: (run: SealRun) => number): number =>
      runs.reduce((total, run) => total + of(run), 0)
    /** Entries per second over all runs. */
    const rate = (runs: readonly SealRun[], timeOf: (run: SealRun) => number): number =>
      (sum(runs, (run) => run.entries) / sum(runs, timeOf)) * 1_000
    const whole = ({ sequenceMs, sealMs }: SealRun) => sequenceMs + sealMs
    const numbering = ({ sequenceMs }: SealRun) => sequenceMs
    const sealed = {
      name: `seal: ${entries} entries numbered, sealed and stored`,
      value: rate(ours, whole),
      unit: 'entries/s',
      better: 'higher',
    } as const
    const figures = [
      compareWith(
        { name: 'the raw driver, same reads, inserts and clearing, no tree', value: rate(raw, whole) },
        { ...sealed, goal: 0.9 },
      ),
      compareWith(
        { name: 'the raw driver, inserts and clearing, nothing read again', value: rate(raw, numbering) },
        sealed,
      ),
      compareWith(
        { name: 'the raw driver, one batch after the other', value: rate(raw, numbering) },
        { name: 'seal: numbering alone', value: rate(ours, numbering), unit: 'entries/s', better: 'higher' },
      ),
      compareWith(
        { name: 'limit', value: MEMORY_LIMIT_MIB },
        {
          name: 'seal: peak memory of the worker',
          value: Math.max(...ours.map(({ peakBytes }) => peakBytes)) / MIB,
          unit: 'MiB',
          better: 'lower',
          goal: 1,
        },
      ),
      await benchProofs(ctx, entries),
      ...(await reader.measure(postId('b', 0), SMALL_SEAL)),
    ]
    await reader.close()
    await ctx.database.connection.dropDatabase()
    await closeContext(ctx)
    figures.push(...(await benchList(envOf('list'))), await benchRoot(entries))
    return figures
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
    await servers.stop()
  }
}

const BODY = 'a post of the usual length, of which there are very many in this database'
const SALT = 'cd'.repeat(32)

const postId = (prefix: string, number: number): string => `pst_${prefix}${String(number).padStart(25, '0')}`

/** Stores posts with their pending entries, as the API does; `prefix` keeps the ids of two calls apart. */
export async function storePosts(url: string, count: number, prefix: string): Promise<void> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  const posts = client.db().collection<{ _id: string }>('posts')
  await posts.createIndex(
    { 'pending.source': 1 },
    { partialFilterExpression: { 'pending.source': { $exists: true } } },
  )
  for (let start = 0; start < count; start += SETUP_BATCH) {
    const batch = Array.from({ length: Math.min(SETUP_BATCH, count - start) }, (_, index) => {
      const _id = postId(prefix, start + index)
      const entry = {
        source: `${_id}/post`,
        at: 1_790_000_000,
        kind: 'post',
        data: {
          post_id: _id,
          agent_id: 'agt_00000000000000000000000000',
          content_hash: commitRecord(_id, SALT, postContent({ body: BODY })),
        },
      }
      return {
        _id,
        agent_id: 'agt_00000000000000000000000000',
        at: 1_790_000_000,
        body: BODY,
        salt: SALT,
        pending: [entry],
      }
    })
    await posts.insertMany(batch, { ordered: false, writeConcern: { w: 1 } })
  }
  await client.close()
}

export async function dropDatabase(url: string): Promise<void> {
  const client = await new mongoose.mongo.MongoClient(url).connect()
  await client.db().dropDatabase()
  await client.close()
}

/** Compares how long a proof out of the large seal takes with one out of the small seal. */
async function benchProofs(ctx: Context, entries: number): Promise<Figure> {
  const measure = (seq: number, count: number) => async (): Promise<number> => {
    const times: number[] = []
    for (let i = 0; i < PROOFS; i++) {
      const startedAt = performance.now()
      await readProof(ctx, seq, Math.floor((i * 7_919 * 104_729) % count))
      times.push(performance.now() - startedAt)
    }
    return median(times)
  }
  return compareInTurns(
    5,
    { name: `out of a seal of ${SMALL_SEAL}`, sample: measure(1, SMALL_SEAL) },
    {
      name: `seal: a proof out of a seal of ${entries}`,
      sample: measure(2, entries),
      unit: 'ms',
      better: 'lower',
      goal: 2,
    },
  )
}

/**
 * Compares buildTree() with merkletreejs, which gets the fastest form of `crypto.hash`.
 *
 * @throws Error if their roots differ
 */
async function benchRoot(count: number): Promise<Figure> {
  const flat = Buffer.alloc(count * HASH_BYTES)
  for (let index = 0; index < count; index++)
    flat.write(hash('sha256', `leaf ${index}`, 'binary'), index * HASH_BYTES, 'latin1')
  const leaves = Array.from({ length: count }, (_, index) =>
    flat.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES),
  )
  const hashBuffer = (data: Buffer): Buffer => Buffer.from(hash('sha256', data, 'binary'), 'latin1')
  const roots = new Set<string>()
  /** Returns a function that makes the root once, notes it in `roots`, and gives leaves a second. */
  const rateOf = (makeRoot: () => Buffer | undefined) => (): number => {
    const startedAt = performance.now()
    const root = makeRoot()
    const perSecond = (count / (performance.now() - startedAt)) * 1_000
    roots.add(root?.toString('hex') ?? '')
    return perSecond
  }
  const name = `seal: the root of ${count} leaves, all levels kept`
  const figure = await compareInTurns(
    5,
    {
      name: 'merkletreejs with crypto.hash',
      sample: rateOf(() => new MerkleTree(leaves, hashBuffer).getRoot()),
    },
    { name, sample: rateOf(() => buildTree(flat).at(-1)), unit: 'leaves/s', better: 'higher', goal: 5 },
  )
  if (roots.size !== 1) throw new Error('the two trees have different roots')
  return figure
}

/** Compares `GET /seal` at its longest with a bare server that has the same bytes in memory. */
async function benchList(env: Record<string, string>): Promise<Figure[]> {
  const ctx = openContext(
    readConfig({ ...env, CHALLENGE_SECRET: 'be'.repeat(32) }, 'api'),
    createLog('bench', 'silent'),
  )
  await ctx.database.whenReady()
  const key = new Uint8Array(32).fill(7)
  const seals = Array.from({ length: LISTED_SEALS }, (_, index) => {
    const fields = {
      seq: index + 1,
      at: 1_790_000_000 + 600 * index,
      count: 2,
      root: 'ab'.repeat(32),
      prev_root: index === 0 ? null : 'ab'.repeat(32),
      from_id: 2 * index + 1,
      to_id: 2 * index + 2,
    }
    const { seq: _id, ...rest } = fields
    return { _id, ...rest, ...signSeal(fields, key, fields.at), signed: true }
  })
  await ctx.seals.models.seals.insertMany(seals, { lean: true })
  await ctx.seals.writeStatus({ revision: 0, seq: LISTED_SEALS, open: [], intact: true })
  const service = createServer(createApp(ctx).listener)
  const serviceUrl = `${await listenAt(service)}/seal`
  const startedAt = performance.now()
  const bytes = Buffer.from(await (await fetch(serviceUrl)).arrayBuffer())
  const firstMs = performance.now() - startedAt
  const bare = createServer((_req, res) => res.setHeader('Content-Length', bytes.length).end(bytes))
  const bareUrl = await listenAt(bare)
  const timeFetch = (url: string) => async (): Promise<number> => {
    const from = performance.now()
    await (await fetch(url)).arrayBuffer()
    return performance.now() - from
  }
  const reference = { name: 'a bare server with the same bytes in memory', sample: timeFetch(bareUrl) }
  const name = `seal: GET /seal with ${LISTED_SEALS} seals, ${(bytes.length / 1e6).toFixed(1)} MB`
  const listed = await compareInTurns(30, reference, {
    name,
    sample: timeFetch(serviceUrl),
    unit: 'ms',
    better: 'lower',
  })
  service.close()
  bare.close()
  await ctx.database.connection.dropDatabase()
  await closeContext(ctx)
  const first = {
    name: 'seal: the first one after the chain has changed',
    value: firstMs,
    unit: 'ms',
    better: 'lower',
  } as const
  return [listed, compareWith({ name: reference.name, value: listed.reference_value }, first)]
}

const listenAt = async (server: Server): Promise<string> =>
  `http://127.0.0.1:${await listen(server, 0, '127.0.0.1')}`

if (import.meta.main) {
  const { values } = parseArgs({ options: { entries: { type: 'string', default: String(DEFAULT_ENTRIES) } } })
  const figures = await benchSeal({
    entries: Number(values.entries),
    report: (line) => void process.stderr.write(`${line}\n`),
  })
  console.log(formatFigures(figures))
  process.exit(0)
}
