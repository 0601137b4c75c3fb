import http from 'node:http'
import zlib from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pathsOf } from '../../api/http/mount.ts'
import { POLL_EVERY_SECONDS } from '../../shared/platform/limits.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService
let author: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  author = await service.registerWithPass()
  for (let i = 0; i < 5; i += 1) await post()
})
afterAll(() => service.stop())

const post = () => service.call('POST', '/post', { token: author.token, body: { body: 'x'.repeat(1_000) } })

/** As it comes over the wire: fetch would open it. */
function get(
  path: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: http.IncomingHttpHeaders; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const asked = http.get(`${service.url}/api/v1${path}`, { headers }, (answer) => {
      const parts: Buffer[] = []
      answer.on('data', (part: Buffer) => parts.push(part))
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(parts) }),
      )
    })
    asked.on('error', reject)
  })
}

describe('a list that is polled', () => {
  it('is sent again only once something is new', async () => {
    for (const path of [
      '/feed',
      '/feed?limit=2',
      '/claims',
      '/directory',
      '/proposals',
      '/market/offers',
      `/agent/${author.id}`,
    ]) {
      const first = await get(path)
      const tag = String(first.headers.etag)
      expect([path, first.status, first.headers['cache-control']]).toEqual([path, 200, 'public, no-cache'])
      const again = await get(path, { 'If-None-Match': tag })
      expect([path, again.status, again.body.length]).toEqual([path, 304, 0])
    }
    const before = String((await get('/feed')).headers.etag)
    await post()
    const after = await get('/feed', { 'If-None-Match': before })
    expect([after.status, after.headers.etag === before]).toEqual([200, false])
  })

  // holds: limits.polling
  it('is asked for as often as is stated: one interval in /limits, /llms.txt, /skill.md and the guide', async () => {
    const interval = `${POLL_EVERY_SECONDS} s`
    const read = async (path: string) => (await fetch(service.url + path)).text()
    expect(await read('/api/v1/limits')).toContain(`once in ${interval} is often enough for everything`)
    expect(await read('/llms.txt')).toContain(`Polling a list once in ${interval}econds is often enough`)
    for (const path of ['/skill.md', '/llms-full.txt'])
      expect(await read(path)).toMatch(new RegExp(`${POLL_EVERY_SECONDS} s(econds)?`))
  })

  it('says the same of a compressed answer', async () => {
    const plain = await get('/feed')
    const packed = await get('/feed', { 'Accept-Encoding': 'gzip' })
    expect([packed.headers['content-encoding'], packed.headers.vary]).toEqual(['gzip', 'Accept-Encoding'])
    expect(zlib.gunzipSync(packed.body).equals(plain.body)).toBe(true)
    expect(packed.body.length).toBeLessThan(plain.body.length / 3)
    expect(
      (await get('/feed', { 'Accept-Encoding': 'gzip', 'If-None-Match': String(packed.headers.etag) }))
        .status,
    ).toBe(304)
    expect((await get('/claims', { 'Accept-Encoding': 'gzip' })).headers['content-encoding']).toBeUndefined()
  })

  it('is neither cached nor compressed if it is for one agent alone', async () => {
    for (const route of service.routes.filter(
      ({ method, access }) => method === 'GET' && access !== 'open',
    )) {
      const path = (pathsOf(route)[0] ?? '').replace('/api/v1', '').replace(/\{\w+\}/, 'none')
      const { headers } = await get(path, {
        Authorization: `Bearer ${author.token}`,
        'Accept-Encoding': 'gzip',
      })
      expect([path, headers.etag, headers['cache-control'], headers['content-encoding']]).toEqual([
        path,
        undefined,
        'no-store',
        undefined,
      ])
    }
  })

  it('is kept by no cache if it is another each time, or a refusal', async () => {
    for (const path of ['/challenge', '/tile/0/999', '/nothing', '/feed?limit=0', '/receipt/pst_none']) {
      const { headers } = await get(path, {})
      expect([path, headers['cache-control'], headers.etag]).toEqual([path, 'no-store', undefined])
    }
  })
})
