import type { Answer, Client, FreeCredit, SubmitWorkAnswer, WorkOrder } from './client.ts'
import { RefusalError, isPassing } from './errors.ts'
import { pause } from './http.ts'
import { mineShares, type MiningProgress } from './miner/miner.ts'
import { assertInTime, assertPossible } from './work-bound.ts'
import { readMiningState, writeMiningState, type MiningState } from './mining-state.ts'

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
export class OrderUnderWayError extends Error {
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
 * in as they are found, until the order is `credited`. While the service takes none, mining goes on and the
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
    const answer = await client.invoice({
      currency: 'pow',
      ...(options.days === undefined ? {} : { days: options.days }),
    })
    if ('free' in answer) return { kind: 'free', answer }
    if (!('order' in answer))
      throw new Error(
        `The service was asked for a work order and answered with an invoice in ${answer.currency}.`,
      )
    state = { order: answer.order, unsent: [], positions: [] }
  }
  assertPossible({ ...workAskedBy(state.order), threads: options.threads })
  const save = createSaver(stateFile, state)
  save.now()
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
  if (underWay === undefined) return order === undefined ? undefined : { order, unsent: [], positions: [] }
  const { order_id: id, days: daysUnderWay, shares_accepted: done, shares_required: all } = underWay.order
  const describeUnderWay = () =>
    `The work order ${id} for ${formatDays(daysUnderWay)} is under way (${done} of ${all} shares); finish it first, or leave it`
  if (order !== undefined && order.order_id !== id)
    throw new OrderUnderWayError(`${describeUnderWay()} for ${order.order_id}.`)
  if (days !== undefined && days !== daysUnderWay)
    throw new OrderUnderWayError(`${describeUnderWay()} for one of ${formatDays(days)}.`)
  return underWay
}

const workAskedBy = ({ difficulty_bits, shares_required, shares_accepted, expires_at }: WorkOrder) => ({
  difficultyBits: difficulty_bits,
  count: shares_required - shares_accepted,
  endsAt: expires_at,
})

/** Whether an order, as last heard, can still be worked on. */
export function isUnfinished(order: WorkOrder, nowSeconds: number): boolean {
  return order.credited_days < order.days && order.expires_at > nowSeconds
}

const formatDays = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

/** Writes the state to its file. */
interface Saver {
  now(): void
  /** Writes it unless it was written within the last second. */
  soon(): void
}

/** Creates the saver of a state. @param stateFile undefined: nothing is written */
function createSaver(stateFile: string | undefined, state: MiningState): Saver {
  let savedAtMs = -Infinity
  const now = () => {
    if (stateFile !== undefined) writeMiningState(stateFile, state)
    savedAtMs = performance.now()
  }
  return {
    now,
    soon: () => {
      if (performance.now() - savedAtMs >= SAVE_MS) now()
    },
  }
}

type Work = MineDaysOptions & { batchSize: number; state: MiningState; save: Saver }

/**
 * Mines and hands in side by side, so that a service that is slow or away does not stop the search.
 *
 * @returns the answer that says that the order is credited
 */
async function mineAndHandIn(work: Work): Promise<Answer<SubmitWorkAnswer>> {
  const { client, save, signal } = work
  const ended = new AbortController()
  const shareFound = createNotifier()
  // Aborted when either side ends, so that neither is left behind.
  const running = signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal])
  const mining = mineMissingShares({ ...work, signal: running }, shareFound).catch((error: unknown) => {
    if (!running.aborted) ended.abort(error)
  })
  try {
    return await handIn({ ...work, client: client.with({ signal: running }), signal: running }, shareFound)
  } catch (error) {
    running.throwIfAborted() // what ended the search says more than what that did to a call
    throw error
  } finally {
    ended.abort()
    await mining
    save.now()
  }
}

/** Searches whenever shares are missing, until stopped; each share that it finds goes into `state.unsent`. */
async function mineMissingShares(work: Work & { signal: AbortSignal }, shareFound: Notifier): Promise<void> {
  const { state, save, threads, program, onProgress, signal } = work
  while (!signal.aborted) {
    const count = state.order.shares_required - state.order.shares_accepted - state.unsent.length
    if (count <= 0) {
      await shareFound.wait(signal)
      continue
    }
    const known = new Set(state.unsent)
    await mineShares({
      prefix: state.order.prefix,
      difficultyBits: state.order.difficulty_bits,
      count,
      positions: state.positions,
      signal,
      ...(threads === undefined ? {} : { threads }),
      program,
      onShare: (nonce) => {
        if (known.has(nonce)) return
        state.unsent.push(nonce)
        shareFound.notify()
      },
      onProgress: (mining) => {
        assertInTime(state.order.expires_at, mining)
        state.positions = mining.positions
        save.soon()
        onProgress?.({ step: 'mining', order: state.order, unsent: state.unsent.length, mining })
      },
    })
  }
}

/**
 * Hands in found shares batch by batch, until the order is credited, and keeps the state's order up to date.
 *
 * @returns the answer that says so
 * @throws Error if the order expires; refusals that waiting does not change
 */
async function handIn(
  work: Work & { signal: AbortSignal },
  shareFound: Notifier,
): Promise<Answer<SubmitWorkAnswer>> {
  const { client, state, save, batchSize, onProgress, signal, backoffMs = BACKOFF_MS } = work
  let delayMs = backoffMs.first
  for (;;) {
    while (state.unsent.length < countDue(state.order, batchSize)) await shareFound.wait(signal)
    save.soon()
    const batch = state.unsent.slice(0, MAX_BATCH_SIZE)
    let reason: string
    let askedMs = 0
    try {
      const answer = await client.submitWork({ order_id: state.order.order_id, nonces: batch })
      state.order = {
        ...state.order,
        shares_accepted: answer.shares_accepted,
        credited_days: answer.credited_days,
      }
      if (answer.status !== 'verifying') {
        assertCounted(answer)
        const sent = new Set(batch)
        state.unsent = state.unsent.filter((nonce) => !sent.has(nonce))
        save.now()
        onProgress?.({ step: 'submitted', order: state.order, unsent: state.unsent.length, answer })
        if (answer.status === 'credited') return answer
        if (answer.status === 'expired') throw new Error(describeExpired(state.order))
        delayMs = backoffMs.first
        shareFound.notify() // the search may have to make up for shares that did not count
        continue
      }
      reason = 'The service is still verifying.'
    } catch (error) {
      if (error instanceof RefusalError && error.error === 'wrong_state')
        return await confirmCredited(client, state, batch.length, error)
      if (!isPassing(error)) throw error
      reason = error.message
      askedMs = (error.retryAfterSeconds ?? 0) * 1000
    }
    if (Date.now() / 1000 >= state.order.expires_at)
      throw new Error(`${describeExpired(state.order)} (${reason})`)
    const waitMs = Math.min(Math.max(delayMs, askedMs), backoffMs.longest)
    onProgress?.({
      step: 'waiting',
      order: state.order,
      unsent: state.unsent.length,
      reason,
      seconds: waitMs / 1000,
    })
    await pause(waitMs, signal)
    delayMs = Math.min(delayMs * 2, backoffMs.longest)
  }
}

/**
 * How many shares are handed in next: a batch, or fewer if they complete a day, which is credited at once.
 */
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

/**
 * Makes the answer that was lost, from the order and `GET /me`, if the service takes no more shares for an
 * order because it is credited: its time is not over, and what was sent completes it. Sets the state to
 * credited, too.
 *
 * @param sent how many shares were in the batch that was refused
 * @throws the refusal if the order is not credited
 */
async function confirmCredited(
  client: Client,
  state: MiningState,
  sent: number,
  refusal: RefusalError,
): Promise<Answer<SubmitWorkAnswer>> {
  const { order } = state
  if (Date.now() / 1000 >= order.expires_at || order.shares_accepted + sent < order.shares_required)
    throw refusal
  const { pass_until } = await client.me()
  state.order = {
    ...order,
    status: 'credited',
    shares_accepted: order.shares_required,
    credited_days: order.days,
  }
  state.unsent = []
  return {
    ok: true,
    order_id: order.order_id,
    status: 'credited',
    accepted: 0,
    rejected: [],
    shares_accepted: order.shares_required,
    shares_required: order.shares_required,
    credited_days: order.days,
    pass_until,
  }
}

const describeExpired = (order: WorkOrder): string =>
  `The work order ${order.order_id} has expired with ${order.shares_accepted} of ${order.shares_required} shares; ${formatDays(order.credited_days)} of it were credited.`

/** Lets one part wait until another says that something has changed. */
interface Notifier {
  notify(): void
  /** Resolves at the next notify(); rejects with the signal's reason. */
  wait(signal: AbortSignal): Promise<void>
}

/** Creates a notifier on which nobody waits yet. */
function createNotifier(): Notifier {
  let waiting: (() => void)[] = []
  return {
    notify() {
      const woken = waiting
      waiting = []
      for (const wake of woken) wake()
    },
    wait: (signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted()
        const onAbort = () => reject(signal.reason as Error)
        signal.addEventListener('abort', onAbort, { once: true })
        waiting.push(() => {
          signal.removeEventListener('abort', onAbort)
          resolve()
        })
      }),
  }
}
