import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createLog } from '../../shared/platform/log.ts'
import { dustThreshold } from '../../shared/money/coin.ts'
import { openNanoSeed, TREASURY_INDEX } from '../../shared/money/coins/nano/nano-keys.ts'
import { createNanoRpc, type NanoRpc } from '../../shared/money/coins/nano/nano-rpc.ts'
import { setRate } from '../support/coins.ts'
import { FULL } from '../support/full.ts'
import { checkBooks, checkMoney } from '../support/money.ts'
import { openTestNetwork, type TestNetwork } from '../support/nano-test-network.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, whenServed, type TestAgent, type TestService } from '../support/service.ts'

/**
 * The API and the workers on one network, from invoice to treasury: the stand-in, or a real dev node
 * (nano-test-network.ts).
 */
const LIMIT = { limitMs: PATIENCE_MS, everyMs: 100 }
// What is waited for comes one after the other.
vi.setConfig({ testTimeout: 240_000 })

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-nano-flow-'))
const seedFile = path.join(folder, 'seed')
let network: TestNetwork
let service: TestService
let rpc: NanoRpc
/** Everything that was paid, in raw. */
let paidRaw = 0n

interface Invoice {
  invoice_id: string
  address: string
  amount_raw: string
  status: string
  uri: string
}
type Checked = Invoice & {
  paid_raw: string
  remainder_raw: string
  credited_days: number
  confirmations: number
  required_confirmations: number
  chain: string
  payments: { late: boolean }[]
}

beforeAll(async () => {
  fs.writeFileSync(seedFile, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 })
  network = await openTestNetwork({ autoConfirmMs: 5 })
  rpc = createNanoRpc({ url: network.rpcUrl, log: createLog('test', 'silent'), timeoutMs: 10_000 })
  service = await startService({
    env: {
      NANO_RPC_URL: network.rpcUrl,
      ...(network.wsUrl === undefined ? {} : { NANO_WS_URL: network.wsUrl }),
      NANO_SEED_FILE: seedFile,
      XNO_USD: '1000',
      PAYMENT_POLL_SECONDS: '0.5',
    },
  })
  await waitFor(
    'xno to be ready',
    async () => {
      const { json } = await service.call('GET', '/currencies')
      return (json['accepted'] as { currency: string; status: string }[]).some(
        ({ currency, status }) => currency === 'xno' && status === 'ready',
      )
        ? true
        : undefined
    },
    LIMIT,
  )
})

/** What the node has for the service, asked past it; what is on its way may be in neither of two answers. */
async function readHeld(): Promise<bigint> {
  const { ctx } = service
  const treasury = (await ctx.coins.findCoin('xno'))?.treasury_address ?? ''
  const addresses = [
    treasury,
    ...(await ctx.coins.addresses.models.addresses.find({ coin: 'xno' }).lean()).map(
      ({ address }) => address,
    ),
  ]
  const waiting = [...(await rpc.receivable(addresses, dustThreshold('xno'))).values()].flat()
  const accounts = await Promise.all(
    [...(await rpc.frontiers(addresses)).keys()].map((address) => rpc.accountInfo(address)),
  )
  const sum = (amounts: readonly bigint[]) => amounts.reduce((total, amount) => total + amount, 0n)
  return (
    sum(waiting.map(({ amountRaw }) => amountRaw)) +
    sum(accounts.map((account) => account?.confirmedBalanceRaw ?? 0n))
  )
}

afterEach(() =>
  vi.waitFor(() => checkBooks(service.ctx, [{ coin: 'xno', held: readHeld }]), {
    timeout: LIMIT.limitMs,
    interval: 200,
  }),
)
afterAll(async () => {
  await service.stop()
  await network.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

async function invoiceFor(agent: TestAgent, days: number): Promise<Invoice> {
  // On a busy machine the pool's first addresses may take longer than the API waits for one.
  const { status, json } = await whenServed(() =>
    service.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno', days } }),
  )
  expect(status, JSON.stringify(json)).toBe(201)
  return json as unknown as Invoice
}

async function pay({ address }: Invoice, amountRaw: bigint): Promise<void> {
  await network.fund(address, amountRaw)
  paidRaw += amountRaw
}

async function check(agent: TestAgent, { invoice_id }: Invoice): Promise<Checked> {
  return (await service.call('POST', '/invoice/check', { token: agent.token, body: { invoice_id } }))
    .json as unknown as Checked
}

const until = (
  agent: TestAgent,
  invoice: Invoice,
  what: string,
  holds: (checked: Checked) => boolean,
): Promise<Checked> =>
  waitFor(
    what,
    async () => {
      const checked = await check(agent, invoice)
      return holds(checked) ? checked : undefined
    },
    LIMIT,
  )

describe('Nano, from an invoice to a settled pass and into the treasury', () => {
  it('is paid in one part', async () => {
    const agent = await service.register()
    const invoice = await invoiceFor(agent, 3)
    expect(invoice).toMatchObject({
      status: 'awaiting_payment',
      uri: `nano:${invoice.address}?amount=${invoice.amount_raw}`,
    })
    await pay(invoice, BigInt(invoice.amount_raw))
    const settled = await until(agent, invoice, 'the settlement', ({ status }) => status === 'settled')
    expect(settled).toMatchObject({
      credited_days: 3,
      paid_raw: invoice.amount_raw,
      remainder_raw: '0',
      confirmations: 1,
      required_confirmations: 1,
      chain: 'reachable',
    })
    expect((await service.call('GET', '/me', { token: agent.token })).json).toMatchObject({
      pass_active: true,
    })
  })

  it.runIf(FULL)('is paid in two parts, of which the first buys nothing yet', async () => {
    const agent = await service.register()
    const invoice = await invoiceFor(agent, 2)
    const half = BigInt(invoice.amount_raw) / 2n
    await pay(invoice, half)
    expect(
      await until(agent, invoice, 'the first part', ({ status }) => status === 'underpaid'),
    ).toMatchObject({
      credited_days: 0,
      paid_raw: String(half),
    })
    await pay(invoice, BigInt(invoice.amount_raw) - half)
    expect(await until(agent, invoice, 'the settlement', ({ status }) => status === 'settled')).toMatchObject(
      { credited_days: 2 },
    )
  })

  it.runIf(FULL)(
    'is paid twice: both payments end as days, and what is left counts towards the next',
    async () => {
      const agent = await service.register()
      const invoice = await invoiceFor(agent, 2)
      await pay(invoice, BigInt(invoice.amount_raw))
      await until(agent, invoice, 'the first settlement', ({ credited_days: days }) => days === 2)
      await pay(invoice, BigInt(invoice.amount_raw) + 7n)
      expect(
        await until(agent, invoice, 'the second settlement', ({ credited_days: days }) => days === 4),
      ).toMatchObject({
        remainder_raw: '7',
      })
    },
  )

  it.runIf(FULL)(
    'is paid late: it expires only after a look at the chain, and the money buys by the rule for late money',
    async () => {
      const agent = await service.register()
      const invoice = await invoiceFor(agent, 2)
      service.advance(61 * 60_000)
      await until(agent, invoice, 'the end of its time', ({ status }) => status === 'expired')
      await setRate(service.ctx, 'xno', '1000')
      await pay(invoice, BigInt(invoice.amount_raw))
      const late = await until(agent, invoice, 'the late settlement', ({ payments }) => payments.length === 1)
      const settled = await until(
        agent,
        invoice,
        'the late settlement',
        ({ credited_days: days }) => days > 0,
      )
      expect(late.payments).toMatchObject([{ late: true }])
      expect(settled).toMatchObject({ credited_days: 2, status: 'settled' })
    },
  )

  it('ends in the treasury, with every raw accounted for and each payment counted once', async () => {
    const treasury = openNanoSeed(seedFile).deriveAccount(TREASURY_INDEX)
    await waitFor(
      'the treasury to hold everything',
      async () =>
        (await rpc.accountInfo(treasury.address))?.confirmedBalanceRaw === paidRaw ? true : undefined,
      LIMIT,
    )
    await waitFor(
      'the records of it',
      async () =>
        (await service.ctx.invoices.arrivals.listUnswept('xno', '', 1)).length === 0 ? true : undefined,
      LIMIT,
    )
    expect(await checkMoney(service.ctx)).toEqual(
      FULL ? { invoices: 4, payments: 6, settled: 6 } : { invoices: 1, payments: 1, settled: 1 },
    )
    const underWay = () =>
      service.ctx.payouts.transfers.models.transfers.countDocuments({ state: { $ne: 'confirmed' } })
    await waitFor(
      'the transfers to be confirmed',
      async () => ((await underWay()) === 0 ? true : undefined),
      LIMIT,
    )
    // The clock was put ahead above, and the sealer says so.
    const isError = (line: string): boolean =>
      line.includes('"level":50') && !line.includes("this machine's clock is ahead")
    expect(service.logged().split('\n').filter(isError)).toEqual([])
  })
})
