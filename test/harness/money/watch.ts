/* Checks what has to hold at every moment, while everything is at work. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Block } from '../testbed/chain.ts'
import { sumRaw } from '../auditor/money.ts'
import { readOrder, xnoRow, type PayoutView } from './views.ts'
import { check, count, type Market } from './world.ts'

const LOOK_EVERY_MS = 1_500
/** How long an answer may take that names the payouts of a send; the records name it before it is sent. */
const EXPLAINED_WITHIN_MS = 6_000
/** After these faults a node may say "fork" of a block that was signed only once. */
const MAKES_FORKS = ['gone', 'lost', 'rival', 'restore']

/**
 * Reads the treasury's address as the venue states it; checks that it stays the same, and that the stated
 * debt is not below 0.
 *
 * @returns undefined if the service did not answer, or states none
 */
export async function readTreasury(world: Market): Promise<string | undefined> {
  const { status, json } = await world.ask(undefined, 'solvency', 'GET', '/market/solvency')
  if (status !== 200) return undefined
  const accounts = json['nano_accounts'] as { address: string; kind: string }[]
  const address = accounts.find(({ kind }) => kind === 'treasury')?.address
  const owed = xnoRow<{ currency: string; now_raw: string }>(json['owed'])?.now_raw
  check(world, BigInt(owed ?? 0) >= 0n, `the venue says that it owes ${owed} raw`)
  check(
    world,
    world.treasury === undefined || address === world.treasury,
    `the treasury was ${world.treasury} and is ${address}`,
  )
  return address
}

/** The treasury's confirmed sends, the oldest first. */
export const treasurySends = ({ chain, treasury }: Market): Block[] =>
  treasury === undefined
    ? []
    : chain.blocksOf(treasury).filter(({ kind, isConfirmed }) => kind === 'send' && isConfirmed)

/** Reads the payouts that name a send, from the orders that have its recipient's address. */
async function readPayoutsNaming(world: Market, { hash, to }: Block): Promise<PayoutView[]> {
  const payouts = new Map<string, PayoutView>()
  for (const { id, seller, buyer, payoutAddress, refundAddress } of world.sales) {
    const payees = []
    if (payoutAddress === to) payees.push(seller)
    if (refundAddress === to) payees.push(buyer)
    for (const agent of payees)
      for (const payout of (await readOrder(world, agent, id))?.payouts ?? [])
        if (payout.tx_hash === hash) payouts.set(payout.payout_id, payout)
  }
  return [...payouts.values()]
}

/**
 * Checks that every send out of the treasury is named by payouts to its recipient, and is their sum. A send
 * that no payout names yet is looked at again next time, up to EXPLAINED_WITHIN_MS.
 *
 * @param firstSeen when each send was first seen, in milliseconds of the history; added to
 * @param explained hashes of sends whose payouts were found; changed
 */
async function checkSends(
  world: Market,
  sends: readonly Block[],
  firstSeen: Map<string, number>,
  explained: Set<string>,
): Promise<void> {
  for (const block of sends) {
    const { hash, to, amountRaw } = block
    if (explained.has(hash) || world.orphanedSends.has(hash)) continue
    const payouts = await readPayoutsNaming(world, block)
    const seenMs = firstSeen.get(hash) ?? world.history.nowMs()
    firstSeen.set(hash, seenMs)
    const isLate = world.history.nowMs() - seenMs > EXPLAINED_WITHIN_MS && !world.doubtedSends.has(hash)
    if ((payouts.length === 0 && !isLate) || world.orphanedSends.has(hash)) continue
    const sent = `the treasury sent ${amountRaw} raw to ${to} in ${hash}`
    check(world, payouts.length > 0, `${sent}, for no payout`)
    check(
      world,
      payouts.length === 0 || sumRaw(payouts) === amountRaw,
      `${sent}, and its payouts are ${sumRaw(payouts)}`,
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

/** Checks by the chain alone that no order pays its two sides more than was received for it. */
function checkNotPaidTwice(world: Market, sends: readonly Block[]): void {
  const totalByAddress = (blocks: readonly Block[]): Map<string, bigint> => {
    const totals = new Map<string, bigint>()
    for (const { to, amountRaw } of blocks) totals.set(to, (totals.get(to) ?? 0n) + amountRaw)
    return totals
  }
  const [arrived, paidIn] = [totalByAddress(sends), totalByAddress(world.chain.allBlocks())]
  for (const { id, invoice, payoutAddress, refundAddress, sharesAddresses } of world.sales) {
    const [seller, buyer] = [arrived.get(payoutAddress) ?? 0n, arrived.get(refundAddress ?? '') ?? 0n]
    if (sharesAddresses || seller + buyer === 0n) continue
    const received = paidIn.get(invoice.address) ?? 0n
    const what = `order ${id} received ${received} raw and paid more: ${seller} to its seller, ${buyer} to its buyer`
    check(world, seller + buyer <= received, what)
  }
}

/**
 * Checks, again and again until `isOver` or the end of the run, that no send is wrong and no block was signed
 * twice.
 */
export async function watchInvariants(world: Market, isOver: () => boolean): Promise<void> {
  const firstSeen = new Map<string, number>()
  const explained = new Set<string>()
  while (!isOver() && !world.ended.signal.aborted) {
    world.treasury ??= await readTreasury(world)
    const sends = treasurySends(world)
    checkNotPaidTwice(world, sends)
    await checkSends(world, sends, firstSeen, explained)
    const isNodeHonest =
      !world.history.faults.some(({ kind }) => MAKES_FORKS.includes(kind)) &&
      world.history.faultsUnderWay === 0
    check(
      world,
      !isNodeHonest || world.coins.forks() === 0,
      `two blocks were signed for one place in an account's chain`,
    )
    count(world, 'looks')
    await sleep(LOOK_EVERY_MS)
  }
}
