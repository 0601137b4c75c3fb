import { describe, expect, it } from 'vitest'
import { commitRecord } from '../../shared/crypto/commitment.ts'
import {
  ARRIVAL_STAGES,
  ARRIVAL_STEPS,
  decideArrival,
  newArrival,
  newPayment,
  stageOf,
  type ArrivalEvent,
  type ArrivalStep,
} from '../../shared/money/arrival-steps.ts'
import type { ArrivalRecord, PaymentRecord } from '../../shared/money/arrival.ts'
import type { InvoiceRecord } from '../../shared/money/invoice.ts'
import { ENDINGS, type EndingName } from '../support/invoice-cases.ts'

const TX = 'cd'.repeat(32)
const [BEFORE, AT_ITS_END, AFTER] = [999, 1_000, 1_001]
const NAMES = Object.keys(ENDINGS) as EndingName[]

const place = { coin: 'xno', tx: TX, address_index: 3, amount_raw: '5' } as const
const ids = { _id: 'pay_1', salt: '00'.repeat(32) }
const invoiceOf = { invoice_id: 'inv_1', agent_id: 'agt_1' }
const seen: ArrivalRecord = {
  ...{ ...ids, ...place, ...invoiceOf, state: 'seen', confirmations: 0 },
  ...{ first_seen_at: 90, late: false, by: 'chain' },
}
const settled = { ...seen, state: 'settled', settled_at: 95 } as const
const onWord = { by: 'operator' } as const
const nobodys: ArrivalRecord = { ...ids, ...newArrival({ ...place, came_to: 'unassigned' }, 90) }
const keptRecord = { ...nobodys, came_to: 'operator' } as const

/** Every arrival that its steps tell apart. */
const SITUATIONS = {
  seen,
  locked: { ...seen, state: 'locked' },
  gone: { ...seen, state: 'gone' },
  settled,
  lost: { ...settled, reversed_at: 96 },
  'seen, on word': { ...seen, ...onWord },
  'settled, on word': { ...settled, ...onWord },
  'settled, on word, then shown': { ...settled, ...onWord, shown_at: 96 },
  'settled, given': { ...settled, ...onWord, shown_at: 96, came_to: 'unassigned' },
  'lost, on word': { ...settled, ...onWord, reversed_at: 96 },
  unassigned: nobodys,
  operator: keptRecord,
  sent_back: { ...nobodys, payout_id: 'out_1' },
  void: { ...seen, state: 'gone', undone_at: 97, undone_tx: TX, tx: 'pay_1' },
} as const satisfies Record<string, ArrivalRecord>
type Situation = keyof typeof SITUATIONS

const PAID: InvoiceRecord = {
  ...{ _id: 'inv_1', agent_id: 'agt_1', at: 1, coin: 'xno', days: 2, price_usd_cents: 1, amount_raw: '5' },
  ...{ rate: '1', rate_source: 'a', rate_at: 1, address: 'nano_1', address_index: 3, expires_at: 1_000 },
  ...{ lapsed: false, received_raw: '0', carried_raw: '0', moved_raw: '0', unspent: '0' },
  ...{ credited_days: 0, version: 0 },
}

function eventFor(step: ArrivalStep): ArrivalEvent {
  switch (step) {
    case 'corrected':
      return { step, amountRaw: 7n }
    case 'settled':
      return { step, invoice: PAID, by: 'chain', confirmations: 4 }
    case 'lost':
    case 'given_up':
    case 'restored':
    case 'kept':
    case 'kept_undone':
      return { step, stepId: 'try' }
    case 'given':
      return { step, invoice: PAID }
    case 'sent_back':
      return { step, payoutId: 'out_1' }
    default:
      return { step }
  }
}

function moved(arrival: ArrivalRecord, event: ArrivalEvent, at = 200) {
  const decision = decideArrival(arrival, event, at)
  if (decision.kind === 'stays') throw new Error(`it stays: ${decision.because}`)
  const after: ArrivalRecord = { ...arrival, ...decision.set }
  for (const field of decision.unset) delete after[field as 'height']
  return { ...decision, after }
}

/** The stage that each event leads to, by situation; it stays because of its stage in any other. */
const CASES: Record<ArrivalStep, Partial<Record<Situation, string>>> = {
  seen: { locked: 'seen', gone: 'seen' },
  locked: { gone: 'locked' },
  corrected: { seen: 'seen', locked: 'locked', gone: 'gone', 'seen, on word': 'seen' },
  gone: { seen: 'gone', locked: 'gone', 'seen, on word': 'stays: on_word' },
  waits: { seen: 'seen', 'seen, on word': 'seen' },
  settled: { seen: 'settled', 'seen, on word': 'settled' },
  shown: {
    seen: 'stays: shown',
    settled: 'stays: shown',
    lost: 'stays: shown',
    'settled, on word, then shown': 'stays: shown',
    'settled, given': 'stays: shown',
    'seen, on word': 'seen',
    'settled, on word': 'settled',
    'lost, on word': 'lost',
  },
  lost: {
    settled: 'lost',
    'settled, on word': 'stays: on_word',
    'settled, on word, then shown': 'lost',
    'settled, given': 'lost',
  },
  given_up: {
    settled: 'stays: shown',
    'settled, on word': 'lost',
    'settled, on word, then shown': 'stays: shown',
    'settled, given': 'stays: shown',
  },
  restored: { lost: 'settled', 'lost, on word': 'settled' },
  undone: {
    settled: 'stays: shown',
    'settled, on word': 'void',
    'settled, on word, then shown': 'stays: shown',
    'settled, given': 'void',
  },
  given: { unassigned: 'seen', operator: 'seen' },
  kept: { unassigned: 'operator' },
  kept_undone: { operator: 'unassigned' },
  sent_back: { unassigned: 'sent_back' },
  return_withdrawn: { sent_back: 'unassigned' },
  own: { unassigned: 'void', operator: 'void' },
}
const STEPS = Object.keys(ARRIVAL_STEPS) as ArrivalStep[]

describe('an arrival', () => {
  it('has each stage in one of the situations that these tests try', () => {
    expect(new Set(Object.values(SITUATIONS).map(stageOf))).toEqual(new Set(ARRIVAL_STAGES))
  })

  it.each(STEPS)('comes to where the table says when it is %s, and stays in all other situations', (step) => {
    const found = Object.entries<ArrivalRecord>(SITUATIONS).flatMap(([name, arrival]) => {
      const decision = decideArrival(arrival, eventFor(step), 200)
      if (decision.kind === 'moves') return [[name, stageOf(moved(arrival, eventFor(step)).after)]]
      return decision.because === 'stage' ? [] : [[name, `stays: ${decision.because}`]]
    })
    expect(Object.fromEntries(found)).toEqual(CASES[step])
  })

  const FROM_SETTLED = { ...settled, ...onWord, credited_days: 2, price_raw: '5' }
  const VOID = { state: 'gone', undone_at: 200, undone_tx: TX, tx: 'pay_1' }
  it.each([
    ['gone', { ...seen, waits_for_rate: true }, { state: 'gone', waits_for_rate: undefined }],
    ['seen', SITUATIONS.gone, { state: 'seen', waits_for_rate: undefined }],
    ['corrected', seen, { amount_raw: '7' }],
    ['waits', seen, { waits_for_rate: true }],
    ['settled', seen, { state: 'settled', settled_at: 200, confirmations: 4, late: false, by: 'chain' }],
    ['shown', SITUATIONS['settled, on word'], { shown_at: 200, address_index: 3 }],
    ['lost', settled, { reversed_at: 200 }],
    ['given_up', SITUATIONS['settled, on word'], { reversed_at: 200 }],
    ['restored', SITUATIONS.lost, { reversed_at: undefined }],
    [
      'undone',
      FROM_SETTLED,
      { ...VOID, settled_at: undefined, credited_days: undefined, price_raw: undefined },
    ],
    ['own', nobodys, { ...VOID, settled_at: undefined }],
    ['given', nobodys, { ...invoiceOf, late: false, shown_at: 200, state: 'seen', by: 'operator' }],
    ['kept', nobodys, { came_to: 'operator' }],
    ['sent_back', nobodys, { payout_id: 'out_1' }],
    ['return_withdrawn', SITUATIONS.sent_back, { payout_id: undefined }],
  ] as const satisfies readonly (readonly [ArrivalStep, ArrivalRecord, object])[])(
    'that is %s has that on record',
    (step, arrival, changed) => {
      const { after } = moved(arrival, eventFor(step))
      expect(after).toEqual({ ...arrival, ...changed })
    },
  )

  it('that the operator recorded takes over the address which its money is shown to have reached', () => {
    const { after } = moved(SITUATIONS['settled, on word'], { step: 'shown', addressIndex: 9 })
    expect(after).toMatchObject({ shown_at: 200, address_index: 9 })
  })

  it('is by the operator if he says that it is confirmed, whoever saw it first', () => {
    const event = { step: 'settled', invoice: PAID, confirmations: 4 } as const
    expect(moved(seen, { ...event, by: 'operator' }).after.by).toBe('operator')
    expect(moved({ ...seen, ...onWord }, { ...event, by: 'chain' }).after.by).toBe('operator')
  })
})

describe('a step of an arrival', () => {
  const given = SITUATIONS['settled, given']
  const ORDERS: ArrivalRecord = { ...settled, ...onWord, order_id: 'mkt_1' }
  it.each([
    ['seen', SITUATIONS.gone, []],
    ['settled', seen, ['pay_1/received', 'chain', 'invoice:inv_1']],
    ['settled', { ...given, state: 'seen' }, ['pay_1/received', 'unassigned', 'invoice:inv_1']],
    ['settled', { ...ORDERS, state: 'seen' }, ['pay_1/received', 'chain', 'order:mkt_1']],
    ['lost', settled, ['pay_1/lost/try', 'lost', 'chain']],
    ['given_up', ORDERS, ['pay_1/lost/try', 'lost', 'chain']],
    ['restored', SITUATIONS.lost, ['pay_1/restored/try', 'chain', 'lost']],
    ['undone', ORDERS, ['pay_1/undone', 'order:mkt_1', 'chain']],
    ['undone', given, ['pay_1/undone', 'invoice:inv_1', 'unassigned']],
    ['given', nobodys, []],
    ['kept', nobodys, ['pay_1/kept/try', 'unassigned', 'operator']],
    ['kept_undone', keptRecord, ['pay_1/kept/try', 'operator', 'unassigned']],
    ['sent_back', nobodys, []],
    ['return_withdrawn', SITUATIONS.sent_back, []],
    ['own', keptRecord, ['pay_1/own', 'operator', 'chain']],
  ] as const satisfies readonly (readonly [ArrivalStep, ArrivalRecord, unknown])[])(
    'that is %s moves the money that it has to',
    (step, arrival, line) => {
      const lines = moved(arrival, eventFor(step)).lines.map(({ _id, from, to }) => [_id, from, to])
      expect(lines).toEqual(line.length === 0 ? [] : [line])
    },
  )

  it('tells the ledger that it is settled, undone or given up, and nothing else', () => {
    const about = { payment_id: 'pay_1', invoice_id: 'inv_1', coin: 'xno', amount_raw: '5' }
    const tx_hash = commitRecord('pay_1', ids.salt, { tx: TX })
    const ofOrder = { ...about, order_id: 'mkt_1' }
    const entriesOf = (step: ArrivalStep, arrival: ArrivalRecord) => moved(arrival, eventFor(step)).entries
    const entry = (name: string, data: object) => [
      { source: `pay_1/${name}`, at: 200, kind: 'payment', data },
    ]
    const automatic = { settlement: 'automatic', tx_hash }
    expect(entriesOf('settled', seen)).toEqual(entry('payment', { ...about, ...automatic }))
    expect(entriesOf('settled', { ...ORDERS, state: 'seen' })).toEqual(
      entry('payment', { ...ofOrder, ...automatic, settlement: 'manual' }),
    )
    expect(entriesOf('undone', ORDERS)).toEqual(entry('undone', { ...ofOrder, step: 'undone' }))
    // Without its order, whose sides are owed what they were.
    expect(entriesOf('given_up', ORDERS)).toEqual(entry('lost', { ...about, step: 'lost' }))
    for (const [step, arrival] of [
      ['lost', settled],
      ['restored', SITUATIONS.lost],
      ['given', nobodys],
      ['own', nobodys],
    ] as const)
      expect(entriesOf(step, arrival), step).toEqual([])
  })
})

describe('a payment', () => {
  const always = (verdict: boolean) => [verdict, verdict, verdict]
  const missed = { chain: [false, false, true], operator: always(false) }
  const late = { chain: always(true), operator: always(true) }
  /** Whether it is late if the chain shows it, and if the operator records it, after a round at each time. */
  const LATE: Record<EndingName, { chain: boolean[]; operator: boolean[] }> = {
    ...{ open: missed, 'of an order': missed, lapsed: late },
    ...{ foreign: late, 'foreign, of an order': late, 'foreign, lapsed': late },
  }
  const found = { coin: 'xno', tx: TX, addressIndex: 3, amountRaw: 5n, confirmations: 0 } as const
  const first = (
    invoice: Partial<InvoiceRecord>,
    by: PaymentRecord['by'],
    { roundAt, at = 2_000, lockedUntil }: { roundAt: number; at?: number; lockedUntil?: number },
  ) => {
    const shown = { ...found, isConfirmed: false, ...(lockedUntil === undefined ? {} : { lockedUntil }) }
    return newPayment({ ...PAID, ...invoice }, shown, { ids, by, roundAt, rate: '2' }, at)
  }

  it.each(NAMES)('to an invoice that is %s is late when the table says', (name) => {
    const lateBy = (by: PaymentRecord['by']) =>
      [BEFORE, AT_ITS_END, AFTER].map((roundAt) => first(ENDINGS[name], by, { roundAt }).late)
    expect({ chain: lateBy('chain'), operator: lateBy('operator') }).toEqual(LATE[name])
    const gift = moved(nobodys, { step: 'given', invoice: { ...PAID, ...ENDINGS[name] } }, 2_000)
    expect(gift.after.late).toBe(LATE[name].operator[0])
  })

  it('is not late by a round of a clock that is ahead', () => {
    expect(first({}, 'chain', { roundAt: AFTER, at: AT_ITS_END }).late).toBe(false)
  })

  it('is stored as it is seen, with the rate at its arrival if it is late and for days', () => {
    expect(first({}, 'chain', { roundAt: 0 })).toEqual({ ...seen, first_seen_at: 2_000 })
    const locked = first({ lapsed: true }, 'operator', { roundAt: 0, lockedUntil: 7 })
    expect(locked).toMatchObject({ state: 'locked', unlock_time: 7, by: 'operator', arrival_rate: '2' })
    const { days: _, ...order } = { ...PAID, lapsed: true, order_id: 'mkt_1' }
    const shown = { ...found, isConfirmed: false, height: 6 }
    const payment = newPayment(order, shown, { ids, by: 'chain', roundAt: 0, rate: '2' }, 5)
    expect(payment).toMatchObject({ order_id: 'mkt_1', late: true, height: 6 })
    expect(payment).not.toHaveProperty('arrival_rate')
  })

  const over = (before: string, atItsEnd: string, after: string) => [before, atItsEnd, after]
  const inTime = over('buys', 'buys', 'buys')
  const [waits, buysLate] = [over('waits', 'waits', 'waits'), over('buys late', 'buys late', 'buys late')]
  /** What a confirmed payment comes to that was noted as late. */
  const BUYS: Record<EndingName, string[]> = {
    open: over('buys', 'waits', 'waits'),
    'of an order': over('buys', 'waits', 'waits'),
    lapsed: buysLate,
    foreign: waits,
    'foreign, of an order': waits,
    'foreign, lapsed': buysLate,
  }

  it.each(NAMES)('of an invoice that is %s buys when it is confirmed, as the table says', (name) => {
    const outcome = (isLate: boolean) =>
      [BEFORE, AT_ITS_END, AFTER].map((at) => {
        const event = { ...eventFor('settled'), invoice: ENDINGS[name] } as ArrivalEvent
        const decision = decideArrival({ ...seen, late: isLate }, event, at)
        if (decision.kind === 'stays') return decision.because === 'invoice_open' ? 'waits' : 'stays'
        return decision.set.late === true ? 'buys late' : 'buys'
      })
    expect({ inTime: outcome(false), late: outcome(true) }).toEqual({ inTime, late: BUYS[name] })
  })
})
