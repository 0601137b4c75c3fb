import type { LedgerBlock, NanoLedger } from './ledger.ts'

export interface ElectionResult {
  readonly hash: string
  /** By an election of its own, by that of a block that depends on it, or without an election. */
  readonly type: 'active_quorum' | 'active_confirmation_height' | 'inactive'
  readonly durationMs: number
  readonly endMs: number
  /** Voting weight in raw. */
  readonly tally: bigint
  /** How many candidates there were. */
  readonly blocks: number
  readonly voters: number
}

/** An election's result as the node shows it, both by RPC and over the websocket. */
export const describeTally = ({ durationMs, endMs, tally, blocks, voters }: ElectionResult) => ({
  duration: String(durationMs),
  time: String(endMs),
  tally: tally.toString(),
  final: tally.toString(),
  blocks: String(blocks),
  voters: String(voters),
  request_count: '0',
})

interface Election {
  readonly startedMs: number
  /** Hashes of the block and its forks. */
  readonly candidates: Set<string>
}

/** How many finished elections the node remembers, until a restart. */
const historyLimit = 2048

/**
 * Elections under way and finished ones. An unconfirmed block has an election as soon as its dependencies are
 * confirmed. There are no votes: the test decides by `confirm`.
 */
export class Elections {
  readonly history: ElectionResult[] = []
  /** Voting weight seen when the first block was confirmed, in raw; 0 before. */
  onlineStake = 0n
  private readonly active = new Map<string, Election>()
  private readonly ledger: NanoLedger

  constructor(ledger: NanoLedger) {
    this.ledger = ledger
    for (const entry of ledger.blocks.values()) if (!entry.confirmed) this.startIfReady(entry, Date.now())
  }

  isActive(hash: string): boolean {
    return this.active.has(hash)
  }

  /** The hashes of the blocks with an election under way. */
  activeHashes(): string[] {
    return [...this.active.keys()]
  }

  /** Starts the election of an unconfirmed block if all that it depends on is confirmed and it has none. */
  startIfReady(entry: LedgerBlock, nowMs: number): void {
    if (entry.confirmed || this.active.has(entry.hash)) return
    if (this.ledger.dependenciesOf(entry).some((dependency) => !dependency.confirmed)) return
    this.active.set(entry.hash, { startedMs: nowMs, candidates: new Set([entry.hash]) })
  }

  /** Adds a fork to the election of the block in the ledger, if that is under way. */
  addFork(hash: string, forkHash: string): void {
    this.active.get(hash)?.candidates.add(forkHash)
  }

  /** Ends a block's election without a result. */
  forget(hash: string): void {
    this.active.delete(hash)
  }

  /**
   * Confirms a block and all blocks that it depends on.
   *
   * @returns the results in the order of confirmation; none if the block was confirmed before
   */
  confirm(hash: string, nowMs: number): ElectionResult[] {
    const tally = this.ledger.weight(this.ledger.genesisAccount)
    const cemented = this.ledger.cement(hash)
    if (cemented.length > 0 && this.onlineStake === 0n) this.onlineStake = tally
    const results = cemented.map((entry): ElectionResult => {
      const election = this.active.get(entry.hash)
      this.active.delete(entry.hash)
      if (entry.hash === hash) {
        const durationMs = nowMs - (election?.startedMs ?? nowMs)
        return {
          hash: entry.hash,
          type: 'active_quorum',
          durationMs,
          endMs: nowMs,
          tally,
          blocks: election?.candidates.size ?? 1,
          voters: 2,
        }
      }
      const type = election === undefined ? 'inactive' : 'active_confirmation_height'
      return { hash: entry.hash, type, durationMs: 0, endMs: nowMs, tally: 0n, blocks: 1, voters: 0 }
    })
    for (const entry of cemented) {
      for (const next of [entry.successor, entry.receivedBy]) {
        const waiting = this.ledger.blocks.get(next)
        if (waiting !== undefined) this.startIfReady(waiting, nowMs)
      }
    }
    for (const result of results) this.remember(result)
    return results
  }

  /** Records a second result for a confirmed block, as the node does when asked to confirm it again. */
  recordAgain(hash: string, nowMs: number): ElectionResult {
    const result: ElectionResult = {
      hash,
      type: 'active_confirmation_height',
      durationMs: 0,
      endMs: nowMs,
      tally: 0n,
      blocks: 1,
      voters: 0,
    }
    this.remember(result)
    return result
  }

  private remember(result: ElectionResult): void {
    this.history.push(result)
    if (this.history.length > historyLimit) this.history.shift()
  }
}
