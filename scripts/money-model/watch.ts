/* What has to hold at every moment, looked at while everything is at work. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Block } from './chain.ts'
import { ofXno, refreshOrder, sum, type PayoutView } from './views.ts'
import { check, count, type World } from './world.ts'

const LOOK_EVERY_MS = 1_500
/** A payout names its transaction before it is sent; this long is waited for an answer that says so. */
const EXPLAINED_WITHIN_MS = 6_000
/** After these a node may say "fork" of a block that was signed but once. */
const MAKES_FORKS = ['gone', 'lost', 'rival', 'restore']

/** The venue's treasury, by its own word; the same each time. */
export async function readTreasury(world: World): Promise<string | undefined> {
  const { status, json } = await world.ask(undefined, 'solvency', 'GET', '/market/solvency')
  if (status !== 200) return undefined
  const accounts = json['nano_accounts'] as { address: string; kind: string }[]
  const address = accounts.find(({ kind }) => kind === 'treasury')?.address
  const owed = ofXno<{ currency: string; now_raw: string }>(json['owed'])?.now_raw
  check(world, BigInt(owed ?? 0) >= 0n, `the venue says that it owes ${owed} raw`)
  check(
    world,
    world.treasury === undefined || address === world.treasury,
    `the treasury was ${world.treasury} and is ${address}`,
  )
  return address
}

/** Confirmed sends that leave the treasury. */
export const sendsOf = ({ chain, treasury }: World): Block[] =>
  treasury === undefined
    ? []
    : chain.chainOf(treasury).filter(({ kind, isConfirmed }) => kind === 'send' && isConfirmed)

/** The payouts that name a block, out of the orders that its recipient is a payee of. */
async function payoutsOf(world: World, { hash, to }: Block): Promise<PayoutView[]> {
  const found = new Map<string, PayoutView>()
  for (const { id, seller, buyer, payoutAddress, refundAddress } of world.sales)
    for (const agent of [...(payoutAddress === to ? [seller] : []), ...(refundAddress === to ? [buyer] : [])])
      for (const payout of (await refreshOrder(world, agent, id))?.payouts ?? [])
        if (payout.tx_hash === hash) found.set(payout.payout_id, payout)
  return [...found.values()]
}

/** Every send out of the treasury is of payouts that name it, and pays them what they say. */
async function checkSends(
  world: World,
  sends: readonly Block[],
  firstSeen: Map<string, number>,
  explained: Set<string>,
): Promise<void> {
  for (const block of sends) {
    const { hash, to, amountRaw } = block
    if (explained.has(hash) || world.orphans.has(hash)) continue
    const payouts = await payoutsOf(world, block)
    const seenMs = firstSeen.get(hash) ?? world.history.nowMs()
    firstSeen.set(hash, seenMs)
    const isLate = world.history.nowMs() - seenMs > EXPLAINED_WITHIN_MS && !world.doubted.has(hash)
    if ((payouts.length === 0 && !isLate) || world.orphans.has(hash)) continue
    const sent = `the treasury sent ${amountRaw} raw to ${to} in ${hash}`
    check(world, payouts.length > 0, `${sent}, for no payout`)
    check(
      world,
      payouts.length === 0 || sum(payouts) === amountRaw,
      `${sent}, and its payouts are ${sum(payouts)}`,
    )
    for (const payout of payouts)
      check(
        world,
        payout.address === to,
        `${sent}, and its payout ${payout.payout_id} is to ${payout.address}`,
      )
    explained.add(hash)
  }
  // A block that is gone has to be explained anew when it is back.
  const there = new Set(sends.map(({ hash }) => hash))
  for (const hash of explained) if (!there.has(hash)) explained.delete(hash)
}

/** No order pays its two sides more than was received for it, by the chain alone. */
function checkBothSides(world: World, sends: readonly Block[]): void {
  const total = (blocks: readonly Block[]): Map<string, bigint> => {
    const totals = new Map<string, bigint>()
    for (const { to, amountRaw } of blocks) totals.set(to, (totals.get(to) ?? 0n) + amountRaw)
    return totals
  }
  const [arrived, paidIn] = [total(sends), total(world.chain.dump())]
  for (const { id, invoice, payoutAddress, refundAddress, sharesAddresses } of world.sales) {
    const [seller, buyer] = [arrived.get(payoutAddress) ?? 0n, arrived.get(refundAddress ?? '') ?? 0n]
    if (sharesAddresses || seller + buyer === 0n) continue
    const received = paidIn.get(invoice.address) ?? 0n
    const what = `order ${id} received ${received} raw and paid more: ${seller} to its seller, ${buyer} to its buyer`
    check(world, seller + buyer <= received, what)
  }
}

/** Looks again and again until it is told to end. */
export async function keepWatch(world: World, isOver: () => boolean): Promise<void> {
  const firstSeen = new Map<string, number>()
  const explained = new Set<string>()
  while (!isOver() && !world.ended.signal.aborted) {
    world.treasury ??= await readTreasury(world)
    const sends = sendsOf(world)
    checkBothSides(world, sends)
    await checkSends(world, sends, firstSeen, explained)
    const isHonest =
      !world.history.faults.some(({ kind }) => MAKES_FORKS.includes(kind)) && world.faults === 0
    check(
      world,
      !isHonest || world.chain.forks() === 0,
      `two blocks were signed for one place in an account's chain`,
    )
    count(world, 'looks')
    await sleep(LOOK_EVERY_MS)
  }
}
