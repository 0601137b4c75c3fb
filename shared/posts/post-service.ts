import type { Context } from '../context.ts'
import { commit } from '../crypto/commitment.ts'
import { newId, newStepId } from '../ids.ts'
import { newSalt } from '../ledger/pending.ts'
import { unixSeconds } from '../time.ts'
import { postContent, type PostRecord } from './post.ts'

/** Stores a post and its ledger entry in one insert. The caller has seen to the pass. */
export async function publishPost(
  ctx: Context,
  agentId: string,
  fields: { body: string; topic?: string | undefined },
): Promise<PostRecord> {
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
    pending: [
      {
        source: `${id}/post`,
        at,
        kind: 'post',
        data: { post_id: id, agent_id: agentId, content_hash: commit(Buffer.from(salt, 'hex'), postContent(content)) },
      },
    ],
  }
  await ctx.posts.insert(post)
  return post
}

/**
 * Hides a post from the feed, or shows it again; its text stays stored.
 *
 * @returns false where the post does not exist or was in that state already
 */
export async function setHidden(ctx: Context, postId: string, hidden: boolean): Promise<boolean> {
  const at = unixSeconds(ctx.now())
  const kind = hidden ? 'hide' : 'unhide'
  return ctx.posts.setHidden(postId, hidden ? at : undefined, {
    source: `${postId}/${kind}/${newStepId()}`,
    at,
    kind,
    data: { post_id: postId },
  })
}
