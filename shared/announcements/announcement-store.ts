import { Schema, type Connection, type Model } from 'mongoose'
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
announcementSchema.index(...PENDING_INDEX)

export interface AnnouncementStore {
  /** Signed ones, newest first. Those that still wait for the key are few, so the walk along `_id` passes over next to none. */
  listSigned(limit: number): Promise<SignedAnnouncement[]>
  readonly models: { announcements: Model<AnnouncementRecord> }
}

export function createAnnouncementStore(connection: Connection): AnnouncementStore {
  const announcements = connection.model<AnnouncementRecord>('Announcement', announcementSchema)
  return {
    models: { announcements },
    async listSigned(limit) {
      return announcements
        .find({ signature: { $exists: true } }, { pending: 0 })
        .sort({ _id: -1 })
        .limit(limit)
        .lean<SignedAnnouncement[]>()
    },
  }
}
