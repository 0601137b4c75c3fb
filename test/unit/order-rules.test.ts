import { describe, expect, it } from 'vitest'
import { commitRecord } from '../../shared/crypto/commitment.ts'
import {
  deadlineUpdate,
  deliveryUpdate,
  disputeUpdate,
  extensionUpdate,
  refundAddressUpdate,
  releaseUpdate,
  takeStep,
} from '../../shared/market/order-rules.ts'
import { applyChange, type OrderRecord } from '../../shared/market/order.ts'
import { OUTAGE_GRACE_MS } from '../../shared/market/market-terms.ts'

const SALT = 'ab'.repeat(32)
const paid: OrderRecord = {
  ...{ _id: 'ord_1', offer_id: 'ofr_1', buyer_id: 'agt_b', seller_id: 'agt_s', at: 100, title: 'a title' },
  ...{ coin: 'xno', price_usd_cents: 250, amount_raw: '1000', fee_raw: '200' },
  ...{ invoice_id: 'inv_1', delivery_seconds: 60, accept_seconds: 50 },
  ...{ payout_address: 'nano_s', payout_salt: 'aa'.repeat(32), refund_address: 'nano_b' },
  ...{ status: 'paid', version: 4, pay_by: 1_000, deliver_by: 2_000, due_at: 2_000, written_off_raw: '0' },
}
const delivered = applyChange(paid, deliveryUpdate(paid, 1_500, 'the work', SALT).change)
const by = (agentId: string, at: number) => ({ agentId, at, author: undefined })
const release = (order: OrderRecord) => () => releaseUpdate(order, 'accepted', 1_540)

describe('a step of a side', () => {
  it('is taken by that side alone, in the order’s status, and before the deadline', () => {
    const refused: [OrderRecord, string, number, string][] = [
      [delivered, 'agt_s', 1_540, 'not_yours'],
      [paid, 'agt_b', 1_540, 'wrong_state'],
      [delivered, 'agt_b', 1_550, 'wrong_state'],
    ]
    for (const [order, agentId, at, code] of refused)
      expect(() => takeStep(order, 'accepted', by(agentId, at), release(order))).toThrow(
        expect.objectContaining({ code }),
      )
    expect(takeStep(delivered, 'accepted', by('agt_b', 1_549), release(delivered)).change.step).toBe(
      'accepted',
    )
  })

  it('has the signature on the record, and its hash in the ledger', () => {
    const author = {
      author_key: 'cd'.repeat(32),
      seen: { size: 1, root: 'ef'.repeat(32) },
      signature: Buffer.alloc(64).toString('base64'),
    }
    const taker = { agentId: 'agt_b', at: 1_540, author }
    const { change, payouts } = takeStep(delivered, 'accepted', taker, release(delivered))
    expect(change.set?.signatures).toEqual([{ ...author, step: 'accepted', agent_id: 'agt_b' }])
    expect(change.entries?.[0]?.data).toHaveProperty('author')
    expect(payouts).toHaveLength(1)
  })
})

describe('a delivery', () => {
  it('gives the buyer its time from then on, commits to what was delivered, and moves no money', () => {
    expect(delivered).toMatchObject({
      status: 'delivered',
      delivered_at: 1_500,
      accept_by: 1_550,
      due_at: 1_550,
    })
    const { change, payouts } = deliveryUpdate(paid, 1_500, 'the work', SALT)
    const delivery_hash = commitRecord('ord_1', SALT, { delivery: 'the work' })
    expect(change.entries?.map(({ data }) => data)).toMatchObject([{ accept_by: 1_550, delivery_hash }])
    expect(payouts).toBeUndefined()
  })

  it('that is disputed has no deadline any more', () => {
    const { change } = disputeUpdate(delivered, 1_520, 'empty', SALT)
    const disputed = applyChange(delivered, change)
    expect(disputed).toMatchObject({ status: 'disputed', disputed_by: 'buyer', dispute_reason: 'empty' })
    expect(disputed).not.toHaveProperty('due_at')
  })
})

describe('a deadline that has passed', () => {
  const owed = (order: OrderRecord, nowMs: number) =>
    deadlineUpdate(order, nowMs).payouts?.map(({ agent_id, amount_raw, address }) => [
      agent_id,
      amount_raw,
      address,
    ])

  it('owes the buyer the price without a delivery, and the seller its share without an answer', () => {
    expect(owed(paid, 2_000_000)).toEqual([['agt_b', '1000', 'nano_b']])
    expect(owed(delivered, 1_550_000)).toEqual([['agt_s', '800', 'nano_s']])
  })

  it('says how late it was acted on', () => {
    expect(deadlineUpdate(paid, 2_003_250).change.set).toMatchObject({ late_ms: 3_250, closed_at: 2_003 })
  })

  it('is a defect of an order that has none', () => {
    const { due_at: _, ...without } = paid
    expect(() => deadlineUpdate(without, 2_000_000)).toThrow('no deadline')
  })

  it('in an outage is put off to an hour after it, and the order says from when and by which outage', () => {
    const outage = { _id: 1_990_000, to_ms: 2_010_500 }
    const until = 2_011 + OUTAGE_GRACE_MS / 1_000
    expect(
      applyChange(paid, extensionUpdate(paid, outage, 2_011)?.change ?? { step: 'payment', at: 0 }),
    ).toMatchObject({
      deliver_by: until,
      due_at: until,
      extensions: [{ deadline: 'deliver_by', was: 2_000, until, outage_from: 1_990, outage_to: 2_010 }],
    })
    expect(extensionUpdate(paid, undefined, 2_011)).toBeUndefined()
    expect(extensionUpdate({ ...paid, status: 'released' }, outage, 2_011)).toBeUndefined()
  })
})

describe('a refund address', () => {
  it('is named for the order and for what is owed already, and the ledger commits to it', () => {
    const update = refundAddressUpdate(paid, 'nano_new', 1_600, SALT)
    expect(update.refundAddress).toBe('nano_new')
    expect(update.change.set).toEqual({ refund_address: 'nano_new', refund_salt: SALT })
    const refund_address_hash = commitRecord('ord_1', SALT, { address: 'nano_new' })
    expect(update.change.entries?.[0]?.data).toMatchObject({ refund_address_hash })
  })
})
