import { eventPageView } from '../../shared/events/event.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGzip } from 'node:zlib'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { FULL } from '../support/full.ts'
import { SEAL_KEY, buildChain } from '../support/ledger-chain.ts'
import { noteOf } from '../support/log-proofs.ts'
import { createClient } from '../../client/client.ts'
import { registerAgent } from '../../client/register.ts'
import { WorkTooHardError, assertInTime } from '../../client/work-bound.ts'
import { createTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { runAgent } from '../../client/command/run.ts'
import { VERBS } from '../../client/command/verbs.ts'
import { limitsView } from '../../shared/about/limits-page.ts'
import { rulesView } from '../../shared/about/rules.ts'
import { statsView } from '../../shared/about/stats.ts'
import { agentCardView } from '../../shared/about/agent-card.ts'
import { directoryView, ownProfileView, registrationView, rotationView } from '../../shared/agents/agent.ts'
import { challengeView } from '../../shared/agents/challenge.ts'
import { announcementView } from '../../shared/announcements/announcement.ts'
import {
  claimListView,
  judgedClaimView,
  madeClaimView,
  proposalListView,
  recordedVerdictView,
} from '../../shared/claims/claim.ts'
import { doorbellSetView, doorbellView } from '../../shared/doorbells/doorbell.ts'
import { madeOfferView, marketView } from '../../shared/market/offer.ts'
import { madeOrderView, oneOrderView, orderListView } from '../../shared/market/order-views.ts'
import { solvencyView } from '../../shared/market/solvency.ts'
import { blockedView, messagePageView, sentMessageView } from '../../shared/messages/message.ts'
import { currencyMenuView } from '../../shared/passes/currencies.ts'
import { freeCreditView } from '../../shared/passes/pass.ts'
import { standingView } from '../../shared/about/standing.ts'
import { checkedInvoiceView, madeInvoiceView } from '../../shared/money/invoice-views.ts'
import { feedView, publishedPostView } from '../../shared/posts/post.ts'
import { reportView } from '../../shared/reports/report.ts'
import { madeWorkOrderView, workOrderView } from '../../shared/passes/work.ts'
import { mutationsOf, sampleOf } from '../support/hostile-answers.ts'
import { serverFolder } from '../support/server-folder.ts'

const MIB = 2 ** 20
let home: string
let closers: (() => Promise<void>)[]
beforeEach(() => {
  home = mkdtempSync(path.join(serverFolder(), 'hostile-service-'))
  closers = []
})
afterEach(async () => {
  for (const close of closers) await close()
  rmSync(home, { recursive: true })
})

/** A service that answers what it likes. */
async function startHostile(answer: (res: ServerResponse, path: string) => void): Promise<string> {
  const server = createServer((req, res) => {
    req.resume()
    res.on('error', () => undefined)
    answer(res, req.url ?? '')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function* spaces(mib: number): Generator<Buffer> {
  yield Buffer.from('{"ok":true,"posts":[')
  const chunk = Buffer.alloc(MIB, ' ')
  for (let sent = 0; sent < mib; sent++) yield chunk
}

describe('an answer', () => {
  const bodies: Record<string, (res: ServerResponse) => void> = {
    'without an end': (res) => void pipeline(Readable.from(spaces(100_000)), res).catch(() => undefined),
    'that is a gzip bomb': (res) => {
      res.setHeader('Content-Encoding', 'gzip')
      void pipeline(Readable.from(spaces(2_000)), createGzip(), res).catch(() => undefined)
    },
  }
  for (const [name, body] of Object.entries(bodies)) {
    it(`${name} is refused at 16 MiB, with little memory`, async () => {
      const client = createClient({ baseUrl: await startHostile(body) })
      globalThis.gc?.()
      const before = process.memoryUsage().rss
      await expect(client.feed()).rejects.toMatchObject({
        kind: 'bad_answer',
        message: expect.stringContaining('16 MiB') as string,
      })
      expect(process.memoryUsage().rss - before).toBeLessThan(200 * MIB)
    })
  }

  it('of another form than this service gives is refused by every client', async () => {
    const url = await startHostile((res) => res.end('{"ok":true,"posts":"x","count":1}'))
    await expect(createClient({ baseUrl: url }).feed()).rejects.toMatchObject({
      kind: 'bad_answer',
      message: expect.stringContaining('posts: expected a list') as string,
    })
  })

  it('nested too deep to be written out is refused', async () => {
    const url = await startHostile((res) =>
      res.end(`{"ok":true,"posts":[],"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`),
    )
    await expect(createClient({ baseUrl: url }).feed()).rejects.toMatchObject({ kind: 'bad_answer' })
  })
})

const AGENT = 'agt_01j0000000000000000000000a'
const keepIdentity = (url: string) =>
  createTokenFile(tokenFilePath(home, url), {
    url,
    agent_id: AGENT,
    token: `sk_${'01'.repeat(24)}`,
    dm_secret_key: '77'.repeat(32),
    dm_public_key: '910d921cf8d8aa21299c0125b6429ec637011fe8bed37738656415dd8759a809',
  })

async function run(
  url: string,
  argv: string[],
  { env = {}, tty = false }: { env?: object; tty?: boolean } = {},
) {
  let stdout = ''
  let stderr = ''
  const exitCode = await runAgent({
    argv: [...argv, '--url', url],
    env: { AGENT_HOME: home, ...env },
    stdin: Readable.from([]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { isTTY: tty, columns: 500, write: (text) => (stderr += text) },
    signal: AbortSignal.timeout(20_000),
  })
  return { exitCode, stdout, stderr }
}

const seal = {
  seq: 1,
  at: 1,
  count: 1,
  root: '0'.repeat(64),
  prev_root: null,
  from_id: 1,
  to_id: 1,
  signed: false,
}
const unsigned = { signature: null, pubkey: null, algo: null, signed_at: null }
const entry = { id: 1, at: 1, kind: 'dm_key_change', data: { agent_id: AGENT, dm_key: '0'.repeat(64) } }
const receipt = {
  id: AGENT,
  sealed: false,
  entries: [
    { sealed: true, entry, leaf: '0'.repeat(64), seq: 1, index: 0, path: [], seal: { ...seal, ...unsigned } },
    { sealed: false, entry: { ...entry, id: 2 }, next_seal_at: 2 },
  ],
}
/** What an honest service answers, by the path. */
const HONEST: Readonly<Record<string, unknown>> = {
  '/rules': sampleOf(rulesView),
  '/limits': sampleOf(limitsView),
  '/stats': sampleOf(statsView),
  '/verify': { announcements: [sampleOf(announcementView)], count: 1, how_to_verify: [] },
  '/challenge': {
    ...(sampleOf(challengeView) as object),
    puzzle: {
      kind: 'decode-hex',
      question: 'Which word is written in these hexadecimal bytes: 61 62',
      answer_format: 'a word',
    },
    expires_at: 4e9,
  },
  '/register': sampleOf(registrationView),
  '/token/rotate': { ...(sampleOf(rotationView) as object), token: `sk_${'ab'.repeat(24)}` },
  '/me': sampleOf(standingView),
  '/profile': sampleOf(ownProfileView),
  '/agent/': sampleOf(agentCardView),
  '/directory': sampleOf(directoryView),
  '/currencies': sampleOf(currencyMenuView),
  '/invoice': sampleOf(freeCreditView),
  '/invoice/check': { ...(sampleOf(checkedInvoiceView) as object), status: 'settled' },
  '/post': sampleOf(publishedPostView),
  '/feed': sampleOf(feedView),
  '/report': sampleOf(reportView),
  '/claim': sampleOf(madeClaimView),
  '/claims': sampleOf(claimListView),
  '/claim/': {
    ...(sampleOf(judgedClaimView) as object),
    claim: { ...(sampleOf(judgedClaimView) as { claim: object }).claim, kind: 'proposal' },
  },
  '/claim/resolve': sampleOf(recordedVerdictView),
  '/proposals': sampleOf(proposalListView),
  '/dm/block': sampleOf(blockedView),
  '/dm/unblock': sampleOf(blockedView),
  '/dm': { ...(sampleOf(messagePageView) as object), ...(sampleOf(sentMessageView) as object) },
  '/market/offers': sampleOf(marketView),
  '/market/offer': sampleOf(madeOfferView),
  '/market/offer/close': sampleOf(madeOfferView),
  '/market/order': sampleOf(madeOrderView),
  '/market/orders': sampleOf(orderListView),
  '/market/order/': sampleOf(oneOrderView),
  '/market/deliver': sampleOf(oneOrderView),
  '/market/accept': sampleOf(oneOrderView),
  '/market/dispute': sampleOf(oneOrderView),
  '/market/refund-address': sampleOf(oneOrderView),
  '/market/solvency': sampleOf(solvencyView),
  '/seal': {
    seals: [{ ...seal, ...unsigned }],
    count: 1,
    truncated: false,
    unsigned_seqs: [1],
    chain_intact: true,
    verified_to_seq: 1,
    ...{ walked_at: null, origin: null, vkey: null, log_size: null, log_root: null, witness_policy: null },
    ...{ what_this_is: 'text', honest_limit: 'text', verify: 'text' },
  },
  '/receipt/': receipt,
  '/ledger': { entries: [entry], count: 1, next_id: 2 },
  '/checkpoint': noteOf(buildChain([2])),
  '/witness': { agent_id: AGENT, vkey: 'v' },
  '/witness/cosign': { size: 2, at: 1, counted: true },
}

/**
 * Each verb with its words, the path whose answer is the hostile one, and that answer in place of the honest
 * one.
 */
const CASES: readonly [argv: string[], path: string, answer?: unknown][] = [
  [['register', '--force'], '/challenge'],
  [['register', '--force'], '/register'],
  [['me'], '/me'],
  [['import', `sk_${'ab'.repeat(24)}`, '--as', 'b'], '/me'],
  [['import', `sk_${'ab'.repeat(24)}`, '--as', 'b'], '/agent/'],
  [['author-key', 'new'], '/agent/'],
  [['author-key', 'rotate'], '/agent/'],
  [['rotate'], '/token/rotate'],
  [['currencies'], '/currencies'],
  [['invoice', 'pow'], '/invoice'],
  [['invoice', 'pow'], '/invoice', sampleOf(madeWorkOrderView)],
  [['invoice', 'xno'], '/invoice', sampleOf(madeInvoiceView)],
  [['check', 'inv_1'], '/invoice/check'],
  [['mine'], '/invoice'],
  [['profile', '--name', 'n'], '/profile'],
  [['card', AGENT], '/agent/'],
  [['directory'], '/directory'],
  [['post', 'x'], '/post'],
  [['feed'], '/feed'],
  [['report', 'pst_1', 'spam'], '/report'],
  [['dm', 'send', AGENT, 'x', '--unsealed-key'], '/agent/'],
  [['dm', 'send', AGENT, 'x', '--unsealed-key'], '/dm', sampleOf(sentMessageView)],
  [['dm', 'read'], '/dm', sampleOf(messagePageView)],
  [['fund', 'nano_x', '1'], '/currencies', sampleOf(currencyMenuView)],
  [['watch', '--once'], '/events', { ...(sampleOf(eventPageView) as object), more: false }],
  [['dm', 'rekey'], '/profile'],
  [['dm', 'block', AGENT], '/dm/block'],
  [['dm', 'unblock', AGENT], '/dm/unblock'],
  [['claim', 'x'], '/claim'],
  [['claim-show', 'clm_1'], '/claim/'],
  [['claims'], '/claims'],
  [['resolve', 'clm_1', 'true'], '/claim/resolve'],
  [['proposals'], '/proposals'],
  [['endorse', 'clm_1'], '/claim/'],
  [['offers'], '/market/offers'],
  [['offer', 't', 'd', '--price', '1', '--xno', 'a'], '/market/offer'],
  [['close-offer', 'off_1'], '/market/offer/close'],
  [['order', 'off_1'], '/market/order'],
  [['orders'], '/market/orders'],
  [['orders', 'ord_1'], '/market/order/'],
  [['deliver', 'ord_1', 'x', '--plain'], '/market/deliver'],
  [['deliver', 'ord_1', 'x', '--unsealed-key'], '/market/order/'],
  [['accept', 'ord_1'], '/market/accept'],
  [['dispute', 'ord_1', 'x'], '/market/dispute'],
  [['refund-address', 'ord_1', 'x'], '/market/refund-address'],
  [['solvency'], '/market/solvency'],
  [['doorbell', 'set', 'https://bell.example/ring'], '/doorbell', sampleOf(doorbellSetView)],
  [['doorbell', 'show'], '/doorbell', sampleOf(doorbellView)],
  [['doorbell', 'off'], '/doorbell', sampleOf(doorbellView)],
  [['rules'], '/rules'],
  [['limits'], '/limits'],
  [['stats'], '/stats'],
  [['verify'], '/verify'],
  [['verify', AGENT], '/receipt/'],
  [['ledger'], '/ledger'],
  [['seals'], '/seal'],
  [['receipt', AGENT], '/receipt/'],
  [['witness', '--pubkey', keyToHex(ed25519PublicKey(SEAL_KEY))], '/checkpoint'],
]

const isAt = (path: string, requested: string) =>
  path.endsWith('/') ? requested.startsWith(path) : requested === path

async function startLiar(): Promise<{ url: string; lie(path: string, answer: unknown): void }> {
  let lies: [path: string, answer: unknown] = ['', undefined]
  const url = await startHostile((res, requested) => {
    const path = requested.replace('/api/v1', '').replace(/\?.*/, '')
    const honest = HONEST[path] ?? HONEST[`${path.slice(0, path.lastIndexOf('/'))}/`]
    const answer =
      isAt(lies[0], path) && (path !== '/claim/resolve') === (lies[0] !== '/claim/resolve') ? lies[1] : honest
    const isObject = typeof answer === 'object' && answer !== null && !Array.isArray(answer)
    // The checkpoint alone is text.
    const isText = path === '/checkpoint' && typeof answer === 'string'
    res.end(isText ? answer : JSON.stringify(isObject ? { ok: true, ...answer } : answer))
  })
  return { url, lie: (...next) => void (lies = next) }
}

describe('the command, lied to by the service,', () => {
  it('knows every verb here', () => {
    const isNamed = (name: string) => CASES.some(([argv]) => `${argv.join(' ')} `.startsWith(`${name} `))
    // They ask nobody, or what another verb asks: "mcp" runs the others, "move-to" asks another service for /me;
    // "doorbell listen" serves until it is stopped.
    const others = ['whoami', 'move-to', 'doorbell listen', 'mcp']
    const unnamed = VERBS.filter(({ name, formerly = name }) => !isNamed(name) && !isNamed(formerly))
    expect(unnamed.map(({ name }) => name)).toEqual(others)
  })

  it('works on the honest answers', async () => {
    const { url, lie } = await startLiar()
    for (const [argv, path, answer = HONEST[path]] of CASES) {
      rmSync(home, { recursive: true })
      keepIdentity(url)
      lie(path, answer)
      const { stdout } = await run(url, [...argv, '--json'])
      const { error } = JSON.parse(stdout) as { error?: string }
      expect(error === 'bad_answer' || error === 'failed' ? [argv, stdout] : []).toEqual([])
    }
  })

  it('calls an answer without its fields a bad one, in one sentence, also with --json', async () => {
    const { url, lie } = await startLiar()
    for (const [argv, path] of CASES) {
      rmSync(home, { recursive: true })
      keepIdentity(url)
      lie(path, {})
      const { exitCode, stdout, stderr } = await run(url, [...argv, '--json'])
      expect({ argv, exitCode, stderr, answer: JSON.parse(stdout) as unknown }).toMatchObject({
        exitCode: 1,
        stderr: '',
        answer: { ok: false, error: 'bad_answer' },
      })
      const plain = await run(url, argv)
      expect({ argv, text: plain.stderr.trimEnd().split('\n').at(-1) }).toMatchObject({
        text: expect.stringMatching(/expected .*\.( |$)/) as string,
      })
      expect(plain.stderr).not.toContain('    at ')
    }
  })

  for (const [argv, path, answer = HONEST[path]] of CASES)
    it(`shows no stack and no control whichever part of the answer is false: ${argv.join(' ')} (${path})`, async () => {
      const { url, lie } = await startLiar()
      for (const [index, mutated] of [...mutationsOf(answer)].entries()) {
        // Every value comes at some part; with full counts each at every part.
        if (index % EVERY !== 0) continue
        rmSync(home, { recursive: true })
        keepIdentity(url)
        lie(path, mutated.value)
        const { stdout, stderr } = await run(url, argv)
        const said = stdout + stderr
        expect(
          / {4}at |of undefined|of null|not a function|not iterable|Invalid time/.test(said)
            ? [mutated.path, said]
            : [],
        ).toEqual([])
        expect(said).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/)
      }
    })
})

const EVERY = FULL ? 1 : 211

describe('work', () => {
  const challengeOf = (difficultyBits: number, expiresAt: number) => ({
    ...(HONEST['/challenge'] as object),
    pow: {
      algorithm: 'sha256',
      prefix: '0'.repeat(32),
      difficulty_bits: difficultyBits,
      preimage: 'prefix:nonce',
    },
    expires_at: expiresAt,
  })

  it('that no machine does before the challenge ends is refused at once', async () => {
    const { url, lie } = await startLiar()
    for (const bits of [255, 60]) {
      lie('/challenge', challengeOf(bits, Date.now() / 1000 + 600 - ((Date.now() / 1000) % 1)))
      const { exitCode, stdout } = await run(url, ['register', '--json'])
      expect({ exitCode, ...(JSON.parse(stdout) as object) }).toMatchObject({
        exitCode: 1,
        ok: false,
        error: 'work_too_hard',
      })
    }
  })

  it('that this machine does not do before it ends is refused once its speed is known, and not before', () => {
    const endsAt = Math.floor(Date.now() / 1000) + 600
    const progress = { hashesPerSecond: 1e6, sharesFound: 0, secondsLeft: 10_000 }
    expect(() => assertInTime(endsAt, { ...progress, hashes: 4e6 })).not.toThrow()
    expect(() => assertInTime(endsAt, { ...progress, hashes: 6e6 })).toThrow(WorkTooHardError)
    expect(() => assertInTime(endsAt, { ...progress, hashes: 6e6, secondsLeft: 500 })).not.toThrow()
  })

  it.runIf(FULL)(
    'that a challenge asks for, and that takes too long here, ends the registration',
    async () => {
      const { url, lie } = await startLiar()
      lie('/challenge', challengeOf(38, Math.floor(Date.now() / 1000) + 600))
      await expect(
        registerAgent({ client: createClient({ baseUrl: url }), threads: 1 }),
      ).rejects.toMatchObject({ code: 'work_too_hard' })
    },
  )

  it('of an order that cannot be done is refused too', async () => {
    const { url, lie } = await startLiar()
    keepIdentity(url)
    const order = {
      ...(sampleOf(workOrderView) as object),
      difficulty_bits: 255,
      shares_required: 500,
      expires_at: Math.floor(Date.now() / 1000) + 86_400,
    }
    lie('/invoice', { ...order, order })
    expect(JSON.parse((await run(url, ['mine', '--json'])).stdout)).toMatchObject({ error: 'work_too_hard' })
  })
})

describe('what a hostile service sends', () => {
  const EVIL = '\u001b]0;x\u0007\u001b[2J\u009b2J\u202e\nforged line'

  it('reaches no terminal unescaped, progress included', async () => {
    const { url, lie } = await startLiar()
    lie('/challenge', {
      ...(HONEST['/challenge'] as object),
      puzzle: { kind: EVIL, question: EVIL, answer_format: EVIL },
    })
    for (const tty of [true, false]) {
      const { stdout, stderr } = await run(url, ['register'], { tty })
      expect(stdout + stderr.replaceAll('\r\u001b[K', '')).not.toMatch(
        /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]|^forged/m,
      )
      expect(stderr).toContain('\\u{1b}]0;x')
    }
  })

  it('is JSON without a control in it, and says the same', async () => {
    const { url, lie } = await startLiar()
    lie('/feed', { posts: [], count: 0, extra: `${EVIL}\u007f` })
    const { stdout } = await run(url, ['feed', '--json'])
    expect(stdout.trimEnd()).not.toMatch(
      /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/,
    )
    expect(JSON.parse(stdout)).toMatchObject({ extra: `${EVIL}\u007f` })
  })
})

describe('plain HTTP', () => {
  it('to another machine is refused by every client that is not told to take it', () => {
    for (const baseUrl of ['http://10.0.0.1', 'http://service.invalid:3000', 'http://[::2]/api/v1'])
      expect(() => createClient({ baseUrl })).toThrow(
        expect.objectContaining({ code: 'insecure_url' }) as Error,
      )
    expect(createClient({ baseUrl: 'http://10.0.0.1', insecure: true }).with({ token: 'x' }).baseUrl).toBe(
      'http://10.0.0.1',
    )
    for (const baseUrl of [
      'http://127.0.0.1:1',
      'http://localhost:1',
      'http://[::1]:1',
      'https://service.invalid',
    ])
      expect(createClient({ baseUrl }).baseUrl).toBe(baseUrl)
  })

  it('to another machine needs --insecure, or AGENT_INSECURE=1', async () => {
    const url = 'http://service.invalid:3000'
    expect(JSON.parse((await run(url, ['me', '--json'])).stdout)).toMatchObject({
      error: 'insecure_url',
      message: expect.stringContaining('--insecure') as string,
    })
    for (const allowed of [
      await run(url, ['me', '--json', '--insecure']),
      await run(url, ['me', '--json'], { env: { AGENT_INSECURE: '1' } }),
    ])
      expect(JSON.parse(allowed.stdout)).toMatchObject({ error: 'not_registered' })
    for (const good of [
      'http://127.0.0.1:1',
      'http://localhost:1',
      'http://[::1]:1',
      'https://service.invalid',
    ])
      expect(JSON.parse((await run(good, ['me', '--json'])).stdout)).toMatchObject({
        error: 'not_registered',
      })
    for (const bad of [
      'http://127.0.0.1.example.org',
      'http://localhost.example.org',
      'http://10.0.0.1',
      'http://[::2]',
    ])
      expect(JSON.parse((await run(bad, ['me', '--json'])).stdout)).toMatchObject({ error: 'insecure_url' })
  })
})
