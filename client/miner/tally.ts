import { expectedHashes } from '../../shared/crypto/pow.ts'
import type { MiningOrder } from './miner.ts'
import type { ThreadReport } from './miner-thread.ts'

/** Adds up what the threads of a run report, from now on. @internal */
export class Tally {
  readonly shares: string[] = []
  readonly #order: MiningOrder
  readonly #startedAt = performance.now()
  #progressAt = this.#startedAt
  #hashes = 0

  constructor(order: MiningOrder) {
    this.#order = order
  }

  /** Whether `count` shares are found. */
  isComplete(): boolean {
    return this.shares.length >= this.#order.count
  }

  /** Adds a report: calls `onShare` for each share up to `count`, and `onProgress` if it is time. */
  add(report: ThreadReport): void {
    const { onShare, progressMs = 1_000 } = this.#order
    this.#hashes += report.hashes
    for (const nonce of report.nonces) {
      if (this.isComplete()) break
      this.shares.push(nonce)
      onShare?.(nonce)
    }
    if (performance.now() - this.#progressAt >= progressMs) this.reportProgress()
  }

  /** Calls `onProgress` now. */
  reportProgress(): void {
    const { count, difficultyBits, onProgress } = this.#order
    this.#progressAt = performance.now()
    const hashesPerSecond = this.#hashes / Math.max((this.#progressAt - this.#startedAt) / 1000, 0.001)
    const hashesLeft = (count - this.shares.length) * expectedHashes(difficultyBits)
    onProgress?.({
      hashes: this.#hashes,
      hashesPerSecond,
      sharesFound: this.shares.length,
      secondsLeft: hashesLeft === 0 ? 0 : hashesLeft / hashesPerSecond,
    })
  }
}
