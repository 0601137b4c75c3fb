import { expect, it } from 'vitest'
import { compareBooks } from '../../shared/money/books.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { explainTransfer } from '../../shared/money/transfer-service.ts'
import { keepUnassigned } from '../../shared/money/unassigned-money.ts'
import { undoWithdrawal, withdrawOwn } from '../../shared/money/withdrawal.ts'
import { coinFindings } from '../../shared/operation/coin-findings.ts'
import { findOwedDifferences } from '../../shared/operation/owed-check.ts'
import { runChecks } from '../../shared/operation/check.ts'
import { openNetworkMetrics } from '../../workers/operator/network-metrics.ts'
import {
  DAY_RAW,
  XNO,
  signAndPublish,
  strangerAddress,
  useNanoVenue,
  type NanoVenue,
} from '../support/nano-venue.ts'
import { fillNanoPool, reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

async function round(): Promise<void> {
  venue.advance(31_000)
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await sweepNano(venue.ctx)
  await compareBooks(venue.ctx, nanoDriver(venue.ctx))
}
const uncovered = async () =>
  (await coinFindings.read(venue.ctx)).find((finding) => finding?.kind === 'liabilities_uncovered')
const gauge = async () => {
  const { text } = await openNetworkMetrics(venue.ctx)()
  const [, value] = /^agent_network_liabilities_uncovered\{coin="xno"\} (.*)$/m.exec(text) ?? []
  return Number(value)
}

it('orders hold 20 and the operator sends 19 away with the seed: it is found, though books and chain agree', async () => {
  await round()
  for (let count = 0; count < 2; count++) {
    const { invoice } = await venue.order()
    venue.pay(invoice, 10n * XNO)
  }
  await round()
  expect(await uncovered()).toBeUndefined()
  expect(await gauge()).toBe(0)

  const tx = await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: 19n * XNO })
  await reconcileNano(venue.ctx)
  await explainTransfer(venue.ctx, 'xno', tx.toLowerCase())
  await round()
  expect((await venue.ctx.coins.findCoin('xno'))?.gap_raw).toBe('0')
  expect(
    (await runChecks(venue.ctx, { mends: false, only: 'chains' })).flatMap(({ faults }) => faults),
  ).toEqual([])
  expect(await uncovered()).toMatchObject({
    about: 'xno',
    what: "The venue holds 19 XNO less than what isn't its own",
    command: expect.stringContaining('put 19 XNO into the treasury') as string,
  })
  expect(await gauge()).toBeCloseTo(19, 9)
  await expect(withdrawOwn(venue.ctx, 'xno', XNO, strangerAddress())).rejects.toMatchObject({
    code: 'wrong_state',
    message: "Nothing of what is held in xno is the venue's own.",
  })

  const back = venue.pay(venue.wallet.treasury, 19n * XNO)
  await round()
  expect(await uncovered()).toBeDefined()
  await keepUnassigned(venue.ctx, back)
  expect(await uncovered()).toBeUndefined()
})

it("what is the venue's own can be taken out, to the last raw and no more, and is in the ledger once it has left", async () => {
  await round()
  const { invoice: escrow } = await venue.order()
  venue.pay(escrow, 10n * XNO)
  venue.pay(await venue.invoice(3), 3n * DAY_RAW)
  await round()
  const to = strangerAddress()
  const { ctx } = venue
  await expect(withdrawOwn(ctx, 'xno', 3n * XNO + 1n, to)).rejects.toMatchObject({
    code: 'wrong_state',
    message: expect.stringMatching(/^Of what is held, 3 xno are the venue's own/) as string,
  })
  await expect(withdrawOwn(ctx, 'xno', 1n, to)).rejects.toMatchObject({ code: 'wrong_state' })
  await expect(withdrawOwn(ctx, 'xno', XNO, venue.wallet.treasury.address)).rejects.toMatchObject({
    code: 'invalid_field',
  })
  // Of two at once one finds nothing left.
  const both = await Promise.allSettled([
    withdrawOwn(ctx, 'xno', 2n * XNO, to),
    withdrawOwn(ctx, 'xno', 2n * XNO, to),
  ])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  const [first] = await ctx.payouts.listWithdrawals('xno')
  expect(await undoWithdrawal(ctx, first?._id ?? '')).toMatchObject({ state: 'withdrawn' })
  await expect(undoWithdrawal(ctx, first?._id ?? '')).rejects.toMatchObject({ code: 'wrong_state' })
  await expect(undoWithdrawal(ctx, 'out_x')).rejects.toMatchObject({ code: 'no_such_record' })

  const payout = await withdrawOwn(ctx, 'xno', 3n * XNO, to)
  expect(payout).toMatchObject({ state: 'owed', amount_raw: String(3n * XNO) })
  await sendNano(ctx)
  await round()
  expect((await venue.payout(payout._id)).state).toBe('confirmed')
  expect(venue.holds(to)).toEqual({ balanceRaw: 0n, receivableRaw: 3n * XNO })
  expect(await ctx.journal.own('xno')).toBe(0n)
  expect(await uncovered()).toBeUndefined()
  expect(await ctx.payouts.listWithdrawals('xno')).toEqual([])
  await expect(withdrawOwn(ctx, 'xno', XNO, to)).rejects.toMatchObject({ code: 'wrong_state' })
  const [line] = await ctx.journal.models.journal.find({ payout_id: payout._id }).lean()
  expect(line?.pending?.map(({ kind, data }) => [kind, data])).toEqual([
    [
      'money_move',
      { coin: 'xno', from: 'venue', to: 'outside', amount_raw: String(3n * XNO), payout_id: payout._id },
    ],
  ])
  expect(await findOwedDifferences(ctx)).toEqual({ xno: {}, xmr: {} })
  const checks = await runChecks(ctx, { mends: false })
  const faults = checks
    .filter(({ name }) => ['entries', 'money', 'books'].includes(name))
    .flatMap((check) => check.faults.map(({ what }) => what))
  // The agents of a test never registered.
  expect(faults.filter((what) => !what.includes(' of agents '))).toEqual([])
})
