import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { startTracing } from '../../shared/platform/start-tracing.ts'
import { setTracer, type Tracer } from '../../shared/platform/tracing.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { findNonces, startService, type TestAgent, type TestService } from '../support/service.ts'

const SENT = { limitMs: PATIENCE_MS }
const SECRET_BODY = 'a body that stays where it is'

interface SentSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  attributes: { key: string; value: { stringValue?: string; intValue?: number } }[]
}

/** Takes what is sent over OTLP/HTTP, as JSON. */
async function startReceiver() {
  const bodies: string[] = []
  const authorizations = new Set<string | undefined>()
  const server = createServer((req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      authorizations.add(req.headers.authorization)
      if (req.url === '/v1/traces') bodies.push(Buffer.concat(parts).toString())
      res.setHeader('Content-Type', 'application/json').end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    authorizations,
    raw: () => bodies.join('\n'),
    spans: (): SentSpan[] =>
      bodies.flatMap((body) =>
        (
          JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: SentSpan[] }[] }[] }
        ).resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
      ),
    close: () => new Promise((resolve) => server.close(resolve)),
  }
}

describe('traces', () => {
  let receiver: Awaited<ReturnType<typeof startReceiver>>
  let tracer: Tracer | undefined
  let service: TestService
  let agent: TestAgent
  beforeAll(async () => {
    receiver = await startReceiver()
    const env = {
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20one',
    }
    Object.assign(process.env, env)
    tracer = await startTracing(process.env, 'api')
    for (const name of Object.keys(env)) delete process.env[name]
    service = await startService()
    agent = await service.registerWithPass()
  })
  afterAll(async () => {
    setTracer(undefined)
    await service.stop()
    await tracer?.close()
    await receiver.close()
  })

  const traceOf = (headers: Headers) => String(headers.get('x-request-id')).replaceAll('-', '')
  const spansOf = (traceId: string) => receiver.spans().filter((span) => span.traceId === traceId)
  /** The names from a span up to the first. */
  const pathOf = (spans: readonly SentSpan[], name: string): string[] => {
    const span = spans.find((one) => one.name === name)
    if (span === undefined) return []
    const above = spans.find(({ spanId }) => spanId === span.parentSpanId)
    return above === undefined ? [name] : [name, ...pathOf(spans, above.name)]
  }

  it('are one for a post, from the request over commit, job and entry to the seal, under the request id', async () => {
    const posted = await service.call('POST', '/post', { token: agent.token, body: { body: SECRET_BODY } })
    expect(posted.status).toBe(201)
    const traceId = traceOf(posted.headers)
    const isSent = (wanted: string) => async () =>
      spansOf(traceId).some(({ name }) => name === wanted) ? true : undefined
    await waitFor('the entry', isSent('entry'), SENT)
    await service.ctx.queues.enqueue('make-seal', {})
    await waitFor('the seal', isSent('seal'), SENT)
    const spans = spansOf(traceId)
    const request = 'POST /api/v1/post'
    expect(spans.map(({ name }) => name).sort()).toEqual(
      [request, 'commit posts', 'process sequence', 'entry', 'seal'].sort(),
    )
    expect(pathOf(spans, 'commit posts')).toEqual(['commit posts', request])
    expect(pathOf(spans, 'seal')).toEqual(['seal', 'entry', 'process sequence', request])
    const attributes = Object.fromEntries(
      spans.flatMap((span) => span.attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
    )
    expect(attributes).toMatchObject({
      request_id: posted.headers.get('x-request-id'),
      record_id: posted.json['id'],
      seal_seq: 1,
    })
  })

  it("have the job that a request enqueues, by BullMQ's own telemetry", async () => {
    const invoice = { currency: 'pow', days: 1 }
    const { json } = await service.call('POST', '/invoice', { token: agent.token, body: invoice })
    const nonces = findNonces(String(json['prefix']), 8, 1)
    const body = { order_id: json['order_id'], nonces }
    const { status, headers } = await service.call('POST', '/work/submit', { token: agent.token, body })
    expect([200, 202]).toContain(status)
    const way = 'process verify-shares < add verify-shares.verify-shares < POST /api/v1/work/submit'
    const isSent = async () =>
      pathOf(spansOf(traceOf(headers)), 'process verify-shares').join(' < ') === way ? true : undefined
    await waitFor(way, isSent, SENT)
  })

  it('have one commit for each of several claims that are stored together', async () => {
    const statements = ['one', 'two', 'three', 'four', 'five', 'six']
    const answers = await Promise.all(
      statements.map((statement) =>
        service.call('POST', '/claim', { token: agent.token, body: { statement } }),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(statements.map(() => 201))
    const traceIds = answers.map(({ headers }) => traceOf(headers))
    const names = (traceId: string) => spansOf(traceId).map(({ name }) => name)
    const areSent = async () => traceIds.every((id) => names(id).includes('entry')) || undefined
    await waitFor('the entries', areSent, SENT)
    expect(traceIds.map((id) => names(id).filter((name) => name.startsWith('commit')))).toEqual(
      statements.map(() => ['commit claims']),
    )
  })

  it('carry no secret, address, header or body, whatever becomes of a request', async () => {
    await service.call('POST', '/post', { token: 'wrong-token-that-is-secret', body: { body: SECRET_BODY } })
    const last = await service.call('GET', '/agent/agt_00000000000000000000000000?secret=query', {
      headers: { 'X-Forwarded-For': '203.0.113.77', 'User-Agent': 'secret-agent' },
    })
    const isSent = async () => (spansOf(traceOf(last.headers)).length > 0 ? true : undefined)
    await waitFor('the last span', isSent, SENT)
    const sent = receiver.raw()
    for (const secret of [
      SECRET_BODY,
      agent.token,
      'wrong-token',
      '203.0.113.77',
      '127.0.0.1',
      'secret',
      'mongodb:',
    ])
      expect(sent).not.toContain(secret)
  })

  it('are sent with the headers that are set for them', () => {
    expect([...receiver.authorizations]).toEqual(['Bearer one'])
  })

  it('of regular jobs there are none: each begins with a request', () => {
    const spans = receiver.spans()
    const roots = spans.filter(({ parentSpanId }) => parentSpanId === undefined || parentSpanId === '')
    expect(roots.length).toBeGreaterThan(0)
    expect(roots.map(({ name }) => name).filter((name) => !/^(?:GET|POST) /.test(name))).toEqual([])
  })
})
