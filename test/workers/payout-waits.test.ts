import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Context } from '../../shared/context.ts'
import type { CoinRecord } from '../../shared/money/coin-store.ts'
import type { StoredPayout } from '../../shared/money/payout.ts'
import { whyNotSent } from '../../shared/money/payout-waits.ts'
import { newId } from '../../shared/platform/ids.ts'
import { nowSeconds } from '../../shared/platform/time.ts'
import { disown, makeCoinReady, newTx, owe, readPayout } from '../support/coins.ts'
import { operatorEnv, runVerb } from '../support/run-verb.ts'
import { startService, type TestService } from '../support/service.ts'
import { transferIn } from '../support/transfer-cases.ts'

const XMR = 10n ** 12n
let service: TestService
let ctx: Context
beforeAll(async () => {
  service = await startService({ queues: [], env: { PAYOUTS: 'automatic' } })
  ctx = service.ctx
  await makeCoinReady(ctx, 'xmr', { addresses: 0 })
})
afterAll(() => service?.stop())

const ADDRESS =
  '44AFFq5kSiGBoZ4NMDwYtN18obc8AemS33DBLWs3H7otXft3XjrpDtQGv7SqSsaBYBb98uNbr2VBBEt7f2wfn3RVGQBEP3A'

/** Owes a payout that the next round would send, changes it, and takes it back at the test's end. */
async function oweWith(fields: Partial<StoredPayout> = {}, amountRaw = XMR) {
  const payout = await owe(ctx, 'xmr', amountRaw, ADDRESS)
  onTestFinished(() => disown(ctx, payout))
  await ctx.payouts.models.payouts.updateOne({ _id: payout._id }, { $set: fields })
  return payout
}
const reasons = async ({ _id }: { _id: string }) => whyNotSent(ctx, await readPayout(ctx, _id))

/** Changes the coin's record until the test's end. */
async function changeCoin(fields: Partial<CoinRecord>) {
  const { coins } = ctx.coins.models
  const before = await coins.findById('xmr').lean()
  onTestFinished(async () => void (await coins.replaceOne({ _id: 'xmr' }, before ?? {})))
  await coins.updateOne({ _id: 'xmr' }, { $set: fields })
}

describe('of a payout that is owed the operator is told', () => {
  it('no reason if the next round sends it', async () => {
    expect(await reasons(await oweWith())).toEqual([])
  })

  it.each<[string, Partial<StoredPayout>]>([
    ['disputed', { frozen: true }],
    ['may_be_paid', { held_by: 'trf_1' }],
    ['own_address', { to_self: true }],
    ['decided', { decided: { version: 1, until: 9_999_999_999 } }],
    ['no_such_address', { address: 'nobody' }],
    ['order_unshown', { order_id: 'ord_unshown' }],
  ])('%s', async (why, fields) => {
    const payout = await oweWith(fields)
    const unshown = { coin: 'xmr', order_id: 'ord_unshown', by: 'operator', state: 'settled' } as const
    if (why === 'order_unshown') {
      const { payments } = ctx.invoices.arrivals.models
      const fields = { address_index: 1, amount_raw: '1', confirmations: 1, first_seen_at: 1, late: false }
      const ids = { _id: newId('payment'), tx: newTx(), invoice_id: 'inv_1', agent_id: 'agt_1', salt: '00' }
      await payments.insertMany([{ ...ids, ...fields, ...unshown }])
      onTestFinished(async () => void (await payments.deleteMany({ order_id: 'ord_unshown' })))
    }
    expect(await reasons(payout)).toEqual([why])
  })

  it('that it has no address, or is below the minimum', async () => {
    const homeless = await oweWith()
    await ctx.payouts.models.payouts.updateOne({ _id: homeless._id }, { $unset: { address: 1 } })
    expect(await reasons(homeless)).toEqual(['no_address'])
    expect(await reasons(await oweWith({}, 1n))).toEqual(['below_minimum'])
  })

  it.each<[string, (now: number) => Partial<CoinRecord>]>([
    ['no_worker', () => ({ configured: false })],
    ['node_away', () => ({ reachable: false })],
    ['coin_not_ready', () => ({ problems: { wallet: 'it is watch-only' } })],
    ['coin_halted', (at) => ({ halted: { at, reason: 'for a test' } })],
    ['fee_high', (at) => ({ fee_high: { at, fee_raw: '1', sum_raw: '1' } })],
    ['treasury_short', () => ({ treasury_short_raw: '1' })],
  ])('what keeps back all of its coin: %s', async (why, fieldsAt) => {
    const payout = await oweWith()
    await changeCoin(fieldsAt(nowSeconds(ctx)))
    expect(await reasons(payout)).toEqual([why])
  })

  it('that another transaction is under way, and that nobody has asked for it where payouts are manual', async () => {
    const payout = await oweWith()
    const open = transferIn('sent', { _id: newId('transfer'), coin: 'xmr', tx: newTx() })
    await ctx.payouts.transfers.insert([open])
    onTestFinished(
      async () => void (await ctx.payouts.transfers.models.transfers.deleteOne({ _id: open._id })),
    )
    const manual = { ...ctx, config: { ...ctx.config, payouts: 'manual' as const } }
    expect(await whyNotSent(manual, await readPayout(ctx, payout._id))).toEqual(['not_asked', 'under_way'])
  })
})

describe('payout-hold', () => {
  const operator = async (...argv: string[]) => {
    const { exitCode, json } = await runVerb(operatorEnv(ctx.config), argv)
    return { exitCode, ...json }
  }

  it('keeps a payout from being signed for until it is recorded as paid, or taken back', async () => {
    const payout = await oweWith()
    expect(await operator('payout-hold', payout._id, '--dry-run')).toMatchObject({ exitCode: 0 })
    expect(await operator('payouts', payout._id)).toMatchObject({ state: 'owed', waits: ['not_asked'] })
    expect(await operator('payout-hold', '--undo', payout._id)).toMatchObject({ error: 'wrong_state' })
    expect(await operator('payout-hold', payout._id)).toMatchObject({ exitCode: 0, state: 'held' })
    expect(await operator('payouts', payout._id)).toMatchObject({
      state: 'held',
      waits: ['may_be_paid', 'not_asked'],
    })
    expect(await operator('payout-hold', payout._id)).toMatchObject({ error: 'wrong_state' })
    await ctx.payouts.models.payouts.updateOne({ _id: payout._id }, { $set: { cleared_of: ['trf_1'] } })
    expect(await operator('payout-hold', '--undo', payout._id)).toMatchObject({ exitCode: 0, state: 'owed' })
    // It says nothing of sends that may have paid it.
    expect((await readPayout(ctx, payout._id)).cleared_of).toEqual(['trf_1'])
    expect(await reasons(payout)).toEqual([])
    await operator('payout-hold', payout._id)
    expect(await operator('payout-paid', payout._id, newTx())).toMatchObject({ exitCode: 0, state: 'manual' })
    expect(await operator('payouts', payout._id)).toMatchObject({ state: 'manual', waits: [] })
  })
})
