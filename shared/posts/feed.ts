import type { Context } from '../context.ts'
import { listUnbanned } from '../agents/unbanned.ts'
import { viewPost, type PostRecord } from './post.ts'

/*
 * The feed as it goes out. A post's text never changes, and is written as JSON once for as long as it is
 * remembered: what a reader waits for is the list of ids, asked for anew each time, so that no post is missed
 * that was acknowledged before, and none shown that was hidden before.
 */

/** Texts remembered, in characters; the newest few hundred posts of a usual length are a small part of it. */
const REMEMBERED_CHARACTERS = 16_000_000

export interface Feed {
  /** Posts that are neither hidden nor of a banned agent, newest first, each as JSON. */
  read(
    ctx: Context,
    topic: string | undefined,
    limit: number,
    perAgent: number | undefined,
  ): Promise<string[]>
  /** A post that was just stored: the next readers ask for it. */
  remember(post: PostRecord): void
}

export function createFeed(): Feed {
  const texts = new Map<string, string>()
  let characters = 0

  function remember(post: PostRecord): string {
    const known = texts.get(post._id)
    if (known !== undefined) return known
    const text = JSON.stringify(viewPost(post))
    texts.set(post._id, text)
    characters += text.length
    // The oldest in memory first, whatever their age in the feed.
    for (const [id, { length }] of texts) {
      if (characters <= REMEMBERED_CHARACTERS) break
      texts.delete(id)
      characters -= length
    }
    return text
  }

  return {
    remember,
    async read(ctx, topic, limit, perAgent) {
      const listed = await listUnbanned(
        ctx.agents,
        limit,
        (size, past) => ctx.posts.listFeed(topic, size, past),
        { perAgent },
      )
      const ids = listed.map(({ _id }) => _id)
      const found = new Map(ids.map((id) => [id, texts.get(id)]))
      const missing = ids.filter((id) => found.get(id) === undefined)
      // One that was hidden since its id was read is left out.
      if (missing.length > 0)
        for (const post of await ctx.posts.findAll(missing))
          if (post.hidden_at === undefined) found.set(post._id, remember(post))
      return [...found.values()].filter((text) => text !== undefined)
    },
  }
}
