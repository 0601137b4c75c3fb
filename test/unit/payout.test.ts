import { describe, expect, it } from 'vitest'
import { splitDue } from '../../shared/money/due-payouts.ts'
import {
  CARRYING,
  TRANSFER_STATES,
  carries,
  countRefusal,
  isRefusedForLong,
  isToBeOffered,
  type TransferRecord,
} from '../../shared/money/transfer.ts'
import { showPayout, type DueGroup, type StoredPayout } from '../../shared/money/payout.ts'

const payout = (fields: Partial<StoredPayout>): StoredPayout => ({
  ...{ _id: 'out_1', source: 'mkt_1/release', coin: 'xno', agent_id: 'agt_1', amount_raw: '5' },
  ...{ state: 'owed', at: 100, changed_at: 100, salt: '00' },
  ...fields,
})
const transfer = (fields: Partial<TransferRecord>): TransferRecord => ({
  ...{
    _id: 'trf_1',
    coin: 'xno',
    kind: 'payout',
    tx: 'ab',
    signed: '{}',
    amount_raw: '5',
    payment_ids: [],
    payout_ids: ['out_1'],
  },
  ...{ state: 'signed', at: 200, changed_at: 200 },
  ...fields,
})

describe('a payout', () => {
  it('in a transfer is shown as far as that is, with its transaction and the time of its last change', () => {
    const own = payout({ state: 'in_transfer', transfer_id: 'trf_1' })
    for (const state of ['signed', 'sent', 'held', 'confirmed'] as const)
      expect(showPayout(own, transfer({ state, changed_at: 300 }))).toMatchObject({
        state,
        tx: 'ab',
        changed_at: 300,
      })
  })

  it('in a transfer that carries it no more is shown as nothing: the records disagree', () => {
    const own = payout({ state: 'in_transfer', transfer_id: 'trf_1' })
    expect(() => showPayout(own, transfer({ state: 'replaced' }))).toThrow('carries it no more')
    expect(() => showPayout(own, undefined)).toThrow('carries it no more')
  })

  it('was last changed when it, or its transfer, last was', () => {
    const own = payout({ state: 'in_transfer', transfer_id: 'trf_1', changed_at: 400 })
    expect(showPayout(own, transfer({ changed_at: 300 })).changed_at).toBe(400)
  })

  it('in no transfer is shown as it is, whatever transfer is at hand', () => {
    for (const state of ['owed', 'manual', 'withdrawn'] as const) {
      expect(showPayout(payout({ state, tx: 'cd' }), transfer({}))).toEqual(payout({ state, tx: 'cd' }))
    }
    expect(showPayout(payout({ state: 'manual', held_by: 'trf_9' }), undefined).state).toBe('manual')
  })

  it('is carried by any transfer but one that was replaced', () => {
    expect(CARRYING).toEqual(['signed', 'sent', 'confirmed', 'held'])
    expect(TRANSFER_STATES.filter((state) => carries(transfer({ state })))).toEqual(CARRYING)
    expect(carries(undefined)).toBe(false)
  })

  it('that is owed is held while an unexplained transfer may have paid it', () => {
    expect(showPayout(payout({}), undefined).state).toBe('owed')
    expect(showPayout(payout({ held_by: 'trf_9' }), undefined).state).toBe('held')
  })
})

describe('payouts to one payee that come to more than there is', () => {
  const group = () => {
    const payouts = ['3', '4', '2'].map((raw) => ({ ...payout({ amount_raw: raw }), state: 'owed' as const }))
    return { address: 'nano_1', payouts, sumRaw: 9n }
  }
  const sumsOf = ({ payouts, sumRaw }: DueGroup) => [payouts.map(({ amount_raw: raw }) => raw), sumRaw]

  it('are paid in their order as far as it goes, and the block sends what they are', () => {
    for (const [mostRaw, paid, left] of [
      [3n, [['3'], 3n], [['4', '2'], 6n]],
      [6n, [['3'], 3n], [['4', '2'], 6n]],
      [7n, [['3', '4'], 7n], [['2'], 2n]],
    ] as const) {
      const due = group()
      const part = splitDue(due, mostRaw, 3n)
      expect([part && sumsOf(part), sumsOf(due)]).toEqual([paid, left])
    }
  })

  it('wait, all of them, if what there is pays none or less than the least sum', () => {
    for (const [mostRaw, leastRaw] of [
      [2n, 1n],
      [6n, 4n],
    ] as const) {
      const due = group()
      expect(splitDue(due, mostRaw, leastRaw)).toBeUndefined()
      expect(sumsOf(due)).toEqual([['3', '4', '2'], 9n])
    }
  })
})

describe('a transfer that is refused', () => {
  /** Refused at each of these times; @returns what is noted of it at last */
  const refusedAt = (...times: number[]) =>
    times.reduce<Pick<TransferRecord, 'refused'>>(
      (own, at) => ({ refused: countRefusal(own, 'busy', at) }),
      {},
    )

  it('counts as refused for long from the first refusal on, however long ago it was signed', () => {
    expect(isRefusedForLong({}, 1_000_000)).toBe(false)
    expect(isRefusedForLong(refusedAt(5_000), 5_000)).toBe(false)
    expect(isRefusedForLong(refusedAt(5_000, 5_100), 5_599)).toBe(false)
    expect(isRefusedForLong(refusedAt(5_000, 5_100, 5_590), 5_600)).toBe(true)
  })

  it('is noted with the time of its first refusal, how often it was refused, and the last reason', () => {
    const first = countRefusal({}, 'busy', 100)
    expect(first).toEqual({ at: 100, count: 1, next_at: 105, reason: 'busy' })
    expect(countRefusal({ refused: first }, 'no work', 105)).toEqual({
      at: 100,
      count: 2,
      next_at: 115,
      reason: 'no work',
    })
  })

  it('is offered again without end, each pause twice the one before and none longer than five minutes', () => {
    let own: Pick<TransferRecord, 'refused'> = {}
    const pauses: number[] = []
    for (let at = 0; pauses.length < 10; at = own.refused?.next_at ?? 0) {
      own = { refused: countRefusal(own, 'busy', at) }
      pauses.push((own.refused?.next_at ?? 0) - at)
      expect([isToBeOffered(own, at), isToBeOffered(own, own.refused?.next_at ?? 0)]).toEqual([false, true])
    }
    expect(pauses).toEqual([5, 10, 20, 40, 80, 160, 300, 300, 300, 300])
  })

  it('is offered at once when a clock that was ahead has put that off', () => {
    expect(isToBeOffered(refusedAt(1_000_000), 1_000)).toBe(true)
    const own = (next_at: number) => ({ refused: { at: 1, count: 1, next_at, reason: 'busy' } })
    expect([isToBeOffered(own(400), 100), isToBeOffered(own(401), 100)]).toEqual([false, true])
    expect(isToBeOffered({}, 100)).toBe(true)
  })
})
