/* What has to hold at every moment, looked at while everything is at work. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Block } from './chain.ts'
import { sum, type PayoutView } from './views.ts'
import { check, count, readOrder, type Sale, type World } from './world.ts'

const LOOK_EVERY_MS = 1_500
/** A payout names its transaction before it is sent; this long is waited for an answer that says so. */
const EXPLAINED_WITHIN_MS = 6_000

export interface Watch {
  /** Looks once more at what has come since. */
  look(): Promise<void>
}

/** The venue's treasury, by its own word; the same each time. */
export async function readTreasury(world: World): Promise<string | undefined> {
  const [agent] = world.agents
  if (agent === undefined) return undefined
  const { status, json } = await world.ask(agent, 'solvency', 'GET', '/market/solvency')
  if (status !== 200) return undefined
  const accounts = json['nano_accounts'] as { address: string; kind: string }[]
  const address = accounts.find(({ kind }) => kind === 'treasury')?.address
  const owed = (json['owed'] as { currency: string; now_raw: string }[]).find(({ currency }) => currency === 'xno')
  check(world, BigInt(owed?.now_raw ?? 0) >= 0n, `the venue says that it owes ${owed?.now_raw} raw`)
  check(world, world.treasury === undefined || address === world.treasury, `the treasury was ${world.treasury} and is ${address}`)
  return address
}

/** Sends that leave the treasury, but for those to itself. */
export function sendsOf(world: World): Block[] {
  if (world.treasury === undefined) return []
  return world.chain.chainOf(world.treasury).filter(({ kind, isConfirmed }) => kind === 'send' && isConfirmed)
}

/** The payouts that name a block, out of the orders that its recipient is the payee of. */
export async function payoutsOf(world: World, block: Block): Promise<{ payouts: PayoutView[]; sales: Sale[] }> {
  const sales = world.sales.filter(({ payoutAddress, refundAddress }) => payoutAddress === block.to || refundAddress === block.to)
  const found = new Map<string, PayoutView>()
  for (const sale of sales)
    for (const agent of new Set([
      ...(sale.payoutAddress === block.to ? [sale.seller] : []),
      ...(sale.refundAddress === block.to ? [sale.buyer] : []),
    ])) {
      const order = await readOrder(world, agent, sale.id)
      for (const payout of order?.payouts ?? []) if (payout.tx_hash === block.hash) found.set(payout.payout_id, payout)
    }
  return { payouts: [...found.values()], sales }
}

export function startWatch(world: World): Watch {
  const explained = new Set<string>()
  const firstSeen = new Map<string, number>()

  async function lookAtSends(): Promise<void> {
    const sends = sendsOf(world)
    checkBothSides(world, sends)
    for (const block of sends) {
      if (explained.has(block.hash) || world.orphans.has(block.hash)) continue
      const { payouts, sales } = await payoutsOf(world, block)
      const seenMs = firstSeen.get(block.hash) ?? world.history.nowMs()
      firstSeen.set(block.hash, seenMs)
      const isWaitedFor = world.history.nowMs() - seenMs < EXPLAINED_WITHIN_MS
      // Which payouts a send to a shared address is of is told by all of them together.
      if (payouts.length === 0 && isWaitedFor) continue
      if (payouts.length === 0 && world.doubted.has(block.hash)) continue
      const [amount, words] = [sum(payouts), [block.hash, block.to, ...sales.map(({ id }) => id).slice(0, 2)]]
      if (world.orphans.has(block.hash)) continue
      check(world, payouts.length > 0, `the treasury sent ${block.amountRaw} raw to ${block.to} in ${block.hash}, for no payout`, ...words)
      check(
        world,
        payouts.length === 0 || amount === block.amountRaw,
        `the treasury sent ${block.amountRaw} raw in ${block.hash}, and its payouts are ${amount}`,
        ...words,
      )
      check(
        world,
        payouts.every(({ address }) => address === block.to),
        `the treasury sent to ${block.to} in ${block.hash}, and its payouts name another address`,
        ...words,
      )
      explained.add(block.hash)
    }
    // A block that is not there any more has to be explained anew when it is back.
    const there = new Set(sends.map(({ hash }) => hash))
    for (const hash of explained) if (!there.has(hash)) explained.delete(hash)
  }

  async function look(): Promise<void> {
    world.treasury ??= await readTreasury(world)
    await lookAtSends()
    const isHonest = !world.history.faults.some(({ kind }) => ['gone', 'lost', 'rival', 'restore'].includes(kind))
    check(world, !isHonest || world.chain.forks() === 0, `two blocks were signed for one place in an account's chain`)
  }
  return { look }
}

/** No order pays its two sides more than was received for it, by the chain alone. */
function checkBothSides(world: World, sends: readonly Block[]): void {
  const arrived = new Map<string, bigint>()
  for (const { to, amountRaw } of sends) arrived.set(to, (arrived.get(to) ?? 0n) + amountRaw)
  const paidIn = new Map<string, bigint>()
  for (const { kind, to, amountRaw } of world.chain.dump()) if (kind === 'send') paidIn.set(to, (paidIn.get(to) ?? 0n) + amountRaw)
  for (const sale of world.sales) {
    if (sale.sharesAddresses) continue
    const seller = arrived.get(sale.payoutAddress) ?? 0n
    const buyer = arrived.get(sale.refundAddress ?? '') ?? 0n
    if (seller + buyer === 0n) continue
    const received = paidIn.get(sale.invoice.address) ?? 0n
    const what = `order ${sale.id} received ${received} raw and paid more: ${seller} to its seller, ${buyer} to its buyer`
    check(world, seller + buyer <= received, what, sale.id, sale.invoice.id)
  }
}

/** Looks again and again until it is told to end. */
export async function keepWatch(world: World, watch: Watch, isOver: () => boolean): Promise<void> {
  while (!isOver() && !world.ended.signal.aborted) {
    await watch.look()
    count(world, 'looks')
    await sleep(LOOK_EVERY_MS)
  }
}
