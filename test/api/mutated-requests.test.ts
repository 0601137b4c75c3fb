import net from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pathsOf } from '../../api/http/mount.ts'
import { ERRORS } from '../../shared/platform/errors.ts'
import { newId } from '../../shared/platform/ids.ts'
import { createAnswerCheck } from '../support/check-answers.ts'
import { FULL } from '../support/full.ts'
import { ADDRESSES, OFFER } from '../support/market.ts'
import { createRandom, mutate, type RawRequest } from '../support/mutate-request.ts'
import { startService, WITHOUT_LEDGER, type TestService } from '../support/service.ts'

// `npm run harness -- fuzz` sets both.
const { FUZZ_REQUESTS, FUZZ_SEED = '1' } = process.env
const COUNT = Number(FUZZ_REQUESTS ?? (FULL ? 100_000 : 200))
const SEED = Number(FUZZ_SEED)
const AT_ONCE = 32
/** Without a whole answer by then the client closes its side, as one does that has no more to send. */
const PATIENCE_MS = 2_000
/** What isn't over by then hangs: the service's own limits have all passed. */
const HANGS_AFTER_MS = 60_000

let service: TestService
let requests: RawRequest[]

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  const [agent, other, rotating] = await Promise.all([
    service.registerWithPass(),
    service.register(),
    service.register(),
  ])
  const make = async (path: string, body: object, field = 'id') =>
    String((await service.call('POST', path, { token: agent.token, body })).json[field])
  const ids = {
    post: await make('/post', { body: 'a post' }),
    claim: await make('/claim', { statement: 'a claim' }),
    work: await make('/invoice', { currency: 'pow' }, 'order_id'),
  }
  const bodies: Record<string, Record<string, unknown>> = {
    '/register': { challenge_id: 'x', answer: 'y', pow: '1', handle: 'a', ref: other.id },
    '/token/rotate': {},
    '/profile': { name: 'a', purpose: 'b', capabilities: ['c'], dm_key: '1'.repeat(64) },
    '/invoice': { currency: 'pow', days: 1 },
    '/invoice/check': { invoice_id: newId('invoice') },
    '/work/submit': { order_id: ids.work, nonces: ['1'] },
    '/claim': { statement: 'a', kind: 'b', resolve_by: 4_000_000_000 },
    '/claim/resolve': { claim_id: ids.claim, outcome: 'true', evidence: 'a' },
    '/post': { body: 'a', topic: 'b' },
    '/dm': { to: other.id, box: 'a' },
    '/dm/block': { agent_id: other.id },
    '/dm/unblock': { agent_id: other.id },
    '/report': { post_id: ids.post, rule: 'spam' },
    '/market/offer': OFFER,
    '/market/offer/close': { offer_id: newId('offer') },
    '/market/order': { offer_id: newId('offer'), currency: 'xno', refund_address: ADDRESSES.xno },
    '/market/deliver': { order_id: newId('order'), delivery: 'a' },
    '/market/accept': { order_id: newId('order') },
    '/market/dispute': { order_id: newId('order'), reason: 'a' },
    '/market/refund-address': { order_id: newId('order'), address: ADDRESSES.xno },
  }
  requests = service.routes.map((route) => ({
    method: route.method,
    target:
      String(pathsOf(route)[0])
        .replace('{agent_id}', agent.id)
        .replace(/\{\w+\}/g, ids.claim) + (route.query === undefined ? '' : '?limit=2'),
    headers: [
      ['Host', 'a'],
      ['Authorization', `Bearer ${(route.path === '/token/rotate' ? rotating : agent).token}`],
      ...(route.method === 'POST' ? [['Content-Type', 'application/json'] as [string, string]] : []),
    ],
    body: route.method === 'POST' ? (bodies[route.path] ?? {}) : undefined,
  }))
})
afterAll(() => service.stop())

interface RawAnswer {
  status: number
  headers: Headers
  body: string
}

/**
 * The answers in a text, in order; undefined while the last of them is not whole. Of an answer to HEAD there
 * is only the head.
 */
function readAnswers(text: string, isOver: boolean): RawAnswer[] | undefined {
  const answers: RawAnswer[] = []
  let rest = text
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    if (end === -1) return undefined
    const [first = '', ...lines] = rest.slice(0, end).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
    const headers = new Headers(
      lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
    )
    const length = status < 200 || status === 304 ? 0 : Number(headers.get('content-length'))
    rest = rest.slice(end + 4)
    const hasBody = !rest.startsWith('HTTP/1.1 ') && rest !== ''
    if (hasBody && rest.length < length) return undefined
    if (!hasBody && length > 0 && !isOver) return undefined
    answers.push({ status, headers, body: hasBody ? rest.slice(0, length) : '' })
    if (hasBody) rest = rest.slice(length)
  }
  return answers
}

/** Sends bytes over a connection of their own. @returns its answers, or what became of it */
function send(bytes: Buffer): Promise<RawAnswer[] | 'hangs'> {
  const { port, hostname } = new URL(service.url)
  return new Promise((resolve) => {
    const socket = net.connect({ port: Number(port), host: hostname })
    let text = ''
    const patience = setTimeout(() => socket.end(), PATIENCE_MS)
    const hang = setTimeout(() => finish('hangs'), HANGS_AFTER_MS)
    const finish = (outcome: RawAnswer[] | 'hangs'): void => {
      clearTimeout(patience)
      clearTimeout(hang)
      socket.resetAndDestroy()
      resolve(outcome)
    }
    socket.on('error', () => undefined) // a cut connection, which `close` tells
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      const answers = readAnswers(text, false)
      if (answers?.some(({ status }) => status >= 200) === true) finish(answers)
    })
    socket.once('close', () => finish(readAnswers(text, true) ?? []))
    socket.write(bytes)
  })
}

/** What is wrong with the answers to a request; undefined if nothing is. */
function findFault(
  bytes: Buffer,
  answers: RawAnswer[] | 'hangs',
  check: ReturnType<typeof createAnswerCheck>,
): string | undefined {
  if (answers === 'hangs') return 'it hangs'
  const [method = '', target = ''] = bytes
    .toString('latin1')
    .trimStart()
    .split(/[ \r\n]+/)
  const [pathname = ''] = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, '').split(/[?#]/)
  for (const [index, { status, headers, body }] of answers.entries()) {
    if (status >= 500 && status !== 503) return `status ${status}: ${body.slice(0, 500)}`
    if (status < 200 || status === 304 || body === '') continue
    if (headers.get('content-encoding') !== null) continue
    try {
      const isJson = headers.get('content-type')?.startsWith('application/json') === true
      if (!isJson && status === 200) continue // a page or a document
      const json = JSON.parse(Buffer.from(body, 'latin1').toString('utf8')) as {
        ok?: boolean
        error?: string
      }
      // Statuses of the parser's own refusals say more than the table does.
      if (json.ok === false && (status === 408 || status === 431)) {
        if (!Object.hasOwn(ERRORS, json.error ?? '')) return `an unknown code: ${body}`
      } else if (json.ok === false) check('ANY', '/', { status, headers, json })
      else if (index === 0 && method !== 'OPTIONS' && json.ok === true)
        check(method, pathname, { status, headers, json })
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }
  return undefined
}

// holds: contract.errors.every_rejection_carries_error_a_machine
// holds: contract.formats.every_response_is_a_json_object
// holds: contract.guarantees.every_rejection_carries_a_machine_readable
it(
  `${COUNT} mutated requests over raw sockets give no 500, no hang and nothing that the contract does not know (seed ${SEED})`,
  async () => {
    const random = createRandom(SEED)
    const check = createAnswerCheck(service.routes)
    const faults: string[] = []
    const seen = new Map<string, number>()
    let sent = 0
    const sendOn = async (): Promise<void> => {
      while (sent++ < COUNT && faults.length < 20) {
        const bytes = mutate(requests[random(requests.length)] as RawRequest, requests, random)
        const answers = await send(bytes)
        const outcome = answers === 'hangs' ? answers : String(answers.at(-1)?.status ?? 'closed')
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
        const fault = findFault(bytes, answers, check)
        if (fault !== undefined) faults.push(`${fault}\n${bytes.subarray(0, 1_000).toString('latin1')}`)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, sendOn))
    if (FUZZ_REQUESTS !== undefined)
      process.stdout.write(`answers by status: ${JSON.stringify(Object.fromEntries(seen))}\n`)
    expect(faults).toEqual([])
    expect(service.logged()).not.toContain('a request ended in a defect')
    // The mutations are mild enough that many a request is still answered as one.
    expect((seen.get('200') ?? 0) + (seen.get('201') ?? 0)).toBeGreaterThan(COUNT / 20)
    expect((await service.call('GET', '/limits')).status).toBe(200)
  },
  120_000 + COUNT * 20,
)
