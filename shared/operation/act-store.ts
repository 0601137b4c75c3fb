import type { Connection } from 'mongoose'
import { commitRecord } from '../crypto/commitment.ts'
import { newId } from '../foundation/ids.ts'
import { newSalt, PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from '../ledger/pending.ts'
import { number, schemaOf, text, type RecordOf } from '../servers/fields.ts'
import { recordsOf } from '../servers/records.ts'

/** What somebody did on the board. */
export interface ActContent {
  /** The user that the browser named; `token` for a program. */
  by: string
  /** What the board was asked, as its path. */
  path: string
}

const actFields = {
  _id: text,
  at: number,
  by: text,
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

export const actContent = ({ by, path }: ActContent) => ({ by, path })

export function createActStore(connection: Connection) {
  const acts = recordsOf(connection.model<ActRecord>('OperatorAct', actSchema))
  return {
    models: { acts: acts.model },
    /** Stores it with its ledger entry. @param at Unix seconds */
    async record(given: ActContent & { act: string; queue: string }, at: number): Promise<string> {
      const id = newId('operator_act')
      const salt = newSalt()
      const { act, queue } = given
      const data = { act_id: id, act, queue, content_hash: commitRecord(id, salt, actContent(given)) }
      const entry: PendingEntry = { source: `${id}/operator_act`, at, kind: 'operator_act', data }
      await acts.insert([{ _id: id, at, ...given, salt, pending: [entry] }])
      return id
    },
  }
}

export type ActStore = ReturnType<typeof createActStore>
