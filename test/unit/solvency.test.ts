import { describe, expect, it } from 'vitest'
import type { EntryRecord } from '../../shared/ledger/entry.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'
import {
  addToOwed,
  closesSeal,
  closingEntry,
  closingSums,
  NOTHING_OWED,
  parseOwed,
  tryAddToOwed,
} from '../../shared/ledger/solvency.ts'

type Data = PendingEntry['data']
const entry = (kind: PendingEntry['kind'], data: Data): EntryRecord => ({
  _id: 7,
  source: 'rec_1/step',
  record: 'rec_1',
  at: 100,
  kind,
  data,
})
const BEFORE = { xno: 100n, xmr: 50n }
const owedAfter = (kind: PendingEntry['kind'], data: Data) =>
  addToOwed(BEFORE, entry(kind, { coin: 'xno', amount_raw: '7', ...data }))
const xnoAfter = (kind: PendingEntry['kind'], data: Data) => owedAfter(kind, data).xno

describe('what the venue owes, by the ledger alone', () => {
  it('begins with nothing', () => {
    expect(NOTHING_OWED).toEqual({ xno: 0n, xmr: 0n })
  })

  it('grows by what is received for an order, and by nothing that is paid for a pass', () => {
    expect(xnoAfter('payment', { order_id: 'ord_1' })).toBe(107n)
    expect(xnoAfter('payment', { order_id: 'ord_1', step: 'undone' })).toBe(93n)
    expect(xnoAfter('payment', {})).toBe(100n)
  })

  it('shrinks by the fee that the venue takes, and grows by one that it gives back', () => {
    expect(xnoAfter('fee', { step: 'taken' })).toBe(93n)
    expect(xnoAfter('fee', { step: 'returned' })).toBe(107n)
  })

  it('shrinks by a payout once it has arrived or was paid by hand, not before, and grows if that is undone', () => {
    const steps = ['owed', 'signed', 'sent', 'held', 'withdrawn', 'confirmed', 'manual'] as const
    expect(steps.map((step) => [step, xnoAfter('payout', { step })])).toEqual([
      ['owed', 100n],
      ['signed', 100n],
      ['sent', 100n],
      ['held', 100n],
      ['withdrawn', 100n],
      ['confirmed', 93n],
      ['manual', 93n],
    ])
    expect(xnoAfter('payout', { step: 'owed', undoes: 'manual' })).toBe(107n)
    expect(xnoAfter('payout', { step: 'confirmed', undoes: 'manual' })).toBe(107n)
  })

  it('shrinks by what a decision gives up of what the chain took back', () => {
    expect(xnoAfter('dispute_outcome', { written_off_raw: '30' })).toBe(70n)
    expect(xnoAfter('dispute_outcome', { written_off_raw: '0' })).toBe(100n)
  })

  it('changes in the coin of the entry alone, and by no entry of another kind', () => {
    expect(owedAfter('fee', { coin: 'xmr' })).toEqual({ xno: 100n, xmr: 43n })
    expect(owedAfter('fee', {})).toEqual({ xno: 93n, xmr: 50n })
    expect(owedAfter('order', {})).toBe(BEFORE)
  })

  it('may be below nothing: the sums say what happened, not what should have', () => {
    expect(addToOwed(NOTHING_OWED, entry('fee', { coin: 'xmr', amount_raw: '1' }))).toEqual({
      xno: 0n,
      xmr: -1n,
    })
  })

  it('cannot be told from an entry without a readable amount or coin, which every verifier skips', () => {
    const unreadable: Data[] = [
      { coin: 'xno' },
      { coin: 'xno', amount_raw: 7 },
      { coin: 'xno', amount_raw: '' },
      { coin: 'xno', amount_raw: '-7' },
      { coin: 'xno', amount_raw: '7.5' },
      { coin: 'xno', amount_raw: 'a7' },
      { coin: 'xno', amount_raw: '9'.repeat(61) },
      { amount_raw: '7' },
      { coin: 'btc', amount_raw: '7' },
      { coin: 'toString', amount_raw: '7' },
      { coin: ['xno'], amount_raw: '7' },
    ]
    for (const data of unreadable) {
      const bad = entry('fee', data)
      expect(() => addToOwed(BEFORE, bad), JSON.stringify(data)).toThrow(/^entry 7 expected data\./)
      expect(tryAddToOwed(BEFORE, bad)).toEqual({
        owed: BEFORE,
        anomaly: expect.stringContaining('entry 7') as string,
      })
    }
    expect(addToOwed(NOTHING_OWED, entry('fee', { coin: 'xno', amount_raw: '9'.repeat(60) })).xno).toBe(
      -BigInt('9'.repeat(60)),
    )
  })

  it('is not changed by an entry whose content cannot be published, even if its amount can be read', () => {
    const data = { coin: 'xno', amount_raw: '7' }
    expect(tryAddToOwed(BEFORE, entry('fee', data))).toEqual({ owed: { xno: 93n, xmr: 50n } })
    expect(tryAddToOwed(BEFORE, entry('fee', data), false)).toEqual({
      owed: BEFORE,
      anomaly: expect.stringContaining('entry 7') as string,
    })
    expect(tryAddToOwed(BEFORE, { ...entry('fee', data), at: -1 }).owed).toBe(BEFORE)
  })
})

const KEYS = { root: 'aa', count: 3, v: 2 } as const
const state = { prevSeal: 'bb', log: { size: 9, root: 'cc' }, keys: KEYS }
const closing = (seq: number, more: Partial<EntryRecord> = {}): EntryRecord => {
  const { source, at, kind, data } = closingEntry(seq, 200, { xno: -5n, xmr: 12n }, state)
  return { _id: 10, record: 'seal_3', source, at, kind, data, ...more }
}

describe('the entry that closes a seal', () => {
  it('states the sums, the seal, the log and the keys before it', () => {
    expect(closingEntry(3, 200, { xno: -5n, xmr: 12n }, state)).toEqual({
      source: 'seal_3/solvency',
      at: 200,
      kind: 'solvency',
      data: {
        seal: 'seal_3',
        owed: { xno: '-5', xmr: '12' },
        prev_seal: 'bb',
        log: { size: 9, root: 'cc' },
        keys: KEYS,
      },
    })
    expect(parseOwed(closing(3))).toEqual({ xno: -5n, xmr: 12n })
  })

  it('is told by its kind, its source and the seal that it names', () => {
    const { data } = closing(3)
    const cases: [boolean, EntryRecord][] = [
      [true, closing(3)],
      [true, closing(3, { source: 'seal_3/solvency/2' })],
      [false, closing(2)],
      [false, closing(3, { kind: 'fee' })],
      [false, closing(3, { source: 'seal_3/solvency2' })],
      [false, closing(3, { source: 'seal_30/solvency' })],
      [false, closing(3, { data: { ...data, seal: 'seal_2' } })],
      [false, closing(3, { data: { ...data, owed: { xno: '1' } } })],
      [false, closing(3, { at: -1 })],
    ]
    for (const [closes, one] of cases) {
      expect([one.source, closesSeal(one, 3)]).toEqual([one.source, closes])
      expect(closingSums(one, 3)).toEqual(closes ? { xno: -5n, xmr: 12n } : undefined)
    }
    expect(closingSums(undefined, 3)).toBeUndefined()
  })

  it('states whole numbers in their one decimal form', () => {
    const stating = (owed: Data[string]) => entry('solvency', owed === null ? {} : { owed })
    for (const text of ['0', '7', '-7', '9'.repeat(78)])
      expect(parseOwed(stating({ xno: text, xmr: '0' })).xno).toBe(BigInt(text))
    for (const text of ['', '-', '-0', '07', '+7', '7.0', ' 7', '7 ', '9'.repeat(79), 7]) {
      expect(() => parseOwed(stating({ xno: text, xmr: '0' }))).toThrow(TypeError)
      expect(() => parseOwed(stating({ xno: '0', xmr: text }))).toThrow(TypeError)
    }
    expect(() => parseOwed(stating(null))).toThrow(TypeError)
  })
})
