import { z } from 'zod'
import { canonicalJson, type JsonValue } from '../crypto/canonical-json.ts'
import { hashLeafTexts } from '../crypto/merkle.ts'
import type { LedgerEntry } from '../crypto/receipt.ts'
import { number, opaque, text, textOf, type RecordOf } from '../platform/fields.ts'
import { jsonValue, unixTime } from '../platform/schema.ts'
import type { EntryKind, PendingEntry } from './pending.ts'

/** A numbered entry as MongoDB holds it, for ever and unchanged. */
export const entryFields = {
  /** The number: 1, 2, 3, … without a gap. */
  _id: number,
  /** `<record id>/<step>`, unique. */
  source: text,
  /** The record id of `source`, by which receipts are found. */
  record: text,
  /** Unix seconds. */
  at: number,
  kind: textOf<EntryKind>(),
  data: opaque<{ readonly [key: string]: JsonValue }>(),
}
export type EntryRecord = RecordOf<typeof entryFields>

export const entryView = z
  .object({
    id: z.int().min(1).describe('contiguous from 1'),
    at: unixTime(),
    kind: z.string(),
    data: z
      .record(z.string(), jsonValue as z.ZodType<JsonValue, JsonValue>)
      .describe('ids, numbers, times and salted hashes'),
  })
  .meta({ id: 'Entry' })

/** The published kind of an entry without canonical JSON: somebody wrote it past the sequencer. */
const UNREADABLE = 'unreadable'

/**
 * Returns an entry as it is published and as its leaf covers it: exactly these four fields. A stored entry
 * whose content isn't valid is published with the kind `unreadable`, empty data, and its time if it has one
 * (else 0), so that one bad entry stops neither sealing nor reading.
 */
export function viewEntry(entry: EntryRecord): LedgerEntry {
  const { _id: id, at, kind, data } = entry
  return isReadable(entry)
    ? { id, at, kind, data }
    : { id, at: isTime(at) ? at : 0, kind: UNREADABLE, data: {} }
}

/**
 * Whether a stored entry, numbered or pending, can be published with its content: `at` is a time, kind and
 * data have canonical JSON, and it isn't too long.
 */
export const isReadable = (entry: MaybeEntry): boolean => canonicalContent(entry) !== undefined

/**
 * Computes the leaf of each entry from its published form.
 *
 * @returns the leaves (32 bytes each) side by side, and the entries that are published as `unreadable`
 */
export function computeLeaves(entries: readonly EntryRecord[]): {
  leaves: Buffer
  unreadable: ReadonlySet<EntryRecord>
} {
  const unreadable = new Set<EntryRecord>()
  const texts = entries.map((entry) => {
    const content = canonicalContent(entry)
    if (content !== undefined)
      return `{"at":${entry.at},"data":${content.data},"id":${entry._id},"kind":${content.kind}}`
    unreadable.add(entry)
    return canonicalJson(viewEntry(entry))
  })
  return { leaves: hashLeafTexts(texts), unreadable }
}

interface MaybeEntry {
  at?: unknown
  kind?: unknown
  data?: unknown
}

/** Canonical JSON of kind and data; undefined if the entry can't be published, or is too long. */
function canonicalContent({ at, kind, data }: MaybeEntry): { kind: string; data: string } | undefined {
  if (!isTime(at) || typeof kind !== 'string' || !kind.isWellFormed()) return undefined
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return undefined
  try {
    const content = { kind: canonicalJson(kind), data: canonicalJson(data) }
    const bytes = BESIDE_CONTENT + Buffer.byteLength(content.kind) + Buffer.byteLength(content.data)
    return bytes <= MAX_ENTRY_BYTES ? content : undefined
  } catch {
    return undefined
  }
}

/** Without id and time. In the log an entry's length has two bytes (C2SP tlog-tiles, "Log entries"). */
const MAX_ENTRY_BYTES = 65_000
const BESIDE_CONTENT = '{"data":,"kind":}'.length

const isTime = (at: unknown): boolean => Number.isSafeInteger(at) && (at as number) >= 0

/** The record id in a source, `<record id>/<step>`. @throws TypeError if it has none */
export function recordOf(source: string): string {
  const slash = source.indexOf('/')
  if (slash < 1) throw new TypeError(`"source" expected <record id>/<step>, got ${JSON.stringify(source)}`)
  return source.slice(0, slash)
}

export function numberEntry(pending: PendingEntry, id: number): EntryRecord {
  const { source, at, kind, data } = pending
  return { _id: id, source, record: recordOf(source), at, kind, data }
}
