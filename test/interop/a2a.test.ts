import { randomUUID } from 'node:crypto'
import { Role, type Message, type SendMessageRequest, type SendMessageResult } from '@a2a-js/sdk'
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { LegacyJsonRpcTransport } from '@a2a-js/sdk/compat/v0_3/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startMarket, type TestMarket } from '../support/market.ts'

let market: TestMarket
beforeAll(async () => {
  market = await startMarket()
  const { token } = market.seller
  await market.call('POST', '/profile', { token, body: { capabilities: ['sums', 'more sums'] } })
  await market.call('POST', '/claim', { token, body: { statement: 'it holds' } })
  await market.offer()
})
afterAll(() => market?.stop())

/** What sends a message: a client of one of the versions. */
type Send = (request: SendMessageRequest) => Promise<SendMessageResult>

const ASKED: readonly [what: Message['parts'][number]['content'], answer: object][] = [
  [data({ skill: 'find-agents', capability: 'sums', limit: 1 }), { agents: [{ verified: false }], count: 1 }],
  [data({ skill: 'find-agents', capability: 'none' }), { agents: [], count: 0 }],
  [text('find-agents more sums'), { count: 1 }],
  [data({ skill: 'read-claims', status: 'open' }), { claims: [{ statement: 'it holds' }], count: 1 }],
  [text('read-claims'), { count: 1 }],
  [data({ skill: 'read-offers', max_price: 9 }), { offers: [], count: 0 }],
  [text('read-offers'), { count: 1 }],
]

describe('the A2A endpoint, asked by the official client', () => {
  for (const [version, connect] of [
    [
      '1.0, which finds it by the card',
      async (): Promise<Send> => {
        // The card names the address that is set, under which nothing listens here.
        const fetchImpl: typeof fetch = (input, init) =>
          fetch(String(input).replace(market.ctx.config.baseUrl, market.url), init)
        const transports = [new JsonRpcTransportFactory({ fetchImpl })]
        const client = await new ClientFactory({ transports }).createFromUrl(market.url)
        return (request) => client.sendMessage(request)
      },
    ],
    [
      '0.3',
      async (): Promise<Send> => {
        const transport = new LegacyJsonRpcTransport({ endpoint: `${market.url}/a2a` })
        return (request) => transport.sendMessage(request)
      },
    ],
  ] as const)
    it(`answers each skill at once, in version ${version}`, async () => {
      const send = await connect()
      for (const [content, answer] of ASKED) {
        const message = await ask(send, content)
        expect(message.role).toBe(Role.ROLE_AGENT)
        expect(message.contextId).not.toBe('')
        const [part] = message.parts
        expect(part?.content?.$case).toBe('data')
        expect(part?.content?.value).toMatchObject({ ok: true, ...answer })
      }
      const [help] = (await ask(send, text('what can you do?'))).parts
      expect(help?.content?.value).toContain('read-offers')
      await expect(ask(send, data({ skill: 'read-claims', limit: 0 }))).rejects.toThrow(
        /"limit" is not usable/,
      )
      await expect(ask(send, data({ skill: 'find-agents', wrong: 1 }))).rejects.toThrow(/no argument "wrong"/)
    })

  it('says of each method that it does not have which kind of absence that is', async () => {
    for (const [version, method, code] of [
      ['1.0', 'GetTask', -32_001],
      ['1.0', 'SendStreamingMessage', -32_004],
      ['1.0', 'GetExtendedAgentCard', -32_007],
      ['1.0', 'message/send', -32_601],
      ['0.3', 'tasks/get', -32_001],
      ['', 'SendMessage', -32_601],
      ['2.0', 'SendMessage', -32_009],
      ['1.0', 'SendMessage', -32_602],
    ] as const) {
      const response = await fetch(`${market.url}/a2a`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'A2A-Version': version },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: {} }),
      })
      const { error } = (await response.json()) as { error: { code: number } }
      expect([version, method, response.status, error.code]).toEqual([version, method, 200, code])
    }
  })

  async function ask(send: Send, content: Message['parts'][number]['content']): Promise<Message> {
    const parts = [{ content, metadata: undefined, filename: '', mediaType: '' }]
    const message = {
      ...{ messageId: randomUUID(), contextId: '', taskId: '', role: Role.ROLE_USER, parts },
      ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
    }
    return (await send({ tenant: '', message, configuration: undefined, metadata: undefined })) as Message
  }
})

function data(value: object): Message['parts'][number]['content'] {
  return { $case: 'data', value }
}

function text(value: string): Message['parts'][number]['content'] {
  return { $case: 'text', value }
}
