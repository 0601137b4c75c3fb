import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ACCESS_NAMES } from '../../scripts/embedded/access.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, type Context } from '../../shared/context.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { createLog } from '../../shared/platform/log.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../shared/platform/queue-table.ts'
import { startPool } from '../../workers/pool.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'
import { setRate } from '../support/coins.ts'
import { expectStatus, OFFER } from '../support/market.ts'
import { holdings, strangerAddress, XNO } from '../support/nano-venue.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startNanoNode, type NanoNode } from '../../devnet/nano-node/nano-node.ts'
import { startServers, type TemporaryServers } from '../support/servers.ts'
import {
  findNonces,
  startService,
  untilCredited,
  type TestAgent,
  type TestService,
} from '../support/service.ts'

/*
 * Money and work from end to end, where each pool of workers has a user of its own at MongoDB and at Redis.
 */

const PREFIX = 'pools'
const POOLS = ['shares', 'ledger', 'signer', 'payments'] as const
const WAIT = { limitMs: PATIENCE_MS, everyMs: 300 }
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

let servers: TemporaryServers
let node: NanoNode
let service: TestService
let logged = ''
const stops: (() => Promise<unknown>)[] = []
const queuesOf = (name: string): QueueName[] => QUEUE_NAMES.filter((queue) => queueRow(queue).pool === name)
const envOf = (user: string): Record<string, string> => ({
  MONGODB_URL: servers.mongod.urls[user as 'api'] ?? servers.mongod.url,
  REDIS_URL: servers.redis.urls[user as 'api'] ?? servers.redis.url,
  QUEUE_PREFIX: PREFIX,
})

beforeAll(async () => {
  servers = await startServers(() => undefined, {
    users: ACCESS_NAMES.filter((name) => name !== 'workers'),
    queuePrefix: PREFIX,
  })
  node = await startNanoNode({ autoConfirmMs: 5 })
  const file = (name: string): string => path.join(servers.folder, name)
  fs.writeFileSync(file('nano-seed'), `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 })
  ensureSealKey(file('seal-key'))
  const common = {
    FREE_UNTIL: 'none',
    SEAL_INTERVAL_SECONDS: '1',
    RATE_SOURCES: 'xno=http://127.0.0.1:9/#price,xno=http://127.0.0.1:10/#price',
  }
  const own: Record<string, Record<string, string>> = {
    signer: { SEAL_KEY_FILE: file('seal-key'), SEAL_MEMORY_FILE: file('seal-memory') },
    payments: {
      NANO_RPC_URL: node.rpcUrl,
      NANO_WS_URL: node.wsUrl,
      NANO_SEED_FILE: file('nano-seed'),
      PAYOUTS: 'automatic',
    },
  }
  const log = createLog('test', 'debug', { write: (line: string) => void (logged += line) })
  const startWorkers = async (name: string): Promise<void> => {
    const config = readConfig({ ...common, ...envOf(name), ...own[name] }, 'workers')
    const ctx = openWorkerContext(config, log, { databaseTimeoutMs: 60_000 })
    await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
    const pool = startPool(ctx, queuesOf(name))
    stops.push(async () => {
      await pool.close()
      await closeContext(ctx)
    })
  }
  const starting = Promise.all(POOLS.map(startWorkers))
  service = await startService({
    env: common,
    servers: { api: envOf('api'), workers: envOf('sweep'), test: envOf('all') },
    queues: queuesOf('sweep'),
  })
  await starting
  await setRate(service.ctx, 'xno', '1')
})
afterAll(async () => {
  await Promise.all(stops.map((stop) => stop()))
  await service.stop()
  await node.close()
  await servers.stop()
})

const call = async (method: string, where: string, { token }: TestAgent, body?: object) => {
  const answer = await service.call(method, where, { token, ...(body === undefined ? {} : { body }) })
  expect(answer.status, `${where}: ${JSON.stringify(answer.json)}`).toBeLessThan(300)
  return answer.json
}

/** An invoice that is paid by somebody on the chain, until the service counts it. */
async function payOnChain(agent: TestAgent, invoice: Record<string, unknown>): Promise<void> {
  node.fund(String(invoice['address']), BigInt(String(invoice['amount_raw'])), { confirmed: true })
  const check = () => call('POST', '/invoice/check', agent, { invoice_id: invoice['invoice_id'] })
  await waitFor(
    'the settlement',
    async () => ((await check())['status'] === 'settled' ? true : undefined),
    WAIT,
  )
}

async function untilReady(): Promise<void> {
  const ready = async () => {
    const [xno] = (await service.call('GET', '/currencies')).json['accepted'] as { status: string }[]
    return xno?.status === 'ready' ? true : undefined
  }
  await waitFor('the coin', ready, WAIT)
}

describe('pools of workers with users of their own', () => {
  it('credit work, take a payment, pay a seller out, and number, seal and sign all of it', async () => {
    const { ctx } = service
    const [buyer, seller] = [await service.register(), await service.register()]
    const work = await call('POST', '/invoice', seller, { currency: 'pow' })
    const nonces = findNonces(
      String(work['prefix']),
      Number(work['difficulty_bits']),
      Number(work['shares_required']),
    )
    await call('POST', '/work/submit', seller, { order_id: work['order_id'], nonces })
    await untilCredited(ctx, String(work['order_id']), 1)

    await untilReady()
    await payOnChain(buyer, await call('POST', '/invoice', buyer, { currency: 'xno', days: 1 }))
    expect((await call('GET', '/me', buyer))['pass_active']).toBe(true)

    const payee = strangerAddress()
    const offer = await call('POST', '/market/offer', seller, { ...OFFER, payout_addresses: { xno: payee } })
    const placed = await call('POST', '/market/order', buyer, {
      offer_id: offer['offer_id'],
      currency: 'xno',
      refund_address: strangerAddress(),
    })
    await payOnChain(buyer, placed['invoice'] as Record<string, unknown>)
    const order = { order_id: placed['order_id'] }
    await call('POST', '/market/deliver', seller, { ...order, delivery: 'Saluton' })
    await call('POST', '/market/accept', buyer, order)
    const status = async () =>
      (await call('GET', `/market/order/${String(order.order_id)}`, seller))['order'] as { status: string }
    await waitFor('the payout', async () => ((await status()).status === 'paid_out' ? true : undefined), WAIT)
    const { balanceRaw, receivableRaw } = holdings(node, payee)
    expect(balanceRaw + receivableRaw).toBe((8n * XNO * BigInt(OFFER.price_usd)) / 10n)

    await untilSealed(ctx)
    expectStatus(await service.call('GET', '//seal'), 200)
    const refused = (logged + service.logged())
      .split('\n')
      .filter((line) => /not authorized|NOPERM|Unauthorized/i.test(line))
    expect(refused).toEqual([])
  })
})

async function untilSealed(ctx: Context): Promise<void> {
  const paidOut = async () =>
    (await ctx.entries.models.entries.findOne({ kind: 'order', 'data.step': 'paid_out' }).lean())?._id
  const last = await waitFor('the number of the last step', paidOut, WAIT)
  await waitFor(
    'its signed seal',
    async () => (((await ctx.seals.lastSigned())?.to_id ?? 0) >= last ? true : undefined),
    WAIT,
  )
}
