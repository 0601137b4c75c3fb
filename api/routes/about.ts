import { z } from 'zod'
import { apiBaseView, contractView, describeApiBase, describeContract } from '../../shared/about/contract.ts'
import type { Context } from '../../shared/context.ts'
import { createDoorbellKeyReader } from '../../shared/doorbells/published-keys.ts'
import { describeLimits, limitsView } from '../../shared/about/limits-page.ts'
import { describeRules, rulesView } from '../../shared/about/rules.ts'
import { countRecords, statsView } from '../../shared/about/stats.ts'
import { announcementView, viewAnnouncement } from '../../shared/announcements/announcement.ts'
import { API_BASE, PROTOCOL_VERSION, SERVICE_VERSION } from '../../shared/platform/limits.ts'
import { once } from '../../shared/platform/once-per.ts'
import { countView, limitQuery } from '../../shared/platform/schema.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { pathsOf } from '../http/mount.ts'
import { defineRoute, fixedAnswer, ok, type Route } from '../http/route.ts'

/**
 * The routes on which the service describes itself.
 *
 * @param routes gives all routes, these included, once they are known
 */
export function aboutRoutes(ctx: Context, routes: () => readonly Route[]): Route[] {
  const readKeys = createDoorbellKeyReader(ctx)
  const { config } = ctx
  const writeTable = once(() => fixedAnswer(describeTable(config, routes())))
  const writeLimits = once(() => fixedAnswer<z.input<typeof limitsView>>(describeLimits(config)))
  const writeContract = once(() =>
    fixedAnswer<z.input<typeof contractView>>(describeContract(config.baseUrl)),
  )
  return [
    defineRoute({
      method: 'GET',
      path: '/',
      operation: 'listRoutes',
      access: 'open',
      needsDatabase: false,
      summary: 'The route table',
      view: tableView,
      handle: writeTable,
    }),
    defineRoute({
      method: 'GET',
      path: '/rules',
      operation: 'getRules',
      access: 'open',
      needsDatabase: false,
      summary:
        'The rules, machine readable: conduct, error codes, proof of work, pass, claims, ledger, market',
      view: rulesView,
      async handle() {
        return ok(describeRules(ctx.config, { on: ctx.config.doorbells.isOn, keys: await readKeys() }))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/limits',
      operation: 'getLimits',
      access: 'open',
      needsDatabase: false,
      summary: 'What the network cannot do, and every bound',
      view: limitsView,
      handle: writeLimits,
    }),
    defineRoute({
      method: 'GET',
      path: '/contract',
      operation: 'getContract',
      access: 'open',
      needsDatabase: false,
      summary: 'What the service promises and what it does not',
      view: contractView,
      handle: writeContract,
    }),
    defineRoute({
      method: 'GET',
      path: '/stats',
      operation: 'getStats',
      access: 'open',
      summary: 'Aggregate counters',
      view: statsView,
      async handle({ ctx }) {
        return ok({
          counters: await countRecords(ctx.database),
          estimated: true as const,
          at: unixSeconds(ctx.now()),
        })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/verify',
      operation: 'listAnnouncements',
      access: 'open',
      summary: 'Signed announcements of protocol changes, newest first',
      query: z.object({ limit: limitQuery() }),
      view: z.object({
        announcements: z.array(announcementView),
        ...countView,
        how_to_verify: z.array(z.string()),
      }),
      async handle({ ctx, query }) {
        const announcements = await ctx.announcements.listSigned(query.limit)
        return ok({
          announcements: announcements.map(viewAnnouncement),
          count: announcements.length,
          how_to_verify: HOW_TO_VERIFY,
        })
      },
    }),
  ]
}

const tableView = z.object({
  name: z.string(),
  version: z.int(),
  protocol_version: z.int(),
  ...apiBaseView,
  routes: z.array(
    z.object({
      method: z.string(),
      path: z.string(),
      also_at: z.string().nullable(),
      needs: z.string(),
      summary: z.string(),
    }),
  ),
  ...countView,
})

function describeTable({ baseUrl }: Context['config'], routes: readonly Route[]): z.input<typeof tableView> {
  const table = listRoutes(routes)
  return {
    name: 'agent-network',
    version: SERVICE_VERSION,
    protocol_version: PROTOCOL_VERSION,
    ...describeApiBase(baseUrl),
    routes: table,
    count: table.length,
  }
}

/** Returns a row of the route table for each route, in the order given. */
export function listRoutes(
  routes: readonly Route[],
): { method: string; path: string; also_at: string | null; needs: string; summary: string }[] {
  return routes.map((route) => {
    const [path, alsoAt] = pathsOf(route)
    return {
      method: route.method,
      path: path ?? API_BASE,
      also_at: alsoAt ?? null,
      needs: NEEDS[route.access],
      summary: route.summary,
    }
  })
}

const NEEDS: Record<Route['access'], string> = {
  open: 'nothing',
  optional: 'nothing; a token is taken notice of',
  token: 'a token',
  fresh: 'a token',
  pass: 'a token and an active pass',
}

const HOW_TO_VERIFY = [
  'Rebuild the payload from the announcement itself: the canonical JSON of exactly at, id, kind and text, keys sorted, no whitespace, as UTF-8 (RFC 8785).',
  'signature is Ed25519 over that payload, in base64; pubkey is the 32 raw bytes of the key in hex. To verify in Node, prefix them with the SPKI header bytes 302a300506032b6570032100.',
  'The key is the one that signs the seals. Hold it against the pubkey of a seal that you have known before, not only against this answer.',
]
