import type { FaultRecord } from '../world/history.ts'
import { collectFindings, type Finding } from './finding.ts'
import { sentTo, sumRaw, takenBackIn, type Moment, type StoredMoney } from './money.ts'
import type { SeenAgent } from './seen.ts'
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
  stored: readonly StoredMoney['payments'][number][]
}

/** What was seen of Monero: the payments made, the chain and its growth, and what went wrong with either. */
export interface SeenMonero {
  made: readonly MadePayment[]
  survey: Survey
  /** When the chain first had as many blocks as a lock names, in milliseconds of the history. */
  unlockedAtMs: ReadonlyMap<number, number>
  troubles: readonly string[]
}

/** Asks the chain about every payment that was made and the service's own transactions. */
export async function readMonero(monero: Monero, money: StoredMoney): Promise<SeenMonero> {
  const survey = await monero.survey(
    [...monero.made, ...[...money.payments, ...money.transfers].filter(({ coin }) => coin === 'xmr')].map(
      ({ tx }) => tx,
    ),
  )
  const unlockedAtMs = new Map(
    monero.made.flatMap(({ unlockHeight }) => {
      const atMs = monero.reachedAtMs(unlockHeight)
      return atMs === undefined ? [] : [[unlockHeight, atMs] as const]
    }),
  )
  return { made: [...monero.made], survey, unlockedAtMs, troubles: [...monero.troubles] }
}

/** Lists the work in Monero that is still to be done, a sentence each. */
export async function listMoneroLeft(monero: Monero | undefined, money: StoredMoney): Promise<string[]> {
  if (monero === undefined) return []
  const traced = trace(await readMonero(monero, money), money)
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

/** Traces each payment that was made. */
function trace({ made, survey }: SeenMonero, money: StoredMoney): Traced[] {
  const payments = money.payments.filter(({ coin }) => coin === 'xmr')
  const indexOf = new Map(money.invoices.map(({ address, address_index: index }) => [address, index]))
  const byKey = Map.groupBy(payments, ({ tx, address_index: index }) => `${tx}/${index}`)
  return made.map((payment) => ({
    payment,
    place: survey.places.get(payment.tx),
    lockedBlocks: payment.unlockHeight - survey.height,
    stored: byKey.get(`${payment.tx}/${indexOf.get(payment.address)}`) ?? [],
  }))
}

/**
 * Compares the chain with the records: each payment in a block is counted once, with its amount, and none
 * whose lock has not ended; one that a reorganisation removed is `gone`, or reversed if it was settled; nothing
 * else is counted; each agent's wallet has its payouts once, and the chain each confirmed transfer.
 */
export function checkMonero(
  monero: SeenMonero,
  money: StoredMoney,
  agents: readonly SeenAgent[],
  faults: readonly FaultRecord[],
  now: Moment,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const { made, survey } = monero
  const invoices = new Map(money.invoices.map((invoice) => [invoice.address, invoice]))
  const isClockRight = !faults.some(({ kind }) => CLOCK_FAULTS.includes(kind))
  const startedAtSeconds = now.seconds - now.ms / 1_000
  for (const one of trace(monero, money)) {
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
      const unlockedAtMs = monero.unlockedAtMs.get(unlockHeight) ?? Infinity
      const isEarly = settledAt + CLOCK_MARGIN_SECONDS < startedAtSeconds + unlockedAtMs / 1_000
      if (one.lockedBlocks > 0 || (isEarly && isClockRight))
        addFinding(`payment ${tx} is locked up to block ${unlockHeight}, and was counted before`, ...words)
    }
  }
  const known = new Set(made.map(({ tx }) => tx))
  for (const { _id: id, coin, tx, state } of money.payments)
    if (coin === 'xmr' && state === 'settled' && !known.has(tx))
      addFinding(`payment ${id} is counted, and nobody made its transaction ${tx}`, id, tx)
  for (const { _id: id, coin, tx, state } of money.transfers)
    if (coin === 'xmr' && state === 'confirmed' && typeof survey.places.get(tx) !== 'number')
      addFinding(`transfer ${id} is confirmed, and the chain does not have ${tx}`, id, tx)
  if (!faults.some(({ kind }) => kind === 'monero-reorganise'))
    for (const id of takenBackIn(money))
      addFinding(`order ${id} is disputed by the chain, and no block was replaced`, id)
  for (const { name, paidInMonero } of agents) {
    if (paidInMonero === undefined) continue
    const { address, arrivedRaw } = paidInMonero
    const sent = sentTo(money, address)
    if (arrivedRaw !== sumRaw(sent))
      addFinding(
        `${arrivedRaw} piconero arrived at ${name}, and its payouts are ${sumRaw(sent)}`,
        ...sent.map(({ _id }) => _id),
        name,
      )
  }
  return findings
}

/** How much was done in Monero, for the report. */
export function describeMonero(monero: SeenMonero, money: StoredMoney): string[] {
  const { survey, troubles } = monero
  const traced = trace(monero, money)
  const count = (isCounted: (one: Traced) => boolean): number => traced.filter(isCounted).length
  const confirmed = money.transfers.filter(({ coin, state }) => coin === 'xmr' && state === 'confirmed')
  const confirmedIds = new Set(confirmed.map(({ _id }) => _id))
  const paid = money.payouts.filter(({ transfer_id: id = '' }) => confirmedIds.has(id))
  const stands = (state: string) => (one: Traced) => one.stored[0]?.state === state
  return [
    `monero: ${traced.length} payments made and ${count(stands('settled'))} counted, of ${survey.height} blocks ${count(({ place }) => place === undefined)} payments removed, ${count(({ stored }) => stored[0]?.reversed_at !== undefined)} of them after they were counted; ${count(({ payment }) => payment.unlockHeight > 0)} locked, ${count(stands('locked'))} still`,
    `monero: ${paid.length} payouts confirmed in ${confirmed.length} transactions`,
    ...troubles.map((trouble) => `monero: ${trouble}`),
  ]
}
