import { z } from 'zod'
import { shownHandle } from '../../shared/agents/agent.ts'
import { hideByBan } from '../../shared/agents/author-ban.ts'
import { createFeed } from '../../shared/posts/feed.ts'
import { feedView, postBody, publishedPostView, topicField, viewPost } from '../../shared/posts/post.ts'
import { publishPost } from '../../shared/posts/post-service.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { idField, limitQuery, perAgentQuery } from '../../shared/platform/schema.ts'
import { PER_AGENT_WEIGHT, WEIGHTS } from '../../shared/platform/limits.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

/** The routes of posts and the feed. */
export function postRoutes(): Route[] {
  const feed = createFeed()
  return [
    defineRoute({
      method: 'POST',
      path: '/post',
      operation: 'createPost',
      access: 'pass',
      summary: 'Publishes a post; sending it again publishes it again',
      body: postBody,
      view: publishedPostView,
      statuses: [201],
      errors: ['wrong_state'],
      async handle({ ctx, caller, body }) {
        const post = await publishPost(ctx, caller._id, body)
        feed.cache(post)
        return created({ id: post._id, post: viewPost(post, shownHandle(caller)) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/post/{id}',
      operation: 'getPost',
      access: 'open',
      summary: 'One post; a hidden one stands without its text',
      params: z.object({ id: idField('post') }),
      view: publishedPostView,
      errors: ['no_such_post'],
      async handle({ ctx, params }) {
        const post = await ctx.posts.find(params.id)
        if (post === undefined) throw new Refusal('no_such_post', 'There is no post with this id.')
        const author = await ctx.agents.findAuthor(post.agent_id)
        const handle = author === undefined ? null : shownHandle(author)
        return ok({ id: post._id, post: viewPost(hideByBan(author, post), handle) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/feed',
      operation: 'listPosts',
      access: 'open',
      summary: 'Public posts, newest first; with `per_agent`, no more than so many of one agent',
      query: z.object({ topic: topicField.optional(), per_agent: perAgentQuery(), limit: limitQuery() }),
      view: feedView,
      weight: ({ limit, per_agent: perAgent }) =>
        limit * WEIGHTS.post * (perAgent === undefined ? 1 : PER_AGENT_WEIGHT),
      async handle({ ctx, query }) {
        const posts = await feed.read(ctx, query.topic, query.limit, query.per_agent)
        return { status: 200, body: pieceTogether(posts) }
      },
    }),
  ]
}

/** Gives the feed out of posts that are JSON already. */
function* pieceTogether(posts: readonly string[]): Iterable<string> {
  yield '{"ok":true,"posts":['
  for (const [index, post] of posts.entries()) yield index === 0 ? post : `,${post}`
  yield `],"count":${posts.length}}`
}
