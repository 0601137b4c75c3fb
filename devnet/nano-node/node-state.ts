import type { OpenBlock, StateBlock } from './block.ts'
import { hashStateBlock, signHash, workRoot } from './block.ts'
import type { ElectionResult } from './elections.ts'
import { Elections } from './elections.ts'
import { decodeAddress } from './encoding.ts'
import type { LedgerBlock, ProcessStatus } from './ledger.ts'
import { epochLinks, NanoLedger } from './ledger.ts'
import type { WorkThresholds } from './work.ts'
import { findWork, thresholdFor } from './work.ts'

export interface NodeSettings {
  thresholds: WorkThresholds
  /** A block is confirmed this long after it was processed; null: only by confirm(). */
  autoConfirmMs: number | null
  enableControl: boolean
  localWork: boolean
}

/** Is told of blocks: the websocket's subscriptions. */
export interface NodeEvents {
  blockProcessed(entry: LedgerBlock): void
  blockConfirmed(entry: LedgerBlock, result: ElectionResult): void
}

/** The key of the first account of every dev network, which is public. It also signs epoch blocks. */
export const genesisSecretKey = '34F0A37AAD20F4A260F0A5B3CB3D7FB50673212263E58A380BC10474BB039CE4'
export const genesisPublicKey = 'B0311EA55708D6A53C75CDBF88300259C6D018522FE3D4D0A242E431F9E8B6D0'
export const genesisSupply = (1n << 128n) - 1n

const genesisBlock: OpenBlock = {
  type: 'open',
  source: genesisPublicKey,
  representative: genesisPublicKey,
  account: genesisPublicKey,
  work: 0x7b42a00ee91d5810n,
  signature:
    'ECDA914373A2F0CA1296475BAEE40500A7F0A7AD72A5A80C81D7FAB7F6C802B2CC7DB50F5DD0FB25B2EF11761FA7344A158DD5A700B21BD47DE5BD0F63153A02',
}

/** One node: its ledger, elections, blocks that wait for a missing one, and the listener for events. */
export class NodeState {
  readonly ledger: NanoLedger
  readonly settings: NodeSettings
  elections: Elections
  startedMs = Date.now()
  events: NodeEvents | null = null
  /** Blocks that can't be added yet, by the hash of the block that they lack and then by their own. */
  private unchecked = new Map<string, Map<string, StateBlock>>()
  private readonly timers = new Set<NodeJS.Timeout>()

  /** @param genesisEpoch how many of the two epoch blocks the genesis account gets at once */
  constructor(settings: NodeSettings, genesisEpoch: number) {
    this.settings = settings
    this.ledger = new NanoLedger(genesisBlock, genesisSupply, settings.thresholds, nowSeconds())
    this.elections = new Elections(this.ledger)
    for (const link of epochLinks.slice(0, genesisEpoch)) {
      const balance = this.ledger.balance(genesisPublicKey)
      const block = this.signGenesisBlock({
        balance,
        link,
        epoch: epochLinks.indexOf(link) + 1,
        isEpoch: true,
      })
      const { status, hash } = this.ledger.process(block, nowSeconds())
      if (status !== 'progress') throw new Error(`the epoch block was refused: ${status}`)
      this.ledger.cement(hash)
    }
  }

  /** How many blocks wait for one that they lack. */
  get uncheckedCount(): number {
    let count = 0
    for (const waiting of this.unchecked.values()) count += waiting.size
    return count
  }

  /**
   * Offers a block to the ledger. One that lacks another block is kept and offered again after that one.
   *
   * @param options `force` puts the block in the place of an unconfirmed competitor
   * @returns the ledger's answer: `fork` even if the block took its competitor's place
   */
  submit(block: StateBlock, options: { force?: boolean } = {}): { status: ProcessStatus; hash: string } {
    const result = this.ledger.process(block, nowSeconds())
    if (result.status === 'progress') this.announceAdded(result.hash)
    else if (result.status === 'gap_previous') this.keepUnchecked(block.previous, result.hash, block)
    else if (result.status === 'gap_source') this.keepUnchecked(block.link, result.hash, block)
    else if (result.status === 'fork') this.handleFork(block, result.hash, options.force === true)
    return result
  }

  /** Adds a fork to its competitor's election, or with `force` puts it in the place of an unconfirmed one. */
  private handleFork(block: StateBlock, hash: string, force: boolean): void {
    const competitor = this.ledger.competitorOf(block)
    if (competitor === null) return
    if (!force) {
      this.elections.addFork(competitor.hash, hash)
    } else if (!competitor.confirmed) {
      this.rollback(competitor.hash)
      if (this.ledger.process(block, nowSeconds()).status === 'progress') this.announceAdded(hash)
    }
  }

  private keepUnchecked(missingHash: string, hash: string, block: StateBlock): void {
    const waiting = this.unchecked.get(missingHash) ?? new Map<string, StateBlock>()
    waiting.set(hash, block)
    this.unchecked.set(missingHash, waiting)
  }

  /**
   * Starts the election of a block that was added, tells of it, and submits the blocks that waited for it.
   */
  private announceAdded(hash: string): void {
    const entry = this.requireBlock(hash)
    this.elections.startIfReady(entry, Date.now())
    this.events?.blockProcessed(entry)
    this.scheduleConfirmation(hash)
    const waiting = this.unchecked.get(hash)
    this.unchecked.delete(hash)
    for (const block of waiting?.values() ?? []) this.submit(block)
  }

  /**
   * Confirms a block after the settings' delay, unless it is gone or confirmed then; without a delay, never.
   */
  scheduleConfirmation(hash: string): void {
    if (this.settings.autoConfirmMs === null) return
    const timer = setTimeout(() => {
      this.timers.delete(timer)
      const entry = this.ledger.blocks.get(hash)
      if (entry !== undefined && !entry.confirmed) this.confirm(hash)
    }, this.settings.autoConfirmMs)
    this.timers.add(timer)
  }

  /**
   * Confirms a block and all that it depends on, and tells of each. Does nothing if it is confirmed.
   *
   * @throws Error if the block is unknown
   */
  confirm(hash: string): void {
    for (const result of this.elections.confirm(hash, Date.now()))
      this.events?.blockConfirmed(this.requireBlock(result.hash), result)
  }

  /** Records the confirmation of a confirmed block, and tells of it, once more. */
  confirmAgain(hash: string): void {
    const result = this.elections.recordAgain(hash, Date.now())
    this.events?.blockConfirmed(this.requireBlock(hash), result)
  }

  /**
   * Removes an unconfirmed block and all that depend on it, with their elections.
   *
   * @returns the hashes of the removed blocks
   * @throws Error if the block is unknown or confirmed
   */
  rollback(hash: string): string[] {
    const removed = this.ledger.rollback(hash)
    for (const removedHash of removed) this.elections.forget(removedHash)
    return removed
  }

  /**
   * Forgets what a restart loses: finished elections, online stake, waiting blocks and uptime. Elections
   * under way begin anew, without their forks. The ledger and the scheduled confirmations stay.
   */
  restart(): void {
    this.startedMs = Date.now()
    this.unchecked = new Map()
    this.elections = new Elections(this.ledger)
  }

  /**
   * Sends from the genesis account; the block is not confirmed yet.
   *
   * @returns the block's hash
   * @throws Error if the address is invalid, or the account does not have the amount
   */
  fund(address: string, amountRaw: bigint): string {
    const { status, hash } = this.submit(this.signGenesisBlock(this.sendStep(address, amountRaw)))
    if (status !== 'progress') throw new Error(`the funding block was refused: ${status}`)
    return hash
  }

  /**
   * Adds many confirmed sends from the genesis account without signature, work or telling of them: for
   * filling a ledger fast.
   *
   * @returns the blocks' hashes
   */
  fundUnsigned(payments: Iterable<{ address: string; amountRaw: bigint }>): string[] {
    const hashes: string[] = []
    for (const { address, amountRaw } of payments) {
      const block = {
        ...this.nextGenesisBlock(this.sendStep(address, amountRaw)),
        signature: '0'.repeat(128),
        work: 0n,
      }
      const { status, hash } = this.ledger.process(block, nowSeconds(), { isChecked: false })
      if (status !== 'progress') throw new Error(`the funding block was refused: ${status}`)
      hashes.push(hash)
    }
    const last = hashes.at(-1)
    if (last !== undefined) for (const entry of this.ledger.cement(last)) this.elections.forget(entry.hash)
    return hashes
  }

  /** Cancels the scheduled confirmations. */
  close(): void {
    for (const timer of this.timers) clearTimeout(timer)
    this.timers.clear()
  }

  private requireBlock(hash: string): LedgerBlock {
    const entry = this.ledger.blocks.get(hash)
    if (entry === undefined) throw new Error(`no block ${hash}`)
    return entry
  }

  /** What a send from the genesis account changes. @throws Error if it can't be sent */
  private sendStep(address: string, amountRaw: bigint): GenesisStep {
    const link = decodeAddress(address)
    if (link === null) throw new Error(`fund: "${address}" is no address`)
    const balance = this.ledger.balance(genesisPublicKey) - amountRaw
    if (amountRaw <= 0n || balance < 0n) throw new Error(`fund: ${amountRaw} raw can't be sent`)
    return { balance, link, epoch: this.ledger.accounts.get(genesisPublicKey)?.epoch ?? 0, isEpoch: false }
  }

  /** The genesis account's next block, without signature and work. */
  private nextGenesisBlock(step: GenesisStep): Omit<StateBlock, 'signature' | 'work'> {
    const previous = this.ledger.frontier(genesisPublicKey)
    return {
      type: 'state',
      account: genesisPublicKey,
      previous,
      representative: genesisPublicKey,
      balance: step.balance,
      link: step.link,
    }
  }

  private signGenesisBlock(step: GenesisStep): StateBlock {
    const fields = this.nextGenesisBlock(step)
    const difficulty = thresholdFor(this.settings.thresholds, {
      epoch: step.epoch,
      isReceiveOrEpoch: step.isEpoch,
    })
    const signature = signHash(hashStateBlock(fields), genesisSecretKey)
    return { ...fields, signature, work: findWork(workRoot(fields), difficulty) }
  }
}

/** What the genesis account's next block changes. */
interface GenesisStep {
  /** After the block. */
  readonly balance: bigint
  readonly link: string
  readonly epoch: number
  readonly isEpoch: boolean
}

const nowSeconds = (): number => Math.floor(Date.now() / 1000)
