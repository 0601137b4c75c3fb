import type { Connection } from 'mongoose'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { schemaOf } from '../platform/fields.ts'
import { announcementFields, type AnnouncementRecord, type SignedAnnouncement } from './announcement.ts'

const announcementSchema = schemaOf<AnnouncementRecord>('announcements', {
  ...announcementFields,
  ...pendingField,
})
// Finds unsigned announcements without reading the signed ones of many years.
announcementSchema.index({ signature: 1, _id: 1 })
announcementSchema.index(...PENDING_INDEX)

/** Creates the store of announcements. */
export function createAnnouncementStore(connection: Connection) {
  const announcements = connection.model<AnnouncementRecord>('Announcement', announcementSchema)
  return {
    models: { announcements },
    async insert(announcement: AnnouncementRecord): Promise<void> {
      await announcements.insertMany([announcement], { lean: true })
    },
    /** Reads an announcement as a majority of the database has it; undefined if there is none. */
    async find(id: string): Promise<AnnouncementRecord | undefined> {
      return (
        (await announcements
          .findOne({ _id: id })
          .read('primary')
          .readConcern('majority')
          .lean<AnnouncementRecord>()) ?? undefined
      )
    },
    /** Lists the ids of unsigned announcements, oldest first. */
    async listUnsigned(limit: number): Promise<string[]> {
      const found = await announcements
        .find({ signature: { $exists: false } }, { _id: 1 })
        .sort({ _id: 1 })
        .limit(limit)
        .lean<{ _id: string }[]>()
      return found.map(({ _id }) => _id)
    },
    /**
     * Stores an announcement's signature unless it has one.
     *
     * @returns false if it has one or doesn't exist
     */
    async setSignature(id: string, signature: { signature: string; pubkey: string }): Promise<boolean> {
      return (
        (await announcements.updateOne({ _id: id, signature: { $exists: false } }, { $set: signature }))
          .matchedCount === 1
      )
    },
    /**
     * Lists signed announcements, newest first. Unsigned ones are few, so a scan along `_id` skips next to
     * none.
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
