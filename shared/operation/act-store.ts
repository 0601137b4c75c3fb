import type { Connection } from 'mongoose'
import { commitRecord } from '../crypto/commitment.ts'
import { newId } from '../platform/ids.ts'
import { newSalt, PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from '../ledger/pending.ts'
import { number, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'

/** What somebody did on the operator's board; `at` in Unix seconds. */
const actFields = {
  _id: text,
  at: number,
  /** The user that the browser named; `token` for a program. */
  by: text,
  /** The path of the request to the board. */
  path: text,
  act: text,
  /** A queue's name, or all. */
  queue: text,
  /** Opens the commitment in its ledger entry. */
  salt: text,
}
export type ActRecord = RecordOf<typeof actFields> & Ledgered

const actSchema = schemaOf<ActRecord>('operator_acts', { ...actFields, ...pendingField })
actSchema.index(...PENDING_INDEX)

/** Creates the store of the operator's acts on the board. */
export function createActStore(connection: Connection) {
  const acts = recordsOf(connection.model<ActRecord>('OperatorAct', actSchema))
  return {
    models: { acts: acts.model },
    /** Stores an act with its ledger entry. @param at Unix seconds @returns its id */
    async record(act: Pick<ActRecord, 'by' | 'path' | 'act' | 'queue'>, at: number): Promise<string> {
      const id = newId('operator_act')
      const salt = newSalt()
      const content_hash = commitRecord(id, salt, { by: act.by, path: act.path })
      const data = { act_id: id, act: act.act, queue: act.queue, content_hash }
      const entry: PendingEntry = { source: `${id}/operator_act`, at, kind: 'operator_act', data }
      await acts.insert([{ _id: id, at, ...act, salt, pending: [entry] }])
      return id
    },
  }
}
