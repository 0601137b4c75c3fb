import { Schema, type Connection } from 'mongoose'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import type { AnnouncementRecord, SignedAnnouncement } from './announcement.ts'

const string = { type: String, required: true } as const

const announcementSchema = new Schema<AnnouncementRecord>(
  {
    _id: string,
    at: { type: Number, required: true },
    kind: string,
    text: string,
    salt: string,
    signature: String,
    pubkey: String,
    ...pendingField,
  },
  { collection: 'announcements', strict: 'throw', versionKey: false },
)
// Finds what waits for the key without a walk over what has been signed, in years of announcements.
announcementSchema.index({ signature: 1, _id: 1 })
announcementSchema.index(...PENDING_INDEX)

export function createAnnouncementStore(connection: Connection) {
  const announcements = connection.model<AnnouncementRecord>('Announcement', announcementSchema)
  return {
    models: { announcements },
    async insert(announcement: AnnouncementRecord): Promise<void> {
      await announcements.insertMany([announcement], { lean: true })
    },
    /** As a majority has it. */
    async find(id: string): Promise<AnnouncementRecord | undefined> {
      return (
        (await announcements
          .findOne({ _id: id })
          .read('primary')
          .readConcern('majority')
          .lean<AnnouncementRecord>()) ?? undefined
      )
    },
    /** Ids of those that wait for the key, oldest first. */
    async listUnsigned(limit: number): Promise<string[]> {
      const found = await announcements
        .find({ signature: { $exists: false } }, { _id: 1 })
        .sort({ _id: 1 })
        .limit(limit)
        .lean<{ _id: string }[]>()
      return found.map(({ _id }) => _id)
    },
    /**
     * Stores a signature if there is none. @returns false if there was one, or there is no such announcement
     */
    async sign(id: string, signature: { signature: string; pubkey: string }): Promise<boolean> {
      return (
        (await announcements.updateOne({ _id: id, signature: { $exists: false } }, { $set: signature }))
          .matchedCount === 1
      )
    },
    /**
     * Signed ones, newest first. Those that still wait for the key are few, so the walk along `_id` passes
     * over next to none.
     */
    async listSigned(limit: number): Promise<SignedAnnouncement[]> {
      return announcements
        .find({ signature: { $exists: true } }, { pending: 0 })
        .sort({ _id: -1 })
        .limit(limit)
        .lean<SignedAnnouncement[]>()
    },
  }
}

export type AnnouncementStore = ReturnType<typeof createAnnouncementStore>
