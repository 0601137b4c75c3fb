import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { announcementContent } from '../announcements/announcement.ts'
import { claimContent, type VerdictRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import type { JsonValue } from '../crypto/canonical-json.ts'
import { openContent } from '../crypto/commitment.ts'
import type { Opening, Receipt, SealedReceiptEntry, WaitingReceiptEntry } from '../crypto/receipt.ts'
import { unavailable } from '../database.ts'
import { withDeadline } from '../deadline.ts'
import { Refusal } from '../errors.ts'
import { MAX_RECEIPT_ENTRIES, RECEIPT_WAIT_MS, RETRY_AFTER_SECONDS } from '../limits.ts'
import { offerContent } from '../market/offer.ts'
import { postContent } from '../posts/post.ts'
import { hex, unixTime } from '../schema.ts'
import { entryView, recordOf, viewEntry, type EntryRecord } from './entry.ts'
import type { EntryKind } from './pending.ts'
import { pathView, proveEntries } from './proofs.ts'
import { sealView, viewSeal, type SealRecord } from './seal.ts'
import { readNextSeal } from './seal-service.ts'

export const receiptView = z.object({
  id: z.string(),
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
      "there where the record has more entries: ask again with `after`, the last one's id; its first one stands on every such page",
    ),
  openings: z
    .array(z.object({ entry_id: z.int().min(1), field: z.string(), salt: hex(64), content: z.json() }))
    .optional()
    .describe('salt and content of the commitments in the entries, for what anyone may read'),
})

/** How often the wait for a number looks again. */
const WAIT_STEP_MS = 100
/** Proofs read at once. */
const PROOFS_AT_ONCE = 16

/**
 * The entries of a record with their proofs and seals: one file that a verifier checks offline. What the record had
 * before it was asked for is in it: a step whose entry has no number yet is waited for, since that takes about a second.
 * Of a record with more than MAX_RECEIPT_ENTRIES they are those after `after`, and its first one, which says what it is.
 *
 * @param after an entry's id; 0 for the beginning
 * @throws Refusal `no_such_record`; `unavailable` where a number doesn't come in time, or the database doesn't answer
 */
export async function makeReceipt(ctx: Context, id: string, after = 0): Promise<Receipt> {
  await untilNumbered(ctx, id)
  // Nobody waits for what takes longer.
  const deadlineMs = performance.now() + ctx.config.requestMs
  const listed = await ctx.entries.listByRecord(id, after, MAX_RECEIPT_ENTRIES + 1)
  const [first] = after === 0 ? listed : await ctx.entries.listByRecord(id, 0, 1)
  if (first === undefined) throw new Refusal('no_such_record', 'No record with this id has entries in the ledger.', { field: 'id' })
  const rest = listed.filter(({ _id }) => _id !== first._id)
  const entries = [first, ...rest.slice(0, MAX_RECEIPT_ENTRIES - 1)]
  const findSeal = rememberSeals(ctx)
  const items: Receipt['entries'][number][] = []
  let nextSealAt: number | undefined
  for (let start = 0; start < entries.length; start += PROOFS_AT_ONCE) {
    if (performance.now() > deadlineMs) throw unavailable()
    const bySeal = new Map<SealRecord | undefined, EntryRecord[]>()
    for (const entry of entries.slice(start, start + PROOFS_AT_ONCE)) {
      const seal = await findSeal(entry._id)
      bySeal.set(seal, [...(bySeal.get(seal) ?? []), entry])
    }
    for (const [seal, own] of bySeal) {
      if (seal === undefined) nextSealAt ??= (await readNextSeal(ctx)).at
      items.push(...(seal === undefined ? own.map((entry) => viewWaiting(entry, nextSealAt ?? 0)) : await prove(ctx, seal, own)))
    }
  }
  const openings = await openEntries(ctx, id, entries)
  return {
    ok: true,
    id,
    sealed: items.every(({ sealed }) => sealed),
    entries: items,
    ...(rest.length < MAX_RECEIPT_ENTRIES ? {} : { truncated: true }),
    ...(openings.length === 0 ? {} : { openings }),
  }
}

const viewWaiting = (entry: EntryRecord, nextSealAt: number): WaitingReceiptEntry => ({
  sealed: false,
  entry: viewEntry(entry),
  next_seal_at: nextSealAt,
})

async function prove(ctx: Context, seal: SealRecord, entries: readonly EntryRecord[]): Promise<SealedReceiptEntry[]> {
  const proofs = await proveEntries(ctx, seal, entries)
  return proofs.map(({ leaf, path, seq, index, entry }) => ({ sealed: true, entry, leaf, seq, index, path, seal: viewSeal(seal) }))
}

/** Neighbouring entries mostly share a seal, so the last one is kept. */
function rememberSeals(ctx: Context): (entryId: number) => Promise<SealRecord | undefined> {
  let last: SealRecord | undefined
  return async (entryId) => {
    if (last === undefined || entryId < last.from_id || entryId > last.to_id) last = await ctx.seals.findCovering(entryId)
    return last
  }
}

/** Waits until all that a record has to say at this moment stands in the ledger. A mark is cleared after its entry is there. */
async function untilNumbered(ctx: Context, id: string): Promise<void> {
  const reading = Promise.all(ctx.entries.pendingCollections().map((collection) => collection.find(id)))
  // A database that is silent is no number to wait for.
  const marks = (await withDeadline(reading, ctx.config.requestMs, unavailable)).flat()
  // A record may carry entries of others.
  let waiting = marks.map(({ source }) => source).filter((source) => recordOf(source) === id)
  const deadlineMs = performance.now() + RECEIPT_WAIT_MS
  while (waiting.length > 0) {
    const numbered = await ctx.entries.findSources(waiting)
    waiting = waiting.filter((source) => !numbered.has(source))
    if (waiting.length === 0) return
    if (performance.now() > deadlineMs)
      throw new Refusal('unavailable', 'The record is stored and a ledger entry of it has no number yet; ask again in a moment.', {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    await sleep(WAIT_STEP_MS)
  }
}

interface Opened {
  field: string
  salt: string
  /** Without the record's id. */
  content: { readonly [key: string]: JsonValue }
}

/** What each kind of entry commits to, where anyone may read it; undefined where it is hidden. A kind that is not here opens for nobody. */
const OPENERS: Partial<Record<EntryKind, (ctx: Context, id: string) => Promise<Opened | undefined>>> = {
  async registration(ctx, id) {
    const agent = await ctx.agents.find(id)
    return agent === undefined ? undefined : { field: 'handle_hash', salt: agent.salt, content: { handle: agent.handle ?? null } }
  },
  async post(ctx, id) {
    const post = await ctx.posts.find(id)
    return post === undefined || post.hidden_at !== undefined
      ? undefined
      : { field: 'content_hash', salt: post.salt, content: postContent(post) }
  },
  async announcement(ctx, id) {
    const announcement = await ctx.announcements.find(id)
    return announcement?.signature === undefined
      ? undefined
      : { field: 'content_hash', salt: announcement.salt, content: announcementContent(announcement) }
  },
  async claim(ctx, id) {
    const claim = await ctx.claims.find(id)
    return claim === undefined ? undefined : { field: 'content_hash', salt: claim.salt, content: claimContent(claim) }
  },
  async offer(ctx, id) {
    const offer = await ctx.offers.find(id)
    return offer === undefined ? undefined : { field: 'content_hash', salt: offer.salt, content: offerContent(offer) }
  },
  async verdict(ctx, id) {
    const verdict = await ctx.claims.models.verdicts.findOne({ _id: id }).lean<VerdictRecord>()
    return verdict === null ? undefined : { field: 'evidence_hash', salt: verdict.salt, content: { evidence: verdict.evidence ?? null } }
  },
}

async function openEntries(ctx: Context, id: string, entries: readonly EntryRecord[]): Promise<Opening[]> {
  const openings: Opening[] = []
  for (const { _id, kind, data } of entries) {
    const opened = await OPENERS[kind]?.(ctx, id)
    if (opened === undefined) continue
    const { field, salt, content } = opened
    openings.push({ entry_id: _id, field, salt, content: openContent(data[field], salt, id, content) })
  }
  return openings
}
