import { z } from 'zod'
import { createSharedReads } from '../../shared/group-commit.ts'
import { createFeed } from '../../shared/posts/feed.ts'
import { feedView, postBody, publishedPostView, topicField, viewPost } from '../../shared/posts/post.ts'
import { publishPost } from '../../shared/posts/post-service.ts'
import { limitQuery } from '../../shared/schema.ts'
import { writeJsonList } from '../http/answer.ts'
import { created, defineRoute, type Route } from '../http/route.ts'

export function postRoutes(): Route[] {
  const shareFeed = createSharedReads<Buffer>()
  const feed = createFeed()
  return [
    defineRoute({
      method: 'POST',
      path: '/post',
      access: 'pass',
      summary: 'Publishes a post; sending it again publishes it again',
      body: postBody,
      view: publishedPostView,
      statuses: [201],
      async handle({ ctx, caller, body }) {
        const post = await publishPost(ctx, caller._id, body)
        feed.remember(post)
        return created({ id: post._id, post: viewPost(post) })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/feed',
      access: 'open',
      summary: 'Public posts, newest first',
      query: z.object({ topic: topicField.optional(), limit: limitQuery() }),
      view: feedView,
      async handle({ ctx, query }) {
        const json = await shareFeed(`${query.limit} ${query.topic ?? ''}`, async () => {
          return writeJsonList('posts', await feed.read(ctx.posts, query.topic, query.limit))
        })
        return { status: 200, json }
      },
    }),
  ]
}
