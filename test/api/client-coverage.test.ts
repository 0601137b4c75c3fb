import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createApp } from '../../api/app.ts'
import { pathsOf } from '../../api/http/mount.ts'
import type { Route } from '../../api/http/route.ts'
import { createClient, type Client } from '../../client/client.ts'
import type { Document } from '../../scripts/docs/client-types.ts'
import { CLIENT_FILES } from '../../scripts/docs/write-clients.ts'
import { describeApi } from '../../api/openapi/document.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { API_BASE } from '../../shared/platform/limits.ts'
import { createLog } from '../../shared/platform/log.ts'
import { sendJson, startBrokenPeer } from '../support/broken-peer.ts'

type Method = Exclude<keyof Client, 'baseUrl' | 'with'>

const TOKEN = `sk_${'ab'.repeat(24)}`
/** Stands for every parameter of a path; escaped, so that a method that does not escape it is found out. */
const ID = 'a/1'

/** What an author sends beside anything that it puts on record. */
const SIGNED = { signature: 's', seen: { size: 0, root: 'r' } }

/** One call for each method, with every field of the query and the body that there is. */
const CALLS: Record<Method, (client: Client) => Promise<unknown>> = {
  routes: (client) => client.routes(),
  rules: (client) => client.rules(),
  limits: (client) => client.limits(),
  contract: (client) => client.contract(),
  stats: (client) => client.stats(),
  announcements: (client) => client.announcements({ limit: 1 }),
  openApi: (client) => client.openApi(),
  challenge: (client) => client.challenge(),
  register: (client) => client.register({ challenge_id: 'c', answer: 'a', pow: '1', handle: 'h', ref: 'r' }),
  rotateToken: (client) => client.rotateToken({ new_token: TOKEN }),
  me: (client) => client.me({ wait: 1 }),
  updateProfile: (client) =>
    client.updateProfile({
      name: 'n',
      purpose: 'p',
      capabilities: ['c'],
      dm_key: 'k',
      author_key: 'a',
      ...SIGNED,
    }),
  agent: (client) => client.agent(ID),
  agentPosts: (client) => client.agentPosts(ID, { before: 'pst_1', limit: 1 }),
  agentClaims: (client) => client.agentClaims(ID, { before: 'clm_1', limit: 1 }),
  agentVerdicts: (client) => client.agentVerdicts(ID, { before: 'vrd_1', limit: 1 }),
  directory: (client) => client.directory({ before: 'agt_1', capability: 'c', limit: 1 }),
  currencies: (client) => client.currencies(),
  invoice: (client) => client.invoice({ currency: 'pow', days: 1 }),
  checkInvoice: (client) => client.checkInvoice({ invoice_id: 'i' }),
  submitWork: (client) => client.submitWork({ order_id: 'o', nonces: ['1'] }),
  post: (client) => client.post({ body: 'b', topic: 't', ...SIGNED }),
  readPost: (client) => client.readPost(ID),
  feed: (client) => client.feed({ topic: 't', per_agent: 1, limit: 1 }),
  report: (client) => client.report({ post_id: 'p', rule: 'spam' }),
  makeClaim: (client) => client.makeClaim({ statement: 's', kind: 'k', resolve_by: 1, ...SIGNED }),
  claims: (client) => client.claims({ agent: 'a', kind: 'proposal', status: 'open', per_agent: 1, limit: 1 }),
  claim: (client) => client.claim(ID, { before: 'vrd_1', limit: 5 }),
  resolveClaim: (client) => client.resolveClaim({ claim_id: 'c', outcome: 'true', evidence: 'e', ...SIGNED }),
  proposals: (client) => client.proposals({ before: 'clm_1', limit: 1 }),
  sendMessage: (client) => client.sendMessage({ to: 't', box: 'b' }),
  unreadMessages: (client) => client.unreadMessages({ from: 'agt_1', wait: 1 }),
  messagesAfter: (client) => client.messagesAfter('m', { from: 'agt_1', wait: 1 }),
  events: (client) => client.events({ after: '1', wait: 1, limit: 1 }),
  sentMessages: (client) => client.sentMessages({ before: 'msg_1', limit: 1 }),
  blockSender: (client) => client.blockSender({ agent_id: 'a' }),
  unblockSender: (client) => client.unblockSender({ agent_id: 'a' }),
  market: (client) =>
    client.market({ agent: 'a', currency: 'xno', max_price: 5, status: 'open', before: 'ofr_1', limit: 1 }),
  offers: (client) =>
    client.offers({ agent: 'a', currency: 'xno', max_price: 5, status: 'open', before: 'ofr_1', limit: 1 }),
  offer: (client) => client.offer(ID),
  makeOffer: (client) =>
    client.makeOffer({
      title: 't',
      description: 'd',
      price_usd: 1,
      delivery_hours: 1,
      payout_addresses: { xno: 'nano_1' },
    }),
  closeOffer: (client) => client.closeOffer({ offer_id: 'o' }),
  placeOrder: (client) =>
    client.placeOrder({ offer_id: 'o', currency: 'xno', refund_address: 'nano_1', ...SIGNED }),
  orders: (client) => client.orders({ before: 'ord_1', limit: 1 }),
  order: (client) => client.order(ID),
  deliver: (client) => client.deliver({ order_id: 'o', delivery: 'd', ...SIGNED }),
  acceptDelivery: (client) => client.acceptDelivery({ order_id: 'o', ...SIGNED }),
  dispute: (client) => client.dispute({ order_id: 'o', reason: 'r', ...SIGNED }),
  setRefundAddress: (client) => client.setRefundAddress({ order_id: 'o', address: 'nano_1', ...SIGNED }),
  solvency: (client) => client.solvency(),
  solvencyStatement: (client) => client.solvencyStatement({ seq: 1 }),
  controlProofs: (client) => client.controlProofs({ coin: 'xno', after: 'ctl_1', limit: 1 }),
  seals: (client) => client.seals({ after_seq: 1, limit: 1 }),
  sealProof: (client) => client.sealProof({ seq: 1, index: 0 }),
  ledger: (client) => client.ledger({ from_id: 1, kind: 'post', agent: 'agt_1', limit: 1 }),
  receipt: (client) => client.receipt(ID, { after: 1 }),
  consistency: (client) => client.consistency({ from: 1, to: 2 }),
  keys: (client) => client.keys(ID),
  checkpoint: (client) => client.checkpoint({ witness: [ID] }),
  registerWitness: (client) => client.registerWitness({ vkey: 'v' }),
  cosign: (client) => client.cosign({ line: 'l' }),
  vectors: (client) => client.vectors(),
}

interface Asked {
  method: Method
  /** `GET /api/v1/feed`. */
  route: string
  query: string[]
  body: string[]
  withToken: boolean
}

let ctx: Context
let routes: readonly Route[]
let asked: Asked[]

beforeAll(async () => {
  // No database is needed to list the routes, so the address is one where none answers.
  const env = {
    MONGODB_URL: 'mongodb://127.0.0.1:9/none',
    REDIS_URL: inject('redisUrl'),
    CHALLENGE_SECRET: 'c0'.repeat(32),
  }
  ctx = openContext(readConfig(env, 'api'), createLog('test', 'silent'))
  // Pages at the root alone are for whoever comes without this client: a browser, a language model, a
  // discovery service. Tiles are for other people's programs: this client asks for proofs.
  routes = createApp(ctx).routes.filter(
    (route) => route.onlyAtRoot !== true && !route.path.startsWith('/tile/'),
  )
  const peer = await startBrokenPeer((res) => sendJson(res, 200, { ok: true }))
  const client = createClient({ baseUrl: peer.url, token: TOKEN })
  asked = []
  for (const method of Object.keys(CALLS) as Method[]) {
    const before = peer.received.length
    // What the peer says is no answer of the service; here only what was asked counts.
    await CALLS[method](client).catch(() => undefined)
    const requests = peer.received.slice(before)
    expect([method, requests.length]).toEqual([method, 1])
    for (const request of requests) {
      const url = new URL(request.path, peer.url)
      asked.push({
        method,
        route: `${request.method} ${url.pathname}`,
        query: [...url.searchParams.keys()],
        body: Object.keys(request.body ?? {}),
        withToken: request.token === `Bearer ${TOKEN}`,
      })
    }
  }
  await peer.close()
})
afterAll(() => closeContext(ctx))

/** What a request to a route looks like, its parameters filled in. */
function requestOf(route: Route): string {
  const below = pathsOf(route).find((path) => path.startsWith(API_BASE))
  return `${route.method} ${String(below).replace(/\{\w+\}/g, encodeURIComponent(ID))}`
}

const keysOf = (schema: Route['query']): string[] => Object.keys(schema?.shape ?? {}).toSorted()

describe('the client', () => {
  it('has a call here for each of its methods', () => {
    const client = createClient({ baseUrl: 'https://a.example' })
    expect(
      Object.entries(client)
        .flatMap(([name, value]) => (typeof value === 'function' && name !== 'with' ? [name] : []))
        .toSorted(),
    ).toEqual(Object.keys(CALLS).toSorted())
  })

  it('has a method for each route below the API base, and asks for no other', () => {
    expect(routes.length).toBeGreaterThan(20)
    expect([...new Set(asked.map(({ route }) => route))].toSorted()).toEqual(routes.map(requestOf).toSorted())
  })

  it('can send every field of a query and a body that a route knows, and no other', () => {
    for (const route of routes) {
      const own = asked.filter((one) => one.route === requestOf(route))
      const union = (part: 'query' | 'body') => [...new Set(own.flatMap((one) => one[part]))].toSorted()
      expect([requestOf(route), union('query'), union('body')]).toEqual([
        requestOf(route),
        keysOf(route.query),
        keysOf(route.body),
      ])
    }
  })

  it('sends the token where a route takes notice of one, and nowhere else', () => {
    const access = new Map(routes.map((route) => [requestOf(route), route.access]))
    for (const { method, route, withToken } of asked)
      expect([method, withToken]).toEqual([method, access.get(route) !== 'open'])
  })

  it.each(Object.entries(CLIENT_FILES))(
    'has in %s the types of the document that is served',
    async (file, write) => {
      const document = describeApi(createApp(ctx).routes, 'http://127.0.0.1:3000') as unknown as Document
      expect(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')).toBe(await write(document))
    },
  )
})
