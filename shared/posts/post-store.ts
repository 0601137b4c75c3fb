import type { Connection } from 'mongoose'
import { authorBannedField, BY_AUTHOR_INDEX, createSetAuthorBanned, LISTED } from '../agents/author-ban.ts'
import type { Past } from '../platform/list-per-agent.ts'
import { createGroups, insertEach } from '../platform/group-commit.ts'
import { PARSED_AT_ONCE } from '../platform/limits.ts'
import { hiddenFields, createSetHidden } from '../ledger/hidden.ts'
import { indexMarks, tellsField } from '../events/mark.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { only, schemaOf, some } from '../platform/fields.ts'
import { postFields, type PostRecord } from './post.ts'
import { rawOf, recordsOf } from '../platform/records.ts'

const postSchema = schemaOf<PostRecord>('posts', {
  ...postFields,
  ...hiddenFields,
  ...authorBannedField,
  ...tellsField,
  ...pendingField,
})
const FEED = { author_banned: 1, _id: -1 } as const
const FEED_OF_TOPIC = { topic: 1, ...FEED } as const
postSchema.index(FEED)
postSchema.index(FEED_OF_TOPIC, only({ topic: some }))
postSchema.index(BY_AUTHOR_INDEX)
postSchema.index({ agent_id: 1, _id: -1 })
indexMarks(postSchema)
postSchema.index(...PENDING_INDEX)

export type PostListed = Pick<PostRecord, '_id' | 'agent_id'>

/**
 * Creates the store of posts.
 *
 * @param patienceMs how long a post may wait before its insert begins
 */
export function createPostStore(connection: Connection, patienceMs: number) {
  const posts = connection.model<PostRecord>('Post', postSchema)
  // The most frequent reads go past mongoose's documents.
  const raw = () => rawOf<PostRecord>(posts)
  return {
    models: { posts },
    /**
     * Inserts a post, together with others that arrive at the same time (group commit). Resolves once a
     * majority has it in its journal.
     */
    insert: createGroups((group: PostRecord[]) => insertEach(posts.collection, group), {
      patienceMs,
      span: 'commit posts',
    }),
    /** Reads a post, hidden or not; undefined if there is none with this id. */
    find: (postId: string): Promise<PostRecord | undefined> => recordsOf(posts).one({ _id: postId }),
    /** Reads the posts with these ids, in any order; ids of none are left out. */
    async findAll(postIds: readonly string[]): Promise<PostRecord[]> {
      return raw()
        .find({ _id: { $in: [...postIds] } }, { projection: { pending: 0 }, batchSize: PARSED_AT_ONCE })
        .toArray()
    },
    /** Lists an agent's posts, hidden ones too, newest first; with `before`, those with a smaller id. */
    async listByAgent(agentId: string, before: string | undefined, limit: number): Promise<PostRecord[]> {
      const filter = { agent_id: agentId, ...(before === undefined ? {} : { _id: { $lt: before } }) }
      return raw()
        .find(filter, { projection: { pending: 0 }, batchSize: PARSED_AT_ONCE })
        .sort({ _id: -1 })
        .limit(limit)
        .toArray()
    },
    /**
     * Lists ids and authors of posts that are neither hidden nor by a banned agent, newest first.
     *
     * @param topic lists posts with this topic; undefined: all
     * @param past lists posts after a record, without some authors
     */
    async listFeed(topic: string | undefined, limit: number, past?: Past<PostListed>): Promise<PostListed[]> {
      const filter = {
        ...LISTED,
        ...(topic === undefined ? {} : { topic }),
        ...(past === undefined ? {} : { _id: { $lt: past.after._id }, agent_id: { $nin: [...past.notBy] } }),
      }
      return raw()
        .find<PostListed>(filter, {
          projection: { agent_id: 1 },
          hint: topic === undefined ? FEED : FEED_OF_TOPIC,
          batchSize: limit + 1,
        })
        .sort({ _id: -1 })
        .limit(limit)
        .toArray()
    },
    /** Hides a post or shows it again. @returns false if it was in that state already, or doesn't exist */
    setHidden: createSetHidden(posts),
    setAuthorBanned: createSetAuthorBanned(posts),
  }
}

export type PostStore = ReturnType<typeof createPostStore>
