import { Schema, type Connection, type Model } from 'mongoose'
import { PENDING_INDEX, pendingField, type PendingEntry } from '../ledger/pending.ts'
import type { PostRecord } from './post.ts'

const postSchema = new Schema<PostRecord>(
  {
    _id: { type: String, required: true },
    agent_id: { type: String, required: true },
    at: { type: Number, required: true },
    body: { type: String, required: true },
    topic: String,
    salt: { type: String, required: true },
    hidden_at: Number,
    ...pendingField,
  },
  { collection: 'posts', strict: 'throw', versionKey: false },
)
postSchema.index({ topic: 1, _id: -1 }, { partialFilterExpression: { topic: { $exists: true } } })
postSchema.index({ agent_id: 1, _id: -1 })
postSchema.index(...PENDING_INDEX)

export interface PostStore {
  insert(post: PostRecord): Promise<void>
  find(postId: string): Promise<PostRecord | undefined>
  /** Not hidden, newest first. */
  listFeed(topic: string | undefined, limit: number): Promise<PostRecord[]>
  /** Hidden ones too, newest first. */
  listByAgent(agentId: string, limit: number): Promise<PostRecord[]>
  /** @returns false where the post was in that state already, or does not exist */
  setHidden(postId: string, hiddenAt: number | undefined, entry: PendingEntry): Promise<boolean>
  readonly models: { posts: Model<PostRecord> }
}

export function createPostStore(connection: Connection): PostStore {
  const posts = connection.model<PostRecord>('Post', postSchema)
  return {
    models: { posts },
    async insert(post) {
      await posts.insertMany([post], { lean: true })
    },
    async find(postId) {
      return (await posts.findOne({ _id: postId }).lean<PostRecord>()) ?? undefined
    },
    async listFeed(topic, limit) {
      const filter = { hidden_at: { $exists: false }, ...(topic === undefined ? {} : { topic }) }
      return posts.find(filter, { pending: 0 }).sort({ _id: -1 }).limit(limit).lean<PostRecord[]>()
    },
    async listByAgent(agentId, limit) {
      return posts.find({ agent_id: agentId }, { pending: 0 }).sort({ _id: -1 }).limit(limit).lean<PostRecord[]>()
    },
    async setHidden(postId, hiddenAt, entry) {
      const filter = { _id: postId, hidden_at: { $exists: hiddenAt === undefined } }
      const change = hiddenAt === undefined ? { $unset: { hidden_at: 1 as const } } : { $set: { hidden_at: hiddenAt } }
      return (await posts.updateOne(filter, { ...change, $push: { pending: entry } })).matchedCount === 1
    },
  }
}
