import type { OpenBlock, StateBlock } from './block.ts'
import { hashOpenBlock, hashStateBlock, isSignedByAccount, verifyHash, workRoot } from './block.ts'
import { zeroHash } from './encoding.ts'
import type { WorkThresholds } from './work.ts'
import { thresholdFor, workDifficulty } from './work.ts'

export type BlockKind = 'send' | 'receive' | 'change' | 'epoch'

/** Whether a block was added (`progress`), or why not; the names are the reference node's. */
export type ProcessStatus =
  | 'progress'
  | 'old'
  | 'bad_signature'
  | 'opened_burn_account'
  | 'fork'
  | 'gap_previous'
  | 'gap_source'
  | 'gap_epoch_open_pending'
  | 'unreceivable'
  | 'balance_mismatch'
  | 'representative_mismatch'
  | 'block_position'
  | 'insufficient_work'

export interface LedgerBlock {
  readonly hash: string
  readonly block: StateBlock | OpenBlock
  readonly account: string
  /** Null for the genesis block, which is of the old kind. */
  readonly kind: BlockKind | null
  /** 1 for the account's first block. */
  readonly height: number
  /** The account's after this block, in raw. */
  readonly balance: bigint
  /** Raw that the block sends or receives; 0 for other kinds. */
  readonly amount: bigint
  /** The account's epoch after this block. */
  readonly epoch: number
  readonly timestampS: number
  /** The account's next block; zeroHash if there is none. */
  successor: string
  confirmed: boolean
  /** Of a send: the block that received it; zeroHash if none did. */
  receivedBy: string
}

export interface LedgerAccount {
  readonly publicKey: string
  /** Hashes from the first block to the frontier. */
  readonly chain: string[]
  representative: string
  balance: bigint
  epoch: number
  modifiedS: number
  confirmedHeight: number
}

/** A send that was not received yet. */
export interface Receivable {
  readonly hash: string
  /** In raw. */
  readonly amount: bigint
  /** The sender's public key. */
  readonly source: string
  readonly epoch: number
}

/** The links that mark epoch blocks, which the genesis key signs on a dev network. */
export const epochLinks = ['epoch v1 block', 'epoch v2 block'].map((text) =>
  Buffer.from(text).toString('hex').toUpperCase().padEnd(64, '0'),
)

/** The epoch that a block with this link begins; 0 if it marks none. */
export function epochOfLink(link: string): number {
  return epochLinks.indexOf(link) + 1
}

/** What a check found; `kind`, `amount` and `epoch` are the effect of a block that may be added. */
interface CheckResult {
  readonly status: ProcessStatus
  readonly kind?: BlockKind
  readonly amount?: bigint
  readonly epoch?: number
}

const refuse = (status: ProcessStatus): CheckResult => ({ status })

/** All blocks and the state that follows from them. Checks blocks as a node does, in the same order. */
export class NanoLedger {
  readonly blocks = new Map<string, LedgerBlock>()
  readonly accounts = new Map<string, LedgerAccount>()
  /** By the recipient's public key and the send's hash. */
  readonly receivables = new Map<string, Map<string, Receivable>>()
  /** Voting weight of each representative, in raw. */
  readonly weights = new Map<string, bigint>()
  readonly genesisHash: string
  readonly genesisAccount: string
  /** How many blocks are confirmed. */
  cementedCount = 1
  readonly thresholds: WorkThresholds

  /** Begins with the genesis block, confirmed, whose account has the supply (in raw). */
  constructor(genesis: OpenBlock, supply: bigint, thresholds: WorkThresholds, timestampS: number) {
    this.thresholds = thresholds
    this.genesisHash = hashOpenBlock(genesis)
    this.genesisAccount = genesis.account
    this.blocks.set(this.genesisHash, {
      hash: this.genesisHash,
      block: genesis,
      account: genesis.account,
      kind: null,
      height: 1,
      balance: supply,
      amount: supply,
      epoch: 0,
      timestampS,
      successor: zeroHash,
      confirmed: true,
      receivedBy: zeroHash,
    })
    this.accounts.set(genesis.account, {
      publicKey: genesis.account,
      chain: [this.genesisHash],
      representative: genesis.representative,
      balance: supply,
      epoch: 0,
      modifiedS: timestampS,
      confirmedHeight: 1,
    })
    this.weights.set(genesis.representative, supply)
  }

  /** The hash of the account's last block; zeroHash if it has none. */
  frontier(publicKey: string): string {
    return this.accounts.get(publicKey)?.chain.at(-1) ?? zeroHash
  }

  /** In raw; 0 for an account without blocks. */
  balance(publicKey: string): bigint {
    return this.accounts.get(publicKey)?.balance ?? 0n
  }

  /** The account's last confirmed block, or null if none is. */
  confirmedFrontier(publicKey: string): LedgerBlock | null {
    const account = this.accounts.get(publicKey)
    const hash = account?.chain[account.confirmedHeight - 1]
    return hash === undefined ? null : (this.blocks.get(hash) ?? null)
  }

  /** What the account can receive, by ascending hash. */
  receivablesOf(publicKey: string): Receivable[] {
    const entries = [...(this.receivables.get(publicKey)?.values() ?? [])]
    return entries.sort((left, right) => (left.hash < right.hash ? -1 : 1))
  }

  /**
   * The sum of what the account can receive, in raw.
   *
   * @param onlyConfirmed whether only confirmed sends count
   */
  receivableSum(publicKey: string, onlyConfirmed: boolean): bigint {
    let sum = 0n
    for (const entry of this.receivables.get(publicKey)?.values() ?? []) {
      if (!onlyConfirmed || this.blocks.get(entry.hash)?.confirmed === true) sum += entry.amount
    }
    return sum
  }

  /** The voting weight of a representative, in raw. */
  weight(publicKey: string): bigint {
    return this.weights.get(publicKey) ?? 0n
  }

  /** The block that already stands at this one's position, or null. */
  competitorOf(block: StateBlock): LedgerBlock | null {
    const hash =
      block.previous === zeroHash
        ? this.accounts.get(block.account)?.chain[0]
        : this.blocks.get(block.previous)?.successor
    return hash === undefined ? null : (this.blocks.get(hash) ?? null)
  }

  /**
   * The least difficulty that this block's work must have; null if its predecessor and source are unknown.
   */
  requiredDifficulty(block: StateBlock): bigint | null {
    const previous = this.blocks.get(block.previous)
    const isSend = previous !== undefined && previous.balance > block.balance
    const source = isSend ? undefined : this.receivables.get(block.account)?.get(block.link)
    if (previous === undefined && source === undefined) return null
    const epoch = Math.max(previous?.epoch ?? 0, source?.epoch ?? 0)
    return thresholdFor(this.thresholds, { epoch, isReceiveOrEpoch: source !== undefined })
  }

  /**
   * Checks a block and adds it if it is valid.
   *
   * @param options `isChecked: false` skips signature and work, for filling a ledger fast; never for a block
   *   from a request
   */
  process(
    block: StateBlock,
    timestampS: number,
    options: { isChecked: boolean } = { isChecked: true },
  ): { status: ProcessStatus; hash: string } {
    const hash = hashStateBlock(block)
    const result = this.checkBlock(hash, block, options.isChecked)
    if (result.status === 'progress' && result.kind !== undefined) {
      this.apply(
        hash,
        block,
        { kind: result.kind, amount: result.amount ?? 0n, epoch: result.epoch ?? 0 },
        timestampS,
      )
    }
    return { status: result.status, hash }
  }

  /** Tells an epoch block from others by its link and balance, and checks it. */
  private checkBlock(hash: string, block: StateBlock, isChecked: boolean): CheckResult {
    if (epochOfLink(block.link) > 0) {
      const previous = this.blocks.get(block.previous)
      if (block.previous !== zeroHash && previous === undefined) {
        const isSigned =
          verifyHash(hash, block.signature, block.account) ||
          verifyHash(hash, block.signature, this.genesisAccount)
        return refuse(isSigned ? 'gap_previous' : 'bad_signature')
      }
      // The same link with another balance is a send to the address with that public key.
      if (block.balance === (previous?.balance ?? 0n)) return this.checkEpochBlock(hash, block, isChecked)
    }
    return this.checkStateBlock(hash, block, isChecked)
  }

  /** Checks a block that sends, receives or changes the representative. */
  private checkStateBlock(hash: string, block: StateBlock, isChecked: boolean): CheckResult {
    if (this.blocks.has(hash)) return refuse('old')
    if (isChecked && !isSignedByAccount(block)) return refuse('bad_signature')
    if (block.account === zeroHash) return refuse('opened_burn_account')
    const account = this.accounts.get(block.account)
    if (account === undefined) {
      if (block.previous !== zeroHash) return refuse('gap_previous')
      if (block.link === zeroHash) return refuse('gap_source')
    } else {
      if (block.previous === zeroHash) return refuse('fork')
      if (!this.blocks.has(block.previous)) return refuse('gap_previous')
      if (block.previous !== account.chain.at(-1)) return refuse('fork')
    }
    const balanceBefore = account?.balance ?? 0n
    let epoch = account?.epoch ?? 0
    let kind: BlockKind = 'change'
    let amount = block.balance - balanceBefore
    if (amount < 0n) {
      kind = 'send'
      amount = -amount
    } else if (block.link !== zeroHash) {
      kind = 'receive'
      if (!this.blocks.has(block.link)) return refuse('gap_source')
      const receivable = this.receivables.get(block.account)?.get(block.link)
      if (receivable === undefined) return refuse('unreceivable')
      if (receivable.amount !== amount) return refuse('balance_mismatch')
      epoch = Math.max(epoch, receivable.epoch)
    } else if (amount !== 0n) {
      return refuse('balance_mismatch')
    }
    if (isChecked && !this.hasWork(block, epoch, kind === 'receive')) return refuse('insufficient_work')
    return { status: 'progress', kind, amount, epoch }
  }

  /** Checks a block of the genesis key that raises an account's epoch and changes nothing else. */
  private checkEpochBlock(hash: string, block: StateBlock, isChecked: boolean): CheckResult {
    if (this.blocks.has(hash)) return refuse('old')
    if (!verifyHash(hash, block.signature, this.genesisAccount)) return refuse('bad_signature')
    if (block.account === zeroHash) return refuse('opened_burn_account')
    const account = this.accounts.get(block.account)
    if (account !== undefined) {
      if (block.previous === zeroHash || block.previous !== account.chain.at(-1)) return refuse('fork')
      if (block.representative !== account.representative) return refuse('representative_mismatch')
    } else {
      if (block.representative !== zeroHash) return refuse('representative_mismatch')
      if ((this.receivables.get(block.account)?.size ?? 0) === 0) return refuse('gap_epoch_open_pending')
    }
    const epoch = epochOfLink(block.link)
    if (account !== undefined && epoch !== account.epoch + 1) return refuse('block_position')
    if (block.balance !== (account?.balance ?? 0n)) return refuse('balance_mismatch')
    if (isChecked && !this.hasWork(block, epoch, true)) return refuse('insufficient_work')
    return { status: 'progress', kind: 'epoch', amount: 0n, epoch }
  }

  private hasWork(block: StateBlock, epoch: number, isReceiveOrEpoch: boolean): boolean {
    return (
      workDifficulty(workRoot(block), block.work) >=
      thresholdFor(this.thresholds, { epoch, isReceiveOrEpoch })
    )
  }

  /** Adds a checked block: to its account, to the weights and to what can be received. */
  private apply(
    hash: string,
    block: StateBlock,
    effect: { kind: BlockKind; amount: bigint; epoch: number },
    timestampS: number,
  ): void {
    const account = this.accounts.get(block.account) ?? {
      publicKey: block.account,
      chain: [],
      representative: block.representative,
      balance: 0n,
      epoch: 0,
      modifiedS: timestampS,
      confirmedHeight: 0,
    }
    this.moveWeight(account.representative, -account.balance)
    this.moveWeight(block.representative, block.balance)
    const previous = this.blocks.get(block.previous)
    if (previous !== undefined) previous.successor = hash
    account.chain.push(hash)
    account.representative = block.representative
    account.balance = block.balance
    account.epoch = effect.epoch
    account.modifiedS = timestampS
    this.accounts.set(block.account, account)
    this.blocks.set(hash, {
      hash,
      block,
      account: block.account,
      kind: effect.kind,
      height: account.chain.length,
      balance: block.balance,
      amount: effect.amount,
      epoch: effect.epoch,
      timestampS,
      successor: zeroHash,
      confirmed: false,
      receivedBy: zeroHash,
    })
    if (effect.kind === 'send') {
      this.addReceivable(block.link, {
        hash,
        amount: effect.amount,
        source: block.account,
        epoch: effect.epoch,
      })
    } else if (effect.kind === 'receive') {
      this.removeReceivable(block.account, block.link)
      const source = this.blocks.get(block.link)
      if (source !== undefined) source.receivedBy = hash
    }
  }

  /**
   * Removes an unconfirmed block and all that depend on it: later blocks of the account, and for a send its
   * receive with what follows.
   *
   * @returns the hashes of the removed blocks
   * @throws Error if the block is unknown or confirmed
   */
  rollback(hash: string): string[] {
    const target = this.blocks.get(hash)
    if (target === undefined) throw new Error(`rollback: no block ${hash}`)
    if (target.confirmed) throw new Error(`rollback: block ${hash} is confirmed`)
    const removed: string[] = []
    while (this.blocks.has(hash)) removed.push(...this.rollbackFrontier(target.account))
    return removed
  }

  /**
   * Removes an account's last block and, if it is a send, its receive with what follows.
   *
   * @returns their hashes
   */
  private rollbackFrontier(publicKey: string): string[] {
    const account = this.accounts.get(publicKey)
    const entry = this.blocks.get(account?.chain.at(-1) ?? '')
    if (account === undefined || entry === undefined || entry.block.type !== 'state')
      throw new Error(`rollback: nothing to take from ${publicKey}`)
    const removed: string[] = []
    const block = entry.block
    if (entry.kind === 'send') {
      if (entry.receivedBy !== zeroHash) removed.push(...this.rollback(entry.receivedBy))
      this.removeReceivable(block.link, entry.hash)
    } else if (entry.kind === 'receive') {
      const source = this.blocks.get(block.link)
      if (source === undefined) throw new Error(`rollback: source ${block.link} of ${entry.hash} is missing`)
      source.receivedBy = zeroHash
      this.addReceivable(publicKey, {
        hash: source.hash,
        amount: entry.amount,
        source: source.account,
        epoch: source.epoch,
      })
    }
    this.moveWeight(account.representative, -account.balance)
    account.chain.pop()
    this.blocks.delete(entry.hash)
    const previous = this.blocks.get(block.previous)
    if (previous === undefined) {
      this.accounts.delete(publicKey)
    } else {
      previous.successor = zeroHash
      account.representative = previous.block.representative
      account.balance = previous.balance
      account.epoch = previous.epoch
      account.modifiedS = previous.timestampS
      this.moveWeight(account.representative, account.balance)
    }
    return [...removed, entry.hash]
  }

  /** The blocks that this one depends on: the previous one and, for a receive, the send. */
  dependenciesOf(entry: LedgerBlock): LedgerBlock[] {
    if (entry.block.type !== 'state') return []
    const hashes =
      entry.kind === 'receive' ? [entry.block.previous, entry.block.link] : [entry.block.previous]
    return hashes.map((hash) => this.blocks.get(hash)).filter((dependency) => dependency !== undefined)
  }

  /**
   * Marks a block as confirmed for good (cemented), and before it all blocks that it depends on.
   *
   * @returns the newly confirmed blocks, in the order of confirmation
   * @throws Error if the block is unknown
   */
  cement(hash: string): LedgerBlock[] {
    const target = this.blocks.get(hash)
    if (target === undefined) throw new Error(`confirm: no block ${hash}`)
    const cemented: LedgerBlock[] = []
    const stack = [target]
    for (let entry = stack.at(-1); entry !== undefined; entry = stack.at(-1)) {
      const waiting = this.dependenciesOf(entry).filter((dependency) => !dependency.confirmed)
      if (waiting.length > 0) {
        stack.push(...waiting)
        continue
      }
      stack.pop()
      if (entry.confirmed) continue
      entry.confirmed = true
      this.cementedCount += 1
      const account = this.accounts.get(entry.account)
      if (account !== undefined) account.confirmedHeight = entry.height
      cemented.push(entry)
    }
    return cemented
  }

  private addReceivable(publicKey: string, receivable: Receivable): void {
    const entries = this.receivables.get(publicKey) ?? new Map<string, Receivable>()
    entries.set(receivable.hash, receivable)
    this.receivables.set(publicKey, entries)
  }

  private removeReceivable(publicKey: string, sendHash: string): void {
    const entries = this.receivables.get(publicKey)
    entries?.delete(sendHash)
    if (entries?.size === 0) this.receivables.delete(publicKey)
  }

  /** Adds an amount, which may be below 0, to a representative's voting weight. */
  private moveWeight(representative: string, amount: bigint): void {
    const weight = this.weight(representative) + amount
    if (weight === 0n) this.weights.delete(representative)
    else this.weights.set(representative, weight)
  }
}
