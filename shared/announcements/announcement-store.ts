import type { Connection } from 'mongoose'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { none, schemaOf, some } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import { announcementFields, type AnnouncementRecord, type SignedAnnouncement } from './announcement.ts'

const announcementSchema = schemaOf<AnnouncementRecord>('announcements', {
  ...announcementFields,
  ...pendingField,
})
// Finds unsigned announcements without reading the signed ones of many years.
announcementSchema.index({ signature: 1, _id: 1 })
announcementSchema.index(...PENDING_INDEX)

export function createAnnouncementStore(connection: Connection) {
  const announcements = recordsOf(connection.model<AnnouncementRecord>('Announcement', announcementSchema))
  return {
    models: { announcements: announcements.model },
    insert: (announcement: AnnouncementRecord): Promise<void> => announcements.insert([announcement]),
    /** Reads an announcement as a majority of the database has it; undefined if there is none. */
    find: (id: string): Promise<AnnouncementRecord | undefined> =>
      announcements.one({ _id: id }, { isLasting: true }),
    /** Lists the ids of unsigned announcements, oldest first. */
    async listUnsigned(limit: number): Promise<string[]> {
      const unsigned = await announcements.all(
        { signature: none },
        { fields: { _id: 1 }, sort: { _id: 1 }, limit },
      )
      return unsigned.map(({ _id }) => _id)
    },
    /**
     * Stores an announcement's signature unless it has one.
     *
     * @returns false if it has one or doesn't exist
     */
    setSignature: (id: string, signature: { signature: string; pubkey: string }): Promise<boolean> =>
      announcements.change({ _id: id, signature: none }, { $set: signature }),
    /**
     * Lists signed announcements, newest first. Unsigned ones are few, so a scan along `_id` skips next to
     * none.
     */
    listSigned: (limit: number): Promise<SignedAnnouncement[]> =>
      announcements.all({ signature: some }, { fields: { pending: 0 }, sort: { _id: -1 }, limit }),
  }
}

export type AnnouncementStore = ReturnType<typeof createAnnouncementStore>
