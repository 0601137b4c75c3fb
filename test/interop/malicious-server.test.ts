import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { FULL } from '../support/full.ts'
import {
  buildChain,
  closingOf,
  leaveUnsigned,
  makeEntry,
  SEAL_KEY,
  sealOver,
  type LedgerChain,
} from '../support/ledger-chain.ts'
import { consistencyOf, noteOf } from '../support/log-proofs.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/*
 * A service that means ill, asked by both verifiers: what it can bring about is a finding, or exit 2 in
 * bounded time and memory, and nothing that a terminal would obey.
 */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const CHAIN = buildChain([3, 2, 4], 1)
const MIB = 2 ** 20
/**
 * For a whole answer: what comes at all comes in time, also on a busy machine; what hangs is not waited for.
 */
const TIMEOUT_SECONDS = 30
const HANGING = ['--timeout', '2']

interface Answer {
  status?: number
  headers?: Record<string, string | string[]>
  body?: string | Buffer
}
type Asked = { isSeals: boolean; from: number; limit: number; origin: string; path: string }
/** An answer, or what is written to the bare socket. */
type Answering = (asked: Asked, response: ServerResponse, socket: Socket) => Answer | undefined

interface Scenario {
  name: string
  /** Exit code and words. */
  ends: [number, ...string[]]
  args?: readonly string[]
  answer: Answering
}

const good = (asked: Asked): Answer => pageOf(CHAIN, asked)
const pageOf = ({ seals, entries }: LedgerChain, { isSeals, from }: Asked): Answer => ({
  body: JSON.stringify(
    isSeals
      ? { ok: true, seals: seals.filter(({ seq }) => seq > from) }
      : { ok: true, entries: entries.filter(({ id }) => id >= from) },
  ),
})
const LOGGED = buildChain([3, 2, 4], 1, { loggedFrom: 1 })
const NOTE = noteOf(LOGGED)
/** A good log with such an answer to GET /checkpoint, and to GET /ledger/consistency if it isn't the true one. */
const withCheckpoint =
  (checkpoint: Answer, consistency?: Answer): Answering =>
  (asked) => {
    const { pathname, searchParams } = new URL(asked.path, asked.origin)
    if (pathname.endsWith('/checkpoint')) return checkpoint
    if (!pathname.endsWith('/consistency')) return pageOf(LOGGED, asked)
    const [from, to] = [Number(searchParams.get('from')), Number(searchParams.get('to'))]
    return consistency ?? { body: JSON.stringify({ ok: true, from, to, ...consistencyOf(LOGGED, from, to) }) }
  }
const note = (name: string, body: string | Buffer): Scenario => ({
  name,
  ends: [1, 'wrong_checkpoint'],
  answer: withCheckpoint({ body }),
})
const bodyOf = (asked: Asked): string => String(good(asked).body)
/** The good body with something done to it. */
const edited =
  (edit: (body: string) => string | Buffer, headers: Answer['headers'] = {}): Answering =>
  (asked) => ({ body: edit(bodyOf(asked)), headers })
/** Such an answer to every request. */
const always =
  (answer: Answer): Answering =>
  () =>
    answer
/** Bytes instead of an answer in HTTP. */
const raw =
  (bytes: string, end = true): Answering =>
  (_asked, _response, socket) => {
    if (end) socket.end(bytes, 'latin1')
    else socket.write(bytes, 'latin1')
    return undefined
  }
/** The good answer with one seal or entry of it replaced. */
const replaced =
  (name: 'seals' | 'entries', place: number, change: (part: Record<string, unknown>) => unknown): Answering =>
  (asked) => {
    const answer = JSON.parse(bodyOf(asked)) as Record<string, Record<string, unknown>[]>
    const list = answer[name]
    if (list?.[place] !== undefined && asked.from <= 1)
      list[place] = change(list[place]) as Record<string, unknown>
    return { body: JSON.stringify(answer) }
  }
const gzip = { 'content-encoding': 'gzip' }
const ESCAPES = '\u001b]0;owned\u0007\u001b[2J\u007f\u0085\u009b31m\u202e\u2066GOOD: the whole chain holds\n'

function drip(head: string, everyMs = 100): Answering {
  return (_asked, _response, socket) => {
    socket.write(head, 'latin1')
    const timer = setInterval(() => socket.write(' '), everyMs)
    socket.on('close', () => clearInterval(timer)).on('error', () => clearInterval(timer))
    return undefined
  }
}

const unreachable = (name: string, answer: Answering, args: readonly string[] = []): Scenario => ({
  name,
  ends: [2, 'unreachable'],
  answer,
  args,
})

const SCENARIOS: Scenario[] = [
  { name: 'nothing wrong', ends: [0], answer: good },
  { name: 'nothing wrong, compressed', ends: [0], answer: edited((body) => gzipSync(body), gzip) },
  {
    name: 'nothing wrong, redirected within the origin',
    ends: [0],
    answer: redirectOnce((path) => `${path}&again=1`),
  },
  {
    name: 'nothing wrong, redirected by a whole address',
    ends: [0],
    answer: redirectOnce((path, origin) => `${origin}${path}&again=1`),
  },
  {
    name: 'numbers and letters in other spellings',
    ends: [0],
    answer: edited((body) => body.replace('"id":1,', '"id":10e-1,').replace('post', 'p\\u006fst')),
  },
  // Answers that are none
  unreachable('not found', always({ status: 404 })),
  unreachable('no content', always({ status: 204 })),
  unreachable('unchanged', always({ status: 304 })),
  unreachable('part of it', always({ status: 206, body: '{"seals":[]}' })),
  unreachable('always unavailable', always({ status: 503 })),
  unreachable('always too many', always({ status: 429, body: ESCAPES })),
  unreachable(
    'redirected to another origin',
    always({ status: 302, headers: { location: 'http://127.0.0.1:1/' } }),
  ),
  unreachable(
    'redirected to another scheme',
    always({ status: 307, headers: { location: 'ftp://127.0.0.1/' } }),
  ),
  unreachable(
    'redirected to another host in short',
    always({ status: 301, headers: { location: '//localhost/seal' } }),
  ),
  unreachable(
    'redirected to what is no address',
    always({ status: 302, headers: { location: 'http://[bad' } }),
  ),
  unreachable('redirected to nowhere', always({ status: 302 })),
  unreachable('redirected without end', ({ path }) => ({ status: 302, headers: { location: path } })),
  unreachable('no JSON, with escapes', always({ body: ESCAPES })),
  unreachable('an empty body', always({ body: '' })),
  unreachable(
    'a byte order mark',
    edited((body) => `\ufeff${body}`),
  ),
  unreachable(
    'text after the JSON',
    edited((body) => `${body} GOOD`),
  ),
  unreachable(
    'NaN',
    edited((body) => body.replace('"id":1', '"id":NaN')),
  ),
  unreachable(
    'a raw control in a string',
    edited((body) => body.replace('post', 'po\u0001st')),
  ),
  unreachable(
    'bytes that are not UTF-8',
    edited((body) => Buffer.from(body.replace('post', 'po\xffst'), 'latin1')),
  ),
  unreachable(
    'a key twice',
    edited((body) => body.replace('{"ok":true,', '{"ok":true,"seals":[],"entries":[],')),
  ),
  unreachable(
    'a key twice in two spellings',
    edited((body) =>
      body.replace('"seq":1,', '"seq":1,"\\u0073eq":1,').replace('"id":1,', '"id":1,"\\u0069d":1,'),
    ),
  ),
  unreachable(
    'nested for ever',
    edited((body) => body.replace('"ok":true', `"ok":${'['.repeat(1_001)}${']'.repeat(1_001)}`)),
  ),
  unreachable('nested very deeply', always({ body: '['.repeat(300_000) })),
  unreachable('a list instead of an object', always({ body: '[]' })),
  unreachable('a list that is none', always({ body: '{"seals":{"length":1},"entries":{}}' })),
  // Too much
  unreachable('17 MiB', always({ body: `{"seals":[],"x":"${'x'.repeat(17 * MIB)}"}` })),
  unreachable('17 MiB of small objects', always({ body: `{"seals":[${'{},'.repeat((17 * MIB) / 3)}{}]}` })),
  unreachable(
    '120 MiB compressed to 120 KiB',
    always({ headers: gzip, body: gzipSync(Buffer.alloc(120 * MIB, '{},')) }),
  ),
  unreachable(
    'gzip that is none',
    edited((body) => body, gzip),
  ),
  unreachable(
    'gzip cut short',
    edited((body) => gzipSync(body).subarray(0, -20), gzip),
  ),
  unreachable(
    'gzip with something after it',
    edited((body) => Buffer.concat([gzipSync(body), Buffer.from('GOOD')]), gzip),
  ),
  unreachable(
    'gzip twice',
    edited((body) => Buffer.concat([gzipSync(body), gzipSync(body)]), gzip),
  ),
  unreachable(
    'another encoding than was asked for',
    edited((body) => body, { 'content-encoding': 'br' }),
  ),
  unreachable('more seals than were asked for', ({ isSeals }) => ({
    body: JSON.stringify({ seals: isSeals ? Array(1_001).fill(CHAIN.seals[0]) : [] }),
  })),
  unreachable('more entries than were asked for', (asked) =>
    asked.isSeals ? good(asked) : { body: JSON.stringify({ entries: Array(10_001).fill(CHAIN.entries[0]) }) },
  ),
  unreachable(
    'headers without end',
    raw(
      `HTTP/1.1 200 OK\r\n${`x-${'h'.repeat(60)}: ${'v'.repeat(900)}\r\n`.repeat(40)}content-length: 12\r\n\r\n{"seals":[]}`,
    ),
  ),
  unreachable('headers that never end', drip('HTTP/1.1 200 OK\r\nx: '), HANGING),
  unreachable('a body that never ends', drip('HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n{'), HANGING),
  unreachable('no answer at all', raw('', false), HANGING),
  unreachable('a connection that is closed at once', raw('')),
  unreachable('a status line with escapes', raw(`HTTP/1.1 ${ESCAPES}\r\n\r\n`)),
  unreachable('something that is not HTTP', raw('SSH-2.0-OpenSSH_9.2\r\n')),
  unreachable('a body cut short', raw('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"seals":[')),
  unreachable(
    'chunks cut short',
    raw('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{"seals":['),
  ),
  unreachable(
    'interim answers without end',
    (_asked, _response, socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'), 20)
      socket.on('close', () => clearInterval(timer)).on('error', () => clearInterval(timer))
      return undefined
    },
    HANGING,
  ),
  {
    name: 'unsigned seals without end',
    ends: [2, 'too_long'],
    args: ['--max-seals', '2500'],
    answer: endlessSeals,
  },
  {
    name: 'entries without end',
    ends: [2, 'too_long'],
    args: ['--max-entries', '25000'],
    answer: endlessEntries,
  },
  // A checkpoint that is none, or not of this log
  { name: 'a checkpoint of the log', ends: [0], answer: withCheckpoint({ body: NOTE }) },
  { name: 'no checkpoint', ends: [0], answer: withCheckpoint({ status: 404 }) },
  {
    name: 'a Date of another century, beside seals that are not of the future',
    ends: [0],
    answer: withCheckpoint({ body: NOTE, headers: { date: 'Fri, 01 Jan 9999 00:00:00 GMT' } }),
  },
  unreachable(
    'the bare size of a larger log in place of a checkpoint',
    withCheckpoint({ status: 409, body: '999999999999\n' }),
  ),
  unreachable(
    'the bare size of a larger log in place of a proof',
    withCheckpoint({ body: noteOf(LOGGED, { size: 5 }) }, { status: 409, body: '999999999999\n' }),
  ),
  note('the bare size of a larger log as a checkpoint', '999999999999\n'),
  note('a checkpoint with an empty line in its text', NOTE.replace('\n', '\n\n')),
  note('a checkpoint with empty lines above its signature', NOTE.replace('\n\n', '\n\n\n\n')),
  note('a checkpoint with an empty line below its signature', `${NOTE}\n`),
  note('empty lines alone as a checkpoint', '\n'.repeat(60_000)),
  note('a checkpoint with more lines than a reader takes', NOTE + `— x y\n`.repeat(64)),
  note('a checkpoint with a megabyte of cosignatures', NOTE + `— x ${'A'.repeat(100)}\n`.repeat(10_000)),
  note('escapes as the name of the log', NOTE.replace('test.example', ESCAPES)),
  note('a checkpoint that is not UTF-8', Buffer.from(NOTE, 'latin1')),
  note('a checkpoint of more entries than a double counts', NOTE.replace('\n9\n', '\n9007199254740993\n')),
  {
    name: 'an old checkpoint in front of newer seals',
    ends: [3, 'not_cosigned_yet'],
    answer: withCheckpoint({ body: noteOf(LOGGED, { size: 5 }) }),
  },
  {
    name: 'a newer checkpoint that nothing proves',
    ends: [1, 'log_rewritten'],
    answer: withCheckpoint(
      { body: noteOf(LOGGED, { size: 10 }) },
      { body: '{"from_root":null,"hashes":[null]}' },
    ),
  },
  {
    name: 'a newer checkpoint with a proof of another shape',
    ends: [1, 'log_rewritten'],
    answer: withCheckpoint(
      { body: noteOf(LOGGED, { size: 10 }) },
      { body: JSON.stringify({ hashes: Array(129).fill('ab'.repeat(32)) }) },
    ),
  },
  // A ledger that is false
  {
    name: 'escapes as the kind of an entry',
    ends: [1, 'wrong_root'],
    answer: replaced('entries', 1, (entry) => ({ ...entry, kind: ESCAPES })),
  },
  {
    name: 'escapes as the algorithm',
    ends: [1, 'malformed_seal'],
    answer: replaced('seals', 1, (seal) => ({ ...seal, algo: ESCAPES })),
  },
  { name: 'null for a seal', ends: [1, 'malformed_seal'], answer: replaced('seals', 1, () => null) },
  { name: 'null for an entry', ends: [1, 'malformed_entry'], answer: replaced('entries', 1, () => null) },
  {
    name: 'true for a number',
    ends: [1, 'malformed_seal'],
    answer: replaced('seals', 0, (seal) => ({ ...seal, seq: true })),
  },
  {
    name: 'a whole number that no double holds',
    ends: [1, 'malformed_entry'],
    answer: replaced('entries', 0, (entry) => ({ ...entry, id: 2 ** 53 })),
  },
  {
    name: 'an entry nested 600 levels deep',
    ends: [1, 'malformed_entry'],
    answer: replaced('entries', 1, (entry) => ({
      ...entry,
      data: { deep: JSON.parse('['.repeat(600) + ']'.repeat(600)) as unknown },
    })),
  },
  {
    name: 'a lone surrogate',
    ends: [1, 'malformed_entry'],
    answer: replaced('entries', 1, (entry) => ({ ...entry, kind: '\ud800' })),
  },
  {
    name: 'other entries',
    ends: [1, 'wrong_root'],
    answer: replaced('entries', 0, () => ({ ...makeEntry(1), at: 1 })),
  },
  {
    name: 'the same seals again and again',
    ends: [1, 'at_goes_back', 'seq_gap'],
    answer: (asked) => good({ ...asked, from: asked.isSeals ? 0 : asked.from }),
  },
  {
    name: 'a range without end',
    ends: [1, 'bad_signature', 'entry_gap', 'wrong_count'],
    answer: (asked) => (asked.isSeals && asked.from > 0 ? { body: '{"seals":[]}' } : replacedRange(asked)),
  },
]

function replacedRange(asked: Asked): Answer {
  if (!asked.isSeals) return good(asked)
  return { body: JSON.stringify({ seals: [{ ...CHAIN.seals[0], to_id: 2 ** 53 - 1 }] }) }
}

function redirectOnce(target: (path: string, origin: string) => string): Answering {
  return (asked) =>
    asked.path.includes('again')
      ? good(asked)
      : { status: 302, headers: { location: target(asked.path, asked.origin) } }
}

/** Whole, but that nobody signed it: the first 3,000 seals of a chain that anybody can make up. */
const UNSIGNED = makeUnsigned(3_000)

function makeUnsigned(count: number): LedgerChain {
  const chain: LedgerChain = { entries: [], seals: [] }
  for (let seq = 1; seq <= count; seq++) {
    const closing = closingOf(seq, seq, seq)
    chain.entries.push(closing)
    chain.seals.push(leaveUnsigned(sealOver([closing], chain.seals.at(-1) ?? null, seq)))
  }
  return chain
}

function endlessSeals({ isSeals, from, limit }: Asked): Answer {
  const { seals, entries } = UNSIGNED
  return {
    body: JSON.stringify(
      isSeals
        ? { seals: seals.slice(from, from + limit) }
        : { entries: entries.slice(from - 1, from - 1 + limit) },
    ),
  }
}

function endlessEntries(asked: Asked): Answer {
  if (asked.isSeals) return good(asked)
  const entries = Array.from(
    { length: asked.limit },
    (_, place) => CHAIN.entries[asked.from + place - 1] ?? makeEntry(asked.from + place),
  )
  return { body: JSON.stringify({ entries }) }
}

describe.skipIf(!canRunPythonVerifier())(
  'both verifiers before a server that means ill (skipped if there is no python3)',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'malicious-'))
    let url: string
    let python: ReturnType<typeof startPythonVerifier>
    const server = createServer((request, response) => serve(request, response))

    function serve(request: IncomingMessage, response: ServerResponse): void {
      const { pathname, searchParams } = new URL(request.url ?? '/', url)
      const scenario = SCENARIOS[Number(pathname.split('/')[1])] as Scenario
      const isSeals = pathname.endsWith('/seal')
      const from = Number(searchParams.get(isSeals ? 'after_seq' : 'from_id'))
      const asked = {
        isSeals,
        from,
        limit: Number(searchParams.get('limit')),
        origin: url,
        path: request.url ?? '',
      }
      const answer = scenario.answer(asked, response, request.socket)
      if (answer !== undefined) response.writeHead(answer.status ?? 200, answer.headers).end(answer.body)
    }

    beforeAll(async () => {
      python = startPythonVerifier()
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    })
    afterAll(async () => {
      python.stop()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      rmSync(folder, { recursive: true })
    })

    const ask = (verify: Verify, place: number, name: string, ...args: string[]) =>
      verify([
        `${url}/${place}`,
        ...['--pubkey', PUBKEY, '--max-age', '999999999', '--timeout', String(TIMEOUT_SECONDS)],
        ...['--state', join(folder, `${place}-${name}.json`)],
        ...(SCENARIOS[place]?.args ?? []),
        ...args,
      ])

    it('has forty scenarios and more', () => {
      expect(SCENARIOS.length).toBeGreaterThan(40)
    })

    // holds: rules.ledger.statements.a_verifier_says_0_it_holds
    it('end every scenario alike, as they should, in bounded time, and print nothing that a terminal would obey', async () => {
      const outcomes = await Promise.all(
        SCENARIOS.map(async ({ name }, place) => {
          const [inNode, inPython, ...texts] = await Promise.all([
            ask(verifyInNode, place, 'node', '--json'),
            ask(python.verify, place, 'python', '--json'),
            // What is printed is one report in two forms.
            ...(FULL || place % 3 === 0
              ? [ask(verifyInNode, place, 'node-text'), ask(python.verify, place, 'python-text')]
              : []),
          ])
          return {
            name,
            reports: [readReport(inNode), readReport(inPython)],
            printed: [inNode, inPython, ...texts].map(({ text }) => text),
          }
        }),
      )
      const ended = outcomes.map(({ name, reports }) => [
        name,
        ...reports.map(({ code, words }) => [code, ...words]),
      ])
      expect(ended).toEqual(SCENARIOS.map(({ name, ends }) => [name, ends, ends]))
      for (const { name, reports, printed } of outcomes) {
        for (const text of printed) {
          expect(text, name).toMatch(/^[\n -~]*$/)
          expect(text.includes('GOOD'), name).toBe(text.startsWith('{') ? false : reports[0]?.code === 0)
        }
      }
    })

    it('end with exit 2 at an address where nobody listens, or where the connection is reset', async () => {
      const resetting = createTcpServer((socket) => socket.on('error', () => undefined).resetAndDestroy())
      await new Promise<void>((resolve) => resetting.listen(0, '127.0.0.1', resolve))
      const { port } = resetting.address() as AddressInfo
      const targets = [
        `http://127.0.0.1:${port}`,
        'http://127.0.0.1:1',
        'http://127.0.0.1:99999',
        'http://nobody.invalid',
        `https://127.0.0.1:${port}`,
      ]
      for (const target of targets) {
        const ended = await Promise.all(
          [verifyInNode, python.verify].map((verify) =>
            verify([target, '--timeout', '2', '--json', '--state', join(folder, 'none.json')]),
          ),
        )
        expect(
          ended.map(({ code }) => code),
          target,
        ).toEqual([2, 2])
      }
      await new Promise((resolve) => resetting.close(resolve))
    })

    it('refuse addresses that are none alike', async () => {
      const targets = [
        'http://',
        'http:///x',
        'http://a b',
        'http://u:p@host',
        'http://host/?q',
        'http://host/#f',
        'http://host/../x',
        'http://h:123456',
        'http://\u001b[2J',
        'https:host',
        'http://[zz]',
      ]
      for (const target of targets)
        for (const verify of [verifyInNode, python.verify])
          expect(readReport(await verify([target, '--json'])), target).toMatchObject({
            code: 2,
            error: 'usage',
          })
    })
  },
)
