import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import type { Receipt } from '../../shared/crypto/receipt.ts'
import { verifyInclusion } from '../../shared/crypto/merkle.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { MAX_RECEIPT_ENTRIES } from '../../shared/platform/limits.ts'
import { FULL } from '../support/full.ts'
import { writePosts } from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  reportIn,
  startPythonVerifier,
  verifyInNode,
  type StartedVerifier,
  type Verify,
} from '../support/both-verifiers.ts'
import { askAsKnower, canRunPythonVerifier } from '../support/run-verifier.ts'
import { startService, whenServed, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService
let folder: string
let alice: TestAgent
let python: StartedVerifier | undefined

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-seals-'))
  if (canRunPythonVerifier()) python = startPythonVerifier()
  const keyFile = path.join(folder, 'seal-key')
  ensureSealKey(keyFile)
  service = await startService({
    env: {
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
      SEAL_INTERVAL_SECONDS: '600',
    },
  })
  alice = await service.registerWithPass({ handle: 'alice' })
})
afterAll(async () => {
  python?.stop()
  await service.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

interface SealListAnswer {
  seals: { seq: number; count: number; signed: boolean; to_id: number }[]
  count: number
  truncated: boolean
  unsigned_seqs: number[]
  chain_intact: boolean
  verified_to_seq: number
}

/**
 * Asked again where a 503 is the answer: an entry may take longer to be numbered than its receipt waits for
 * that.
 */
const get = async <T>(route: string, headers: Record<string, string> = {}) => {
  const { json, status, headers: given } = await whenServed(() => service.call('GET', route, { headers }))
  return {
    json: json as unknown as T & { error?: string; field?: string; message?: string },
    status,
    headers: given,
  }
}
const listSeals = async (query = '') => (await get<SealListAnswer>(`/seal${query}`)).json
const publish = async (body: string) =>
  String((await service.call('POST', '/post', { token: alice.token, body: { body } })).json['id'])

/**
 * Has the workers make one more seal over everything that is written, and waits until it is signed and
 * verified.
 */
async function seal(): Promise<number> {
  const before = (await listSeals()).count
  await service.ctx.queues.enqueue('make-seal', {})
  const list = await waitFor(
    'a signed seal',
    async () => {
      const now = await listSeals()
      return now.count > before && now.unsigned_seqs.length === 0 && now.verified_to_seq === now.count
        ? now
        : undefined
    },
    { limitMs: PATIENCE_MS },
  )
  return list.count
}

describe('the ledger over the API', () => {
  // holds: rules.ledger.statements.an_entry_is_id_at_kind
  // holds: rules.ledger.statements.no_free_text_handle_address_or
  it('numbers what is written within moments and publishes it in ascending order', async () => {
    const id = await publish('hello')
    const found = await waitFor(
      'the entry',
      async () => {
        const { json } = await get<{
          entries: { id: number; kind: string; data: Record<string, unknown> }[]
          count: number
        }>('/ledger')
        return json.entries.some(({ data }) => data['post_id'] === id) ? json : undefined
      },
      { limitMs: 10_000 },
    )
    expect(found.entries.map(({ id: number }) => number)).toEqual(found.entries.map((_, index) => index + 1))
    expect(found.entries[0]).toMatchObject({ id: 1, kind: 'registration', data: { agent_id: alice.id } })
    expect(Object.keys(found.entries[0] ?? {})).toEqual(['id', 'at', 'kind', 'data'])
    const { json: second } = await get<{ entries: { id: number }[] }>('/ledger?from_id=2&limit=1')
    expect(second.entries.map(({ id: number }) => number)).toEqual([2])
    expect(JSON.stringify(found)).not.toContain('hello')
    expect(JSON.stringify(found)).not.toContain('"alice"')
  })

  // holds: limits.overload.detail
  it('has what a record says at this moment, or says that a number is still to come', async () => {
    const id = await publish('hidden in a moment')
    await get(`/receipt/${id}`)
    const sequencing = service.ctx.queues.get('sequence')
    await sequencing.pause()
    await setHidden(service.ctx, id, true)
    expect((await service.call('GET', `/receipt/${id}`)).json).toMatchObject({
      ok: false,
      error: 'unavailable',
    })
    await sequencing.resume()
    expect((await get<Receipt>(`/receipt/${id}`)).json.entries.map(({ entry }) => entry.kind)).toEqual([
      'post',
      'hide',
    ])
  })

  it('gives a record of many entries in parts, each of which verifies, and looks once for many who ask', async () => {
    const agent = await service.register()
    const steps = Array.from({ length: MAX_RECEIPT_ENTRIES + 20 }, (_, step) => ({
      source: `${agent.id}/dm_key/${step}`,
      at: Math.floor(Date.now() / 1_000),
      kind: 'dm_key_change' as const,
      data: { agent_id: agent.id, dm_key: step.toString(16).padStart(64, '0') },
    }))
    await service.ctx.agents.models.agents.updateOne(
      { _id: agent.id },
      { $push: { pending: { $each: steps } } },
    )
    await get(`/receipt/${agent.id}`)
    await seal()
    const { json: first } = await get<Receipt>(`/receipt/${agent.id}`)
    expect([first.entries.length, first.truncated]).toEqual([MAX_RECEIPT_ENTRIES, true])
    const { json: second } = await get<Receipt>(
      `/receipt/${agent.id}?after=${first.entries.at(-1)?.entry.id}`,
    )
    expect(second.truncated).toBe(undefined)
    expect(second.entries[0]).toEqual(first.entries[0])
    expect(first.entries[0]?.entry.kind).toBe('registration')
    const keys = [...first.entries, ...second.entries]
      .map(({ entry }) => entry.data['dm_key'])
      .filter((key) => key !== undefined)
    expect(keys).toEqual(steps.map(({ data }) => data.dm_key))
    const files = [first, second].map((receipt, part) => {
      const file = path.join(folder, `part-${part}.json`)
      fs.writeFileSync(file, JSON.stringify(receipt))
      return file
    })
    for (const [part, file] of files.entries())
      for (const verify of verifiers().filter((_, place, all) => FULL || place === part % all.length))
        expect(await askVerifier(verify, file)).toMatchObject({ ok: true, code: 0 })
    const findTiles = vi.spyOn(service.ctx.entries.tiles, 'find')
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => service.call('GET', `/receipt/${agent.id}`)),
    )
    expect(answers.map(({ status }) => status)).toContain(200)
    expect(findTiles.mock.calls.length).toBeLessThan((5 * MAX_RECEIPT_ENTRIES) / 16)
    findTiles.mockRestore()
  })

  it('gives a receipt that waits for its seal, and one that both verifiers take once it is sealed', async () => {
    const id = await publish('for the record')
    const { json: waiting } = await get<Receipt>(`/receipt/${id}`)
    expect(waiting).toMatchObject({
      id,
      sealed: false,
      entries: [{ sealed: false, next_seal_at: expect.any(Number) }],
      openings: [{ field: 'content_hash', content: { body: 'for the record', id, topic: null } }],
    })
    const seq = await seal()
    const { json: receipt } = await get<Receipt>(`/receipt/${id}`)
    expect(receipt).toMatchObject({ id, sealed: true, entries: [{ sealed: true, seq }] })
    const file = path.join(folder, 'receipt.json')
    fs.writeFileSync(file, JSON.stringify(receipt))
    for (const verify of verifiers())
      expect(await askVerifier(verify, file)).toMatchObject({ ok: true, code: 0, openings: 1 })
    const { json: ofAgent } = await get<Receipt>(`/receipt/${alice.id}`)
    expect(ofAgent.entries.length).toBeGreaterThan(0)
    expect(ofAgent.openings).toContainEqual(
      expect.objectContaining({ field: 'handle_hash', content: { handle: 'alice', id: alice.id } }),
    )
    fs.writeFileSync(file, JSON.stringify(ofAgent))
    expect(await askVerifier(verifyInNode, file)).toMatchObject({ ok: true })
    const { json: ofSeal } = await get<Receipt>(`/receipt/seal_${seq}`)
    fs.writeFileSync(file, JSON.stringify(ofSeal))
    expect(await askVerifier(verifyInNode, file)).toMatchObject({ ok: true })
    await setHidden(service.ctx, id, true)
    const { json: inPart } = await get<Receipt>(`/receipt/${id}`)
    expect(inPart).toMatchObject({ sealed: false, entries: [{ sealed: true }, { sealed: false }] })
  })

  it('opens claims and verdicts, and not a hidden post', async () => {
    const claim = (
      await service.call('POST', '/claim', { token: alice.token, body: { statement: 'it rains' } })
    ).json['id']
    const resolved = await service.call('POST', '/claim/resolve', {
      token: alice.token,
      body: { claim_id: claim, outcome: 'true', evidence: 'wet' },
    })
    const verdict = (resolved.json['verdict'] as { id: string }).id
    const hidden = await publish('bad words')
    await setHidden(service.ctx, hidden, true)
    await seal()
    expect((await get<Receipt>(`/receipt/${claim}`)).json.openings).toMatchObject([
      { content: { id: claim, kind: 'claim', statement: 'it rains' } },
    ])
    expect((await get<Receipt>(`/receipt/${verdict}`)).json.openings).toMatchObject([
      { content: { evidence: 'wet', id: verdict } },
    ])
    const { json } = await get<Receipt>(`/receipt/${hidden}`)
    expect(json.entries.map(({ entry }) => entry.kind)).toEqual(['post', 'hide'])
    expect(json.openings).toBeUndefined()
    const file = path.join(folder, 'receipt.json')
    for (const id of [claim, verdict, hidden]) {
      fs.writeFileSync(file, JSON.stringify((await get<Receipt>(`/receipt/${String(id)}`)).json))
      expect(await askVerifier(verifyInNode, file)).toMatchObject({ ok: true })
    }
  })

  // holds: rules.errors.no_such_record
  it('says that a record has no entries', async () => {
    expect((await get('/receipt/pst_unknown')).json).toMatchObject({
      ok: false,
      error: 'no_such_record',
      field: 'id',
    })
  })
})

describe('the seals over the API', () => {
  // holds: contract.authentication.seals_are_signed_with_a_single
  it('form a chain that both verifiers accept', async () => {
    await writePosts(service.ctx, 700)
    await seal()
    for (const [place, verify] of verifiers().entries()) {
      const report = await askVerifier(verify, service.url, '--state', path.join(folder, `${place}.state`))
      expect(report).toMatchObject({ ok: true, code: 0, unsigned_seqs: [], seals: (await listSeals()).count })
    }
  })

  it('answer at the root too, walk by after_seq, and say when some are left out', async () => {
    await publish('one more')
    const last = await seal()
    const root = await service.call('GET', '//seal')
    expect(root.json).toEqual((await get('/seal')).json)
    expect(root.json).toMatchObject({
      ok: true,
      count: last,
      truncated: false,
      unsigned_seqs: [],
      chain_intact: true,
      what_this_is: expect.any(String),
      honest_limit: expect.any(String),
      verify: expect.stringContaining('/seal-verify.mjs'),
    })
    expect(await listSeals('?limit=1')).toMatchObject({ seals: [{ seq: last }], truncated: true })
    expect(await listSeals('?after_seq=0&limit=2')).toMatchObject({
      seals: [{ seq: 1 }, { seq: 2 }],
      truncated: true,
    })
    expect(await listSeals(`?after_seq=${last - 1}`)).toMatchObject({
      seals: [{ seq: last }],
      truncated: false,
    })
    expect(await listSeals(`?after_seq=${last}`)).toMatchObject({ seals: [], truncated: false })
    for (const query of ['limit=0', 'limit=10001', 'after_seq=-1', 'after_seq=1&after_seq=2'])
      expect((await get(`/seal?${query}`)).json.error).toBe('invalid_field')
  })

  // holds: rules.errors.no_such_index, rules.errors.no_such_seal
  it('prove each entry of a seal with more than one level of tiles', async () => {
    const { seals } = await listSeals()
    const large = seals.find(({ count }) => count > 512)
    if (large === undefined) throw new Error('there is no large seal')
    for (const index of [0, 1, 255, 256, 511, 512, large.count - 1]) {
      const { json } = await get<{
        leaf: string
        path: { hash: string; side: 'left' | 'right' }[]
        root: string
        seq: number
        index: number
        entry: { id: number }
      }>(`/seal/proof?seq=${large.seq}&index=${index}`)
      expect(json).toMatchObject({
        seq: large.seq,
        index,
        entry: { id: large.to_id - large.count + 1 + index },
      })
      expect(verifyInclusion({ ...json, count: large.count })).toEqual({ ok: true })
    }
    expect((await get(`/seal/proof?seq=${large.seq}&index=${large.count}`)).json).toMatchObject({
      error: 'no_such_index',
      field: 'index',
    })
    expect((await get('/seal/proof?seq=99999&index=0')).json).toMatchObject({
      error: 'no_such_seal',
      field: 'seq',
    })
    expect((await get('/seal/proof?seq=1')).json).toMatchObject({ error: 'missing_field', field: 'index' })
    expect((await get('/seal/proof?seq=1&index=1.5')).json).toMatchObject({
      error: 'invalid_field',
      field: 'index',
    })
  })

  it('let a cache keep for ever what cannot change, and ask again for what can', async () => {
    const proof = await get('/seal/proof?seq=1&index=0')
    expect(proof.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    const page = await get('/ledger?limit=2')
    expect(page.headers.get('cache-control')).toContain('immutable')
    const open = await get('/ledger?limit=10000')
    expect(open.headers.get('cache-control')).toBe('public, no-cache')
    const list = await get('/seal')
    expect(list.headers.get('cache-control')).toBe('public, no-cache')
    for (const [route, { headers }] of [
      ['/seal/proof?seq=1&index=0', proof],
      ['/ledger?limit=10000', open],
      ['/seal', list],
    ] as const) {
      const again = await fetch(`${service.url}/api/v1${route}`, {
        headers: { 'If-None-Match': headers.get('etag') ?? '' },
      })
      expect([route, again.status, await again.text()]).toEqual([route, 304, ''])
    }
    // A full page of what no seal covers yet.
    const { json: waiting } = await get<Receipt>(`/receipt/${await publish('news')}`)
    const unsealed = await get(`/ledger?from_id=${waiting.entries[0]?.entry.id}&limit=1`)
    expect(unsealed.headers.get('cache-control')).toBe('public, no-cache')
    await seal()
    const changed = await fetch(`${service.url}/api/v1/seal`, {
      headers: { 'If-None-Match': list.headers.get('etag') ?? '' },
    })
    expect(changed.status).toBe(200)
    await changed.body?.cancel()
  })

  it('say it when the chain does not hold', async () => {
    const { connection } = service.ctx.database
    const status = connection.collection<{ _id: string; revision: number }>('ledger_status')
    const seals = connection.collection<{ _id: number }>('seals')
    const before = await status.findOne({ _id: 'chain' })
    if (before === null) throw new Error('there is no status')
    const setStatus = (fields: object) =>
      status.replaceOne({ _id: 'chain' }, { ...before, ...fields, revision: before.revision + ++changes })
    let changes = 0
    await setStatus({ intact: false, fault: 'seal 1: a test' })
    expect((await listSeals()).chain_intact).toBe(false)
    await setStatus({})
    expect((await listSeals()).chain_intact).toBe(true)

    // A seal that the workers have not got to yet.
    const { count } = await listSeals()
    const last = await seals.findOne({ _id: count })
    await setStatus({ seq: count - 1 })
    expect((await listSeals()).chain_intact).toBe(true)
    const isUnsigned = { signature: 1, pubkey: 1, algo: 1, signed_at: 1 } as const
    for (const change of [
      { $set: { prev_root: 'ab'.repeat(32), signed: false }, $unset: isUnsigned },
      { $set: { signature: `${'A'.repeat(86)}==` } },
    ]) {
      await seals.updateOne({ _id: count }, change)
      await setStatus({ seq: count - 1 })
      expect((await listSeals()).chain_intact).toBe(false)
      await seals.replaceOne({ _id: count }, { ...last })
    }
    await setStatus({})
    expect((await listSeals()).chain_intact).toBe(true)
  })
})

describe('what a verifier needs', () => {
  it('is served: the verifier itself and the vectors', async () => {
    const answer = await fetch(`${service.url}/seal-verify.mjs`)
    expect(answer.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(await answer.text()).toBe(fs.readFileSync('client/seal-verify.mjs', 'utf8'))
    const { json } = await get<{
      valid: Record<string, { kind?: string }>
      invalid: Record<string, { reason?: string }>
      count: number
    }>('/vectors')
    expect(json.valid['tree-1-to-20-leaves']).toMatchObject({ kind: 'tree' })
    expect(json.invalid['proof-with-a-duplicated-odd-leaf']).toMatchObject({ reason: expect.any(String) })
    expect(json.count).toBe(Object.keys(json.valid).length + Object.keys(json.invalid).length)
  })
})

function verifiers(): Verify[] {
  return python === undefined ? [verifyInNode] : [verifyInNode, python.verify]
}

const askVerifier = (verify: Verify, ...args: string[]) =>
  askAsKnower((words) => reportIn(folder, verify, words), args)

describe('a long answer of the ledger', () => {
  /** As it goes over the wire. */
  const ask = async (headers: http.OutgoingHttpHeaders, method = 'GET', route = '/ledger?limit=200') => {
    const response = await new Promise<http.IncomingMessage>((resolve, reject) =>
      http.request(`${service.url}/api/v1${route}`, { headers, method }, resolve).on('error', reject).end(),
    )
    return { status: response.statusCode, headers: response.headers, body: await buffer(response) }
  }

  it('is compressed for whoever takes gzip, and for nobody else', async () => {
    await writePosts(service.ctx, 200)
    await waitFor(
      '200 entries',
      async () => ((await service.ctx.entries.highestId()) >= 200 ? true : undefined),
      { limitMs: PATIENCE_MS },
    )
    const plain = await ask({})
    const packed = await ask({ 'accept-encoding': 'gzip' })
    expect([plain.status, plain.headers['content-encoding'], plain.headers.vary]).toEqual([
      200,
      undefined,
      'Accept-Encoding',
    ])
    expect([packed.status, packed.headers['content-encoding'], packed.headers.vary]).toEqual([
      200,
      'gzip',
      'Accept-Encoding',
    ])
    expect(gunzipSync(packed.body).equals(plain.body)).toBe(true)
    expect(packed.body.length).toBeLessThan(plain.body.length * 0.7)
    expect(Number(packed.headers['content-length'])).toBe(packed.body.length)
    expect((await ask({ 'accept-encoding': 'gzip;q=0, br' })).headers['content-encoding']).toBeUndefined()
    const head = await ask({ 'accept-encoding': 'gzip' }, 'HEAD')
    expect([head.headers['content-encoding'], head.body.length]).toEqual(['gzip', 0])
    // One tag for each form, and either asks whether anything is new.
    expect(packed.headers.etag).toBe(`W/${plain.headers.etag}`)
    for (const { headers } of [plain, packed])
      expect((await ask({ 'accept-encoding': 'gzip', 'if-none-match': headers.etag ?? '' })).status).toBe(304)
    expect(
      (await ask({ 'accept-encoding': 'gzip' }, 'GET', '/ledger?limit=1')).headers['content-encoding'],
    ).toBeUndefined()
  })
})
