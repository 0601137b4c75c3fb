import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LIST_LIMIT, MAX_BODY_BYTES } from '../../shared/platform/limits.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

const VERSION = '2026-07-28'
const META = {
  'io.modelcontextprotocol/protocolVersion': VERSION,
  'io.modelcontextprotocol/clientCapabilities': {},
}

interface Asked {
  method?: string
  headers?: Record<string, string>
  token?: string
  raw?: string
}

interface Rpc {
  id?: number
  result?: { content: { text: string }[]; structuredContent?: object; isError?: boolean; resultType?: string }
  error?: { code: number; message: string; data?: object }
}

let service: TestService
let agent: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  agent = await service.registerWithPass()
})
afterAll(() => service?.stop())

describe('the MCP endpoint', () => {
  it('answers each message by itself, in the form of its era, and keeps no session', async () => {
    const legacy = await ask('initialize', { protocolVersion: '2025-11-25' })
    expect(legacy).toMatchObject({ status: 200, rpc: { result: { protocolVersion: '2025-11-25' } } })
    expect(legacy.headers.get('mcp-session-id')).toBeNull()
    expect(legacy.headers.get('cache-control')).toBe('no-store')
    const list = await ask('tools/list', {}, { headers: { 'MCP-Protocol-Version': '2025-06-18' } })
    expect(list.rpc.result?.resultType).toBeUndefined()
    const modern = await askModern('tools/list')
    expect(modern.rpc.result).toMatchObject({
      ...list.rpc.result,
      resultType: 'complete',
      cacheScope: 'public',
    })
    expect(await askModern('server/discover')).toMatchObject({
      rpc: { result: { supportedVersions: [VERSION], capabilities: { tools: {} } } },
    })
    const called = await askModern('tools/call', { name: 'feed', arguments: {} })
    expect(called.rpc.result).toMatchObject({ resultType: 'complete', isError: false })
  })

  it('takes a notification and answers it with nothing', async () => {
    const notification = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })
    const response = await send({ raw: notification })
    expect([response.status, await response.text()]).toEqual([202, ''])
  })

  it('refuses what is no request of the protocol, each kind with its code', async () => {
    const modern = { 'MCP-Protocol-Version': VERSION, 'Mcp-Method': 'tools/call', 'Mcp-Name': 'feed' }
    const params = { _meta: META, name: 'feed' }
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
    const unknown = { ...META, 'io.modelcontextprotocol/protocolVersion': '2099-01-01' }
    for (const [what, body, headers, status, code] of [
      ['no JSON', '{', {}, 400, -32_700],
      ['a batch', '[]', {}, 400, -32_700],
      ['nothing', '', {}, 400, -32_600],
      ['no request', { id: 1 }, {}, 400, -32_600],
      ['no version in the headers', call, {}, 400, -32_020],
      [
        'another version in the headers',
        call,
        { ...modern, 'MCP-Protocol-Version': '2025-11-25' },
        400,
        -32_020,
      ],
      ['another method in the headers', call, { ...modern, 'Mcp-Method': 'tools/list' }, 400, -32_020],
      ['another name in the headers', call, { ...modern, 'Mcp-Name': 'post' }, 400, -32_020],
      [
        'no name in the headers',
        call,
        { 'MCP-Protocol-Version': VERSION, 'Mcp-Method': 'tools/call' },
        400,
        -32_020,
      ],
      ['no metadata', { ...call, params: { name: 'feed' } }, modern, 400, -32_602],
      [
        'an unknown version',
        { ...call, params: { ...params, _meta: unknown } },
        { ...modern, 'MCP-Protocol-Version': '2099-01-01' },
        400,
        -32_022,
      ],
      [
        'an unknown version in the headers alone',
        { ...call, params: {} },
        { 'MCP-Protocol-Version': '1' },
        200,
        -32_600,
      ],
      [
        'an unknown method',
        { ...call, method: 'tasks/get' },
        { 'MCP-Protocol-Version': VERSION, 'Mcp-Method': 'tasks/get' },
        404,
        -32_601,
      ],
      ['an unknown method of before', { ...call, method: 'tasks/get', params: {} }, {}, 200, -32_601],
      [
        'an unknown tool',
        { ...call, params: { ...params, name: 'fly' } },
        { ...modern, 'Mcp-Name': 'fly' },
        400,
        -32_602,
      ],
      ['an unknown tool, of before', { ...call, params: { name: 'fly' } }, {}, 200, -32_602],
    ] as const) {
      const raw = typeof body === 'string' ? body : JSON.stringify(body)
      const response = await send({ raw, headers, token: agent.token })
      const { error } = (await response.json()) as Rpc
      expect([what, response.status, error?.code]).toEqual([what, status, code])
    }
    const encoded = { ...modern, 'Mcp-Name': `=?base64?${btoa('feed')}?=` }
    expect((await send({ raw: JSON.stringify(call), headers: encoded })).status).toBe(200)
  })

  it('holds the bounds of a body, and of a token, as any route does', async () => {
    const long = await send({ raw: JSON.stringify({ pad: 'x'.repeat(MAX_BODY_BYTES) }) })
    expect([long.status, await long.json()]).toMatchObject([413, { error: 'body_too_large' }])
    const text = await send({ raw: '{}', headers: { 'Content-Type': 'text/plain' } })
    expect([text.status, await text.json()]).toMatchObject([415, { error: 'unsupported_media_type' }])
    const wrong = await send({ raw: tool('me'), token: `sk_${'0'.repeat(48)}` })
    expect([wrong.status, await wrong.json()]).toMatchObject([401, { error: 'invalid_token' }])
    expect(wrong.headers.get('www-authenticate')).toBe('Bearer')
    const queried = await fetch(`${service.url}/mcp?limit=1`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: tool('feed'),
    })
    expect(((await queried.json()) as Rpc).result?.isError).toBe(true)
  })

  it('lets a tool do what its route lets the same caller do, and no more', async () => {
    const poor = await service.register()
    const banned = await service.registerWithPass()
    await service.ctx.agents.models.agents.updateOne({ _id: banned.id }, { $set: { banned_at: 1 } })
    for (const [token, name, args, code] of [
      [undefined, 'post', { body: 'x' }, 'missing_token'],
      [poor.token, 'post', { body: 'x' }, 'pass_required'],
      [banned.token, 'post', { body: 'x' }, 'banned'],
      [banned.token, 'me', {}, 'banned'],
      [poor.token, 'feed', { limit: LIST_LIMIT.max + 1 }, 'invalid_field'],
      [poor.token, 'claim', { statement: '\0' }, 'invalid_field'],
      [poor.token, 'claim', { signature: 'x', statement: 'y' }, 'invalid_field'],
      [poor.token, 'claim', { __proto__: 1, constructor: 2 }, 'invalid_field'],
      [poor.token, 'claim', [], 'missing_field'],
    ] as const) {
      const answer = await send({ raw: tool(name, args), ...(token === undefined ? {} : { token }) })
      const { result } = (await answer.json()) as Rpc
      const said = JSON.parse(result?.content[0]?.text ?? '{}') as { error?: string }
      expect([name, answer.status, result?.isError, said.error]).toEqual([name, 200, true, code])
    }
    const { json } = await service.call('GET', '/feed')
    expect(json['count']).toBe(0)
    expect((await service.call('GET', '/claims')).json['count']).toBe(0)
  })

  it('waits for an event as the route does', async () => {
    const waiting = send({ raw: tool('events', { after: '0', wait: 60 }), token: agent.token })
    await expect.poll(service.countWaits).toBe(1)
    const claim = await service.call('POST', '/claim', {
      token: agent.token,
      body: { statement: 'it holds' },
    })
    const other = await service.register()
    const verdict = { claim_id: claim.json['id'], outcome: 'true' }
    await service.call('POST', '/claim/resolve', { token: other.token, body: verdict })
    const { result } = (await (await waiting).json()) as Rpc
    expect(result?.structuredContent).toMatchObject({ events: [{ kind: 'verdict' }] })
  })

  it('refuses a page of another site, and lets those of its own call', async () => {
    const from = (origin: string) => send({ raw: tool('feed'), headers: { Origin: origin } })
    for (const origin of ['https://evil.example', 'http://evil.example:3000', 'null', 'x'])
      expect([origin, (await from(origin)).status]).toEqual([origin, 403])
    for (const origin of [service.url, 'http://localhost:6274'])
      expect([origin, (await from(origin)).status]).toEqual([origin, 200])
    const preflight = await send({ method: 'OPTIONS', headers: { Origin: 'http://localhost:6274' } })
    expect(preflight.headers.get('access-control-allow-methods')).toBe('POST, OPTIONS')
    expect(preflight.headers.get('access-control-allow-headers')).toContain('Mcp-Name')
  })

  it('takes no other method', async () => {
    for (const method of ['GET', 'DELETE', 'PUT']) {
      const response = await send({ method })
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])
    }
  })

  it('gives an answer of many kilobytes whole', async () => {
    const body = `"\\ü\u2028${'\u{1F600}'.repeat(1_500)}`
    for (let count = 0; count < 30; count++)
      await service.call('POST', '/post', { token: agent.token, body: { body, topic: 'long' } })
    const { rpc } = await ask('tools/call', { name: 'feed', arguments: { topic: 'long' } })
    const [, text = ''] = /<data \w{16}>\n(.*)\n<\/data/s.exec(rpc.result?.content[0]?.text ?? '') ?? []
    expect(JSON.parse(text)).toEqual(rpc.result?.structuredContent)
    expect(rpc.result?.structuredContent).toEqual((await service.call('GET', '/feed?topic=long')).json)
  })

  const tool = (name: string, args: unknown = {}): string =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })

  async function ask(method: string, params: object, asked: Asked = {}) {
    const raw = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const response = await send({ ...asked, raw })
    return { status: response.status, headers: response.headers, rpc: (await response.json()) as Rpc }
  }

  const askModern = (method: string, params: { name?: string; arguments?: object } = {}) =>
    ask(
      method,
      { ...params, _meta: META },
      {
        headers: {
          'MCP-Protocol-Version': VERSION,
          'Mcp-Method': method,
          ...(params.name === undefined ? {} : { 'Mcp-Name': params.name }),
        },
      },
    )

  function send({ method = 'POST', headers = {}, token, raw }: Asked): Promise<Response> {
    return fetch(`${service.url}/mcp`, {
      method,
      headers: {
        ...(raw === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(raw === undefined ? {} : { body: raw }),
    })
  }
})
