import { describe, expect, it } from 'vitest'
import type { Authorship } from '../../shared/crypto/author.ts'
import {
  acceptBody,
  deliverBody,
  disputeBody,
  orderBody,
  orderSummaryView,
  orderView,
  refundAddressBody,
  viewOrder,
  viewOrderSummary,
  viewWaiting,
  waitingOrdersView,
  type OrderDetails,
} from '../../shared/market/order-views.ts'
import {
  addSignature,
  applyChange,
  feeEntries,
  forgiveDust,
  journalLinesOf,
  orderEntry,
  orderMarks,
  sellerShare,
  stepChange,
  sumAmounts,
  type OrderChange,
  type OrderRecord,
} from '../../shared/market/order.ts'
import { MAX_PAYOUTS_SHOWN } from '../../shared/market/market-terms.ts'
import { dustThreshold } from '../../shared/money/coin.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { z } from 'zod'

const PRICE = 100n * dustThreshold('xno')
const order: OrderRecord = {
  ...{ _id: 'ord_1', offer_id: 'ofr_1', buyer_id: 'agt_b', seller_id: 'agt_s', at: 100, title: 'a title' },
  ...{ coin: 'xno', price_usd_cents: 250, amount_raw: String(PRICE), fee_raw: String(PRICE / 5n) },
  ...{ invoice_id: 'inv_1', delivery_seconds: 60, accept_seconds: 60 },
  ...{ payout_address: 'nano_s', payout_salt: 'aa'.repeat(32) },
  ...{ status: 'awaiting_payment', version: 4, pay_by: 1_000, written_off_raw: '0' },
}
const author: Authorship = {
  author_key: 'ab'.repeat(32),
  seen: { size: 9, root: 'cd'.repeat(32) },
  signature: Buffer.alloc(64, 1).toString('base64'),
}

describe('a change of an order', () => {
  it('gives a new version of it and leaves the old as it was', () => {
    const change: OrderChange = {
      step: 'paid',
      at: 200,
      set: { status: 'paid', paid_at: 200 },
      unset: ['pay_by'],
    }
    const { pay_by: _, ...rest } = order
    expect(applyChange(order, change)).toEqual({ ...rest, status: 'paid', paid_at: 200, version: 5 })
    expect(applyChange(order, { step: 'payment', at: 200 })).toEqual({ ...order, version: 5 })
    expect(order.version).toBe(4)
  })

  it('of the table takes the status that the table leads to, and puts it on the ledger', () => {
    const other = orderEntry(order, 'taken', 200)
    expect(
      stepChange(order, 'paid', 200, {
        set: { paid_at: 200 },
        unset: ['payment_seen_at'],
        data: { deliver_by: 260 },
        entries: [other],
      }),
    ).toEqual({
      step: 'paid',
      at: 200,
      set: { status: 'paid', paid_at: 200 },
      unset: ['payment_seen_at'],
      entries: [
        {
          source: 'ord_1/order/5',
          at: 200,
          kind: 'order',
          data: { order_id: 'ord_1', step: 'paid', status: 'paid', deliver_by: 260 },
        },
        other,
      ],
    })
    expect(stepChange(order, 'disputed', 200, { kind: 'dispute' })).toEqual({
      step: 'disputed',
      at: 200,
      set: { status: 'disputed' },
      unset: [],
      entries: [
        {
          source: 'ord_1/dispute/5',
          at: 200,
          kind: 'dispute',
          data: { order_id: 'ord_1', step: 'disputed', status: 'disputed' },
        },
      ],
    })
  })

  it('tells both sides of its step', () => {
    expect(orderMarks(order, 'delivered', 'delivered')).toEqual(
      ['agt_b', 'agt_s'].map((to) => ({
        to,
        at_ms: expect.any(Number) as number,
        kind: 'order',
        id: 'ord_1',
        fields: { step: 'delivered', status: 'delivered' },
      })),
    )
  })
})

describe('a signature on a step', () => {
  const change = stepChange(order, 'accepted', 300, { entries: [orderEntry(order, 'taken', 300, {}, 'fee')] })

  it('is kept with those before it, and its hash is in the entry of the step alone', () => {
    const earlier = { ...author, step: 'ordered' as const, agent_id: 'agt_b' }
    const signed = addSignature({ signatures: [earlier] }, change, 'agt_b', author)
    expect(signed.set?.signatures).toEqual([earlier, { ...author, step: 'accepted', agent_id: 'agt_b' }])
    expect(signed.set?.status).toBe('released')
    const [step, fee] = signed.entries ?? []
    expect(step?.data).toEqual({
      ...change.entries?.[0]?.data,
      author: {
        author_key: author.author_key,
        signature_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      },
    })
    expect(fee).toEqual(change.entries?.[1])
    expect(addSignature({}, change, 'agt_b', author).set?.signatures).toHaveLength(1)
  })

  it('changes nothing if there is none, or no entry that it could be in', () => {
    expect(addSignature({}, change, 'agt_b')).toBe(change)
    const silent: OrderChange = { step: 'payment', at: 300 }
    expect(addSignature({}, silent, 'agt_b', author)).toBe(silent)
  })
})

describe('the price of an order', () => {
  const lacking = (raw: bigint) => forgiveDust(order, PRICE - raw)
  const DUST = dustThreshold('xno') - 1n

  it('is forgiven dust, which the venue bears out of its fee', () => {
    expect(lacking(0n)).toBe(order)
    expect(lacking(-5n)).toBe(order)
    const cheaper = lacking(DUST)
    expect(cheaper).toEqual({
      ...order,
      amount_raw: String(PRICE - DUST),
      fee_raw: String(PRICE / 5n - DUST),
    })
    expect(cheaper && sellerShare(cheaper)).toBe(sellerShare(order))
    expect(lacking(DUST + 1n)).toBeUndefined()
  })

  it('never makes a fee of less than nothing', () => {
    for (const fee of [DUST - 1n, DUST])
      expect(forgiveDust({ ...order, fee_raw: String(fee) }, PRICE - DUST)?.fee_raw).toBe('0')
  })

  it('goes to the seller without the fee', () => {
    expect(sellerShare(order)).toBe((PRICE * 4n) / 5n)
    expect(sumAmounts([order, { amount_raw: '3' }])).toBe(PRICE + 3n)
    expect(sumAmounts([])).toBe(0n)
  })
})

describe('the fee of an order', () => {
  const taken = { ...order, fee_taken: true as const }

  it('is put on the ledger when it is taken or given back, unless it is nothing', () => {
    expect(feeEntries(order, 300, -BigInt(order.fee_raw))).toEqual([
      {
        source: 'ord_1/fee/5',
        at: 300,
        kind: 'fee',
        data: { order_id: 'ord_1', step: 'returned', coin: 'xno', amount_raw: order.fee_raw },
      },
    ])
    expect(feeEntries(order, 300, 0n)).toEqual([])
  })

  const linesOf = (before: OrderRecord, change: Omit<OrderChange, 'step' | 'at'>) =>
    journalLinesOf(before, { step: 'accepted', at: 300, ...change }).map(({ _id, from, to, amount_raw }) => [
      _id,
      from,
      to,
      amount_raw,
    ])

  it('moves on the books once, from the order, and back if it is given back', () => {
    expect(linesOf(order, { set: { fee_taken: true } })).toEqual([
      ['ord_1/fee/5', 'order:ord_1', 'fee', order.fee_raw],
    ])
    expect(linesOf(order, { set: { fee_taken: true, fee_raw: '7' } })).toEqual([
      ['ord_1/fee/5', 'order:ord_1', 'fee', '7'],
    ])
    expect(linesOf(taken, {})).toEqual([])
    expect(linesOf(taken, { set: { status: 'paid_out' }, unset: ['due_at'] })).toEqual([])
    expect(linesOf(taken, { unset: ['fee_taken'] })).toEqual([
      ['ord_1/fee/5', 'fee', 'order:ord_1', order.fee_raw],
    ])
    expect(linesOf(order, {})).toEqual([])
  })

  it('is booked beside what is owed and what is given up, and each line names the order', () => {
    const payout: PayoutRecord = {
      ...{ _id: 'out_1', source: 'ord_1/release', coin: 'xno', agent_id: 'agt_s', order_id: 'ord_1' },
      ...{ amount_raw: '80', state: 'owed', at: 300, changed_at: 300, salt: '00' },
    }
    const before = { ...order, written_off_raw: '10' }
    const lines = journalLinesOf(
      before,
      { step: 'dispute_released', at: 300, set: { written_off_raw: '25' } },
      [payout],
    )
    expect(lines).toEqual([
      {
        ...{
          _id: 'out_1/owed',
          at: 300,
          coin: 'xno',
          from: 'order:ord_1',
          to: 'owed:agt_s',
          amount_raw: '80',
        },
        ...{ agent_id: 'agt_s', payout_id: 'out_1', order_id: 'ord_1' },
      },
      {
        ...{ _id: 'ord_1/written_off/5', at: 300, coin: 'xno', from: 'order:ord_1', to: 'lost' },
        ...{ amount_raw: '15', order_id: 'ord_1' },
      },
    ])
  })
})

const invoice: InvoiceRecord = {
  ...{ _id: 'inv_1', agent_id: 'agt_b', at: 100, coin: 'xno', order_id: 'ord_1', price_usd_cents: 250 },
  ...{ amount_raw: String(PRICE), rate: '1', rate_source: 'test', rate_at: 99, address: 'nano_1' },
  ...{ address_index: 1, expires_at: 1_000, lapsed: false, received_raw: '0', carried_raw: '0' },
  ...{ moved_raw: '0', unspent: '0', credited_days: 0, version: 0 },
}
const payoutOf = (number: number, more: Partial<PayoutRecord> = {}): PayoutRecord => ({
  ...{ _id: `out_${number}`, source: `ord_1/${number}`, coin: 'xno', agent_id: 'agt_b', order_id: 'ord_1' },
  ...{ amount_raw: '5', state: 'owed', at: 300, changed_at: 310, salt: 'ee'.repeat(32) },
  ...more,
})
const details: OrderDetails = { invoice, payouts: [], waitsForChain: false, payoutActor: 'service' }
/** An order of which everything has happened that an order can show. */
const full: OrderRecord = {
  ...order,
  ...{ status: 'paid_out', refund_address: 'nano_b', refund_salt: 'bb'.repeat(32), payment_seen_at: 150 },
  ...{
    paid_at: 200,
    deliver_by: 260,
    delivered_at: 250,
    delivery: 'the text',
    delivery_salt: 'cc'.repeat(32),
  },
  ...{ accept_by: 310, disputed_at: 300, disputed_by: 'buyer', dispute_reason: 'why' },
  ...{ dispute_salt: 'dd'.repeat(32), closed_at: 305, undelivered: true, paid_out_at: 320 },
  extensions: [{ deadline: 'deliver_by', was: 250, until: 260, outage_from: 240, outage_to: 255 }],
  signatures: [{ ...author, step: 'ordered', agent_id: 'agt_b' }],
}
const SUMMARY = {
  ...{ order_id: 'ord_1', offer_id: 'ofr_1', buyer_id: 'agt_b', seller_id: 'agt_s', title: 'a title' },
  ...{ currency: 'xno', price_usd: 2.5, amount: '0.000100', amount_raw: String(PRICE) },
  ...{ fee_raw: String(PRICE / 5n), at: 100, pay_by: 1_000 },
}

describe('an order in a list', () => {
  it('that was just made says when it expires, and null for what has not happened', () => {
    expect(viewOrderSummary(order, 'agt_b', 'service')).toEqual({
      ...SUMMARY,
      ...{ role: 'buyer', status: 'awaiting_payment', payment_seen_at: null, paid_at: null },
      next_transition: { to: 'expired', at: 1_000, actor: 'service' },
      ...{ deliver_by: null, delivered_at: null, accept_by: null, disputed_at: null, disputed_by: null },
      ...{ closed_at: null, undelivered: false, paid_out_at: null, extensions: [] },
    })
  })

  it('says all that has happened, and which side of it the reader is', () => {
    expect(viewOrderSummary(full, 'agt_s', 'service')).toEqual({
      ...SUMMARY,
      ...{ role: 'seller', status: 'paid_out', next_transition: null, payment_seen_at: 150, paid_at: 200 },
      ...{ deliver_by: 260, delivered_at: 250, accept_by: 310, disputed_at: 300, disputed_by: 'buyer' },
      ...{ closed_at: 305, undelivered: true, paid_out_at: 320, extensions: full.extensions },
    })
  })
})

describe('an order as one of its sides sees it', () => {
  const seenBy = (agentId: string, record: OrderRecord, more: Partial<OrderDetails> = {}) =>
    viewOrder(record, agentId, { ...details, ...more })

  it('shows the buyer its invoice and refund address, and the seller its payout address', () => {
    expect(seenBy('agt_b', full)).toMatchObject({
      payout_address: null,
      refund_address: 'nano_b',
      invoice: { invoice_id: 'inv_1', status: 'confirming' },
      salts: {
        payout_address: null,
        refund_address: 'bb'.repeat(32),
        delivery: 'cc'.repeat(32),
        dispute: 'dd'.repeat(32),
      },
    })
    expect(seenBy('agt_s', full)).toMatchObject({
      payout_address: 'nano_s',
      refund_address: null,
      invoice: null,
      salts: {
        payout_address: 'aa'.repeat(32),
        refund_address: null,
        delivery: 'cc'.repeat(32),
        dispute: 'dd'.repeat(32),
      },
    })
  })

  it('shows both what was delivered, why it is disputed and what was signed', () => {
    for (const agentId of ['agt_b', 'agt_s'])
      expect(seenBy(agentId, full)).toMatchObject({
        delivery: 'the text',
        dispute_reason: 'why',
        signatures: [{ ...author, step: 'ordered', agent_id: 'agt_b' }],
      })
  })

  it('has null for what there is not, and no signatures if nothing was signed', () => {
    const view = seenBy('agt_b', order, { invoice: undefined })
    expect(view).toMatchObject({
      delivery: null,
      dispute_reason: null,
      refund_address: null,
      invoice: null,
      salts: { payout_address: null, refund_address: null, delivery: null, dispute: null },
    })
    expect(view).not.toHaveProperty('signatures')
    expect(seenBy('agt_b', order).invoice?.status).toBe('awaiting_payment')
  })

  it('shows the newest payouts, and says if there are more', () => {
    const payouts = Array.from({ length: MAX_PAYOUTS_SHOWN + 1 }, (_, number) => payoutOf(number))
    const all = seenBy('agt_b', order, { payouts: payouts.slice(1) })
    expect([all.payouts.length, all.payouts_truncated]).toEqual([MAX_PAYOUTS_SHOWN, false])
    const cut = seenBy('agt_b', order, { payouts })
    expect([cut.payouts.length, cut.payouts_truncated]).toEqual([MAX_PAYOUTS_SHOWN, true])
    expect(cut.payouts[0]?.payout_id).toBe('out_1')
  })

  it('says of each payout where it stands', () => {
    const shown = (more: Partial<PayoutRecord>, waitsForChain = false) =>
      seenBy('agt_b', order, { payouts: [payoutOf(1, more)], waitsForChain }).payouts[0]
    expect(shown({})).toEqual({
      ...{ payout_id: 'out_1', currency: 'xno', amount: `0.${'0'.repeat(29)}5`, amount_raw: '5' },
      ...{ state: 'owed', frozen: false, waits_for_chain: false, to_self: false, address: null },
      ...{ tx_hash: null, at: 300, changed_at: 310, salt: 'ee'.repeat(32) },
    })
    expect(shown({ frozen: true, to_self: true, address: 'nano_b' }, true)).toMatchObject({
      ...{ frozen: true, to_self: true, address: 'nano_b', waits_for_chain: true },
    })
    expect(shown({ state: 'confirmed', tx: 'ab' }, true)).toMatchObject({
      ...{ state: 'confirmed', tx_hash: 'ab', waits_for_chain: false },
    })
  })

  it('has the fields that the API says it has', () => {
    for (const one of [order, full])
      for (const agentId of ['agt_b', 'agt_s']) {
        orderSummaryView.strict().parse(viewOrderSummary(one, agentId, 'operator'))
        orderView.strict().parse(seenBy(agentId, one, { payouts: [payoutOf(1)] }))
      }
  })
})

describe('what waits for an agent', () => {
  it('is what it has to deliver and to answer, and what it is owed in each coin', () => {
    const view = viewWaiting({
      toDeliver: [{ ...order, deliver_by: 7 }],
      toAccept: [{ ...order, _id: 'ord_2', accept_by: 8 }],
      owed: { all: { xno: 0n, xmr: 5n * 10n ** 11n }, withoutAddress: { xno: 0n, xmr: 3n } },
    })
    expect(view).toEqual({
      orders_to_deliver: [{ order_id: 'ord_1', deliver_by: 7 }],
      deliveries_to_accept: [{ order_id: 'ord_2', accept_by: 8 }],
      owed: [{ currency: 'xmr', amount: '0.5', amount_raw: '500000000000', without_address_raw: '3' }],
    })
    z.strictObject(waitingOrdersView).parse(view)
  })
})

describe('what a side of an order sends', () => {
  const ID = { order_id: 'ord_1' }
  const bodies: [what: string, body: z.ZodType, taken: readonly object[], refused: readonly object[]][] = [
    [
      'an order',
      orderBody,
      [{ offer_id: 'ofr_1' }, { offer_id: 'ofr_1', currency: 'xmr', refund_address: 'x'.repeat(110) }],
      [
        {},
        { offer_id: 'ofr_1', currency: 'btc' },
        { offer_id: 'ofr_1', refund_address: '' },
        { offer_id: 'ofr_1', refund_address: 'x'.repeat(111) },
        { offer_id: 'ofr_1', signature: 'x' },
      ],
    ],
    [
      'a refund address',
      refundAddressBody,
      [{ ...ID, address: 'x'.repeat(110) }],
      [ID, { address: 'x' }, { ...ID, address: '' }, { ...ID, address: 'x'.repeat(111) }],
    ],
    [
      'a delivery',
      deliverBody,
      [
        { ...ID, delivery: '\0' },
        { ...ID, delivery: 'x'.repeat(65_536) },
        { ...ID, delivery: 'é'.repeat(32_768) },
      ],
      [
        ID,
        { delivery: 'x' },
        { ...ID, delivery: '' },
        { ...ID, delivery: 'x'.repeat(65_537) },
        { ...ID, delivery: 'é'.repeat(32_769) },
      ],
    ],
    ['a yes', acceptBody, [ID], [{}, { order_id: '' }]],
    [
      'a dispute',
      disputeBody,
      [{ ...ID, reason: 'x'.repeat(2_000) }],
      [ID, { reason: 'x' }, { ...ID, reason: ' \n' }, { ...ID, reason: 'x'.repeat(2_001) }],
    ],
  ]
  it.each(bodies)(
    'as %s has all that it needs, and nothing longer than the limits say',
    (_, body, taken, refused) => {
      expect(taken.map((fields) => body.safeParse(fields).success)).toEqual(taken.map(() => true))
      expect(refused.map((fields) => body.safeParse(fields).success)).toEqual(refused.map(() => false))
    },
  )
})
