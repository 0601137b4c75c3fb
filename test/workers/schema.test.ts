import { afterAll, beforeAll, expect, it } from 'vitest'
import { WRITERS } from '../../scripts/embedded/access.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { carriesPendingEntries } from '../../shared/ledger/pending.ts'
import { describeBuild } from '../../shared/platform/build.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { StartError } from '../../shared/platform/process.ts'
import { migrate, readSchema } from '../../shared/platform/migrations.ts'
import { PATIENT } from '../support/servers.ts'
import { startService, type TestService } from '../support/service.ts'

let service: TestService
beforeAll(async () => {
  service = await startService({ queues: [] })
  const { connection } = service.ctx.database
  await connection.collection('schema').deleteMany({})
})
afterAll(() => service.stop())

/** Another process on the same database, until it is ready or refuses. */
async function open(changesNothing = false): Promise<void> {
  const { mongodbUrl = '', redisUrl = '', queuePrefix } = service.ctx.config
  const env = { ...PATIENT, MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix }
  const ctx = openContext(readConfig(env, 'workers'), createLog('test', 'silent'), { changesNothing })
  try {
    await ctx.database.whenReady()
  } finally {
    await closeContext(ctx)
  }
}

const stored = () => readSchema(service.ctx.database.connection)

it('a database without a version gets one from the first process that starts on it, once, and is left alone by who only looks', async () => {
  await expect(open(true)).rejects.toThrow(/has schema 0 and this program, .*, needs 4: start the network/)
  expect(await stored()).toBeUndefined()
  // Several at once: one upgrades it, the others wait.
  await Promise.all(Array.from({ length: 3 }, () => open()))
  expect(await stored()).toEqual({
    _id: 'schema',
    version: 4,
    since: expect.any(Number),
    by: describeBuild(),
  })
  await open(true)
})

it('a database is upgraded in order from the version that it has, and not again', async () => {
  const { connection } = service.ctx.database
  const ran: number[] = []
  const steps = [1, 2, 3, 4, 5, 6].map((to) => ({
    to,
    what: 'a test',
    run: () => Promise.resolve(void ran.push(to)),
  }))
  const tries = await Promise.allSettled([1, 2].map(() => migrate(connection, steps, service.ctx.log)))
  for (const one of tries)
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ name: 'NotYetMade' })
  await migrate(connection, steps, service.ctx.log)
  expect(ran).toEqual([5, 6])
  expect((await stored())?.version).toBe(6)
})

it('a newer database is refused by a process of an older version, which says so and changes nothing', async () => {
  const { connection } = service.ctx.database
  await connection.dropCollection('reports')
  for (const changesNothing of [false, true]) {
    const opening = open(changesNothing)
    await expect(opening).rejects.toThrow(StartError)
    await expect(opening).rejects.toThrow(/has schema 6, made by .*knows 4 at most: start a newer program/)
  }
  expect((await connection.listCollections()).map(({ name }) => name)).not.toContain('reports')
  await connection.collection('schema').updateOne({}, { $set: { version: 4 } })
  await open()
})

it('a database with an index that this program means otherwise is named with it, and the process ends', async () => {
  const { connection } = service.ctx.database
  const challenges = connection.collection('used_challenges')
  const [index] = (await challenges.indexes()).filter(({ expireAfterSeconds: ttl }) => ttl !== undefined)
  await challenges.dropIndex(index?.name ?? '')
  await challenges.createIndex(index?.key as never, { expireAfterSeconds: 12_345 })
  const opening = open()
  await expect(opening).rejects.toThrow(StartError)
  await expect(opening).rejects.toThrow(
    /^The collection used_challenges has an index that this program means otherwise; drop that index, and the next start makes it anew/,
  )
  await challenges.dropIndex(index?.name ?? '')
  await open()
  expect(await challenges.indexes()).toContainEqual(index)
})

// holds: contract.retention.agents, contract.retention.direct_messages, contract.retention.invoices
// holds: contract.retention.posts
it('MongoDB prunes these by itself: used challenges, verified batches, events and places of traces', async () => {
  const { connection } = service.ctx.database
  const pruned = []
  for (const { name } of await connection.listCollections())
    for (const { key, expireAfterSeconds } of await connection.collection(name).indexes())
      if (expireAfterSeconds !== undefined) pruned.push([name, Object.keys(key).join()])
  const names = pruned.map(([name]) => name)
  for (const name of ['used_challenges', 'work_batches', 'events', 'traces']) expect(names).toContain(name)
  // Nothing that /contract says is kept, and nothing that a receipt, a dispute or a proof needs.
  for (const name of [
    'entries',
    'seals',
    'log_tiles',
    'agents',
    'posts',
    'messages',
    'claims',
    'verdicts',
    'invoices',
    'orders',
    'payments',
    'payouts',
    'journal',
  ])
    expect(names).not.toContain(name)
})

it('every collection has a row of those who may write it, and its marks can be cleared', () => {
  const models = Object.values(service.ctx.database.connection.models)
  expect(Object.keys(WRITERS).sort()).toEqual(
    models.map(({ collection }) => collection.collectionName).sort(),
  )
  for (const { collection, schema } of models)
    if (carriesPendingEntries(schema))
      expect(
        WRITERS[collection.collectionName as keyof typeof WRITERS],
        collection.collectionName,
      ).toHaveProperty('ledger')
})
