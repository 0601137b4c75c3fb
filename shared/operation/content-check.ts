import { announcementContent, type AnnouncementRecord } from '../announcements/announcement.ts'
import { claimContent, type VerdictRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import { canonicalJson, type JsonValue } from '../crypto/canonical-json.ts'
import { isRecordCommitted } from '../crypto/commitment.ts'
import type { AgentRecord } from '../agents/agent.ts'
import { offerContent, type OfferRecord } from '../market/offer.ts'
import type { OrderRecord } from '../market/order.ts'
import type { PaymentRecord } from '../money/arrival.ts'
import { postContent } from '../posts/post.ts'
import { computeLeaves, type EntryRecord } from '../ledger/entry.ts'
import type { EntryKind } from '../ledger/pending.ts'
import { headOf, type SealRecord } from '../ledger/seal.ts'
import { keyFieldOf, keyState } from '../ledger/agent-keys.ts'
import { isAssets } from '../ledger/assets.ts'
import { createLogTree, type LogTree } from '../crypto/log-tree.ts'
import { KeyEntriesDiffer, type KeyPieces } from '../ledger/key-pieces.ts'
import { logState, readLogFromFullTiles } from '../ledger/log.ts'
import {
  closesSeal,
  closingEntry,
  countFrom,
  countLiabilities,
  parseLiabilities,
  type LiabilityCount,
} from '../ledger/solvency.ts'

/*
 * The chain of seals proves that entries are unchanged since they were sealed. This checks, with each walk
 * over the chain, whether the records that the service shows are those that the entries commit to, whether
 * they have the authors that the entries name, and whether the sums follow from the entries. A fault doesn't
 * break the chain and stops nothing; the operator has to look into it.
 */

type Content = { readonly [key: string]: JsonValue }
interface Stored {
  _id: string
  agent_id?: string
}

/** The salt and the content that open a commitment; salt undefined if the record no longer has it. */
interface Opening {
  salt: string | undefined
  content: Content
}

interface Opener {
  kind: EntryKind
  collection: string
  field: string
  /** Present if only some entries of the kind have this commitment; such entries name no author. */
  isOptional?: true
  /** Several openings if any one of them may open the commitment. */
  open(record: never): Opening | Opening[]
}

/** Makes the `open` of a commitment whose salt is the record's field `salt`. */
const openBySalt =
  <Fields>(contentOf: (fields: Fields) => Content) =>
  (record: Fields & { salt?: string }): Opening => ({ salt: record.salt, content: contentOf(record) })

/** One row for each commitment whose content the service stores with the record that the entry names. */
const OPENERS: readonly Opener[] = [
  {
    kind: 'registration',
    collection: 'agents',
    field: 'handle_hash',
    open: openBySalt(({ handle }: AgentRecord) => ({ handle: handle ?? null })),
  },
  { kind: 'post', collection: 'posts', field: 'content_hash', open: openBySalt(postContent) },
  { kind: 'claim', collection: 'claims', field: 'content_hash', open: openBySalt(claimContent) },
  {
    kind: 'verdict',
    collection: 'verdicts',
    field: 'evidence_hash',
    open: openBySalt(({ evidence }: VerdictRecord) => ({ evidence: evidence ?? null })),
  },
  {
    kind: 'announcement',
    collection: 'announcements',
    field: 'content_hash',
    open: openBySalt((record: AnnouncementRecord) => announcementContent(record)),
  },
  {
    kind: 'operator_act',
    collection: 'operator_acts',
    field: 'content_hash',
    open: openBySalt(({ by, path }: { salt: string; by: string; path: string }) => ({ by, path })),
  },
  { kind: 'offer', collection: 'offers', field: 'content_hash', open: openBySalt(offerContent) },
  {
    kind: 'offer',
    collection: 'offers',
    field: 'addresses_hash',
    open: ({ addresses_salt: salt, payout_addresses }: OfferRecord) => ({
      salt,
      content: { payout_addresses },
    }),
  },
  {
    kind: 'order',
    collection: 'orders',
    field: 'payout_address_hash',
    isOptional: true,
    open: (order: OrderRecord) => ({ salt: order.payout_salt, content: { address: order.payout_address } }),
  },
  {
    kind: 'order',
    collection: 'orders',
    field: 'refund_address_hash',
    isOptional: true,
    open: (order: OrderRecord) => [
      { salt: order.refund_salt, content: { address: order.refund_address ?? null } },
      ...(order.refunds_undone ?? []).map(({ address, salt }) => ({ salt, content: { address } })),
    ],
  },
  {
    kind: 'order',
    collection: 'orders',
    field: 'delivery_hash',
    isOptional: true,
    open: ({ delivery_salt: salt, delivery }: OrderRecord) => ({
      salt,
      content: { delivery: delivery ?? null },
    }),
  },
  {
    kind: 'dispute',
    collection: 'orders',
    field: 'reason_hash',
    isOptional: true,
    open: ({ dispute_salt: salt, dispute_reason: reason }: OrderRecord) => ({
      salt,
      content: { reason: reason ?? null },
    }),
  },
  {
    kind: 'payment',
    collection: 'payments',
    field: 'tx_hash',
    isOptional: true,
    open: openBySalt((payment: PaymentRecord) => ({ tx: payment.undone_tx ?? payment.tx })),
  },
]

/** Changes of agents' keys that are kept in memory until the next closing entry, at most. */
const KEY_CHANGES_AT_ONCE = 2_000
/** Faults described in a sentence each; further ones are only counted. */
const MAX_DESCRIBED = 20

export interface ContentFaults {
  count: number
  /** A sentence for each of the first MAX_DESCRIBED faults. */
  sentences: string[]
}

type CheckContext = Pick<Context, 'database' | 'entries' | 'seals'>

/**
 * Checks numbered entries of the ledger, in order: against the records that they name, and the sums and
 * roots that each closing entry states. It writes nothing.
 *
 * @param range the entries after those of the seal `after`, which were checked before; up to number `upTo`. All if
 *   absent
 * @returns how many faults there are, and sentences for the first of them
 */
export async function findContentFaults(
  ctx: CheckContext,
  { after, upTo }: { after?: SealRecord | undefined; upTo?: number | undefined } = {},
): Promise<ContentFaults> {
  const faults: ContentFaults = { count: 0, sentences: [] }
  const report = (sentence: string): void => {
    if (faults.count++ < MAX_DESCRIBED) faults.sentences.push(sentence)
  }
  const checkClosing = createClosingCheck(ctx, await readStateAfter(ctx, after), report)
  for await (const page of ctx.entries.pages((after?.to_id ?? 0) + 1, upTo)) {
    for (const entry of page) await checkClosing(entry)
    for (const opener of OPENERS) {
      const hasField = ({ data }: EntryRecord) => (data[opener.field] ?? null) !== null
      const committing = page.filter(
        (entry) => entry.kind === opener.kind && (!opener.isOptional || hasField(entry)),
      )
      if (committing.length > 0) await checkRecords(ctx, opener, committing, report)
    }
  }
  return faults
}

/**
 * Reads the records that the entries name, and reports each that doesn't exist, doesn't open its entry's
 * commitment, or has another author than its entry.
 *
 * @param entries entries that have the commitment of the given opener
 */
async function checkRecords(
  ctx: CheckContext,
  { collection, field, open, isOptional }: Opener,
  entries: readonly EntryRecord[],
  report: (sentence: string) => void,
): Promise<void> {
  const ids = entries.map(({ record }) => record)
  const found = await ctx.database.connection
    .collection<Stored>(collection)
    .find(
      { _id: { $in: ids } },
      { readConcern: { level: 'majority' }, projection: { pending: 0 }, batchSize: ids.length + 1 },
    )
    .toArray()
  const records = new Map(found.map((record) => [record._id, record]))
  for (const { _id, record: id, data } of entries) {
    const record = records.get(id)
    if (record === undefined) {
      report(`entry ${_id}: ${id} doesn't exist`)
      continue
    }
    const openings = [open(record as never)].flat()
    if (!openings.some(({ salt, content }) => isRecordCommitted(data[field], id, salt, content)))
      report(`entry ${_id}: ${id} is not what its entry commits to`)
    const { agent_id: author } = record
    if (!isOptional && author !== undefined && author !== data['agent_id'])
      report(`entry ${_id}: ${id} has another author than its entry`)
  }
}

/** What follows from the entries up to the end of a seal, by which the next closing entry is checked. */
interface StateAfter {
  seal: SealRecord | undefined
  count: LiabilityCount
  /** Whether a closing entry before has stated all sums. */
  isWhole: boolean
  log: LogTree
  keys: KeyPieces
}

/** Reads the state after a seal that was checked, with all before it; the empty one before the first. */
async function readStateAfter({ entries }: CheckContext, seal: SealRecord | undefined): Promise<StateAfter> {
  if (seal === undefined) {
    const keys = await entries.readKeyTree(0)
    return { seal, count: countLiabilities(), isWhole: false, log: createLogTree(), keys }
  }
  const { _id: seq, to_id: size } = seal
  const [closing, log, keys] = await Promise.all([
    entries.find(size),
    readLogFromFullTiles(entries, size),
    entries.readKeyTree(size),
  ])
  if (closing === undefined || !closesSeal(closing, seq) || log === undefined)
    throw new Error(`seal ${seq} was verified, and its closing entry or tiles of its log are gone since`)
  const isWhole = parseLiabilities(closing) !== undefined
  return { seal, count: await countFrom(closing, entries.pages), isWhole, log, keys }
}

/**
 * Creates the check of closing entries: whether the sums follow from the entries before, and the seal that is
 * named, the log and the keys are those at the end of the seal before; and whether each seal was signed with
 * the log that its entries give. Entries that can't be added to the sums are reported too.
 *
 * @param state after the entries before the first one
 * @returns a function to call with each further entry, in order; it reports faults
 */
function createClosingCheck(
  { entries, seals }: CheckContext,
  state: StateAfter,
  report: (sentence: string) => void,
) {
  const { log } = state
  let { count, isWhole, keys, seal: previous } = state
  let seq = (previous?._id ?? 0) + 1
  let seal: SealRecord | undefined
  // As they were at the end of the seal before.
  let before = { log: logState(log), keys: keyState(keys) }
  /** Compares what a closing entry states with what follows from the entries before. */
  const checkStated = (entry: EntryRecord): void => {
    const prevSeal = previous === undefined ? null : headOf(previous).payloadHash
    const { assets } = entry.data
    if (isWhole && assets === undefined) report(`entry ${entry._id}: seal ${seq} states no assets any more`)
    isWhole ||= assets !== undefined
    const money = { sums: count.sums(), assets: isAssets(assets) ? assets : undefined }
    const { data: expected } = closingEntry(seq, entry.at, money, { prevSeal, ...before })
    for (const field of ['owed', 'liabilities', 'prev_seal', 'log', 'keys'])
      if (canonicalJson(entry.data[field] ?? null) !== canonicalJson(expected[field] ?? null))
        report(`entry ${entry._id}: seal ${seq} states another "${field}" than the entries before it give`)
  }
  let keyChanges: EntryRecord[] = []
  /** Brings the keys up to entry `toId`. */
  const changeKeys = async (toId: number): Promise<void> => {
    try {
      keys = await keys.with(keyChanges)
    } catch (error) {
      if (!(error instanceof KeyEntriesDiffer)) throw error
      report(error.message)
      keys = await entries.readKeyTree(toId, 'first')
    }
    keyChanges = []
  }
  return async (entry: EntryRecord): Promise<void> => {
    seal ??= await seals.find(seq)
    const { leaves, unreadable } = computeLeaves([entry])
    log.append(leaves)
    if (keyFieldOf(entry.kind) !== undefined) keyChanges.push(entry)
    if (seal?.to_id === entry._id || keyChanges.length === KEY_CHANGES_AT_ONCE) await changeKeys(entry._id)
    if (seal?.to_id !== entry._id) {
      const anomaly = count.add(entry, !unreadable.has(entry))
      if (anomaly !== undefined) report(anomaly)
      return
    }
    if (closesSeal(entry, seq)) {
      checkStated(entry)
      // So that one false sum is one fault.
      const stated = parseLiabilities(entry)
      if (stated !== undefined) count = countLiabilities(stated)
    } else report(`entry ${entry._id} is the last of seal ${seq} and does not close it`)
    previous = seal
    before = { log: logState(log), keys: keyState(keys) }
    if (seal.log_root !== undefined && seal.log_root !== before.log.root)
      report(`seal ${seq} was signed with another log than its entries give`)
    seal = undefined
    seq++
  }
}
