import type { ThreadReport } from './miner-thread.ts'

/** How far a run has come. */
export type MiningProgress = {
  hashes: number
  hashesPerSecond: number
  sharesFound: number
  /** Expected seconds until `count` is reached, at the rate so far; Infinity before the first report. */
  secondsLeft: number
}

/** @internal */
export type TallyOrder = {
  count: number
  expectedHashesPerShare: number
  progressMs: number
  onShare?: ((nonce: string) => void) | undefined
  onProgress?: ((progress: MiningProgress) => void) | undefined
}

/** Adds up what the threads of a run report. @internal */
export type Tally = {
  readonly shares: readonly string[]
  /** Whether `count` shares are found. */
  isComplete(): boolean
  /** Adds a report: calls `onShare` for each share up to `count`, and `onProgress` if it is time. */
  add(report: ThreadReport): void
  /** Calls `onProgress` now. */
  reportProgress(): void
}

/** Makes the tally of a run that begins now. @internal */
export function startTally(order: TallyOrder): Tally {
  const shares: string[] = []
  const startedAt = performance.now()
  let hashes = 0
  let progressAt = startedAt

  const reportProgress = (): void => {
    const now = performance.now()
    progressAt = now
    const hashesPerSecond = hashes / Math.max((now - startedAt) / 1000, 0.001)
    const hashesLeft = (order.count - shares.length) * order.expectedHashesPerShare
    order.onProgress?.({
      hashes,
      hashesPerSecond,
      sharesFound: shares.length,
      secondsLeft: hashesLeft === 0 ? 0 : hashesLeft / hashesPerSecond,
    })
  }
  return {
    shares,
    isComplete: () => shares.length >= order.count,
    add(report) {
      hashes += report.hashes
      for (const nonce of report.nonces) {
        if (shares.length >= order.count) break
        shares.push(nonce)
        order.onShare?.(nonce)
      }
      if (performance.now() - progressAt >= order.progressMs) reportProgress()
    },
    reportProgress,
  }
}
