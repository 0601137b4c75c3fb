import { describe, expect, it } from 'vitest'
import {
  deadlineStep,
  feeOf,
  nextTransition,
  ORDER_STATUSES,
  ORDER_STEP_NAMES,
  stepObstacle,
  stepRule,
  type OrderStatus,
} from '../../shared/market/order-states.ts'

const FINAL: readonly OrderStatus[] = ['paid_out', 'refunded', 'expired']
const times = { pay_by: 100, deliver_by: 100, accept_by: 100 }

describe('the table of an order', () => {
  it('names only states that there are, and leads from the first to every other', () => {
    const reached = new Set<OrderStatus>(['awaiting_payment'])
    for (let before = 0; before !== reached.size;) {
      before = reached.size
      for (const step of ORDER_STEP_NAMES)
        if (stepRule(step).from.some((from) => reached.has(from))) reached.add(stepRule(step).to)
    }
    expect([...reached].sort()).toEqual([...ORDER_STATUSES].sort())
  })

  // holds: rules.market.steps.payment_lost, rules.market.steps.suspected
  it('lets nothing but a lost payment, a payout that did not arrive, a send that may have paid it or a decision taken back lead out of a final state', () => {
    for (const status of FINAL)
      expect(ORDER_STEP_NAMES.filter((step) => stepRule(step).from.includes(status))).toEqual([
        'payment_lost',
        ...(status === 'paid_out' ? ['payout_undone'] : ['suspected']),
        ...(status === 'refunded' ? ['dispute_undone'] : []),
      ])
  })

  // holds: rules.errors.wrong_state, rules.market.statements.deadlines_are_absolute_times_on_the
  // holds: rules.market.statuses.delivered, rules.market.steps.accepted, rules.market.steps.delivered
  // holds: rules.market.steps.disputed
  it('gives a deadline to one of two steps at any second, and never to both', () => {
    for (const [status, sides, service] of [
      ['paid', ['delivered'], 'undelivered'],
      ['delivered', ['accepted', 'disputed'], 'unanswered'],
    ] as const) {
      for (const now of [98, 99, 100, 101]) {
        const may = (step: Parameters<typeof stepObstacle>[1]) =>
          stepObstacle({ status, ...times }, step, now) === undefined
        for (const step of sides) expect([step, now, may(step)]).toEqual([step, now, now < 100])
        expect([service, now, may(service)]).toEqual([service, now, now >= 100])
      }
    }
  })

  // holds: rules.market.steps.resumed_expired, rules.market.steps.resumed_refunded
  // holds: rules.market.steps.resumed_released, rules.market.steps.resumed_unpaid
  it('lets a suspected order go back, by the operator alone, to each state from which it was suspected', () => {
    const resumed = ORDER_STEP_NAMES.filter((name) => name.startsWith('resumed_')).map(stepRule)
    expect(resumed.map(({ to }) => to).toSorted()).toEqual(stepRule('suspected').from.toSorted())
    for (const { from, actor } of resumed) expect([...from, actor]).toEqual(['disputed', 'operator'])
  })

  it('tells a wrong state from a passed deadline', () => {
    expect(stepObstacle({ status: 'paid', ...times }, 'accepted', 1)).toBe(
      'The order is paid; this step needs one that is delivered.',
    )
    expect(stepObstacle({ status: 'delivered', ...times }, 'accepted', 100)).toBe(
      "The order's accept_by has passed.",
    )
    expect(() => stepObstacle({ status: 'delivered' }, 'accepted', 1)).toThrow(
      'an order that is delivered has no accept_by',
    )
  })

  it('has a step of the service for each state that ends by itself, but for the unpaid one', () => {
    for (const status of ORDER_STATUSES) {
      const byService = ORDER_STEP_NAMES.filter(
        (step) =>
          stepRule(step).actor === 'service' &&
          stepRule(step).deadline !== undefined &&
          stepRule(step).from.includes(status),
      )
      if (status !== 'awaiting_payment')
        expect([status, byService]).toEqual([
          status,
          deadlineStep(status) === undefined ? [] : [deadlineStep(status)?.step],
        ])
    }
  })
})

describe('what comes next', () => {
  const next = (status: OrderStatus, more: { payment_seen_at?: number } = {}) =>
    nextTransition({ status, ...times, ...more }, 'operator')

  // holds: rules.market.statements.deadlines_are_absolute_times_on_the
  it('is told for every state that is not final', () => {
    expect(ORDER_STATUSES.filter((status) => next(status) === undefined)).toEqual([
      'paid_out',
      'refunded',
      'expired',
    ])
  })

  // holds: rules.market.statements.deadlines_are_absolute_times_on_the
  it('has a time where the clock decides, and none where a person or the chain does', () => {
    expect(next('awaiting_payment')).toEqual({ to: 'expired', at: 100, actor: 'service' })
    expect(next('awaiting_payment', { payment_seen_at: 50 })).toEqual({
      to: null,
      at: null,
      actor: 'chain',
    })
    expect(next('paid')).toEqual({ to: 'refunded', at: 100, actor: 'service' })
    expect(next('delivered')).toEqual({ to: 'released', at: 100, actor: 'service' })
    expect(next('disputed')).toEqual({ to: null, at: null, actor: 'operator' })
    expect(next('released')).toEqual({ to: 'paid_out', at: null, actor: 'operator' })
    expect(nextTransition({ status: 'released', ...times }, 'service')).toEqual({
      to: 'paid_out',
      at: null,
      actor: 'service',
    })
  })

  it('is a step that the table has', () => {
    for (const status of ORDER_STATUSES) {
      const { to } = next(status) ?? { to: null }
      if (to !== null)
        expect(
          ORDER_STEP_NAMES.some((step) => stepRule(step).from.includes(status) && stepRule(step).to === to),
        ).toBe(true)
    }
  })
})

describe('the fee', () => {
  // holds: limits.market_fee, rules.market.fee_percent
  // holds: rules.market.statements.the_buyer_pays_the_listed_price
  // holds: rules.market.statements.the_fee_is_floor_amount_20, rules.market.statuses.released
  it('is rounded down, so that the seller never has less than its share', () => {
    expect([0n, 4n, 5n, 9n, 10n ** 38n + 4n].map(feeOf)).toEqual([0n, 0n, 1n, 1n, 2n * 10n ** 37n])
  })
})
