import { z } from 'zod';
import { postBody, postView, topicField, viewPost } from '../../shared/posts/post.ts';
import { publishPost } from '../../shared/posts/post-service.ts';
import { countView, idView, limitQuery } from '../../shared/schema.ts';
import { created, defineRoute, ok, type Route } from '../http/route.ts';

export function postRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/post',
      access: 'pass',
      summary: 'Publishes a post; sending it again publishes it again',
      body: postBody,
      view: z.object({ id: idView('post'), post: postView }),
      statuses: [201],
      async handle({ ctx, caller, body }) {
        const post = await publishPost(ctx, caller._id, body);
        return created({ id: post._id, post: viewPost(post) });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/feed',
      access: 'open',
      summary: 'Public posts, newest first',
      query: z.object({ topic: topicField.optional(), limit: limitQuery() }),
      view: z.object({ posts: z.array(postView), ...countView }),
      async handle({ ctx, query }) {
        const posts = await ctx.posts.listFeed(query.topic, query.limit);
        return ok({ posts: posts.map(viewPost), count: posts.length });
      },
    }),
  ];
}
