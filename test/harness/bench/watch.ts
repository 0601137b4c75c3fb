import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { noResolutions } from '../../../shared/agents/agent.ts'
import { readConfig } from '../../../shared/platform/config.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { newSalt } from '../../../shared/ledger/pending.ts'
import { createLog } from '../../../shared/platform/log.ts'
import type { RateRecord } from '../../../shared/money/coin-store.ts'
import type { AddressRecord } from '../../../shared/money/address-store.ts'
import { dustThreshold } from '../../../shared/money/coin.ts'
import { newInvoice } from '../../../shared/money/invoice-service.ts'
import type { InvoiceRecord } from '../../../shared/money/invoice.ts'
import { encodeNanoAddress } from '../../../shared/crypto/nano-address.ts'
import { requireNano, type NanoContext } from '../../../shared/money/coins/nano/nano-gateway.ts'
import { RECEIVABLE_BATCH } from '../../../shared/money/coins/nano/nano-rpc.ts'
import { SECOND_MS, unixSeconds } from '../../../shared/platform/time.ts'
import { startPool } from '../../../workers/pool.ts'
import { openWorkerContext } from '../../../workers/worker-context.ts'
import { startServers } from '../../../scripts/embedded/temporary.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { compareInTurns, compareWith, median, type Figure } from './figure.ts'
import { databaseUrl } from './processes.ts'
import { watchCoin } from '../../../shared/money/watch-round.ts'
import { nanoDriver } from '../../../shared/money/coins/nano/nano-driver.ts'
import { withSigning } from '../../support/signing.ts'
import { closeContext } from '../../../shared/context.ts'

/** Open invoices in the database. */
const OPEN = 50_000
/** The share of invoices that are paid and not swept, which the node lists in every round. */
const PAID_SHARE = 0.01
const DAY_RAW = 10n ** 30n
/** The price of a day, at 1 USD for 1 XNO. */
const PRICE_CENTS = 100
/** Concurrent requests of the reference, as many as a round has. */
const AT_ONCE = 4
/** Many, since a round takes a quarter of a second and single ones vary by half. */
const ROUNDS = 9
const SETTLEMENTS = 15
const POLL_SECONDS = 2
const SETUP_BATCH = 10_000

/**
 * Measures how fast a wallet worker looks at every open Nano invoice, and the time from a payment's
 * confirmation to the credited pass, with the node's websocket and without it.
 */
export async function benchWatch(): Promise<Figure[]> {
  const servers = await startServers(() => undefined, { cacheGb: 1 })
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-bench-'))
  const node = await startNode()
  const seedFile = path.join(folder, 'seed')
  fs.writeFileSync(seedFile, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 })
  const env = {
    MONGODB_URL: databaseUrl(servers.mongod.url, 'bench'),
    REDIS_URL: servers.redis.url,
    NANO_RPC_URL: node.rpcUrl,
    NANO_WS_URL: node.wsUrl,
    NANO_SEED_FILE: seedFile,
    PAYMENT_POLL_SECONDS: String(POLL_SECONDS),
    SWEEP_SECONDS: '1',
    FREE_UNTIL: 'none',
  }
  const ctx = requireNano(
    openWorkerContext(readConfig(env, 'workers'), createLog('bench', 'silent'), {
      databaseTimeoutMs: 30_000,
    }),
  )
  try {
    await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
    const invoices = await storeInvoices(ctx, OPEN)
    await node.pay(
      invoices.slice(0, OPEN * PAID_SHARE).map(({ address }) => ({ address, amountRaw: String(DAY_RAW) })),
    )
    const unpaid = invoices.slice(OPEN * PAID_SHARE)
    return [
      await benchRound(ctx, node.rpcUrl, invoices),
      await benchSettlement(ctx, node, unpaid.slice(0, SETTLEMENTS), 'over the websocket'),
      await benchSettlement(
        { ...ctx, config: { ...ctx.config, nano: { ...ctx.config.nano, wsUrl: undefined } } },
        node,
        unpaid.slice(SETTLEMENTS, 2 * SETTLEMENTS),
        'by polling alone',
      ),
    ]
  } finally {
    await closeContext(ctx)
    node.stop()
    fs.rmSync(folder, { recursive: true, force: true })
    await servers.stop()
  }
}

type Payment = { address: string; amountRaw: string }

export interface BenchNode {
  rpcUrl: string
  wsUrl: string
  /** Makes confirmed payments. @returns when the last was confirmed (Date.now() of the node's process) */
  pay(payments: Payment[]): Promise<number>
  stop(): void
}

/** Starts nano-node-child.ts, the stand-in node in a process of its own, with its arguments. */
export async function startNode(...args: string[]): Promise<BenchNode> {
  const child = fork(path.join(import.meta.dirname, 'nano-node-child.ts'), args)
  const { rpcUrl, wsUrl } = await nextMessage<{ rpcUrl: string; wsUrl: string }>(child)
  return {
    rpcUrl,
    wsUrl,
    async pay(payments) {
      const answer = nextMessage<{ atMs: number }>(child)
      child.send(payments)
      return (await answer).atMs
    },
    stop: () => child.disconnect(),
  }
}

/** @throws Error if the child ends first */
function nextMessage<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const fail = (code: number | null): void => reject(new Error(`the stand-in node ended with ${code}`))
    child.once('exit', fail)
    child.once('message', (message) => {
      child.off('exit', fail)
      resolve(message as T)
    })
  })
}

/** Stores open invoices of one agent for a day each, with their addresses. */
async function storeInvoices(ctx: NanoContext, count: number): Promise<InvoiceRecord[]> {
  const agentId = newId('agent')
  const at = unixSeconds(ctx.now())
  await ctx.agents.insert({
    _id: agentId,
    at,
    salt: newSalt(),
    challenge: agentId,
    token_key: agentId,
    token_salt: newSalt(),
    token_hash: newSalt(),
    referrals: { paying: 0 },
    record: noResolutions(),
  })
  const rate: RateRecord = { _id: 'xno', usd: '1', source: 'bench', at }
  const addresses = Array.from({ length: count }, (_, place): AddressRecord => {
    const address = encodeNanoAddress(randomBytes(32).toString('hex').toUpperCase())
    return { _id: `xno:${place + 1}`, coin: 'xno', index: place + 1, address, state: 'taken' }
  })
  const invoices = addresses.map((address) => ({
    ...newInvoice({ agentId, at, priceUsdCents: PRICE_CENTS, rate, address, expiresAt: at + 86_400 }),
    days: 1,
  }))
  for (let start = 0; start < count; start += SETUP_BATCH) {
    await ctx.invoices.models.invoices.insertMany(invoices.slice(start, start + SETUP_BATCH), {
      lean: true,
      ordered: false,
    })
    await ctx.coins.addresses.add(addresses.slice(start, start + SETUP_BATCH))
  }
  return invoices
}

/** Compares a round of the watch over all invoices with sending its requests to the node alone. */
async function benchRound(
  ctx: NanoContext,
  rpcUrl: string,
  invoices: readonly InvoiceRecord[],
): Promise<Figure> {
  await watchCoin(ctx, nanoDriver(ctx)) // settles what is paid already
  const count = invoices.length
  const pages = Array.from({ length: Math.ceil(count / RECEIVABLE_BATCH) }, (_, page) => {
    const accounts = invoices
      .slice(page * RECEIVABLE_BATCH, (page + 1) * RECEIVABLE_BATCH)
      .map(({ address }) => address)
    return [
      JSON.stringify({ action: 'accounts_frontiers', accounts }),
      JSON.stringify({
        action: 'accounts_receivable',
        accounts,
        count: '16',
        threshold: String(dustThreshold('xno')),
        include_only_confirmed: 'true',
        include_active: 'false',
        sorting: 'true',
      }),
    ]
  })
  const askAll = async (): Promise<void> => {
    const left = [...pages]
    const askInTurn = async (): Promise<void> => {
      for (let page = left.shift(); page !== undefined; page = left.shift())
        for (const body of page) await (await fetch(rpcUrl, { method: 'POST', body })).text()
    }
    await Promise.all(Array.from({ length: AT_ONCE }, askInTurn))
  }
  const figure = await compareInTurns(
    ROUNDS,
    {
      name: 'the same requests answered by the node, with nothing done about it',
      sample: () => rateOf(count, askAll),
    },
    {
      name: `watch: a round over ${count} open Nano invoices`,
      sample: () =>
        rateOf(count, async () => {
          await watchCoin(ctx, nanoDriver(ctx))
        }),
      unit: 'addresses/s',
      better: 'higher',
      goal: 0.75,
    },
  )
  const record = await ctx.coins.findCoin('xno')
  if (record?.reachable !== true || record.round_at === undefined) throw new Error('a round did not succeed')
  return figure
}

/** Does `work` once. @returns `count` per second that it took */
async function rateOf(count: number, work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return (count / (performance.now() - startedAt)) * SECOND_MS
}

/**
 * Pays one invoice after the other while all others are open, and measures how long the workers take to
 * settle it.
 */
async function benchSettlement(
  ctx: NanoContext,
  node: BenchNode,
  invoices: readonly InvoiceRecord[],
  how: string,
): Promise<Figure> {
  /** When the bare client was told of confirmations. */
  const heardAt: number[] = []
  const socket = new WebSocket(node.wsUrl)
  await new Promise((resolve) => socket.addEventListener('open', resolve, { once: true }))
  const subscribed = new Promise((resolve) => socket.addEventListener('message', resolve, { once: true }))
  socket.send(JSON.stringify({ action: 'subscribe', topic: 'confirmation', ack: true }))
  await subscribed
  socket.addEventListener('message', () => heardAt.push(Date.now()))
  const pool = startPool(withSigning(ctx), ['watch-nano'])
  const [settledMs, heardMs]: [number[], number[]] = [[], []]
  try {
    await sleep(POLL_SECONDS * SECOND_MS) // the first round and the subscription
    for (const [place, { _id, address }] of invoices.entries()) {
      // Spread over the poll's interval, so that polling is measured and not the phase of it.
      await sleep((place * 0.37 * POLL_SECONDS * SECOND_MS) % (POLL_SECONDS * SECOND_MS))
      const heardBefore = heardAt.length
      const confirmedMs = await node.pay([{ address, amountRaw: String(DAY_RAW) }])
      await waitFor(
        'the settlement',
        async () => ((await ctx.invoices.find(_id))?.credited_days === 1 ? true : undefined),
        {
          limitMs: 60_000,
          everyMs: 2,
        },
      )
      settledMs.push(Date.now() - confirmedMs)
      heardMs.push((heardAt[heardBefore] ?? Number.NaN) - confirmedMs)
    }
  } finally {
    await pool.close()
    socket.close()
  }
  const isPolling = ctx.config.nano.wsUrl === undefined
  return compareWith(
    isPolling
      ? { name: 'the interval of the polls', value: POLL_SECONDS * SECOND_MS }
      : { name: "a bare client of the node's websocket hears of it", value: Math.max(1, median(heardMs)) },
    {
      name: `watch: from confirmation to the settled pass, ${how}`,
      value: median(settledMs),
      unit: 'ms',
      better: 'lower',
      ...(isPolling ? {} : { goal: 25 }),
    },
  )
}
