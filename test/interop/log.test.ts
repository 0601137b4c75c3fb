import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { newAuthorKeyPair } from '../../client/author-signatures.ts'
import { NOTHING_SEEN, signStatement, statementOf } from '../../shared/crypto/author.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import {
  buildChain,
  makeEntry,
  OTHER_SEAL_KEY,
  SEAL_KEY,
  serveChain,
  statedBefore,
  type ChainOptions,
  type LedgerChain,
  type LedgerServer,
} from '../support/ledger-chain.ts'
import { cosign, LOG_VKEY, POLICY, withCosignatures, WRONG_POLICIES } from '../support/log-policies.ts'
import { consistencyOf, noteOf, receiptInLog } from '../support/log-proofs.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/* The log and the keys that closing entries state, for a reader who comes back. */

/** Every fourth entry changes the message key of one of five agents. */
const entry = (id: number) =>
  id % 4 === 0
    ? {
        ...makeEntry(id, { agent_id: `agt_${(id / 4) % 5}`, dm_key: String(id % 10).repeat(64) }),
        kind: 'dm_key_change',
      }
    : undefined
const chainOf = (sizes: number[], options: ChainOptions = {}) =>
  buildChain(sizes, 1, { loggedFrom: 1, entry, ...options })
const SIZES = [7, 3, 6, 2, 9]

const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
afterAll(() => python?.stop())
const verifiers: [string, Verify][] = [
  ['node', verifyInNode],
  ...(python === undefined ? [] : [['python', python.verify] as [string, Verify]]),
]

describe.each(verifiers)('seal_verify in %s', (_name, verify) => {
  let folder: string
  let server: LedgerServer
  beforeAll(async () => {
    server = await serveChain(chainOf([]))
  })
  afterAll(() => server.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'log-'))
    return () => rmSync(folder, { recursive: true })
  })
  const state = () => join(folder, 'state.json')
  const check = async (...args: string[]) =>
    readReport(
      await verify([server.url, '--state', state(), '--max-age', String(2 ** 40), '--json', ...args]),
    )

  it('goes on from any seal to the same log and keys as a check of everything, with one hash for each bit of the size', async () => {
    const whole = chainOf(SIZES)
    for (const seals of SIZES.keys()) {
      server.chain = chainOf(SIZES.slice(0, seals + 1))
      const went = await check()
      expect(went.findings, JSON.stringify(went.findings)).toEqual([])
      const size = server.chain.seals.at(-1)?.to_id ?? 0
      expect(went).toMatchObject({ log: { size, root: statedBefore(whole.entries.slice(0, size)).log.root } })
      const kept = JSON.parse(readFileSync(state(), 'utf8'))[server.url].log
      expect([kept.size, kept.frontier.length]).toEqual([size, size.toString(2).replaceAll('0', '').length])
    }
    const full = await check('--full')
    expect(full).toMatchObject({
      code: 0,
      keys: { ...statedBefore(whole.entries.slice(0, 27)).keys, recomputed: true },
    })
  })

  it('finds a log or keys that the entries do not give, where it goes on', async () => {
    const grown = chainOf(SIZES)
    for (const [word, change] of [
      [
        'wrong_log',
        (stated: ReturnType<typeof statedBefore>) => ({
          ...stated,
          log: { ...stated.log, root: '0'.repeat(64) },
        }),
      ],
      [
        'wrong_keys',
        (stated: ReturnType<typeof statedBefore>) => ({
          ...stated,
          keys: { ...stated.keys, root: '0'.repeat(64) },
        }),
      ],
    ] as const) {
      rmSync(state(), { force: true })
      server.chain = chainOf(SIZES.slice(0, 4))
      expect((await check()).words).toEqual(['key_unknown'])
      server.chain = chainOf(SIZES, { stated: (seq, before) => (seq === 5 ? change(before) : before) })
      expect(server.chain.seals.slice(0, 4)).toEqual(grown.seals.slice(0, 4))
      expect(await check()).toMatchObject({ code: 1, words: [word] })
    }
  })
})

describe.each(verifiers)('revoked keys in %s', (_name, verify) => {
  let folder: string
  let server: LedgerServer
  beforeAll(async () => {
    server = await serveChain(chainOf([]))
  })
  afterAll(() => server.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'log-'))
    return () => rmSync(folder, { recursive: true })
  })
  const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
  const check = async (chain: LedgerChain, ...args: string[]) => {
    server.chain = chain
    const state = join(folder, 'state.json')
    const common = ['--state', state, '--max-age', String(2 ** 40), '--pubkey', PUBKEY, '--json']
    return readReport(await verify([server.url, ...common, ...args]))
  }
  const change = (id: number, kind: string, data: LedgerEntry['data']) => ({ ...makeEntry(id, data), kind })
  /** agt_1 revokes by entry 9 the key that it set by entry 4. Closing entries state the keys in these forms. */
  const revoking = (forms: (1 | 2)[], state: typeof statedBefore = statedBefore): LedgerChain => {
    const entries = chainOf(SIZES, { entry: revocation }).entries
    return chainOf(SIZES.slice(0, forms.length), {
      entry: revocation,
      stated: (seq, before) => {
        // The entries so far are those of this chain, whose closing entries state other keys.
        const changes = entries.slice(0, before.log.size)
        return { ...before, keys: state(changes, forms[seq - 1]).keys }
      },
    })
  }
  const revocation = (id: number) =>
    id === 9 ? change(id, 'dm_key_change', { agent_id: 'agt_1', dm_key: null }) : entry(id)

  it('are gone from the first closing entry on that states so, and stay before it', async () => {
    for (const forms of [
      [1, 1, 2, 2, 2],
      [1, 1, 1, 1, 2],
      [1, 1, 1, 1, 1],
      [2, 2, 2, 2, 2],
    ] as (1 | 2)[][]) {
      rmSync(join(folder, 'state.json'), { force: true })
      for (const seals of forms.keys())
        expect(await check(revoking(forms.slice(0, seals + 1))), String(forms)).toMatchObject({ code: 0 })
      const whole = revoking(forms)
      const { keys } = statedBefore(whole.entries, forms[4])
      expect(await check(whole, '--full')).toMatchObject({
        code: 0,
        keys: { root: keys.root, count: keys.count, recomputed: true },
      })
    }
  })

  it('cannot be had back by a closing entry in the older form, whether it is read at once or later', async () => {
    const [good, back] = [revoking([1, 1, 2, 2]), revoking([1, 1, 2, 2, 1])]
    expect(await check(back)).toMatchObject({ code: 1, words: ['wrong_keys'] })
    expect(await check(good)).toMatchObject({ code: 0 })
    expect(await check(back)).toMatchObject({ code: 1, words: ['wrong_keys'] })
  })

  it('are stated by the root of the form that is named, and in no form that is not known', async () => {
    const rootOf =
      (form: 1 | 2): typeof statedBefore =>
      (entries, named) => {
        const { keys, log } = statedBefore(entries, form)
        const { root, count } = keys
        return { log, keys: { root, count, ...(named === 2 ? { v: 2 as const } : {}) } }
      }
    for (const [forms, of] of [
      [[1, 1, 2], 1],
      [[1, 1, 1], 2],
    ] as [(1 | 2)[], 1 | 2][])
      expect(await check(revoking(forms, rootOf(of)))).toMatchObject({ code: 1, words: ['wrong_keys'] })
    for (const v of [0, 3, null, '2', true]) {
      const stated = (entries: readonly LedgerEntry[]) => {
        const { log, keys } = statedBefore(entries, 2)
        return { log, keys: { ...keys, v } } as ReturnType<typeof statedBefore>
      }
      expect(await check(revoking([2, 2, 2], stated)), String(v)).toMatchObject({
        code: 1,
        words: ['wrong_keys'],
      })
    }
  })

  it('of an author must be revoked by its own signature, and then ask for none', async () => {
    const { author_secret_key: secret, author_public_key: author_key } = newAuthorKeyPair()
    const signed = (data: Record<string, string | null>) => {
      const statement = statementOf('agt_1', 'author_key_change', data, NOTHING_SEEN)
      return {
        author: { author_key, seen: { ...NOTHING_SEEN }, signature: signStatement(statement, secret) },
      }
    }
    const history = (revoked: object): LedgerChain => {
      const changes = new Map<number, LedgerEntry>([
        [2, change(2, 'author_key_change', { agent_id: 'agt_1', author_key })],
        [
          3,
          change(3, 'author_key_change', {
            agent_id: 'agt_1',
            author_key: null,
            ...revoked,
          }),
        ],
        [5, change(5, 'dm_key_change', { agent_id: 'agt_1', dm_key: '1'.repeat(64) })],
      ])
      return buildChain([6, 4], 0, {
        loggedFrom: 1,
        entry: (id) => changes.get(id),
        stated: (seq, before) =>
          seq === 1 ? before : { ...before, keys: statedBefore([...changes.values()], 2).keys },
      })
    }
    expect(await check(history(signed({ author_key: null })))).toMatchObject({ code: 0 })
    rmSync(join(folder, 'state.json'))
    expect(await check(history({}))).toMatchObject({ code: 1, words: ['wrong_author'] })
    expect(await check(history(signed({ author_key: '2'.repeat(64) })))).toMatchObject({
      code: 1,
      words: ['wrong_author'],
    })
  })
})

/** A vkey of any type, with a key of this many bytes. */
function vkeyOfType(type: number, name: string, bytes: number): string {
  const key = Buffer.concat([Buffer.of(type), Buffer.alloc(bytes, 7)])
  const id = createHash('sha256').update(`${name}\n`).update(key).digest('hex').slice(0, 8)
  return `${name}+${id}+${key.toString('base64')}`
}

/** Two histories of one log: the same up to seal `forkedAt`, another entry in the seal after it. */
const forkOf = (sizes: number[], forkedAt: number) => {
  const from = sizes.slice(0, forkedAt).reduce((sum, size) => sum + size, 0)
  return chainOf(sizes, {
    entry: (id) => (id === from + 1 ? makeEntry(id, { post_id: 'pst_x', agent_id: 'agt_x' }) : entry(id)),
  })
}

describe.each(verifiers)('the log in %s', (_name, verify) => {
  let folder: string
  let server: LedgerServer
  beforeAll(async () => {
    server = await serveChain(chainOf([]))
  })
  afterAll(() => server.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'log-'))
    server.note = undefined
    server.consistency = consistencyOf
    return () => rmSync(folder, { recursive: true })
  })
  const file = (name: string, content: unknown) => {
    writeFileSync(join(folder, name), JSON.stringify(content))
    return join(folder, name)
  }
  const run = async (...args: string[]) =>
    readReport(await verify([...args, '--state', join(folder, 'state.json'), '--json']))
  /** What a reader of this chain remembers. */
  const see = async (chain: LedgerChain, note = noteOf(chain)) => {
    Object.assign(server, { chain, note })
    return run(server.url, '--max-age', String(2 ** 40))
  }
  const receipt = (chain: LedgerChain, note?: string) =>
    file('receipt.json', receiptInLog(chain, 'pst_2', [2], note))
  const proof = (chain: LedgerChain, from: number, to: number) =>
    file('proof.json', consistencyOf(chain, from, to))

  it('agrees with the checkpoint of a service, at its head or beyond it, and refuses any other', async () => {
    const whole = chainOf(SIZES)
    const upTo = (seals: number) => ({ ...whole, seals: whole.seals.slice(0, seals) })
    expect(await see(upTo(3))).toMatchObject({ code: 3, checkpoint: { size: 16 } })
    expect(await see(upTo(4), noteOf(whole))).toMatchObject({ code: 0, checkpoint: { size: 27 } })
    const fork = forkOf(SIZES, 4)
    for (const [note, word] of [
      [noteOf(fork), 'log_rewritten'],
      [noteOf(whole, { key: OTHER_SEAL_KEY }), 'wrong_checkpoint'],
      [noteOf(whole).replace('test.example', 'text.example'), 'wrong_checkpoint'],
      ['no note', 'wrong_checkpoint'],
      [`${noteOf(whole).split('\n\n')[0]}\n\n`, 'wrong_checkpoint'],
    ] as const)
      expect(await see(whole, note), note).toMatchObject({ code: 1, words: [word] })
  })

  it('proves a receipt from a remembered head with one inclusion and one consistency proof, and starts from there next time', async () => {
    const whole = chainOf(SIZES)
    const seen = { ...whole, seals: whole.seals.slice(0, 2) }
    await see(seen)
    expect(await run(receipt(seen))).toMatchObject({ code: 0, log: { size: 10, connected: 'same' } })
    expect(await run(receipt(whole))).toMatchObject({ code: 0, log: { size: 27, connected: 'not_checked' } })
    const service = ['--service', server.url]
    expect(await run(receipt(whole), ...service, '--consistency', proof(whole, 10, 27))).toMatchObject({
      code: 0,
      log: { connected: 'consistent' },
    })
    expect(await run(receipt(whole), ...service)).toMatchObject({ code: 0, log: { connected: 'same' } })
    expect(await see(whole)).toMatchObject({ code: 0 })
    expect(await see(chainOf([...SIZES, 3]))).toMatchObject({ code: 0, checkpoint: { size: 30 } })
  })

  it('refuses a place in the log that the proof does not show', async () => {
    const whole = chainOf(SIZES)
    await see(whole)
    const good = receiptInLog(whole, 'pst_2', [2])
    const [item] = good.entries
    const text = item?.tlog_proof ?? ''
    for (const [wrong, word] of [
      [text.replace('index 1', 'index 2'), 'wrong_log_proof'],
      [text.replace(/\n[^\n]+\n\n/, '\n\n'), 'wrong_log_proof'],
      [text.replace('tlog-proof@v1', 'tlog-proof@v2'), 'wrong_log_proof'],
      [receiptInLog(forkOf(SIZES, 0), 'pst_2', [2]).entries[0]?.tlog_proof, 'log_rewritten'],
      [
        receiptInLog(whole, 'pst_2', [2], noteOf(whole, { key: OTHER_SEAL_KEY })).entries[0]?.tlog_proof,
        'wrong_checkpoint',
      ],
      [7, 'wrong_log_proof'],
    ] as const)
      expect(
        await run(file('wrong.json', { ...good, entries: [{ ...item, tlog_proof: wrong }] })),
        String(wrong),
      ).toMatchObject({
        code: 1,
        words: [word],
      })
  })

  it('makes of two signed logs that contradict each other a file that convinces a third reader offline', async () => {
    const whole = chainOf(SIZES)
    const fork = forkOf(SIZES, 1)
    const forked = (seals: number) => ({ ...fork, seals: fork.seals.slice(0, seals) })
    const pubkey = keyToHex(ed25519PublicKey(SEAL_KEY))
    for (const [shown, args] of [
      [fork, []],
      [forked(4), ['--consistency', proof(whole, 18, 27)]],
      [
        forkOf([...SIZES, 4], 1),
        ['--consistency', file('longer.json', consistencyOf(forkOf([...SIZES, 4], 1), 27, 31))],
      ],
    ] as const) {
      rmSync(join(folder, 'state.json'), { force: true })
      await see(whole)
      const receipt = { ...receiptInLog(shown, 'pst_2', [2]) }
      const found = await run(file('receipt.json', receipt), ...args)
      expect(found).toMatchObject({ code: 1, words: ['log_rewritten'] })
      rmSync(join(folder, 'state.json'))
      const evidence = found.evidence ?? ''
      expect(await run('--evidence', evidence, '--pubkey', pubkey)).toMatchObject({
        code: 0,
        verdict: 'good',
      })
      expect(await run('--evidence', evidence)).toMatchObject({ code: 3, words: ['key_unknown'] })
      const { notes, ...rest } = JSON.parse(readFileSync(evidence, 'utf8'))
      expect(
        await run(
          '--evidence',
          file('same.json', { ...rest, notes: [notes[1], notes[1]] }),
          '--pubkey',
          pubkey,
        ),
      ).toMatchObject({
        code: 1,
        words: ['no_contradiction'],
      })
    }
    const honest = { kind: 'log_fork', pubkey, notes: [noteOf(whole, { size: 18 }), noteOf(whole)] }
    const { from_root: root, hashes: path } = consistencyOf(whole, 18, 27)
    for (const consistency of [
      undefined,
      { root, path },
      { root: '0'.repeat(64), path },
      { root: '0'.repeat(64), path: [] },
    ])
      expect(
        await run('--evidence', file('honest.json', { ...honest, consistency }), '--pubkey', pubkey),
      ).toMatchObject({
        code: 1,
        words: ['no_contradiction'],
      })
  })

  const policyFile = (text: string) => {
    writeFileSync(join(folder, 'policy.txt'), text)
    return ['--policy', join(folder, 'policy.txt')]
  }
  const ANY_AGE = ['--max-age', String(2 ** 40)]
  const text = async (...args: string[]) =>
    (await verify([...args, '--state', join(folder, 'state.json')])).text.split('\n')

  it('says of each verdict what it rests on: a key, cosignatures that a policy names, and what was seen before', async () => {
    const whole = chainOf(SIZES)
    const first = { ...whole, seals: whole.seals.slice(0, 2) }
    expect(await see(first)).toMatchObject({
      rests_on: { key: 'first_seen', cosigned_by: [], quorum: null, seen_size: null },
    })
    const note = withCosignatures(noteOf(whole), 'Y3', 'X1', 'X2')
    Object.assign(server, { chain: whole, note })
    const cosigned = { key: 'pinned', cosigned_by: ['X1', 'X2', 'Y3'], quorum: 'X-and-Y' }
    expect(await run(server.url, '--max-age', String(2 ** 40), ...policyFile(POLICY))).toMatchObject({
      code: 0,
      rests_on: { ...cosigned, seen_size: 10 },
    })
    expect(await run(receipt(whole, note), ...policyFile(POLICY))).toMatchObject({
      code: 0,
      rests_on: { ...cosigned, seen_size: 27 },
    })
    writeFileSync(join(folder, 'note.txt'), note)
    expect(await run('--note', join(folder, 'note.txt'), ...policyFile(POLICY))).toMatchObject({
      code: 0,
      rests_on: { ...cosigned, seen_size: 27 },
    })
    expect(await text(receipt(whole, note), ...policyFile(POLICY))).toContain(
      'rests on: the pinned key, 3 cosignatures of X1, X2, Y3 (quorum X-and-Y) and what was seen here of the log of 27 entries',
    )
    rmSync(join(folder, 'state.json'))
    const pubkey = keyToHex(ed25519PublicKey(SEAL_KEY))
    expect(await text(receipt(whole, note), '--pubkey', pubkey)).toContain('rests on: the pinned key alone')
  })

  it('binds nobody to entries behind the checkpoint that is shown, however many have cosigned it', async () => {
    const fork = forkOf(SIZES, 2)
    const old = noteOf({ ...fork, seals: fork.seals.slice(0, 2) })
    const cosigned = withCosignatures(old, 'X1', 'X2', 'Y1')
    Object.assign(server, { chain: fork, note: cosigned })
    const found = await run(server.url, ...ANY_AGE, ...policyFile(POLICY))
    expect(found).toMatchObject({
      code: 3,
      words: ['not_cosigned_yet'],
      rests_on: { cosigned_by: ['X1', 'X2', 'Y1'], cosigned_size: 10, cosigned_at: 100 },
    })
    expect(found.not_binding?.[0]?.message).toContain('cosigned up to entry 10 of 27')
    const pubkey = keyToHex(ed25519PublicKey(SEAL_KEY))
    expect(await run(server.url, ...ANY_AGE, '--pubkey', pubkey)).toMatchObject({
      code: 3,
      words: ['not_cosigned_yet'],
    })
    server.note = withCosignatures(noteOf(fork), 'X1', 'X2', 'Y1')
    expect(await run(server.url, ...ANY_AGE, ...policyFile(POLICY))).toMatchObject({
      code: 0,
      rests_on: { cosigned_size: 27 },
    })
  })

  it('binds nobody to an entry of a receipt that stands under no checkpoint, beside one that does', async () => {
    const ids = [2, 3, 9]
    const whole = chainOf(SIZES, {
      entry: (id) => (ids.includes(id) ? { ...makeEntry(id, { of: 'new_1' }), kind: 'newer' } : entry(id)),
    })
    const note = withCosignatures(noteOf(whole), 'X1', 'X2', 'Y1')
    const { entries, ...rest } = receiptInLog(whole, 'new_1', ids, note)
    expect(await run(file('all.json', { ...rest, entries }), ...policyFile(POLICY))).toMatchObject({
      code: 0,
    })
    const [first, second, third] = entries
    const { tlog_proof: _, ...bare } = second ?? {}
    const partly = file('partly.json', { ...rest, entries: [first, bare, third] })
    const found = await run(partly, ...policyFile(POLICY))
    expect(found).toMatchObject({ code: 3, words: ['not_cosigned_yet'] })
    expect(found.not_binding?.[0]?.message).toContain('cosigned up to entry 2 of 9')
  })

  it('takes the age of what witnesses cosigned from the newest cosignature that counts, not from the seal', async () => {
    const now = Math.floor(Date.now() / 1000)
    const at = now - 1_000
    const fresh = chainOf(SIZES, { at: now - 4 * 600 })
    const stale = chainOf(SIZES)
    const signedBy = (chain: LedgerChain, ...times: [string, number][]) => {
      const note = noteOf(chain)
      const text = note.slice(0, note.indexOf('\n\n') + 1)
      return note + times.map(([name, time]) => `${cosign(text, name, time)}\n`).join('')
    }
    const all = (time: number) => ['X1', 'X2', 'Y1'].map((name): [string, number] => [name, time])
    const ofService = async (chain: LedgerChain, note: string, ...args: string[]) => {
      Object.assign(server, { chain, note })
      rmSync(join(folder, 'state.json'), { force: true })
      return run(server.url, ...policyFile(POLICY), ...args)
    }
    // The operator dates seals as it likes.
    expect(await ofService(fresh, signedBy(fresh, ...all(100)))).toMatchObject({ code: 3, words: ['stale'] })
    expect(await ofService(stale, signedBy(stale, ...all(at)))).toMatchObject({
      code: 0,
      rests_on: { cosigned_at: at },
    })
    expect(await ofService(stale, signedBy(stale, ...all(at)), '--max-age', '500')).toMatchObject({
      code: 3,
      words: ['stale'],
    })
    // Nobody's, and one that isn't of the policy's witnesses or isn't true, make nothing fresh.
    const forged = signedBy(fresh, ...all(100)) + `${cosign('another\n', 'Y1', now)}\n`
    expect(await ofService(fresh, forged)).toMatchObject({ code: 3, words: ['stale'] })
    // The future counts for nothing, nor does a time that no double can hold.
    for (const future of [now + 10_000, 2 ** 60])
      expect(await ofService(stale, signedBy(stale, ...all(future)))).toMatchObject({
        code: 3,
        words: ['quorum_not_met', 'stale'],
      })
    const receiptAt = (time: number) => receipt(stale, signedBy(stale, ...all(time)))
    expect(await run(receiptAt(at), ...policyFile(POLICY), '--max-age', '500')).toMatchObject({
      code: 3,
      words: ['stale'],
    })
    expect(await run(receiptAt(at), ...policyFile(POLICY), '--max-age', '5000')).toMatchObject({ code: 0 })
  })

  it('binds nobody to a log that ends before the one that was seen', async () => {
    const whole = chainOf(SIZES)
    const upTo = (seals: number) => ({ ...whole, seals: whole.seals.slice(0, seals) })
    await see(upTo(4), noteOf(whole))
    expect(await see(upTo(4), noteOf(upTo(4)))).toMatchObject({ code: 3, words: ['behind'] })
    expect(await see(whole)).toMatchObject({ code: 0 })
  })

  it('binds nobody without the cosignatures that the policy asks for', async () => {
    const whole = chainOf(SIZES)
    const note = noteOf(whole)
    const other = noteOf(whole, { size: 18 })
    const foreign = withCosignatures(other, 'Y1').split('\n').at(-2) ?? ''
    for (const shown of [
      note,
      withCosignatures(note, 'X1', 'Y1'),
      withCosignatures(note, 'X1', 'X1', 'Y1'),
      withCosignatures(note, 'X1', 'X2') + `${foreign}\n`,
    ])
      expect(await run(receipt(whole, shown), ...policyFile(POLICY)), shown).toMatchObject({
        code: 3,
        words: ['quorum_not_met'],
      })
    const cosigned = withCosignatures(note, 'X1', 'X2', 'Y1')
    expect(await run(receipt(whole, cosigned), ...policyFile(POLICY))).toMatchObject({ code: 0 })
    // An entry with no place in the log stands under no checkpoint.
    const { tlog_proof: _, ...item } = receiptInLog(whole, 'pst_2', [2]).entries[0] ?? {}
    const bare = file('bare.json', { ...receiptInLog(whole, 'pst_2', [2]), entries: [item] })
    expect(await run(bare, ...policyFile(POLICY))).toMatchObject({ code: 3, words: ['quorum_not_met'] })
    const renamed = withCosignatures(noteOf(whole, { origin: 'other.example/log' }), 'X1', 'X2', 'Y1')
    expect(await run(receipt(whole, renamed), ...policyFile(POLICY))).toMatchObject({
      code: 3,
      words: ['other_log'],
    })
    await see(whole, note)
    expect(await run(server.url, '--max-age', String(2 ** 40), ...policyFile(POLICY))).toMatchObject({
      code: 3,
      words: ['quorum_not_met'],
    })
    const open = POLICY.replace(/quorum .*/, 'quorum none')
    expect(await run(server.url, '--max-age', String(2 ** 40), ...policyFile(open))).toMatchObject({
      code: 0,
      rests_on: { key: 'pinned', cosigned_by: [], quorum: 'none', seen_size: 27 },
    })
  })

  it('takes a policy with keys of a newer kind, by which nothing is signed', async () => {
    const whole = chainOf(SIZES)
    const note = withCosignatures(noteOf(whole), 'X1', 'X2', 'Y1')
    const newer = vkeyOfType(0x06, 'newer.example', 1_312)
    const [, first = ''] = /(witness X1 .*)/.exec(POLICY) ?? []
    const withNewer = (group: string) =>
      [`log ${LOG_VKEY}`, first, `witness N ${newer}`, `group g ${group} X1 N`, 'quorum g'].join('\n')
    expect(await run(receipt(whole, note), ...policyFile(withNewer('any')))).toMatchObject({ code: 0 })
    expect(await run(receipt(whole, note), ...policyFile(withNewer('all')))).toMatchObject({
      code: 3,
      words: ['quorum_not_met'],
    })
    // A log that only has such a key is not any log.
    const only = [`log ${vkeyOfType(0x06, 'other.example/log', 64)}`, first, 'quorum X1'].join('\n')
    expect((await run(receipt(whole, note), ...policyFile(only))).words).toContain('other_log')
    for (const wrong of [newer.replace(/\+[0-9a-f]{8}\+/, '+00000000+'), vkeyOfType(0x04, 'x.example', 64)])
      expect(await run(receipt(whole, note), ...policyFile(`witness N ${wrong}\nquorum N`))).toMatchObject({
        code: 2,
        error: 'usage',
      })
  })

  it('cuts a note at its last empty line, as every reader does', async () => {
    const whole = chainOf(SIZES)
    const note = noteOf(whole)
    const [text = '', line = ''] = note.split('\n\n')
    for (const [shown, code] of [
      [note, 0],
      [`${text}\n\n${line}\n${line}`, 1],
      [`${text}\n\n\n${line}`, 1],
      [`${text}\n\n${line}\n`, 1],
      [`${text.split('\n')[0]}\n\n${text}\n\n${line}`, 1],
    ] as [string, number][]) {
      rmSync(join(folder, 'state.json'), { force: true })
      Object.assign(server, { chain: whole, note: shown })
      const pubkey = keyToHex(ed25519PublicKey(SEAL_KEY))
      expect((await run(server.url, ...ANY_AGE, '--pubkey', pubkey)).code, shown).toBe(code)
    }
  })

  it('keeps what each of many checks at once has seen, also if a check was killed while it wrote', async () => {
    const chains = Array.from({ length: 12 }, (_, at) => chainOf(SIZES.slice(0, 1 + (at % 5))))
    const servers = await Promise.all(chains.map((chain) => serveChain(chain)))
    writeFileSync(join(folder, 'state.json.lock'), 'dead\n')
    utimesSync(join(folder, 'state.json.lock'), 1, 1)
    await Promise.all(servers.map(({ url }) => run(url, ...ANY_AGE)))
    const kept = JSON.parse(readFileSync(join(folder, 'state.json'), 'utf8')) as object
    expect(Object.keys(kept).toSorted()).toEqual(servers.map(({ url }) => url).toSorted())
    expect(readdirSync(folder)).toEqual(['state.json'])
    await Promise.all(servers.map((one) => one.close()))
  })

  it.each(WRONG_POLICIES)('refuses what is no policy, and says which line: %j', async (policy, reason) => {
    const refused = await run(receipt(chainOf([3])), ...policyFile(policy))
    expect(refused).toMatchObject({ code: 2, error: 'usage' })
    expect(refused.message).toContain(reason)
  })
})
