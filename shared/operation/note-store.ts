import { Schema, type Connection } from 'mongoose'
import { newStepId } from '../foundation/ids.ts'

/** Why an operator did something, in their own words. Nobody else is shown it. */
export interface NoteRecord {
  _id: string
  /** Unix seconds. */
  at: number
  /** The id of what it was done to. */
  about: string
  /** The verb. */
  act: string
  note: string
  /** Who ran the command, as their machine knows them. */
  by: string
}

const string = { type: String, required: true } as const
const noteSchema = new Schema<NoteRecord>(
  { _id: string, at: { type: Number, required: true }, about: string, act: string, note: string, by: string },
  { collection: 'operator_notes', strict: 'throw', versionKey: false },
)
noteSchema.index({ about: 1 })

export function createNoteStore(connection: Connection) {
  const notes = connection.model<NoteRecord>('OperatorNote', noteSchema)
  return {
    models: { notes },
    async add(given: Omit<NoteRecord, '_id'>): Promise<void> {
      await notes.insertMany([{ _id: newStepId(), ...given }], { lean: true })
    },
  }
}

export type NoteStore = ReturnType<typeof createNoteStore>
