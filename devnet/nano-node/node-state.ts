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

export interface NodeEvents {
  blockProcessed(entry: LedgerBlock): void
  blockConfirmed(entry: LedgerBlock, result: ElectionResult): void
}

/** The first account of every dev network; its key is public. It also signs epoch blocks. */
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
  /** Blocks that can't be added yet, by the missing block's hash and then by their own. */
  private unchecked = new Map<string, Map<string, StateBlock>>()
  private readonly timers = new Set<NodeJS.Timeout>()

  constructor(settings: NodeSettings, genesisEpoch: number) {
    this.settings = settings
    this.ledger = new NanoLedger(genesisBlock, genesisSupply, settings.thresholds, nowS())
    this.elections = new Elections(this.ledger)
    for (const link of epochLinks.slice(0, genesisEpoch)) {
      const balance = this.ledger.balance(genesisPublicKey)
      const block = this.signGenesisBlock({
        balance,
        link,
        epoch: epochLinks.indexOf(link) + 1,
        isEpoch: true,
      })
      const { status, hash } = this.ledger.process(block, nowS())
      if (status !== 'progress') throw new Error(`the epoch block was refused: ${status}`)
      this.ledger.cement(hash)
    }
  }

  get uncheckedCount(): number {
    let count = 0
    for (const waiting of this.unchecked.values()) count += waiting.size
    return count
  }

  /** Offers a block to the ledger. `force` puts it in the place of an unconfirmed competitor. */
  submit(block: StateBlock, options: { force?: boolean } = {}): { status: ProcessStatus; hash: string } {
    const result = this.ledger.process(block, nowS())
    if (result.status === 'progress') this.afterProcessing(result.hash)
    else if (result.status === 'gap_previous') this.keepUnchecked(block.previous, result.hash, block)
    else if (result.status === 'gap_source') this.keepUnchecked(block.link, result.hash, block)
    else if (result.status === 'fork') this.handleFork(block, result.hash, options.force === true)
    return result
  }

  private handleFork(block: StateBlock, hash: string, force: boolean): void {
    const competitor = this.ledger.competitorOf(block)
    if (competitor === null) return
    if (!force) {
      this.elections.addFork(competitor.hash, hash)
    } else if (!competitor.confirmed) {
      this.rollback(competitor.hash)
      if (this.ledger.process(block, nowS()).status === 'progress') this.afterProcessing(hash)
    }
  }

  private keepUnchecked(missing: string, hash: string, block: StateBlock): void {
    const waiting = this.unchecked.get(missing) ?? new Map<string, StateBlock>()
    waiting.set(hash, block)
    this.unchecked.set(missing, waiting)
  }

  private afterProcessing(hash: string): void {
    const entry = this.block(hash)
    this.elections.startIfReady(entry, Date.now())
    this.events?.blockProcessed(entry)
    this.scheduleConfirmation(hash)
    const waiting = this.unchecked.get(hash)
    this.unchecked.delete(hash)
    for (const block of waiting?.values() ?? []) this.submit(block)
  }

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
   * Does nothing for a block that is confirmed.
   *
   * @throws Error if the block is unknown
   */
  confirm(hash: string): void {
    for (const result of this.elections.confirm(hash, Date.now()))
      this.events?.blockConfirmed(this.block(result.hash), result)
  }

  /** Records and announces a confirmed block once more. */
  confirmAgain(hash: string): void {
    const result = this.elections.repeat(hash, Date.now())
    this.events?.blockConfirmed(this.block(hash), result)
  }

  /**
   * @returns the hashes of the removed blocks
   * @throws Error if the block is unknown or confirmed
   */
  rollback(hash: string): string[] {
    const removed = this.ledger.rollback(hash)
    for (const gone of removed) this.elections.forget(gone)
    return removed
  }

  /** Forgets what a restart loses: finished elections and waiting blocks. The ledger stays. */
  restart(): void {
    this.startedMs = Date.now()
    this.unchecked = new Map()
    this.elections = new Elections(this.ledger)
  }

  /**
   * Sends from the genesis account.
   *
   * @returns the block's hash
   */
  fund(address: string, amountRaw: bigint): string {
    const { status, hash } = this.submit(this.signGenesisBlock(this.sendFields(address, amountRaw)))
    if (status !== 'progress') throw new Error(`the funding block was refused: ${status}`)
    return hash
  }

  /** Adds many confirmed sends without signature, work or notifications: for filling a ledger fast. */
  fundUnsigned(payments: Iterable<{ address: string; amountRaw: bigint }>): string[] {
    const hashes: string[] = []
    for (const { address, amountRaw } of payments) {
      const block = {
        ...this.genesisFields(this.sendFields(address, amountRaw)),
        signature: '0'.repeat(128),
        work: 0n,
      }
      const { status, hash } = this.ledger.process(block, nowS(), { checked: false })
      if (status !== 'progress') throw new Error(`the funding block was refused: ${status}`)
      hashes.push(hash)
    }
    const last = hashes.at(-1)
    if (last !== undefined) for (const entry of this.ledger.cement(last)) this.elections.forget(entry.hash)
    return hashes
  }

  close(): void {
    for (const timer of this.timers) clearTimeout(timer)
    this.timers.clear()
  }

  private block(hash: string): LedgerBlock {
    const entry = this.ledger.blocks.get(hash)
    if (entry === undefined) throw new Error(`no block ${hash}`)
    return entry
  }

  private sendFields(address: string, amountRaw: bigint): GenesisStep {
    const link = decodeAddress(address)
    if (link === null) throw new Error(`fund: "${address}" is no address`)
    const balance = this.ledger.balance(genesisPublicKey) - amountRaw
    if (amountRaw <= 0n || balance < 0n) throw new Error(`fund: ${amountRaw} raw can't be sent`)
    return { balance, link, epoch: this.ledger.accounts.get(genesisPublicKey)?.epoch ?? 0, isEpoch: false }
  }

  private genesisFields(step: GenesisStep): Omit<StateBlock, 'signature' | 'work'> {
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
    const fields = this.genesisFields(step)
    const difficulty = thresholdFor(this.settings.thresholds, {
      epoch: step.epoch,
      isReceiveOrEpoch: step.isEpoch,
    })
    const signature = signHash(hashStateBlock(fields), genesisSecretKey)
    return { ...fields, signature, work: findWork(workRoot(fields), difficulty) }
  }
}

interface GenesisStep {
  readonly balance: bigint
  readonly link: string
  readonly epoch: number
  readonly isEpoch: boolean
}

export function nowS(): number {
  return Math.floor(Date.now() / 1000)
}
