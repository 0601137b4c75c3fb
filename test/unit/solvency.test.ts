import { describe, expect, it } from 'vitest'
import type { EntryRecord } from '../../shared/ledger/entry.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'
import {
  addToOwed,
  closesSeal,
  closingEntry,
  closingSums,
  countFrom,
  countLiabilities,
  NO_MONEY,
  NOTHING_OWED,
  owedOf,
  parseLiabilities,
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

describe("what isn't the venue's own, by the ledger alone", () => {
  const xnoOf = (count: ReturnType<typeof countLiabilities>) =>
    Object.entries(count.sums().xno)
      .filter(([, sum]) => sum !== 0n)
      .map(([name, sum]) => `${name} ${sum}`)
      .join(', ')
  const steps: [kind: PendingEntry['kind'], data: Data, after: string][] = [
    ['payment', { order_id: 'mkt_1', amount_raw: '100' }, 'orders 100'],
    ['payment', { amount_raw: '1' }, 'orders 100'],
    ['payout', { payout_id: 'out_1', step: 'owed', amount_raw: '80' }, 'orders 20, owed 80'],
    ['fee', { step: 'taken', amount_raw: '20' }, 'owed 80'],
    ['payout', { payout_id: 'out_1', step: 'signed', amount_raw: '80' }, 'owed 80'],
    ['payout', { payout_id: 'out_1', step: 'owed', again: true, amount_raw: '80' }, 'owed 80'],
    ['payout', { payout_id: 'out_1', step: 'confirmed', amount_raw: '80' }, ''],
    [
      'payout',
      { payout_id: 'out_1', step: 'owed', again: true, undoes: 'confirmed', amount_raw: '80' },
      'owed 80',
    ],
    ['payout', { payout_id: 'out_1', step: 'withdrawn', amount_raw: '80' }, 'orders 80'],
    ['fee', { step: 'returned', amount_raw: '20' }, 'orders 100'],
    ['dispute_outcome', { written_off_raw: '30' }, 'orders 70'],
    ['money_move', { from: 'outside', to: 'unassigned', amount_raw: '9' }, 'orders 70, unassigned 9'],
    ['money_move', { from: 'unassigned', to: 'orders', amount_raw: '4' }, 'orders 70, unassigned 5'],
    [
      'money_move',
      { from: 'outside', to: 'invoices', amount_raw: '7' },
      'orders 70, invoices 7, unassigned 5',
    ],
    ['money_move', { from: 'invoices', to: 'venue', amount_raw: '5' }, 'orders 70, invoices 2, unassigned 5'],
    [
      'money_move',
      { from: 'invoices', to: 'remainders', amount_raw: '2' },
      'orders 70, remainders 2, unassigned 5',
    ],
    [
      'money_move',
      { from: 'remainders', to: 'remainders', amount_raw: '2' },
      'orders 70, remainders 2, unassigned 5',
    ],
    [
      'money_move',
      { from: 'venue', to: 'elsewhere', amount_raw: '2' },
      'orders 70, remainders 2, unassigned 5',
    ],
    ['money_move', { from: ['invoices'], amount_raw: '2' }, 'orders 70, remainders 2, unassigned 5'],
  ]

  // holds: rules.ledger.statements.the_liabilities_of_a_closing_entry
  it("is held for orders, owed to payees, paid and not used, or nobody's, and moves as entries say", () => {
    const count = countLiabilities()
    for (const [place, [kind, data, after]] of steps.entries()) {
      expect(count.add({ ...entry(kind, { coin: 'xno', ...data }), _id: place + 1 })).toBeUndefined()
      expect([place, data, xnoOf(count)]).toEqual([place, data, after])
    }
    expect(count.sums().xmr).toEqual(NO_MONEY.xmr)
    expect(owedOf(count.sums())).toEqual({ xno: 70n, xmr: 0n })
  })

  // holds: rules.ledger.statements.below_the_first_closing_entry_that
  it('counts a payout as owed once: later entries say so, and of older ones the first counts', () => {
    const owed = (more: Data = {}) =>
      entry('payout', { coin: 'xno', payout_id: 'out_1', step: 'owed', amount_raw: '8', ...more })
    const fromTheFirst = countLiabilities()
    for (const one of [owed({ again: true }), owed(), owed(), owed({ payout_id: 'out_2' })])
      fromTheFirst.add(one)
    expect(xnoOf(fromTheFirst)).toBe('orders -16, owed 16')
    // Behind a seal that states the sums nobody knows what came before it.
    const behindSeal = countLiabilities(NO_MONEY)
    for (const one of [owed({ again: true }), owed(), owed()]) behindSeal.add(one)
    expect(xnoOf(behindSeal)).toBe('orders -16, owed 16')
  })

  it('is not changed by what cannot be read', () => {
    const count = countLiabilities()
    const move = { coin: 'xno', from: 'outside', to: 'invoices', amount_raw: '7' }
    for (const data of [
      { ...move, amount_raw: 7 },
      { ...move, coin: 'btc' },
      { ...move, amount_raw: '-7' },
    ])
      expect(count.add(entry('money_move', data))).toMatch(/^entry 7 expected data\./)
    expect(count.add(entry('money_move', move), false)).toContain('no canonical JSON')
    expect(count.sums()).toBe(NO_MONEY)
  })

  it('is counted behind a closing entry, or from the first entry on if that states it not', async () => {
    const [payment, fee] = [
      entry('payment', { coin: 'xno', order_id: 'mkt_1', amount_raw: '100' }),
      entry('fee', { coin: 'xno', amount_raw: '20' }),
    ]
    const asked: [number, number][] = []
    const pages = async function* (fromId: number, toId: number) {
      asked.push([fromId, toId])
      yield* await Promise.resolve([[payment], [fee]])
    }
    expect((await countFrom(undefined, pages)).sums()).toEqual(NO_MONEY)
    expect((await countFrom(closing(3), pages)).sums()).toEqual(sums)
    expect(asked).toEqual([])
    const { liabilities: _, assets: _held, ...before } = closing(3).data
    expect(xnoOf(await countFrom(closing(3, { data: before }), pages))).toBe('orders 80')
    expect(asked).toEqual([[1, 10]])
  })
})

const KEYS = { root: 'aa', count: 3, v: 2 } as const
const state = { prevSeal: 'bb', log: { size: 9, root: 'cc' }, keys: KEYS }
const HASH = 'AB'.repeat(32)
const assets = {
  xno: [
    {
      account: `nano_3${'1'.repeat(59)}`,
      frontier: HASH,
      balance: '5',
      receivable: [{ hash: HASH, amount: '7' }],
    },
  ],
  xmr: { height: 7, balance: '12', proof_hash: null },
  at: { xno: 100, xmr: 90 },
  unread: { xmr: 'no_proof' as const },
}
const sums = {
  xno: { orders: -7n, owed: 2n, invoices: 3n, remainders: 4n, unassigned: 5n },
  xmr: { orders: 12n, owed: 0n, invoices: 0n, remainders: 0n, unassigned: 0n },
}
const stated = {
  xno: { orders: '-7', owed: '2', invoices: '3', remainders: '4', unassigned: '5' },
  xmr: { orders: '12', owed: '0', invoices: '0', remainders: '0', unassigned: '0' },
}
const closing = (seq: number, more: Partial<EntryRecord> = {}): EntryRecord => {
  const { source, at, kind, data } = closingEntry(seq, 200, { sums, assets }, state)
  return { _id: 10, record: 'seal_3', source, at, kind, data, ...more }
}

describe('the entry that closes a seal', () => {
  it('states the sums, the seal, the log and the keys before it', () => {
    const before = {
      seal: 'seal_3',
      owed: { xno: '-5', xmr: '12' },
      prev_seal: 'bb',
      log: { size: 9, root: 'cc' },
      keys: KEYS,
    }
    const of = (held?: typeof assets) => closingEntry(3, 200, { sums, assets: held }, state)
    expect(of()).toEqual({ source: 'seal_3/solvency', at: 200, kind: 'solvency', data: before })
    expect(of(assets).data).toEqual({ ...before, liabilities: stated, assets })
    expect(parseLiabilities(closing(3))).toEqual(sums)
    expect(parseLiabilities(closing(3, { data: before }))).toBeUndefined()
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
      [false, closing(3, { data: { ...data, liabilities: null } })],
      [false, closing(3, { data: { ...data, assets: { ...assets, xno: [{ account: 'nano_1' }] } } })],
      [false, closing(3, { data: { ...data, assets: { ...assets, unread: { xno: 'unwilling' } } } })],
      [false, closing(3, { data: { ...data, assets: { ...assets, beside: 1 } } })],
      [true, closing(3, { data: { ...data, assets: { ...assets, xno: null, xmr: null, more: 2 } } })],
      [false, closing(3, { data: { ...data, liabilities: { ...stated, xmr: { orders: '12' } } } })],
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
