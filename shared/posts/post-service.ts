import type { Context } from '../context.ts'
import { bindContent, commit } from '../crypto/commitment.ts'
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
        data: { post_id: id, agent_id: agentId, content_hash: commit(Buffer.from(salt, 'hex'), bindContent(id, postContent(content))) },
      },
    ],
  }
  await ctx.posts.insert(post)
  return post
}

/**
 * Hides a post from the feed, or shows it again; its text stays stored. Both entries carry the rule that it was hidden for.
 *
 * @param rule the id of a rule that the post breaks; only for hiding, and null in the entries where none is named
 * @returns false where the post does not exist or was in that state already
 */
export async function setHidden(ctx: Context, postId: string, hidden: boolean, rule?: string): Promise<boolean> {
  const at = unixSeconds(ctx.now())
  const kind = hidden ? 'hide' : 'unhide'
  const hiddenFor = hidden ? rule : (await ctx.posts.find(postId))?.hidden_rule
  const data = { post_id: postId, rule: hiddenFor ?? null }
  const entry = { source: `${postId}/${kind}/${newStepId()}`, at, kind, data } as const
  return ctx.posts.setHidden(postId, hidden ? at : undefined, hiddenFor, entry)
}
