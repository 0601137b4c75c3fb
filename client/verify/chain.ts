import type { KeyForm } from '../../shared/crypto/key-tree.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { checkKeyChange, isSignedChange, keyFieldOf, leafOf, readEntry, showData } from './entries.ts'
import { compareWithHead } from './evidence.ts'
import { Findings, refusal, Refused, unchecked } from './findings.ts'
import { connectLogs, readCheckpoint, type LogHead, type SignedLog, type Support } from './light.ts'
import { LedgerMoney } from './money.ts'
import {
  checkSealAlone,
  checkSealLink,
  checkSignature,
  Keyring,
  readSeal,
  sha256Hex,
  type ReadSeal,
} from './seals.ts'
import { memoryOf, seenLog, type Adoption, type EntriesState, type Memory, type Remembered } from './state.ts'
import { GrowingTree, LedgerKeys, sealNodeHash, type KeyState } from './trees.ts'
import { isHexHash, isObject, isWhole, memberOf, nowSeconds, show, type Fields } from './values.ts'
import type { Doubt } from './verification.ts'
import { say } from './wording.ts'

/*
 * The full check: every seal and every entry, in order. Memory grows with the agents that have keys alone.
 */

/** Where a chain is read from; what it gives may be anything. */
export interface Source {
  /** Every seal after that number. */
  seals(after: number): AsyncIterable<unknown>
  /** Every entry from that number on. */
  entries(from: number): AsyncIterable<unknown>
}

/** How much of a chain is read. */
export interface WalkLimits {
  /** Reads everything, also what was checked before. */
  isFull?: boolean
  maxSeals?: number
  maxEntries?: number
  progress?: ((line: string) => void) | undefined
}

export interface ChainOptions extends WalkLimits {
  remembered: Remembered | undefined
  pinned: readonly string[]
  /** Of a dump: it may end before what is remembered. */
  mayBeOlder?: boolean
  /** Gives Unix seconds: a check may take an hour, and seals are made meanwhile. */
  clock?: () => number
  /** Is given the walk now and then, and if it breaks off, to remember what it has verified. */
  keep?: (walk: ChainWalk) => Promise<void>
}

const KEEP_EVERY_MS = 10_000
const MAX_LISTED = 1_000

/**
 * Verifies a chain, from the remembered head on, unless that head is not there any more: then all of it is
 * read, to say what changed.
 *
 * @throws Unchecked if it can't be read
 */
export async function walkChain(source: Source, options: ChainOptions): Promise<ChainWalk> {
  const memory = memoryOf(options.remembered)
  const { pinned } = options
  const canGoOn =
    options.isFull !== true &&
    memory !== undefined &&
    memory.unsigned === 0 && // an older version didn't count them
    memory.money !== undefined && // nor the liabilities
    memory.chained && // so that the head stands for all seals before it
    (pinned.length === 0 || memory.pubkeys.every((key) => pinned.includes(key)))
  if (canGoOn) {
    const seals = source.seals(memory.seq - 1)[Symbol.asyncIterator]()
    const head = readHead((await seals.next()).value, memory)
    if (head !== undefined) return new ChainWalk(source, options, { memory, head }).run(seals)
  }
  return new ChainWalk(source, options).run(source.seals(0)[Symbol.asyncIterator]())
}

/** The remembered head, as the source shows it; undefined if it shows anything else. */
function readHead(shown: unknown, memory: Memory): ReadSeal | undefined {
  try {
    const read = readSeal(shown)
    const isSame =
      read.seal.signed && read.seal.seq === memory.seq && sha256Hex(read.payload) === memory.payload_hash
    return isSame ? read : undefined
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return undefined // the walk over everything says what is wrong with it
  }
}

/** What the log and the keys were before a seal. */
type Before = { log: LogHead | undefined; keys: { [Form in KeyForm]: KeyState | undefined } }

/** The last signed seal whose entries were all checked, and what follows from them. */
type Checked = { seal: Seal & { signed: true }; payloadHash: string; state: EntriesState }

/** One check of a chain: reads it seal by seal, and checks each with its entries. */
export class ChainWalk {
  readonly findings = new Findings()
  readonly keyring: Keyring
  readonly remembered: Remembered | undefined
  /** The number of the head from which it went on; 0: it read everything. */
  readonly resumedAt: number
  /** The last seal's number. */
  seq = 0
  sealsRead = 0
  signed = 0
  readonly unsignedSeqs: number[] = []
  unsigned = 0
  entriesSealed = 0
  entriesWaiting = 0
  unreadable = 0
  adoptions: Adoption[] = []
  /** The last signed seal. */
  head: { seal: Seal; payloadHash: string } | undefined
  checked: Checked | undefined
  /** The newest checkpoint that was compared with the log. */
  #checkpoint: string | undefined
  /** Checkpoints of others that lie beyond it. */
  heard: readonly string[]
  readonly reader: EntryReader
  readonly #options: ChainOptions
  readonly #clock: () => number
  #previous: { seal: Seal; payloadHash: string } | undefined
  #money = new LedgerMoney()
  #isChained = false
  #isLogged = false
  /** Over all entries so far; undefined after a seal whose entries aren't there, as are the keys. */
  #log: GrowingTree | undefined = new GrowingTree()
  #keys = new LedgerKeys()
  #keepAt = performance.now() + KEEP_EVERY_MS

  constructor(source: Source, options: ChainOptions, from?: { memory: Memory; head: ReadSeal }) {
    this.#options = options
    this.#clock = options.clock ?? nowSeconds
    this.remembered = options.remembered
    this.keyring = new Keyring(options.pinned, options.remembered?.pubkeys ?? [])
    this.reader = new EntryReader(source, options.maxEntries ?? Infinity)
    this.heard = memoryOf(options.remembered)?.heard ?? []
    this.#checkpoint = memoryOf(options.remembered)?.checkpoint
    this.resumedAt = from?.memory.seq ?? 0
    if (from !== undefined) this.#goOn(from.memory, from.head)
  }

  #goOn(memory: Memory, head: ReadSeal): void {
    const { seal } = head
    const where = `seal ${seal.seq}`
    for (const key of memory.pubkeys) this.keyring.seen.add(key)
    checkSealAlone(seal, this.#clock(), this.findings, where)
    checkSignature(head, this.keyring, this.findings, where)
    this.seq = this.signed = seal.seq
    this.head = this.#previous = { seal, payloadHash: memory.payload_hash }
    if (memory.money !== undefined) this.#money = LedgerMoney.from(memory.money)
    this.#isChained = memory.chained
    this.#isLogged = memory.logged
    this.#log = GrowingTree.ofLog(memory.log)
    this.#keys = LedgerKeys.from(memory)
    this.adoptions = [...memory.adoptions]
    this.unreadable = memory.unreadable
    this.entriesSealed = seal.to_id
    this.#setChecked(seal, memory.payload_hash)
  }

  /** Whether closing entries state the log and the keys by now. */
  get isLogged(): boolean {
    return this.#isLogged
  }

  /** The log over all entries under seals; undefined if some aren't there, or nothing states it. */
  get log(): LogHead | undefined {
    return this.#isLogged ? this.#log?.head() : undefined
  }

  /** Root and count of the keys, and whether they were computed from all entries. */
  get keys(): (KeyState & { recomputed: boolean }) | undefined {
    const keys = this.#isLogged ? this.#keys.state() : undefined
    return keys && { ...keys, recomputed: this.#keys.isComputed }
  }

  /**
   * Checks all seals that come, and then what is missing or waiting. If the source breaks off, what was
   * checked up to the last signed seal is kept all the same.
   *
   * @throws Unchecked
   */
  async run(seals: AsyncIterator<unknown>): Promise<this> {
    try {
      for (
        let next = await seals.next();
        next.done !== true && !this.findings.isFull;
        next = await seals.next()
      )
        await this.#checkSeal(next.value)
    } catch (error) {
      await this.#options.keep?.(this)
      throw error
    }
    const { remembered } = this
    if (remembered !== undefined && this.seq < remembered.seq && this.#options.mayBeOlder !== true)
      this.findings.add('chain', 'chain_shortened', this.seq, remembered.seq)
    if (!this.findings.isFull) await this.#countWaiting()
    return this
  }

  /** Checks the next seal of the chain, with its entries. */
  async #checkSeal(shown: unknown): Promise<void> {
    const { findings } = this
    const { maxSeals = Infinity, keep, progress } = this.#options
    const due = this.seq + 1
    // Of this check: a chain that was checked before may be of any length.
    if (this.sealsRead >= maxSeals)
      throw unchecked(keep === undefined ? 'too_long.seals' : 'too_long.seals_kept', maxSeals)
    this.sealsRead++
    this.seq = isObject(shown) && isWhole(shown['seq']) ? shown['seq'] : due
    const where = `seal ${this.seq}`
    const read = findings.run(where, () => readSeal(shown))
    if (!read.held) {
      this.#previous = undefined
      this.#loseCount()
      return
    }
    const { seal, payload } = read.value
    const payloadHash = sha256Hex(payload)
    if (seal.seq !== due) findings.add(where, 'seq_gap', due)
    checkSealAlone(seal, this.#clock(), findings, where)
    if (this.#previous !== undefined) checkSealLink(this.#previous.seal, seal, findings, where)
    if (seal.signed) {
      this.signed++
      this.head = { seal, payloadHash }
      checkSignature(read.value, this.keyring, findings, where)
    } else {
      this.unsigned++
      if (this.unsignedSeqs.length < MAX_LISTED) this.unsignedSeqs.push(seal.seq)
    }
    this.#compareWithHead(read.value, where)
    await this.#checkEntries(seal, where)
    this.#compareWithLog(seal, payloadHash, where)
    if (seal.signed) this.#setChecked(seal, payloadHash)
    this.#previous = { seal, payloadHash }
    progress?.(`seal ${seal.seq}, entry ${seal.to_id}`)
    if (seal.signed && performance.now() > this.#keepAt) {
      await keep?.(this)
      this.#keepAt = performance.now() + KEEP_EVERY_MS
    }
  }

  /** Compares the seal of the remembered head's number with that. */
  #compareWithHead(shown: ReadSeal, where: string): void {
    const { remembered, findings } = this
    if (remembered === undefined || shown.seal.seq !== remembered.seq) return
    if (!shown.seal.signed) findings.add(where, 'signature_withdrawn')
    compareWithHead(this, shown, remembered, 'history_rewritten.payload')
  }

  /**
   * Compares the log up to a seal with the one that was seen, up to the remembered head or to a checkpoint:
   * whatever was rewritten before has another root.
   */
  #compareWithLog(seal: Seal, payloadHash: string, where: string): void {
    const memory = memoryOf(this.remembered)
    if (memory === undefined || this.#log === undefined) return
    const log = this.#log.head()
    const seen = GrowingTree.ofLog(memory.log).head()
    if (seal.seq === memory.seq && payloadHash === memory.payload_hash && seen.root !== log.root)
      this.findings.add(where, 'history_rewritten.entry')
    const shown = memory.checkpoint === undefined ? undefined : readCheckpoint(memory.checkpoint)
    if (shown?.size === seal.to_id) this.findings.run(where, () => connectLogs(shown, log, undefined))
  }

  /** Checks the entries of a seal: their numbers, their root, what they do to the sums, and the closing entry. */
  async #checkEntries(seal: Seal, where: string): Promise<void> {
    const { findings, reader } = this
    const tree = new GrowingTree(sealNodeHash)
    const keys = { 1: this.#keys.state(1), 2: this.#keys.state(2) }
    const before: Before = { log: this.#log?.head(), keys }
    this.#keys.beginSeal()
    let last: LedgerEntry | undefined
    for (let id = seal.from_id; id <= seal.to_id; id++) {
      const taken = await reader.take(id)
      if (taken.kind === 'end') findings.add(where, 'entry_gap.missing', id)
      const read =
        taken.kind === 'end'
          ? undefined
          : findings.run(`entry ${id}`, () => withLeaf(readDue(taken.value, id)))
      if (read?.held !== true) {
        reader.forget()
        this.entriesSealed += tree.count
        this.#loseCount()
        return
      }
      last = read.value.entry
      tree.add(read.value.leaf)
      this.#log?.add(read.value.leaf)
      if (id < seal.to_id) this.#addEntry(last)
      if (tree.count % 10_000 === 0) this.#options.progress?.(`${where}, entry ${id}`)
    }
    this.entriesSealed += tree.count
    if (last === undefined) return
    const { root } = tree.head()
    if (root === seal.root) return this.#checkClosing(last, seal, before, where)
    findings.add(where, 'wrong_root.entries', seal.from_id, seal.to_id, root, seal.root)
    this.#loseCount()
  }

  /** Forgets what follows from all entries, once some of them aren't there. */
  #loseCount(): void {
    this.#money.lose()
    this.#log = undefined
    this.#keys.lose()
  }

  /** Adds to the sums, the adoptions and the keys what an entry says. */
  #addEntry(entry: LedgerEntry): void {
    if (!this.#money.add(entry, this.findings)) this.unreadable++
    this.#listAdoption(entry)
    const field = keyFieldOf(entry.kind)
    if (field !== undefined) this.#addKey(entry, entry.data[field])
  }

  /**
   * Sets the key that an entry changes, and checks its signature: once an agent has an author key, each change
   * of its keys needs one by that.
   */
  #addKey(entry: LedgerEntry, key: unknown): void {
    const { agent_id: agentId, author } = entry.data
    const standing = typeof agentId === 'string' ? this.#keys.get(agentId)?.author_key : undefined
    this.findings.run(`entry ${entry.id}`, () => {
      if (isSignedChange(entry)) checkKeyChange(entry)
      if (standing !== undefined && !(isObject(author) && author['author_key'] === standing))
        throw refusal('wrong_author.standing', standing)
    })
    if (typeof agentId !== 'string' || (key !== null && !isHexHash(key))) return // no key of anybody
    this.#keys.apply(entry)
  }

  #listAdoption(entry: LedgerEntry): void {
    if (entry.kind === 'seal_adoption' && this.adoptions.length < MAX_LISTED)
      this.adoptions.push({ entry_id: entry.id, at: entry.at, data: showData(entry) })
  }

  /** Checks the closing entry of a seal: its sums, the seal before, and the log and the keys before the seal. */
  #checkClosing({ at, kind, data }: LedgerEntry, seal: Seal, before: Before, where: string): void {
    if (kind !== 'solvency' || data['seal'] !== `seal_${seal.seq}` || at !== seal.at) {
      this.findings.add(where, 'wrong_closing', seal.at)
      this.#loseCount()
      return
    }
    this.#money.checkClosing(data, this.findings, where)
    this.#checkPreviousSeal(data, seal, where)
    this.#isLogged ||= data['log'] !== undefined // older ones don't state log and keys
    if (!this.#isLogged) return
    this.#checkStatedLog(data['log'], seal, before, where)
    this.#checkStatedKeys(data['keys'], before, where)
  }

  /**
   * Checks that a closing entry names the payload of the seal before, so that a head commits to all history.
   * Older ones don't name it.
   */
  #checkPreviousSeal(data: LedgerEntry['data'], seal: Seal, where: string): void {
    this.#isChained ||= Object.hasOwn(data, 'prev_seal')
    if (!this.#isChained) return
    const named = memberOf(data, 'prev_seal') ?? null
    const previous = this.#previous?.seal.seq === seal.seq - 1 ? this.#previous.payloadHash : undefined
    const due = seal.seq === 1 ? null : previous
    if (due === undefined ? isHexHash(named) : named === due) return
    const what = due === undefined ? 'the payload hash of a seal' : show(due)
    this.findings.add(where, 'wrong_prev_seal', show(named), what)
  }

  #checkStatedLog(stated: unknown, seal: Seal, { log: own }: Before, where: string): void {
    const isRight =
      isObject(stated) &&
      stated['size'] === seal.from_id - 1 &&
      isHexHash(stated['root']) &&
      (own === undefined || stated['root'] === own.root)
    if (isRight) return
    const due = own === undefined ? `one of size ${seal.from_id - 1}` : show(own)
    this.findings.add(where, 'wrong_log', show(stated), due)
  }

  #checkStatedKeys(stated: unknown, before: Before, where: string): void {
    const { root, count, v: form }: Fields = isObject(stated) ? { v: 1, ...stated } : {}
    const isForm = form === 1 || form === 2
    const own = isForm ? before.keys[form] : undefined
    const isRight = isForm && isWhole(count) && isHexHash(root)
    if (!isRight || (own !== undefined && (root !== own.root || count !== own.count)))
      return this.findings.add(
        where,
        'wrong_keys.state',
        show(stated),
        own === undefined ? 'a root and a count' : show(own),
      )
    if (form < this.#keys.form) return this.findings.add(where, 'wrong_keys.form')
    this.#keys.takeStated(form, { root, count })
  }

  /** Counts the entries behind the last seal, and checks their numbers and their form. */
  async #countWaiting(): Promise<void> {
    let due = (this.#previous?.seal.to_id ?? 0) + 1
    for (
      let taken = await this.reader.take(due);
      taken.kind === 'entry';
      taken = await this.reader.take(due)
    ) {
      const { value } = taken
      const read = this.findings.run(`entry ${due}`, () => this.#listAdoption(readDue(value, due)))
      if (!read.held) return
      this.entriesWaiting++
      due++
      if (this.entriesWaiting % 10_000 === 0) this.#options.progress?.(`unsealed entry ${due}`)
    }
  }

  /** Keeps what follows from all entries up to a signed seal, unless some of them aren't there. */
  #setChecked(seal: Seal, payloadHash: string): void {
    const sums = this.#money.state()
    if (!seal.signed || sums === undefined || this.#log === undefined) return
    const state: EntriesState = {
      ...sums,
      chained: this.#isChained,
      unreadable: this.unreadable,
      adoptions: [...this.adoptions],
      unsigned: this.unsigned,
      logged: this.#isLogged,
      log: this.#log.state(),
      keys: this.#keys.state() ?? null,
      ...(this.#keys.form === 1 ? {} : { key_form: this.#keys.form }),
    }
    this.checked = { seal, payloadHash, state }
  }

  /** Takes a checkpoint that agrees with the log into what is to be remembered, unless it knows a larger one. */
  rememberCheckpoint({ size, note }: SignedLog): void {
    if (this.#checkpoint === undefined || size >= readCheckpoint(this.#checkpoint).size)
      this.#checkpoint = note
  }

  /** What is to be remembered: everything up to the last signed seal that was checked. */
  memory({ seal, payloadHash, state }: Checked): Memory {
    const { seq, at, count, from_id, to_id, root, prev_root, signature, pubkey, algo, signed_at } = seal
    const checkpoint = this.#checkpoint
    return {
      seq,
      payload_hash: payloadHash,
      pubkeys: [...this.keyring.seen],
      checked_at: this.#clock(),
      head: {
        ...{ seq, at, count, from_id, to_id, root, prev_root },
        ...{ signed: true, signature, pubkey, algo, signed_at },
      },
      ...state,
      ...(checkpoint === undefined ? {} : { checkpoint }),
      ...(this.heard.length === 0 ? {} : { heard: this.heard }),
    }
  }

  /** Why a chain without a finding binds nobody. */
  doubts(shown: SignedLog | undefined): Doubt[] {
    const { head, remembered, unsigned, seq } = this
    const doubts: Doubt[] = []
    if (head === undefined) doubts.push(say('no_signed_seal'))
    else if (this.keyring.trust === 'first_seen') doubts.push(say('key_unknown.chain'))
    if (head !== undefined && unsigned > 0)
      doubts.push(unsigned === 1 ? say('unsigned.one') : say('unsigned.many', unsigned))
    const seen = seenLog(remembered)
    const longest = Math.max(head?.seal.to_id ?? 0, shown?.size ?? 0)
    if (this.#options.mayBeOlder === true) {
      if (remembered !== undefined && seq < remembered.seq)
        doubts.push(say('not_compared.dump', seq, remembered.seq))
    } else if (seen !== undefined && seen.size > longest) doubts.push(say('behind', seen.size, longest))
    return doubts
  }

  /** What its verdict can rest on besides the key: the checkpoint that is shown, and what was seen before. */
  support(shown: SignedLog | undefined): Support {
    const { remembered, head } = this
    return {
      checkpoints: shown === undefined ? [] : [shown],
      covered: shown?.size ?? 0,
      upTo: head?.seal.to_id ?? 0,
      madeAt: head?.seal.at,
      seenSize:
        remembered !== undefined && remembered.seq <= this.seq
          ? (memoryOf(remembered)?.head.to_id ?? null)
          : null,
    }
  }
}

/** Reads the entry in the place of `due`. @throws Refused */
function readDue(shown: unknown, due: number): LedgerEntry {
  const entry = readEntry(shown)
  if (entry.id !== due) throw refusal('entry_gap.other', entry.id)
  return entry
}

const withLeaf = (entry: LedgerEntry) => ({ entry, leaf: leafOf(entry) })

/** Gives entries by number from a source that is read forward; begins a new reading only if the numbers jump. */
class EntryReader {
  count = 0
  readonly #source: Source
  readonly #limit: number
  #iterator: AsyncIterator<unknown> | undefined
  #due = 0

  constructor(source: Source, limit: number) {
    this.#source = source
    this.#limit = limit
  }

  /** The entry that comes in the place of `id`. @throws Unchecked beyond the limit */
  async take(id: number): Promise<{ kind: 'entry'; value: unknown } | { kind: 'end' }> {
    if (this.#iterator === undefined || this.#due !== id)
      this.#iterator = this.#source.entries(id)[Symbol.asyncIterator]()
    const { value, done } = await this.#iterator.next()
    this.#due = id + 1
    if (done === true) {
      this.forget()
      return { kind: 'end' }
    }
    if (++this.count > this.#limit) throw unchecked('too_long.entries', this.#limit)
    return { kind: 'entry', value }
  }

  /** Begins a new reading with the next entry. */
  forget(): void {
    this.#iterator = undefined
  }
}
