/* The operator: decides disputes, reconciles what is halted, and now and then mistypes. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sumRaw } from '../auditor/money.ts'
import type { Injected } from '../faults/fault.ts'
import { operate, type Operated } from '../world/operate.ts'
import { numbersFor } from '../world/numbers.ts'
import { readOrder, xnoRow } from './views.ts'
import { treasurySends } from './watch.ts'
import { check, count, type Sale, type Market } from './world.ts'

/** Runs the operator's command on the world's testbed, and records it. */
export const runOperator = (world: Market, ...words: string[]): Promise<Operated> =>
  operate(world.history, world.testbed.env, words)

/** Whether the operator's command succeeded. */
const succeeds = async (world: Market, ...words: string[]): Promise<boolean> =>
  (await runOperator(world, ...words)).exitCode === 0

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

/** Lists all payouts that are not done; none if the command fails. */
async function listPayouts(world: Market): Promise<ListedPayout[]> {
  const { exitCode, json } = await runOperator(world, 'payouts')
  const payees =
    exitCode === 0 ? (json['payees'] as { address: string | null; payouts: ListedPayout[] }[]) : []
  return payees.flatMap(({ address, payouts }) => payouts.map((payout) => ({ ...payout, address })))
}

export type Operator = ReturnType<typeof createOperator>

/**
 * Makes the operator, who decides disputes, reconciles a halted coin, and explains sends that a restore
 * orphaned.
 */
export function createOperator(world: Market) {
  /** Sends that reconciliations found and that are not explained yet, by transaction. */
  const found = new Map<string, FoundSend>()
  /** Addresses of payouts of which only a part was sent before the restore. */
  const withRest = new Set<string>()
  /** Whether a reconciliation was asked for whose results have not been read completely. */
  let isOutdated = false

  /** Adds the sends in a reconciliation's answer to `found`. */
  function noteFoundSends(json: Record<string, unknown>): void {
    for (const send of (json['sends'] ?? []) as FoundSend[]) found.set(send.tx, send)
  }

  /** Decides all disputed orders: for the side whose address has been paid already, else by the seed. */
  async function decideDisputes(): Promise<void> {
    const { exitCode, json } = await runOperator(world, 'disputes')
    if (exitCode !== 0) return
    const arrived = Map.groupBy(treasurySends(world), ({ to }) => to)
    for (const { order_id: id } of json['orders'] as { order_id: string }[]) {
      const index = world.sales.findIndex((known) => known.id === id)
      const sale = world.sales[index]
      const hasReceived = (address: string | undefined): boolean =>
        address !== undefined && sale?.sharesAddresses !== true && (arrived.get(address)?.length ?? 0) > 0
      const numbers = numbersFor(world.mode.seed, `dispute/${sale === undefined ? id : index}`)
      const isForSeller =
        hasReceived(sale?.payoutAddress) || (numbers.below(2) === 0 && !hasReceived(sale?.refundAddress))
      const [verb, otherVerb] = isForSeller ? ['release', 'refund'] : ['refund', 'release']
      if (await succeeds(world, 'dispute', id, verb)) count(world, `disputes decided: ${verb}`)
      else await runOperator(world, 'dispute', id, otherVerb)
    }
  }

  /** Whether the service takes payments in the coin now; false if it did not answer. */
  async function isReady(): Promise<boolean> {
    const { status, json } = await world.ask(undefined, 'currencies', 'GET', '/currencies')
    return (
      status === 200 && xnoRow<{ currency: string; status: string }>(json['accepted'])?.status === 'ready'
    )
  }

  /** Reconciles the coin unless it is ready, and notes the sends that are found. */
  async function reconcileIfHalted(): Promise<void> {
    if (await isReady()) return
    const { exitCode, json } = await runOperator(world, 'reconcile', 'xno')
    // A restore may also have taken away how known sends were explained.
    isOutdated = true
    if (exitCode !== 0) return
    count(world, 'reconciliations')
    noteFoundSends(json)
  }

  /** Notes the sends that a reconciliation would find now, by a dry run, if the last answers are outdated. */
  async function refreshFoundSends(): Promise<void> {
    if (!isOutdated || !(await isReady())) return
    const { exitCode, json } = await runOperator(world, 'reconcile', 'xno', '--dry-run')
    isOutdated = exitCode !== 0
    noteFoundSends(json)
  }

  /**
   * Records, by commands, which payouts a found send paid: those whose sum is its amount, or a part of one
   * that is larger. Whatever is recorded is taken out of `held`.
   *
   * @param held payouts that are held, by id
   * @returns how many were recorded; undefined if a command was refused, as it is while a disputed order
   *   freezes one
   */
  async function recordPaidBy(
    { tx, to, amount_raw: raw }: FoundSend,
    held: Map<string, ListedPayout>,
    sales: readonly Sale[],
  ): Promise<number | undefined> {
    const candidates = [...held.values()].filter(({ address }) => to.includes(address ?? ''))
    const exact = candidates.find((payout) => payout.amount_raw === raw)
    let paid: ListedPayout[] = []
    if (exact !== undefined) paid = [exact]
    else if (sumRaw(candidates) === BigInt(raw)) paid = candidates
    const larger = candidates.find((payout) => BigInt(payout.amount_raw) > BigInt(raw))
    if (paid.length === 0 && larger !== undefined && !sales.some(({ sharesAddresses }) => sharesAddresses)) {
      if (!(await succeeds(world, 'payout-paid', larger.payout_id, tx, '--part'))) return undefined
      held.delete(larger.payout_id)
      withRest.add(larger.address ?? '')
      count(world, 'paid in part before a restore')
      return 1
    }
    let isRefused = false
    for (const { payout_id: id } of paid)
      if (await succeeds(world, 'payout-paid', id, tx)) held.delete(id)
      else isRefused = true
    return isRefused ? undefined : paid.length
  }

  /**
   * After a restore, records which payouts each found send paid, and releases the payouts that are still
   * held.
   *
   * @param isEnd no more payouts will come, so a send that paid none of them is explained too
   */
  async function explainFoundSends(isEnd: boolean): Promise<void> {
    // Only a restore leaves sends that have to be explained.
    if (world.orphanedSends.size === 0) return
    await refreshFoundSends()
    if (found.size === 0 && !isEnd) return
    const held = new Map<string, ListedPayout>()
    for (const payout of await listPayouts(world))
      if (payout.state === 'held') held.set(payout.payout_id, payout)
    let isRefused = false
    for (const send of [...found.values()]) {
      const sales = world.sales.filter(
        ({ payoutAddress, refundAddress }) =>
          send.to.includes(payoutAddress) || send.to.includes(refundAddress ?? ''),
      )
      const paidCount = await recordPaidBy(send, held, sales)
      if (paidCount === undefined) {
        isRefused = true
        continue
      }
      const isExplained = paidCount > 0 || sales.every((sale) => sale.isForgotten)
      if (isExplained && (await succeeds(world, 'reconcile', 'xno', '--explained', send.tx)))
        found.delete(send.tx)
    }
    for (const { payout_id: id, address } of held.values())
      if (withRest.has(address ?? '') && ![...found.values()].some(({ to }) => to.includes(address ?? '')))
        await oweOrRecord(id)
    if (!isEnd || isRefused) return
    // What is held still was paid by none of the sends, and that has to be said before they are accounted for.
    for (const id of held.keys()) await oweOrRecord(id)
    for (const { tx } of [...found.values()])
      if (await succeeds(world, 'reconcile', 'xno', '--explained', tx)) found.delete(tx)
  }

  /** Says that nothing paid a held payout; or, if the service names a transaction that did, records that. */
  async function oweOrRecord(payoutId: string): Promise<void> {
    const { exitCode, json } = await runOperator(world, 'reconcile', 'xno', '--owed', payoutId)
    if (exitCode === 0) return
    const paidBy = /"payout-paid \S+ ([0-9a-f]{64})"/.exec(String(json['message']))?.[1]
    if (paidBy !== undefined && (await succeeds(world, 'payout-paid', payoutId, paidBy)))
      count(world, 'paid before a restore, as the service said')
  }

  return { decideDisputes, isReady, reconcileIfHalted, explainFoundSends }
}

/**
 * Lets the operator act on disputes and a halted coin every three seconds, except during a fault, until
 * `isOver`.
 */
export async function superviseNetwork(
  world: Market,
  operator: Operator,
  isOver: () => boolean,
): Promise<void> {
  let wasAway = false
  while (!isOver() && !world.ended.signal.aborted) {
    await sleep(3_000)
    if (world.history.faultsUnderWay > 0) continue
    if (world.isDisputed) {
      world.isDisputed = false
      await operator.decideDisputes()
    }
    const isAway = !(await operator.isReady())
    // A coin that is away for a moment after a fault is not halted.
    if (isAway && wasAway) await operator.reconcileIfHalted()
    wasAway = isAway
    await operator.explainFoundSends(false)
  }
}

/** The hash of no transaction. */
const wrongTx = (): string => randomBytes(32).toString('hex')

/**
 * Records a payment of an order's invoice by hand with too much money, and one by a transaction that does not
 * exist, and takes back what was accepted.
 *
 * @returns undefined if no order has an invoice that the service still knows
 */
export async function mistypeSettle(world: Market): Promise<Injected | undefined> {
  const invoice = world.invoices.findLast(({ isForgotten, days }) => !isForgotten && days === undefined)
  if (invoice === undefined) return undefined
  const amount = Number(invoice.amountRaw / 10n ** 24n) / 1e6
  world.mistakenInvoiceId = invoice.id
  for (const [what, coins] of [
    ['more than is to be paid', amount + 50],
    ['a transaction that does not exist', amount],
  ] as const) {
    const { exitCode, json } = await runOperator(
      world,
      'settle-invoice',
      invoice.id,
      String(coins),
      wrongTx(),
    )
    check(world, exitCode !== 0 || coins === amount, `settle-invoice of ${invoice.id} takes ${what}`)
    if (exitCode === 0) await undo(world, 'settle-invoice', String(json['payment_id']))
  }
  world.mistakenInvoiceId = undefined
  return { target: invoice.id }
}

/**
 * Records a payout without an address as paid by somebody's payment, and then by a transaction that does not
 * exist, and takes it back.
 *
 * @returns undefined if every payout has an address, or nobody has paid yet
 */
export async function mistypePaid(world: Market): Promise<Injected | undefined> {
  const { payout_id: id, order_id: orderId } =
    (await listPayouts(world)).find(({ address }) => address === null) ?? {}
  const payment = world.chain
    .allBlocks()
    .findLast(({ kind, account }) => kind === 'send' && account === world.chain.payer)
  if (id === undefined || payment === undefined) return undefined
  for (const tx of [payment.hash, wrongTx()]) {
    const named = world.coins.addressOf(`named by the operator for ${id}`)
    const isAccepted = await succeeds(world, 'payout-paid', id, tx, '--address', named)
    check(world, !isAccepted || tx !== payment.hash, `payout-paid takes the payment ${tx} as what paid ${id}`)
    if (!isAccepted) continue
    const sale = world.sales.find((known) => known.id === orderId)
    await undo(world, 'payout-paid', id, '--unseen')
    // The buyer's address that was named with it goes with it, unless something was sent there meanwhile.
    const order = sale && (await readOrder(world, sale.buyer, sale.id))
    if (sale !== undefined) sale.refundAddress = order?.refund_address ?? undefined
    return { target: id }
  }
  return { target: id }
}

/** Takes back what a verb recorded, and checks that this is accepted. */
async function undo(world: Market, verb: string, id: string, ...flags: string[]): Promise<void> {
  const { exitCode, json } = await runOperator(world, verb, '--undo', id, ...flags)
  check(world, exitCode === 0, `there is no way back from ${verb} for ${id}: ${String(json['message'])}`)
}
