import type { Context } from '../context.ts'
import { shownHandle } from '../agents/agent.ts'
import { listPerAgent } from '../platform/list-per-agent.ts'
import { viewPostWithoutHandle, type PostRecord } from './post.ts'

type FeedContext = Pick<Context, 'agents' | 'posts'>

/*
 * The feed, with a cache of each post's JSON: a post's text never changes. The list of ids and the handles
 * are read from the database for every request. So the feed has every post that was acknowledged before the
 * request, but no post or handle that was hidden before it.
 */

/** Most characters of JSON in the cache; a few hundred posts of usual length take a small part of it. */
const CACHED_CHARACTERS = 16_000_000

export interface Feed {
  /**
   * Reads posts that are neither hidden nor by a banned agent, newest first, each as JSON.
   *
   * @param topic lists posts with this topic; undefined: all
   * @param perAgent most posts of one agent
   */
  read(ctx: FeedContext, topic: string | undefined, limit: number, perAgent?: number): Promise<string[]>
  /** Adds a post that was just stored to the cache. */
  cache(post: PostRecord): void
}

/** Creates the feed of this process, with an empty cache. */
export function createFeed(): Feed {
  /** By post id, the JSON of a post without its author's handle; the oldest in the cache first. */
  const texts = new Map<string, string>()
  let characters = 0

  /** Puts a post's JSON into the cache unless it is there, and returns it. */
  function cache(post: PostRecord): string {
    const cached = texts.get(post._id)
    if (cached !== undefined) return cached
    const text = JSON.stringify(viewPostWithoutHandle(post))
    texts.set(post._id, text)
    characters += text.length
    // Removes those first that have been in the cache the longest.
    for (const [id, { length }] of texts) {
      if (characters <= CACHED_CHARACTERS) break
      texts.delete(id)
      characters -= length
    }
    return text
  }

  return {
    cache,
    async read(ctx, topic, limit, perAgent) {
      const listed = await listPerAgent(limit, perAgent, (past) => ctx.posts.listFeed(topic, limit, past))
      const textOf = new Map(listed.map(({ _id }) => [_id, texts.get(_id)]))
      const missing = [...textOf.keys()].filter((id) => textOf.get(id) === undefined)
      const [authors, posts] = await Promise.all([
        ctx.agents.findAuthors([...new Set(listed.map(({ agent_id: agentId }) => agentId))]),
        missing.length === 0 ? [] : ctx.posts.findAll(missing),
      ])
      const handles = new Map(authors.map((author) => [author._id, shownHandle(author)]))
      // A post that was hidden since its id was read is left out.
      for (const post of posts) if (post.hidden_at === undefined) textOf.set(post._id, cache(post))
      return listed.flatMap(({ _id, agent_id: agentId }) => {
        const text = textOf.get(_id)
        const handle = handles.get(agentId) ?? null
        return text === undefined ? [] : [`${text.slice(0, -1)},"handle":${JSON.stringify(handle)}}`]
      })
    },
  }
}
