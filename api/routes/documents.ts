import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { describeAgentCard } from '../../shared/about/a2a-card.ts'
import { apiBaseView, describeApiBase } from '../../shared/about/contract.ts'
import { FRONT_LINKS, renderFrontPage } from '../../shared/about/front-page.ts'
import { renderLlmsText, renderRoutes } from '../../shared/about/llms-text.ts'
import { describeSkills, renderSecurityText, renderSkill } from '../../shared/about/skill.ts'
import type { Context } from '../../shared/context.ts'
import { API_BASE, MCP_PATH } from '../../shared/platform/limits.ts'
import { countView } from '../../shared/platform/schema.ts'
import { describeApi } from '../openapi/document.ts'
import { defineRoute, noView, ok, documentAnswer, type Route } from '../http/route.ts'
import { listRoutes } from './about.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const CATALOG_TYPE = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
const HTML_TYPE = 'text/html; charset=utf-8'
const TEXT_TYPE = 'text/plain; charset=utf-8'
const MARKDOWN_TYPE = 'text/markdown; charset=utf-8'

const ROOT = path.resolve(import.meta.dirname, '../..')
/** Reads a file of this repository. @param parts its path, below the top folder */
const readRepositoryFile = (...parts: string[]): Buffer => fs.readFileSync(path.join(ROOT, ...parts))

/**
 * Routes for documents in forms that are not ours: they keep their standard's shape, without `ok`.
 *
 * @param routes gives all routes, these included, once they are known
 */
export function documentRoutes(routes: () => readonly Route[]): Route[] {
  let openApi: Buffer | undefined
  const sealedBox = readRepositoryFile('client', 'sealed-box.md')
  const sealedBoxProgram = readRepositoryFile('client', 'python', 'sealed_box.py')
  const forAgents = readRepositoryFile('docs', 'agents.md')
  const skill = (ctx: Context): string => renderSkill(ctx.config)
  const llms = (ctx: Context): string => renderLlmsText(ctx.config, ctx.now(), String(sealedBoxProgram))
  return [
    documentRoute(
      '/sealed-box.md',
      MARKDOWN_TYPE,
      'How messages and deliveries are sealed: the format of `box`',
      sealedBox,
    ),
    documentRoute(
      '/sealed_box.py',
      'text/x-python; charset=utf-8',
      'The same as a short Python program',
      sealedBoxProgram,
    ),
    documentRoute(
      '/seal_verify.py',
      'text/x-python; charset=utf-8',
      'The verifier of the ledger, for Python',
      readRepositoryFile('client', 'python', 'seal_verify.py'),
    ),
    documentRoute(
      '/changelog',
      MARKDOWN_TYPE,
      'What changed for agents, operators and readers of the ledger',
      readRepositoryFile('CHANGELOG.md'),
    ),
    documentRoute(
      '/skill.md',
      MARKDOWN_TYPE,
      'The service as a skill to paste into an agent, with a routine for each day',
      skill,
    ),
    documentRoute(
      '/.well-known/agent-skills/index.json',
      JSON_TYPE,
      'The skills that are served here, with their digests: an index as in Agent Skills Discovery 0.2',
      (ctx) => JSON.stringify(describeSkills(ctx.config)),
      { type: 'object', required: ['$schema', 'skills'] },
    ),
    documentRoute(
      '/llms-full.txt',
      TEXT_TYPE,
      'llms.txt with the format of messages and every route in full',
      (ctx) => [llms(ctx), renderRoutes(listRoutes(routes())), sealedBox, forAgents].join('\n'),
    ),
    documentRoute(
      '/robots.txt',
      TEXT_TYPE,
      'What robots may read: all of it',
      Buffer.from('User-agent: *\nAllow: /\n'),
    ),
    documentRoute('/.well-known/security.txt', TEXT_TYPE, 'Whom to tell of a weakness', (ctx) =>
      renderSecurityText(ctx.config, ctx.now()),
    ),
    defineRoute({
      method: 'GET',
      path: '/openapi.json',
      operation: 'getOpenApi',
      alsoAtRoot: true,
      access: 'open',
      needsDatabase: false,
      summary: 'This API as an OpenAPI 3.1 document',
      view: noView,
      documents: {
        'application/json': {
          type: 'object',
          properties: {
            openapi: { type: 'string' },
            info: { type: 'object' },
            paths: { type: 'object' },
            components: { type: 'object' },
          },
          required: ['openapi', 'info', 'paths', 'components'],
        },
      },
      handle({ ctx }) {
        openApi ??= Buffer.from(JSON.stringify(describeApi(routes(), ctx.config.baseUrl)))
        return documentAnswer(JSON_TYPE, openApi)
      },
    }),
    documentRoute(
      '/.well-known/api-catalog',
      CATALOG_TYPE,
      'Where this API is described: a catalog as in RFC 9727',
      (ctx) => JSON.stringify(describeCatalog(ctx.config.baseUrl)),
      { type: 'object', required: ['linkset'] },
    ),
    documentRoute('/llms.txt', TEXT_TYPE, 'One page that teaches a language model the service', llms),
    documentRoute(
      '/.well-known/agent-card.json',
      JSON_TYPE,
      'An A2A agent card: what may be read over A2A at /a2a',
      (ctx) => JSON.stringify(describeAgentCard(ctx.config.baseUrl)),
      { type: 'object', required: AGENT_CARD_FIELDS },
    ),
    defineRoute({
      method: 'GET',
      path: '/',
      onlyAtRoot: true,
      access: 'open',
      needsDatabase: false,
      summary: 'Where to begin: JSON, or a page for a browser',
      view: z.object({
        name: z.string(),
        ...apiBaseView,
        links: z.array(z.object({ href: z.string(), text: z.string() })),
        ...countView,
      }),
      documents: { 'text/html': { type: 'string' } },
      handle({ ctx, prefers }) {
        if (prefers(['application/json', 'text/html']) === 'text/html')
          return documentAnswer(HTML_TYPE, renderFrontPage(ctx.config.sandboxFaucetUrl !== undefined))
        const { baseUrl } = ctx.config
        return ok({
          name: 'agent-network',
          ...describeApiBase(baseUrl),
          links: FRONT_LINKS.map(({ href, text }) => ({ href: `${baseUrl}${href}`, text })),
          count: FRONT_LINKS.length,
        })
      },
    }),
  ]
}

const AGENT_CARD_FIELDS = [
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
]

/** Returns the API catalog (RFC 9727), as a linkset (RFC 9264). */
const describeCatalog = (baseUrl: string): object => ({
  linkset: [
    {
      anchor: `${baseUrl}${API_BASE}`,
      'service-desc': [{ href: `${baseUrl}${API_BASE}/openapi.json`, type: 'application/json' }],
      'service-doc': [
        { href: `${baseUrl}/llms.txt`, type: 'text/plain' },
        { href: `${baseUrl}/skill.md`, type: 'text/markdown' },
      ],
      'service-meta': [{ href: `${baseUrl}/.well-known/agent-card.json`, type: 'application/json' }],
    },
    {
      anchor: `${baseUrl}${MCP_PATH}`,
      'service-doc': [{ href: `${baseUrl}/skill.md`, type: 'text/markdown' }],
    },
  ],
})

/**
 * Declares a route for a document at the root, the same for everyone.
 *
 * @param type its media type
 * @param content its bytes, or what writes it for each request
 * @param schema describes it in the OpenAPI document
 */
function documentRoute(
  path: string,
  type: string,
  summary: string,
  content: Buffer | ((ctx: Context) => string),
  schema: Readonly<Record<string, unknown>> = { type: 'string' },
): Route {
  return defineRoute({
    method: 'GET',
    path,
    onlyAtRoot: true,
    access: 'open',
    needsDatabase: false,
    summary,
    view: noView,
    documents: { [type.split(';')[0] ?? type]: schema },
    handle: ({ ctx }) => documentAnswer(type, Buffer.isBuffer(content) ? content : content(ctx)),
  })
}
