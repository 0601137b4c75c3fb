import { hash } from 'node:crypto'
import { messageOf, type Cheat, type Model } from './venue-model.ts'

/** What a venue does that it must not, and what whoever checks it is told. */
export interface CheatCase extends Cheat {
  name: string
  /** The exit code, and the words of which one must be among the reasons. */
  ends: readonly [code: 0 | 1 | 2 | 3, ...words: string[]]
}

type Data = Record<string, unknown>
const LAST = 3
/** In the seal before the last, so that the last one shows that it stays so. */
const BEFORE = 2

const accountsOf = (data: Data) =>
  (data['assets'] as { xno: { [field: string]: unknown; receivable: Data[] }[] }).xno
const inLast =
  (
    change: (accounts: ReturnType<typeof accountsOf>, model: Model, data: Data) => void,
  ): NonNullable<Cheat['state']> =>
  (data, model, seq) => {
    if (seq === LAST) change(accountsOf(data), model, data)
  }
/** An order of the model, paid in Nano, of which the venue has all of the price. */
function paidOrder(model: Model) {
  const order = model.place()
  const own = { ...order, coin: 'xno' as const }
  model.orders[model.orders.indexOf(order)] = own
  const placed = model.entries.at(-1)?.data as Data
  placed['coin'] = 'xno'
  model.pay(own, own.price)
  own.status = 'paid'
  model.step(own, 'paid', 'paid')
  return own
}
const before =
  (act: (model: Model) => void): NonNullable<Cheat['trade']> =>
  (model, seq) => {
    if (seq === BEFORE) act(model)
  }
const plus = (text: unknown, more: bigint): string => String(BigInt(String(text)) + more)
const liabilitiesOf = (data: Data) => data['liabilities'] as Record<'xno' | 'xmr', Record<string, string>>

export const CHEATS: readonly CheatCase[] = [
  {
    name: 'the escrow of open orders is spent',
    state: inLast(([treasury], model) => {
      if (treasury !== undefined) treasury['balance'] = '10'
      const block = model.blocks.get(String(treasury?.['frontier']))
      if (block !== undefined) block['balance'] = '10'
    }),
    ends: [1, 'short'],
  },
  {
    name: 'a liability is left out',
    state: inLast((_accounts, _model, data) => {
      const { xno } = liabilitiesOf(data)
      xno['unassigned'] = plus(xno['unassigned'], -1n)
    }),
    ends: [1, 'wrong_liabilities'],
  },
  {
    name: 'what orders hold is stated as less, in both sums',
    state: inLast((_accounts, _model, data) => {
      const { xno } = liabilitiesOf(data)
      xno['orders'] = plus(xno['orders'], -7n)
      const owed = data['owed'] as Data
      owed['xno'] = plus(owed['xno'], -7n)
    }),
    ends: [1, 'wrong_liabilities'],
  },
  {
    name: 'a payout is made up, beyond what its order holds',
    trade: before((model) => {
      const order = paidOrder(model)
      const payout = { id: model.id('out'), amount: order.price + 1n, at: 'confirmed' as const }
      model.payout(order, payout, 'owed')
      model.payout(order, payout, 'confirmed')
      order.held = 0n
      model.sums.xno.orders -= order.price + 1n
      order.status = 'done'
    }),
    ends: [1, 'order_overdrawn'],
  },
  {
    name: 'a fee is made up',
    trade: before((model) => {
      const order = paidOrder(model)
      model.fee(order, order.price / 2n)
      order.status = 'done'
    }),
    ends: [1, 'wrong_fee'],
  },
  {
    name: 'an order states a higher fee',
    trade: before((model) => {
      const order = paidOrder(model)
      const placed = model.entries.findLast(
        ({ data }) => data['order_id'] === order.id && data['step'] === 'ordered',
      )
      if (placed !== undefined) (placed.data as Data)['fee_raw'] = plus(placed.data['fee_raw'], 1n)
    }),
    ends: [1, 'wrong_fee'],
  },
  {
    name: 'the fee of a refunded order is kept',
    trade: before((model) => {
      const order = paidOrder(model)
      model.write('dispute_outcome', {
        ...{ order_id: order.id, step: 'dispute_refunded', status: 'refunded', outcome: 'refund' },
        ...{ coin: 'xno', written_off_raw: '0' },
      })
      model.fee(order, (order.price * 20n) / 100n)
      model.owe(order, order.held)
      order.status = 'done'
    }),
    ends: [1, 'wrong_fee'],
  },
  {
    name: 'more is written off than an order holds',
    trade: before((model) => {
      const order = paidOrder(model)
      const raw = order.price + 9n
      model.write('dispute_outcome', {
        ...{ order_id: order.id, step: 'dispute_refunded', status: 'refunded', outcome: 'refund' },
        ...{ coin: 'xno', written_off_raw: String(raw) },
      })
      model.sums.xno.orders -= raw
      order.held = 0n
      order.status = 'done'
    }),
    ends: [1, 'order_overdrawn'],
  },
  {
    name: 'liabilities are left out once they were stated',
    state: inLast((_accounts, _model, data) => void delete data['liabilities']),
    ends: [1, 'wrong_liabilities'],
  },
  {
    name: 'the account of somebody else is named',
    serve: ({ solvency: { control } }) => void control.xno.splice(0, 1),
    ends: [3, 'control_not_shown'],
  },
  {
    name: 'the account of somebody else is named, with a signature of its own key',
    serve: ({ solvency: { control } }) => {
      const [treasury, invoice] = control.xno
      if (treasury !== undefined) treasury['signature'] = invoice?.['signature']
    },
    ends: [1, 'wrong_control'],
  },
  {
    name: 'an old proof is shown again',
    serve: ({ solvency: { control }, chain: { seals } }, { holders: [treasury] }) => {
      const [proof] = control.xno
      const [first] = seals
      if (proof === undefined || treasury === undefined || first === undefined) return
      proof['signature'] = treasury.sign(messageOf(1, hash('sha256', 'then', 'hex'), treasury.address))
    },
    ends: [1, 'wrong_control'],
  },
  {
    name: 'a proof is for another seal',
    serve: ({ solvency: { control } }) => {
      const [proof] = control.xno
      if (proof !== undefined) proof['seal_seq'] = 1
    },
    ends: [1, 'wrong_control'],
  },
  {
    name: 'a balance is overstated',
    state: inLast(([treasury]) => {
      if (treasury !== undefined) treasury['balance'] = plus(treasury['balance'], 1n)
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'a frontier is of another account',
    state: inLast(([treasury], model) => {
      if (treasury === undefined) return
      treasury['frontier'] = model.block('nano_other', { balance: String(treasury['balance']) })
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'a frontier is of before money was spent',
    state: inLast(([treasury], model) => {
      const earlier = [...model.blocks].findLast(([, { successor }]) => successor === treasury?.['frontier'])
      if (treasury === undefined || earlier === undefined) return
      const now = model.blocks.get(String(treasury['frontier']))
      if (now !== undefined) now['local_timestamp'] = String(model.at - 400)
      Object.assign(treasury, { frontier: earlier[0], balance: earlier[1]['balance'] })
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'a block that is to be received is made up',
    state: inLast(([, invoice], model) => {
      const [incoming] = invoice?.receivable ?? []
      if (incoming !== undefined) incoming['hash'] = model.hex().toUpperCase()
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'a block that is to be received was sent to somebody else',
    state: inLast(([, invoice], model) => {
      const block = model.blocks.get(String(invoice?.receivable[0]?.['hash']))
      if (block !== undefined) block['contents'] = { link_as_account: 'nano_other' }
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'a block that is to be received was received before',
    state: inLast(([, invoice], model) => {
      const block = model.blocks.get(String(invoice?.receivable[0]?.['hash']))
      if (block !== undefined)
        block['receive_hash'] = model.block(String(invoice?.['account']), { balance: '1' })
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'an account is named twice',
    state: inLast((accounts) => {
      const [treasury] = accounts
      if (treasury !== undefined) accounts.push({ ...treasury })
    }),
    ends: [1, 'wrong_assets'],
  },
  {
    name: 'a reserve proof does not hold',
    serve: ({ proofs }, { reserve }) => void proofs.set(reserve, { good: false }),
    ends: [1, 'wrong_control'],
  },
  {
    name: 'what a reserve proof shows is spent',
    serve: ({ proofs }, { reserve }) => {
      const { total } = proofs.get(reserve) ?? {}
      proofs.set(reserve, { good: true, total, spent: Number(total) })
    },
    ends: [3, 'control_not_shown'],
  },
  {
    name: 'the venue says that it could not look',
    state: inLast((_accounts, _model, data) => {
      const assets = data['assets'] as Data
      data['assets'] = { ...assets, xno: null, at: { xno: null, xmr: 1 }, unread: { xno: 'unreachable' } }
    }),
    ends: [2, 'not_read'],
  },
  {
    name: 'assets are left out',
    state: inLast((_accounts, _model, data) => void delete data['assets']),
    ends: [1, 'malformed_assets'],
  },
  // What the limits say that nobody can see from outside.
  { name: 'money is borrowed while the venue looks at what it has', ends: [0] },
  {
    name: "a payout is made up, within what its order holds: the order's own sides see it",
    trade: before((model) => {
      const order = paidOrder(model)
      const payout = { id: model.id('out'), amount: order.price, at: 'confirmed' as const }
      model.payout(order, payout, 'owed')
      model.payout(order, payout, 'confirmed')
      model.sums.xno.orders -= order.price
      order.held = 0n
      order.status = 'done'
    }),
    ends: [0],
  },
]
