/* The operator: decides disputes, reconciles what is halted, and now and then mistypes. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { runOperator } from '../operator/run.ts'
import { numbersFor } from '../torture/plan.ts'
import { ofXno, refreshOrder, sum } from './views.ts'
import { sendsOf } from './watch.ts'
import { check, count, type Sale, type World } from './world.ts'

interface Operated {
  code: number
  answer: Record<string, unknown>
}

/** One command of the operator, on record. */
export async function operate(world: World, ...words: string[]): Promise<Operated> {
  const { history, network } = world
  const call = {
    atMs: history.nowMs(),
    who: 'operator',
    did: words[0] ?? '',
    method: 'operator',
    path: words.join(' '),
  }
  let said = ''
  const stdout = { write: (text: string) => void (said += text) }
  const code = await runOperator({
    argv: [...words, '--json'],
    env: network.env(),
    stdout,
    stderr: { write: () => undefined },
  })
  const answer = JSON.parse(said || '{}') as Record<string, unknown>
  const outcome = code === 0 ? { status: 200 } : { status: 400, error: String(answer['error']) }
  history.record({ ...call, tookMs: history.nowMs() - call.atMs, answer, ...outcome })
  return { code, answer }
}

/** A send that a reconciliation found, as its answer lists it. */
interface FoundSend {
  tx: string
  to: string[]
  amount_raw: string
}

interface ListedPayout {
  payout_id: string
  order_id: string | null
  amount_raw: string
  state: string
  address: string | null
}

async function listPayouts(world: World): Promise<ListedPayout[]> {
  const { code, answer } = await operate(world, 'payouts')
  const payees = code === 0 ? (answer['payees'] as { address: string | null; payouts: ListedPayout[] }[]) : []
  return payees.flatMap(({ address, payouts }) => payouts.map((payout) => ({ ...payout, address })))
}

export type Operator = ReturnType<typeof hireOperator>

export function hireOperator(world: World) {
  const found = new Map<string, FoundSend>()
  /** Addresses with a rest to be paid: what was paid there before the restore was a part. */
  const withRest = new Set<string>()
  /** A reconciliation was asked for: what waits after it has to be asked for. */
  let isUntold = false

  /** Decides what waits for a decision: for whoever has money already, else by the seed. */
  async function decide(): Promise<void> {
    const { code, answer } = await operate(world, 'disputes')
    if (code !== 0) return
    const arrived = Map.groupBy(sendsOf(world), ({ to }) => to)
    for (const { order_id: id } of answer['orders'] as { order_id: string }[]) {
      const sale = world.sales.find((one) => one.id === id)
      const has = (address: string | undefined): boolean =>
        address !== undefined && sale?.sharesAddresses !== true && (arrived.get(address)?.length ?? 0) > 0
      const byChance =
        numbersFor(world.mode.seed, `dispute/${sale === undefined ? id : world.sales.indexOf(sale)}`).below(
          2,
        ) === 0
      const wish = has(sale?.payoutAddress) || (byChance && !has(sale?.refundAddress)) ? 'release' : 'refund'
      if ((await operate(world, 'dispute', id, wish)).code === 0) count(world, `disputes decided: ${wish}`)
      else await operate(world, 'dispute', id, wish === 'release' ? 'refund' : 'release')
    }
  }

  async function isReady(): Promise<boolean> {
    const { status, json } = await world.ask(undefined, 'currencies', 'GET', '/currencies')
    return status === 200 && ofXno<{ currency: string; status: string }>(json['accepted'])?.status === 'ready'
  }

  /** Reconciles if the coin is halted. @returns whether it had to */
  async function tend(): Promise<boolean> {
    if (await isReady()) return false
    const { code, answer } = await operate(world, 'reconcile', 'xno')
    // A restore may also have taken away what was said of sends that are known.
    isUntold = true
    if (code !== 0) return true
    count(world, 'reconciliations')
    for (const send of (answer['sends'] ?? []) as FoundSend[]) found.set(send.tx, send)
    return true
  }

  /**
   * After a restore: says of each send that was found which payout it paid. `isEnd`: no more payouts will
   * come.
   */
  async function settleFound(isEnd: boolean): Promise<void> {
    // After anything else nobody has to say anything.
    if (world.orphans.size === 0) return
    if (isUntold && (await isReady())) {
      const { code, answer } = await operate(world, 'reconcile', 'xno', '--dry-run')
      isUntold = code !== 0
      for (const send of (answer['sends'] ?? []) as FoundSend[]) found.set(send.tx, send)
    }
    if (found.size === 0 && !isEnd) return
    const held = new Map(
      (await listPayouts(world))
        .filter(({ state }) => state === 'held')
        .map((payout) => [payout.payout_id, payout]),
    )
    for (const { tx, to, amount_raw: raw } of [...found.values()]) {
      const own = [...held.values()].filter(({ address }) => to.includes(address ?? ''))
      const one = own.find((payout) => payout.amount_raw === raw)
      const paid = one !== undefined ? [one] : sum(own) === BigInt(raw) ? own : []
      const isOf = ({ payoutAddress, refundAddress }: Sale): boolean =>
        to.includes(payoutAddress) || to.includes(refundAddress ?? '')
      const sales = world.sales.filter(isOf)
      const whole = own.find((payout) => BigInt(payout.amount_raw) > BigInt(raw))
      let isRefused = false
      if (paid.length === 0 && whole !== undefined && !sales.some(({ sharesAddresses }) => sharesAddresses)) {
        if ((await operate(world, 'payout-paid', whole.payout_id, tx, '--part')).code === 0) {
          paid.push(whole)
          held.delete(whole.payout_id)
          withRest.add(whole.address ?? '')
          count(world, 'paid in part before a restore')
        } else isRefused = true
      } else
        for (const { payout_id: id } of paid) {
          if ((await operate(world, 'payout-paid', id, tx)).code === 0) held.delete(id)
          else isRefused = true
        }
      // One of a disputed order is frozen until that is decided.
      if (isRefused) continue
      const isForgotten = sales.every((sale) => sale.isForgotten)
      const isDone = paid.length > 0 || isForgotten || isEnd
      if (isDone && (await operate(world, 'reconcile', 'xno', '--explained', tx)).code === 0) found.delete(tx)
    }
    for (const { payout_id: id, address } of held.values())
      if (withRest.has(address ?? '') && ![...found.values()].some(({ to }) => to.includes(address ?? '')))
        await operate(world, 'reconcile', 'xno', '--owed', id)
    if (isEnd && found.size === 0)
      for (const id of held.keys()) await operate(world, 'reconcile', 'xno', '--owed', id)
  }

  return { decide, isReady, tend, settleFound }
}

/** What the operator does from one second to the next, while agents are at work. */
export async function keepHouse(world: World, operator: Operator, isOver: () => boolean): Promise<void> {
  let wasAway = false
  while (!isOver() && !world.ended.signal.aborted) {
    await sleep(3_000)
    if (world.faults > 0) continue
    if (world.isDisputed) {
      world.isDisputed = false
      await operator.decide()
    }
    const isAway = !(await operator.isReady())
    // A coin that is away for a moment after a fault is not halted.
    if (isAway && wasAway) await operator.tend()
    wasAway = isAway
    await operator.settleFound(false)
  }
}

const wrongTx = (): string => randomBytes(32).toString('hex')

/**
 * A payment recorded by hand with too much money, and one by a transaction that does not exist; then the way
 * back.
 */
export async function mistypeSettle(world: World): Promise<string | undefined> {
  const invoice = world.invoices.findLast(({ isForgotten, days }) => !isForgotten && days === undefined)
  if (invoice === undefined) return undefined
  const amount = Number(invoice.amountRaw / 10n ** 24n) / 1e6
  world.mistaken = invoice.id
  for (const [what, coins] of [
    ['more than is to be paid', amount + 50],
    ['a transaction that does not exist', amount],
  ] as const) {
    const { code, answer } = await operate(world, 'settle-invoice', invoice.id, String(coins), wrongTx())
    check(world, code !== 0 || coins === amount, `settle-invoice of ${invoice.id} takes ${what}`)
    if (code === 0) await undo(world, 'settle-invoice', String(answer['payment_id']))
  }
  world.mistaken = undefined
  return invoice.id
}

/**
 * A payout recorded as paid by somebody's payment, or by a transaction that does not exist; then the way
 * back.
 */
export async function mistypePaid(world: World): Promise<string | undefined> {
  const { payout_id: id, order_id: orderId } =
    (await listPayouts(world)).find(({ address }) => address === null) ?? {}
  const payment = world.chain
    .dump()
    .findLast(({ kind, account }) => kind === 'send' && account === world.chain.payer)
  if (id === undefined || payment === undefined) return undefined
  for (const tx of [payment.hash, wrongTx()]) {
    const named = world.chain.addressOf(`named by the operator for ${id}`)
    const taken = (await operate(world, 'payout-paid', id, tx, '--address', named)).code === 0
    check(world, !taken || tx !== payment.hash, `payout-paid takes the payment ${tx} as what paid ${id}`)
    if (!taken) continue
    const sale = world.sales.find((one) => one.id === orderId)
    await undo(world, 'payout-paid', id)
    // The buyer's address that was named with it goes with it, unless something was sent there meanwhile.
    const order = sale && (await refreshOrder(world, sale.buyer, sale.id))
    if (sale !== undefined) sale.refundAddress = order?.refund_address ?? undefined
    return id
  }
  return id
}

async function undo(world: World, verb: string, id: string): Promise<void> {
  const { code, answer } = await operate(world, verb, '--undo', id)
  check(world, code === 0, `there is no way back from ${verb} for ${id}: ${String(answer['message'])}`)
}
