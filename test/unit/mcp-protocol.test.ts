import { describe, expect, it } from 'vitest'
import { errorOf, readMessage, type RpcRequest } from '../../shared/rpc/json-rpc.ts'
import { completeResult, eraOf, readRequest, type ToolServer } from '../../shared/rpc/mcp.ts'

const server: ToolServer = {
  name: 'a server',
  version: '7',
  instructions: 'how to use it',
  tools: [
    {
      name: 'look',
      title: 'Look',
      description: 'Looks.',
      inputSchema: { type: 'object', properties: {} },
      annotations: { readOnlyHint: true, openWorldHint: true },
    },
  ],
}
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}

const request = (method: string, params: object = {}): RpcRequest =>
  readMessage({ jsonrpc: '2.0', id: 1, method, params }) as RpcRequest

/** What a request is answered. */
function ask(method: string, params: object = {}): unknown {
  try {
    return readRequest(server, request(method, params))
  } catch (error) {
    return errorOf(error)
  }
}

describe('the Model Context Protocol', () => {
  it('answers modern and legacy requests in any order, each in its own form', () => {
    const serverInfo = { name: 'a server', version: '7' }
    const modern = {
      resultType: 'complete',
      ttlMs: expect.any(Number),
      cacheScope: 'public',
      _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
    }
    const about = { capabilities: { tools: {} }, instructions: 'how to use it' }
    expect(ask('tools/list', { _meta: META })).toEqual({
      kind: 'result',
      result: { ...modern, tools: server.tools },
    })
    expect(ask('initialize', { protocolVersion: '2025-06-18' })).toEqual({
      kind: 'result',
      result: { protocolVersion: '2025-06-18', serverInfo, ...about },
    })
    expect(ask('server/discover', { _meta: META })).toEqual({
      kind: 'result',
      result: { ...modern, ...about, supportedVersions: ['2026-07-28'] },
    })
    expect(ask('tools/list')).toEqual({ kind: 'result', result: { tools: server.tools } })
    expect(ask('initialize', { protocolVersion: '1999-01-01' })).toMatchObject({
      result: { protocolVersion: '2025-11-25' },
    })
  })

  it('reads the call of a tool in both eras, and says modern results whole', () => {
    const call = { kind: 'call', tool: 'look', args: { at: 'it' } }
    const params = { name: 'look', arguments: { at: 'it' } }
    expect(ask('tools/call', params)).toEqual(call)
    expect(ask('tools/call', { ...params, _meta: META })).toEqual(call)
    expect(ask('tools/call', { ...params, _meta: { progressToken: 1 } })).toEqual(call)
    expect(ask('tools/call', { name: 'look', arguments: [1] })).toEqual({ ...call, args: {} })
    const modern = request('tools/call', { ...params, _meta: META })
    expect(completeResult(server, eraOf(modern), { content: [] })).toMatchObject({
      resultType: 'complete',
      content: [],
    })
    expect(completeResult(server, eraOf(request('tools/call', params)), { content: [] })).toEqual({
      content: [],
    })
  })

  it('refuses a version that it does not speak with the ones that it does', () => {
    const other = { ...META, 'io.modelcontextprotocol/protocolVersion': '2099-01-01' }
    for (const method of ['server/discover', 'tools/list', 'tools/call', 'ping'])
      expect(ask(method, { _meta: other })).toEqual({
        code: -32_022,
        message: 'Unsupported protocol version',
        data: {
          supported: ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'],
          requested: '2099-01-01',
        },
      })
  })

  it('refuses a modern request whose metadata lacks something, and what is of the other era', () => {
    const { 'io.modelcontextprotocol/protocolVersion': version } = META
    for (const [method, params, code] of [
      ['server/discover', {}, -32_602],
      ['tools/list', { _meta: { 'io.modelcontextprotocol/protocolVersion': version } }, -32_602],
      ['tools/list', { _meta: { ...META, 'io.modelcontextprotocol/protocolVersion': 1 } }, -32_602],
      ['tools/list', { _meta: { ...META, 'io.modelcontextprotocol/clientCapabilities': null } }, -32_602],
      ['tools/call', { name: 'fly', _meta: META }, -32_602],
      ['tools/call', { name: ['look'] }, -32_602],
      ['ping', { _meta: META }, -32_601],
      ['resources/list', { _meta: META }, -32_601],
      ['resources/list', {}, -32_601],
    ] as const)
      expect([method, ask(method, params)]).toEqual([method, { code, message: expect.any(String) }])
  })

  it('takes for a message only what JSON-RPC calls one', () => {
    expect(readMessage({ jsonrpc: '2.0', method: 'm' })).toEqual({
      kind: 'notification',
      method: 'm',
      params: {},
    })
    expect(readMessage({ jsonrpc: '2.0', id: 1, result: {} })).toEqual({ kind: 'response' })
    for (const value of [
      null,
      [],
      'm',
      {},
      { id: 1, method: 'm' },
      { jsonrpc: '2.0', id: null, method: 'm' },
      { jsonrpc: '2.0', id: 1.5, method: 'm' },
      { jsonrpc: '2.0', id: 1, method: 7 },
    ])
      expect(() => readMessage(value)).toThrow(/no JSON-RPC 2.0 request/)
  })
})
