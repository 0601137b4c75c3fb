import { describe, expect, it } from 'vitest'
import {
  decide,
  decidedPayouts,
  decisionChange,
  undoneChange,
  undoObstacle,
  type DisputedMoney,
  type Ruling,
} from '../../shared/market/dispute-rules.ts'
import { ORDER_STATUSES } from '../../shared/market/order-states.ts'
import { applyChange, journalLinesOf, type OrderRecord } from '../../shared/market/order.ts'
import type { PayoutRecord, PayoutState } from '../../shared/money/payout.ts'

const [PRICE, FEE] = [1_003n, 200n]
const disputed: OrderRecord = {
  ...{ _id: 'mkt_1', offer_id: 'ofr_1', buyer_id: 'agt_b', seller_id: 'agt_s', at: 100, title: 'a title' },
  ...{ coin: 'xno', price_usd_cents: 250, amount_raw: String(PRICE), fee_raw: String(FEE) },
  ...{ invoice_id: 'inv_1', delivery_seconds: 60, accept_seconds: 50 },
  ...{ payout_address: 'nano_s', payout_salt: 'aa'.repeat(32), refund_address: 'nano_b' },
  ...{ status: 'disputed', version: 6, pay_by: 1_000, disputed_at: 300, disputed_by: 'buyer' },
  ...{ dispute_reason: 'it is empty', written_off_raw: '0' },
}
const money = (fields: Partial<DisputedMoney> = {}): DisputedMoney => ({
  ...{ receivedRaw: PRICE, lostRaw: 0n, sentRaw: { seller: 0n, buyer: 0n } },
  ...fields,
})
const RULINGS: readonly Ruling[] = ['release', 'refund', { percent: 40 }]
const decided = (ruling: Ruling, before = disputed, of = money()): OrderRecord =>
  applyChange(before, decisionChange(before, ruling, decide(before, ruling, of), 400))
const sumsOf = (ruling: Ruling, of: DisputedMoney, before = disputed) => {
  const { sellerRaw, buyerRaw, feeRaw, writtenOffRaw } = decide(before, ruling, of)
  return [sellerRaw, buyerRaw, feeRaw, writtenOffRaw]
}
const payout = (state: PayoutState, fields: Partial<PayoutRecord> = {}): PayoutRecord => ({
  ...{ _id: 'out_1', source: 'mkt_1/decided/seller/7', coin: 'xno', agent_id: 'agt_s', order_id: 'mkt_1' },
  ...{ amount_raw: '803', address: 'nano_s', at: 400, changed_at: 400, salt: '00', state },
  ...{ decided: { version: 7, until: 1_000 } },
  ...fields,
})

describe('a decision', () => {
  it('is made of a disputed order alone', () => {
    for (const status of ORDER_STATUSES.filter((name) => name !== 'disputed'))
      for (const ruling of RULINGS)
        expect(() => decide({ ...disputed, status }, ruling, money())).toThrow(
          `The order is ${status}, not disputed.`,
        )
  })

  it('gives the seller the price without the fee, or the buyer everything', () => {
    expect(sumsOf('release', money({ receivedRaw: PRICE + 5n }))).toEqual([PRICE - FEE, 5n, FEE, 0n])
    expect(sumsOf('refund', money({ receivedRaw: PRICE + 5n }))).toEqual([0n, PRICE + 5n, 0n, 0n])
  })

  // holds: rules.market.steps.dispute_split
  it('that splits gives the seller and the venue their parts, both rounded down, and the buyer the rest to the last unit', () => {
    expect(sumsOf({ percent: 40 }, money())).toEqual([321n, 602n, 80n, 0n])
    expect(sumsOf({ percent: 1 }, money())).toEqual([8n, 993n, 2n, 0n])
    expect(sumsOf({ percent: 99 }, money({ receivedRaw: PRICE + 7n }))).toEqual([794n, 18n, 198n, 0n])
    for (let percent = 1; percent <= 99; percent++) {
      const [seller = 0n, buyer = 0n, fee = 0n] = sumsOf({ percent }, money())
      expect(seller + buyer + fee).toBe(PRICE)
      expect(seller).toBe(((PRICE - FEE) * BigInt(percent)) / 100n)
      expect(fee).toBe((FEE * BigInt(percent)) / 100n)
    }
  })

  it('that splits says so on the order, and in the ledger beside its status, which is released', () => {
    const change = decisionChange(disputed, { percent: 40 }, decide(disputed, { percent: 40 }, money()), 400)
    expect(applyChange(disputed, change)).toMatchObject({
      ...{ status: 'released', split_percent: 40, decided_version: 7, fee_taken: true, closed_at: 400 },
    })
    expect(change.entries?.map(({ kind, data }) => [kind, data])).toEqual([
      [
        'dispute_outcome',
        {
          ...{ order_id: 'mkt_1', step: 'dispute_split', status: 'released', outcome: 'split' },
          ...{ split_percent: 40, coin: 'xno', written_off_raw: '0' },
        },
      ],
      ['fee', { order_id: 'mkt_1', step: 'taken', coin: 'xno', amount_raw: '80' }],
    ])
  })

  it('owes the seller its part of a payment that the chain took back, and gives up the rest of the loss', () => {
    const lost = money({ receivedRaw: PRICE, lostRaw: PRICE })
    expect(sumsOf({ percent: 40 }, lost)).toEqual([321n, 0n, 80n, 602n])
    expect(sumsOf('refund', lost)).toEqual([0n, 0n, 0n, PRICE])
    expect(sumsOf('release', lost)).toEqual([PRICE - FEE, 0n, FEE, 0n])
  })

  it('gives no side less than it was sent', () => {
    const sent = (seller: bigint, buyer: bigint) => money({ sentRaw: { seller, buyer } })
    expect(() => decide(disputed, 'refund', sent(1n, 0n))).toThrow("The seller's payout")
    expect(() => decide(disputed, { percent: 40 }, sent(322n, 0n))).toThrow("The seller's payout")
    expect(sumsOf({ percent: 40 }, sent(321n, 0n))).toEqual([321n, 602n, 80n, 0n])
    expect(() => decide(disputed, 'release', sent(0n, 1n))).toThrow('so the order can only be refunded.')
    expect(() => decide(disputed, { percent: 40 }, sent(0n, 603n))).toThrow('with less for the seller.')
    expect(sumsOf({ percent: 40 }, sent(0n, 602n))).toEqual([321n, 602n, 80n, 0n])
  })

  it('of an order that was split before counts from the whole price again, and corrects the fee', () => {
    const lostAgain: OrderRecord = { ...decided({ percent: 40 }), status: 'disputed', disputed_by: 'chain' }
    for (const [ruling, fee] of [
      ['release', ['taken', '120']],
      ['refund', ['returned', '80']],
      [{ percent: 10 }, ['returned', '60']],
    ] as const) {
      const change = decisionChange(lostAgain, ruling, decide(lostAgain, ruling, money()), 500)
      expect(change.entries?.slice(1).map(({ data }) => [data['step'], data['amount_raw']])).toEqual([fee])
      const after = applyChange(lostAgain, change)
      expect(after.split_percent).toBe(typeof ruling === 'object' ? 10 : undefined)
      expect(journalLinesOf(lostAgain, change).map(({ from, amount_raw: raw }) => [from, raw])).toEqual([
        [fee[0] === 'taken' ? 'order:mkt_1' : 'fee', fee[1]],
      ])
    }
  })
})

describe('a decision that is taken back', () => {
  // holds: rules.market.steps.dispute_undone
  it('leaves the order disputed as before, from released or refunded, and from no other status', () => {
    for (const ruling of RULINGS) {
      const order = decided(ruling)
      for (const status of ORDER_STATUSES) {
        const isAllowed = status === 'released' || status === 'refunded'
        expect([status, undoObstacle({ ...order, status }, [payout('owed')], 500)]).toEqual([
          status,
          isAllowed ? undefined : `The order is ${status}; this step needs one that is released or refunded.`,
        ])
      }
      expect(applyChange(order, undoneChange(order, 500))).toEqual({ ...disputed, version: 8 })
    }
  })

  it('is refused while a payout of it is signed, sent, paid or held, and says what helps', () => {
    for (const [state, remedy] of [
      ['signed', 'from your own money'],
      ['sent', 'from your own money'],
      ['confirmed', 'from your own money'],
      ['held', 'from your own money'],
      ['manual', '"payout-paid --undo out_1"'],
    ] as const)
      expect(undoObstacle(decided('release'), [payout(state)], 500)).toContain(remedy)
    expect(undoObstacle(decided('release'), [payout('held', { held_by: 'trf_1' })], 500)).toContain(
      '"reconcile xno --owed out_1"',
    )
    expect(undoObstacle({ ...decided('release'), status: 'paid_out' }, [payout('manual')], 500)).toContain(
      'on record as paid by hand',
    )
  })

  it('is not held up by payouts that are not of it, or withdrawn', () => {
    const { decided: _decision, ...excess } = payout('confirmed', { _id: 'out_2' })
    const others = [
      excess,
      payout('confirmed', { _id: 'out_3', decided: { version: 5, until: 1 } }),
      payout('withdrawn', { _id: 'out_4' }),
    ]
    expect(undoObstacle(decided('refund'), [...others, payout('owed')], 500)).toBeUndefined()
    expect(decidedPayouts(decided('refund'), [...others, payout('owed')]).map(({ _id }) => _id)).toEqual([
      'out_1',
    ])
  })

  it('is refused if no decision of a dispute made the order what it is', () => {
    const order: OrderRecord = { ...disputed, status: 'refunded', undelivered: true }
    expect(undoObstacle(order, [], 500)).toBe(
      'The order is refunded by no decision of a dispute, so there is none to take back.',
    )
  })

  it('returns the fee, and counts as received again what it had given up', () => {
    const given = decided({ percent: 40 }, disputed, money({ lostRaw: PRICE }))
    expect(given.written_off_raw).toBe('602')
    const change = undoneChange(given, 500)
    expect(change.entries?.map(({ source, kind, data }) => [source, kind, data])).toEqual([
      [
        'mkt_1/dispute_outcome/8',
        'dispute_outcome',
        {
          ...{ order_id: 'mkt_1', step: 'dispute_undone', status: 'disputed', outcome: 'undone' },
          ...{ coin: 'xno', written_off_raw: '0' },
        },
      ],
      ['mkt_1/fee/8', 'fee', { order_id: 'mkt_1', step: 'returned', coin: 'xno', amount_raw: '80' }],
      [
        'mkt_1/payment_returned/8',
        'payment',
        { step: 'returned', order_id: 'mkt_1', coin: 'xno', amount_raw: '602' },
      ],
    ])
    expect(journalLinesOf(given, change).map(({ from, to, amount_raw: raw }) => [from, to, raw])).toEqual([
      ['fee', 'order:mkt_1', '80'],
      ['lost', 'order:mkt_1', '602'],
    ])
  })

  it('tells again who disputed the order, if a suspicion that has ended has taken that from it', () => {
    const { disputed_at: _at, disputed_by: _by, ...resumed } = decided('release')
    expect(undoneChange(resumed, 500).set).toMatchObject({ disputed_at: 500, disputed_by: 'buyer' })
    const { dispute_reason: _reason, ...byChain } = resumed
    expect(undoneChange(byChain, 500).set).toMatchObject({ disputed_by: 'chain' })
  })
})
