import { spendAllowance } from '../agents/allowance-service.ts'
import { authorData, authorOf, readAuthorship } from '../agents/authorship.ts'
import type { Context } from '../context.ts'
import type { SeenLog } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { newId } from '../platform/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { unixSeconds } from '../platform/time.ts'
import { postContent, type PostRecord } from './post.ts'

type PostContext = Pick<Context, 'agents' | 'posts' | 'now'>

/**
 * Stores a post with its ledger entry in one insert, and returns it. The caller has checked that the agent
 * has a pass.
 *
 * @throws Refusal `wrong_state` if the post exceeds what is left of today's allowance; `invalid_field` for a
 *   signature that does not verify; `unavailable`
 */
export async function publishPost(
  ctx: PostContext,
  agentId: string,
  fields: {
    body: string
    topic?: string | undefined
    signature?: string | undefined
    seen?: SeenLog | undefined
  },
): Promise<PostRecord> {
  await spendAllowance(ctx, agentId, 'posts', fields.body, fields.topic)
  const author = await readAuthorship(
    ctx,
    agentId,
    'post',
    { body: fields.body, topic: fields.topic },
    fields,
  )
  const id = newId('post')
  const at = unixSeconds(ctx.now())
  const salt = newSalt()
  const content = { body: fields.body, ...(fields.topic === undefined ? {} : { topic: fields.topic }) }
  const post: PostRecord = {
    _id: id,
    agent_id: agentId,
    at,
    ...content,
    salt,
    ...authorOf({ author }),
  }
  post.pending = [postEntry(post)]
  await ctx.posts.insert(post)
  return post
}

/** Makes a post's ledger entry, from its record alone. */
export function postEntry(post: PostRecord): PendingEntry {
  const { _id: id, agent_id, at, salt, author } = post
  return {
    source: `${id}/post`,
    at,
    kind: 'post',
    data: {
      post_id: id,
      agent_id,
      content_hash: commitRecord(id, salt, postContent(post)),
      ...authorData(author),
    },
  }
}
