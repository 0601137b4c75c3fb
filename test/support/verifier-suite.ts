import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { reportIn, type StartedVerifier } from './both-verifiers.ts'
import { VECTOR_NAME, VECTORS_DIR } from './generate-vectors.ts'
import {
  buildChain,
  leaveUnsigned,
  makeEntry,
  openingOf,
  OTHER_SEAL_KEY,
  receiptOver,
  SEAL_KEY,
  sealOver,
  serveChain,
  sign,
  type LedgerChain,
  type LedgerServer,
} from './ledger-chain.ts'
import { reasonsOf, reportOf, runVerifier, type VerifierCommand } from './run-verifier.ts'
import { FULL } from './full.ts'

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const OTHER_PUBKEY = keyToHex(ed25519PublicKey(OTHER_SEAL_KEY))

const ANY_AGE = ['--max-age', '999999999']

const SEAL_COUNT = FULL ? 200 : 40
/** Sizes of seals: odd and even, powers of two and their neighbours. */
const MANY = Array.from({ length: SEAL_COUNT }, (_, index) => 1 + ((index * index) % 18))
const ENTRY_COUNT = MANY.reduce((sum, size) => sum + size, 0)

function changeEntry(entries: readonly LedgerEntry[], id: number): LedgerEntry[] {
  return entries.map((entry) => (entry.id === id ? { ...makeEntry(id), kind: 'rewritten' } : entry))
}

/** The chain as a server would make it that rewrites entry `id` and signs everything anew. */
const rewrite = (sizes: readonly number[], id: number): LedgerChain =>
  buildChain(sizes, 0, { entry: (own) => (own === id ? { ...makeEntry(id), kind: 'rewritten' } : undefined) })

function unsign(chain: LedgerChain, seqs: readonly number[]): LedgerChain {
  return {
    ...chain,
    seals: chain.seals.map((seal) => (seqs.includes(seal.seq) ? leaveUnsigned(seal) : seal)),
  }
}

async function vectorsIn(kind: 'valid' | 'invalid') {
  const names = (await readdir(join(VECTORS_DIR, kind))).filter((name) => VECTOR_NAME.test(name))
  return names.map((name) => {
    const text = readFileSync(join(VECTORS_DIR, kind, name), 'utf8')
    return { name, vector: JSON.parse(text) as { reason?: string } }
  })
}

/**
 * The behaviour that every verifier has in common. `command` starts it as a program, whose start costs more
 * than most checks: `start` gives a way to run many checks in one process. A title that may be skipped says
 * why.
 */
export function describeVerifier(
  title: string,
  command: VerifierCommand,
  start: () => StartedVerifier,
  isAvailable = true,
): void {
  describe.skipIf(!isAvailable)(title, () => {
    let folder: string
    let started: StartedVerifier
    const servers: LedgerServer[] = []

    beforeAll(() => {
      started = start()
    })
    afterAll(() => started?.stop())

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'seal-verify-'))
    })

    afterEach(async () => {
      await Promise.all(servers.splice(0).map((server) => server.close()))
      await rm(folder, { recursive: true })
    })

    async function serve(chain: LedgerChain, pageSize?: number): Promise<LedgerServer> {
      const server = await serveChain(chain, pageSize)
      servers.push(server)
      return server
    }

    /** As a reader to whom no head is too old: these chains are. */
    const report = (...args: string[]) => reportIn(folder, started.verify, [...ANY_AGE, ...args])
    /** The same of the program, with a stack of its own. */
    const reportOfProgram = (...args: string[]) => reportOf(command, [...ANY_AGE, ...args], folder)
    const pinned = (...args: string[]) => report(...args, '--pubkey', PUBKEY)

    async function saveJson(value: unknown, fileName = 'file.json'): Promise<string> {
      await writeFile(join(folder, fileName), JSON.stringify(value))
      return fileName
    }

    it('accepts every valid vector', async () => {
      for (const { name, vector } of await vectorsIn('valid'))
        expect((await started.runVector(vector)).findings, name).toEqual([])
    })

    it('refuses every invalid vector with its reason and no other', async () => {
      for (const { name, vector } of await vectorsIn('invalid'))
        expect(reasonsOf(await started.runVector(vector)), name).toEqual([vector.reason])
    })

    it('walks many seals and every entry of a service', async () => {
      const { url } = await serve(buildChain(MANY, 7))
      expect(await pinned(url)).toMatchObject({
        code: 0,
        ok: true,
        binding: true,
        seals: SEAL_COUNT,
        signed: SEAL_COUNT,
        entries_sealed: ENTRY_COUNT,
        entries_waiting: 7,
        pubkeys: [PUBKEY],
        key_trust: 'pinned',
        findings: [],
        head: { seq: SEAL_COUNT },
      })
    })

    it('walks them in pages of any size', async () => {
      const server = await serve(buildChain(MANY, 3), 13)
      expect(await pinned(server.url)).toMatchObject({
        code: 0,
        seals: SEAL_COUNT,
        entries_sealed: ENTRY_COUNT,
        entries_waiting: 3,
      })
      expect(server.requests.filter((path) => path.startsWith('/seal?'))).toHaveLength(
        Math.ceil(SEAL_COUNT / 13) + 1,
      )
    })

    it('reads each page of the ledger once', async () => {
      const server = await serve(buildChain(MANY), 100)
      await report(server.url)
      const pages = server.requests.filter((path) => path.startsWith('/api/v1/ledger?'))
      expect(new Set(pages).size).toBe(Math.ceil(ENTRY_COUNT / 100) + 1)
      expect(pages).toHaveLength(Math.ceil(ENTRY_COUNT / 100) + 1)
    })

    it('says a plain verdict on its last line', async () => {
      const server = await serve(buildChain([2, 3], 1))
      const good = await runVerifier(command, [server.url, ...ANY_AGE, '--pubkey', PUBKEY], folder)
      expect(good.code).toBe(0)
      expect(good.stdout.trimEnd().split('\n').at(-1)).toBe('GOOD: the whole chain holds')
      server.chain = { ...server.chain, entries: changeEntry(server.chain.entries, 4) }
      const bad = await runVerifier(command, [server.url, '--full'], folder)
      expect(bad.code).toBe(1)
      expect(bad.stdout).toMatch(/^wrong_root at seal 2: /m)
      expect(bad.stdout.trimEnd().split('\n').at(-1)).toBe('BAD: 1 finding')
    })

    it('reports unsigned seals and waiting entries without calling them faults, and unsigned seals bind nobody', async () => {
      const { url } = await serve(unsign(buildChain([2, 3, 1], 4), [2, 3]))
      expect(await pinned(url)).toMatchObject({
        code: 3,
        binding: false,
        not_binding: [{ reason: 'unsigned' }],
        signed: 1,
        unsigned_seqs: [2, 3],
        entries_sealed: 6,
        entries_waiting: 4,
        head: { seq: 1 },
      })
    })

    it('finds a changed entry in one seal of many', async () => {
      const chain = buildChain(MANY)
      const changed = Math.ceil(ENTRY_COUNT / 2)
      const { url } = await serve({ ...chain, entries: changeEntry(chain.entries, changed) })
      const found = await report(url)
      expect(found).toMatchObject({ code: 1, ok: false, findings_total: 1 })
      expect(found.findings).toMatchObject([
        { reason: 'wrong_root', where: `seal ${chain.seals.find(({ to_id }) => to_id >= changed)?.seq}` },
      ])
    })

    it('goes on after a fault and finds the next', async () => {
      const chain = buildChain([3, 3, 3, 3])
      const seals = chain.seals.map((seal) =>
        seal.seq === 2 ? { ...seal, signature: chain.seals[0]?.signature } : seal,
      )
      const { url } = await serve({
        seals: seals as Seal[],
        entries: changeEntry(chain.entries, 12).filter(({ id }) => id !== 7),
      })
      expect((await report(url)).findings?.map(({ reason, where }) => `${reason} ${where}`)).toEqual([
        'bad_signature seal 2',
        'entry_gap entry 7',
        'wrong_root seal 4',
      ])
    })

    it('remembers the head and accepts a chain that only grew', async () => {
      const server = await serve(buildChain([2, 3]))
      expect(await report(server.url)).toMatchObject({
        code: 3,
        remembered_seq: null,
        not_binding: [{ reason: 'key_unknown' }],
      })
      server.chain = buildChain([2, 3, 4], 1)
      expect(await report(server.url)).toMatchObject({
        code: 0,
        remembered_seq: 2,
        key_trust: 'remembered',
        head: { seq: 3 },
      })
      expect(await report(server.url)).toMatchObject({ code: 0, remembered_seq: 3 })
    })

    it('says that history was rewritten since, though the new chain is whole', async () => {
      const server = await serve(buildChain([2, 3, 2]))
      await report(server.url)
      const before = await readFile(join(folder, '.seal-verify.json'), 'utf8')
      server.chain = rewrite([2, 3, 2], 1)
      const found = await report(server.url)
      expect(found).toMatchObject({ code: 1, findings: [{ reason: 'history_rewritten', where: 'seal 3' }] })
      expect(await readFile(join(folder, '.seal-verify.json'), 'utf8')).toBe(before)
      expect(await report(server.url, '--state', 'elsewhere.json')).toMatchObject({ code: 3 })
    })

    it('says that the chain is shorter than it was', async () => {
      const server = await serve(buildChain([2, 3, 2]))
      await report(server.url)
      server.chain = buildChain([2, 3], 2)
      expect(await report(server.url)).toMatchObject({ code: 1, findings: [{ reason: 'chain_shortened' }] })
    })

    it('takes no other key than the remembered one until the user accepts it', async () => {
      const server = await serve(buildChain([2, 3]))
      await report(server.url)
      const { entries, seals } = buildChain([2, 3, 2])
      server.chain = {
        entries,
        seals: seals.map((seal) => (seal.seq === 3 ? sign(seal, OTHER_SEAL_KEY) : seal)),
      }
      expect(reasonsOf(await report(server.url))).toEqual(['key_changed'])
      expect(reasonsOf(await report(server.url, '--pubkey', OTHER_PUBKEY))).toEqual(['wrong_key'])
      expect(await report(server.url, '--pubkey', PUBKEY, '--pubkey', OTHER_PUBKEY)).toMatchObject({
        code: 0,
        key_trust: 'pinned',
      })
      expect(await report(server.url)).toMatchObject({
        code: 0,
        key_trust: 'remembered',
        pubkeys: [PUBKEY, OTHER_PUBKEY],
      })
    })

    it('keeps the heads of two services apart, and knows one service by any spelling', async () => {
      const [first, second] = [
        await serve(buildChain([2, 3])),
        await serve(buildChain([4], 0, { secretKey: OTHER_SEAL_KEY })),
      ]
      expect(await report(first.url)).toMatchObject({ code: 3, remembered_seq: null })
      expect(await report(second.url)).toMatchObject({ code: 3, remembered_seq: null })
      expect(await report(`${first.url.replace('http', 'HTTP')}/api/v1/`)).toMatchObject({
        code: 0,
        remembered_seq: 2,
      })
      const state = JSON.parse(await readFile(join(folder, '.seal-verify.json'), 'utf8')) as Record<
        string,
        unknown
      >
      expect(Object.keys(state)).toEqual([first.url, second.url])
    })

    it('verifies a dump as it does the service', async () => {
      const odd = makeEntry(4, { agent_id: 'agt_\u2028\u{1f600}', amount: 1.5 })
      const server = await serve(
        buildChain(MANY.slice(0, 30), 2, { entry: (id) => (id === 4 ? odd : undefined) }),
        17,
      )
      const online = await pinned(server.url)
      const { code, ...offline } = await pinned(await saveJson(server.chain, 'dump.json'))
      expect(code).toBe(0)
      expect(offline).toMatchObject({
        kind: 'chain',
        seals: 30,
        entries_sealed: online.entries_sealed,
        entries_waiting: 2,
        head: online.head,
      })
    })

    it('refuses a dump that was changed, and one cut off', async () => {
      const dump = JSON.stringify(buildChain([3, 4]))
      const changed = dump.replace(/("id":5,[^}]*"kind":)"post"/, '$1"Post"')
      expect(changed).not.toBe(dump)
      await writeFile(join(folder, 'changed.json'), changed)
      expect(await report('changed.json')).toMatchObject({
        code: 1,
        findings: [{ reason: 'wrong_root', where: 'seal 2' }],
      })
      await writeFile(join(folder, 'cut.json'), dump.slice(0, dump.lastIndexOf(']}')))
      expect(await report('cut.json')).toMatchObject({ code: 2, error: 'usage' })
    })

    it('verifies a dump in any other layout', async () => {
      const file = await saveJson({
        seals: buildChain([3, 4]).seals,
        entries: buildChain([3, 4]).entries,
        saved_at: 1,
      })
      expect(await pinned(file)).toMatchObject({ code: 0, kind: 'chain', seals: 2 })
      expect(await report(file, '--pubkey', OTHER_PUBKEY)).toMatchObject({
        code: 1,
        findings: [{ reason: 'wrong_key' }],
      })
    })

    it('verifies a receipt offline, with its openings', async () => {
      const chain = buildChain([5, 6], 1)
      const file = await saveJson({ ...receiptOver(chain, 'pst_7', [7]), openings: [openingOf(7)] })
      expect(await report(file)).toMatchObject({
        code: 3,
        kind: 'receipt',
        entries_sealed: 1,
        openings: 1,
        pubkeys: [PUBKEY],
        key_trust: 'first_seen',
      })
      expect(await pinned(file)).toMatchObject({ code: 0, key_trust: 'pinned' })
      const waiting = await saveJson(receiptOver(chain, 'pst_12', [12]), 'waiting.json')
      expect(await pinned(waiting)).toMatchObject({
        code: 3,
        binding: false,
        entries_sealed: 0,
        entries_waiting: 1,
      })
    })

    it('ends with a finding, or exit 2, on JSON that is too deep or too long for a call', async () => {
      const chain = buildChain([3])
      const deep = '['.repeat(200_000) + ']'.repeat(200_000)
      const entry = JSON.stringify(chain.entries[1])
      const receipt = JSON.stringify(receiptOver(chain, 'pst_2', [2]))
      const names = FULL ? ['leaf', 'index', 'seq', 'path', 'seal'] : ['path']
      const parts = names.map((part): [string, string] => [`"${part}":`, `"${part}":${deep},"_":`])
      for (const [part, hostile] of [
        ['"id":2,', `"id":${deep},`],
        ['"body":', `"body":${deep},"_":`],
        ...parts,
      ] as const) {
        await writeFile(join(folder, 'deep.json'), receipt.replace(part, hostile))
        expect(await reportOfProgram('deep.json')).toMatchObject({ ok: false })
      }
      const long = {
        ...makeEntry(1, { list: Array.from({ length: 300_000 }, (_, index) => index) }),
        kind: 'newer',
      }
      const unnamed = await saveJson(
        receiptOver({ entries: [long], seals: [sign(sealOver([long], null))] }, 'pst_1', [1]),
      )
      expect(reasonsOf(await reportOfProgram(unnamed))).toEqual(['wrong_record'])

      const server = createServer((request, response) => {
        const isSeals = request.url?.startsWith('/seal?after_seq=0') === true
        const isEntries = request.url?.includes('from_id=1&') === true
        response
          .writeHead(200)
          .end(
            request.url?.startsWith('/seal') === true
              ? JSON.stringify({ seals: isSeals ? chain.seals : [] })
              : `{"entries":[${isEntries ? entry.replace('"body":', `"body":${deep},"_":`).replace('"id":2', '"id":1') : ''}]}`,
          )
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      expect(await reportOfProgram(url)).toMatchObject({ ok: false })
      await new Promise((resolve) => server.close(resolve))
    })

    it("says exit 2 when the service can't be reached or isn't one", async () => {
      const server = await serve(buildChain([1]))
      expect(await report(`${server.url}/elsewhere`)).toMatchObject({ code: 2, error: 'unreachable' })
      servers.pop()
      await server.close()
      expect(await report(server.url)).toMatchObject({ code: 2, error: 'unreachable' })
      const stranger = createServer((_, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true,"seals":7}'),
      )
      await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve))
      expect(await report(`http://127.0.0.1:${(stranger.address() as AddressInfo).port}`)).toMatchObject({
        code: 2,
        error: 'unreachable',
      })
      await new Promise((resolve) => stranger.close(resolve))
    })

    it('asks again after a passing failure of the service', async () => {
      const chain = buildChain([2])
      let failures = 1
      const flaky = createServer((request, response) => {
        if (failures-- > 0) return void response.writeHead(503).end('{}')
        const isSeal = request.url?.startsWith('/seal') === true
        const isFirst =
          request.url?.includes('after_seq=0') === true || request.url?.includes('from_id=1&') === true
        response
          .writeHead(200)
          .end(
            JSON.stringify(
              isSeal ? { seals: isFirst ? chain.seals : [] } : { entries: isFirst ? chain.entries : [] },
            ),
          )
      })
      await new Promise<void>((resolve) => flaky.listen(0, '127.0.0.1', resolve))
      expect(await pinned(`http://127.0.0.1:${(flaky.address() as AddressInfo).port}`)).toMatchObject({
        code: 0,
        seals: 1,
      })
      await new Promise((resolve) => flaky.close(resolve))
    })

    it('says exit 2 for arguments and files that make no sense', async () => {
      await writeFile(join(folder, 'broken.json'), '{"seals":')
      await saveJson({ hello: 1 }, 'other.json')
      const good = await saveJson(buildChain([1]), 'good.json')
      expect(await pinned(good)).toMatchObject({ code: 0 })
      const wrong = [
        [],
        [good, good],
        [good, '--pubkey', PUBKEY.toUpperCase()],
        [good, '--unknown'],
        ['missing.json'],
        ['broken.json'],
        ['other.json'],
        ['http://'],
      ]
      for (const args of wrong)
        expect(await report(...args)).toMatchObject({ code: 2, ok: false, error: 'usage' })
    })

    it("says exit 2 for a state file that isn't its own, and leaves it alone", async () => {
      const { url } = await serve(buildChain([1]))
      for (const content of ['not json', '[]', '{"x":{"seq":"1"}}']) {
        await writeFile(join(folder, 'state.json'), content)
        expect(await report(url, '--state', 'state.json')).toMatchObject({ code: 2, error: 'usage' })
        expect(await readFile(join(folder, 'state.json'), 'utf8')).toBe(content)
      }
    })

    it('takes a service without seals, and nothing is remembered of it', async () => {
      const { url } = await serve(buildChain([], 2))
      expect(await report(url)).toMatchObject({ code: 3, seals: 0, entries_waiting: 2, head: null })
      expect(await readdir(folder)).toEqual([])
    })

    it('ends with a service that gives the same page of seals for ever', async () => {
      const chain = buildChain([1, 1])
      const stuck = createServer((request, response) => {
        response
          .writeHead(200)
          .end(
            JSON.stringify(
              request.url?.startsWith('/seal') === true
                ? { seals: chain.seals }
                : { entries: request.url?.includes('from_id=1&') === true ? chain.entries : [] },
            ),
          )
      })
      await new Promise<void>((resolve) => stuck.listen(0, '127.0.0.1', resolve))
      const found = await report(`http://127.0.0.1:${(stuck.address() as AddressInfo).port}`)
      expect(found.code).toBe(1)
      expect(reasonsOf(found)).toContain('seq_gap')
      await new Promise((resolve) => stuck.close(resolve))
    })
  })
}
