import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { runChecks } from '../../shared/operation/check.ts'
import { coinFindings } from '../../shared/operation/coin-findings.ts'
import { openNetworkMetrics } from '../../workers/operator/network-metrics.ts'
import { keepUnassigned } from '../../shared/money/unassigned-money.ts'
import { compareBooks } from '../../shared/money/books.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { markPaidByHand, undoPaidByHand } from '../../shared/money/payout-service.ts'
import { recordPayment } from '../../shared/money/record-arrival.ts'
import { foundAt, newTx } from '../support/coins.ts'
import {
  DAY_RAW,
  XNO,
  signAndPublish,
  strangerAddress,
  useNanoVenue,
  type NanoVenue,
} from '../support/nano-venue.ts'
import { fillNanoPool, reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { FULL } from '../support/full.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

const balances = () => venue.ctx.journal.balances('xno')
/** What the books lack of the chain, looked at now. */
async function gap(): Promise<string | undefined> {
  venue.advance(31_000)
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await compareBooks(venue.ctx, nanoDriver(venue.ctx))
  return (await venue.ctx.coins.findCoin('xno'))?.gap_raw
}
const round = async () => {
  await watchNano(venue.ctx)
  await sweepNano(venue.ctx)
}
/** The operator puts something in, and says so. */
async function fillTreasury(amountRaw: bigint): Promise<void> {
  const tx = venue.pay(venue.wallet.treasury, amountRaw)
  await round()
  await keepUnassigned(venue.ctx, tx)
}

describe('the books and the chain', () => {
  it('agree at each step of a payment: at its address, on its way, in the treasury, and paid out', async () => {
    expect(await gap()).toBe('0')
    const invoice = await venue.invoice(2)
    venue.pay(invoice, 2n * DAY_RAW + 5n)
    expect(await gap()).toBe('0')
    expect(await venue.ctx.journal.held('xno')).toBe(2n * DAY_RAW + 5n)
    await sweepNano(venue.ctx)
    expect(await gap()).toBe('0')
    await venue.owe(XNO, strangerAddress())
    expect(await gap()).toBe('0')
    await sendNano(venue.ctx)
    expect(await gap()).toBe('0')
    expect(await venue.ctx.journal.held('xno')).toBe(DAY_RAW + 5n)
  })

  it.runIf(FULL)('agree while a payout of ours is published and not known to be', async () => {
    await fillTreasury(3n * XNO)
    expect(await gap()).toBe('0')
    await venue.owe(XNO, strangerAddress())
    await sendNano(venue.ctx)
    const { transfers } = venue.ctx.payouts.transfers.models
    const sent = await transfers.findOne({ kind: 'payout' }).lean()
    expect(sent?.state).toBe('confirmed')
    // As it is after a death between the block and the record of it.
    await venue.ctx.journal.models.journal.deleteMany({ transfer_id: String(sent?._id) })
    await transfers.updateOne({ _id: String(sent?._id) }, { $set: { state: 'sent' } })
    expect(await gap()).toBe('0')
  })

  it.runIf(FULL)(
    'differ by what somebody took out of the treasury, until it is on record as taken by the operator',
    async () => {
      await fillTreasury(5n * XNO)
      expect(await gap()).toBe('0')
      expect((await balances()).get('operator')).toBe(5n * XNO)
      await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: 2n * XNO })
      expect(await gap()).toBe(String(-2n * XNO))
      await reconcileNano(venue.ctx)
      expect(await gap()).toBe('0')
      expect((await balances()).get('operator')).toBe(3n * XNO)
    },
  )

  it('differ, and `status` and `check` say so if the chain holds less than the books', async () => {
    await fillTreasury(5n * XNO)
    expect(await gap()).toBe('0')
    await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: 2n * XNO })
    expect(await gap()).toBe(String(-2n * XNO))
    const found = await coinFindings.read(venue.ctx)
    expect(found.find((finding) => finding?.kind === 'books_gap')?.what).toBe(
      'The chain of xno holds 2 XNO less than the books say',
    )
    const [chains] = await runChecks(venue.ctx, { mends: false, only: 'chains' })
    expect(chains?.faults.map(({ what }) => what)).toContain(
      'the chain of xno holds 2 XNO less than the books say',
    )
    await reconcileNano(venue.ctx)
    expect(await gap()).toBe('0')
  })

  it.runIf(FULL)(
    'book nothing twice that a new wallet holds and its chain alone knows: it is a gap until it is reconciled',
    async () => {
      await signAndPublish(venue, 0, {
        receive: venue.pay(venue.wallet.treasury, 5n * XNO),
        amountRaw: 5n * XNO,
      })
      await compareBooks(venue.ctx, nanoDriver(venue.ctx))
      expect((await venue.ctx.coins.findCoin('xno'))?.gap_raw).toBe(String(5n * XNO))
      await reconcileNano(venue.ctx)
      expect(await gap()).toBe('0')
      expect((await balances()).get('unassigned')).toBe(5n * XNO)
      expect(await venue.ctx.journal.listOpenings('xno')).toEqual([])
    },
  )

  it('differ, and within a minute the gauge says by how much and the alert fires', async () => {
    expect(await gap()).toBe('0')
    const invoice = await venue.invoice(1)
    await recordPayment(venue.ctx, { ...foundAt(invoice, { amount: '3' }), tx: newTx() }, 'operator')
    // Asked at each round, it is compared every half a minute.
    venue.advance(30_000)
    await watchNano(venue.ctx)
    await compareBooks(venue.ctx, nanoDriver(venue.ctx))
    const [, value] =
      /^agent_network_solvency_gap\{coin="xno"\} (.*)$/m.exec((await openNetworkMetrics(venue.ctx)()).text) ??
      []
    expect(Number(value)).toBeCloseTo(-3, 9)
    const { groups } = parse(fs.readFileSync('workers/operator/alerts.yml', 'utf8')) as {
      groups: { rules: object[] }[]
    }
    const [alert] = groups
      .flatMap(({ rules }) => rules)
      .filter((rule) => 'alert' in rule && rule.alert === 'SolvencyGap')
    expect(alert).toMatchObject({
      expr: 'max by (coin) (agent_network_solvency_gap != bool 0) == 1',
      labels: { severity: 'page' },
    })
    expect(alert).not.toHaveProperty('for')
  })

  it.runIf(FULL)('differ by a payment that was recorded by hand and is not in the chain', async () => {
    expect(await gap()).toBe('0')
    const invoice = await venue.invoice(1)
    await recordPayment(venue.ctx, { ...foundAt(invoice, { amount: '1' }), tx: newTx() }, 'operator')
    expect(await gap()).toBe(String(-XNO))
  })

  it.runIf(FULL)(
    'differ at their first comparison too if the chain holds less: no line of theirs makes that right',
    async () => {
      const invoice = await venue.invoice(1)
      await recordPayment(venue.ctx, { ...foundAt(invoice, { amount: '1' }), tx: newTx() }, 'operator')
      expect(await gap()).toBe(String(-XNO))
      expect(await venue.ctx.journal.listOpenings('xno')).toEqual([])
    },
  )

  it.runIf(FULL)(
    'agree whether a payout by hand came from the treasury or from elsewhere, and after it is undone',
    async () => {
      await fillTreasury(5n * XNO)
      const elsewhere = await venue.owe(XNO, strangerAddress())
      await markPaidByHand(venue.ctx, elsewhere._id, newTx())
      expect(await gap()).toBe('0')
      const address = strangerAddress()
      const { _id: id } = await venue.owe(XNO, address)
      const tx = await signAndPublish(venue, 0, { sendTo: address, amountRaw: XNO })
      await markPaidByHand(venue.ctx, id, tx)
      await reconcileNano(venue.ctx)
      expect(await gap()).toBe('0')
      expect((await balances()).get('operator')).toBe(4n * XNO)
      await undoPaidByHand(venue.ctx, elsewhere._id)
      expect(await gap()).toBe('0')
      expect((await balances()).get(`owed:${elsewhere.agent_id}`)).toBe(XNO)
    },
  )

  it.runIf(FULL)(
    'agree after a reconciliation that found the sweep behind what the treasury had taken in',
    async () => {
      const invoice = await venue.invoice(1)
      venue.pay(invoice, DAY_RAW)
      await round()
      const { payouts, journal } = venue.ctx
      await payouts.transfers.models.transfers.deleteMany({})
      await venue.ctx.invoices.arrivals.models.payments.updateMany({}, { $unset: { swept_at: 1 } })
      expect((await journal.list({}, 10)).length).toBeGreaterThan(0)
      await reconcileNano(venue.ctx)
      expect((await balances()).get('operator') ?? 0n).toBe(0n)
      expect(await gap()).toBe('0')
    },
  )
})
