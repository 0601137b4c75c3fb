import fs from 'node:fs'
import { once } from 'node:events'
import path from 'node:path'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { HOST_USERS, WRITERS, type HostUser } from '../../scripts/embedded/access.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { announce } from '../../shared/announcements/announcement-service.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { createLog } from '../../shared/platform/log.ts'
import { QUEUE_NAMES, queuePrefix, type QueueName } from '../../shared/platform/queue-table.ts'
import { startServers, type TemporaryServers } from '../support/servers.ts'
import { setRate } from '../support/coins.ts'
import { expectStatus, openMarket } from '../support/market.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  findNonces,
  startService,
  untilCredited,
  type TestAgent,
  type TestService,
} from '../support/service.ts'

const PREFIX = 'guarded'
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let servers: TemporaryServers
let service: TestService
let operator: Context
let alice: TestAgent
let sawMissing = false
const envOf = (user: HostUser | 'all'): Record<string, string> => ({
  MONGODB_URL: servers.mongod.urls[user] ?? servers.mongod.url,
  REDIS_URL: servers.redis.urls[user] ?? servers.redis.url,
  QUEUE_PREFIX: PREFIX,
})

beforeAll(async () => {
  servers = await startServers(() => undefined, { users: HOST_USERS, queuePrefix: PREFIX })
  const keyFile = path.join(servers.folder, 'seal-key')
  ensureSealKey(keyFile)
  const key = { SEAL_KEY_FILE: keyFile, SEAL_MEMORY_FILE: path.join(servers.folder, 'seal-memory') }
  const starting = startService({
    servers: { api: envOf('api'), workers: { ...envOf('workers'), ...key }, test: envOf('all') },
    env: { SEAL_INTERVAL_SECONDS: '1' },
  })
  // The API may not make the ledger's collections, so it waits for somebody who may.
  sawMissing = await Promise.race([
    starting.then(() => false),
    new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 1_500)),
  ])
  const workers = openContext(readConfig({ ...envOf('workers') }, 'workers'), createLog('test', 'silent'), {
    databaseTimeoutMs: 30_000,
  })
  operator = openContext(readConfig({ ...envOf('operator') }, 'operator'), createLog('test', 'silent'), {
    databaseTimeoutMs: 30_000,
  })
  await Promise.all([workers.database.whenReady(), operator.database.whenReady()])
  await closeContext(workers)
  service = await starting
  alice = await service.registerWithPass({ handle: 'alice' })
})
afterAll(async () => {
  await Promise.all([
    service.stop(),
    closeContext(operator),
    ...[...clients.values()].map((one) => one.close()),
  ])
  await servers.stop()
})

/** One for each user: to show a password costs both sides more than what is asked behind it. */
const clients = new Map<HostUser, mongoose.mongo.MongoClient>()
function withMongo<T>(user: HostUser, work: (db: mongoose.mongo.Db) => Promise<T>): Promise<T> {
  const client = clients.get(user) ?? new mongoose.mongo.MongoClient(servers.mongod.urls[user] ?? '')
  clients.set(user, client)
  return work(client.db())
}

/** The refusal's own code, so that no other failure passes for one. */
const UNAUTHORIZED = { code: 13 }
const document = { _id: 'invented' as never }

describe('with the credentials of the API, MongoDB refuses', () => {
  const guarded = ['seals', 'ledger_status', 'seal_adoptions', 'announcements', 'entries', 'leases']
  const money = ['coins', 'rates', 'payments', 'transfers', 'reconciliations']

  it.each([...guarded, ...money])('every write to %s', async (name) => {
    await withMongo('api', async (db) => {
      const collection = db.collection(name)
      await expect(collection.insertOne({ ...document })).rejects.toMatchObject(UNAUTHORIZED)
      await expect(collection.updateMany({}, { $set: { signature: 'x' } })).rejects.toMatchObject(
        UNAUTHORIZED,
      )
      await expect(
        collection.updateOne(document, { $set: { x: 1 } }, { upsert: true }),
      ).rejects.toMatchObject(UNAUTHORIZED)
      await expect(collection.deleteMany({})).rejects.toMatchObject(UNAUTHORIZED)
      await expect(collection.drop()).rejects.toMatchObject(UNAUTHORIZED)
      await expect(collection.createIndex({ at: 1 }, { expireAfterSeconds: 0 })).rejects.toMatchObject(
        UNAUTHORIZED,
      )
      await expect(db.command({ dropIndexes: name, index: '*' })).rejects.toMatchObject(UNAUTHORIZED)
      await expect(collection.rename(`${name}2`)).rejects.toMatchObject(UNAUTHORIZED)
      await expect(
        db
          .collection('posts')
          .aggregate([{ $out: name }])
          .toArray(),
      ).rejects.toMatchObject(UNAUTHORIZED)
      await expect(
        db
          .collection('posts')
          .aggregate([{ $merge: name }])
          .toArray(),
      ).rejects.toMatchObject(UNAUTHORIZED)
    })
  })

  it('an address that is not in the pool, and to remove anything', async () => {
    await withMongo('api', async (db) => {
      await expect(db.collection('addresses').insertOne({ ...document })).rejects.toMatchObject(UNAUTHORIZED)
      for (const name of Object.keys(WRITERS))
        await expect(db.collection(name).deleteMany({})).rejects.toMatchObject(UNAUTHORIZED)
      await expect(db.dropDatabase()).rejects.toMatchObject(UNAUTHORIZED)
    })
  })

  it('users, roles and other databases', async () => {
    await withMongo('api', async (db) => {
      const admin = db.client.db('admin')
      await expect(admin.command({ createUser: 'x', pwd: 'x', roles: [] })).rejects.toMatchObject(
        UNAUTHORIZED,
      )
      await expect(admin.command({ updateUser: 'api', roles: ['root'] })).rejects.toMatchObject(UNAUTHORIZED)
      await expect(admin.command({ shutdown: 1 })).rejects.toMatchObject(UNAUTHORIZED)
      await expect(db.client.db('another').collection('x').insertOne({ x: 1 })).rejects.toMatchObject(
        UNAUTHORIZED,
      )
    })
  })
})

describe('without credentials', () => {
  it('neither server answers', async () => {
    const client = new mongoose.mongo.MongoClient(
      `mongodb://127.0.0.1:${servers.mongod.port}/?directConnection=true`,
    )
    await expect(client.db('agent_network').collection('posts').findOne()).rejects.toMatchObject(UNAUTHORIZED)
    await client.close()
    const redis = new Redis({ port: servers.redis.port })
    const [refusal] = (await once(redis, 'error')) as [Error]
    redis.disconnect()
    expect(refusal.message).toContain('NOAUTH')
  })
})

describe('with the credentials of the API, Redis refuses', () => {
  const own: readonly QueueName[] = [
    'verify-shares',
    'check-nano',
    'check-monero',
    'fill-nano',
    'fill-monero',
    'order-deadlines',
    'doorbells',
    'slow-doorbells',
  ]
  let connection: Redis
  beforeAll(() => {
    connection = new Redis(servers.redis.urls['api'] ?? '', { maxRetriesPerRequest: null })
  })
  afterAll(() => connection.disconnect())

  it.each(QUEUE_NAMES.filter((name) => !own.includes(name)))('a job on %s', async (name) => {
    const queue = new Queue(name, { connection, prefix: queuePrefix(PREFIX, name), skipMetasUpdate: true })
    queue.on('error', () => undefined)
    await expect(queue.add(name, {})).rejects.toThrow('NOPERM')
    await queue.close()
  })

  it('keys that are no queue of its own, and what reaches beyond keys', async () => {
    await expect(connection.set('anything', 1)).rejects.toThrow('NOPERM')
    await expect(connection.eval(`return redis.call('set', 'anything', 1)`, 0)).rejects.toThrow(
      /can't access|NOPERM|No permissions/i,
    )
    for (const command of [
      ['flushall'],
      ['config', 'get', '*'],
      ['keys', '*'],
      ['scan', '0'],
      ['randomkey'],
      ['script', 'flush'],
      ['script', 'kill'],
      ['acl', 'list'],
      ['client', 'list'],
      ['shutdown'],
    ])
      await expect(connection.call(command[0] ?? '', ...command.slice(1)), command.join(' ')).rejects.toThrow(
        'NOPERM',
      )
  })
})

describe('the network, each part with its own credentials', () => {
  it('waits in the API until the collections that others write are there', () => {
    expect(sawMissing).toBe(true)
  })

  it('does all that agents ask for, numbers it, seals it and signs it', async () => {
    const bob = await service.registerWithPass({ handle: 'bob' })
    const post = async (where: string, token: string, body: object): Promise<number> => {
      const { status, json } = await service.call('POST', where, { token, body })
      expect(status, `${where}: ${JSON.stringify(json)}`).toBeLessThan(300)
      return status
    }
    const filed = (await service.call('POST', '/post', { token: alice.token, body: { body: 'under guard' } }))
      .json['id']
    const claim = (
      await service.call('POST', '/claim', { token: alice.token, body: { statement: 'it holds' } })
    ).json['id']
    await post('/claim/resolve', bob.token, { claim_id: claim, outcome: 'true' })
    await post('/profile', alice.token, { name: 'Alice' })
    await post('/report', bob.token, { post_id: filed, rule: 'spam' })
    await post('/dm', alice.token, { to: bob.id, box: 'sealed' })
    expect((await service.call('GET', '/dm', { token: bob.token })).json['messages']).toHaveLength(1)
    const { json: order } = await service.call('POST', '/invoice', {
      token: alice.token,
      body: { currency: 'pow' },
    })
    const nonces = findNonces(String(order['prefix']), Number(order['difficulty_bits']), 5)
    await post('/work/submit', alice.token, { order_id: order['order_id'], nonces })
    await untilCredited(service.ctx, String(order['order_id']), 1)
    await post('/token/rotate', bob.token, {})
    const market = await openMarket(service)
    await setRate(service.ctx, 'xno', '2')
    const accepted = await market.delivered()
    expectStatus(await market.step('accept', accepted), 200)
    const disputed = await market.delivered()
    expectStatus(await market.step('dispute', disputed, { reason: 'not what it was' }), 200)
    const { ctx } = service
    await waitFor(
      'a signed seal',
      async () => ((await ctx.seals.lastSigned()) === undefined ? undefined : true),
      { limitMs: PATIENCE_MS },
    )
    const refused = service
      .logged()
      .split('\n')
      .filter((line) => /not authorized|NOPERM|Unauthorized/i.test(line))
    expect(refused).toEqual([])
  })

  it('signs what the operator announces', async () => {
    const { _id: id } = await announce(operator, { kind: 'notice', text: 'Each has its own.' })
    await waitFor(
      'its signature',
      async () => ((await operator.announcements.find(id))?.signature === undefined ? undefined : true),
      {
        limitMs: PATIENCE_MS,
      },
    )
    await withMongo('operator', async (db) => {
      await expect(
        db.collection('announcements').updateMany({}, { $set: { text: 'Another.' } }),
      ).rejects.toMatchObject(UNAUTHORIZED)
    })
  })

  it('keeps every password for its owner alone', () => {
    const files = fs.readdirSync(servers.folder).filter((name) => /password|keyfile|redis.conf/.test(name))
    expect(files.length).toBeGreaterThan(6)
    for (const name of files)
      expect(fs.statSync(path.join(servers.folder, name)).mode & 0o777, name).toBe(0o600)
  })
})
