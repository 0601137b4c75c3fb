import { z } from 'zod'
import type { JsonValue } from '../crypto/canonical-json.ts'
import type { LedgerEntry } from '../crypto/receipt.ts'
import { unixTime } from '../schema.ts'
import type { EntryKind, PendingEntry } from './pending.ts'

/** A numbered entry as MongoDB holds it, for ever and unchanged. */
export interface EntryRecord {
  /** The number: 1, 2, 3, … without a gap. */
  _id: number
  /** `<record id>/<step>`, unique. */
  source: string
  /** The record id of `source`, by which receipts are found. */
  record: string
  /** Unix seconds. */
  at: number
  kind: EntryKind
  data: { readonly [key: string]: JsonValue }
}

export const entryView = z.object({
  id: z.int().min(1).describe('contiguous from 1'),
  at: unixTime(),
  kind: z.string(),
  data: z.record(z.string(), z.json() as unknown as z.ZodType<JsonValue, JsonValue>).describe('ids, numbers, times and salted hashes'),
})

/** The published form, which is also what a leaf covers: exactly these four fields. */
export function viewEntry(entry: EntryRecord): LedgerEntry {
  return { id: entry._id, at: entry.at, kind: entry.kind, data: entry.data }
}

/** The record that a source names. */
export function recordOf(source: string): string {
  const slash = source.indexOf('/')
  if (slash < 1) throw new TypeError(`"source" expected <record id>/<step>, got ${JSON.stringify(source)}`)
  return source.slice(0, slash)
}

/** A pending entry with its number. */
export function numberEntry(pending: PendingEntry, id: number): EntryRecord {
  const { source, at, kind, data } = pending
  return { _id: id, source, record: recordOf(source), at, kind, data }
}
