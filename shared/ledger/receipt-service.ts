import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { announcementContent } from '../announcements/announcement.ts'
import { claimContent, type VerdictRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import type { JsonValue } from '../crypto/canonical-json.ts'
import type { Opening, Receipt } from '../crypto/receipt.ts'
import { Refusal } from '../errors.ts'
import { RECEIPT_WAIT_MS, RETRY_AFTER_SECONDS } from '../limits.ts'
import { offerContent } from '../market/offer.ts'
import { postContent } from '../posts/post.ts'
import { hex, unixTime } from '../schema.ts'
import { entryView, viewEntry, type EntryRecord } from './entry.ts'
import type { EntryKind } from './pending.ts'
import { pathView, proveEntry } from './proofs.ts'
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
 * Every entry of a record with its proof and its seal: one file that a verifier checks offline. A record whose entry
 * has no number yet is waited for, since that takes about a second.
 *
 * @throws Refusal `no_such_record`; `unavailable` where the number doesn't come in time
 */
export async function makeReceipt(ctx: Context, id: string): Promise<Receipt> {
  const entries = await findEntries(ctx, id)
  const findSeal = rememberSeals(ctx)
  const items: Receipt['entries'][number][] = []
  let nextSealAt: number | undefined
  for (let start = 0; start < entries.length; start += PROOFS_AT_ONCE) {
    const group = entries.slice(start, start + PROOFS_AT_ONCE)
    const seals: (SealRecord | undefined)[] = []
    for (const entry of group) seals.push(await findSeal(entry._id))
    if (seals.includes(undefined)) nextSealAt ??= (await readNextSeal(ctx)).at
    items.push(...(await Promise.all(group.map((entry, place) => makeItem(ctx, entry, seals[place], nextSealAt ?? 0)))))
  }
  const openings = await openEntries(ctx, id, entries)
  return { ok: true, id, sealed: items.every(({ sealed }) => sealed), entries: items, ...(openings.length === 0 ? {} : { openings }) }
}

async function makeItem(
  ctx: Context,
  entry: EntryRecord,
  seal: SealRecord | undefined,
  nextSealAt: number,
): Promise<Receipt['entries'][number]> {
  if (seal === undefined) return { sealed: false, entry: viewEntry(entry), next_seal_at: nextSealAt }
  const { leaf, path, seq, index, entry: proven } = await proveEntry(ctx, seal, entry._id - seal.from_id)
  return { sealed: true, entry: proven, leaf, seq, index, path, seal: viewSeal(seal) }
}

/** Neighbouring entries mostly share a seal, so the last one is kept. */
function rememberSeals(ctx: Context): (entryId: number) => Promise<SealRecord | undefined> {
  let last: SealRecord | undefined
  return async (entryId) => {
    if (last === undefined || entryId < last.from_id || entryId > last.to_id) last = await ctx.seals.findCovering(entryId)
    return last
  }
}

async function findEntries(ctx: Context, id: string): Promise<EntryRecord[]> {
  const deadline = performance.now() + RECEIPT_WAIT_MS
  for (;;) {
    const entries = await ctx.entries.listByRecord(id)
    if (entries.length > 0) return entries
    const waiting = await Promise.all(ctx.entries.pendingCollections().map((collection) => collection.find(id)))
    if (waiting.every((pending) => pending.length === 0)) {
      // The mark may have been cleared between the two looks; then the entry is there.
      const late = await ctx.entries.listByRecord(id)
      if (late.length > 0) return late
      throw new Refusal('no_such_record', 'No record with this id has entries in the ledger.', { field: 'id' })
    }
    if (performance.now() > deadline)
      throw new Refusal('unavailable', 'The record is stored and its ledger entry has no number yet; ask again in a moment.', {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    await sleep(WAIT_STEP_MS)
  }
}

interface Opened {
  field: string
  salt: string
  content: JsonValue
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
  for (const { _id, kind } of entries) {
    const opened = await OPENERS[kind]?.(ctx, id)
    if (opened !== undefined) openings.push({ entry_id: _id, ...opened })
  }
  return openings
}
