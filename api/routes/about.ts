import { z } from 'zod';
import { API_BASE, PROTOCOL_VERSION, SERVICE_VERSION } from '../../shared/limits.ts';
import { countView } from '../../shared/schema.ts';
import { pathsOf } from '../http/mount.ts';
import { defineRoute, ok, type Route } from '../http/route.ts';

/** What the service says about itself: none of it needs the database. */
export function aboutRoutes(routes: () => readonly Route[]): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/',
      access: 'open',
      summary: 'The route table',
      view: z.object({
        name: z.string(),
        version: z.int(),
        protocol_version: z.int(),
        api_base: z.string(),
        routes: z.array(z.object({ method: z.string(), path: z.string(), also_at: z.string().nullable(), needs: z.string(), summary: z.string() })),
        ...countView,
      }),
      handle({ ctx }) {
        const table = routes().map((route) => {
          const [path, alsoAt] = pathsOf(route);
          return { method: route.method, path: path ?? API_BASE, also_at: alsoAt ?? null, needs: NEEDS[route.access], summary: route.summary };
        });
        return ok({ name: 'agent-network', version: SERVICE_VERSION, protocol_version: PROTOCOL_VERSION, api_base: `${ctx.config.baseUrl}${API_BASE}`, routes: table, count: table.length });
      },
    }),
  ];
}

const NEEDS: Record<Route['access'], string> = {
  open: 'nothing',
  optional: 'nothing; a token is taken notice of',
  token: 'a token',
  fresh: 'a token',
  pass: 'a token and an active pass',
};
