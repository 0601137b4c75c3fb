import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { backupVerbs } from '../../scripts/operator/backup-verbs.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { verifyBackup, type Manifest } from '../../shared/operation/backup.ts'
import { isHalted } from '../../shared/money/coin-state.ts'
import { requireReady } from '../../shared/money/invoice-service.ts'
import { startPool } from '../../workers/pool.ts'
import { makeCoinReady } from '../support/coins.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { runCommand, type Ran } from '../support/run-verb.ts'
import { PATIENT } from '../support/servers.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'
import { FULL } from '../support/full.ts'
import { withSigning } from '../support/signing.ts'

const LIMIT = { limitMs: PATIENCE_MS }
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'backup-'))
const backup = path.join(folder, 'backup')
const keyFile = path.join(folder, 'seal-key')
const memoryFile = path.join(folder, 'seal-memory')
const opened: string[] = []

let service: TestService
let agents: TestAgent[]

beforeAll(async () => {
  ensureSealKey(keyFile, memoryFile)
  service = await startService({
    env: { SEAL_KEY_FILE: keyFile, SEAL_MEMORY_FILE: memoryFile, SEAL_INTERVAL_SECONDS: '1' },
  })
  agents = await Promise.all(Array.from({ length: 3 }, () => service.registerWithPass()))
})

afterAll(async () => {
  const client = service.ctx.database.connection.getClient()
  for (const name of opened) await client.db(name).dropDatabase()
  await service.stop()
  fs.rmSync(folder, { recursive: true })
})

/** A database of another name beside the service's, dropped at the end. */
function databaseBeside(name: string): string {
  const url = new URL(service.ctx.config.mongodbUrl ?? '')
  url.pathname = `${url.pathname}-${name}`
  opened.push(url.pathname.slice(1))
  return url.href
}

const envOf = (mongodbUrl: string): Record<string, string> => ({
  ...PATIENT,
  MONGODB_URL: mongodbUrl,
  REDIS_URL: service.ctx.config.redisUrl ?? '',
  QUEUE_PREFIX:
    mongodbUrl === service.ctx.config.mongodbUrl
      ? service.ctx.config.queuePrefix
      : `${service.ctx.config.queuePrefix}-copy`,
  DATA_DIR: path.join(folder, 'none'),
  SEAL_KEY_FILE: keyFile,
  SEAL_MEMORY_FILE: memoryFile,
})

const operator = (mongodbUrl: string, argv: string[], env: Record<string, string> = {}): Promise<Ran> =>
  runCommand({ ...envOf(mongodbUrl), ...env }, argv)

async function answerOf<T = Record<string, unknown>>(mongodbUrl: string, ...argv: string[]): Promise<T> {
  const { stdout, stderr } = await operator(mongodbUrl, [...argv, '--json'])
  if (stderr !== '') throw new Error(stderr)
  return JSON.parse(stdout) as T
}

async function open<T>(mongodbUrl: string, work: (ctx: Context) => Promise<T>): Promise<T> {
  const ctx = openContext(readConfig(envOf(mongodbUrl), 'workers'), createLog('test', 'silent'))
  try {
    await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
    return await work(ctx)
  } finally {
    await closeContext(ctx)
  }
}

interface Checked {
  checks: { name: string; faults: { what: string; command: string }[] }[]
}

const production = (): string => service.ctx.config.mongodbUrl ?? ''
const post = async (agent: TestAgent | undefined): Promise<string> => {
  const { json } = await service.call('POST', '/post', { token: agent?.token ?? '', body: { body: 'kept' } })
  return (json['post'] as { id: string }).id
}
const isNumbered = (id: string) =>
  waitFor(
    'its number',
    async () =>
      (await service.ctx.entries.findBySource(`${id}/post`)) !== undefined &&
      ((await service.ctx.posts.find(id))?.pending ?? []).length === 0
        ? true
        : undefined,
    LIMIT,
  )

describe('a backup', () => {
  it('is of one moment, however much is written meanwhile: nothing in it is missing', async () => {
    let isWriting = true
    const written: string[] = []
    const writers = agents.map(async (agent) => {
      while (isWriting) written.push(await post(agent))
    })
    await waitFor('posts', () => (written.length > 30 ? true : undefined), LIMIT)
    await waitFor('a signed seal', () => service.ctx.seals.lastSigned(), LIMIT)
    const done = await operator(production(), ['backup', backup])
    expect([done.exitCode, done.stderr], done.stdout).toEqual([0, ''])
    const before = written.length
    await waitFor('more posts', () => (written.length > before + 30 ? true : undefined), LIMIT)
    isWriting = false
    await Promise.all(writers)
    await isNumbered(written.at(-1) ?? '')
    const copy = databaseBeside('copy')
    expect((await operator(production(), ['restore', backup, '--to', copy])).exitCode).toBe(0)
    const { checks } = await answerOf<Checked>(copy, 'check')
    // The memory of this host is the network's, and ahead of the copy.
    const faults = checks.flatMap(({ name, faults: own }) => (name === 'memory' ? [] : own))
    expect([checks.length, faults]).toEqual([10, []])
    const count = (url: string) => open(url, (ctx) => ctx.posts.models.posts.countDocuments())
    const [kept, all] = [await count(copy), await count(production())]
    expect(kept).toBeGreaterThanOrEqual(30)
    expect(kept).toBeLessThan(all)
    // The network itself is in order, too, and says that it was backed up.
    expect(await answerOf(production(), 'check')).toMatchObject({ ok: true, faults: 0 })
    const { facts } = await answerOf<{ facts: { backup: { by: string } } }>(
      production(),
      'status',
      '--wait',
      '20',
    )
    expect(facts.backup.by).toBe('operator backup')
  })

  it('says of itself when it is from, what is in it, and which keys belong to it and are not', () => {
    const manifest = JSON.parse(fs.readFileSync(path.join(backup, 'manifest.json'), 'utf8')) as Manifest
    expect(manifest).toMatchObject({
      format: 1,
      schema: 4,
      cluster_time: expect.stringMatching(/^\d+\.\d+$/),
      keys: expect.arrayContaining([
        { name: 'seal key', file: keyFile, copied: false },
        { name: 'seal memory', file: memoryFile, copied: false },
      ]),
    })
    for (const { name, documents, bytes } of manifest.collections) {
      const { size } = fs.statSync(path.join(backup, 'database', `${name}.bson`))
      expect([size, documents > 0], name).toEqual([bytes, bytes > 0])
    }
    expect(fs.existsSync(path.join(backup, 'keys'))).toBe(false)
    expect(fs.statSync(backup).mode & 0o777).toBe(0o700)
  })

  it.runIf(FULL)('has the keys in a folder of their own if it is told so', async () => {
    const withKeys = path.join(folder, 'with-keys')
    expect((await operator(production(), ['backup', withKeys, '--with-keys'])).exitCode).toBe(0)
    expect(fs.readFileSync(path.join(withKeys, 'keys', 'seal-key'))).toEqual(fs.readFileSync(keyFile))
    expect(fs.statSync(path.join(withKeys, 'keys', 'seal-key')).mode & 0o777).toBe(0o600)
  })

  it.runIf(FULL)('is whole even if MongoDB is away when it is to be noted, and says so', async () => {
    const unnoted = path.join(folder, 'unnoted')
    const verb = backupVerbs.find(({ name }) => name === 'backup')
    if (verb === undefined || !('run' in verb)) throw new Error('there is no such verb')
    const { operation } = service.ctx
    const noteBackup = () => Promise.reject(new mongoose.mongo.MongoNetworkError('gone'))
    const { answer, text } = await verb.run({
      ctx: { ...service.ctx, operation: { ...operation, watch: { ...operation.watch, noteBackup } } },
      env: envOf(production()),
      words: [unnoted],
      options: { 'with-keys': false, noted: false },
      dryRun: false,
    })
    expect([answer, text]).toEqual([
      expect.objectContaining({ noted: false }),
      expect.stringContaining('run "backup --noted"'),
    ])
    expect(await verifyBackup(unnoted)).toMatchObject({ format: 1 })
  })

  it.runIf(FULL)('goes into a data folder for npm start as well, once', async () => {
    const dataDir = path.join(folder, 'data')
    expect(await operator(production(), ['restore', backup, '--to', dataDir])).toMatchObject({ exitCode: 0 })
    expect(fs.existsSync(path.join(dataDir, 'mongo-users'))).toBe(true)
    expect(await operator(production(), ['restore', backup, '--to', dataDir])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('holds a database already'),
    })
  })

  it('goes into no folder that holds something, into no database that does, and not if it was altered', async () => {
    expect(await operator(production(), ['backup', backup])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('is not empty'),
    })
    expect(await operator(production(), ['restore', backup, '--to', production()])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/holds \d+ collections already/),
    })
    const altered = path.join(folder, 'altered')
    fs.cpSync(backup, altered, { recursive: true })
    fs.appendFileSync(path.join(altered, 'database', 'posts.bson'), 'x')
    expect(
      await operator(production(), ['restore', altered, '--to', databaseBeside('altered')]),
    ).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('its SHA-256 differs'),
    })
    fs.rmSync(path.join(altered, 'manifest.json'))
    expect(
      (await operator(production(), ['restore', altered, '--to', databaseBeside('altered')])).stderr,
    ).toContain('an unfinished one')
  })

  it.runIf(FULL)(
    'names where it would be restored to, a set of several members too, and no password',
    async () => {
      const argv = [
        'restore',
        backup,
        '--to',
        'mongodb://root:secret@one:27017,two:27018/x?replicaSet=y',
        '--dry-run',
      ]
      expect(await answerOf(production(), ...argv)).toMatchObject({ ok: true, target: 'one:27017,two:27018' })
    },
  )
})

describe('a restored copy', () => {
  const copy = () => databaseBeside('copy')

  it('knows that it is one: it signs nothing, sends nothing and gives out no address', async () => {
    const { findings } = await answerOf<{ findings: { kind: string; command: string }[] }>(
      copy(),
      'status',
      '--wait',
      '20',
    )
    expect(findings).toContainEqual(
      expect.objectContaining({ kind: 'copy_not_promoted', command: 'npm run operator -- promote' }),
    )
    await open(copy(), async (ctx) => {
      await expect(signSeals(withSigning(ctx))).rejects.toThrow(
        'This database is a restored copy, so nothing is signed',
      )
      await makeCoinReady(ctx, 'xno')
      expect(await isHalted(ctx, 'xno')).toBe(true)
      await expect(requireReady(ctx, 'xno')).rejects.toMatchObject({ code: 'currency_not_configured' })
      await ctx.coins.models.coins.deleteMany({})
    })
  })

  it('is promoted only once others were asked what they remember, or in spite of it', async () => {
    const lonely = await operator(copy(), ['promote'])
    expect([lonely.exitCode, lonely.stderr]).toEqual([1, expect.stringContaining('nobody was asked')])
    // The network that it was taken from goes on, and has signed since.
    await waitFor(
      'a seal that the copy does not have',
      async () => {
        await post(agents[0])
        const [here, there] = await Promise.all([
          service.ctx.seals.lastSigned(),
          open(copy(), (ctx) => ctx.seals.lastSigned()),
        ])
        return here !== undefined && here._id > (there?._id ?? 0) ? true : undefined
      },
      LIMIT,
    )
    const behind = await operator(copy(), ['promote'], { BASE_URL: service.url })
    expect([behind.exitCode, behind.stderr]).toEqual([
      1,
      expect.stringMatching(/remembers \d+ seals that the copy does not have/),
    ])
    expect((await operator(copy(), ['promote', '--dry-run'], { BASE_URL: service.url })).exitCode).toBe(0)
    expect(await open(copy(), (ctx) => isHalted(ctx, 'xno'))).toBe(true)
    expect((await operator(copy(), ['promote', '--anyway'], { BASE_URL: service.url })).exitCode).toBe(0)
    expect(await open(copy(), (ctx) => isHalted(ctx, 'xno'))).toBe(false)
    expect(await answerOf(copy(), 'promote')).toMatchObject({ changed: false })
  })
})

describe('a database that was put together from different times', () => {
  it('is told record by record what it lost, and is mended where the record says all of it', async () => {
    const torn = databaseBeside('torn')
    const client = service.ctx.database.connection.getClient()
    const [from, to] = [client.db(service.ctx.database.connection.name), client.db(opened.at(-1))]
    const copyOf = async (name: string): Promise<void> => {
      const documents = await from.collection(name).find().toArray()
      if (documents.length > 0) await to.collection(name).insertMany(documents)
    }
    // As mongodump without --oplog does it: one collection after another.
    const early = ['entries', 'seals', 'log_tiles', 'ledger_status', 'cosignatures']
    for (const name of early) await copyOf(name)
    const lost = [await post(agents[0]), await post(agents[1])]
    for (const id of lost) await isNumbered(id)
    for (const { name } of await from.listCollections().toArray())
      if (!early.includes(name) && !name.startsWith('system.')) await copyOf(name)

    const entriesOf = ({ checks }: Checked) => checks.find(({ name }) => name === 'entries')?.faults ?? []
    const found = entriesOf(await answerOf(torn, 'check'))
    for (const id of lost)
      expect(found).toContainEqual({
        what: `${id} of posts has no entry in the ledger and waits for none (${id}/post)`,
        command: expect.stringContaining('npm run operator -- check --mend'),
      })
    expect(entriesOf(await answerOf(torn, 'check', '--mend'))).toEqual([])
    await open(torn, async (ctx) => {
      const pool = startPool(withSigning(ctx), ['sequence'], { sequence: 100 })
      for (const id of lost) await waitFor('its number', () => ctx.entries.findBySource(`${id}/post`), LIMIT)
      await pool.close()
      // The entry is the one that it was, under another number.
      for (const id of lost) {
        const [mended, original] = [
          await ctx.entries.findBySource(`${id}/post`),
          await service.ctx.entries.findBySource(`${id}/post`),
        ]
        expect({ ...mended, _id: 0 }).toEqual({ ...original, _id: 0 })
      }
    })
    const { checks } = await answerOf<Checked>(torn, 'check')
    expect(checks.filter(({ name }) => name !== 'memory').flatMap(({ faults }) => faults)).toEqual([])
  })
})
