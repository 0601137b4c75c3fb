import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { trackChildren, type ChildTracker } from '../../scripts/embedded/children.ts'
import { startMongod, type MongodOptions } from '../../scripts/embedded/mongod.ts'
import { startRedis } from '../../scripts/embedded/redis.ts'
import type { EmbeddedServer } from '../../scripts/embedded/server.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findMongod, findRedis } from '../../scripts/prepare.mjs'
import { PATIENCE_MS } from '../support/patience.ts'

let dataDir: string
let children: ChildTracker
let lines: string[]
const running: { stop(): Promise<void> }[] = []

beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'embedded test "quoted" '))
  lines = []
  children = trackChildren(dataDir, (line) => lines.push(line))
})

afterEach(async () => {
  for (const child of running.splice(0)) await child.stop()
  children.close()
  fs.rmSync(dataDir, { recursive: true, force: true })
})

const options = () => ({
  dataDir,
  children,
  report: (line: string) => void lines.push(line),
  onStarted: (child: { stop(): Promise<void> }) => void running.push(child),
})
const startTestMongod = (more: Partial<MongodOptions> = {}) =>
  startMongod({ ...options(), binary: findMongod(process.env)!, cacheGb: 0.25, ...more })
const LIMIT = { limitMs: PATIENCE_MS }
const startTestRedis = () => startRedis({ ...options(), binary: findRedis(process.env)! })

async function onMongo<T>(
  mongod: EmbeddedServer,
  work: (
    entries: mongoose.mongo.Collection<{ _id: string }>,
    client: mongoose.mongo.MongoClient,
  ) => Promise<T>,
): Promise<T> {
  const client = new mongoose.mongo.MongoClient(mongod.url, { serverSelectionTimeoutMS: 60_000 })
  try {
    return await work(client.db().collection<{ _id: string }>('entries'), client)
  } finally {
    await client.close()
  }
}

async function onRedis<T>(redis: EmbeddedServer, work: (connection: Redis) => Promise<T>): Promise<T> {
  const connection = new Redis(redis.url, { maxRetriesPerRequest: null })
  connection.on('error', () => undefined) // it tries again until the child is back
  try {
    return await work(connection)
  } finally {
    connection.disconnect()
  }
}

/** Kills the child and waits until its successor is there. */
async function killChild(child: EmbeddedServer['child']): Promise<void> {
  const before = child.pid()
  process.kill(before!, 'SIGKILL')
  await waitFor(
    'a successor',
    () => (child.pid() !== undefined && child.pid() !== before ? true : undefined),
    { limitMs: PATIENCE_MS },
  )
}

/** Addresses that listen on the port, out of the system's own table. */
function listenersOn(port: number): string[] {
  const hexPort = port.toString(16).toUpperCase().padStart(4, '0')
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((table) =>
    fs
      .readFileSync(table, 'utf8')
      .split('\n')
      .map((row) => row.trim().split(/\s+/))
      .filter((fields) => fields[1]?.endsWith(`:${hexPort}`) && fields[3] === '0A')
      .map((fields) => fields[1]!.split(':')[0]!),
  )
}

const LOOPBACK_HEX = '0100007F'

describe('a MongoDB with users', () => {
  const startGuarded = () =>
    startMongod({ ...options(), binary: findMongod(process.env)!, cacheGb: 0.25, users: ['api', 'operator'] })
  const as = (mongod: EmbeddedServer, url: string | undefined) => ({ ...mongod, url: url ?? '' })

  it('takes over a folder from before there were users, asks from then on who it is, and finds them again on another port', async () => {
    const before = await startTestMongod()
    await onMongo(before, (entries) => entries.insertOne({ _id: 'kept' }))
    await before.child.stop()

    const first = await startGuarded()
    await expect(
      onMongo(as(first, before.url.replace(/:\d+\//, `:${first.port}/`)), (entries) => entries.findOne()),
    ).rejects.toMatchObject({ code: 13 })
    expect(await onMongo(as(first, first.urls['api']), (entries) => entries.findOne())).toEqual({
      _id: 'kept',
    })
    await expect(
      onMongo(as(first, first.urls['api']), (entries) => entries.insertOne({ _id: 'more' })),
    ).rejects.toMatchObject({ code: 13 })
    await first.child.stop()

    fs.rmSync(path.join(dataDir, 'mongo-port'))
    const again = await startGuarded()
    expect(again.port).not.toBe(first.port)
    expect(await onMongo(as(again, again.urls['operator']), (entries) => entries.findOne())).toEqual({
      _id: 'kept',
    })
    // A role that was widened, or a password that was changed, is put right by the next start.
    await onMongo(again, (_, client) => client.db('admin').command({ updateUser: 'api', roles: ['root'] }))
    await again.child.stop()
    const third = await startGuarded()
    await expect(
      onMongo(as(third, third.urls['api']), (entries) => entries.insertOne({ _id: 'more' })),
    ).rejects.toMatchObject({ code: 13 })
    await third.child.stop()

    fs.writeFileSync(path.join(dataDir, 'mongo-password'), `${'ab'.repeat(32)}\n`, { mode: 0o600 })
    await expect(startGuarded()).rejects.toThrow('MongoDB refuses the password in DATA_DIR/mongo-password')
    fs.rmSync(path.join(dataDir, 'mongo-users'))
    await startGuarded()
  }, 120_000)

  it('has lost any user that somebody made while there were none yet', async () => {
    const before = await startTestMongod()
    const stranger = { createUser: 'stranger', pwd: 'known', roles: ['root'] }
    await onMongo(before, (_, client) =>
      Promise.all(
        ['admin', 'agent_network'].map((db) =>
          client.db(db).command({ ...stranger, roles: [{ role: 'root', db: 'admin' }] }),
        ),
      ),
    )
    await before.child.stop()
    const guarded = await startGuarded()
    for (const source of ['admin', 'agent_network']) {
      const url = guarded.url
        .replace(/\/\/.*@/, '//stranger:known@')
        .replace('authSource=admin', `authSource=${source}`)
      await expect(onMongo(as(guarded, url), (entries) => entries.findOne())).rejects.toMatchObject({
        code: 18,
      })
    }
    await guarded.child.stop()
  }, 120_000)
})

describe('the embedded MongoDB', () => {
  it('runs transactions, listens on the loopback address alone, and has its data again after a stop and on another port', async () => {
    const first = await startTestMongod()
    await onMongo(first, async (entries, client) => {
      await client.withSession((session) =>
        session.withTransaction(() => entries.insertOne({ _id: 'kept' }, { session })),
      )
    })
    if (process.platform === 'linux') expect(listenersOn(first.port)).toEqual([LOOPBACK_HEX])
    await first.child.stop()

    // Somebody else has the old port by now.
    const squatter = net.createServer((socket) => socket.destroy())
    await new Promise<void>((resolve) => squatter.listen(first.port, '127.0.0.1', resolve))
    try {
      const second = await startTestMongod()
      expect(second.port).not.toBe(first.port)
      await onMongo(second, async (entries) => {
        expect(await entries.countDocuments({ _id: 'kept' })).toBe(1)
        await entries.insertOne({ _id: 'also kept' })
      })
      await second.child.stop()
      const third = await startTestMongod()
      expect(third.port).toBe(second.port)
      expect(await onMongo(third, (entries) => entries.countDocuments())).toBe(2)
    } finally {
      squatter.close()
    }
    expect(lines).toEqual([])
  })

  it('writes no line about each connection that comes and goes, and goes on in a new file when its log is long', async () => {
    const logFile = path.join(dataDir, 'logs', 'mongod.log')
    const mongod = await startTestMongod({ rotateLog: { everyMs: 200, limitBytes: 1_000_000 } })
    for (let count = 0; count < 40; count++) await onMongo(mongod, (entries) => entries.findOne())
    expect(fs.readFileSync(logFile, 'utf8')).not.toMatch(/"Connection (accepted|ended)"/)

    fs.appendFileSync(logFile, `${'x'.repeat(1_000_000)}\n`)
    await waitFor('the new file', () => fs.existsSync(`${logFile}.1`) || undefined, LIMIT)
    await waitFor(
      'a line in it',
      async () => {
        await onMongo(mongod, (_, client) => client.db('admin').command({ setParameter: 1, logLevel: 0 }))
        return (fs.existsSync(logFile) && fs.statSync(logFile).size > 0) || undefined
      },
      LIMIT,
    )
    expect(fs.statSync(logFile).size).toBeLessThan(1_000_000)
    expect(fs.statSync(logFile).mode & 0o077).toBe(0)
  }, 120_000)

  it('is back at the same URL with every acknowledged write after its process was killed', async () => {
    const mongod = await startTestMongod()
    await onMongo(mongod, (entries) =>
      entries.insertOne({ _id: 'acknowledged' }, { writeConcern: { w: 'majority', journal: true } }),
    )
    await killChild(mongod.child)
    const count = await onMongo(mongod, async (entries) => {
      await entries.insertOne({ _id: 'after' })
      return entries.countDocuments()
    })
    expect(count).toBe(2)
    expect(lines).toEqual(['mongod was ended by SIGKILL; starting it again in 0.5 s'])
  })

  it('gives up with its last words when it cannot run on the data', async () => {
    fs.mkdirSync(path.join(dataDir, 'mongo'))
    fs.writeFileSync(path.join(dataDir, 'mongo', 'WiredTiger'), 'no database')
    fs.writeFileSync(path.join(dataDir, 'mongo', 'storage.bson'), 'no document')
    await expect(startTestMongod()).rejects.toThrow(/^MongoDB ended 3 times before it answered/)
    expect(lines.filter((line) => line.startsWith('  mongod: '))).not.toEqual([])
  })
})

describe('the embedded Redis', () => {
  it('asks for its password, listens on the loopback address alone, and has its data again after a stop', async () => {
    const first = await startTestRedis()
    await onRedis(first, (connection) => connection.set('kept', 'yes'))
    if (process.platform === 'linux') expect(listenersOn(first.port)).toEqual([LOOPBACK_HEX])
    await expect(
      onRedis({ ...first, url: `redis://127.0.0.1:${first.port}` }, (connection) => connection.get('kept')),
    ).rejects.toThrow('NOAUTH')
    await first.child.stop()
    const second = await startTestRedis()
    expect(await onRedis(second, (connection) => connection.get('kept'))).toBe('yes')
    expect(fs.statSync(path.join(dataDir, 'redis-password')).mode & 0o777).toBe(0o600)
    expect(fs.statSync(path.join(dataDir, 'redis', 'redis.conf')).mode & 0o777).toBe(0o600)
  })

  it('never evicts, and is back at the same URL with what was written a second before its process was killed', async () => {
    const redis = await startTestRedis()
    await onRedis(redis, async (connection) => {
      expect(await connection.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction'])
      await connection.set('kept', 'yes')
      // The write has reached the file once Redis has nothing left to sync.
      await waitFor(
        'the append-only file to be synced',
        async () =>
          /aof_pending_bio_fsync:0\b/.test(await connection.info('persistence')) &&
          /aof_buffer_length:0\b/.test(await connection.info('persistence'))
            ? true
            : undefined,
        { limitMs: PATIENCE_MS },
      )
    })
    await killChild(redis.child)
    expect(await onRedis(redis, (connection) => connection.get('kept'))).toBe('yes')
  })
})
