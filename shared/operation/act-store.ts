import { Schema, type Connection } from 'mongoose'
import { commitRecord } from '../crypto/commitment.ts'
import { newId } from '../foundation/ids.ts'
import { newSalt, PENDING_INDEX, pendingField, type Ledgered, type PendingEntry } from '../ledger/pending.ts'

/** What somebody did on the board. */
export interface ActContent {
  /** The user that the browser named; `token` for a program. */
  by: string
  /** What the board was asked, as its path. */
  path: string
}

export interface ActRecord extends Ledgered, ActContent {
  _id: string
  at: number
  act: string
  /** A queue's name, or all. */
  queue: string
  /** Opens the commitment in its ledger entry. */
  salt: string
}

const string = { type: String, required: true } as const

const actSchema = new Schema<ActRecord>(
  {
    _id: string,
    at: { type: Number, required: true },
    by: string,
    path: string,
    act: string,
    queue: string,
    salt: string,
    ...pendingField,
  },
  { collection: 'operator_acts', strict: 'throw', versionKey: false },
)
actSchema.index(...PENDING_INDEX)

export const actContent = ({ by, path }: ActContent) => ({ by, path })

export function createActStore(connection: Connection) {
  const acts = connection.model<ActRecord>('OperatorAct', actSchema)
  return {
    models: { acts },
    /** Stores it with its ledger entry. @param at Unix seconds */
    async record(given: ActContent & { act: string; queue: string }, at: number): Promise<string> {
      const id = newId('operator_act')
      const salt = newSalt()
      const { act, queue } = given
      const data = { act_id: id, act, queue, content_hash: commitRecord(id, salt, actContent(given)) }
      const entry: PendingEntry = { source: `${id}/operator_act`, at, kind: 'operator_act', data }
      await acts.insertMany([{ _id: id, at, ...given, salt, pending: [entry] }], { lean: true })
      return id
    },
  }
}

export type ActStore = ReturnType<typeof createActStore>
