import { createHash, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createApp } from '../../api/app.ts'
import { pathsOf } from '../../api/http/mount.ts'
import { createLimitedServer } from '../../api/http/server.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { listen } from '../../shared/platform/listen.ts'
import { describeLimits } from '../../shared/about/limits-page.ts'
import { renderSecurityText } from '../../shared/about/skill.ts'
import { announcementPayload } from '../../shared/announcements/announcement.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { commit } from '../../shared/crypto/commitment.ts'
import type { JsonValue } from '../../shared/crypto/canonical-json.ts'
import { ERRORS, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'
import { newId } from '../../shared/platform/ids.ts'
import type { PendingEntry } from '../../shared/ledger/pending.ts'
import { createLog } from '../../shared/platform/log.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { CHALLENGE_SECRET, startService, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService
let agent: TestAgent

beforeAll(async () => {
  service = await startService()
  agent = await service.registerWithPass({ handle: 'teller' })
})
afterAll(() => service.stop())

const get = async (path: string) => (await service.call('GET', path)).json
const TYPES: Record<string, string> = {
  '/api/v1/openapi.json': 'application/json',
  '/llms.txt': 'text/plain',
  '/llms-full.txt': 'text/plain',
  '/robots.txt': 'text/plain',
  '/.well-known/security.txt': 'text/plain',
  '/sealed-box.md': 'text/markdown',
  '/skill.md': 'text/markdown',
  '/changelog': 'text/markdown',
  '/sealed_box.py': 'text/x-python',
  '/seal_verify.py': 'text/x-python',
  '/.well-known/agent-card.json': 'application/json',
  '/.well-known/agent-skills/index.json': 'application/json',
  '/.well-known/api-catalog': 'application/linkset+json',
  '/openapi.json': 'application/json',
  '/seal-verify.mjs': 'text/javascript',
  '/': 'application/json',
}
const DOCUMENTS = Object.keys(TYPES)

describe('GET /rules', () => {
  // holds: contract.errors.get_api_v1_rules_lists_every
  it('lists every error code with its status and meaning', async () => {
    const { errors } = (await get('/rules')) as unknown as { errors: unknown }
    expect(errors).toEqual(
      Object.entries(ERRORS).map(([code, { meaning }]) => ({
        code,
        status: statusOf(code as ErrorCode),
        meaning,
      })),
    )
  })

  // holds: rules.proof_of_work.example, rules.proof_of_work.registration_bits
  it('gives an example of work that anybody can check', async () => {
    const { proof_of_work: work } = (await get('/rules')) as unknown as {
      proof_of_work: {
        registration_bits: number
        example: { prefix: string; nonce: string; sha256: string; zero_bits: number }
      }
    }
    const { prefix, nonce, sha256, zero_bits: bits } = work.example
    expect(createHash('sha256').update(`${prefix}:${nonce}`).digest('hex')).toBe(sha256)
    expect(BigInt(`0x${sha256}`).toString(2).length).toBe(256 - bits)
    expect(work.registration_bits).toBe(4)
  })

  // holds: rules.ledger.entry_kinds.claim, rules.ledger.entry_kinds.post
  // holds: rules.ledger.entry_kinds.registration, rules.ledger.entry_kinds.verdict
  it('says of every commitment what opens it', async () => {
    const post = async (path: string, body: object) =>
      (await service.call('POST', path, { token: agent.token, body })).json as unknown as Record<
        string,
        Record<string, JsonValue>
      >
    const { post: plain } = await post('/post', { body: 'no topic' })
    const { post: filed } = await post('/post', { body: 'filed', topic: 'tests' })
    const { claim } = await post('/claim', { statement: 'It opens.' })
    const { verdict } = await post('/claim/resolve', { claim_id: claim?.['id'], outcome: 'void' })
    const card = (await get(`/agent/${agent.id}`)) as unknown as Record<string, JsonValue>
    const contents: Record<string, { record: Record<string, JsonValue> | undefined; content: JsonValue }[]> =
      {
        registration: [{ record: card, content: { handle: 'teller', id: agent.id } }],
        post: [
          { record: plain, content: { body: 'no topic', id: String(plain?.['id']), topic: null } },
          { record: filed, content: { body: 'filed', id: String(filed?.['id']), topic: 'tests' } },
        ],
        claim: [
          { record: claim, content: { id: String(claim?.['id']), kind: 'claim', statement: 'It opens.' } },
        ],
        verdict: [{ record: verdict, content: { evidence: null, id: String(verdict?.['id']) } }],
      }
    const { ledger } = (await get('/rules')) as unknown as {
      ledger: { entry_kinds: { kind: string; commitments: { field: string; content: string }[] }[] }
    }
    const committing = ledger.entry_kinds.filter(
      ({ kind, commitments }) => commitments.length > 0 && kind in contents,
    )
    expect(committing.map(({ kind }) => kind).sort()).toEqual(Object.keys(contents).sort())
    const hashes = new Set(
      (await storedEntries()).flatMap(({ kind, data }) =>
        Object.entries(data).map(([field, value]) => `${kind} ${field} ${JSON.stringify(value)}`),
      ),
    )
    for (const { kind, commitments } of committing) {
      for (const { field, content: described } of commitments) {
        for (const { record, content } of contents[kind] ?? []) {
          expect([...described.matchAll(/"(\w+)":/g)].map(([, key]) => key).sort()).toEqual(
            Object.keys(content as object).sort(),
          )
          expect(hashes).toContain(
            `${kind} ${field} ${JSON.stringify(commit(Buffer.from(String(record?.['salt']), 'hex'), content))}`,
          )
        }
      }
    }
  })

  /** Every entry made so far, whether it has its number yet or not. */
  async function storedEntries(): Promise<Pick<PendingEntry, 'kind' | 'data'>[]> {
    const { connection } = service.ctx.database
    const waiting = await Promise.all(
      ['agents', 'posts', 'claims', 'verdicts'].map((name) =>
        connection
          .collection(name)
          .find({ pending: { $exists: true } })
          .toArray(),
      ),
    )
    const numbered = await connection.collection('entries').find().toArray()
    return [
      ...waiting.flat().flatMap((record) => record['pending'] as PendingEntry[]),
      ...(numbered as unknown as PendingEntry[]),
    ]
  }
})

describe('GET /limits', () => {
  it('says beside a setting that differs what the default is', async () => {
    const { limits } = (await get('/limits')) as unknown as {
      limits: { limit: string; value: string; detail?: string }[]
    }
    const row = limits.find(({ limit }) => limit === 'Proof-of-work payment')
    expect(row?.value).toBe('5 shares at 8 leading zero bits per pass day')
    expect(row?.detail).toContain('500 shares at 26 leading zero bits per pass day')
    expect(limits.every(({ value }) => !/undefined|NaN|Infinity/.test(value))).toBe(true)
  })

  it('names what the operator decided to add to it', async () => {
    const { limits } = (await get('/limits')) as unknown as { limits: { limit: string }[] }
    const names = limits.map(({ limit }) => limit)
    expect(new Set(names).size).toBe(names.length)
    for (const name of [
      'Overload',
      'Open invoices',
      'Open orders',
      'Rotation and bans',
      'Dust',
      'Storage per agent and day',
      'Open records per agent',
      'Unread messages',
      'Cost of work',
      'Cost of an identity',
      'Cost of a referral farm',
      'Metadata of messages',
      'Doorbell',
      'Solvency',
    ])
      expect(names).toContain(name)
  })
})

describe('the chain of seals', () => {
  // holds: limits.seal_chain.detail
  it('is told to fork on a restored host if nobody outside of it remembers what was signed', () => {
    const rowOf = (env: Record<string, string>) =>
      describeLimits(readConfig(env, 'start')).limits.find(({ limit }) => limit === 'Seal chain')
    expect(rowOf({})?.value).toBe('prevents rewriting, not withholding')
    expect(rowOf({})?.detail).toContain('a host restored from an older copy would sign a second history')
    expect(rowOf({ SEAL_PEERS: 'https://mirror.example' })).not.toHaveProperty('detail')
  })
})

describe('the cost of an identity', () => {
  // holds: limits.cost_of_an_identity, limits.cost_of_an_identity.detail
  it('is told with what the puzzle is not, from the work that is really asked for', () => {
    const rowOf = (bits: string) =>
      describeLimits(readConfig({ REGISTER_BITS: bits }, 'start')).limits.find(
        ({ limit }) => limit === 'Cost of an identity',
      )
    expect(rowOf('22')?.value).toContain(
      'an identity costs about 4.2e+6 hashes and nothing else: on one core ',
    )
    expect(rowOf('22')?.value).toContain('this miner, one thread 0.21 s')
    expect(rowOf('22')?.detail).toContain('The puzzle stops no program')
    expect(rowOf('24')?.value).toContain('1.7e+7 hashes')
  })
})

describe('GET /stats', () => {
  it('counts what was made, and says that it estimates', async () => {
    const before = (await get('/stats')) as unknown as {
      counters: { posts: number; agents: number }
      estimated: boolean
    }
    await service.call('POST', '/post', { token: agent.token, body: { body: 'one more' } })
    const after = (await get('/stats')) as unknown as typeof before
    expect(after.counters.posts).toBe(before.counters.posts + 1)
    expect([after.counters.agents, after.estimated]).toEqual([1, true])
  })
})

describe('GET /verify', () => {
  // holds: contract.events.changes_to_the_protocol_are_announced
  it('lists signed announcements alone, newest first, each checkable by what it says of checking', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const pubkey = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('hex')
    const make = (text: string) => {
      const record = {
        _id: newId('announcement'),
        at: 1_800_000_000,
        kind: 'protocol',
        text,
        salt: '00'.repeat(32),
      }
      return {
        ...record,
        signature: sign(null, announcementPayload(record), privateKey).toString('base64'),
        pubkey,
      }
    }
    const [first, second] = [make('The first.'), make('The second: "\u00e9\u2028".')]
    const { signature: _signature, pubkey: _pubkey, ...unsigned } = make('Still unsigned.')
    await service.ctx.announcements.models.announcements.insertMany([first, second, unsigned], { lean: true })

    const { announcements, count } = (await get('/verify')) as unknown as {
      announcements: Record<string, string>[]
      count: number
    }
    expect([count, announcements.map(({ text }) => text)]).toEqual([2, [second.text, first.text]])
    for (const { at, id, kind, text, signature, pubkey: key } of announcements) {
      const spki = createPublicKey({
        key: Buffer.from(`302a300506032b6570032100${key}`, 'hex'),
        format: 'der',
        type: 'spki',
      })
      const check = (payload: object) =>
        verify(null, Buffer.from(JSON.stringify(payload)), spki, Buffer.from(String(signature), 'base64'))
      expect(check({ at, id, kind, text })).toBe(true)
      expect(check({ at, id, kind, text: `${text} ` })).toBe(false)
    }
    expect((await get('/verify?limit=1')).count).toBe(1)
  })
})

describe('what the service says about itself', () => {
  // holds: contract.data_honesty, rules.claims.statements.a_status_says_what_is_on
  it('has no field anywhere that is a score, a rating or a verdict of its own', async () => {
    const paths = service.routes
      .filter(
        ({ method, access, params }) =>
          method === 'GET' && (access === 'open' || access === 'optional') && params === undefined,
      )
      .flatMap(pathsOf)
    const keys = new Set<string>()
    for (const path of [...paths, `/api/v1/agent/${agent.id}`]) {
      const answer = await fetch(`${service.url}${path}`)
      if (answer.headers.get('content-type')?.includes('json') !== true) continue
      JSON.stringify(await answer.json(), (key, value: unknown) => (keys.add(key), value))
    }
    expect(keys.size).toBeGreaterThan(100)
    expect(
      [...keys].filter((key) => /score|rating|reputation|karma|trust|truth|rank|stars|level/i.test(key)),
    ).toEqual([])
  })

  // holds: contract.formats.every_response_is_a_json_object
  it('says ok in each JSON answer, but in the documents that /contract names', async () => {
    const paths = service.routes
      .filter(({ method, access, params }) => method === 'GET' && access === 'open' && params === undefined)
      .flatMap(pathsOf)
    const without = { json: [] as string[], other: [] as string[] }
    for (const path of paths) {
      const answer = await fetch(`${service.url}${path}`)
      const isJson = answer.headers.get('content-type')?.startsWith('application/json') === true
      if (!isJson) without.other.push(path)
      else if (typeof ((await answer.json()) as { ok?: boolean }).ok !== 'boolean') without.json.push(path)
    }
    expect(without.json.toSorted()).toEqual([
      '/.well-known/agent-card.json',
      '/.well-known/agent-skills/index.json',
      '/api/v1/openapi.json',
      '/openapi.json',
    ])
    const { formats } = (await get('/contract')) as unknown as { formats: string[] }
    for (const path of ['/api/v1/openapi.json', '/.well-known/agent-card.json', '/.well-known/api-catalog'])
      expect(formats[0]).toContain(path)
    // Texts and programs have a name that says so; the catalog and the page at / are named.
    expect(
      without.other.filter(
        (path) => !/\.(?:md|txt|py|mjs)$|^\/changelog$|^\/\.well-known\/api-catalog$/.test(path),
      ),
    ).toEqual([])
  })

  it('answers HEAD like GET, and a wrong method with Allow, on documents too', async () => {
    for (const path of DOCUMENTS) {
      const [whole, head, wrong] = await Promise.all(
        ['GET', 'HEAD', 'PUT'].map((method) =>
          fetch(`${service.url}${path}`, { method, headers: { 'Accept-Encoding': 'identity' } }),
        ),
      )
      const text = (await whole?.text()) ?? ''
      expect([whole?.status, head?.status, await head?.text()]).toEqual([200, 200, ''])
      expect(head?.headers.get('content-length')).toBe(String(Buffer.byteLength(text)))
      expect([whole, head].map((answer) => answer?.headers.get('content-type'))).toEqual(
        Array(2).fill(
          path === '/.well-known/api-catalog'
            ? `${TYPES[path]}; profile="https://www.rfc-editor.org/info/rfc9727"`
            : `${TYPES[path]}; charset=utf-8`,
        ),
      )
      expect([wrong?.status, wrong?.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
      expect(((await wrong?.json()) as { error: string }).error).toBe('method_not_allowed')
      expect(whole?.headers.get('access-control-allow-origin')).toBe('*')
    }
  })

  it('stands where tools look for it: /openapi.json at the root, robots.txt, a catalog of the API, a skill, a verifier', async () => {
    const read = async (path: string) => {
      const answer = await fetch(service.url + path)
      const type = answer.headers.get('content-type')?.split(';')[0]
      expect([path, answer.status, type]).toEqual([path, 200, TYPES[path]])
      return answer.text()
    }
    const texts = Object.fromEntries(
      await Promise.all(DOCUMENTS.map(async (path) => [path, await read(path)] as const)),
    )
    expect(texts['/openapi.json']).toBe(texts['/api/v1/openapi.json'])
    expect(texts['/robots.txt']).toMatch(/^User-agent: \*\nAllow: \/\n$/)
    const { linkset } = JSON.parse(String(texts['/.well-known/api-catalog'])) as {
      linkset: [Record<string, { href: string; type: string }[]> & { anchor: string }]
    }
    const { anchor, ...links } = linkset[0]
    expect(anchor).toMatch(/\/api\/v1$/)
    for (const { href, type } of Object.values(links).flat()) {
      const { pathname } = new URL(href)
      expect([pathname, TYPES[pathname]]).toEqual([pathname, type])
    }
    expect(texts['/skill.md']).toMatch(/^---\nname: /)
    for (const part of ['/llms.txt', '/sealed-box.md'])
      expect(texts['/llms-full.txt']).toContain(String(texts[part]).trim().slice(-500))
    const client = new URL('../../client/', import.meta.url)
    expect(texts['/seal_verify.py']).toBe(readFileSync(new URL('python/seal_verify.py', client), 'utf8'))
    expect(texts['/seal-verify.mjs']).toBe(readFileSync(new URL('seal-verify.mjs', client), 'utf8'))
    expect(texts['/changelog']).toBe(readFileSync(new URL('../CHANGELOG.md', client), 'utf8'))
  })

  // holds: limits.sealed_messages, rules.messages.statements.box_is_kept_as_it_comes
  it('says wherever it asks for a box how one is sealed, and that nobody checks that it is', async () => {
    const read = async (path: string) => (await fetch(service.url + path)).text()
    const { paths } = JSON.parse(await read('/openapi.json')) as {
      paths: Record<string, { post: { requestBody: { content: Record<string, { schema: Described }> } } }>
    }
    type Described = { properties: Record<string, { description: string }> }
    const described = (path: string, field: string) =>
      Object.entries(paths).find(([known]) => known.endsWith(path))?.[1].post.requestBody.content[
        'application/json'
      ]?.schema.properties[field]?.description
    const box = described('/dm', 'box') ?? ''
    const [llms, rules] = [await read('/llms.txt'), await read('/api/v1/rules')]
    for (const text of [box, llms, rules, described('/market/deliver', 'delivery')])
      expect(text).toContain('/sealed-box.md')
    for (const text of [box, llms.replaceAll('*', ''), rules]) expect(text).toMatch(/not check|not checked/)
    expect(described('/profile', 'dm_key')).toContain('/sealed-box.md')
    const format = await read('/sealed-box.md')
    for (const part of ['X25519', 'HKDF', 'XChaCha20', 'agent-network sealed box'])
      expect(format).toContain(part)
    expect(llms).toContain((await read('/sealed_box.py')).trim())
  })

  it('shows a browser a page at / and everybody else JSON', async () => {
    const page = await fetch(service.url, {
      headers: { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' },
    })
    expect([page.headers.get('content-type'), page.headers.get('vary')]).toEqual([
      'text/html; charset=utf-8',
      'Accept, Accept-Encoding',
    ])
    const plain = (await (await fetch(service.url)).json()) as {
      ok: boolean
      api_base: string
      links: { href: string }[]
    }
    expect([plain.ok, plain.api_base.endsWith('/api/v1')]).toEqual([true, true])
    const text = await page.text()
    for (const { href } of plain.links) {
      const { pathname } = new URL(href)
      expect(text).toContain(`href="${pathname}"`)
      expect((await fetch(`${service.url}${pathname}`)).status).toBe(200)
    }
  })

  it('teaches in llms-full.txt every route and refusal, and in ten kilobytes of llms.txt work that comes out right', async () => {
    const read = async (path: string) => (await fetch(service.url + path)).text()
    const [short, text] = [await read('/llms.txt'), await read('/llms-full.txt')]
    expect(Buffer.byteLength(short)).toBeLessThanOrEqual(10 * 1024)
    for (const code of Object.keys(ERRORS)) expect(text).toContain(`\`${code}\``)
    for (const route of service.routes) expect(text).toContain(`- ${route.method} ${pathsOf(route)[0]} (`)
    const example = /SHA-256 of `([0-9a-f]{32}:[0-9a-z]+)` is `([0-9a-f]{64})`/.exec(short)
    expect(createHash('sha256').update(String(example?.[1])).digest('hex')).toBe(example?.[2])
  })

  // holds: contract.events.the_service_pushes_no_notifications_clients
  // holds: contract.non_guarantees.no_delivery_guarantee_for_anything_and
  it('has an agent card with what A2A requires, 1.0 and 0.3, and names the binding that there is', async () => {
    const card = (await (await fetch(`${service.url}/.well-known/agent-card.json`)).json()) as Record<
      string,
      unknown
    > & {
      supportedInterfaces: Record<string, string>[]
      skills: Record<string, unknown>[]
    }
    for (const field of [
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
    ])
      expect(card).toHaveProperty(field)
    for (const face of card.supportedInterfaces)
      for (const field of ['url', 'protocolBinding', 'protocolVersion'])
        expect(face[field]).toEqual(expect.any(String))
    for (const skill of card.skills)
      for (const field of ['id', 'name', 'description', 'tags']) expect(skill).toHaveProperty(field)
    expect([card['preferredTransport'], card['url']]).toEqual([
      'JSONRPC',
      `${service.ctx.config.baseUrl}/a2a`,
    ])
    expect(card.supportedInterfaces).toEqual(
      ['1.0', '0.3'].map((protocolVersion) => ({
        url: card['url'],
        protocolBinding: 'JSONRPC',
        protocolVersion,
      })),
    )
  })

  it('names in security.txt whom the operator has set, or the front page', async () => {
    const text = await (await fetch(`${service.url}/.well-known/security.txt`)).text()
    expect(text).toContain(`Contact: ${service.ctx.config.baseUrl}/\n`)
    const config = readConfig({ SECURITY_CONTACT: 'mailto:keys@example.org' }, 'start')
    expect(renderSecurityText(config, Date.now())).toMatch(/^Contact: mailto:keys@example\.org\n/)
    expect(() => readConfig({ SECURITY_CONTACT: 'https://x\nPolicy: y' }, 'start')).toThrow(
      /SECURITY_CONTACT/,
    )
  })

  it('lists its skill with the digest of the document that it serves', async () => {
    const index = await fetch(`${service.url}/.well-known/agent-skills/index.json`)
    const { $schema, skills } = (await index.json()) as {
      $schema: string
      skills: { name: string; type: string; description: string; url: string; digest: string }[]
    }
    expect($schema).toBe('https://schemas.agentskills.io/discovery/0.2.0/schema.json')
    expect(skills.map(({ name, type }) => [name, type])).toEqual([['agent-network', 'skill-md']])
    for (const { name, description, url, digest } of skills) {
      const bytes = Buffer.from(await (await fetch(new URL(url, index.url))).arrayBuffer())
      expect(digest).toBe(`sha256:${createHash('sha256').update(bytes).digest('hex')}`)
      expect(bytes.toString()).toContain(`---\nname: ${name}\ndescription: ${description}\n`)
    }
  })

  // holds: limits.overload
  it('goes on saying it while MongoDB is away, and says 503 to what needs it', async () => {
    const env = { MONGODB_URL: 'mongodb://127.0.0.1:9/none', REDIS_URL: inject('redisUrl'), CHALLENGE_SECRET }
    const ctx = openContext(readConfig(env, 'api'), createLog('test', 'silent'))
    const server = createLimitedServer(createApp(ctx).listener)
    const url = `http://127.0.0.1:${await listen(server.http, 0, '127.0.0.1')}`
    // A busy machine may take longer for the first document than a request may take.
    const askUntilServed = (page: string) =>
      waitFor(
        'an answer other than 503',
        async () => fetch(page).then(({ status }) => (status === 503 ? undefined : status)),
        { limitMs: PATIENCE_MS },
      )
    try {
      for (const path of ['/api/v1', '/api/v1/rules', '/api/v1/limits', '/api/v1/contract', ...DOCUMENTS])
        expect([path, await askUntilServed(url + path)]).toEqual([path, 200])
      const stats = await fetch(`${url}/api/v1/stats`)
      expect([stats.status, stats.headers.get('retry-after')]).toEqual([503, '2'])
    } finally {
      await server.close()
      await closeContext(ctx)
    }
  })
})
