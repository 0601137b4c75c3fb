import { isOpenedBy } from '../../shared/crypto/commitment.ts'
import type { JsonValue } from '../../shared/crypto/canonical-json.ts'
import { verifyInclusion, type PathStep } from '../../shared/crypto/merkle.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import {
  checkKeyChange,
  checkLeaf,
  checkMaking,
  checkOpenedAuthor,
  inCanonicalForm,
  isOfRecord,
  isSignedChange,
  readEntry,
  type AuthorAt,
} from './entries.ts'
import { compareLogs, compareWithHead } from './evidence.ts'
import { Findings, refusal } from './findings.ts'
import {
  connectEntry,
  NO_SUPPORT,
  readCheckpoint,
  readLogProof,
  verifyPlace,
  isSignedLog,
  type Consistency,
  type SignedLog,
  type Support,
} from './light.ts'
import {
  checkSealAlone,
  checkSealLink,
  checkSignature,
  Keyring,
  readSeal,
  sealForkOf,
  type ReadSeal,
} from './seals.ts'
import { memoryOf, seenLog, type Remembered } from './state.ts'
import { isHexHash, isObject, isWhole, memberOf, show, showNumber, type Fields } from './values.ts'
import type { Connection, Doubt } from './verification.ts'
import { say } from './wording.ts'

/** An entry's place in the log of a checkpoint, and whether it is in the one that was seen too. */
type LogPlace = { readonly log: SignedLog; readonly connected: 'same' | 'not_checked' }

/** What a receipt is checked against. */
export interface ReceiptReader {
  readonly pinned: readonly string[]
  readonly remembered: Remembered | undefined
  /** Unix seconds. */
  readonly now: number
  /** The proof that of the log that was seen and the receipt's one goes on from the other; undefined if the caller has none. */
  readonly consistency: Consistency | undefined
}

/** The check of a receipt: every entry under its seal, and its place in the log of a signed checkpoint. */
export class ReceiptCheck {
  readonly findings = new Findings()
  readonly keyring: Keyring
  id: string | null = null
  entriesSealed = 0
  entriesWaiting = 0
  readonly unsignedSeqs: number[] = []
  openings = 0
  readonly authors: AuthorAt[] = []
  /** Its newest checkpoint, and how that stands to the log that was seen; null: none was. */
  log: { signed: SignedLog; connected: Connection | null } | undefined
  support: Support = NO_SUPPORT
  readonly #reader: ReceiptReader
  readonly #entries = new Map<number, LedgerEntry>()
  readonly #seals = new Map<number, ReadSeal>()
  readonly #checkpoints = new Map<number, SignedLog>()
  /** Checkpoints by their text: many entries stand under one. */
  readonly #notes = new Map<string, SignedLog>()
  #lastId = 0
  /** The last entry under a signed seal. */
  #upTo = 0
  /** Up to which of those all are in the log of a checkpoint. */
  #covered = 0
  /** For each entry whose path holds: its seal, and its place in the log if the receipt shows one. */
  readonly #placed: { seal: Seal; place: LogPlace | undefined }[] = []
  /** The seals that lie in what was seen and couldn't be compared with that. */
  readonly #uncompared = new Set<number>()

  /** @param receipt what may be one */
  constructor(receipt: unknown, reader: ReceiptReader) {
    this.#reader = reader
    this.keyring = new Keyring(reader.pinned, reader.remembered?.pubkeys ?? [])
    const read = this.findings.run('receipt', () => readReceipt(receipt))
    if (!read.held) return
    const { id, entries, openings } = read.value
    this.id = id
    for (const item of entries) this.#checkItem(item, id)
    this.#connect()
    if (this.#entries.size === entries.length)
      this.findings.run('receipt', () => checkMaking(id, this.#entries.values()))
    this.#checkSeals()
    for (const opening of openings) this.#checkOpening(opening, id)
  }

  #checkItem(item: Fields, recordId: string): void {
    const { findings } = this
    const shown = item['entry']
    const where = `entry ${showNumber(isObject(shown) ? shown['id'] : undefined)}`
    const read = findings.run(where, () => {
      const entry = readEntry(shown)
      if (entry.id <= this.#lastId) throw refusal('malformed_receipt.order')
      if (!isOfRecord(entry, recordId)) throw refusal('wrong_record.other', show(recordId))
      return entry
    })
    if (!read.held) return
    const entry = read.value
    this.#lastId = entry.id
    this.#entries.set(entry.id, entry)
    if (isSignedChange(entry)) {
      const author = findings.run(where, () => checkKeyChange(entry))
      if (author.held) this.authors.push(author.value)
    }
    if (item['sealed'] !== true) this.entriesWaiting++
    else this.#checkSealed(item, entry, where)
  }

  /** Checks an entry's proof, its seal, and its place in the log. */
  #checkSealed(item: Fields, entry: LedgerEntry, where: string): void {
    const { findings } = this
    const read = findings.run(where, () => readSeal(item['seal']))
    if (!read.held) return
    const { seal } = read.value
    const placed = findings.run(where, () => checkPath(item, entry, read.value))
    if (placed.held) this.entriesSealed++
    this.#checkSeal(read.value, where)
    if (!placed.held) return
    const proof = memberOf(item, 'tlog_proof')
    const inLog =
      proof === undefined
        ? undefined
        : findings.run(where, () => this.#checkLogProof(proof, entry, String(item['leaf']), read.value))
    this.#placed.push({ seal, place: inLog?.held === true ? inLog.value : undefined })
    if (!seal.signed) return
    if (inLog?.held === true && this.#covered === this.#upTo) this.#covered = entry.id
    this.#upTo = entry.id
  }

  /** Checks a seal once, and that the receipt doesn't bring two of one number. */
  #checkSeal(read: ReadSeal, where: string): void {
    const { findings, keyring } = this
    const { seal, payload } = read
    const earlier = this.#seals.get(seal.seq)
    if (earlier !== undefined && earlier.payload !== payload) {
      findings.add(where, 'conflicting_seals', seal.seq)
      findings.fork ??= sealForkOf(earlier, read, keyring)
    } else if (earlier?.seal.signature === seal.signature && earlier.seal.pubkey === seal.pubkey) return
    this.#seals.set(seal.seq, read)
    checkSealAlone(seal, this.#reader.now, findings, `seal ${seal.seq}`)
    if (seal.signed) checkSignature(read, keyring, findings, `seal ${seal.seq}`)
    else this.unsignedSeqs.push(seal.seq)
    this.#compareWithHead(read)
  }

  /** A seal of the remembered head's number must be that very seal. */
  #compareWithHead(read: ReadSeal): void {
    const { remembered, pinned } = this.#reader
    const { seal } = read
    if (remembered === undefined || seal.seq !== remembered.seq) return
    const isOfService = seal.signed ? remembered.pubkeys.includes(seal.pubkey) : pinned.length === 0
    if (isOfService) compareWithHead(this, read, remembered, 'history_rewritten.in_chain')
  }

  /** Checks an entry's place in the log, under a checkpoint that a known key has signed. @throws Refused */
  #checkLogProof(text: unknown, entry: LedgerEntry, leaf: string, { seal }: ReadSeal): LogPlace {
    const proof = readLogProof(text)
    const known = this.#notes.get(proof.checkpoint)
    const log = known ?? readCheckpoint(proof.checkpoint)
    verifyPlace(entry.id, leaf, proof, log)
    // The key of its seal is judged there.
    const keys = seal.signed ? [...this.keyring.accepted, seal.pubkey] : this.keyring.accepted
    if (known === undefined && !isSignedLog(log, keys)) throw refusal('wrong_checkpoint.signer')
    this.#notes.set(proof.checkpoint, log)
    const other = this.#checkpoints.get(log.size)
    if (other !== undefined && other.root !== log.root) throw refusal('log_rewritten.two', log.size)
    this.#checkpoints.set(log.size, log)
    const seen = memoryOf(this.#reader.remembered)?.log
    return { log, connected: connectEntry(entry.id, leaf, proof, log, seen) }
  }

  /** Compares the newest checkpoint with the log that was seen. */
  #connect(): void {
    const { remembered, consistency } = this.#reader
    const seen = seenLog(remembered)
    let newest: SignedLog | undefined
    for (const log of this.#checkpoints.values()) if (log.size > (newest?.size ?? -1)) newest = log
    if (newest !== undefined) {
      const signed = newest
      const connected = seen === undefined ? null : compareLogs(this, 'log', seen, signed, consistency)
      this.log = { signed, connected }
    }
    const isConnected = this.log?.connected === 'same' || this.log?.connected === 'consistent'
    this.support = {
      checkpoints: [...this.#checkpoints.values()],
      covered: this.#covered,
      upTo: this.#upTo,
      madeAt: undefined,
      seenSize: isConnected ? (seen?.size ?? null) : null,
    }
    // What lies in the part of the ledger that was seen here must be what was seen.
    for (const { seal, place } of this.#placed) {
      const isCompared =
        seal.seq === remembered?.seq ||
        place?.connected === 'same' ||
        (isConnected && place?.log.size === newest?.size)
      if (seen !== undefined && seal.to_id <= seen.size && !isCompared) this.#uncompared.add(seal.seq)
    }
  }

  /** Checks what the seals say about each other. */
  #checkSeals(): void {
    const inOrder = [...this.#seals.values()].map(({ seal }) => seal).sort((a, b) => a.seq - b.seq)
    for (const [place, seal] of inOrder.entries()) {
      const previous = inOrder[place - 1]
      if (previous === undefined) continue
      checkSealLink(previous, seal, this.findings, `seal ${seal.seq}`)
      if (seal.seq > previous.seq + 1 && seal.from_id <= previous.to_id)
        this.findings.add(`seal ${seal.seq}`, 'range_gap.within', seal.from_id, previous.seq, previous.to_id)
    }
  }

  #checkOpening(opening: unknown, recordId: string): void {
    const where = `opening of entry ${showNumber(isObject(opening) ? opening['entry_id'] : undefined)}`
    const checked = this.findings.run(where, () => checkOpening(opening, recordId, this.#entries))
    if (!checked.held) return
    this.openings++
    this.authors.push(...checked.value)
  }

  /** Why a receipt without a finding binds nobody. */
  doubts(): Doubt[] {
    const { entriesWaiting: waiting, unsignedSeqs: unsigned, keyring } = this
    const doubts: Doubt[] = []
    if (waiting > 0) doubts.push(waiting === 1 ? say('waiting.one') : say('waiting.many', waiting))
    if (unsigned.length > 0) doubts.push(say('unsigned.named', unsigned.join(' ')))
    if (keyring.trust === 'first_seen' && keyring.seen.size > 0) doubts.push(say('key_unknown.file'))
    if (this.#uncompared.size > 0) doubts.push(say('not_compared.receipt', [...this.#uncompared].join(' ')))
    return doubts
  }
}

/** Reads what may be a receipt. @throws Refused `malformed_receipt` */
function readReceipt(value: unknown): { id: string; entries: Fields[]; openings: unknown[] } {
  if (!isObject(value) || typeof value['id'] !== 'string' || value['id'] === '')
    throw refusal('malformed_receipt.id')
  const { id, entries, openings = [], sealed } = value
  if (!Array.isArray(entries) || entries.length === 0) throw refusal('malformed_receipt.entries')
  if (!entries.every((item) => isObject(item) && typeof item['sealed'] === 'boolean'))
    throw refusal('malformed_receipt.sealed')
  if (sealed !== entries.every((item: Fields) => item['sealed'])) throw refusal('malformed_receipt.whole')
  if (!Array.isArray(openings)) throw refusal('malformed_receipt.openings')
  return { id, entries: entries as Fields[], openings }
}

/** Checks that an entry is in its seal where its index says. @throws Refused */
function checkPath(item: Fields, entry: LedgerEntry, { seal }: ReadSeal): void {
  const { leaf, index, path, seq } = item
  if (seq !== seal.seq) throw refusal('malformed_receipt.seal', show(seq), seal.seq)
  checkLeaf(entry, leaf)
  if (isWhole(index) && seal.from_id + index !== entry.id)
    throw refusal('wrong_index', index, seal.seq, seal.from_id + index)
  checkInclusion({ leaf, path, root: seal.root, index, count: seal.count })
}

/** Checks that a leaf is number `index` of `count` under a root. @throws Refused with the words of verifyInclusion() */
export function checkInclusion({ leaf, path, root, index, count }: Fields): void {
  const isStep = (step: unknown) =>
    isObject(step) && isHexHash(step['hash']) && (step['side'] === 'left' || step['side'] === 'right')
  if (!isHexHash(leaf) || !isHexHash(root) || !Array.isArray(path) || !path.every(isStep))
    throw refusal('malformed_proof')
  const steps = path as PathStep[]
  const verdict = verifyInclusion({ leaf, path: steps, root, index: index as number, count: count as number })
  if (!verdict.ok)
    throw refusal(verdict.reason === 'wrong_root' ? 'wrong_root.path' : verdict.reason, index, count)
}

/**
 * Checks that an opening gives the commitment in its entry, and its author's signature.
 *
 * @returns whose key signed what is opened; none if nobody's
 * @throws Refused
 */
function checkOpening(
  opening: unknown,
  recordId: string,
  entries: ReadonlyMap<number, LedgerEntry>,
): AuthorAt[] {
  const { entry_id: entryId, field, salt, content } = isObject(opening) ? opening : {}
  if (
    !isObject(opening) ||
    typeof field !== 'string' ||
    !isHexHash(salt) ||
    !Object.hasOwn(opening, 'content')
  )
    throw refusal('wrong_opening.form')
  const entry = entries.get(entryId as number)
  if (entry === undefined) throw refusal('wrong_opening.entry')
  const commitment = memberOf(entry.data, field)
  if (!isHexHash(commitment)) throw refusal('wrong_opening.field', show(field))
  if (!inCanonicalForm('wrong_opening.json', () => isOpenedBy(commitment, salt, content as JsonValue)))
    throw refusal('wrong_opening.commitment', show(field))
  // Commitments of earlier versions are to the content alone.
  if (isObject(content) && Object.hasOwn(content, 'id') && content['id'] !== recordId)
    throw refusal('wrong_opening.record', show(content['id']))
  return checkOpenedAuthor(opening, entry)
}

/** Finds the largest checkpoint in a receipt, before anything of it is checked; undefined if it has none. */
export function newestCheckpoint(receipt: unknown): SignedLog | undefined {
  let newest: SignedLog | undefined
  for (const item of itemsIn(receipt)) {
    const read = new Findings().run('', () => readCheckpoint(readLogProof(item['tlog_proof']).checkpoint))
    if (read.held && read.value.size > (newest?.size ?? -1)) newest = read.value
  }
  return newest
}

/** The keys that a receipt's seals name. */
export const keysIn = (receipt: unknown): unknown[] =>
  itemsIn(receipt).map(({ seal }) => (isObject(seal) ? seal['pubkey'] : undefined))

const itemsIn = (receipt: unknown): Fields[] =>
  isObject(receipt) && Array.isArray(receipt['entries']) ? receipt['entries'].filter(isObject) : []
