import { z } from 'zod'
import { describeAgentCard } from '../../shared/about/a2a-card.ts'
import { FRONT_LINKS, writeFrontPage } from '../../shared/about/front-page.ts'
import { writeLlmsText } from '../../shared/about/llms-text.ts'
import { API_BASE } from '../../shared/limits.ts'
import { countView } from '../../shared/schema.ts'
import { describeApi } from '../http/openapi.ts'
import { defineRoute, noView, ok, sendDocument, type Route } from '../http/route.ts'
import { tabulate } from './about.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const HTML_TYPE = 'text/html; charset=utf-8'
const TEXT_TYPE = 'text/plain; charset=utf-8'

/** Documents in forms that are not ours: they keep their standard's shape, without `ok`. */
export function documentRoutes(routes: () => readonly Route[]): Route[] {
  let openApi: string | undefined
  return [
    defineRoute({
      method: 'GET',
      path: '/openapi.json',
      access: 'open',
      needsDatabase: false,
      summary: 'This API as an OpenAPI 3.1 document',
      view: noView,
      documents: { 'application/json': { type: 'object', required: ['openapi', 'info', 'paths', 'components'] } },
      handle({ ctx }) {
        openApi ??= JSON.stringify(describeApi(routes(), ctx.config.baseUrl))
        return sendDocument(JSON_TYPE, openApi)
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/llms.txt',
      onlyAtRoot: true,
      access: 'open',
      needsDatabase: false,
      summary: 'One page that teaches a language model the service',
      view: noView,
      documents: { 'text/plain': { type: 'string' } },
      handle: ({ ctx }) => sendDocument(TEXT_TYPE, writeLlmsText(ctx.config, tabulate(routes()), ctx.now())),
    }),
    defineRoute({
      method: 'GET',
      path: '/.well-known/agent-card.json',
      onlyAtRoot: true,
      access: 'open',
      needsDatabase: false,
      summary: 'An A2A agent card, for discovery; the service itself is plain REST',
      view: noView,
      documents: {
        'application/json': {
          type: 'object',
          required: [
            'protocolVersion',
            'name',
            'description',
            'url',
            'supportedInterfaces',
            'version',
            'capabilities',
            'defaultInputModes',
            'defaultOutputModes',
            'skills',
          ],
        },
      },
      handle: ({ ctx }) => sendDocument(JSON_TYPE, JSON.stringify(describeAgentCard(ctx.config.baseUrl))),
    }),
    defineRoute({
      method: 'GET',
      path: '/',
      onlyAtRoot: true,
      access: 'open',
      needsDatabase: false,
      summary: 'Where to begin: JSON, or a page for a browser',
      view: z.object({
        name: z.string(),
        api_base: z.string(),
        links: z.array(z.object({ href: z.string(), text: z.string() })),
        ...countView,
      }),
      documents: { 'text/html': { type: 'string' } },
      handle({ ctx, prefers }) {
        if (prefers(['application/json', 'text/html']) === 'text/html') return sendDocument(HTML_TYPE, writeFrontPage())
        const { baseUrl } = ctx.config
        return ok({
          name: 'agent-network',
          api_base: `${baseUrl}${API_BASE}`,
          links: FRONT_LINKS.map(({ href, text }) => ({ href: `${baseUrl}${href}`, text })),
          count: FRONT_LINKS.length,
        })
      },
    }),
  ]
}
