/** The miner: finds nonces that meet a proof of work (the rule is in shared/crypto/pow.ts). */
import { assertDifficultyBits, assertPrefix, expectedHashes } from '../../shared/crypto/pow.ts'
import { createSearch } from './block-search.ts'
import { BLOCK_NONCES, drawHead } from './block.ts'
import { Tally } from './tally.ts'
import { countCores } from '../cores.ts'
import type { MiningProgress } from '../work-bound.ts'
import { createProgramRunner, runThread, yieldToEvents, type RunThread } from './threads.ts'

export type MiningOrder = {
  /** 32 lower-case hex characters, from the work order or the challenge. */
  prefix: string
  /** Leading zero bits of a share's digest, 0 to 256. */
  difficultyBits: number
  /** How many shares to find. */
  count: number
  /** Mining threads. Default: one per core, or the caller's own thread for work of a fraction of a second. */
  threads?: number
  /** The program of prepareNativeSearch(); threads run it instead of WebAssembly. */
  program?: string | undefined
  /** Stops the run within a block of each thread (some milliseconds). */
  signal?: AbortSignal
  /** Called with each share as it is found, so that it can be submitted at once. */
  onShare?: (nonce: string) => void
  /** Called about every `progressMs` (1000 if absent) and once at the end, also when stopped. */
  onProgress?: (progress: MiningProgress) => void
  progressMs?: number
}

export type SingleShareOrder = Omit<MiningOrder, 'count'>

/** Up to this many expected hashes, a fraction of a second, starting threads doesn't pay. */
const CALLERS_THREAD_HASHES = 2 ** 22

/**
 * Finds `count` different shares, in the order found.
 *
 * @throws Error for a malformed argument; the signal's reason if stopped before the end; what a callback
 *   throws
 */
export async function mineShares(order: MiningOrder): Promise<string[]> {
  assertOrder(order)
  order.signal?.throwIfAborted()
  const isSmall = order.count * expectedHashes(order.difficultyBits) <= CALLERS_THREAD_HASHES
  const runner = order.program === undefined ? runThread : createProgramRunner(order.program)
  const onCallersThread = runner === undefined || (order.threads === undefined && isSmall)
  const threads = onCallersThread ? 1 : (order.threads ?? countCores())
  const tally = new Tally(order)
  if (onCallersThread) await mineOnCallersThread(order, tally)
  else await mineOnThreads(runner, order, threads, tally)
  tally.reportProgress()
  if (!tally.isComplete()) order.signal?.throwIfAborted()
  return [...tally.shares]
}

/** Finds one share, otherwise like mineShares(). */
export async function solveWork(order: SingleShareOrder): Promise<string> {
  const [nonce] = await mineShares({ ...order, count: 1 })
  if (nonce === undefined) throw new Error('the miner ended without a share')
  return nonce
}

/** Checks the fields of an order. @throws Error that names the malformed one */
function assertOrder({ prefix, difficultyBits, count, threads }: MiningOrder): void {
  assertPrefix(prefix)
  assertDifficultyBits(difficultyBits)
  assertPositiveInteger('count', count)
  if (threads !== undefined) assertPositiveInteger('threads', threads)
}

function assertPositiveInteger(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw new Error(`"${name}" must be an integer from 1, got ${value}`)
}

/** Searches block after block on this thread until the tally is complete or the signal comes; lets other events run. */
async function mineOnCallersThread(order: MiningOrder, tally: Tally): Promise<void> {
  const searchBlock = createSearch()
  while (!tally.isComplete() && !order.signal?.aborted) {
    const nonces = searchBlock(order.prefix, drawHead(), order.difficultyBits)
    tally.add({ hashes: BLOCK_NONCES, nonces })
    await yieldToEvents()
  }
}

/**
 * Searches on so many threads until the tally is complete or the signal comes, and resolves when
 * all have ended. If one fails, the others are stopped, and its error is thrown.
 */
async function mineOnThreads(
  runner: RunThread,
  { prefix, difficultyBits, signal }: MiningOrder,
  threads: number,
  tally: Tally,
): Promise<void> {
  const stopper = new AbortController()
  const stopped = signal === undefined ? stopper.signal : AbortSignal.any([signal, stopper.signal])
  let hasFailed = false
  const runs = Array.from({ length: threads }, async () => {
    try {
      await runner({ prefix, difficultyBits }, stopped, (report) => {
        if (!hasFailed) tally.add(report) // a callback that threw is not called again
        if (tally.isComplete()) stopper.abort()
      })
    } catch (error) {
      hasFailed = true
      throw error
    } finally {
      stopper.abort() // a thread ends because it was told to, or by a failure, which ends the run
    }
  })
  for (const run of await Promise.allSettled(runs)) if (run.status === 'rejected') throw run.reason
}
