import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient } from '../../client/client.ts'
import { judgeKey } from '../../client/own-ledger.ts'
import { check } from '../../client/verify/main.ts'
import { verifyReceipt } from '../../client/verify-receipt.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import { verifyKeyProof, type KeyProof } from '../../shared/crypto/key-tree.ts'
import {
  logRoot,
  listLogTiles,
  tilePath,
  verifyLogConsistency,
  verifyLogInclusion,
} from '../../shared/crypto/log-tree.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import { hashLeaves } from '../support/merkle-leaves.ts'
import {
  cosignNote,
  formatVkey,
  NOTE_KEY,
  parseCheckpoint,
  parseLogProof,
  parseNote,
  parseVkey,
  verifyCosignature,
  verifyNote,
} from '../../shared/crypto/note.ts'
import type { LedgerEntry, Receipt } from '../../shared/crypto/receipt.ts'
import { exportLog } from '../../shared/ledger/log-export.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { readReport, startPythonVerifier, verifyInNode } from '../support/both-verifiers.ts'
import { writePosts } from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
afterAll(() => python?.stop())

let service: TestService
let folder: string
let alice: TestAgent
let bob: TestAgent
const sizes: number[] = []

/** Makes a seal over what is there and this many more posts. @returns its last entry */
async function sealAgain(posts = 1): Promise<number> {
  const before = (await service.ctx.seals.last())?.to_id ?? 0
  await writePosts(service.ctx, posts)
  await service.ctx.queues.enqueue('make-seal', {})
  await waitFor(
    'a signed seal',
    async () => ((await service.ctx.seals.lastSigned())?.to_id ?? 0) >= before + posts || undefined,
    { limitMs: PATIENCE_MS },
  )
  return (await lastSigned()).to_id
}

async function lastSigned() {
  const seal = await service.ctx.seals.lastSigned()
  if (seal === undefined) throw new Error('no seal is signed')
  return seal
}

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-log-'))
  const keyFile = path.join(folder, 'seal-key')
  ensureSealKey(keyFile)
  service = await startService({
    env: {
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
      LEDGER_ORIGIN: 'agents.example/ledger',
    },
  })
  expect((await service.call('GET', '/checkpoint')).json).toMatchObject({ error: 'no_such_seal' })
  alice = await service.register()
  bob = await service.register()
  await service.call('POST', '/profile', { token: alice.token, body: { dm_key: '21'.repeat(32) } })
  for (const posts of [3, 300, 5]) sizes.push(await sealAgain(posts))
})
afterAll(async () => {
  await service.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

const fetchBytes = async (
  place: string,
  headers: Record<string, string> = { 'accept-encoding': 'identity' },
) => {
  const answer = await fetch(`${service.url}/api/v1/${place}`, { headers })
  return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) }
}
const getJson = async <T>(route: string) => (await service.call('GET', route)).json as unknown as T
const readAll = async () => (await getJson<{ entries: LedgerEntry[] }>('/ledger?limit=10000')).entries

describe('the log over the API', () => {
  it('shows the last checkpoint as a note signed by the key that GET /seal names', async () => {
    const { status, headers, bytes } = await fetchBytes('checkpoint')
    expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
      200,
      'text/plain; charset=utf-8',
      'public, no-cache',
    ])
    const note = parseNote(bytes.toString())
    const seals = await getJson<{ origin: string; vkey: string; log_size: number; log_root: string }>('/seal')
    expect(seals).toMatchObject({ origin: 'agents.example/ledger', log_size: sizes.at(-1) })
    expect(verifyNote(note, parseVkey(seals.vkey))).toBe(true)
    const { origin, size, root } = parseCheckpoint(note.text)
    expect([origin, size, Buffer.from(root).toString('hex')]).toEqual([
      seals.origin,
      seals.log_size,
      seals.log_root,
    ])
    expect(Buffer.from(root)).toEqual(logRoot(hashLeaves((await readAll()).slice(0, size))))
  })

  it('serves every tile and every bundle of entries of that size, to be kept for ever', async () => {
    const size = sizes.at(-1) ?? 0
    const entries = await readAll()
    const leaves = hashLeaves(entries)
    for (const address of listLogTiles(size)) {
      const { status, headers, bytes } = await fetchBytes(tilePath(address))
      expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([
        200,
        'application/octet-stream',
        'public, max-age=31536000, immutable',
      ])
      expect(bytes).toHaveLength(32 * address.width)
      if (address.level > 0) continue
      const first = 256 * address.index
      expect(bytes).toEqual(leaves.subarray(32 * first, 32 * (first + address.width)))
      const bundle = (await fetchBytes(tilePath({ ...address, level: 'entries' }))).bytes
      const texts: string[] = []
      for (let at = 0; at < bundle.length; at += 2 + bundle.readUInt16BE(at))
        texts.push(bundle.toString('utf8', at + 2, at + 2 + bundle.readUInt16BE(at)))
      expect(texts).toEqual(entries.slice(first, first + address.width).map((entry) => canonicalJson(entry)))
    }
    // The part of a tile that an earlier checkpoint had.
    expect((await fetchBytes(`tile/0/000.p/${sizes[0]}`)).bytes).toEqual(
      leaves.subarray(0, 32 * (sizes[0] ?? 0)),
    )
  })

  it('compresses bundles for whoever takes gzip', async () => {
    const plain = await fetchBytes('tile/entries/000')
    const answer = await fetch(`${service.url}/api/v1/tile/entries/000`, {
      headers: { 'accept-encoding': 'gzip' },
    })
    expect(answer.headers.get('content-encoding')).toBe('gzip')
    // fetch has unpacked it.
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(plain.bytes)
    expect(() => gunzipSync(plain.bytes)).toThrow()
  })

  it('gives out no tile, no entries and no proof of consistency that do not lead to the signed root', async () => {
    const { tiles } = service.ctx.entries.tiles.models
    const [first = 0, last = 0] = [sizes.at(0), sizes.at(-1)]
    const consistency = [
      `ledger/consistency?from=${first}`,
      `ledger/consistency?from=${first}&to=${last - 1}`,
    ]
    const expectRefused = async (wrong: string, route: string) => {
      const { status, headers } = await fetchBytes(route)
      const isKept = headers.get('cache-control')?.includes('immutable') ?? false
      expect([wrong, route, status, isKept]).toEqual([wrong, route, 500, false])
    }
    const whole = (await fetchBytes('tile/0/000')).bytes
    for (const [place, routes] of [
      ['0/0', ['tile/0/000', 'tile/0/000.p/7', 'tile/entries/000.p/7']],
      ['0/1', ['tile/0/001.p/9', ...consistency]],
      ['1/0', ['tile/1/000.p/1', 'tile/0/000', ...consistency]],
    ] as [string, string[]][]) {
      const stored = await tiles.findById(place).lean()
      if (stored === null) throw new Error(`there is no tile ${place}`)
      const wrong = Buffer.from(stored.hashes.buffer as unknown as Uint8Array)
      wrong[0] = (wrong[0] ?? 0) ^ 1
      await tiles.updateOne({ _id: place }, { $set: { hashes: wrong } })
      for (const route of routes) await expectRefused(place, route)
      await tiles.updateOne({ _id: place }, { $set: { hashes: stored.hashes } })
    }
    const { entries } = service.ctx.entries.models
    const entry = await entries.findById(3).lean()
    await entries.collection.updateOne({ _id: 3 } as object, { $set: { at: 1 } })
    await expectRefused('an entry', 'tile/entries/000')
    await expect(exportLog(service.ctx, path.join(folder, 'refused'))).rejects.toThrow(
      'is not the one that was sealed',
    )
    await entries.collection.updateOne({ _id: 3 } as object, { $set: { at: entry?.at } })
    expect((await fetchBytes('tile/0/000')).bytes).toEqual(whole)
    for (const route of ['tile/entries/000', ...consistency])
      expect([route, (await fetchBytes(route)).status]).toEqual([route, 200])
  })

  // holds: rules.errors.no_such_index
  it('has no tile beyond the checkpoint, and says what a path looks like', async () => {
    const size = sizes.at(-1) ?? 0
    const refused: [string, number, string][] = [
      [`tile/0/001.p/${size - 256 + 1}`, 404, 'no_such_index'],
      ['tile/0/001', 404, 'no_such_index'],
      ['tile/0/x001/000', 404, 'no_such_index'],
      ['tile/9/000', 404, 'no_such_index'],
      ['tile/entries/002.p/1', 404, 'no_such_index'],
      ['tile/64/000', 400, 'invalid_field'],
      ['tile/00/000', 400, 'invalid_field'],
      ['tile/0/0', 400, 'invalid_field'],
      ['tile/0/000.p/256', 400, 'invalid_field'],
      ['tile/0/000/', 400, 'invalid_field'],
      ['ledger/consistency', 400, 'missing_field'],
      [`ledger/consistency?from=5&to=4`, 400, 'invalid_field'],
      [`ledger/consistency?from=5&to=${size + 1}`, 400, 'invalid_field'],
    ]
    for (const [place, status, error] of refused) {
      const answer = await fetchBytes(place)
      expect([
        place,
        answer.status,
        (JSON.parse(answer.bytes.toString()) as { error: string }).error,
      ]).toEqual([place, status, error])
    }
  })

  it('can be exported to a folder, which then has what the API serves, and later what is new alone', async () => {
    const target = path.join(folder, 'export')
    const { size, files } = await exportLog(service.ctx, target)
    const places = [...listLogTiles(size)].flatMap((tile) => [
      tilePath(tile),
      ...(tile.level === 0 ? [tilePath({ ...tile, level: 'entries' as const })] : []),
    ])
    expect([size, files]).toEqual([sizes.at(-1), places.length + 1])
    for (const place of ['checkpoint', ...places])
      expect(fs.readFileSync(path.join(target, place))).toEqual((await fetchBytes(place)).bytes)
    expect(await exportLog(service.ctx, target)).toEqual({ size, files: 1 })
  })

  it('proves that the log of each size begins with that of each smaller one', async () => {
    for (const from of [0, 1, ...sizes]) {
      for (const to of [undefined, ...sizes.filter((size) => size >= from)]) {
        const proof = await getJson<{ from_root: string; to_root: string; to: number; hashes: string[] }>(
          `/ledger/consistency?from=${from}${to === undefined ? '' : `&to=${to}`}`,
        )
        const heads = [
          { size: from, root: Buffer.from(proof.from_root, 'hex') },
          { size: proof.to, root: Buffer.from(proof.to_root, 'hex') },
        ] as const
        expect(
          verifyLogConsistency(
            ...heads,
            proof.hashes.map((hash) => Buffer.from(hash, 'hex')),
          ),
        ).toBe(true)
        if (to === undefined) expect(proof.to).toBe(sizes.at(-1))
      }
    }
  })

  it('gives each entry of a receipt its proof in the log', async () => {
    const { entries } = await getJson<Receipt>(`/receipt/${alice.id}`)
    const vkey = parseVkey((await getJson<{ vkey: string }>('/seal')).vkey)
    expect(entries.length).toBeGreaterThan(1)
    for (const item of entries) {
      const { index, path: way, checkpoint } = parseLogProof((item.sealed && item.tlog_proof) || '')
      const note = parseNote(checkpoint)
      expect(verifyNote(note, vkey)).toBe(true)
      expect(index).toBe(item.entry.id - 1)
      expect(
        verifyLogInclusion({
          leaf: Buffer.from(leafHash(item.entry), 'hex'),
          index,
          path: way,
          ...parseCheckpoint(note.text),
        }),
      ).toBe(true)
    }
  })

  // holds: rules.ledger.entry_kinds.witness_key
  it('takes cosignatures of agents that named a key, one for each size, and shows them below the checkpoint', async () => {
    const { origin } = await getJson<{ origin: string }>('/seal')
    const secret = randomBytes(32)
    const key = {
      name: `${origin}/w/${alice.id}`,
      type: NOTE_KEY.cosigner,
      publicKey: ed25519PublicKey(secret),
    }
    const post = async (route: string, body: object) =>
      service.call('POST', route, { token: alice.token, body })
    const { text } = parseNote((await fetchBytes('checkpoint')).bytes.toString())
    const now = Math.floor(Date.now() / 1000)
    const line = cosignNote(text, key.name, secret, now)
    expect((await post('/witness/cosign', { line })).json).toMatchObject({ error: 'wrong_state' })
    for (const vkey of [
      'nonsense',
      formatVkey({ ...key, type: NOTE_KEY.signer }),
      formatVkey({ ...key, name: `${origin}/w/${bob.id}` }),
    ])
      expect((await post('/witness', { vkey })).json).toMatchObject({ error: 'invalid_field', field: 'vkey' })
    expect((await post('/witness', { vkey: formatVkey(key) })).json).toMatchObject({
      ok: true,
      vkey: formatVkey(key),
    })
    const wrong = [
      'nonsense',
      cosignNote(text.replace('\n', 'x\n'), key.name, secret, now),
      cosignNote(text, key.name, randomBytes(32), now),
      cosignNote(text, key.name, secret, now + 3600),
    ]
    for (const other of wrong)
      expect((await post('/witness/cosign', { line: other })).json).toMatchObject({
        error: 'invalid_field',
        field: 'line',
      })
    expect((await post('/witness/cosign', { line })).json).toMatchObject({
      size: sizes.at(-1),
      at: now,
      counted: true,
    })
    expect(
      (await post('/witness/cosign', { line: cosignNote(text, key.name, secret, now + 1) })).json,
    ).toMatchObject({ counted: false })
    const note = parseNote((await fetchBytes('checkpoint')).bytes.toString())
    expect(note.signatures.map((signature) => verifyCosignature(text, signature, key))).toEqual([
      undefined,
      now,
    ])
  })

  it('shows the cosignatures of the witnesses that a reader asks for, however many others there are', async () => {
    const { origin } = await getJson<{ origin: string }>('/seal')
    const note = async (query = '') =>
      parseNote((await fetchBytes(`checkpoint${query}`)).bytes.toString()).signatures.map(({ line }) => line)
    const { text } = parseNote((await fetchBytes('checkpoint')).bytes.toString())
    const madeAt = (await lastSigned()).at
    const cosigner = async (at: number) => {
      const agent = await service.register()
      const secret = randomBytes(32)
      const name = `${origin}/w/${agent.id}`
      const vkey = formatVkey({ name, type: NOTE_KEY.cosigner, publicKey: ed25519PublicKey(secret) })
      await service.call('POST', '/witness', { token: agent.token, body: { vkey } })
      const handIn = (time: number) =>
        service.call('POST', '/witness/cosign', {
          token: agent.token,
          body: { line: cosignNote(text, name, secret, time) },
        })
      // None may say that it was there before the checkpoint was.
      for (const early of [1, madeAt - 1])
        expect((await handIn(early)).json).toMatchObject({ error: 'invalid_field', field: 'line' })
      expect((await handIn(at)).json).toMatchObject({ counted: true })
      return { vkey, line: cosignNote(text, name, secret, at) }
    }
    for (let crowd = 0; crowd < 15; crowd++) await cosigner(madeAt)
    const honest = [await cosigner(madeAt + 1), await cosigner(madeAt + 1)]
    const lines = honest.map(({ line }) => line)
    expect((await note()).filter((line) => lines.includes(line))).toEqual([])
    const query = `?${honest.map(({ vkey }) => `witness=${encodeURIComponent(vkey)}`).join('&')}`
    expect((await note(query)).slice(1, 3)).toEqual(lines)
    expect(await note(query)).toHaveLength(16)
    // A + may come as it is.
    expect((await note(`?witness=${honest[1]?.vkey}`))[1]).toBe(lines[1])
    const policy = path.join(folder, 'policy.txt')
    fs.writeFileSync(
      policy,
      [...honest.map(({ vkey }, at) => `witness w${at} ${vkey}`), 'group g all w0 w1', 'quorum g'].join('\n'),
    )
    const args = ['--policy', policy, '--pubkey', (await lastSigned()).pubkey ?? '']
    for (const verify of [verifyInNode, ...(python === undefined ? [] : [python.verify])])
      expect(
        readReport(
          await verify([
            service.url,
            ...['--json', '--state', path.join(folder, `${randomBytes(4).toString('hex')}.json`)],
            ...args,
          ]),
        ),
      ).toMatchObject({ code: 0, rests_on: { cosigned_by: ['w0', 'w1'] } })
    const trust = { stateFile: path.join(folder, 'policy.json'), policyFile: policy, pubkeys: args.slice(3) }
    const client = createClient({ baseUrl: service.url })
    expect(await judgeKey(client, alice.id, '21'.repeat(32), trust)).toEqual({ version: 1 })
    expect(await verifyReceipt({ client, recordId: bob.id, trust })).toMatchObject({ ok: true })
    expect((await service.call('GET', `/checkpoint?${'witness=w&'.repeat(31)}`)).json).toMatchObject({
      error: 'invalid_field',
      field: 'witness',
    })
  })

  it("proves an agent's keys, and that another has none", async () => {
    for (const agent of [alice, bob]) {
      const answer = await getJson<{
        keys: object | null
        proof: KeyProof
        entry: LedgerEntry
        tlog_proof: string
        up_to: number
      }>(`/keys/${agent.id}`)
      const { root } = answer.entry.data['keys'] as { root: string }
      const { index, path: way, checkpoint } = parseLogProof(answer.tlog_proof)
      const leaf = Buffer.from(leafHash(answer.entry), 'hex')
      expect(
        verifyLogInclusion({ leaf, index, path: way, ...parseCheckpoint(parseNote(checkpoint).text) }),
      ).toBe(true)
      expect(verifyKeyProof(agent.id, root, answer.proof)).toEqual({ ok: true, keys: answer.keys })
      expect(answer.up_to).toBe(sizes[1])
      expect(answer.keys).toEqual(
        agent === bob
          ? null
          : {
              agent_id: alice.id,
              dm_key: '21'.repeat(32),
              version: 1,
              entry_id: expect.any(Number) as number,
            },
      )
    }
  })

  it('proves that an agent which has revoked its key has none, once a seal is over the revocation', async () => {
    const body = { dm_key: null }
    expect((await service.call('POST', '/profile', { token: alice.token, body })).status).toBe(200)
    await sealAgain()
    await sealAgain()
    const answer = await getJson<{
      keys: object
      form: number
      proof: KeyProof
      entry: LedgerEntry
    }>(`/keys/${alice.id}`)
    expect(answer).toMatchObject({ form: 2, entry: { data: { keys: { v: 2 } } } })
    expect(answer.keys).toEqual({
      agent_id: alice.id,
      version: 2,
      entry_id: expect.any(Number) as number,
    })
    const { root } = answer.entry.data['keys'] as { root: string }
    expect(verifyKeyProof(alice.id, root, answer.proof)).toEqual({ ok: true, keys: answer.keys })
    const { exitCode, text } = await check([
      service.url,
      ...['--state', path.join(folder, 'reader.json'), '--pubkey', (await lastSigned()).pubkey ?? ''],
    ])
    expect(exitCode, text).toBe(0)
  })
})
