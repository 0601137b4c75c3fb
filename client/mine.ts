import type { Answer, Client, FreeCredit, SubmitWorkAnswer, WorkOrder } from './client.ts'
import { CodedError, isPassing } from './errors.ts'
import { given } from './given.ts'
import { pause } from './http.ts'
import { mineShares } from './miner/miner.ts'
import { prepareNativeSearch as prepare } from './miner/threads.ts'
import { assertInTime, assertPossible, type MiningProgress } from './work-bound.ts'
import { isUnfinished, readMiningState, writeMiningState, type MiningState } from './mining-state.ts'

/** For a registration. @internal */
export { solveWork } from './miner/miner.ts'

/** A program to mine with, or the reason why this machine has none. */
export type NativeSearch = { program: string } | { missing: string }

/** Compiles the search for this processor, once. @param compiler `cc` if absent */
export const prepareNativeSearch: (compiler?: string) => Promise<NativeSearch> = prepare

/** What mining reports: each step with the order, and how many shares are found and not handed in. */
export type MineDaysProgress =
  | { step: 'started'; order: WorkOrder; resumed: boolean; unsent: number }
  | { step: 'mining'; order: WorkOrder; unsent: number; mining: MiningProgress }
  | { step: 'submitted'; order: WorkOrder; unsent: number; answer: Answer<SubmitWorkAnswer> }
  | { step: 'waiting'; order: WorkOrder; unsent: number; reason: string; seconds: number }

/** `free`: the days were credited at once, nothing was mined. `mined`: the order is `credited`. */
export type MinedDays =
  { kind: 'free'; answer: Answer<FreeCredit> } | { kind: 'mined'; answer: Answer<SubmitWorkAnswer> }

export interface MineDaysOptions {
  client: Client
  /** For a new order: 1 to 365, 1 if absent. */
  days?: number | undefined
  /** An order that `client.invoice` gave, in place of a new one. */
  order?: WorkOrder | undefined
  /** Kept up to date while mining. If it holds an unfinished order, mining goes on with that. */
  stateFile?: string | undefined
  /** Shares that are handed in together; fewer if they complete a day. 25 if absent, 10 000 at most. */
  batchSize?: number | undefined
  /** Mining threads, one for each core if absent. */
  threads?: number | undefined
  /** The native search of prepareNativeSearch, some times as fast; WebAssembly if absent. */
  program?: string | undefined
  onProgress?: ((progress: MineDaysProgress) => void) | undefined
  /** Stops mining, with the state written. */
  signal?: AbortSignal | undefined
  /** The first and the longest wait between two tries to hand in; 1 000 and 60 000 if absent. */
  backoffMs?: { first: number; longest: number } | undefined
}

/** The state file holds an unfinished order, and another was asked for. */
export class OrderUnderWayError extends CodedError<'order_under_way'> {
  override readonly name = 'OrderUnderWayError'
}

const BATCH_SIZE = 25
/** The service takes no more nonces at once. */
const MAX_BATCH_SIZE = 10_000
const BACKOFF_MS = { first: 1_000, longest: 60_000 }
/** Found work that a crash can cost: a second of it. */
const SAVE_MS = 1_000
/** Reasons that say nothing against the miner: the share counts already, or the order needs no more. */
const HARMLESS_REASONS = new Set(['duplicate', 'order_full'])

/**
 * Buys pass days by proof of work: makes a work order or goes on with one, finds its shares, and hands them
 * in batch by batch, until the order is `credited`. While the service takes none, mining goes on and the
 * same nonces are sent again, which is harmless, until the order's `expires_at`.
 *
 * @throws RefusalError and TransportError of making the order, and every refusal that waiting does not change
 * @throws OrderUnderWayError; WorkTooHardError if the shares cannot be found before the order ends
 * @throws Error if the order has expired, or the service finds no work in what the miner found; the signal's
 *   reason if stopped
 */
export async function mineDays(options: MineDaysOptions): Promise<MinedDays> {
  const { stateFile, batchSize = BATCH_SIZE, onProgress, signal } = options
  if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > MAX_BATCH_SIZE)
    throw new Error(`"batchSize" expected 1 to ${MAX_BATCH_SIZE}, got ${batchSize}`)
  const client = signal === undefined ? options.client : options.client.with({ signal })
  const kept = stateFile === undefined ? undefined : readMiningState(stateFile)
  const resumed = chooseState(kept, options, Date.now() / 1000)
  let state = resumed
  if (state === undefined) {
    const answer = await client.invoice({ currency: 'pow', ...given({ days: options.days }) })
    if ('free' in answer) return { kind: 'free', answer }
    if (!('order' in answer))
      throw new Error(
        `The service was asked for a work order and answered with an invoice in ${answer.currency}.`,
      )
    state = { order: answer.order, unsent: [] }
  }
  assertPossible({ ...workAskedBy(state.order), threads: options.threads })
  const mined = state
  const save = (): void => {
    if (stateFile !== undefined) writeMiningState(stateFile, mined)
  }
  save()
  onProgress?.({
    step: 'started',
    order: state.order,
    resumed: resumed !== undefined,
    unsent: state.unsent.length,
  })
  return { kind: 'mined', answer: await mineAndHandIn({ ...options, client, batchSize, state, save }) }
}

/**
 * Chooses the state to go on with: the kept one if its order can still be worked on, else that of the named
 * order, else undefined, which means a new order.
 *
 * @throws OrderUnderWayError if the kept order isn't the one that was asked for
 */
function chooseState(
  kept: MiningState | undefined,
  { order, days }: MineDaysOptions,
  nowSeconds: number,
): MiningState | undefined {
  const underWay = kept !== undefined && isUnfinished(kept.order, nowSeconds) ? kept : undefined
  if (underWay === undefined) return order === undefined ? undefined : { order, unsent: [] }
  const { order_id: id, days: daysUnderWay, shares_accepted: done, shares_required: all } = underWay.order
  const describeUnderWay = () =>
    `The work order ${id} for ${formatDays(daysUnderWay)} is under way (${done} of ${all} shares); finish it first, or leave it`
  if (order !== undefined && order.order_id !== id)
    throw new OrderUnderWayError('order_under_way', `${describeUnderWay()} for ${order.order_id}.`)
  if (days !== undefined && days !== daysUnderWay)
    throw new OrderUnderWayError('order_under_way', `${describeUnderWay()} for one of ${formatDays(days)}.`)
  return underWay
}

const workAskedBy = ({ difficulty_bits, shares_required, shares_accepted, expires_at }: WorkOrder) => ({
  difficultyBits: difficulty_bits,
  count: shares_required - shares_accepted,
  endsAt: expires_at,
})

const formatDays = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

type Work = MineDaysOptions & { batchSize: number; state: MiningState; save(): void }

/**
 * Finds shares and hands them in, batch by batch. A batch that the service doesn't take now is sent again later;
 * until then the search goes on.
 *
 * @returns the answer that says that the order is credited
 * @throws Error if the order expires; refusals that waiting does not change
 */
async function mineAndHandIn(work: Work): Promise<Answer<SubmitWorkAnswer>> {
  const { state, save, batchSize, onProgress, signal, backoffMs = BACKOFF_MS } = work
  let delayMs = backoffMs.first
  try {
    for (;;) {
      await mineUntil(work, countDue(state.order, batchSize), signal)
      save()
      const outcome = await handIn(work, state.unsent.slice(0, MAX_BATCH_SIZE))
      if (outcome.kind === 'credited') return outcome.answer
      if (outcome.kind === 'taken') {
        delayMs = backoffMs.first
        continue
      }
      if (Date.now() / 1000 >= state.order.expires_at)
        throw new Error(`${describeExpired(state.order)} (${outcome.reason})`)
      const waitMs = Math.min(Math.max(delayMs, outcome.askedMs), backoffMs.longest)
      const { order, unsent } = state
      const { reason } = outcome
      onProgress?.({ step: 'waiting', order, unsent: unsent.length, reason, seconds: waitMs / 1000 })
      await mineFor(work, waitMs)
      delayMs = Math.min(delayMs * 2, backoffMs.longest)
    }
  } finally {
    save()
  }
}

/** Searches for some time, or waits if nothing more is to be found. */
async function mineFor(work: Work, ms: number): Promise<void> {
  const { order } = work.state
  const endsAt = performance.now() + ms
  const timeout = AbortSignal.timeout(ms)
  const signal = work.signal === undefined ? timeout : AbortSignal.any([work.signal, timeout])
  try {
    await mineUntil(work, order.shares_required - order.shares_accepted, signal)
  } catch (error) {
    work.signal?.throwIfAborted()
    if (!timeout.aborted) throw error
  }
  await pause(Math.max(0, endsAt - performance.now()), work.signal)
}

/** Searches until so many shares are found and not handed in; each goes into `state.unsent`. */
async function mineUntil(work: Work, due: number, signal: AbortSignal | undefined): Promise<void> {
  const { state, save, threads, program, onProgress } = work
  const known = new Set(state.unsent)
  let savedAt = performance.now()
  while (state.unsent.length < due)
    await mineShares({
      prefix: state.order.prefix,
      difficultyBits: state.order.difficulty_bits,
      count: due - state.unsent.length,
      ...given({ threads, signal }),
      program,
      onShare: (nonce) => {
        if (known.has(nonce)) return
        known.add(nonce)
        state.unsent.push(nonce)
      },
      onProgress: (mining) => {
        assertInTime(state.order.expires_at, mining)
        if (performance.now() - savedAt >= SAVE_MS) {
          save()
          savedAt = performance.now()
        }
        onProgress?.({ step: 'mining', order: state.order, unsent: state.unsent.length, mining })
      },
    })
}

/** What becomes of a batch: `waits`: it must be sent again, not before `askedMs`. */
type HandedIn =
  | { kind: 'taken' }
  | { kind: 'credited'; answer: Answer<SubmitWorkAnswer> }
  | { kind: 'waits'; reason: string; askedMs: number }

/**
 * Hands in a batch once, and keeps the state's order up to date.
 *
 * @throws Error if the order has expired; refusals that waiting does not change
 */
async function handIn(work: Work, batch: readonly string[]): Promise<HandedIn> {
  const { client, state, save, onProgress } = work
  let answer: Answer<SubmitWorkAnswer>
  try {
    answer = await client.submitWork({ order_id: state.order.order_id, nonces: [...batch] })
  } catch (error) {
    if (!isPassing(error)) throw error
    return { kind: 'waits', reason: error.message, askedMs: (error.retryAfterSeconds ?? 0) * 1000 }
  }
  const { shares_accepted, credited_days } = answer
  state.order = { ...state.order, shares_accepted, credited_days }
  if (answer.status === 'verifying')
    return { kind: 'waits', reason: 'The service is still verifying.', askedMs: 0 }
  assertCounted(answer)
  const sent = new Set(batch)
  state.unsent = state.unsent.filter((nonce) => !sent.has(nonce))
  save()
  onProgress?.({ step: 'submitted', order: state.order, unsent: state.unsent.length, answer })
  if (answer.status === 'expired') throw new Error(describeExpired(state.order))
  return answer.status === 'credited' ? { kind: 'credited', answer } : { kind: 'taken' }
}

/** How many shares are handed in next: a batch, or fewer if they complete a day, which is credited at once. */
function countDue(order: WorkOrder, batchSize: number): number {
  const perDay = order.shares_required / order.days
  return Math.max(1, Math.min(batchSize, perDay - (order.shares_accepted % perDay)))
}

/**
 * Checks what the service rejected of the shares that were handed in.
 *
 * @throws Error if it finds no work in one: it would find none in the next ones either
 */
function assertCounted({ rejected }: SubmitWorkAnswer): void {
  const bad = rejected.find(({ reason }) => !HARMLESS_REASONS.has(reason))
  if (bad !== undefined)
    throw new Error(
      `The service refused the share "${bad.nonce}" as ${bad.reason}: this miner and the service disagree about the work, so mining on would be in vain.`,
    )
}

const describeExpired = (order: WorkOrder): string =>
  `The work order ${order.order_id} has expired with ${order.shares_accepted} of ${order.shares_required} shares; ${formatDays(order.credited_days)} of it were credited.`
