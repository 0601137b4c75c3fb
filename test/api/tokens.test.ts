import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createAuthenticator } from '../../api/http/authenticate.ts'
import { pathsOf } from '../../api/http/mount.ts'
import type { Access } from '../../api/http/route.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { newToken, tokenKey } from '../../shared/agents/token.ts'
import { TOKEN_CACHE_MS } from '../../shared/platform/limits.ts'
import { DAY_MS, SECOND_MS } from '../../shared/platform/time.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { listPending } from '../support/stored.ts'
import { connectRaw } from '../support/torture-sockets.ts'
import {
  startService,
  whenServed,
  WITHOUT_LEDGER,
  type Answer,
  type TestAgent,
  type TestApi,
  type TestService,
} from '../support/service.ts'

let service: TestService
/** Stands for another process of the same service. */
let other: TestApi

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  other = await service.addApi()
})
afterAll(() => service.stop())

const outcome = ({ status, json }: Answer) => `${status} ${json.error ?? 'ok'}`
const me = async (api: TestApi, token: string) => outcome(await api.call('GET', '/me', { token }))
const rotate = (api: TestApi, token: string, body: object = {}) =>
  api.call('POST', '/token/rotate', { token, body })

/**
 * Asks until the answer is `end`. What is asked later than a process remembers tokens, from `sinceMs` on, is
 * not let in any more.
 */
async function untilShutOut(api: TestApi, token: string, end: string, sinceMs: number): Promise<void> {
  await waitFor(
    'the end of access',
    async () => {
      const askedMs = performance.now()
      const said = await me(api, token)
      if (said === '200 ok') expect(askedMs - sinceMs).toBeLessThan(TOKEN_CACHE_MS)
      return said === end ? true : undefined
    },
    { limitMs: PATIENCE_MS, everyMs: 20 },
  )
}

describe('every route', () => {
  const NEVER = `sk_${'0'.repeat(48)}`
  /** What a caller gets by the route's access; undefined where the route's own rules answer. */
  const EXPECTED: Record<Access, Record<string, string | undefined>> = {
    open: {},
    optional: {
      malformed: '401 invalid_token',
      unknown: '401 invalid_token',
      rotated: '401 invalid_token',
      banned: '403 banned',
    },
    token: {
      none: '401 missing_token',
      malformed: '401 invalid_token',
      unknown: '401 invalid_token',
      rotated: '401 invalid_token',
      banned: '403 banned',
    },
    fresh: {
      none: '401 missing_token',
      malformed: '401 invalid_token',
      unknown: '401 invalid_token',
      rotated: '401 invalid_token',
      banned: '403 banned',
    },
    pass: {
      none: '401 missing_token',
      malformed: '401 invalid_token',
      unknown: '401 invalid_token',
      rotated: '401 invalid_token',
      banned: '403 banned',
      'without a pass': '402 pass_required',
    },
  }
  /** The contract's own words: which route asks for what. Every route that is not named here is open. */
  const PASS = ['POST /post', 'POST /dm', 'GET /dm', 'POST /report']
  const TOKEN = [
    'POST /invoice',
    'POST /invoice/check',
    'POST /work/submit',
    'GET /me',
    'GET /doorbell',
    'POST /doorbell',
    'DELETE /doorbell',
    'POST /profile',
    'GET /dm/sent',
    'GET /events',
    'POST /witness',
    'POST /witness/cosign',
    'POST /dm/block',
    'POST /dm/unblock',
    'POST /claim',
    'POST /claim/resolve',
    'POST /token/rotate',
    'GET /market/orders',
    'GET /market/order/{order_id}',
  ]

  // holds: contract.authentication.post_post_post_dm_get_dm, rules.errors.pass_required
  // holds: rules.pass.statements.post_post_post_dm_get_dm
  it('asks for what the contract says it asks for', () => {
    for (const { method, path, access } of service.routes) {
      const name = `${method} ${path}`
      const needs = PASS.includes(name)
        ? ['pass']
        : TOKEN.includes(name) || name.startsWith('POST /market')
          ? ['token', 'fresh']
          : name === 'GET /currencies'
            ? ['optional']
            : ['open']
      expect(needs, name).toContain(access)
    }
  })

  it('refuses a banned agent, but for naming where it is paid what it is owed', () => {
    expect(service.routes.filter(({ servesBanned }) => servesBanned).map(({ path }) => path)).toEqual([
      '/market/refund-address',
    ])
  })

  // holds: limits.rotation_and_bans.detail
  it('never uses a remembered token for invoices, work, market and rotation', () => {
    const fresh = service.routes.filter(({ access }) => access === 'fresh').map(({ path }) => path)
    const expected = service.routes
      .filter(
        ({ method, path }) =>
          /^\/(invoice|work|token)/.test(path) || (path.startsWith('/market') && method === 'POST'),
      )
      .map(({ path }) => path)
    expect(fresh).toEqual(expect.arrayContaining([...expected, '/market/orders', '/market/order/{order_id}']))
    expect(fresh.length).toBeGreaterThan(2)
  })

  // holds: contract.authentication.post_post_post_dm_get_dm, rules.errors.invalid_token
  // holds: rules.errors.missing_token, rules.errors.pass_required
  // holds: rules.pass.statements.post_post_post_dm_get_dm
  it('decides alike about each kind of caller', async () => {
    const banned = await service.registerWithPass()
    await setBanned(service.ctx, banned.id, true)
    const rotated = await service.registerWithPass()
    await rotate(service, rotated.token)
    const callers: Record<string, string | undefined> = {
      none: undefined,
      malformed: 'sk_short',
      unknown: NEVER,
      rotated: rotated.token,
      banned: banned.token,
      'without a pass': (await service.register()).token,
      'with a pass': (await service.registerWithPass()).token,
    }
    for (const route of service.routes) {
      for (const [kind, token] of Object.entries(callers)) {
        const [path = ''] = pathsOf(route)
        const target = `/${path.replace(/\{(\w+)\}/g, 'none')}`
        // A body that no route takes, so that whoever is let in is refused for the body and changes nothing.
        const answer = await service.call(route.method, target, {
          ...(token === undefined ? {} : { token }),
          ...(route.method === 'POST' ? { rawBody: '[]' } : {}),
        })
        const takesCaller = kind === 'banned' && route.servesBanned === true
        const expected = takesCaller ? undefined : EXPECTED[route.access][kind]
        const isLetIn = ![401, 402].includes(answer.status) && answer.json.error !== 'banned'
        if (expected === undefined)
          expect(isLetIn, `${route.method} ${route.path} ${kind}: ${outcome(answer)}`).toBe(true)
        else expect(outcome(answer), `${route.method} ${route.path} ${kind}`).toBe(expected)
      }
    }
  })

  // holds: contract.authentication.authorization_bearer_token_the_token_being
  it('reads the header in the forms that HTTP allows and in no other', async () => {
    const { token } = await service.register()
    const withHeader = async (Authorization: string) =>
      outcome(await service.call('GET', '/me', { headers: { Authorization } }))
    for (const right of [`Bearer ${token}`, `bearer ${token}`, `BEARER   ${token}`])
      expect(await withHeader(right), right).toBe('200 ok')
    const wrong = [
      'Bearer',
      `Bearer${token}`,
      token,
      `Basic ${token}`,
      `Bearer ${token} x`,
      `Bearer ${token.toUpperCase()}`,
      `Bearer "${token}"`,
      `Bearer ${token}0`,
      `Bearer ${token.slice(0, -1)}`,
      `Bearer ${token.slice(0, -1)}é`,
    ]
    for (const header of wrong) expect(await withHeader(header), header).toBe('401 invalid_token')
    // The look-up key is right and the rest is not.
    expect(await me(service, token.slice(0, 19) + '0'.repeat(32))).toBe('401 invalid_token')
  })

  // holds: contract.authentication.authorization_bearer_token_the_token_being
  it('takes no token from the query or the body', async () => {
    const { token } = await service.register()
    expect(outcome(await service.call('GET', `/me?token=${token}&access_token=${token}`))).toBe(
      '401 missing_token',
    )
    expect(outcome(await service.call('POST', '/profile', { body: { token, access_token: token } }))).toBe(
      '401 missing_token',
    )
  })
})

describe('a rotation', () => {
  // holds: contract.authentication.tokens_never_expire_they_stop_working, limits.rotation_and_bans.detail
  // holds: rules.errors.invalid_token, rules.ledger.entry_kinds.token_rotation
  // holds: rules.registration.statements.post_token_rotate_replaces_the_token
  it('replaces the token at once in the answering process, and leaves one entry', async () => {
    const agent = await service.register()
    expect(await me(service, agent.token)).toBe('200 ok')
    const answer = await rotate(service, agent.token)
    const token = String(answer.json['token'])
    expect(answer.json).toMatchObject({
      agent_id: agent.id,
      token: expect.stringMatching(/^sk_[0-9a-f]{48}$/),
    })
    expect(await me(service, agent.token)).toBe('401 invalid_token')
    expect(await me(service, token)).toBe('200 ok')
    const entries = await listPending(service.ctx.database.connection, 'agents', agent.id)
    expect(entries.map(({ kind, data }) => [kind, data])).toEqual([
      ['registration', expect.anything()],
      ['token_rotation', { agent_id: agent.id }],
    ])
  })

  // holds: rules.registration.statements.post_token_rotate_replaces_the_token
  it('takes the token that the agent made, and a retry after a lost response finds it working', async () => {
    const agent = await service.register()
    const chosen = newToken()
    expect((await rotate(service, agent.token, { new_token: chosen })).json['token']).toBe(chosen)
    expect(outcome(await rotate(service, agent.token, { new_token: chosen }))).toBe('401 invalid_token')
    expect(await me(service, chosen)).toBe('200 ok')
  })

  it('refuses a token of another form, the present one, and one whose look-up key is taken', async () => {
    const [agent, stranger] = [await service.register(), await service.register()]
    const taken = stranger.token.slice(0, 19) + agent.token.slice(19)
    const guessed = [
      '0'.repeat(48),
      '01'.repeat(24),
      `${'0123456'.repeat(6)}012345`,
      '0123456789abcdef'.repeat(3),
    ].map((text) => `sk_${text}`)
    for (const new_token of [
      ...guessed,
      '',
      'sk_',
      `sk_${'A'.repeat(48)}`,
      `${newToken()}0`,
      5,
      null,
      agent.token,
      taken,
    ]) {
      const answer = await rotate(service, agent.token, { new_token })
      expect([answer.status, answer.json.error, answer.json.field], String(new_token)).toEqual([
        400,
        'invalid_field',
        'new_token',
      ])
    }
    expect([await me(service, agent.token), await me(service, stranger.token)]).toEqual(['200 ok', '200 ok'])
  })

  it('wins once when ten come at once, and the token that won works', async () => {
    const agent = await service.register()
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => rotate(i % 2 === 0 ? service : other, agent.token)),
    )
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    expect(answers.filter(({ json }) => json.error === 'invalid_token')).toHaveLength(9)
    expect(await me(service, String(won[0]?.json['token']))).toBe('200 ok')
  })

  // holds: limits.rotation_and_bans
  it('is felt in another process within its cache, and at once where nothing is remembered', async () => {
    const agent = await service.registerWithPass()
    const askOther = () => me(other, agent.token)
    expect(await askOther()).toBe('200 ok')
    await rotate(service, agent.token)
    const rotatedMs = performance.now()
    expect(
      outcome(await other.call('POST', '/invoice', { token: agent.token, body: { currency: 'pow' } })),
    ).toBe('401 invalid_token')
    await untilShutOut(other, agent.token, '401 invalid_token', rotatedMs)
    expect(await askOther()).toBe('401 invalid_token')
  })

  it('cannot be undone by a look-up that was under way', async () => {
    const agent = await service.register()
    let letThrough: () => void = () => undefined
    const held = new Promise<void>((resolve) => (letThrough = resolve))
    let tellRead: () => void = () => undefined
    const read = new Promise<void>((resolve) => (tellRead = resolve))
    // The real store, whose first answer is held back until the rotation is over.
    const findCaller: typeof service.ctx.agents.findCaller = async (key) => {
      const caller = await service.ctx.agents.findCaller(key)
      tellRead()
      await held
      return caller
    }
    const authenticator = createAuthenticator({
      ...service.ctx,
      agents: { ...service.ctx.agents, findCaller },
    })
    const early = authenticator.authenticate('token', `Bearer ${agent.token}`)
    // Its own round trip to the database is over before the rotation's begins.
    await read
    await rotate(service, agent.token)
    authenticator.forget(tokenKey(agent.token))
    letThrough()
    await early
    await expect(authenticator.authenticate('token', `Bearer ${agent.token}`)).rejects.toThrow(
      'The token is unknown',
    )
  })
})

describe('a ban', () => {
  const ban = (agent: TestAgent) => setBanned(service.ctx, agent.id, true)

  // holds: limits.rotation_and_bans
  it('is felt at once on routes that never use what is remembered, and within the cache on the others', async () => {
    const agent = await service.registerWithPass()
    const callers = [service, other]
    for (const api of callers) expect(await me(api, agent.token)).toBe('200 ok')
    await ban(agent)
    const bannedMs = performance.now()
    for (const api of callers) {
      for (const path of ['/invoice', '/invoice/check', '/work/submit', '/token/rotate'])
        expect(outcome(await api.call('POST', path, { token: agent.token, body: {} })), path).toBe(
          '403 banned',
        )
      await untilShutOut(api, agent.token, '403 banned', bannedMs)
      expect(outcome(await api.call('POST', '/post', { token: agent.token, body: { body: 'x' } }))).toBe(
        '403 banned',
      )
    }
  })

  it('is felt by a request whose body was still on its way, as a rotation is', async () => {
    for (const { path, body, shutOut, end } of [
      { path: '/post', body: { body: 'sent slowly' }, shutOut: ban, end: 'banned' },
      { path: '/invoice', body: { currency: 'pow' }, shutOut: ban, end: 'banned' },
      {
        path: '/invoice',
        body: { currency: 'pow' },
        shutOut: ({ token }: TestAgent) => rotate(service, token),
        end: 'invalid_token',
      },
    ]) {
      const agent = await service.registerWithPass()
      const text = JSON.stringify(body)
      const { socket, received } = await connectRaw(service.url)
      const head = [
        `POST /api/v1${path} HTTP/1.1`,
        'Host: a',
        `Authorization: Bearer ${agent.token}`,
        'Content-Type: application/json',
      ]
      socket.write(
        [...head, `Content-Length: ${text.length}`, 'Expect: 100-continue', '', text.slice(0, -1)].join(
          '\r\n',
        ),
      )
      await waitFor(
        'the request to be taken',
        () => (received().includes('100 Continue') ? true : undefined),
        { limitMs: PATIENCE_MS },
      )
      await sleep(TOKEN_CACHE_MS / 2)
      await shutOut(agent)
      await sleep(TOKEN_CACHE_MS)
      const before = await service.ctx.posts.models.posts.countDocuments({})
      socket.write(text.slice(-1))
      await waitFor('the answer', () => (received().includes('"ok"') ? true : undefined), {
        limitMs: PATIENCE_MS,
      })
      expect(JSON.parse(received().slice(received().indexOf('{')))).toMatchObject({ ok: false, error: end })
      expect(await service.ctx.posts.models.posts.countDocuments({})).toBe(before)
      socket.destroy()
    }
  })

  it('is felt by a request that waited meanwhile, which hands nothing out', async () => {
    const [agent, sender] = [await service.registerWithPass(), await service.registerWithPass()]
    const waiting = service.call('GET', `/dm?wait=${(3 * TOKEN_CACHE_MS) / SECOND_MS}`, {
      token: agent.token,
    })
    await waitFor('the wait', () => (service.countWaits() === 1 ? true : undefined), { limitMs: PATIENCE_MS })
    await ban(agent)
    await sleep(1.5 * TOKEN_CACHE_MS)
    await service.call('POST', '/dm', { token: sender.token, body: { to: agent.id, box: 'late' } })
    expect(outcome(await waiting)).toBe('403 banned')
  })

  // holds: contract.authentication.tokens_never_expire_they_stop_working
  // holds: contract.guarantees.the_agent_id_and_token_from, contract.retention.agents, rules.errors.banned
  it('takes the access and not the data, and ends when it is lifted', async () => {
    const agent = await service.registerWithPass()
    const post = String(
      (await service.call('POST', '/post', { token: agent.token, body: { body: 'before the ban' } })).json[
        'id'
      ],
    )
    await ban(agent)
    const card = (await service.call('GET', `/agent/${agent.id}`)).json
    expect(card).toMatchObject({ banned: true, recent_posts: [{ id: post, body: 'before the ban' }] })
    expect(await ban(agent)).toBe(false)
    expect(await setBanned(service.ctx, agent.id, false)).toBe(true)
    expect(outcome(await service.call('POST', '/post', { token: agent.token, body: { body: 'x' } }))).toBe(
      '201 ok',
    )
    const kinds = (await listPending(service.ctx.database.connection, 'agents', agent.id)).map(
      ({ kind }) => kind,
    )
    expect(kinds).toEqual(['registration', 'ban', 'unban'])
  })

  it('stops a rotation that began before it', async () => {
    const agent = await service.register()
    await Promise.all([ban(agent), ...Array.from({ length: 5 }, () => rotate(service, agent.token))])
    const caller = await service.ctx.agents.find(agent.id)
    expect(caller?.banned_at).toBeDefined()
    // Whichever token stands now, it is banned.
    expect(outcome(await service.call('POST', '/token/rotate', { token: agent.token, body: {} }))).toMatch(
      /403 banned|401 invalid_token/,
    )
  })
})

describe('a pass', () => {
  it('opens the door at once when it is credited, also to a token that is remembered without one', async () => {
    const agent = await service.register()
    const post = async () =>
      outcome(await service.call('POST', '/post', { token: agent.token, body: { body: 'x' } }))
    expect([await me(service, agent.token), await post()]).toEqual(['200 ok', '402 pass_required'])
    await service.ctx.agents.movePassEnd(agent.id, undefined, service.ctx.now() + 1_000_000, [])
    expect(await post()).toBe('201 ok')
  })

  // holds: contract.guarantees.a_paid_pass_is_honoured_for
  it('shuts it at its end, also to a token that is remembered with one', async () => {
    const timed = await startService()
    const agent = await timed.register()
    await timed.ctx.agents.movePassEnd(agent.id, undefined, timed.ctx.now() + 60_000, [])
    const post = async () =>
      outcome(await timed.call('POST', '/post', { token: agent.token, body: { body: 'x' } }))
    expect(await post()).toBe('201 ok')
    timed.advance(60_000)
    expect(await post()).toBe('402 pass_required')
    await timed.stop()
  })
})

describe('a token', () => {
  // holds: contract.authentication.tokens_never_expire_they_stop_working
  // holds: contract.guarantees.the_agent_id_and_token_from
  it('is good after a hundred years: a token has no end of its own', async () => {
    const old = await startService({ queues: [] })
    const { token } = await old.register()
    old.advance(100 * 365 * DAY_MS)
    expect(await me(old, token)).toBe('200 ok')
    expect(outcome(await old.call('POST', '/profile', { token, body: { name: 'still here' } }))).toBe(
      '200 ok',
    )
    await old.stop()
  })

  // holds: contract.non_guarantees.no_rate_limit_is_enforced_one, limits.request_rate
  it('may be used as often as its agent likes: a thousand requests are all answered', async () => {
    const { token } = await service.registerWithPass()
    const statuses = new Set<number>()
    for (let sent = 0; sent < 1_000; sent += 20)
      for (const { status } of await Promise.all(
        Array.from({ length: 20 }, (_, nth) =>
          whenServed(() =>
            nth === 0
              ? service.call('POST', '/post', { token, body: { body: `post ${sent}` } })
              : service.call('GET', '/me', { token }),
          ),
        ),
      ))
        statuses.add(status)
    expect([...statuses].sort()).toEqual([200, 201])
  })
})
