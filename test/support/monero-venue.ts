import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { MoneroRegtest, RegtestWallet } from '../../devnet/monero-regtest/regtest.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { createLog } from '../../shared/platform/log.ts'
import { isCoinReady } from '../../shared/money/invoice-service.ts'
import { requireMonero, type MoneroContext } from '../../shared/money/coins/monero/monero-gateway.ts'
import {
  MAX_DESTINATIONS,
  createMoneroWallet,
  type MoneroWallet,
} from '../../shared/money/coins/monero/monero-wallet.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import type { QueueName } from '../../shared/platform/queue-table.ts'
import { openWorkerContext } from '../../workers/worker-context.ts'
import { fillMonero, watchMonero } from './monero-jobs.ts'
import { owe, readPayout, setRate } from './coins.ts'
import type { ChainHoldings } from './money.ts'
import { openRegtest } from './monero-regtest.ts'
import { PATIENCE_MS } from './patience.ts'
import { startService, whenServed, type Answer, type TestAgent, type TestService } from './service.ts'
import { closeContext } from '../../shared/context.ts'

export const XMR = 10n ** 12n
/** A day costs 1 USD, and a coin is worth 2 USD here. */
export const DAY_PICO = XMR / 2n
/** A payment to a pass is settled with so many. */
export const CONFIRMATIONS = 2
/** Money can be spent so many blocks after its own. */
export const UNLOCK_BLOCKS = 10

/** What a venue in Monero needs; the ledger's queues are beside the point. */
export const MONERO_QUEUES: readonly QueueName[] = [
  'sweep',
  'refresh-rates',
  'watch-monero',
  'check-monero',
  'fill-monero',
  'send-monero',
  'reconcile-monero',
  'order-deadlines',
]

export interface InvoiceJson {
  invoice_id: string
  address: string
  amount_raw: string
  status: string
  chain: string
  checked_at: number | null
  confirmations: number
  required_confirmations: number
  credited_days: number
  paid_raw: string
  remainder_raw: string
  payments: {
    tx_hash: string
    state: string
    amount_raw: string
    late: boolean
    confirmations: number
    unlock_time?: number
  }[]
  pass_until?: string
}

export interface Invoiced {
  agent: TestAgent
  id: string
  address: string
  amountPico: bigint
}

/** The service on a real chain of its own, with the venue's wallet. */
export interface MoneroVenue {
  service: TestService
  /** A worker's, beside those that the service serves. */
  ctx: MoneroContext
  regtest: MoneroRegtest
  wallet: RegtestWallet
  /** What another process needs to work on the same venue. */
  env: Record<string, string>
  /** An invoice of a new agent, or of this one. */
  invoice(days?: number, agent?: TestAgent): Promise<Invoiced>
  pay(of: Pick<Invoiced, 'address'>, amountPico: bigint, options?: { unlockTime?: number }): Promise<string>
  check(of: Pick<Invoiced, 'agent' | 'id'>): Promise<InvoiceJson>
  /** Waits until the invoice stands so, asking as its owner does. */
  until(
    of: Pick<Invoiced, 'agent' | 'id'>,
    what: string,
    holds: (invoice: InvoiceJson) => boolean,
  ): Promise<InvoiceJson>
  /**
   * Mines blocks, and resolves with the new height once the wallet has them: a single look of its own may
   * come back without (monero-wallet.ts).
   */
  generate(blocks: number): Promise<number>
  /** A round of a watcher beside those that are served. */
  nextRound(): Promise<unknown>
  /** Mines blocks one by one, with a round after each. */
  mine(blocks: number): Promise<void>
  /** Mines until it stands so: a block that is made at once may come without what was just sent. */
  mineUntil(
    of: Pick<Invoiced, 'agent' | 'id'>,
    what: string,
    holds: (invoice: InvoiceJson) => boolean,
  ): Promise<InvoiceJson>
  /** Puts the clock forward, with the rate as fresh as before. */
  advance(ms: number): Promise<void>
  /** Gives the wallet's primary address so many parts of this much, which can be spent at once. */
  fund(parts: number, amountPico: bigint): Promise<void>
  /** Mines until the wallet can spend at least so much, if it has it: change is locked at first. */
  unlock(amountPico: bigint): Promise<void>
  /** A sum owed to nobody in particular at an address. */
  owe(amountPico: bigint, address: string): Promise<PayoutRecord>
  payout(payoutId: string): Promise<PayoutRecord>
  /** Another wallet-rpc with a wallet of its own: somebody to be paid. */
  openPayee(): Promise<MoneroPayee>
  stop(): Promise<void>
}

export interface MoneroPayee {
  program: RegtestWallet
  wallet: MoneroWallet
  /** An address that nobody was given before. */
  address(): Promise<string>
  /** The amounts that have come to an address, each transaction's own. */
  arrived(address: string): Promise<bigint[]>
}

/** Enough for the confirmations of any payment here. */
const MOST_BLOCKS = 3 * CONFIRMATIONS
const WAIT = { limitMs: PATIENCE_MS, everyMs: 100 }
/** Each question by an invoice's owner is work for the API, the worker and the wallet. */
const CHECK_WAIT = { limitMs: PATIENCE_MS, everyMs: 250 }

/** @param options.queues what is served in this process; without any, a test calls what a job would */
export async function openMoneroVenue(
  options: { env?: Record<string, string>; queues?: readonly QueueName[] } = {},
): Promise<MoneroVenue> {
  const { queues = MONERO_QUEUES } = options
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-monero-'))
  const regtest = await openRegtest()
  const wallet = await regtest.openWallet('venue')
  const settings = {
    DATA_DIR: path.join(folder, 'data'),
    MONERO_WALLET_RPC_URL: wallet.url,
    MONERO_CONFIRMATIONS: String(CONFIRMATIONS),
    XMR_USD: '2',
    PAYMENT_POLL_SECONDS: '1',
    PAYOUTS: 'automatic',
    FREE_UNTIL: 'none',
    ...options.env,
  }
  const service = await startService({ env: settings, queues })
  const { config } = service.ctx
  const env = {
    MONGODB_URL: config.mongodbUrl as string,
    REDIS_URL: config.redisUrl as string,
    QUEUE_PREFIX: config.queuePrefix,
    ...settings,
  }
  const log = createLog('test', 'silent')
  const ctx = requireMonero(
    openWorkerContext(readConfig(env, 'workers'), log, {
      now: () => service.ctx.now(),
      databaseTimeoutMs: 30_000,
    }),
  )
  await ctx.database.whenReady()
  const { call } = service
  const isServed = queues.includes('watch-monero')
  const venue: MoneroVenue = {
    service,
    ctx,
    regtest,
    wallet,
    env,
    async invoice(days = 1, agent) {
      if (isServed) await untilReady(venue)
      else await beReady(ctx)
      const owner = agent ?? (await service.register())
      const { status, json } = await whenServed(() =>
        call('POST', '/invoice', { token: owner.token, body: { currency: 'xmr', days } }),
      )
      if (status !== 201) throw new Error(`an invoice was answered with ${status}: ${JSON.stringify(json)}`)
      return {
        agent: owner,
        id: String(json['invoice_id']),
        address: String(json['address']),
        amountPico: BigInt(String(json['amount_raw'])),
      }
    },
    pay: ({ address }, amountPico, payOptions) => regtest.payer.pay([{ address, amountPico }], payOptions),
    async check({ agent, id }) {
      return ok(
        await whenServed(() =>
          call('POST', '/invoice/check', { token: agent.token, body: { invoice_id: id } }),
        ),
      )
    },
    async until(of, what, holds) {
      let last: InvoiceJson | undefined
      try {
        return await waitFor(
          what,
          async () => {
            last = await venue.check(of)
            return holds(last) ? last : undefined
          },
          CHECK_WAIT,
        )
      } catch (error) {
        throw new Error(`${(error as Error).message}; it stands at ${JSON.stringify(last)}`, { cause: error })
      }
    },
    async generate(blocks) {
      const height = await regtest.generate(blocks)
      const isTakenIn = async () => ((await ctx.monero.wallet.getHeight()) >= height ? true : undefined)
      await waitFor('the wallet to take in the blocks', isTakenIn, WAIT)
      return height
    },
    nextRound: () => watchMonero(ctx),
    async mine(blocks) {
      for (let count = 0; count < blocks; count++) {
        await regtest.generate(1)
        await venue.nextRound()
      }
    },
    async mineUntil(of, what, holds) {
      for (let blocks = 0; blocks < MOST_BLOCKS; blocks++) {
        const now = await venue.check(of)
        if (holds(now)) return now
        await regtest.generate(1)
        await venue.nextRound()
      }
      return venue.until(of, what, holds)
    },
    async advance(ms) {
      service.advance(ms)
      await setRate(ctx, 'xmr', '2')
    },
    async fund(parts, amountPico) {
      for (let left = parts; left > 0; left -= MAX_DESTINATIONS)
        await regtest.payer.pay(
          Array.from({ length: Math.min(left, MAX_DESTINATIONS) }, () => ({
            address: wallet.address,
            amountPico,
          })),
        )
      await venue.generate(UNLOCK_BLOCKS)
    },
    async unlock(amountPico) {
      const { unlockedPico, blocksToUnlock } = await ctx.monero.wallet.balance()
      if (unlockedPico < amountPico && blocksToUnlock > 0) await venue.generate(blocksToUnlock)
    },
    owe: (amountPico, address) => owe(ctx, 'xmr', amountPico, address),
    payout: (payoutId) => readPayout(ctx, payoutId),
    async openPayee() {
      const program = await regtest.openWallet('payee')
      const payee = createMoneroWallet({ url: program.url, log, timeoutMs: 30_000 })
      const minors = new Map<string, number>()
      return {
        program,
        wallet: payee,
        async address() {
          const [made] = await payee.createSubaddresses(1)
          if (made === undefined) throw new Error('the payee has no address')
          minors.set(made.address, made.index)
          return made.address
        },
        async arrived(address) {
          const minor = minors.get(address)
          // A single look may come back without what is there (monero-wallet.ts).
          await payee.getHeight()
          return (await payee.listIncoming({ sinceHeight: 0 }))
            .filter((payment) => payment.minor === minor)
            .map(({ amountPico }) => amountPico)
        },
      }
    },
    async stop() {
      await closeContext(ctx)
      await service.stop()
      await regtest.close()
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
  if (isServed) await untilReady(venue)
  else await beReady(ctx)
  return venue
}

async function beReady(ctx: MoneroContext): Promise<void> {
  await setRate(ctx, 'xmr', '2')
  await watchMonero(ctx)
  await fillMonero(ctx)
}

/** As after a start, or after the clock was put forward. */
async function untilReady({ ctx }: MoneroVenue): Promise<void> {
  await waitFor(
    'Monero to be ready',
    async () => (isCoinReady(ctx, await ctx.coins.findCoin('xmr')) ? true : undefined),
    WAIT,
  )
}

/** 202 says that the fresh look could not be asked for, as where no queue is served. */
function ok({ status, json }: Answer): InvoiceJson {
  if (status !== 200 && status !== 202)
    throw new Error(`a check was answered with ${status}: ${JSON.stringify(json)}`)
  return json as unknown as InvoiceJson
}

export const moneroChain = (venue: MoneroVenue): ChainHoldings => ({
  coin: 'xmr',
  held: () => heldByWallet(venue),
})

interface WalletRow {
  txid: string
  amount: number | string
  fee: number | string
  subaddr_index: { major: number; minor: number }
}

/**
 * What lies in blocks for the venue, by monero-wallet-rpc's own lists: what came in and is booked, less what
 * went out and is known to. Undefined if the coin is halted or the wallet is not the only one that there was:
 * then the two need not agree.
 */
async function heldByWallet({ ctx, wallet }: MoneroVenue): Promise<bigint | undefined> {
  const coin = await ctx.coins.findCoin('xmr')
  const { connection } = ctx.database
  const transfers = (await connection
    .collection('transfers')
    .find({ coin: 'xmr' })
    .toArray()) as unknown as TransferRecord[]
  const isForeign = transfers.some(({ foreign }) => foreign === true) || (coin?.treasuries?.length ?? 0) > 1
  if (
    coin === undefined ||
    coin.halted !== undefined ||
    isForeign ||
    coin.treasury_address !== wallet.address
  )
    return undefined
  const payments = (await connection
    .collection('payments')
    .find({ coin: 'xmr', state: 'settled' })
    .toArray()) as unknown as PaymentRecord[]
  await wallet.call('refresh')
  const rows = await wallet.call('get_transfers', { in: true, out: true, account_index: 0 })
  const [incoming, outgoing] = [(rows['in'] ?? []) as WalletRow[], (rows['out'] ?? []) as WalletRow[]]
  const settled = new Map(payments.map((payment) => [`${payment.tx}/${payment.address_index}`, payment]))
  const confirmed = transfers.filter(({ state }) => state === 'confirmed')
  let held = 0n
  const there = new Set<string>()
  for (const { txid, amount, subaddr_index: index } of incoming) {
    const key = `${txid}/${index.minor}`
    const payment = settled.get(key)
    if (payment !== undefined && payment.reversed_at === undefined) held += BigInt(amount)
    there.add(key)
  }
  for (const [key, { by, amount_raw: raw, reversed_at: at }] of settled)
    if (by === 'operator' && at === undefined && !there.has(key)) held += BigInt(raw)
  const left = new Map(outgoing.map((row) => [row.txid, BigInt(row.amount) + BigInt(row.fee)]))
  for (const { tx, kind, amount_raw: raw, fee_raw: fee } of confirmed)
    held -= left.get(tx) ?? (kind === 'payout' ? BigInt(raw) : 0n) + BigInt(fee ?? '0')
  return held
}
