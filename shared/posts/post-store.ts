import type mongoose from 'mongoose'
import { Schema, type Connection, type Model } from 'mongoose'
import { createGroups, insertEach } from '../group-commit.ts'
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
    hidden_rule: String,
    ...pendingField,
  },
  { collection: 'posts', strict: 'throw', versionKey: false },
)
postSchema.index({ topic: 1, _id: -1 }, { partialFilterExpression: { topic: { $exists: true } } })
postSchema.index({ agent_id: 1, _id: -1 })
postSchema.index(...PENDING_INDEX)

export interface PostStore {
  /** Together with what arrives at the same time; resolves once a majority has it in its journal. */
  insert(post: PostRecord): Promise<void>
  find(postId: string): Promise<PostRecord | undefined>
  /** Those of these ids that there are, in no order. */
  findAll(postIds: readonly string[]): Promise<PostRecord[]>
  /** The ids of posts that are not hidden, newest first. */
  listFeed(topic: string | undefined, limit: number): Promise<string[]>
  /** @returns false where the post was in that state already, or does not exist */
  setHidden(postId: string, hiddenAt: number | undefined, rule: string | undefined, entry: PendingEntry): Promise<boolean>
  readonly models: { posts: Model<PostRecord> }
}

/** @param patienceMs how long a post may wait for its turn to be stored */
export function createPostStore(connection: Connection, patienceMs: number): PostStore {
  const posts = connection.model<PostRecord>('Post', postSchema)
  // What is read most is read as it is stored.
  const raw = () => posts.collection as unknown as mongoose.mongo.Collection<PostRecord>
  return {
    models: { posts },
    insert: createGroups((group: PostRecord[]) => insertEach(posts.collection, group), { patienceMs }),
    async find(postId) {
      return (await posts.findOne({ _id: postId }).lean<PostRecord>()) ?? undefined
    },
    async findAll(postIds) {
      return raw()
        .find({ _id: { $in: [...postIds] } }, { projection: { pending: 0 }, batchSize: postIds.length + 1 })
        .toArray()
    },
    async listFeed(topic, limit) {
      const filter = { hidden_at: { $exists: false }, ...(topic === undefined ? {} : { topic }) }
      const found = await raw()
        .find(filter, { projection: { _id: 1 }, batchSize: limit + 1 })
        .sort({ _id: -1 })
        .limit(limit)
        .toArray()
      return found.map(({ _id }) => _id)
    },
    async setHidden(postId, hiddenAt, rule, entry) {
      const named = rule === undefined ? {} : { hidden_rule: rule }
      const filter =
        hiddenAt === undefined
          ? { _id: postId, hidden_at: { $exists: true }, hidden_rule: rule ?? { $exists: false } }
          : { _id: postId, hidden_at: { $exists: false } }
      const change =
        hiddenAt === undefined
          ? { $unset: { hidden_at: 1 as const, hidden_rule: 1 as const } }
          : { $set: { hidden_at: hiddenAt, ...named } }
      return (await posts.updateOne(filter, { ...change, $push: { pending: entry } })).matchedCount === 1
    },
  }
}
