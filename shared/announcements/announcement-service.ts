import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { Context } from '../context.ts'
import { commitRecord, isRecordCommitted } from '../crypto/commitment.ts'
import { ed25519Sign } from '../crypto/ed25519.ts'
import { invalidField } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import type { EntryRecord } from '../ledger/entry.ts'
import { newSalt } from '../ledger/pending.ts'
import { refuseCopy } from '../platform/copy.ts'
import { SealError } from '../ledger/seal.ts'
import { openSigner, requireSealMemory, type Signer } from '../ledger/signer.ts'
import { findTimeFault } from '../ledger/signing-rules.ts'
import { rememberSignedAnnouncement } from '../ledger/signed-announcements.ts'
import { performStep, type WatchStep } from '../platform/step.ts'
import {
  MAX_ANNOUNCEMENT_AGE_MS,
  MAX_ANNOUNCEMENT_LENGTH,
  MAX_KIND_LENGTH,
  RECEIPT_WAIT_MS,
} from '../platform/limits.ts'
import { text } from '../platform/schema.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { announcementContent, announcementPayload, type AnnouncementRecord } from './announcement.ts'

type AnnouncementContext = Pick<
  Context,
  'config' | 'log' | 'metrics' | 'database' | 'queues' | 'announcements' | 'entries' | 'now'
>

const announcementFields = z.object({
  kind: z
    .string()
    .regex(
      new RegExp(`^[a-z0-9_-]{1,${MAX_KIND_LENGTH}}$`),
      `expected 1 to ${MAX_KIND_LENGTH} characters of a-z, 0-9, _ and -`,
    ),
  text: text({ min: 1, max: MAX_ANNOUNCEMENT_LENGTH }),
})

export type AnnouncementFields = z.output<typeof announcementFields>

/**
 * Validates an announcement and returns its fields. @throws Refusal `invalid_field`, naming the field at
 * fault
 */
export function checkAnnouncement(fields: AnnouncementFields): AnnouncementFields {
  const result = announcementFields.safeParse(fields)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const field = String(issue?.path[0] ?? 'text')
  throw invalidField(field, `${field}: ${issue?.message ?? 'not usable'}.`)
}

/**
 * Stores an announcement with its ledger entry in one insert, and enqueues its signing by the worker that has
 * the seal key. It is listed once it is signed. If the job is lost, the sweep enqueues it again.
 *
 * @returns the announcement, without a signature
 * @throws Refusal `invalid_field`, naming the field at fault
 */
export async function announce(
  ctx: AnnouncementContext,
  fields: AnnouncementFields,
): Promise<AnnouncementRecord> {
  const id = newId('announcement')
  const at = unixSeconds(ctx.now())
  const salt = newSalt()
  const { kind, text } = checkAnnouncement(fields)
  const announcement: AnnouncementRecord = {
    _id: id,
    at,
    kind,
    text,
    salt,
    pending: [
      {
        source: entrySource(id),
        at,
        kind: 'announcement',
        data: {
          announcement_id: id,
          content_hash: commitRecord(id, salt, announcementContent({ kind, text })),
        },
      },
    ],
  }
  await ctx.announcements.insert(announcement)
  await enqueueAnnouncement(ctx, id)
  return announcement
}

/** Enqueues the signing of announcements that have no signature yet, up to UNSIGNED_AT_ONCE of them. */
export async function enqueueUnsignedAnnouncements(ctx: AnnouncementContext): Promise<number> {
  const unsigned = await ctx.announcements.listUnsigned(UNSIGNED_AT_ONCE)
  for (const id of unsigned) await enqueueAnnouncement(ctx, id)
  return unsigned.length
}

const UNSIGNED_AT_ONCE = 100

/** Enqueues the signing of one announcement; while its job waits, no second one is added. */
async function enqueueAnnouncement(ctx: AnnouncementContext, id: string): Promise<void> {
  await ctx.queues.enqueue('sign-announcement', { announcement_id: id }, { debounceId: id })
}

/**
 * Signs one announcement with the seal key, if it has no signature yet. Anyone with write access to the
 * database could add a document, so the document alone isn't trusted: a numbered ledger entry must commit to
 * it, and its time must be recent. Each id is signed for one text only: the text is remembered in the file of
 * the seal memory before it is signed.
 *
 * @returns true if it was signed; false if this process has no key, if there is nothing to sign, or if the
 *   announcement must not be signed, which is logged and counted as an anomaly
 * @param watch for tests: called before and after each write
 * @throws Error if its entry still has no number after RECEIPT_WAIT_MS; what openSigner() throws
 */
export async function signAnnouncement(
  ctx: AnnouncementContext,
  id: string,
  watch?: WatchStep,
): Promise<boolean> {
  const announcement = await ctx.announcements.find(id)
  if (
    ctx.config.secrets.sealKeyFile === undefined ||
    announcement === undefined ||
    announcement.signature !== undefined
  )
    return false
  const entry = await waitForEntry(ctx, id)
  const signer = await waitForSigner(ctx, watch)
  if (signer === undefined) return false
  try {
    await refuseCopy(ctx.database.connection, `${id} is not signed`)
    requireSealMemory(signer)
    requireCommitted(announcement, entry)
    const timeFault = findTimeFault(announcement.at, ctx.now(), ctx.database.now())
    if (timeFault !== undefined) {
      ctx.metrics.countAnomaly('clock')
      throw new SealError(`${id} is not signed: ${timeFault.sentence}`)
    }
    if (unixSeconds(ctx.now()) - announcement.at > MAX_ANNOUNCEMENT_AGE_MS / SECOND_MS)
      throw new SealError(
        `${id} is not signed: its time ${announcement.at} is too long ago; announce it again`,
      )
    const payload = announcementPayload(announcement)
    await rememberSignedAnnouncement(signer.memoryFile, id, payload, watch)
    const signature = Buffer.from(ed25519Sign(payload, signer.key)).toString('base64')
    return await performStep(watch, 'announcement', () =>
      ctx.announcements.setSignature(id, { signature, pubkey: signer.pubkey }),
    )
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    ctx.metrics.countAnomaly('announcement')
    ctx.log.error({ announcement_id: id, err: error }, 'an announcement is not signed')
    return false
  } finally {
    signer.memory.close()
  }
}

/**
 * Waits for the announcement's entry to get a number, which takes about a second, and returns the entry.
 *
 * @throws Error after RECEIPT_WAIT_MS
 */
async function waitForEntry(ctx: AnnouncementContext, id: string): Promise<EntryRecord> {
  const deadlineMs = performance.now() + RECEIPT_WAIT_MS
  for (;;) {
    const entry = await ctx.entries.findBySource(entrySource(id))
    if (entry !== undefined) return entry
    if (performance.now() > deadlineMs)
      throw new Error(`${id} is not signed yet: its ledger entry has no number`)
    await sleep(WAIT_STEP_MS)
  }
}

/**
 * Opens the signer, waiting for the lock of the seal memory, which another job holds for a moment while it
 * signs seals.
 *
 * @returns undefined if there is no key, or another still holds the memory after RECEIPT_WAIT_MS
 */
async function waitForSigner(
  ctx: AnnouncementContext,
  watch: WatchStep | undefined,
): Promise<Signer | undefined> {
  const deadlineMs = performance.now() + RECEIPT_WAIT_MS
  for (;;) {
    const opened = openSigner(ctx.config, watch)
    if (opened.kind === 'open') return opened.signer
    if (opened.kind === 'no_key' || performance.now() > deadlineMs) return undefined
    await sleep(WAIT_STEP_MS)
  }
}

const WAIT_STEP_MS = 100

/** @throws SealError unless the ledger entry commits to the announcement and has the same time */
function requireCommitted(announcement: AnnouncementRecord, { kind, at, data, _id }: EntryRecord): void {
  const isCommitted =
    kind === 'announcement' &&
    at === announcement.at &&
    data['announcement_id'] === announcement._id &&
    isRecordCommitted(
      data['content_hash'],
      announcement._id,
      announcement.salt,
      announcementContent(announcement),
    )
  if (!isCommitted)
    throw new SealError(`${announcement._id} is not signed: its entry ${_id} does not commit to it`)
}

/** Returns the source that identifies an announcement's ledger entry. */
const entrySource = (id: string): string => `${id}/announcement`
