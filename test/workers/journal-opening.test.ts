import type { Connection } from 'mongoose'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decideDispute } from '../../shared/market/dispute-service.ts'
import { newId } from '../../shared/platform/ids.ts'
import { openJournal } from '../../shared/money/journal-opening.ts'
import type { JournalLine } from '../../shared/money/journal.ts'
import { markPaidByHand, storeTransfers } from '../../shared/money/payout-service.ts'
import { moveTransfer } from '../support/told-chain.ts'
import type { StoredPayout, TransferRecord } from '../../shared/money/payout.ts'
import { newTx, pay } from '../support/coins.ts'
import { expectStatus, startMarket, type PlacedOrder, type TestMarket } from '../support/market.ts'
import { checkBooks, checkBooksAfterEach } from '../support/money.ts'

let market: TestMarket
/** Of each coin and account, by today's journal of the same records. */
let written: Record<string, bigint>
beforeAll(async () => {
  market = await startMarket({ queues: [] })
  await makeRecords()
  await checkBooks(market.ctx)
  written = await balances()
}, 120_000)
beforeEach(() => makeOlder())
checkBooksAfterEach(() => market.ctx)
afterAll(() => market.stop())

const connection = () => market.ctx.database.connection
const open = (through: Connection = connection()) => openJournal(through, market.ctx.log)

async function balances(): Promise<Record<string, bigint>> {
  const sums: Record<string, bigint> = {}
  const add = (account: string, amount: bigint) => (sums[account] = (sums[account] ?? 0n) + amount)
  for await (const { coin, from, to, amount_raw: raw } of connection()
    .collection<JournalLine>('journal')
    .find()) {
    add(`${coin} ${from}`, -BigInt(raw))
    add(`${coin} ${to}`, BigInt(raw))
  }
  return Object.fromEntries(Object.entries(sums).filter(([, sum]) => sum !== 0n))
}

/** Passes with remainders and late money, and an order in each state that money can be in. */
async function makeRecords(): Promise<void> {
  const { ctx } = market
  const agent = await market.register()
  const invoiceFor = async (days: number) =>
    String(
      expectStatus(
        await market.call('POST', '/invoice', { token: agent.token, body: { currency: 'xno', days } }),
        201,
      ).json['invoice_id'],
    )
  const first = await invoiceFor(3)
  await pay(ctx, first, { amount: '1.7000000001' })
  await pay(ctx, await invoiceFor(2), { amount: '0.5' })
  await pay(ctx, first, { amount: '0.3' })
  await market.order()
  await market.payPercent(await market.order({ refund_address: undefined }), 40)
  await market.payPercent(await market.paidOrder(), 20)
  const accepted = async () => {
    const order = await market.delivered()
    expectStatus(await market.step('accept', order), 200)
    return order
  }
  await accepted()
  const [byHand] = await ctx.payouts.listByOrder((await accepted()).id)
  expect(await markPaidByHand(ctx, byHand?._id ?? '', newTx())).toBe(true)
  await carry(await accepted(), 'confirmed')
  await carry(await accepted(), 'sent')
  const lost = await market.order()
  const tx = await market.payPercent(lost, 100)
  await market.lose(tx)
  const decided = await market.order()
  const lostToo = await market.payPercent(decided, 100)
  await market.lose(lostToo)
  await decideDispute(ctx, decided.id, 'refund')
  await market.step('dispute', await market.delivered())
}

async function carry(order: PlacedOrder, state: 'sent' | 'confirmed'): Promise<void> {
  const payouts = await market.ctx.payouts.listByOrder(order.id)
  const [payout] = payouts
  if (payout === undefined) throw new Error('nothing is owed')
  const transfer: TransferRecord = {
    _id: newId('transfer'),
    coin: payout.coin,
    kind: 'payout',
    tx: newTx(),
    signed: '{}',
    amount_raw: payout.amount_raw,
    fee_raw: '7',
    payment_ids: [],
    payout_ids: [payout._id],
    state: 'signed',
    at: 1,
    changed_at: 1,
  }
  await storeTransfers(market.ctx, [transfer])
  await moveTransfer(market.ctx, transfer, ['signed'], state)
}

/** Without books, and with a payout's state in two places, as they were stored before there were any. */
async function makeOlder(): Promise<void> {
  await connection().collection('journal').deleteMany({})
  await connection().collection('openings').deleteMany({})
  const payouts = connection().collection<StoredPayout>('payouts')
  for await (const { _id, transfer_id: id } of payouts.find({ state: 'in_transfer' })) {
    const transfer = await connection()
      .collection<TransferRecord>('transfers')
      .findOne({ _id: id ?? '' })
    const older = { state: transfer?.state, tx: transfer?.tx } as unknown as Partial<StoredPayout>
    await payouts.updateOne({ _id }, { $set: older })
  }
}

describe('a database that has no books', () => {
  it('gets them from its records, and its payouts their states, as if each move had been written when it was made', async () => {
    await open()
    expect(await balances()).toEqual(written)
    expect(await connection().collection('payouts').distinct('state')).toEqual(
      ['in_transfer', 'manual', 'owed'].sort(),
    )
  })

  it('gets them once, whoever opens them at the same time and however often', async () => {
    await Promise.all([open(), open(), open()])
    const lines = await connection().collection('journal').countDocuments()
    await open()
    expect(await connection().collection('journal').countDocuments()).toBe(lines)
    expect(await balances()).toEqual(written)
  })

  it('gets them whole after a process died at any step', async () => {
    for (let steps = 0; ; steps++) {
      let left = steps
      const dying = new Proxy(connection(), {
        get(target, name) {
          const value: unknown = Reflect.get(target, name)
          if ((name === 'collection' || name === 'getClient') && left-- <= 0)
            throw new Error('the process died here')
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
      const isDone = await open(dying).then(
        () => true,
        () => false,
      )
      if (steps % 5 === 0) await makeOlder()
      if (isDone) break
    }
    await open()
    expect(await balances()).toEqual(written)
  })

  it('has a payout that was put aside held by the transaction that may have paid it', async () => {
    const payouts = connection().collection<StoredPayout>('payouts')
    const transfers = connection().collection<TransferRecord>('transfers')
    const owed = await payouts.findOne({ state: 'owed', address: { $exists: true } })
    const unexplained = await transfers.findOne({ state: 'confirmed' })
    await transfers.updateOne(
      { _id: unexplained?._id ?? '' },
      { $set: { unexplained_to: [owed?.address ?? ''] } },
    )
    await payouts.updateOne({ _id: owed?._id ?? '' }, { $set: { state: 'held' as StoredPayout['state'] } })
    await open()
    expect(await market.ctx.payouts.find(owed?._id ?? '')).toMatchObject({
      state: 'held',
      held_by: unexplained?._id,
    })
    expect(await balances()).toEqual(written)
  })
})
