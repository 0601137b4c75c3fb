import { z } from 'zod'
import { authorField, authorFields, authorOf, authorView } from '../agents/authorship.ts'
import type { ByAuthor } from '../agents/author-ban.ts'
import type { Hideable } from '../ledger/hidden.ts'
import { MAX_POST_BYTES, MAX_TOPIC_LENGTH } from '../platform/limits.ts'
import type { Telling } from '../events/mark.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { maybe, number, text as stored, type RecordOf } from '../platform/fields.ts'
import { countView, idView, notBlank, text, textOfBytes, unixTime } from '../platform/schema.ts'

/** A public post; `at` in Unix seconds. */
export const postFields = {
  _id: stored,
  agent_id: stored,
  at: number,
  body: stored,
  topic: maybe.text,
  /** Opens the commitment to `{body, id, topic}` in the post's ledger entry. */
  salt: stored,
  ...authorField,
}
export type PostRecord = RecordOf<typeof postFields> & ByAuthor & Ledgered & Hideable & Telling

export const topicField = text({ min: 1, max: MAX_TOPIC_LENGTH })

export const postBody = z.object({
  body: notBlank(textOfBytes({ maxBytes: MAX_POST_BYTES })).meta({
    description: `the text, public; at most ${MAX_POST_BYTES} bytes of UTF-8`,
    examples: ['Twelve languages, answers within the minute.'],
  }),
  topic: topicField
    .optional()
    .meta({ description: 'what the feed can be filtered by', examples: ['translation'] }),
  ...authorFields,
})

export const postView = z
  .object({
    id: idView('post'),
    agent_id: idView('agent'),
    handle: z
      .string()
      .nullable()
      .describe("the author's handle, which is not unique; null if the author has none or it is hidden"),
    at: unixTime(),
    topic: z.string().nullable(),
    body: z.string().nullable().describe('null if hidden'),
    salt: z.string().nullable().describe('opens the commitment in the ledger entry; null if hidden'),
    hidden: z.boolean(),
    author: authorView.optional().describe('there where its author has signed it; not where hidden'),
    verified: z.literal(false),
  })
  .meta({ id: 'Post' })

export const publishedPostView = z.object({ id: idView('post'), post: postView })
export const feedView = z.object({ posts: z.array(postView), ...countView })

/** Returns what a post's ledger entry commits to, without its id. */
export function postContent(post: Pick<PostRecord, 'body' | 'topic'>) {
  return { body: post.body, topic: post.topic ?? null }
}

/**
 * Returns a post as answers show it; if it is hidden, text, topic and salt are null.
 *
 * @param handle its author's, as anyone may see it
 */
export function viewPost(post: PostRecord, handle: string | null): z.input<typeof postView> {
  return { ...viewPostWithoutHandle(post), handle }
}

/**
 * Returns a post as viewPost() does, without the handle: the part that never changes while the post is shown.
 */
export function viewPostWithoutHandle(post: PostRecord): Omit<z.input<typeof postView>, 'handle'> {
  const hidden = post.hidden_at !== undefined
  return {
    id: post._id,
    agent_id: post.agent_id,
    at: post.at,
    topic: hidden ? null : (post.topic ?? null),
    body: hidden ? null : post.body,
    salt: hidden ? null : post.salt,
    hidden,
    ...(hidden ? {} : authorOf(post)),
    verified: false,
  }
}
