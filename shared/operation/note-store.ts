import type { Connection } from 'mongoose'
import { newStepId } from '../platform/ids.ts'
import { number, schemaOf, text, type RecordOf } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'

/** Why an operator did something, in their own words. Nobody else is shown it. */
const noteFields = {
  _id: text,
  /** Unix seconds. */
  at: number,
  /** The id of what it was done to. */
  about: text,
  /** The verb. */
  act: text,
  note: text,
  /** Who ran the command, as their machine knows them. */
  by: text,
}
export type NoteRecord = RecordOf<typeof noteFields>

const noteSchema = schemaOf<NoteRecord>('operator_notes', noteFields)
noteSchema.index({ about: 1 })

/** Creates the store of the operator's notes about records. */
export function createNoteStore(connection: Connection) {
  const notes = recordsOf(connection.model<NoteRecord>('OperatorNote', noteSchema))
  return {
    models: { notes: notes.model },
    add: (note: Omit<NoteRecord, '_id'>) => notes.insert([{ _id: newStepId(), ...note }]),
  }
}
