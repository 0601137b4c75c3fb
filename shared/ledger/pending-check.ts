import { isReadable } from './entry.ts'
import { ENTRY_KINDS, type EntryKind, type PendingEntry } from './pending.ts'

/**
 * Kinds of entries that have one place, the collection whose records may have them pending; a seal's closing
 * entry is never pending. But for the journal, the API's database user can't write these collections (docs on
 * least privilege).
 */
const HOMES: Partial<Record<EntryKind, string | null>> = {
  solvency: null,
  seal_adoption: 'seal_adoptions',
  announcement: 'announcements',
  operator_act: 'operator_acts',
  money_move: 'journal',
}

/** Sources of entries that the sealer and the signer write. */
const OWN_SOURCE = /^seal_/

/**
 * Checks an element of a record's `pending` array before it gets a number: its form, its kind, and whether
 * records of this collection may have that kind. Whoever can write a record can write into that array.
 *
 * @param collection the record's collection
 * @returns the element as a pending entry; a string, which says what is wrong with it, if it may not be
 *   numbered
 */
export function parsePendingEntry(collection: string, element: unknown): PendingEntry | string {
  if (typeof element !== 'object' || element === null) return 'it is not an object'
  const entry = element as PendingEntry
  if (typeof entry.source !== 'string' || !/^[^/]+\/./.test(entry.source))
    return 'its source is not <record id>/<step>'
  if (!ENTRY_KINDS.includes(entry.kind)) return 'its kind is unknown'
  if (!isReadable(entry)) return 'its time or its data has no canonical form'
  const home = HOMES[entry.kind]
  if (home !== undefined && home !== collection)
    return `an entry of kind ${entry.kind} has no place in ${collection}`
  if (OWN_SOURCE.test(entry.source) && entry.kind !== 'seal_adoption')
    return "its source is one of the ledger's own"
  return entry
}
