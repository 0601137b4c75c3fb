import fs from 'node:fs'
import mongoose from 'mongoose'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { OrderRecord } from '../../shared/market/order.ts'
import type { StoredPayout } from '../../shared/money/payout.ts'
import { openContext } from '../../shared/context.ts'
import { describeBuild } from '../../shared/platform/build.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { StartError } from '../../shared/platform/process.ts'
import { migrate, readSchema } from '../../shared/platform/migrations.ts'
import { openJournal } from '../../shared/money/journal-opening.ts'
import { checkBooks } from '../support/money.ts'
import { PATIENT } from '../support/servers.ts'
import { startService, type TestService } from '../support/service.ts'

/**
 * What a service stored that had no books: passes, orders in every state, payouts, and what its node had for
 * it and was counted.
 */
const file = new URL('../vectors/older-database.json', import.meta.url)
const older = mongoose.mongo.BSON.EJSON.parse(fs.readFileSync(file, 'utf8')) as {
  held_raw: string
  collections: Record<string, { _id: string }[]>
}

let service: TestService
beforeAll(async () => {
  service = await startService({ queues: [] })
  const { connection } = service.ctx.database
  // Neither the mark of the books nor a version: they are younger.
  await connection.collection('openings').deleteMany({})
  await connection.collection('schema').deleteMany({})
  for (const [name, records] of Object.entries(older.collections))
    await connection.collection(name).insertMany(records as object[])
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
    await ctx.close()
  }
}

const stored = () => readSchema(service.ctx.database.connection)

it('is upgraded by the first process that starts on it, once, and is left alone by who only looks', async () => {
  await expect(open(true)).rejects.toThrow(/has schema 0 and this program, .*, needs 1: start the network/)
  expect(await stored()).toBeUndefined()
  // Several at once: one upgrades it, the others wait.
  await Promise.all(Array.from({ length: 3 }, () => open()))
  expect(await stored()).toEqual({
    _id: 'schema',
    version: 1,
    since: expect.any(Number),
    by: describeBuild(),
  })
  await open(true)
})

it('is upgraded in order from the version that it has, and not again', async () => {
  const { connection } = service.ctx.database
  const ran: number[] = []
  const steps = [1, 2, 3].map((to) => ({
    to,
    what: 'a test',
    run: () => Promise.resolve(void ran.push(to)),
  }))
  const tries = await Promise.allSettled([1, 2].map(() => migrate(connection, steps, service.ctx.log)))
  for (const one of tries)
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ name: 'NotYetMade' })
  await migrate(connection, steps, service.ctx.log)
  expect(ran).toEqual([2, 3])
  expect((await stored())?.version).toBe(3)
})

it('is refused by a process of an older version, which says so and changes nothing', async () => {
  const { connection } = service.ctx.database
  await connection.dropCollection('reports')
  for (const changesNothing of [false, true]) {
    const opening = open(changesNothing)
    await expect(opening).rejects.toThrow(StartError)
    await expect(opening).rejects.toThrow(/has schema 3, made by .*knows 1 at most: start a newer program/)
  }
  expect((await connection.listCollections()).map(({ name }) => name)).not.toContain('reports')
  await connection.collection('schema').updateOne({}, { $set: { version: 1 } })
  await open()
})

it('with an index that this program means otherwise is named with it, and the process ends', async () => {
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
it('has what MongoDB prunes by itself: used challenges, verified batches, events and places of traces', async () => {
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

it('gets books that agree with its records and with what its node had', async () => {
  const { ctx } = service
  await openJournal(ctx.database.connection, ctx.log)
  await checkBooks(ctx, [{ coin: 'xno', held: () => Promise.resolve(BigInt(older.held_raw)) }])
  const balances = await ctx.journal.balances('xno')
  for (const account of ['unassigned', 'lost', 'network_fee'] as const)
    expect(balances.get(account) ?? 0n, account).toBe(0n)
  const byHand = (older.collections['payouts'] as unknown as StoredPayout[]).filter(
    ({ state }) => state === 'manual',
  )
  expect(balances.get('operator')).toBe(byHand.reduce((sum, { amount_raw: raw }) => sum + BigInt(raw), 0n))
})

it('has its orders and payouts as they were, each payout in a state of today', async () => {
  const { ctx } = service
  const orders = older.collections['orders'] as unknown as OrderRecord[]
  expect(new Set(orders.map(({ status }) => status))).toEqual(
    new Set(['awaiting_payment', 'paid', 'delivered', 'disputed', 'paid_out', 'refunded', 'expired']),
  )
  const states = new Set<string>()
  for (const order of orders) {
    expect(await ctx.orders.find(order._id)).toMatchObject(order)
    for (const payout of await ctx.payouts.listByOrder(order._id)) {
      const before = older.collections['payouts']?.find(({ _id }) => _id === payout._id)
      expect(payout).toMatchObject({ state: (before as { state?: string } | undefined)?.state })
      states.add(payout.state)
    }
  }
  expect(states).toEqual(new Set(['owed', 'confirmed', 'manual']))
  expect((await checkOwed()).sort()).toEqual(
    (older.collections['payouts'] ?? []).map(({ _id }) => _id).sort(),
  )
})

it('sells on: an invoice of before has what it carried, and the books go on', async () => {
  const { ctx } = service
  const [invoice] = await ctx.invoices.models.invoices.find({ has_remainder: true }).lean()
  expect(invoice).toBeDefined()
  const balances = await ctx.journal.balances('xno')
  expect((balances.get(`remainder:${invoice?.agent_id ?? ''}`) ?? 0n) > 0n).toBe(true)
})

/** Ids of the payouts that the books have lines of. */
async function checkOwed(): Promise<string[]> {
  const lines = await service.ctx.journal.models.journal.find({ payout_id: { $exists: true } }).lean()
  return [...new Set(lines.flatMap(({ payout_id: id }) => id ?? []))]
}
