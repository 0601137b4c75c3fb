import { describe, expect, it } from 'vitest'
import { commitRecord } from '../../shared/crypto/commitment.ts'
import { decidePayout, HOLD_REASONS, holdsOf, type PayoutEvent } from '../../shared/money/payout-steps.ts'
import type { StoredPayout } from '../../shared/money/payout.ts'
import {
  CASES,
  EVENTS,
  IDS,
  nameOf,
  SITUATIONS,
  situation,
  type PayoutEventName,
} from '../support/payout-cases.ts'

const TX = 'cd'.repeat(32)
const payoutIn = (name: string, more: Partial<StoredPayout> = {}): StoredPayout => ({
  ...{ _id: 'out_1', source: 'mkt_1/release', coin: 'xno', agent_id: 'agt_1', order_id: 'mkt_1' },
  ...{ amount_raw: '5', at: 100, changed_at: 100, salt: '00'.repeat(32) },
  ...situation(name),
  ...more,
})

/** The event as the services name it. */
function eventFor(name: PayoutEventName, { transfer_id: transferId }: StoredPayout): PayoutEvent {
  const foreign = transferId === IDS.foreign ? { transferId } : {}
  switch (name) {
    case 'a transfer is signed for it':
      return { step: 'signed', transfer: { _id: IDS.own, tx: TX } }
    case 'a send may have paid it':
      return { step: 'held', by: IDS.send }
    case 'the operator says that no send has paid it':
      if (transferId !== IDS.foreign) return { step: 'cleared', of: [] }
      return { step: 'returned', transferId, wasConfirmed: false }
    case 'its replaced transfer is in the chain after all':
      return { step: 'reinstated', transfer: { _id: IDS.own, tx: TX } }
    case 'its transfer is replaced':
      return { step: 'returned', transferId: IDS.own, wasConfirmed: false }
    case 'it is paid by hand':
      return { step: 'paid_by_hand', tx: TX, isAddressNamed: false, ...foreign }
    case 'paid by hand is undone':
      return { step: 'hand_undone', mayStandBy: undefined }
    case 'paid by hand is undone, and may stand':
      return { step: 'hand_undone', mayStandBy: IDS.send }
    case 'its money goes elsewhere':
      return { step: 'withdrawn' }
  }
}

/** The payout as its store would have it after an event; undefined if it stays. */
function after(payout: StoredPayout, event: PayoutEvent): StoredPayout | undefined {
  const decision = decidePayout(payout, event, 200, 'try')
  if (decision.kind === 'stays') return undefined
  const changed: StoredPayout = { ...payout, ...decision.set }
  for (const field of decision.unset) delete changed[field as 'tx']
  return changed
}

describe('a payout', () => {
  it.each(EVENTS)('comes to where the table says when %s, and stays in all other situations', (name) => {
    const found = SITUATIONS.flatMap((from) => {
      const payout = payoutIn(from)
      const to = after(payout, eventFor(name, payout))
      return to === undefined ? [] : [[from, nameOf(to)]]
    })
    expect(Object.fromEntries(found)).toEqual(CASES[name])
  })

  it('that was paid in part is withdrawn if it could have been paid by hand as owed', () => {
    const found = SITUATIONS.filter((name) => after(payoutIn(name), { step: 'paid_in_part' }) !== undefined)
    expect(found).toEqual(['owed', 'owed, held', 'owed, decided', 'owed, to self'])
  })

  it('is stored only if it still is as the decision found it', () => {
    const conditionOf = (name: string, event: PayoutEvent) => {
      const decision = decidePayout(payoutIn(name), event, 200)
      return decision.kind === 'moves' ? decision.condition : decision.because
    }
    const transfer = { _id: IDS.own, tx: TX }
    expect(conditionOf('owed', { step: 'signed', transfer })).toEqual({
      state: 'owed',
      unless: HOLD_REASONS,
      at: 200,
    })
    expect(
      conditionOf('in_transfer own', { step: 'returned', transferId: IDS.own, wasConfirmed: false }),
    ).toEqual({ state: 'in_transfer', transferId: IDS.own, unless: [], at: 200 })
  })

  it.each([
    ['owed, no address', [{ why: 'no_address', ref: 'mkt_1' }]],
    ['owed, frozen', [{ why: 'disputed', ref: 'mkt_1' }]],
    ['owed, held', [{ why: 'may_be_paid', ref: IDS.send }]],
    ['owed, to self', [{ why: 'own_address', ref: 'nano_payee' }]],
    ['owed, decided', [{ why: 'decided', ref: 'mkt_1' }]],
    [
      'owed, frozen, held',
      [
        { why: 'disputed', ref: 'mkt_1' },
        { why: 'may_be_paid', ref: IDS.send },
      ],
    ],
    ['owed', []],
  ])('that is %s says why it is not sent, and because of what', (name, holds) => {
    expect(holdsOf(payoutIn(name), 200)).toEqual(holds)
    const transfer = { _id: IDS.own, tx: TX }
    expect(decidePayout(payoutIn(name), { step: 'signed', transfer }, 200)).toMatchObject(
      holds[0] === undefined ? { kind: 'moves' } : { kind: 'stays', because: holds[0].why },
    )
  })

  it('of an order that was decided waits until the second that its decision names, and no longer', () => {
    const payout = payoutIn('owed', { decided: { version: 7, until: 200 } })
    const event = { step: 'signed', transfer: { _id: IDS.own, tx: TX } } as const
    expect(decidePayout(payout, event, 199)).toEqual({ kind: 'stays', because: 'decided' })
    expect(decidePayout(payout, event, 200)).toMatchObject({ kind: 'moves', condition: { at: 200 } })
  })

  it('is cleared of a send that it was not held for, once', () => {
    const event = { step: 'cleared', of: [IDS.send] } as const
    const cleared = after(payoutIn('owed'), event)
    expect(cleared).toMatchObject({ state: 'owed', cleared_of: [IDS.send] })
    expect(decidePayout(payoutIn('owed', { cleared_of: [IDS.send] }), event, 200)).toEqual({
      kind: 'stays',
      because: 'not_held',
    })
  })

  it('keeps that its address was named with the record of a payment, and forgets it with that', () => {
    const event = { step: 'paid_by_hand', tx: TX } as const
    const named = after(payoutIn('owed'), { ...event, isAddressNamed: true })
    expect(named).toMatchObject({ state: 'manual', tx: TX, named_address: true })
    expect(after(named ?? payoutIn('owed'), { step: 'hand_undone', mayStandBy: undefined })).toEqual(
      payoutIn('owed', { changed_at: 200 }),
    )
    const before = payoutIn('owed', { named_address: true })
    expect(after(before, { ...event, isAddressNamed: false })).not.toHaveProperty('named_address')
  })

  it('that stays says whether its state or the transfer that it is in is in the way', () => {
    const returned = { step: 'returned', transferId: IDS.own, wasConfirmed: false } as const
    expect(decidePayout(payoutIn('owed'), returned, 200)).toEqual({ kind: 'stays', because: 'state' })
    expect(decidePayout(payoutIn('in_transfer other'), returned, 200)).toEqual({
      kind: 'stays',
      because: 'transfer',
    })
  })

  it('is held no more once a record by hand is undone for good', () => {
    const manual = payoutIn('manual', { held_by: IDS.send })
    expect(after(manual, { step: 'hand_undone', mayStandBy: undefined })).not.toHaveProperty('held_by')
  })
})

describe('a step of a payout', () => {
  const transfer = { _id: IDS.own, tx: TX }
  const manual = { step: 'paid_by_hand', tx: TX, isAddressNamed: false } as const
  it.each([
    ['owed', { step: 'signed', transfer }, 'signed', { tx_hash: true }, undefined],
    ['owed', { step: 'held', by: IDS.send }, 'held', {}, undefined],
    ['owed, held', { step: 'cleared', of: [IDS.send] }, 'owed', {}, undefined],
    ['owed', { step: 'reinstated', transfer }, 'confirmed', { tx_hash: true }, undefined],
    [
      'in_transfer own',
      { step: 'returned', transferId: IDS.own, wasConfirmed: false },
      'owed',
      {},
      undefined,
    ],
    [
      'in_transfer own',
      { step: 'returned', transferId: IDS.own, wasConfirmed: true },
      'owed',
      { undoes: 'confirmed' },
      undefined,
    ],
    ['owed', manual, 'manual', { tx_hash: true }, ['manual/try', 'owed:agt_1', 'operator']],
    [
      'manual',
      { step: 'hand_undone', mayStandBy: undefined },
      'owed',
      { undoes: 'manual' },
      ['unpaid/try', 'operator', 'owed:agt_1'],
    ],
    [
      'manual',
      { step: 'hand_undone', mayStandBy: IDS.send },
      'held',
      { undoes: 'manual' },
      ['unpaid/try', 'operator', 'owed:agt_1'],
    ],
    ['owed', { step: 'withdrawn' }, 'withdrawn', {}, ['withdrawn', 'owed:agt_1', 'order:mkt_1']],
    ['owed', { step: 'paid_in_part' }, 'withdrawn', {}, ['withdrawn', 'owed:agt_1', 'order:mkt_1']],
  ] as const satisfies readonly (readonly [string, PayoutEvent, string, object, unknown])[])(
    'from %s by %j tells the ledger %s, and moves money if it has to',
    (name, event, told, said, line) => {
      const decision = decidePayout(payoutIn(name), event, 200, 'try')
      if (decision.kind === 'stays') throw new Error(`it stays: ${decision.because}`)
      const { entry, lines } = decision
      expect(decision.told).toBe(told)
      expect(entry).toMatchObject({ source: `out_1/${told}/try`, at: 200, kind: 'payout' })
      const { tx_hash: hash, ...rest } = entry.data
      expect({ ...rest, ...(hash === undefined ? {} : { tx_hash: true }) }).toEqual({
        ...{ payout_id: 'out_1', coin: 'xno', amount_raw: '5', order_id: 'mkt_1', step: told },
        ...said,
        ...(told === 'owed' ? { again: true } : {}),
      })
      const [source, from, to] = line ?? []
      expect(
        lines.map(({ _id, from: giver, to: taker, amount_raw: raw }) => [_id, giver, taker, raw]),
      ).toEqual(line === undefined ? [] : [[`out_1/${source}`, from, to, '5']])
    },
  )

  it('that is taken once has a source without an attempt, and its entry commits to its transaction', () => {
    const withdrawn = decidePayout(payoutIn('owed'), { step: 'withdrawn' }, 200)
    expect(withdrawn).toMatchObject({ entry: { source: 'out_1/withdrawn' } })
    const signed = decidePayout(payoutIn('owed'), { step: 'signed', transfer }, 200)
    const { salt } = payoutIn('owed')
    expect(signed).toMatchObject({ entry: { data: { tx_hash: commitRecord('out_1', salt, { tx: TX }) } } })
  })
})
