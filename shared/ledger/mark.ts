import { isReadable } from './entry.ts'
import { ENTRY_KINDS, type EntryKind, type PendingEntry } from './pending.ts'

/**
 * Entries about the ledger itself, and the one collection whose documents may ask for them; no document asks
 * for a seal's closing entry. The collections are those that the API's database user can't write: see docs on
 * least privilege.
 */
const HOMES: Partial<Record<EntryKind, string | null>> = {
  solvency: null,
  seal_adoption: 'seal_adoptions',
  announcement: 'announcements',
  operator_act: 'operator_acts',
}

/** Sources of the ledger's own entries. */
const OWN_SOURCE = /^seal_/

/**
 * A pending entry as it may be numbered, or a sentence about why it may not: everyone who can write a record
 * can write into its `pending` array.
 *
 * @param collection where the record lies
 */
export function parsePendingEntry(collection: string, element: unknown): PendingEntry | string {
  if (typeof element !== 'object' || element === null) return 'it is not an object'
  const mark = element as PendingEntry
  if (typeof mark.source !== 'string' || !/^[^/]+\/./.test(mark.source))
    return 'its source is not <record id>/<step>'
  if (!ENTRY_KINDS.includes(mark.kind)) return 'its kind is unknown'
  if (!isReadable(mark)) return 'its time or its data has no canonical form'
  const home = HOMES[mark.kind]
  if (home !== undefined && home !== collection)
    return `an entry of kind ${mark.kind} has no place in ${collection}`
  if (OWN_SOURCE.test(mark.source) && mark.kind !== 'seal_adoption')
    return "its source is one of the ledger's own"
  return mark
}
