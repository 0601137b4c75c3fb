import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { giveUnassigned, keepUnassigned } from '../../shared/money/unassigned-money.ts'
import { fillMonero, sendMonero, watchMonero } from '../support/monero-jobs.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import {
  CONFIRMATIONS,
  DAY_PICO,
  UNLOCK_BLOCKS,
  XMR,
  moneroChain,
  openMoneroVenue,
  type MoneroVenue,
} from '../support/monero-venue.ts'

// Blocks are mined, and programs started.
vi.setConfig({ testTimeout: 240_000 })

let venue: MoneroVenue
beforeAll(async () => {
  // Nothing is served: each test calls what a job would, when it would.
  venue = await openMoneroVenue({ queues: [] })
  await watchMonero(venue.ctx)
  await fillMonero(venue.ctx)
})
checkBooksAfterEach(
  () => venue?.ctx,
  () => moneroChain(venue),
)
afterAll(() => venue?.stop())

/** What the books lack of the wallet, looked at now; each look is compared, however soon after another. */
async function gap(): Promise<string | undefined> {
  await venue.ctx.coins.models.coins.updateOne({ _id: 'xmr' }, { $unset: { gap_at: 1, gap_raw: 1 } })
  await watchMonero(venue.ctx)
  return (await venue.ctx.coins.findCoin('xmr'))?.gap_raw
}
const balance = async (account: 'operator' | 'unassigned' | 'network_fee') =>
  (await venue.ctx.journal.balances('xmr')).get(account) ?? 0n

describe('the books and the wallet in Monero', () => {
  it('agree on what the operator puts in, which is nobody’s first, from the block on that makes it final', async () => {
    expect(await gap()).toBe('0')
    await venue.fund(3, 2n * XMR)
    await venue.generate(CONFIRMATIONS)
    expect(await gap()).toBe('0')
    expect(await balance('unassigned')).toBe(6n * XMR)
    for (const { _id } of await venue.ctx.invoices.arrivals.listUnassigned(10))
      await keepUnassigned(venue.ctx, _id)
    expect([await balance('unassigned'), await balance('operator')]).toEqual([0n, 6n * XMR])
  })

  it('agree at each step of a payment, and on dust, which is nobody’s', async () => {
    const [invoice, dusty] = [await venue.invoice(1), await venue.invoice(1)]
    await venue.regtest.payer.pay([
      { address: invoice.address, amountPico: DAY_PICO },
      { address: dusty.address, amountPico: 9_999n },
    ])
    for (let block = 0; block <= CONFIRMATIONS; block++) {
      expect(await gap()).toBe('0')
      await venue.generate(1)
    }
    expect(await gap()).toBe('0')
    expect(await balance('unassigned')).toBe(9_999n)
  })

  it('agree on what came to an address of no invoice, given to one, which no later scan takes for lost', async () => {
    const { ctx } = venue
    const [stray] = await ctx.monero.wallet.createSubaddresses(1)
    await venue.regtest.payer.pay([{ address: stray?.address ?? '', amountPico: DAY_PICO }])
    await venue.generate(CONFIRMATIONS)
    expect(await gap()).toBe('0')
    const [arrival] = (await ctx.invoices.arrivals.listUnassigned(10)).filter(
      ({ amount_raw: raw }) => raw === String(DAY_PICO),
    )
    const invoice = await venue.invoice(1)
    const given = await giveUnassigned(ctx, arrival?.tx ?? '', invoice.id)
    expect(given).toMatchObject({ _id: arrival?._id, invoice_id: invoice.id })
    await venue.generate(CONFIRMATIONS)
    expect(await gap()).toBe('0')
    const payments = await ctx.invoices.arrivals.listPayments(invoice.id)
    expect(payments).toMatchObject([{ state: 'settled', credited_days: 1 }])
    expect(payments[0]).not.toHaveProperty('reversed_at')
    expect(await balance('unassigned')).toBe(9_999n)
  })

  // holds: rules.market.statements.sums_owed_to_one_payee_in
  it('agree while a payout is under way, and after it, with what it cost', async () => {
    const payee = await venue.openPayee()
    await venue.owe(XMR, await payee.address())
    await sendMonero(venue.ctx)
    expect(await gap()).toBe('0')
    expect(await balance('network_fee')).toBe(0n)
    await venue.generate(UNLOCK_BLOCKS)
    await sendMonero(venue.ctx)
    expect(await gap()).toBe('0')
    expect(await balance('network_fee')).toBeGreaterThan(0n)
  })
})
