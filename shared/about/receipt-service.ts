import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { authorOf, authorView } from '../agents/authorship.ts'
import { isAgentHidden } from '../agents/agent.ts'
import { announcementContent } from '../announcements/announcement.ts'
import { claimContent, type VerdictRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import type { Authorship } from '../crypto/author.ts'
import type { JsonValue } from '../crypto/canonical-json.ts'
import { bindContent } from '../crypto/commitment.ts'
import type { Opening, Receipt, SealedReceiptEntry, WaitingReceiptEntry } from '../crypto/receipt.ts'
import { tookTooLong, unavailable } from '../platform/database.ts'
import { omitUndefined } from '../platform/omit-undefined.ts'
import { withDeadline } from '../platform/deadline.ts'
import { Refusal } from '../platform/errors.ts'
import { throwIfOver } from '../platform/scope.ts'
import type { Hideable } from '../ledger/hidden.ts'
import { MAX_RECEIPT_ENTRIES, RECEIPT_WAIT_MS, RETRY_AFTER_SECONDS } from '../platform/limits.ts'
import { offerContent } from '../market/offer.ts'
import { postContent } from '../posts/post.ts'
import { hex, jsonValue, unixTime, wordView } from '../platform/schema.ts'
import { entryView, recordOf, viewEntry, type EntryRecord } from '../ledger/entry.ts'
import type { EntryKind } from '../ledger/pending.ts'
import { createLogProofFormatter } from '../ledger/log-service.ts'
import { pathView, proveEntries } from '../ledger/proofs.ts'
import { sealView, viewSeal, type SealRecord } from '../ledger/seal.ts'
import { readNextSeal } from '../ledger/seal-service.ts'

type ReceiptContext = Pick<
  Context,
  'config' | 'agents' | 'posts' | 'claims' | 'offers' | 'announcements' | 'entries' | 'seals' | 'now'
>

export const receiptView = z.object({
  id: wordView(),
  sealed: z.boolean().describe('true when every entry stands under a seal'),
  entries: z.array(
    z.union([
      z.object({
        sealed: z.literal(true),
        entry: entryView,
        leaf: hex(64),
        seq: z.int().min(1),
        index: z.int().min(0),
        path: pathView,
        seal: sealView,
        tlog_proof: z
          .string()
          .optional()
          .describe(
            'its place in the log of all entries, with the signed checkpoint, as c2sp.org/tlog-proof@v1; absent before one covers it',
          ),
      }),
      z.object({
        sealed: z.literal(false),
        entry: entryView,
        next_seal_at: unixTime().describe('when the next seal is due, not a promise'),
      }),
    ]),
  ),
  truncated: z
    .literal(true)
    .optional()
    .describe(
      "there if the record has more entries: ask again with `after`, the last one's id; its first one stands on every such page",
    ),
  openings: z
    .array(
      z.object({
        entry_id: z.int().min(1),
        field: z.string(),
        salt: hex(64),
        content: jsonValue,
        author: authorView.optional(),
      }),
    )
    .optional()
    .describe('salt and content of the commitments in the entries, for what anyone may read'),
})

/** Pause in milliseconds between two looks for an entry's number. */
const WAIT_STEP_MS = 100
const PROOFS_AT_ONCE = 16

/**
 * Returns the receipt of a record: its entries with their proofs and seals, which a verifier checks offline.
 * It has an entry for every step that was taken before the call; if an entry has no number yet, which takes
 * about a second, the call waits for it. A receipt has at most MAX_RECEIPT_ENTRIES: the record's first entry,
 * which says what it is, and those after `after`.
 *
 * @param id the record's id
 * @param after an entry's id; 0 for the beginning
 * @throws Refusal `no_such_record` if no entry is about this record; `unavailable` if an entry gets no number
 *   in time, the receipt takes longer than a request may, or the database doesn't answer
 */
export async function makeReceipt(ctx: ReceiptContext, id: string, after = 0): Promise<Receipt> {
  await waitUntilNumbered(ctx, id)
  const listed = await ctx.entries.listByRecord(id, after, MAX_RECEIPT_ENTRIES + 1)
  const [first] = after === 0 ? listed : await ctx.entries.listByRecord(id, 0, 1)
  if (first === undefined)
    throw new Refusal('no_such_record', 'No record with this id has entries in the ledger.', { field: 'id' })
  const rest = listed.filter(({ _id }) => _id !== first._id)
  const entries = [first, ...rest.slice(0, MAX_RECEIPT_ENTRIES - 1)]
  const hasMore = rest.length >= MAX_RECEIPT_ENTRIES
  return proveAll(ctx, id, entries, hasMore)
}

/**
 * Makes the receipt of these entries, with a proof for each that is under a seal. Throws if the request's
 * time is over before it is done.
 */
async function proveAll(
  ctx: ReceiptContext,
  id: string,
  entries: readonly EntryRecord[],
  hasMore: boolean,
): Promise<Receipt> {
  // A request that takes longer is over.
  const deadlineMs = performance.now() + ctx.config.requestMs
  const findSeal = createSealFinder(ctx)
  const formatLogProofs = await createLogProofFormatter(ctx)
  const items: Receipt['entries'][number][] = []
  let nextSealAt: number | undefined
  for (let start = 0; start < entries.length; start += PROOFS_AT_ONCE) {
    throwIfOver()
    if (performance.now() > deadlineMs) throw tookTooLong()
    const bySeal = new Map<SealRecord | undefined, EntryRecord[]>()
    for (const entry of entries.slice(start, start + PROOFS_AT_ONCE)) {
      const seal = await findSeal(entry._id)
      bySeal.set(seal, [...(bySeal.get(seal) ?? []), entry])
    }
    for (const [seal, covered] of bySeal) {
      if (seal !== undefined) {
        items.push(...(await proveUnderSeal(ctx, seal, covered, formatLogProofs)))
        continue
      }
      const dueAt = (nextSealAt ??= (await readNextSeal(ctx)).at)
      items.push(...covered.map((entry) => viewUnsealed(entry, dueAt)))
    }
  }
  const openings = await readOpenings(ctx, id, entries)
  return {
    ok: true,
    id,
    sealed: items.every(({ sealed }) => sealed),
    entries: items,
    ...(hasMore ? { truncated: true } : {}),
    ...(openings.length === 0 ? {} : { openings }),
  }
}

/**
 * Returns an entry that no seal covers yet, as a receipt has it.
 *
 * @param nextSealAt when the next seal is due, in Unix seconds
 */
const viewUnsealed = (entry: EntryRecord, nextSealAt: number): WaitingReceiptEntry => ({
  sealed: false,
  entry: viewEntry(entry),
  next_seal_at: nextSealAt,
})

/**
 * Proves entries that the given seal covers: by a path to its root, and by a proof in the log if there is
 * one.
 */
async function proveUnderSeal(
  ctx: ReceiptContext,
  seal: SealRecord,
  entries: readonly EntryRecord[],
  formatLogProofs: Awaited<ReturnType<typeof createLogProofFormatter>>,
): Promise<SealedReceiptEntry[]> {
  const proofs = await proveEntries(ctx, seal, entries)
  const logProofs = await formatLogProofs(entries)
  return proofs.map(({ leaf, path, seq, index, entry }, position) => {
    const logProof = omitUndefined({ tlog_proof: logProofs[position] })
    return { sealed: true, entry, leaf, seq, index, path, seal: viewSeal(seal), ...logProof }
  })
}

/**
 * Creates a function that reads the seal that covers an entry, or undefined if none does yet. It remembers
 * the last seal, which mostly covers the next entry too.
 */
function createSealFinder(ctx: ReceiptContext): (entryId: number) => Promise<SealRecord | undefined> {
  let last: SealRecord | undefined
  return async (entryId) => {
    if (last === undefined || entryId < last.from_id || entryId > last.to_id)
      last = await ctx.seals.findCovering(entryId)
    return last
  }
}

/**
 * Waits until all pending entries that a record has at this moment are in the ledger. A pending entry is
 * removed from its record only after it has been numbered.
 *
 * @throws Refusal `unavailable` after RECEIPT_WAIT_MS, or if the database doesn't answer
 */
async function waitUntilNumbered(ctx: ReceiptContext, id: string): Promise<void> {
  const reading = Promise.all(ctx.entries.pendingCollections().map((collection) => collection.find(id)))
  // If the database doesn't answer, there is nothing to wait for.
  const pending = (await withDeadline(reading, ctx.config.requestMs, unavailable)).flat()
  // A record may also carry pending entries about other records.
  let waiting = pending.map(({ source }) => source).filter((source) => recordOf(source) === id)
  const deadlineMs = performance.now() + RECEIPT_WAIT_MS
  while (waiting.length > 0) {
    throwIfOver()
    const numbered = await ctx.entries.findSources(waiting)
    waiting = waiting.filter((source) => !numbered.has(source))
    if (waiting.length === 0) return
    if (performance.now() > deadlineMs)
      throw new Refusal(
        'unavailable',
        'The record is stored, but one of its ledger entries has no number yet; ask again in a moment.',
        { retryAfterSeconds: RETRY_AFTER_SECONDS },
      )
    await sleep(WAIT_STEP_MS)
  }
}

/** What opens the commitment in an entry's field `field`. */
interface PublicContent {
  field: string
  salt: string
  /** The content without the record's id. */
  content: { readonly [key: string]: JsonValue }
  author?: Authorship
}

/**
 * For each kind of entry whose content is public: reads by the record's id what the entry commits to, or
 * undefined if that is hidden. Commitments of other kinds are never opened.
 */
const OPENERS: Partial<
  Record<EntryKind, (ctx: ReceiptContext, id: string) => Promise<PublicContent | undefined>>
> = {
  async registration(ctx, id) {
    const agent = await ctx.agents.find(id)
    return agent === undefined || isAgentHidden(agent)
      ? undefined
      : { field: 'handle_hash', salt: agent.salt, content: { handle: agent.handle ?? null } }
  },
  post: (ctx, id) => openUnlessHidden(ctx, ctx.posts.find(id), postContent),
  async announcement(ctx, id) {
    const announcement = await ctx.announcements.find(id)
    return announcement?.signature === undefined
      ? undefined
      : { field: 'content_hash', salt: announcement.salt, content: announcementContent(announcement) }
  },
  claim: (ctx, id) => openUnlessHidden(ctx, ctx.claims.find(id), claimContent),
  offer: (ctx, id) => openUnlessHidden(ctx, ctx.offers.find(id), offerContent),
  async verdict(ctx, id) {
    const verdict = await ctx.claims.models.verdicts.findOne({ _id: id }).lean<VerdictRecord>()
    if (verdict === null) return undefined
    const content = { evidence: verdict.evidence ?? null }
    return { field: 'evidence_hash', salt: verdict.salt, content, ...authorOf(verdict) }
  },
}

/** Returns what opens a record's `content_hash`; undefined if there is no record, or it is hidden. */
async function openUnlessHidden<
  Stored extends Hideable & { agent_id: string; salt: string; author?: Authorship },
>(
  ctx: ReceiptContext,
  reading: Promise<Stored | undefined>,
  contentOf: (record: Stored) => PublicContent['content'],
): Promise<PublicContent | undefined> {
  const record = await reading
  if (record === undefined || (await isHidden(ctx, record))) return undefined
  return { field: 'content_hash', salt: record.salt, content: contentOf(record), ...authorOf(record) }
}

/** Whether a record is hidden, by itself or by its author's ban. */
async function isHidden(ctx: ReceiptContext, record: Hideable & { agent_id: string }): Promise<boolean> {
  return record.hidden_at !== undefined || (await ctx.agents.find(record.agent_id))?.ban_hides === true
}

/** Reads the openings of those entries of a record whose content is public and not hidden. */
async function readOpenings(
  ctx: ReceiptContext,
  id: string,
  entries: readonly EntryRecord[],
): Promise<Opening[]> {
  const openings: Opening[] = []
  for (const { _id, kind } of entries) {
    const opened = await OPENERS[kind]?.(ctx, id)
    if (opened === undefined) continue
    const { field, salt, content } = opened
    openings.push({ entry_id: _id, field, salt, content: bindContent(id, content), ...authorOf(opened) })
  }
  return openings
}
