import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { compareBooks } from '../../shared/money/books.ts'
import { moneroDriver } from '../../shared/money/coins/monero/monero-driver.ts'
import { requireMonero } from '../../shared/money/coins/monero/monero-gateway.ts'
import { openMoneroConnection } from '../../shared/money/coins/monero/monero-connection.ts'
import { openMoneroVenue, XMR, type MoneroVenue } from '../support/monero-venue.ts'
import { watchMonero } from '../support/monero-jobs.ts'

// Blocks are mined.
vi.setConfig({ testTimeout: 240_000 })

let venue: MoneroVenue
beforeAll(async () => {
  venue = await openMoneroVenue({ queues: [] })
}, 240_000)
afterAll(() => venue?.stop())

it("a wallet of Monero proves what it holds, bound to a seal, and a stranger's wallet takes the proof", async () => {
  const ctx = requireMonero(venue.ctx)
  const driver = moneroDriver(ctx)
  const seal = { seq: 7, hash: 'ab'.repeat(32), assets: {} as never }
  expect(await driver.proveControl(seal)).toEqual([])
  await venue.fund(2, 3n * XMR)
  await venue.advance(31_000)
  await watchMonero(venue.ctx)
  await compareBooks(venue.ctx, driver)
  const record = await venue.ctx.coins.findCoin('xmr')
  expect(record?.assets).toMatchObject({ balance: String(6n * XMR), height: expect.any(Number) as number })

  const [proof, ...more] = await driver.proveControl(seal)
  if (proof === undefined) throw new Error('there is no proof')
  expect(more).toEqual([])
  const account = await ctx.monero.wallet.primaryAddress()
  expect(proof).toMatchObject({
    account,
    message: `agent-network solvency\nseal 7 ${seal.hash}\naccount ${account}\n`,
    total_raw: String(6n * XMR),
  })
  const stranger = await venue.openPayee()
  const rpc = openMoneroConnection(stranger.program.url, { timeoutMs: 30_000, maxAnswerBytes: 1_000_000 })
  const { message, signature } = proof
  const ask = (text: string) =>
    rpc.call('check_reserve_proof', { address: account, message: text, signature })
  expect(await ask(message)).toEqual({ good: true, spent: 0, total: 6e12 })
  expect(await ask(message.replace('seal 7', 'seal 8'))).toMatchObject({ good: false })
})
