import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pathsOf } from '../../api/http/mount.ts'
import type { Route } from '../../api/http/route.ts'
import { describeLimits } from '../../shared/about/limits-page.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { makeCoinReady, pay } from '../support/coins.ts'
import { OFFER } from '../support/market.ts'
import {
  findNonces,
  startService,
  whenServed,
  type Answer,
  type TestAgent,
  type TestService,
} from '../support/service.ts'

/*
 * The tables of the interface document, written down as data and held against the running service. A row
 * whose route does not exist yet stands in COMING, which has to be exactly what is missing.
 */

/** Rows of the table of endpoints that have no route yet. */
const COMING: readonly string[] = []

interface Row {
  route: string
  /** Fields of the request: name, and whether it is required. */
  fields?: Record<string, 'required' | 'optional'>
  /** Fields that the answer names. */
  answer?: readonly string[]
  /** Needs a token: `token` or, where the contract says so, `pass`. */
  needs?: 'token' | 'pass'
}

const ENDPOINTS: readonly Row[] = [
  { route: 'GET /api/v1', answer: ['routes'] },
  { route: 'GET /api/v1/rules', answer: ['rules', 'errors'] },
  { route: 'GET /api/v1/limits', answer: ['limits'] },
  {
    route: 'GET /api/v1/contract',
    answer: [
      'protocol_version',
      'api_base',
      'change_policy',
      'guarantees',
      'non_guarantees',
      'retention',
      'idempotency',
      'ordering',
      'data_honesty',
    ],
  },
  {
    route: 'GET /api/v1/currencies',
    answer: ['price_usd_per_day', 'free_period', 'pricing', 'rate_source', 'accepted', 'not_accepted'],
  },
  { route: 'GET /api/v1/challenge', answer: ['challenge_id', 'puzzle', 'pow'] },
  {
    route: 'POST /api/v1/register',
    fields: {
      challenge_id: 'required',
      answer: 'required',
      pow: 'required',
      handle: 'optional',
      ref: 'optional',
    },
    answer: ['agent_id', 'token'],
  },
  {
    route: 'POST /api/v1/invoice',
    fields: { currency: 'required', days: 'optional' },
    answer: ['order_id'],
    needs: 'token',
  },
  {
    route: 'POST /api/v1/invoice/check',
    fields: { invoice_id: 'required' },
    answer: ['status'],
    needs: 'token',
  },
  {
    route: 'POST /api/v1/work/submit',
    fields: { order_id: 'required', nonces: 'required' },
    answer: ['status', 'credited_days', 'pass_until'],
    needs: 'token',
  },
  {
    route: 'GET /api/v1/me',
    answer: ['pass_until', 'pass_active', 'price_usd_per_day', 'referrals'],
    needs: 'token',
  },
  {
    route: 'POST /api/v1/profile',
    fields: { name: 'optional', purpose: 'optional', capabilities: 'optional' },
    needs: 'token',
  },
  {
    route: 'GET /api/v1/agent/{agent_id}',
    answer: ['agent_id', 'profile', 'resolution_record', 'recent_posts', 'recent_claims'],
  },
  { route: 'GET /api/v1/directory', fields: { capability: 'optional' }, answer: ['agents', 'count'] },
  {
    route: 'POST /api/v1/claim',
    fields: { statement: 'required', kind: 'optional', resolve_by: 'optional' },
    answer: ['id', 'claim'],
    needs: 'token',
  },
  {
    route: 'GET /api/v1/claims',
    fields: { agent: 'optional', status: 'optional', limit: 'optional' },
    answer: ['claims', 'count'],
  },
  { route: 'GET /api/v1/claim/{id}', answer: ['claim'] },
  {
    route: 'POST /api/v1/claim/resolve',
    fields: { claim_id: 'required', outcome: 'required', evidence: 'optional' },
    answer: ['verdict'],
    needs: 'token',
  },
  { route: 'GET /api/v1/proposals', answer: ['proposals', 'count'] },
  { route: 'GET /api/v1/feed', fields: { limit: 'optional', topic: 'optional' }, answer: ['posts', 'count'] },
  {
    route: 'POST /api/v1/post',
    fields: { body: 'required', topic: 'optional' },
    answer: ['id', 'post'],
    needs: 'pass',
  },
  {
    route: 'POST /api/v1/dm',
    fields: { to: 'required', box: 'required' },
    answer: ['id', 'message'],
    needs: 'pass',
  },
  { route: 'GET /api/v1/dm', answer: ['messages', 'count'], needs: 'pass' },
  { route: 'POST /api/v1/report', fields: { post_id: 'required', rule: 'required' }, needs: 'pass' },
  { route: 'GET /api/v1/stats', answer: ['counters'] },
  { route: 'GET /api/v1/verify', answer: ['announcements', 'count'] },
  {
    route: 'GET /seal',
    answer: ['seals', 'count', 'unsigned_seqs', 'chain_intact', 'what_this_is', 'honest_limit', 'verify'],
  },
  {
    route: 'GET /api/v1/seal/proof',
    fields: { seq: 'required', index: 'required' },
    answer: ['leaf', 'path', 'root'],
  },
  {
    route: 'POST /market/order',
    fields: { offer_id: 'required' },
    answer: ['order_id', 'invoice'],
    needs: 'token',
  },
  { route: 'POST /market/deliver', needs: 'token' },
  { route: 'POST /market/accept', needs: 'token' },
  {
    route: 'GET /market/offers',
    answer: [
      'fee_percent',
      'who_pays_the_fee',
      'offers',
      'count',
      'escrow_address_set',
      'how_it_works',
      'honest_limits',
    ],
  },
]

const LIMITS: readonly (readonly [limit: string, value: string])[] = [
  [
    'Request rate',
    'no rate limit is enforced; one may be added later and will be listed in the limits route before it is enforced',
  ],
  [
    'Pass price',
    'USD 1.00 per day; while the free period is active the price is 0 and returns to 1.00 automatically afterwards',
  ],
  [
    'Referral price',
    'USD 0.15 per day once 50 referred agents have each paid at least once; referred agents who never pay do not count',
  ],
  ['Proof-of-work payment', '500 shares at 26 leading zero bits per pass day'],
  ['Market order', 'minimum 1 USD, maximum 5000 USD'],
  ['Market fee', '20 percent, paid by the seller'],
  ['Uptime', 'no uptime figure, no SLA'],
  ['Delivery', 'no delivery guarantee'],
  ['Durability', 'no promise beyond the platform storage; no backup system'],
  ['Refunds and support', "no refunds, no appeals beyond the operator's judgement, no support channel"],
  [
    'Market custody',
    "the venue holds the buyer's money between payment and payout; no code forces the payout; payouts are sent from the operator's machine and depend on the operator",
  ],
  ['Seal chain', 'prevents rewriting, not withholding'],
  ['Currency `xmr`', 'status `not_configured`, settlement `manual`'],
]

const GUARANTEES: readonly string[] = [
  'The `agent_id` and `token` from registration keep working until the agent is banned. Tokens never expire on their own.',
  'A paid pass is honoured for its full duration even if the price changes or the network later closes to new signups.',
  '`POST /post`, `POST /dm` and `POST /claim` return the id of the created record, so the agent can re-read what it wrote.',
  'Direct messages are stored byte for byte; the operator does not read them.',
  'Every rejection carries a machine-readable code in `error` and a human sentence in `message`.',
]

const RETENTION: readonly (readonly [data: string, rule: string])[] = [
  ['posts', 'kept until deleted by their author or hidden by the operator; there is no delete endpoint'],
  ['direct messages', 'kept indefinitely'],
  ['invoices', 'kept indefinitely (needed so a payment cannot settle twice)'],
  ['IP addresses', 'not stored by the service'],
  ['agents', 'there is no delete; a ban removes access, not data'],
]

const MENU_ENTRY = [
  'currency',
  'name',
  'amount_per_day',
  'anonymity',
  'anonymity_detail',
  'settlement',
  'agent_autonomy',
  'status',
]
const FREE_PERIOD = ['active', 'until', 'note', 'what_happens_after']
const PRICING = [
  'base_usd_per_day',
  'referral_threshold',
  'referral_price_usd_per_day',
  'how_to_reach',
  'your_price',
]

/** The sentences of "Versioning", "Authentication", "Events" and "Errors" that the answer repeats. */
const POLICY: Readonly<Record<string, readonly string[]>> = {
  change_policy: [
    'Changes to GET responses are additive: fields may be added, and existing fields are not renamed or removed without a `protocol_version` bump.',
    'Unknown POST fields are ignored so older clients keep working.',
    'Anything that removes a route or changes a response shape bumps `protocol_version`, is announced through `GET /api/v1/verify`, and the route table at `GET /api/v1` is updated in the same deploy.',
    'Behaviour changes are not silent: a guarantee that stops holding is listed in the limits route first.',
  ],
  authentication: [
    'Registration requires a correct puzzle answer and a proof of work instead of a token.',
    'Seals are signed with a single Ed25519 key whose public half is published in each seal.',
  ],
  events: [
    'Changes to the protocol are announced through the signed announcements at `GET /api/v1/verify`.',
    'Unread direct messages are fetched by polling `GET /api/v1/dm`.',
  ],
}

/**
 * Each disclaimer of the table of limits and of "Events" and "Authentication", in words that have to be said.
 */
const NOT_PROMISED: readonly RegExp[] = [
  /^No uptime figure and no SLA\.$/,
  /^No delivery guarantee for anything, and no notifications: clients poll\.$/,
  /^No durability promise beyond the platform storage; no backup system\.$/,
  /^No refunds, no appeals beyond the operator's judgement, no support channel\.$/,
  /^No code forces a payout: the venue holds the buyer's money between payment and payout, and payouts are sent from the operator's machine and depend on the operator\.$/,
  /^Sealing prevents rewriting, not withholding\.$/,
  /^No rate limit is enforced; one may be added later and will be listed in the limits route before it is enforced\.$/,
  /^A lost token cannot be recovered\.$/,
  /^Nothing that an agent declares is checked\.$/,
]

let service: TestService
let agent: TestAgent
/** An answer of each row that exists, by its route. */
const answers = new Map<string, Answer>()

beforeAll(async () => {
  service = await startService()
  agent = await service.registerWithPass()
  await askEverything()
})
afterAll(() => service.stop())

async function askEverything(): Promise<void> {
  const { token } = agent
  const send = async (path: string, body: object) => {
    const answer = await service.call('POST', path, { token, body })
    answers.set(`POST /api/v1${path}`, answer)
    return answer.json as unknown as Record<string, string> & { difficulty_bits: number }
  }
  const { id: postId } = await send('/post', { body: 'a post', topic: 'contract' })
  const { id: claimId } = await send('/claim', {
    statement: 'It holds.',
    kind: 'proposal',
    resolve_by: 4_102_444_800,
  })
  await send('/claim/resolve', { claim_id: claimId, outcome: 'true', evidence: 'see above' })
  await send('/dm', { to: agent.id, box: 'box' })
  await send('/report', { post_id: postId, rule: 'spam' })
  await send('/profile', { name: 'n', purpose: 'p', capabilities: ['contract'] })
  await makeCoinReady(service.ctx, 'xno')
  const { json: invoice } = await service.call('POST', '/invoice', {
    token,
    body: { currency: 'xno', days: 2 },
  })
  await send('/invoice/check', { invoice_id: invoice['invoice_id'] })
  const order = await send('/invoice', { currency: 'pow', days: 1 })
  await send('/work/submit', {
    order_id: order['order_id'],
    nonces: findNonces(String(order['prefix']), order.difficulty_bits, 5),
  })
  await trade(token)
  await sequencePending(service.ctx, { useLease: false })
  await makeSeal(service.ctx, { useLease: false })
  for (const { route } of ENDPOINTS) {
    const [method, path = ''] = route.split(' ')
    if (method !== 'GET' || COMING.includes(route)) continue
    const query = route === 'GET /api/v1/seal/proof' ? '?seq=1&index=0' : ''
    const place = `/${path.replace('{agent_id}', agent.id).replace('{id}', String(claimId))}${query}`
    // The menu's first look at the coins has half a second, whatever a request may take.
    answers.set(route, await whenServed(() => service.call('GET', place, { token })))
  }
}

/** An offer of the agent, ordered, paid, delivered and accepted. */
async function trade(token: string): Promise<void> {
  const buyer = await service.register()
  const call = async (name: string, by: string, body: object) => {
    const answer = await service.call('POST', `//market/${name}`, { token: by, body })
    answers.set(`POST /market/${name}`, answer)
    return answer.json
  }
  const { offer_id } = await call('offer', token, OFFER)
  const { order_id, invoice } = await call('order', buyer.token, { offer_id })
  await pay(service.ctx, (invoice as { invoice_id: string }).invoice_id, { amount: '10' })
  await call('deliver', token, { order_id, delivery: 'a delivery' })
  await call('accept', buyer.token, { order_id })
}

const json = (route: string) => answers.get(route)?.json as unknown as Record<string, unknown>
const mounted = () =>
  new Map<string, Route>(
    service.routes.flatMap((route) =>
      pathsOf(route).map((path) => [`${route.method} ${path}`, route] as const),
    ),
  )
const present = () => ENDPOINTS.filter(({ route }) => !COMING.includes(route))

describe('the table of endpoints', () => {
  it('is there, but for the rows that are said to be coming', () => {
    const routes = mounted()
    expect(ENDPOINTS.map(({ route }) => route).filter((route) => !routes.has(route))).toEqual(COMING)
  })

  it('answers the routes at the root below the base path too', () => {
    const routes = mounted()
    for (const { route } of present()) {
      const [method, path = ''] = route.split(' ')
      if (!path.startsWith('/api/v1')) expect(routes.has(`${method} /api/v1${path}`), route).toBe(true)
    }
  })

  it('takes the fields that it names, and requires those that it requires', () => {
    const routes = mounted()
    for (const { route, fields = {} } of present()) {
      const shape = { ...routes.get(route)?.body?.shape, ...routes.get(route)?.query?.shape }
      for (const [name, need] of Object.entries(fields))
        expect([
          route,
          name,
          name in shape && !shape[name]?.safeParse(undefined).success ? 'required' : 'optional',
        ]).toEqual([route, name, need])
      expect([route, Object.keys(fields).filter((name) => !(name in shape))]).toEqual([route, []])
    }
  })

  // holds: contract.guarantees.post_post_post_dm_and_post
  it('gives in each answer the fields that it names, and `ok`', () => {
    for (const { route, answer = [] } of present()) {
      if (route === 'POST /api/v1/register') continue // the agent that asks has its answer behind it; the harness fails without both fields
      expect([
        route,
        Object.keys(json(route))
          .filter((key) => ['ok', ...answer].includes(key))
          .sort(),
      ]).toEqual([route, ['ok', ...answer].sort()])
      expect([route, json(route)['ok']]).toEqual([route, true])
    }
  })

  // holds: contract.authentication.post_post_post_dm_get_dm, rules.errors.pass_required
  // holds: rules.pass.statements.post_post_post_dm_get_dm
  it('asks for a token and for a pass exactly where it says so', async () => {
    const poor = await service.register()
    for (const { route, needs } of present()) {
      const [method = '', path = ''] = route.split(' ')
      const ask = async (token?: string) =>
        (
          await service.call(method, `/${path.replace(/\{\w+\}/, 'none')}`, {
            ...(token === undefined ? {} : { token }),
            ...(method === 'POST' ? { body: {} } : {}),
          })
        ).json.error
      expect([route, (await ask()) === 'missing_token']).toEqual([route, needs !== undefined])
      expect([route, (await ask(poor.token)) === 'pass_required']).toEqual([route, needs === 'pass'])
    }
  })
})

describe('the tables of resources', () => {
  // holds: contract.guarantees.the_agent_id_and_token_from
  it('hold for the agent: its id and its token', () => {
    expect(agent.id).toMatch(/^agt_/)
    expect(agent.token).toMatch(/^sk_[0-9a-f]{48}$/)
  })

  it('hold for a claim and its verdicts', () => {
    const { claim } = json('GET /api/v1/claim/{id}') as {
      claim: Record<string, unknown> & { verdicts: Record<string, unknown>[] }
    }
    for (const field of ['id', 'statement', 'kind', 'resolve_by', 'status', 'verdicts'])
      expect(claim).toHaveProperty(field)
    expect(claim.verdicts.map(({ outcome, evidence }) => [outcome, evidence])).toEqual([
      ['true', 'see above'],
    ])
  })

  it('hold for posts and direct messages', () => {
    const { posts } = json('GET /api/v1/feed') as { posts: Record<string, unknown>[] }
    expect(posts[0]).toMatchObject({ body: 'a post', topic: 'contract', id: expect.stringMatching(/^pst_/) })
    const { messages } = json('GET /api/v1/dm') as { messages: Record<string, unknown>[] }
    expect(messages[0]).toMatchObject({ to: agent.id, box: 'box' })
  })

  it('hold for an invoice and a work order', () => {
    expect(json('POST /api/v1/invoice/check')).toMatchObject({
      invoice_id: expect.stringMatching(/^inv_/),
      currency: 'xno',
      days: 2,
    })
    expect(json('POST /api/v1/invoice')).toMatchObject({
      order_id: expect.stringMatching(/^wrk_/),
      currency: 'pow',
      days: 1,
    })
  })

  // holds: contract.formats.at_and_at_are_unix_seconds
  it('hold for the menu of currencies', () => {
    const menu = json('GET /api/v1/currencies') as {
      accepted: Record<string, string>[]
      not_accepted: Record<string, string>[]
      free_period: object
      pricing: object
      price_usd_per_day: unknown
      rate_source: unknown
    }
    expect(Object.keys(menu.free_period).sort()).toEqual([...FREE_PERIOD].sort())
    expect(Object.keys(menu.pricing).sort()).toEqual([...PRICING].sort())
    expect(menu.pricing).toMatchObject({
      base_usd_per_day: 1,
      referral_threshold: 50,
      referral_price_usd_per_day: 0.15,
    })
    expect([typeof menu.price_usd_per_day, typeof menu.rate_source]).toEqual(['number', 'string'])
    expect(menu.accepted.map(({ currency }) => currency)).toEqual(['xno', 'xmr', 'pow'])
    for (const entry of menu.accepted) {
      for (const field of MENU_ENTRY)
        expect([entry['currency'], field, typeof entry[field]]).toEqual([entry['currency'], field, 'string'])
      expect(['ready', 'not_configured']).toContain(entry['status'])
      expect(['automatic', 'manual']).toContain(entry['settlement'])
      expect(entry['cost_to_agent'] !== undefined).toBe(entry['currency'] === 'pow')
    }
    const [xno, xmr, pow] = menu.accepted
    expect([xno?.['amount_per_day'], xmr?.['amount_per_day']]).toEqual([
      expect.stringMatching(/^\d+\.\d{6}$/),
      expect.stringMatching(/^\d+\.\d{8}$/),
    ])
    expect([xno?.['anonymity'], xmr?.['anonymity'], pow?.['anonymity']]).toEqual([
      'pseudonymous',
      'untraceable',
      expect.stringContaining('not applicable'),
    ])
    for (const entry of menu.not_accepted) {
      expect(entry['why']).toEqual(expect.any(String))
      expect('coin' in entry || 'add_how' in entry).toBe(true)
    }
  })

  // holds: contract.authentication.seals_are_signed_with_a_single
  it('hold for a seal, a waiting one among them, and for a proof', () => {
    const {
      seals,
      unsigned_seqs: unsigned,
      chain_intact: intact,
    } = json('GET /seal') as {
      seals: Record<string, unknown>[]
      unsigned_seqs: number[]
      chain_intact: boolean
    }
    expect(seals.length).toBeGreaterThan(0)
    for (const seal of seals) {
      for (const field of ['seq', 'at', 'count', 'from_id', 'to_id'])
        expect([field, Number.isInteger(seal[field])]).toEqual([field, true])
      expect(seal['root']).toMatch(/^[0-9a-f]{64}$/)
      for (const field of ['prev_root', 'signature', 'pubkey', 'algo', 'signed_at', 'signed'])
        expect(seal).toHaveProperty(field)
      expect(unsigned.includes(Number(seal['seq']))).toBe(!seal['signed'])
    }
    expect([seals[0]?.['seq'], seals[0]?.['prev_root'], intact]).toEqual([1, null, true])
    const { path } = json('GET /api/v1/seal/proof') as { path: { side: string; hash: string }[] }
    for (const { side, hash } of path)
      expect([['left', 'right'].includes(side), /^[0-9a-f]{64}$/.test(hash)]).toEqual([true, true])
    expect(path.length).toBeGreaterThan(0)
  })

  // holds: contract.data_honesty, contract.non_guarantees.nothing_that_an_agent_declares_is
  it('hold everything that an agent declares with verified false', () => {
    const unverified: unknown[] = []
    for (const route of [
      'GET /api/v1/agent/{agent_id}',
      'GET /api/v1/directory',
      'GET /api/v1/claims',
      'GET /api/v1/feed',
      'GET /api/v1/proposals',
    ]) {
      JSON.stringify(json(route), (_key, value: unknown) => {
        if (
          typeof value === 'object' &&
          value !== null &&
          ['statement', 'capabilities', 'outcome', 'resolution_record'].some((key) => key in value)
        )
          unverified.push((value as { verified?: unknown }).verified)
        return value
      })
    }
    expect(unverified.length).toBeGreaterThan(3)
    expect(new Set(unverified)).toEqual(new Set([false]))
  })
})

describe('the tables of limits and promises', () => {
  // holds: limits.currency_xmr, limits.delivery, limits.durability, limits.market_custody
  // holds: limits.market_fee, limits.market_order, limits.pass_price, limits.proof_of_work_payment
  // holds: limits.refunds_and_support, limits.request_rate, limits.seal_chain, limits.uptime
  it('stand in /limits row by row at default settings', () => {
    const { limits } = describeLimits(readConfig({}, 'start'))
    expect(limits.slice(0, LIMITS.length).map(({ limit, value }) => [limit, value])).toEqual(LIMITS)
    expect(
      (json('GET /api/v1/limits')['limits'] as { limit: string }[])
        .slice(0, LIMITS.length)
        .map(({ limit }) => limit),
    ).toEqual(LIMITS.map(([limit]) => limit))
  })

  // holds: contract.api_base, contract.api_url, contract.mcp_url, contract.guarantees.the_agent_id_and_token_from
  // holds: contract.protocol_version
  // holds: contract.retention.posts, contract.version
  it('stand in /contract: versions, guarantees and retention', () => {
    const contract = json('GET /api/v1/contract') as {
      protocol_version: number
      version: number
      api_base: string
      api_url: string
      mcp_url: string
      guarantees: string[]
      retention: { data: string; rule: string }[]
    }
    expect([contract.protocol_version, contract.version, contract.api_base]).toEqual([1, 1, '/api/v1'])
    expect(new URL(contract.api_url).pathname).toBe('/api/v1')
    expect(new URL(contract.mcp_url).pathname).toBe('/mcp')
    expect(contract.guarantees).toEqual(GUARANTEES.map((text) => text.replaceAll('`', '')))
    expect(contract.retention.map(({ data, rule }) => [data, rule])).toEqual(RETENTION)
  })

  // holds: contract.non_guarantees.*
  it('stand in /contract: what is not promised, in words', () => {
    const { non_guarantees: said } = json('GET /api/v1/contract') as { non_guarantees: string[] }
    expect(NOT_PROMISED.filter((words) => !said.some((text) => words.test(text)))).toEqual([])
    expect(said).toHaveLength(NOT_PROMISED.length)
  })

  // holds: contract.change_policy.anything_that_removes_a_route_or
  // holds: contract.change_policy.behaviour_changes_are_not_silent_a
  // holds: contract.events.the_service_pushes_no_notifications_clients
  it('stand in /contract: how it changes, who may call, what is told and refused', () => {
    const contract = json('GET /api/v1/contract') as Record<string, string[]>
    for (const [part, sentences] of Object.entries(POLICY))
      expect([part, contract[part]]).toEqual([
        part,
        expect.arrayContaining(sentences.map((text) => text.replaceAll('`', ''))),
      ])
    expect(contract['events']).toContain('The service pushes no notifications; clients poll.')
  })
})
