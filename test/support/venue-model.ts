import { hash } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { eddsa } from '@noble/curves/abstract/edwards.js'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake2b } from '@noble/hashes/blake2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { encodeNanoAddress } from '../../shared/crypto/nano-address.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { sealPayloadHash, type Seal } from '../../shared/crypto/seal-payload.ts'
import { closingOf, sealOver, sign, statedBefore, type LedgerChain } from './ledger-chain.ts'
import { consistencyOf, noteOf, receiptInLog } from './log-proofs.ts'

/*
 * Venues that trade by themselves, each determined by a number. Every step moves money between the five sums by the
 * model's own count, which the entries must give too; then what they hold, their node and their proofs are made.
 */

type Coin = 'xno' | 'xmr'
type Part = 'orders' | 'owed' | 'invoices' | 'remainders' | 'unassigned'
type Sums = Record<Coin, Record<Part, bigint>>
type Data = Record<string, unknown>
interface Order {
  id: string
  coin: Coin
  price: bigint
  held: bigint
  status: 'awaiting_payment' | 'paid' | 'disputed' | 'done'
  owed: { id: string; amount: bigint; at: 'owed' | 'sent' | 'confirmed' }[]
  /** Fees taken by a decision that may be undone, with its payouts. */
  decided?: { fee: bigint }
}

export interface Venue {
  name: string
  chain: LedgerChain
  /** What GET /api/v1/solvency answers. */
  solvency: { control: { xno: Data[]; xmr: Data[] } & Data } & Data
  /** The Nano node's blocks, and what the Monero wallet says of proofs. */
  blocks: Map<string, Data>
  proofs: Map<string, Data>
  sums: Sums
  /** All of them agt_buyer's. */
  orders: readonly Order[]
}

/** What a venue does that it must not, and when. */
export interface Cheat {
  /** Changes what is put on record before seal `seq` is closed. */
  trade?: (model: Model, seq: number) => void
  /** Changes what the closing entry of seal `seq` states. */
  state?: (data: Data, model: Model, seq: number) => void
  /** Changes what is served beside the ledger. */
  serve?: (venue: Venue, model: Model) => void
}

const nano = eddsa(ed25519.Point, blake2b)
const SEALS = 3
const SEAL_EVERY = 600

export class Model {
  readonly entries: LedgerEntry[] = []
  readonly orders: Order[] = []
  readonly sums: Sums = { xno: none(), xmr: none() }
  readonly blocks = new Map<string, Data>()
  readonly proofs = new Map<string, Data>()
  readonly seals: Seal[] = []
  assets: Data = {}
  at: number
  #state: number
  #ids = 0

  constructor(seed: number, at: number) {
    this.#state = seed * 2_654_435_761 + 1
    this.at = at
  }

  /** A whole number below `end`. */
  draw(end: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % end
  }

  hex(): string {
    return hash('sha256', `${this.#state} ${this.#ids++}`, 'hex')
  }

  id = (prefix: string): string => `${prefix}_${this.hex().slice(0, 16)}`

  write(kind: string, data: Data): void {
    this.entries.push({ id: this.entries.length + 1, at: this.at, kind, data } as LedgerEntry)
  }

  move(coin: Coin, from: string, to: string, amount: bigint, agent_id = 'agt_other'): void {
    const parts = this.sums[coin] as Record<string, bigint>
    if (parts[from] !== undefined) parts[from] -= amount
    if (parts[to] !== undefined) parts[to] += amount
    this.write('money_move', { coin, from, to, amount_raw: String(amount), agent_id })
  }

  place(): Order {
    const coin = this.draw(2) === 0 ? 'xno' : 'xmr'
    const price = BigInt(100 + this.draw(100_000))
    const order: Order = { id: this.id('mkt'), coin, price, held: 0n, status: 'awaiting_payment', owed: [] }
    const [buyer_id, seller_id] = ['agt_buyer', 'agt_seller']
    const fees = { amount_raw: String(price), fee_raw: String((price * 20n) / 100n) }
    this.write('order', {
      order_id: order.id,
      step: 'ordered',
      status: order.status,
      buyer_id,
      seller_id,
      coin,
      ...fees,
    })
    this.orders.push(order)
    return order
  }

  pay(order: Order, amount: bigint): void {
    order.held += amount
    this.sums[order.coin].orders += amount
    this.write('payment', {
      payment_id: this.id('pay'),
      order_id: order.id,
      coin: order.coin,
      amount_raw: String(amount),
    })
  }

  step(order: Order, step: string, status: string): void {
    this.write('order', { order_id: order.id, step, status })
  }

  fee(order: Order, amount: bigint): void {
    order.held -= amount
    this.sums[order.coin].orders -= amount
    if (amount === 0n) return
    const [step, raw] = amount > 0n ? ['taken', amount] : ['returned', -amount]
    this.write('fee', { order_id: order.id, step, coin: order.coin, amount_raw: String(raw) })
  }

  payout(order: Order, payout: Order['owed'][number], step: string, more: Data = {}): void {
    const [coin, amount_raw] = [order.coin, String(payout.amount)]
    this.write('payout', { payout_id: payout.id, coin, amount_raw, step, order_id: order.id, ...more })
  }

  owe(order: Order, amount: bigint): void {
    if (amount === 0n) return
    const payout = { id: this.id('out'), amount, at: 'owed' as const }
    order.held -= amount
    order.owed.push(payout)
    this.sums[order.coin].orders -= amount
    this.sums[order.coin].owed += amount
    this.payout(order, payout, 'owed')
  }

  decide(order: Order, outcome: 'release' | 'refund' | 'split'): void {
    const percent = outcome === 'split' ? 1 + this.draw(99) : outcome === 'release' ? 100 : 0
    const fee = (((order.price * 20n) / 100n) * BigInt(percent)) / 100n
    const seller = ((order.price - (order.price * 20n) / 100n) * BigInt(percent)) / 100n
    const split = outcome === 'split' ? { split_percent: percent } : {}
    const status = outcome === 'refund' ? 'refunded' : 'released'
    this.write('dispute_outcome', {
      order_id: order.id,
      step: `dispute_${outcome}`,
      status,
      outcome,
      ...split,
      coin: order.coin,
      written_off_raw: '0',
    })
    this.fee(order, fee)
    this.owe(order, seller)
    this.owe(order, order.held)
    Object.assign(order, { status: 'done', decided: { fee } })
  }

  undo(order: Order): void {
    for (const payout of order.owed.splice(0)) {
      order.held += payout.amount
      this.sums[order.coin].orders += payout.amount
      this.sums[order.coin].owed -= payout.amount
      this.payout(order, payout, 'withdrawn')
    }
    this.write('dispute_outcome', {
      order_id: order.id,
      step: 'dispute_undone',
      status: 'disputed',
      outcome: 'undone',
      coin: order.coin,
      written_off_raw: '0',
    })
    this.fee(order, -(order.decided?.fee ?? 0n))
    order.status = 'disputed'
    delete order.decided
  }

  /** Takes one step of any kind. */
  act(): void {
    const order = this.orders[this.draw(this.orders.length + 1)] ?? this.place()
    const kind = this.draw(10)
    if (kind < 2) return this.passes()
    const payout = order.owed.find(({ at }) => at !== 'confirmed')
    if (order.status === 'awaiting_payment') {
      const excess = this.draw(3) === 0 ? BigInt(this.draw(50)) : 0n
      this.pay(order, order.price + excess)
      this.step(order, 'paid', 'paid')
      this.owe(order, excess)
      order.status = 'paid'
    } else if (order.status === 'paid' && kind < 4) {
      this.step(order, 'disputed', 'disputed')
      order.status = 'disputed'
    } else if (order.status === 'paid') {
      this.step(order, 'accepted', 'released')
      this.fee(order, (order.price * 20n) / 100n)
      this.owe(order, order.held)
      order.status = 'done'
    } else if (order.status === 'disputed')
      this.decide(order, (['release', 'refund', 'split'] as const)[this.draw(3)] ?? 'refund')
    else if (order.decided !== undefined && order.owed.every(({ at }) => at === 'owed') && kind < 5)
      this.undo(order)
    else if (payout !== undefined) this.send(order, payout)
  }

  send(order: Order, payout: Order['owed'][number]): void {
    delete order.decided
    if (payout.at === 'owed') {
      for (const step of ['held', 'owed', 'signed', 'sent'])
        this.payout(order, payout, step, step === 'owed' ? { again: true } : {})
      payout.at = 'sent'
      return
    }
    this.payout(order, payout, 'confirmed')
    payout.at = 'confirmed'
    this.sums[order.coin].owed -= payout.amount
    if (this.draw(5) === 0) {
      this.payout(order, payout, 'owed', { undoes: 'confirmed' })
      payout.at = 'owed'
      this.sums[order.coin].owed += payout.amount
    } else if (order.held === 0n && order.owed.every(({ at }) => at === 'confirmed'))
      this.step(order, 'paid_out', 'paid_out')
  }

  passes(): void {
    const coin = this.draw(2) === 0 ? 'xno' : 'xmr'
    const amount = BigInt(1 + this.draw(5_000))
    if (this.draw(4) === 0) return this.move(coin, 'outside', 'unassigned', amount)
    this.move(coin, 'outside', 'invoices', amount)
    this.move(coin, 'invoices', 'venue', amount / 2n + 1n > amount ? amount : amount / 2n + 1n)
    if (this.draw(2) === 0) this.move(coin, 'invoices', 'remainders', this.sums[coin].invoices)
  }

  owedIn(coin: Coin): bigint {
    return Object.values(this.sums[coin]).reduce((sum, part) => sum + part, 0n)
  }

  /** Payouts that have been sent and not confirmed. */
  underWay(coin: Coin): bigint {
    const sent = this.orders.flatMap((order) =>
      order.coin === coin ? order.owed.filter(({ at }) => at === 'sent') : [],
    )
    return sent.reduce((sum, { amount }) => sum + amount, 0n)
  }

  /** Makes what the venue holds of Nano: a treasury, and an account with something that is still to be received. */
  readAssets(): void {
    const holds = (coin: Coin) => this.owedIn(coin) - this.underWay(coin) + BigInt(this.draw(100))
    const [xno, xmr] = [holds('xno'), holds('xmr')]
    const incoming = xno / 3n
    const [treasury, invoice] = [accountOf(this.hex()), accountOf(this.hex())]
    const frontier = this.block(treasury.address, { balance: String(xno - incoming) })
    this.block(treasury.address, {
      balance: String(xno + 1_000n),
      successor: frontier,
      local_timestamp: String(this.at - 500),
    })
    const sent = this.block(accountOf(this.hex()).address, {
      subtype: 'send',
      balance: '1',
      amount: String(incoming),
      contents: { link_as_account: invoice.address },
    })
    const signature = `ReserveProofV2${this.hex()}`
    this.proofs.set(signature, { good: true, total: Number(xmr), spent: 0 })
    this.holders = [treasury, invoice]
    this.reserve = signature
    this.assets = {
      xno: [
        { account: treasury.address, frontier, balance: String(xno - incoming), receivable: [] },
        {
          account: invoice.address,
          frontier: null,
          balance: '0',
          receivable: [{ hash: sent, amount: String(incoming) }],
        },
      ],
      xmr: { height: 3_000_000, balance: String(xmr), proof_hash: hash('sha256', signature, 'hex') },
      at: { xno: this.at, xmr: this.at },
      unread: {},
    }
  }
  holders: ReturnType<typeof accountOf>[] = []
  reserve = ''

  block(account: string, more: Data): string {
    const id = this.hex().toUpperCase()
    const zero = '0'.repeat(64)
    this.blocks.set(id, {
      block_account: account,
      amount: '1',
      height: '2',
      local_timestamp: String(this.at - 300),
      successor: zero,
      receive_hash: zero,
      confirmed: 'true',
      subtype: 'receive',
      contents: {},
      ...more,
    })
    return id
  }
}

const none = () => ({ orders: 0n, owed: 0n, invoices: 0n, remainders: 0n, unassigned: 0n })

/** A Nano account by its secret. */
export function accountOf(secretHex: string) {
  const secret = Buffer.from(secretHex, 'hex')
  const address = encodeNanoAddress(bytesToHex(nano.getPublicKey(secret)).toUpperCase())
  return { address, sign: (text: string) => bytesToHex(nano.sign(Buffer.from(text), secret)) }
}

export const messageOf = (seq: number, sealHash: string, account: string): string =>
  `agent-network solvency\nseal ${seq} ${sealHash}\naccount ${account}\n`

const textsOf = (parts: Record<Part, bigint>) =>
  Object.fromEntries(Object.entries(parts).map(([part, sum]) => [part, String(sum)]))

/** @param at when the last seal is made, in Unix seconds */
export function makeVenue(name: string, seed: number, at: number, cheat: Cheat = {}): Venue {
  const model = new Model(seed, at - (SEALS - 1) * SEAL_EVERY - 100)
  const { entries, seals } = model
  for (let seq = 1; seq <= SEALS; seq++) {
    const from = entries.length
    for (let acts = 6 + model.draw(10); acts > 0; acts--) model.act()
    cheat.trade?.(model, seq)
    model.at = at - (SEALS - seq) * SEAL_EVERY
    model.readAssets()
    const previous = seals.at(-1) ?? null
    const owed = {
      xno: model.sums.xno.orders + model.sums.xno.owed,
      xmr: model.sums.xmr.orders + model.sums.xmr.owed,
    }
    const closing = closingOf(entries.length + 1, seq, model.at, owed, previous)
    const liabilities = { xno: textsOf(model.sums.xno), xmr: textsOf(model.sums.xmr) }
    const data: Data = {
      ...closing.data,
      ...statedBefore(entries.slice(0, from)),
      liabilities,
      assets: model.assets,
    }
    cheat.state?.(data, model, seq)
    entries.push({ ...closing, data } as LedgerEntry)
    seals.push(sign(sealOver(entries.slice(from), previous, model.at)))
  }
  const venue = {
    name,
    chain: { entries, seals },
    blocks: model.blocks,
    proofs: model.proofs,
    sums: model.sums,
    orders: model.orders,
    solvency: solvencyOf(model),
  }
  cheat.serve?.(venue, model)
  return venue
}

function solvencyOf({ seals, holders, reserve, entries, at }: Model): Venue['solvency'] {
  const last = seals.at(-1) as Seal
  const sealed = { seal_seq: last.seq, seal_hash: sealPayloadHash(last), at }
  const message = (account: string) => messageOf(last.seq, sealed.seal_hash, account)
  const { liabilities = null, assets = null } = entries.at(-1)?.data as Data
  const control = {
    xno: holders.map(({ address, sign: signWith }, place) => ({
      id: `ctl_${place}`,
      coin: 'xno',
      ...sealed,
      account: address,
      message: message(address),
      signature: signWith(message(address)),
    })),
    xmr: [
      {
        id: 'ctl_xmr',
        coin: 'xmr',
        ...sealed,
        address: '4Venue',
        message: message('4Venue'),
        signature: reserve,
        total_raw: '0',
      },
    ],
  }
  return {
    ok: true,
    at,
    seal: { seq: last.seq, at: last.at, entry_id: last.to_id, signed: true },
    liabilities,
    assets,
    control,
    how_to_check: [],
    honest_limits: [],
  }
}

/** Serves venues, each below its name, with a Nano node (/nano) and a Monero wallet (/xmr) of its own. */
export async function serveVenues(
  venues: readonly Venue[],
): Promise<{ url: string; close: () => Promise<void> }> {
  const byName = new Map(venues.map((venue) => [venue.name, venue]))
  const notes = new Map(venues.map(({ name, chain }) => [name, noteOf(chain)]))
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    const [, name = '', ...rest] = pathname.split('/')
    const venue = byName.get(name)
    const answer = (body: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (venue === undefined) return answer({ ok: false }, 404)
    const route = rest.join('/').replace(/^api\/v1\//, '')
    if (request.method === 'POST')
      return void readBody(request).then((body) =>
        answer(route === 'nano' ? nanoAnswer(venue, body) : moneroAnswer(venue, body)),
      )
    const { entries, seals } = venue.chain
    const number = (field: string, fallback: number) => Number(searchParams.get(field) ?? fallback)
    const limit = number('limit', 1_000)
    if (route === 'seal')
      return answer({
        ok: true,
        seals: seals.filter(({ seq }) => seq > number('after_seq', 0)).slice(0, limit),
        count: 0,
        unsigned_seqs: [],
        truncated: false,
        verified_to_seq: 0,
        ...{
          walked_at: null,
          origin: null,
          vkey: null,
          log_size: null,
          log_root: null,
          witness_policy: null,
        },
        ...{ what_this_is: '', honest_limit: '', verify: '' },
        chain_intact: true,
      })
    if (route === 'ledger') {
      const [kind, agent] = [searchParams.get('kind'), searchParams.get('agent')]
      const found = entries.filter(
        (entry) =>
          entry.id >= number('from_id', 1) &&
          (kind === null || entry.kind === kind) &&
          (agent === null || entry.data['agent_id'] === agent),
      )
      return answer({
        ok: true,
        entries: found.slice(0, limit),
        count: 0,
        ...(kind === null ? {} : { next_id: entries.length + 1, more: false }),
      })
    }
    if (route === 'ledger/consistency')
      return answer({ ok: true, ...consistencyOf(venue.chain, number('from', 0), number('to', 0)) })
    if (route === 'checkpoint')
      return response.writeHead(200, { 'content-type': 'text/plain' }).end(notes.get(name))
    if (route === 'solvency') return answer(venue.solvency)
    if (route === 'market/orders') {
      const ids = venue.orders.map((order) => order.id).sort()
      const later = ids.filter((one) => one < (searchParams.get('before') ?? '~')).toReversed()
      return answer({
        ok: true,
        orders: later.slice(0, Math.min(limit, MAX_ORDERS_SHOWN)).map((one) => orderAnswer(venue, one)),
        count: 0,
      })
    }
    const orderId = /^market\/order\/(.*)$/.exec(route)?.[1]
    if (orderId !== undefined) {
      const order = orderAnswer(venue, orderId)
      return answer({ ok: true, order_id: orderId, status: order.status, order })
    }
    const id = /^receipt\/(.*)$/.exec(route)?.[1]
    if (id === undefined)
      return answer({ ok: false, error: 'no_such_route', message: 'there is no such route' }, 404)
    // A payout's entries are its own, though they name its order.
    const isOf = ({ data }: LedgerEntry) =>
      data['seal'] === id || (data['payout_id'] ?? data['order_id']) === id
    return answer(
      receiptInLog(
        venue.chain,
        id,
        entries.filter(isOf).map((entry) => entry.id),
        notes.get(name),
      ),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Fewer than are asked for, so that a list has several pages. */
const MAX_ORDERS_SHOWN = 2

/** An order as GET /market/order/<id> shows it to its buyer. */
function orderAnswer({ orders }: Venue, id: string) {
  const { coin, price, status, owed } = orders.find((order) => order.id === id) as Order
  const nulls = (names: string) => Object.fromEntries(names.split(' ').map((name) => [name, null]))
  return {
    ...{ order_id: id, offer_id: 'ofr_1', buyer_id: 'agt_buyer', seller_id: 'agt_seller', role: 'buyer' },
    ...{ title: 't', status: status === 'done' ? 'paid_out' : status, currency: coin, price_usd: 1 },
    ...{ amount: '1', amount_raw: String(price), fee_raw: '0', at: 1, pay_by: 1, undelivered: false },
    ...nulls('next_transition payment_seen_at paid_at deliver_by delivered_at accept_by disputed_at'),
    ...nulls(
      'disputed_by closed_at paid_out_at delivery dispute_reason payout_address refund_address invoice',
    ),
    extensions: [],
    payouts: owed.map(({ id: payout_id, amount, at: state }) => ({
      ...{ payout_id, currency: coin, amount: '1', amount_raw: String(amount), state, tx_hash: null },
      ...{ frozen: false, waits_for_chain: false, to_self: false, address: null, at: 1, changed_at: 1 },
      salt: '0'.repeat(64),
    })),
    payouts_truncated: false,
    salts: nulls('payout_address refund_address delivery dispute'),
  }
}

async function readBody(request: IncomingMessage): Promise<Data> {
  let text = ''
  for await (const part of request) text += String(part)
  return JSON.parse(text) as Data
}

const nanoAnswer = ({ blocks }: Venue, { hashes = [] }: Data) => {
  const asked = hashes as string[]
  const known = asked.filter((one) => blocks.has(one))
  return {
    blocks: Object.fromEntries(known.map((one) => [one, blocks.get(one)])),
    blocks_not_found: asked.filter((one) => !blocks.has(one)),
  }
}

const moneroAnswer = ({ proofs }: Venue, { params }: Data) => ({
  jsonrpc: '2.0',
  id: '0',
  result: proofs.get((params as { signature: string }).signature) ?? { good: false },
})
