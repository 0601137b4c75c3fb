import type { World } from '../world/agent.ts'
import type { StoredMoney, StoredPayment } from './money.ts'
import { sumRaw, takenBackIn } from './money.ts'
import { collectFindings, type Finding } from './records.ts'
import type { MadePayment, Monero, Survey } from '../testbed/monero.ts'

/** A lock that ends within so many blocks is waited for. */
const WAITED_BLOCKS = 100
/** The service's times are whole seconds, and its clock is another process's. */
const CLOCK_MARGIN_SECONDS = 2
/** With these, times that the service wrote tell nothing. */
const CLOCK_FAULTS = ['jump-clock', 'mongo-clock']

/** A payment that was made, its place in the chain, and the service's records of it. */
interface Traced {
  payment: MadePayment
  /** The number of its block, or `pool`; undefined: the chain has it no more. */
  place: number | 'pool' | undefined
  /** Whether its lock has yet to end, counted from the survey's height. */
  lockedBlocks: number
  stored: readonly StoredPayment[]
}

/** Lists the work in Monero that is still to be done, a sentence each. */
export async function listMoneroLeft({ monero }: World, money: StoredMoney): Promise<string[]> {
  if (monero === undefined) return []
  const { traced } = await trace(monero, money)
  const waiting = Array.from({ length: monero.waiting() }, () => 'a payment in Monero is not made yet')
  return [...waiting, ...traced.flatMap((one) => whatIsLeft(one) ?? [])]
}

/** What is still to be done with a payment, and in the end a finding; undefined if nothing. */
function whatIsLeft({ payment: { tx, address }, place, lockedBlocks, stored }: Traced): string | undefined {
  const what = `payment ${tx} in Monero to ${address}`
  if (place === 'pool') return `${what} is in no block`
  const [record] = stored
  if (place === undefined) {
    const isGone = record === undefined || record.state === 'gone' || record.reversed_at !== undefined
    return isGone || lockedBlocks > 0 ? undefined : `${what} is not in the chain, and is ${record.state}`
  }
  if (lockedBlocks > WAITED_BLOCKS) return undefined
  if (record === undefined) return `${what} is not stored`
  if (record.state !== 'settled') return `${what} is ${record.state}`
  return record.reversed_at === undefined ? undefined : `${what} is taken back, and the chain has it`
}

/** Traces each payment that was made, and asks the chain about the service's own transactions too. */
async function trace(monero: Monero, money: StoredMoney): Promise<{ traced: Traced[]; survey: Survey }> {
  const payments = money.payments.filter(({ coin }) => coin === 'xmr')
  const indexOf = new Map(money.invoices.map(({ address, address_index: index }) => [address, index]))
  const byKey = Map.groupBy(payments, ({ tx, address_index: index }) => `${tx}/${index}`)
  const survey = await monero.survey([
    ...[...monero.made, ...payments].map(({ tx }) => tx),
    ...money.transfers.filter(({ coin }) => coin === 'xmr').map(({ tx }) => tx),
  ])
  const traced = monero.made.map((payment) => ({
    payment,
    place: survey.places.get(payment.tx),
    lockedBlocks: payment.unlockHeight - survey.height,
    stored: byKey.get(`${payment.tx}/${indexOf.get(payment.address)}`) ?? [],
  }))
  return { traced, survey }
}

/**
 * Compares the chain with the records: each payment in a block is counted once, with its amount, and none
 * whose lock has not ended; one that a reorganisation removed is `gone`, or reversed if it was settled; nothing
 * else is counted; each agent's wallet has its payouts once, and the chain each confirmed transfer.
 */
export async function checkMonero(world: World, money: StoredMoney): Promise<Finding[]> {
  const { monero, history } = world
  if (monero === undefined) return []
  const { findings, addFinding } = collectFindings()
  const { traced, survey } = await trace(monero, money)
  const invoices = new Map(money.invoices.map((invoice) => [invoice.address, invoice]))
  const isClockRight = !history.faults.some(({ kind }) => CLOCK_FAULTS.includes(kind))
  const startedAtSeconds = (Date.now() - history.nowMs()) / 1_000
  for (const one of traced) {
    const { tx, amountPico, invoiceId, address, unlockHeight } = one.payment
    const words = [tx, invoiceId]
    const invoice = invoices.get(address)
    if (invoice?._id !== invoiceId) addFinding(`invoice ${invoiceId} was given out and is lost`, ...words)
    const left = whatIsLeft(one)
    if (left !== undefined) addFinding(left, ...words)
    if (one.stored.length > 1) addFinding(`payment ${tx} is stored ${one.stored.length} times`, ...words)
    for (const { amount_raw: raw, state, settled_at: settledAt = 0 } of one.stored) {
      if (raw !== String(amountPico))
        addFinding(`payment ${tx} of ${amountPico} is stored with ${raw}`, ...words)
      if (state !== 'settled' || unlockHeight === 0) continue
      const unlockedAtMs = monero.reachedAtMs(unlockHeight) ?? Infinity
      const isEarly = settledAt + CLOCK_MARGIN_SECONDS < startedAtSeconds + unlockedAtMs / 1_000
      if (one.lockedBlocks > 0 || (isEarly && isClockRight))
        addFinding(`payment ${tx} is locked up to block ${unlockHeight}, and was counted before`, ...words)
    }
  }
  const known = new Set(monero.made.map(({ tx }) => tx))
  for (const { _id: id, coin, tx, state } of money.payments)
    if (coin === 'xmr' && state === 'settled' && !known.has(tx))
      addFinding(`payment ${id} is counted, and nobody made its transaction ${tx}`, id, tx)
  for (const { _id: id, coin, tx, state } of money.transfers)
    if (coin === 'xmr' && state === 'confirmed' && typeof survey.places.get(tx) !== 'number')
      addFinding(`transfer ${id} is confirmed, and the chain does not have ${tx}`, id, tx)
  if (!history.faults.some(({ kind }) => kind === 'monero-reorganise'))
    for (const id of takenBackIn(money))
      addFinding(`order ${id} is disputed by the chain, and no block was replaced`, id)
  for (const { name } of world.agents) findings.push(...(await checkArrived(monero, name, money)))
  return findings
}

/** Checks that an agent's wallet has the sum of the payouts to it that were sent. */
async function checkArrived(monero: Monero, name: string, { payouts }: StoredMoney): Promise<Finding[]> {
  const arrivedPico = await monero.arrivedAt(name)
  const address = monero.knownAddress(name)
  const sent = payouts.filter(
    (payout) => payout.address === address && ['sent', 'confirmed'].includes(payout.state),
  )
  if (arrivedPico === sumRaw(sent)) return []
  const what = `${arrivedPico} piconero arrived at ${name}, and its payouts are ${sumRaw(sent)}`
  return [{ what, words: [...sent.map(({ _id }) => _id), name] }]
}

/** How much was done in Monero, for the report. */
export async function describeMonero({ monero }: World, money: StoredMoney): Promise<string[]> {
  if (monero === undefined) return []
  const { traced, survey } = await trace(monero, money)
  const count = (isCounted: (one: Traced) => boolean): number => traced.filter(isCounted).length
  const confirmed = money.transfers.filter(({ coin, state }) => coin === 'xmr' && state === 'confirmed')
  const paid = money.payouts.filter(({ coin, state }) => coin === 'xmr' && state === 'confirmed')
  const stands = (state: string) => (one: Traced) => one.stored[0]?.state === state
  return [
    `monero: ${traced.length} payments made and ${count(stands('settled'))} counted, of ${survey.height} blocks ${count(({ place }) => place === undefined)} payments removed, ${count(({ stored }) => stored[0]?.reversed_at !== undefined)} of them after they were counted; ${count(({ payment }) => payment.unlockHeight > 0)} locked, ${count(stands('locked'))} still`,
    `monero: ${paid.length} payouts confirmed in ${confirmed.length} transactions`,
    ...[...monero.troubles].map((trouble) => `monero: ${trouble}`),
  ]
}
