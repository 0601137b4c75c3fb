import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { computeMoneySpent, type PassInvoice } from '../../shared/passes/pass-invoice.ts'
import { dustThreshold } from '../../shared/money/coin.ts'
import { isPaid, remainderRaw } from '../../shared/money/invoice.ts'
import type { ArrivalRecord, PaymentRecord } from '../../shared/money/arrival.ts'
import { countLiabilities } from '../../shared/ledger/solvency.ts'
import {
  arrivalLine,
  heldRaw,
  kindOf,
  liabilitiesOf,
  move,
  paymentLine,
  payoutLine,
  reverse,
  storedLine,
  transferLines,
  type Account,
  type JournalLine,
} from '../../shared/money/journal.ts'

const DAY = 10n ** 30n
const fresh = (days: number, amountRaw: bigint): PassInvoice => ({
  _id: 'inv_1',
  agent_id: 'agt_1',
  at: 1,
  coin: 'xno',
  days,
  price_usd_cents: 100 * days,
  amount_raw: String(amountRaw),
  rate: '1',
  rate_source: 'test',
  rate_at: 1,
  address: 'nano_1',
  address_index: 1,
  expires_at: 2,
  open: true,
  lapsed: false,
  received_raw: '0',
  carried_raw: '0',
  moved_raw: '0',
  unspent: '0',
  credited_days: 0,
  version: 0,
})

function balancesOf(lines: readonly JournalLine[]): Map<Account, bigint> {
  const balances = new Map<Account, bigint>()
  for (const { from, to, amount_raw: raw } of lines) {
    balances.set(from, (balances.get(from) ?? 0n) - BigInt(raw))
    balances.set(to, (balances.get(to) ?? 0n) + BigInt(raw))
  }
  return balances
}

const amount = () => fc.bigInt({ min: 1n, max: 5n * DAY })
/** A price is rounded up at the decimals below which money is dust, so none is less. */
const prices = () => fc.bigInt({ min: dustThreshold('xno'), max: 5n * DAY })

describe('the lines of a pass invoice', () => {
  it('leave in each account what the invoice says, to the last raw, whatever comes in parts, late, or carried over', () => {
    const step = fc.record({ raw: amount(), dearer: fc.bigInt({ min: 0n, max: DAY }), lapses: fc.boolean() })
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 365 }),
        prices(),
        fc.bigInt({ min: 0n, max: DAY }),
        fc.array(step, { maxLength: 8 }),
        (days, price, carried, steps) => {
          let invoice: PassInvoice = {
            ...fresh(days, price),
            carried_raw: String(carried),
            unspent: String(carried * BigInt(days)),
          }
          const about = { coin: 'xno', at: 1 } as const
          const lines: JournalLine[] = move('carried', 'remainder:agt_1', 'invoice:inv_1', carried, about)
          const change = (source: string, amountRaw: bigint, priceRaw: bigint) => {
            const { fields, lines: own } = computeMoneySpent(invoice, { source, at: 1, amountRaw, priceRaw })
            const { has_remainder: hasRemainder, open: _open, ...money } = fields
            const { has_remainder: _had, ...rest } = invoice
            invoice = {
              ...rest,
              ...money,
              ...(hasRemainder === true ? { has_remainder: true as const } : {}),
            }
            lines.push(...own)
          }
          change('first', 0n, price)
          for (const [place, { raw, dearer, lapses }] of steps.entries()) {
            lines.push(...move(`${place}/received`, 'chain', 'invoice:inv_1', raw, about))
            change(String(place), raw, invoice.lapsed ? price + dearer : price)
            if (lapses && !invoice.lapsed) {
              invoice = { ...invoice, lapsed: true }
              change(`${place}/lapse`, 0n, price)
            }
            const balances = balancesOf(lines)
            const left = remainderRaw(invoice)
            const isClosed = isPaid(invoice) || invoice.lapsed
            expect(balances.get('invoice:inv_1') ?? 0n).toBe(isClosed ? 0n : left)
            expect(balances.get('remainder:agt_1') ?? 0n).toBe((isClosed ? left : 0n) - carried)
            expect(balances.get('sold') ?? 0n).toBe(BigInt(invoice.received_raw) + carried - left)
            expect([...balances.values()].reduce((sum, one) => sum + one, 0n)).toBe(0n)
          }
          expect(lines.every(({ amount_raw: raw }) => BigInt(raw) > 0n)).toBe(true)
          expect(new Set(lines.map(({ _id }) => _id)).size).toBe(lines.length)
        },
      ),
      // An invoice that lacked only dust, and gets some of it.
      { examples: [[1, dustThreshold('xno'), 1n, [{ raw: 1n, dearer: 0n, lapses: false }]]] },
    )
  })
})

describe('a line', () => {
  const about = { coin: 'xmr', at: 1 } as const
  it('is made of no move of nothing, and goes the other way for less than nothing', () => {
    expect(move('a', 'chain', 'sold', 0n, about)).toEqual([])
    expect(move('a', 'chain', 'sold', -3n, about)).toMatchObject([
      { from: 'sold', to: 'chain', amount_raw: '3' },
    ])
  })

  it('and its reverse come to nothing', () => {
    const [line] = move('a', 'chain', 'sold', 3n, about)
    expect(reverse(line as JournalLine, 'undone', 2)).toEqual({
      ...{ _id: 'a/undone', at: 2, coin: 'xmr', from: 'sold', to: 'chain', amount_raw: '3' },
    })
    const balances = balancesOf([line as JournalLine, reverse(line as JournalLine, 'undone', 2)])
    expect([...balances.values()]).toEqual([0n, 0n])
  })
})

describe('what is held by the books', () => {
  const payout = {
    _id: 'out_1',
    coin: 'xmr' as const,
    agent_id: 'agt_2',
    order_id: 'mkt_1',
    amount_raw: '80',
  }
  const payment = {
    _id: 'pay_1',
    coin: 'xmr',
    amount_raw: '100',
    agent_id: 'agt_1',
    order_id: 'mkt_1',
    invoice_id: 'inv_1',
  } as PaymentRecord
  const transfer = {
    _id: 'trf_1',
    coin: 'xmr' as const,
    kind: 'payout' as const,
    amount_raw: '80',
    fee_raw: '3',
  }

  it('is what came in less what left and what that cost', () => {
    const lines = [
      ...paymentLine(payment, 'received', 1),
      ...payoutLine(payout, 'owed', 1),
      ...transferLines(transfer, [payout], 1),
    ]
    const balances = balancesOf(lines)
    expect(heldRaw(balances)).toBe(17n)
    expect(Object.fromEntries(balances)).toMatchObject({
      'order:mkt_1': 20n,
      'owed:agt_2': 0n,
      paid: 80n,
      operator: -3n,
    })
  })

  it('is the same whether a payout by hand or the transaction that made it is noted first', () => {
    const byHand = payoutLine(payout, 'manual/1', 2)
    const found = transferLines({ ...transfer, fee_raw: '0' }, [], 3)
    const before = [...paymentLine(payment, 'received', 1), ...payoutLine(payout, 'owed', 1)]
    expect(heldRaw(balancesOf([...before, ...byHand]))).toBe(100n)
    for (const both of [
      [...byHand, ...found],
      [...found, ...byHand],
    ]) {
      const balances = balancesOf([...before, ...both])
      expect([heldRaw(balances), balances.get('operator'), balances.get('owed:agt_2')]).toEqual([20n, 0n, 0n])
    }
  })

  it('is less by a payment that the chain took back, which the order goes on counting', () => {
    const balances = balancesOf([
      ...paymentLine(payment, 'received', 1),
      ...paymentLine(payment, 'lost/1', 2),
    ])
    expect([heldRaw(balances), balances.get('order:mkt_1'), balances.get('lost')]).toEqual([0n, 100n, -100n])
    const restored = [
      ...paymentLine(payment, 'received', 1),
      ...paymentLine(payment, 'lost/1', 2),
      ...paymentLine(payment, 'restored/2', 3),
    ]
    expect(balancesOf(restored).get('lost')).toBe(0n)
  })
})

describe('the line of a payment', () => {
  const payment = {
    ...{ _id: 'pay_1', coin: 'xmr' as const, amount_raw: '100', agent_id: 'agt_1', invoice_id: 'inv_1' },
  }
  const moveOf = (...args: Parameters<typeof paymentLine>) =>
    paymentLine(...args).map(({ _id, from, to, amount_raw }) => [_id, from, to, amount_raw])

  it('goes to the order that it pays, or else to the invoice, and names whose it is', () => {
    expect(paymentLine(payment, 'received', 7)).toEqual([
      {
        ...{ _id: 'pay_1/received', at: 7, coin: 'xmr', from: 'chain', to: 'invoice:inv_1' },
        ...{ amount_raw: '100', agent_id: 'agt_1', invoice_id: 'inv_1', payment_id: 'pay_1' },
      },
    ])
    const [ofAnOrder] = paymentLine({ ...payment, order_id: 'ord_1' }, 'received', 7)
    expect(ofAnOrder).toMatchObject({ to: 'order:ord_1', order_id: 'ord_1' })
  })

  it('comes from where the money was, and goes back there if it is undone', () => {
    const taken = { ...payment, came_to: 'unassigned' as const }
    expect(moveOf(taken, 'received', 7)).toEqual([['pay_1/received', 'unassigned', 'invoice:inv_1', '100']])
    expect(moveOf(taken, 'undone', 7)).toEqual([['pay_1/undone', 'invoice:inv_1', 'unassigned', '100']])
  })

  it('is borne by the venue if the chain takes it back, wherever the money was', () => {
    const taken = { ...payment, came_to: 'unassigned' as const }
    expect(moveOf(taken, 'lost/1', 7)).toEqual([['pay_1/lost/1', 'lost', 'chain', '100']])
    expect(moveOf(taken, 'restored/2', 7)).toEqual([['pay_1/restored/2', 'chain', 'lost', '100']])
  })
})

describe('the line of a payout', () => {
  const payout = { _id: 'out_1', coin: 'xno' as const, agent_id: 'agt_1', amount_raw: '9' }
  const ofOrder = { ...payout, order_id: 'ord_1' }
  it.each([
    ['owed', 'order:ord_1', 'owed:agt_1'],
    ['withdrawn', 'owed:agt_1', 'order:ord_1'],
    ['manual/1', 'owed:agt_1', 'operator'],
    ['unpaid/1', 'operator', 'owed:agt_1'],
    ['paid/trf_1', 'owed:agt_1', 'paid'],
  ] as const)('at %s moves its sum from %s to %s', (step, from, to) => {
    expect(payoutLine(ofOrder, step, 7)).toEqual([
      {
        ...{ _id: `out_1/${step}`, at: 7, coin: 'xno', from, to, amount_raw: '9' },
        ...{ agent_id: 'agt_1', payout_id: 'out_1', order_id: 'ord_1' },
      },
    ])
  })

  it('for no order is the operator’s', () => {
    const [line] = payoutLine(payout, 'owed', 7)
    expect(line).toMatchObject({ from: 'operator', to: 'owed:agt_1' })
    expect(line).not.toHaveProperty('order_id')
  })

  it('that sends money back which came to nobody takes it from there once it is paid', () => {
    const back = { ...payout, agent_id: 'pay_1', arrival_id: 'pay_1' }
    expect([payoutLine(back, 'owed', 7), payoutLine(back, 'withdrawn', 7)]).toEqual([[], []])
    expect(payoutLine(back, 'paid/trf_1', 7)).toMatchObject([{ from: 'unassigned', to: 'paid' }])
    expect(payoutLine(back, 'manual/1', 7)).toMatchObject([{ from: 'unassigned', to: 'operator' }])
  })
})

describe('the lines of a transfer', () => {
  const payout = { _id: 'out_1', coin: 'xno' as const, agent_id: 'agt_1', order_id: 'ord_1', amount_raw: '9' }
  const transfer = { _id: 'trf_1', coin: 'xno' as const, kind: 'payout' as const, amount_raw: '9' }
  const moves = (...args: Parameters<typeof transferLines>) =>
    transferLines(...args).map(({ _id, from, to, amount_raw }) => [_id, from, to, amount_raw])

  it('name the transfer, its payouts among them', () => {
    for (const line of transferLines({ ...transfer, amount_raw: '12', fee_raw: '1' }, [payout], 7))
      expect(line).toMatchObject({ transfer_id: 'trf_1', at: 7, coin: 'xno' })
  })

  it('make what is sent beyond the payouts, and the fee, the operator’s', () => {
    expect(moves({ ...transfer, amount_raw: '12', fee_raw: '1' }, [payout], 7)).toEqual([
      ['out_1/paid/trf_1', 'owed:agt_1', 'paid', '9'],
      ['trf_1/sent', 'operator', 'paid', '3'],
      ['trf_1/fee', 'operator', 'network_fee', '1'],
    ])
    expect(moves(transfer, [payout], 7)).toHaveLength(1)
  })

  it('of one that only moves money within the venue are none, but for its fee', () => {
    expect(moves({ ...transfer, kind: 'sweep' }, [], 7)).toEqual([])
    expect(moves({ ...transfer, kind: 'receive' }, [], 7)).toEqual([])
  })

  it('have other names when they are written again', () => {
    const again = {
      ...transfer,
      kind: 'payout' as const,
      amount_raw: '12',
      fee_raw: '1',
    }
    expect(moves(again, [payout], 7, '2').map(([name]) => name)).toEqual([
      'out_1/paid/trf_1/2',
      'trf_1/sent/2',
      'trf_1/fee/2',
    ])
  })
})

describe('the line of money that no invoice counts', () => {
  const arrival: ArrivalRecord = {
    ...{ _id: 'pay_1', coin: 'xno', tx: 'ab', address_index: 3, amount_raw: '9', came_to: 'unassigned' },
    ...{ state: 'settled', confirmations: 1, first_seen_at: 1, late: false, by: 'chain', salt: '' },
  }
  const lineOf = (...args: Parameters<typeof arrivalLine>) =>
    arrivalLine(...args).map(({ _id, from, to, amount_raw }) => [_id, from, to, amount_raw])

  it('brings it to the account that it came to, and goes back if it is found to be our own', () => {
    expect(lineOf(arrival, 'arrived', 7)).toEqual([['pay_1/arrived', 'chain', 'unassigned', '9']])
    expect(lineOf(arrival, 'own', 7)).toEqual([['pay_1/own', 'unassigned', 'chain', '9']])
    expect(lineOf({ ...arrival, came_to: 'operator' }, 'arrived', 7)).toEqual([
      ['pay_1/arrived', 'chain', 'operator', '9'],
    ])
  })
})

describe('the entry of a line', () => {
  const ids = { agent_id: 'agt_1', invoice_id: 'inv_1' }
  const line = (from: Account, to: Account, _id = 'pay_1/sold'): JournalLine => {
    const [made] = move(_id, from, to, 7n, { coin: 'xno', at: 5, ids })
    if (made === undefined) throw new Error('no line')
    return made
  }

  it('names accounts by their kind alone, and what the line is about, under the record that it stands under', () => {
    expect(storedLine(line('invoice:inv_1', 'sold')).pending).toEqual([
      {
        source: 'move:pay_1/sold',
        at: 5,
        kind: 'money_move',
        data: { coin: 'xno', from: 'invoices', to: 'venue', amount_raw: '7', ...ids, payment_id: 'pay_1' },
      },
    ])
    expect(storedLine(line('remainder:agt_1', 'invoice:inv_1', 'inv_1/carried')).pending?.[0]?.data).toEqual({
      ...{ coin: 'xno', from: 'remainders', to: 'invoices', amount_raw: '7', ...ids },
    })
  })

  it('is there if other entries do not tell of its accounts, and gives their sums', () => {
    const kinds = ['chain', 'sold', 'fee', 'paid', 'network_fee', 'operator', 'unassigned', 'lost'] as const
    const accounts = [...kinds, 'invoice:inv_1', 'remainder:agt_1', 'order:mkt_1', 'owed:agt_1'] as const
    for (const from of accounts)
      for (const to of accounts) {
        const count = countLiabilities()
        const stored = storedLine(line(from, to))
        for (const { source, at, kind, data } of stored.pending ?? [])
          count.add({ _id: 1, source, record: 'pay_1', at, kind, data })
        const given = count.sums().xno
        const kept = liabilitiesOf(
          new Map([
            [kindOf(from), -7n],
            [kindOf(to), from === to ? 0n : 7n],
          ]),
        )
        for (const name of ['invoices', 'remainders', 'unassigned'] as const)
          expect([from, to, name, given[name]]).toEqual([from, to, name, kept[name]])
        expect([given.orders, given.owed]).toEqual([0n, 0n])
      }
  })
})
