import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import type { LedgerEntry } from '../../shared/crypto/receipt.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { FULL } from '../support/full.ts'
import {
  buildChain,
  leaveUnsigned,
  makeEntry,
  OTHER_SEAL_KEY,
  receiptOver,
  SEAL_KEY,
  sealOver,
  serveChain,
  sign,
  type ChainOptions,
  type LedgerChain,
  type LedgerServer,
} from '../support/ledger-chain.ts'
import { cosign, POLICY, witnessVkey } from '../support/log-policies.ts'
import { consistencyOf, noteOf, receiptInLog } from '../support/log-proofs.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/*
 * What each reader is told: a fresh one, who knows nothing; one who comes back, and checked SEEN before; and
 * a fresh one who pins the key. Both verifiers, the same table.
 */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const NOW = Math.floor(Date.now() / 1000)
/** Three seals, the last of them a minute old. */
const chain = (sizes: readonly number[] = [3, 2, 4], options: ChainOptions = {}) =>
  buildChain(sizes, 1, { at: NOW - 60 - 2 * 600, ...options })
const SEEN = chain()
const [first, second, third] = SEEN.seals as [Seal, Seal, Seal]

type Ends = [number, ...string[]]
interface Row {
  name: string
  shown: LedgerChain | object
  /** What the returning reader checked before; SEEN if absent. */
  seen?: LedgerChain
  args?: readonly string[]
  fresh: Ends
  returning: Ends
  pinned: Ends
}

const withEntry = (at: number, change: Partial<LedgerEntry>) =>
  chain([3, 2, 4], { entry: (id) => (id === at ? { ...makeEntry(id), ...change } : undefined) })
/** SEEN and one more seal, made of it by `change`; signed as it then is. */
function oneMore(
  change: (seal: Seal, closing: LedgerEntry) => { seal?: Partial<Seal>; closing?: Partial<LedgerEntry> },
): LedgerChain {
  const grown = chain([3, 2, 4, 2], { at: NOW - 60 - 3 * 600 })
  const entries = [...grown.entries]
  const last = grown.seals.at(-1) as Seal
  const changed = change(last, entries[last.to_id - 1] as LedgerEntry)
  entries[last.to_id - 1] = { ...(entries[last.to_id - 1] as LedgerEntry), ...changed.closing }
  const fields = { ...sealOver(entries.slice(last.from_id - 1, last.to_id), grown.seals[2] as Seal, last.at) }
  return { entries, seals: [...grown.seals.slice(0, 3), { ...sign(fields), ...changed.seal } as Seal] }
}
const SEEN_BY_ONE_MORE = buildChain([3, 2, 4], 1, { at: NOW - 60 - 3 * 600 })
const added = (name: string, shown: LedgerChain, word: string): Row => ({
  name,
  shown,
  seen: SEEN_BY_ONE_MORE,
  ...{ fresh: [1, word], returning: [1, word], pinned: [1, word] },
})
const older = { chainedFrom: Infinity }
/** Seals 1 and 2 of a chain of old signed anew over another first entry, under the same head. */
function rewriteUnder(): LedgerChain {
  const seen = chain([3, 2, 4], older)
  const entries = seen.entries.with(0, { ...makeEntry(1), kind: 'claim' })
  const one = sign(sealOver(entries.slice(0, 3), null, first.at))
  const two = sign({ ...sealOver(entries.slice(3, 5), one, second.at) })
  return { entries, seals: [one, two, seen.seals[2] as Seal] }
}
const unsignedAll = (seals: readonly Seal[]) => seals.map((seal) => leaveUnsigned({ ...seal }))
const fork = chain([3, 2, 4], { at: NOW - 61 - 2 * 600 })
const foreign = chain([3, 2, 4], { secretKey: OTHER_SEAL_KEY })

const ROWS: Row[] = [
  { name: 'the same chain', shown: SEEN, fresh: [3, 'key_unknown'], returning: [0], pinned: [0] },
  {
    name: 'a longer chain',
    shown: chain([3, 2, 4, 5], { at: first.at - 540 }),
    seen: chain([3, 2, 4], { at: first.at - 540 }),
    fresh: [3, 'key_unknown'],
    returning: [0],
    pinned: [0],
  },
  {
    name: 'a longer chain of which the last seal is unsigned',
    shown: { ...SEEN, seals: [first, second, leaveUnsigned(third)] },
    seen: { entries: SEEN.entries, seals: [first, second] },
    args: ['--max-age', '9999'],
    fresh: [3, 'key_unknown', 'unsigned'],
    returning: [3, 'unsigned'],
    pinned: [3, 'unsigned'],
  },
  {
    name: 'no seals yet',
    shown: { entries: SEEN.entries.slice(0, 2), seals: [] },
    seen: { entries: [], seals: [] },
    fresh: [3, 'no_signed_seal'],
    returning: [3, 'no_signed_seal'],
    pinned: [3, 'no_signed_seal'],
  },
  {
    name: 'a chain that nobody signed',
    shown: { ...SEEN, seals: unsignedAll(SEEN.seals) },
    fresh: [3, 'no_signed_seal'],
    returning: [1, 'signature_withdrawn'],
    pinned: [3, 'no_signed_seal'],
  },
  {
    name: 'a head older than three intervals',
    shown: chain([3, 2, 4], { at: NOW - 3_100 }),
    seen: chain([3, 2, 4], { at: NOW - 3_100 }),
    fresh: [3, 'key_unknown', 'stale'],
    returning: [3, 'stale'],
    pinned: [3, 'stale'],
  },
  {
    name: 'a head older than is asked for',
    shown: SEEN,
    args: ['--max-age', '20'],
    fresh: [3, 'key_unknown', 'stale'],
    returning: [3, 'stale'],
    pinned: [3, 'stale'],
  },
  {
    name: 'a chain by another key',
    shown: foreign,
    fresh: [3, 'key_unknown'],
    returning: [1, 'history_rewritten', 'key_changed'].filter((word) => word !== 'history_rewritten') as Ends,
    pinned: [1, 'wrong_key'],
  },
  {
    name: 'another history by the same key',
    shown: fork,
    fresh: [3, 'key_unknown'],
    returning: [1, 'history_rewritten'],
    pinned: [0],
  },
  {
    name: 'two seals of old signed anew under the same head',
    shown: rewriteUnder(),
    seen: chain([3, 2, 4], older),
    fresh: [3, 'key_unknown'],
    returning: [1, 'history_rewritten'],
    pinned: [0],
  },
  {
    name: 'a chain that lost its last seal',
    shown: { ...SEEN, seals: [first, second] },
    args: ['--max-age', '9999'],
    fresh: [3, 'key_unknown'],
    returning: [1, 'chain_shortened'],
    pinned: [0],
  },
  {
    name: 'a chain that lost everything',
    shown: { entries: [], seals: [] },
    fresh: [3, 'no_signed_seal'],
    returning: [1, 'chain_shortened'],
    pinned: [3, 'no_signed_seal'],
  },
  {
    name: 'a sealed entry that was rewritten, read again',
    shown: { ...SEEN, entries: withEntry(1, { kind: 'claim' }).entries },
    args: ['--full'],
    fresh: [1, 'wrong_root'],
    returning: [1, 'wrong_root'],
    pinned: [1, 'wrong_root'],
  },
  added(
    'a false sum',
    oneMore((_seal, { data }) => ({ closing: { data: { ...data, owed: { xno: '1', xmr: '0' } } } })),
    'wrong_owed',
  ),
  added(
    'a seal that another one closes',
    oneMore((_seal, { data }) => ({ closing: { data: { ...data, seal: 'seal_3' } } })),
    'wrong_closing',
  ),
  added(
    'a seal before it that is named falsely',
    oneMore((_seal, { data }) => ({ closing: { data: { ...data, prev_seal: 'ab'.repeat(32) } } })),
    'wrong_prev_seal',
  ),
  added(
    'a signature of the next century',
    oneMore(() => ({ seal: { signed_at: NOW + 100 * 365 * 86_400 } })),
    'from_the_future',
  ),
  added(
    'a signature of another seal',
    oneMore(() => ({ seal: { signature: first.signature as string } })),
    'bad_signature',
  ),
  {
    name: 'a receipt under the head that was seen',
    shown: receiptOver(SEEN, 'pst_7', [7]),
    fresh: [3, 'key_unknown'],
    returning: [0],
    pinned: [0],
  },
  {
    name: 'a receipt under another head of the same key',
    shown: receiptOver(fork, 'pst_7', [7]),
    fresh: [3, 'key_unknown'],
    returning: [1, 'history_rewritten'],
    pinned: [0],
  },
  {
    name: 'a receipt under a seal before that, without a place in the log',
    shown: receiptOver(SEEN, 'pst_4', [4]),
    fresh: [3, 'key_unknown'],
    returning: [3, 'not_compared'],
    pinned: [0],
  },
  {
    name: 'a receipt that waits',
    shown: receiptOver(SEEN, 'pst_10', [10]),
    fresh: [3, 'waiting'],
    returning: [3, 'waiting'],
    pinned: [3, 'waiting'],
  },
  {
    name: 'a receipt made of nothing',
    shown: receiptOver({ ...fork, seals: unsignedAll(fork.seals) }, 'pst_4', [4]),
    fresh: [3, 'unsigned'],
    returning: [3, 'not_compared', 'unsigned'],
    pinned: [3, 'unsigned'],
  },
  {
    name: "a receipt under a key of its maker's",
    shown: receiptOver(foreign, 'pst_4', [4]),
    fresh: [3, 'key_unknown'],
    returning: [1, 'key_changed'],
    pinned: [1, 'wrong_key'],
  },
  {
    name: 'a receipt under another seal of the same key',
    shown: receiptOver(fork, 'pst_4', [4]),
    fresh: [3, 'key_unknown'],
    returning: [3, 'not_compared'],
    pinned: [0],
  },
  {
    name: 'a saved dump',
    shown: { ...SEEN, saved: true },
    fresh: [3, 'key_unknown'],
    returning: [0],
    pinned: [0],
  },
  {
    name: 'a saved dump that is shorter',
    shown: { entries: SEEN.entries, seals: [first], saved: true },
    fresh: [3, 'key_unknown'],
    returning: [3, 'not_compared'],
    pinned: [0],
  },
  {
    name: 'a saved dump of another history',
    shown: { ...fork, saved: true },
    fresh: [3, 'key_unknown'],
    returning: [1, 'history_rewritten'],
    pinned: [0],
  },
  {
    name: 'a file that is neither a dump nor a receipt',
    shown: { seals: SEEN.seals, saved: true },
    fresh: [2, 'usage'],
    returning: [2, 'usage'],
    pinned: [2, 'usage'],
  },
  {
    name: 'a service whose answers are none',
    shown: { entries: [], seals: Object.assign([], { filter: () => 'none' }) },
    fresh: [2, 'unreachable'],
    returning: [2, 'unreachable'],
    pinned: [2, 'unreachable'],
  },
]

/*
 * The same readers before a log with checkpoints. The returning one has checked LOGGED.
 */

const logged = (sizes: readonly number[], options: ChainOptions = {}) =>
  buildChain(sizes, 0, { at: NOW - 60 - (sizes.length - 1) * 600, loggedFrom: 1, ...options })
const AT = NOW - 60 - 4 * 600
const LONGER = logged([3, 2, 4, 5, 2], { at: AT })
const upTo = (of: LedgerChain, seals: number): LedgerChain => ({
  entries: of.entries.slice(0, of.seals[seals - 1]?.to_id),
  seals: of.seals.slice(0, seals),
})
const LOGGED = upTo(LONGER, 4)
/** Goes on as LONGER up to seal `from`, and otherwise after it. */
const forkAfter = (from: number): LedgerChain =>
  logged([3, 2, 4, 5, 2], {
    at: AT,
    entry: (id) => (id === (LONGER.seals[from]?.from_id ?? 0) ? { ...makeEntry(id), at: 1 } : undefined),
  })
const textOf = (note: string): string => note.slice(0, note.lastIndexOf('\n\n') + 1)
const cosigned = (note: string, ...names: string[]): string =>
  note + names.map((name) => `${cosign(textOf(note), name, NOW - 30)}\n`).join('')
const signature = (note: string): string => note.slice(textOf(note).length + 1)
/** Below a note, lines of so many strangers, as a service shows them that lets them crowd a reader's own out. */
const crowd = (count: number): string =>
  Array.from({ length: count }, (_, number) => {
    const stranger = cosign('another text\n', 'Y1', NOW - 30).replace(
      'Y1.example',
      `stranger-${number}.example`,
    )
    return `${stranger}\n`
  }).join('')

interface LoggedRow {
  name: string
  shown: LedgerChain | object
  /** What GET /checkpoint gives, to whoever asks for the lines of these witnesses. */
  note?: (witnesses: string[]) => string
  /** The reader asks for the cosignature of X1. */
  hasPolicy?: boolean
  /** The reader has no proof between the logs at hand. */
  hasNoProof?: boolean
  /** The returning reader has also been shown this checkpoint of the log, by somebody else, with a proof. */
  told?: string
  fresh: Ends
  returning: Ends
  pinned: Ends
}

const same = (ends: Ends): Pick<LoggedRow, 'fresh' | 'returning' | 'pinned'> => ({
  fresh: ends,
  returning: ends,
  pinned: ends,
})
const wrongNote = (name: string, note: string): LoggedRow => ({
  name,
  shown: LOGGED,
  note: () => note,
  ...same([1, 'wrong_checkpoint']),
})
const WHOLE_NOTE = noteOf(LOGGED)

const LOGGED_ROWS: LoggedRow[] = [
  {
    name: 'a log and its checkpoint',
    shown: LOGGED,
    note: () => WHOLE_NOTE,
    ...{ fresh: [3, 'key_unknown'], returning: [0], pinned: [0] },
  },
  {
    name: "a checkpoint that the reader's own witness has cosigned",
    shown: LOGGED,
    note: () => cosigned(WHOLE_NOTE, 'X1'),
    hasPolicy: true,
    ...same([0]),
  },
  {
    name: 'an old cosigned checkpoint in front of what came after it',
    shown: LOGGED,
    note: () => cosigned(noteOf(LOGGED, { size: 5 }), 'X1'),
    hasPolicy: true,
    ...same([3, 'not_cosigned_yet']),
  },
  {
    name: 'an old cosigned checkpoint in front of a fork that a reader has not seen the place of',
    shown: forkAfter(4),
    note: () => cosigned(noteOf(LONGER, { size: 14 }), 'X1'),
    hasPolicy: true,
    ...same([3, 'not_cosigned_yet']),
  },
  {
    name: 'an old cosigned checkpoint in front of a fork of what was seen',
    shown: forkAfter(2),
    note: () => cosigned(noteOf(LONGER, { size: 5 }), 'X1'),
    hasPolicy: true,
    ...{
      fresh: [3, 'not_cosigned_yet'],
      returning: [1, 'history_rewritten'],
      pinned: [3, 'not_cosigned_yet'],
    },
  },
  {
    name: 'a cosigned checkpoint of another log than the entries give',
    shown: forkAfter(2),
    note: () => cosigned(WHOLE_NOTE, 'X1'),
    hasPolicy: true,
    ...{ fresh: [1, 'log_rewritten'], returning: [1, 'history_rewritten'], pinned: [1, 'log_rewritten'] },
  },
  {
    name: 'a shorter log than the one that was seen',
    shown: upTo(LOGGED, 3),
    note: () => noteOf(upTo(LOGGED, 3)),
    ...{ fresh: [3, 'key_unknown'], returning: [1, 'chain_shortened'], pinned: [0] },
  },
  {
    name: 'a shorter log than somebody else was shown',
    shown: LOGGED,
    note: () => WHOLE_NOTE,
    told: noteOf(LONGER),
    ...{ fresh: [3, 'key_unknown'], returning: [3, 'behind'], pinned: [0] },
  },
  {
    name: 'a receipt in the log that was seen',
    shown: receiptInLog(LOGGED, 'pst_4', [4]),
    ...{ fresh: [3, 'key_unknown'], returning: [0], pinned: [0] },
  },
  {
    name: 'a receipt in a longer log than the one that was seen, without a proof between the two',
    shown: receiptInLog(LONGER, 'pst_4', [4]),
    hasNoProof: true,
    ...{ fresh: [3, 'key_unknown'], returning: [0], pinned: [0] },
  },
  {
    name: 'a receipt in a longer log of another history, without a proof between the two',
    shown: receiptInLog(forkAfter(1), 'pst_4', [4]),
    hasNoProof: true,
    ...{ fresh: [3, 'key_unknown'], returning: [1, 'log_rewritten'], pinned: [0] },
  },
  {
    name: 'a receipt in a shorter log than the one that was seen, without a proof between the two',
    shown: receiptInLog(upTo(LONGER, 2), 'pst_2', [2]),
    hasNoProof: true,
    ...{ fresh: [3, 'key_unknown'], returning: [3, 'not_compared'], pinned: [0] },
  },
  {
    name: 'a receipt from an older log than the one that was seen',
    shown: receiptInLog(upTo(LOGGED, 2), 'pst_4', [4]),
    ...{ fresh: [3, 'key_unknown'], returning: [0], pinned: [0] },
  },
  {
    name: 'a receipt from an older log, of another history',
    shown: receiptInLog(upTo(forkAfter(1), 2), 'pst_2', [2]),
    ...{ fresh: [3, 'key_unknown'], returning: [1, 'log_rewritten'], pinned: [0] },
  },
  wrongNote('a note with an empty line in its text', WHOLE_NOTE.replace('\n', '\n\n')),
  wrongNote('a note with an empty line below its signature', `${WHOLE_NOTE}\n`),
  wrongNote('a note with an empty line between two signatures', `${WHOLE_NOTE}\n${signature(WHOLE_NOTE)}`),
  wrongNote('a note with two empty lines above its signature', WHOLE_NOTE.replace('\n\n', '\n\n\n')),
  wrongNote('a note with two signed texts', `${WHOLE_NOTE}\n${WHOLE_NOTE}`),
  wrongNote('a note with more lines than any reader takes', WHOLE_NOTE + crowd(64)),
  {
    name: "cosignatures of strangers, who crowd out the reader's own until it asks for them",
    shown: LOGGED,
    note: (witnesses) =>
      (witnesses.includes(witnessVkey('X1')) ? cosigned(WHOLE_NOTE, 'X1') : WHOLE_NOTE) + crowd(60),
    hasPolicy: true,
    ...same([0]),
  },
  {
    name: 'cosignatures of strangers alone, whatever the reader asks for',
    shown: LOGGED,
    note: () => WHOLE_NOTE + crowd(60),
    hasPolicy: true,
    ...same([3, 'quorum_not_met']),
  },
]

describe.skipIf(!canRunPythonVerifier())('what both verifiers tell (skipped if there is no python3)', () => {
  let python: ReturnType<typeof startPythonVerifier>
  let server: LedgerServer
  let folder: string

  beforeAll(async () => {
    python = startPythonVerifier()
    server = await serveChain(SEEN)
  })
  afterAll(async () => {
    python.stop()
    await server.close()
  })
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'verdicts-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  async function read(verify: Verify, ...args: string[]) {
    const report = readReport(await verify([...args, '--state', join(folder, 'state.json'), '--json']))
    // What is printed is one report in two forms.
    if (FULL) {
      const { text } = await verify([...args, '--state', join(folder, 'other.json')])
      expect(text.includes('GOOD'), text).toBe(
        text.includes('GOOD:') && !text.includes('NOT BINDING') && !text.includes('BAD'),
      )
    }
    expect([report.binding, report.ok]).toEqual([report.code === 0, report.code === 0])
    return report
  }

  const cases = ROWS.flatMap((row) => (['node', 'python'] as const).map((language) => ({ ...row, language })))
  // holds: limits.what_a_verifier_can_say.detail, rules.ledger.statements.a_seal_binds_nobody_before_it
  // holds: rules.ledger.statements.a_verifier_says_0_it_holds
  it.each(cases)(
    '$name, in $language',
    async ({ shown, seen, args = [], language, fresh: one, returning: two, pinned: three }) => {
      const verify = language === 'node' ? verifyInNode : python.verify
      const isChain = 'seals' in shown && !('saved' in shown)
      const file = join(folder, 'file.json')
      writeFileSync(file, JSON.stringify(shown))
      const ask = async (...more: string[]) => {
        if (isChain) server.chain = shown
        const { code, words: found } = await read(verify, isChain ? server.url : file, ...args, ...more)
        return [code, ...found]
      }
      const fresh = await ask()
      rmSync(join(folder, 'state.json'), { force: true })
      const pinned = await ask('--pubkey', PUBKEY)
      rmSync(join(folder, 'state.json'), { force: true })
      server.chain = seen ?? SEEN
      await read(verify, server.url)
      const returning = await ask()
      expect({ fresh, returning, pinned }).toEqual({ fresh: one, returning: two, pinned: three })
    },
  )

  const loggedCases = LOGGED_ROWS.flatMap((row) =>
    (['node', 'python'] as const).map((language) => ({ ...row, language })),
  )
  it.each(loggedCases)(
    '$name, in $language',
    async ({
      shown,
      note,
      hasPolicy,
      hasNoProof,
      told,
      language,
      fresh: one,
      returning: two,
      pinned: three,
    }) => {
      const verify = language === 'node' ? verifyInNode : python.verify
      const [policy, file, state] = ['policy', 'file.json', 'state.json'].map((name) =>
        join(folder, name),
      ) as [string, string, string]
      writeFileSync(policy, POLICY.replace(/quorum .*/, 'quorum X1'))
      writeFileSync(file, JSON.stringify(shown))
      server.consistency = consistencyOf
      const ask = async (...more: string[]) => {
        if ('seals' in shown) Object.assign(server, { chain: shown, note })
        const proof = join(folder, 'proof.json')
        writeFileSync(proof, JSON.stringify(consistencyOf(LOGGED, 5, 14)))
        const target =
          'seals' in shown
            ? [server.url]
            : [file, '--service', server.url, ...(hasNoProof === true ? [] : ['--consistency', proof])]
        const { code, words } = await read(
          verify,
          ...target,
          ...(hasPolicy ? ['--policy', policy] : []),
          ...more,
        )
        rmSync(state, { force: true })
        return [code, ...words]
      }
      const fresh = await ask()
      const pinned = await ask('--pubkey', PUBKEY)
      Object.assign(server, { chain: LOGGED, note: undefined })
      await read(verify, server.url)
      if (told !== undefined) {
        writeFileSync(join(folder, 'told'), told)
        writeFileSync(join(folder, 'told.proof'), JSON.stringify(consistencyOf(LONGER, 14, 16)))
        const proof = ['--consistency', join(folder, 'told.proof'), '--service', server.url]
        expect((await read(verify, '--note', join(folder, 'told'), ...proof)).code).toBe(0)
      }
      const returning = await ask()
      expect({ fresh, returning, pinned }).toEqual({ fresh: one, returning: two, pinned: three })
    },
  )

  // holds: limits.what_a_verifier_can_say.detail
  it.each(['node', 'python'] as const)(
    'a contradiction is kept as evidence that anybody can check, in %s',
    async (language) => {
      const [verify, other] =
        language === 'node' ? [verifyInNode, python.verify] : [python.verify, verifyInNode]
      server.chain = SEEN
      await read(verify, server.url)
      server.chain = fork
      const { evidence } = await read(verify, server.url)
      expect(readdirSync(folder)).toContain((evidence ?? '').split('/').at(-1))
      const elsewhere = ['--state', join(folder, 'none.json'), '--json']
      for (const check of [verify, other]) {
        const check2 = async (...args: string[]) =>
          readReport(await check(['--evidence', evidence as string, ...elsewhere, ...args]))
        expect(await check2('--pubkey', PUBKEY)).toMatchObject({ code: 0, binding: true, kind: 'evidence' })
        expect(await check2()).toMatchObject({ code: 3, words: ['key_unknown'] })
        expect(await check2('--pubkey', 'ab'.repeat(32))).toMatchObject({ code: 1, words: ['wrong_key'] })
      }
      const proof = JSON.parse(readFileSync(evidence as string, 'utf8')) as { sides: [Seal, Seal] }
      const alter = async (sides: unknown[]) => {
        writeFileSync(join(folder, 'altered.json'), JSON.stringify({ kind: 'fork', sides }))
        return readReport(
          await verify(['--evidence', join(folder, 'altered.json'), ...elsewhere, '--pubkey', PUBKEY]),
        )
      }
      expect(await alter([proof.sides[0], proof.sides[0]])).toMatchObject({
        code: 1,
        words: ['no_contradiction'],
      })
      expect(await alter([proof.sides[0], { ...proof.sides[1], at: 1 }])).toMatchObject({
        code: 1,
        words: ['bad_signature'],
      })
      expect(await alter([proof.sides[0], null])).toMatchObject({ code: 1, words: ['malformed_seal'] })
      expect(await alter([proof.sides[0]])).toMatchObject({ code: 2 })
    },
  )

  it('every adoption of another memory is printed, in this check and in the next', async () => {
    const data = { seal: 'seal_1', payload_hash: 'ab'.repeat(32) }
    server.chain = withEntry(4, { kind: 'seal_adoption', data })
    for (const verify of [verifyInNode, python.verify]) {
      rmSync(join(folder, 'state.json'), { force: true })
      for (let round = 0; round < 2; round++)
        expect(await read(verify, server.url)).toMatchObject({
          adoptions: [
            { entry_id: 4, data: JSON.stringify({ payload_hash: data.payload_hash, seal: data.seal }) },
          ],
        })
      expect((await verify([server.url, '--state', join(folder, 'state.json')])).text).toContain(
        'adoption: entry 4 ',
      )
    }
  })

  it('two checks of one state at a time lose nothing of each other', async () => {
    const servers = await Promise.all(Array.from({ length: 6 }, () => serveChain(SEEN)))
    const state = join(folder, 'state.json')
    await Promise.all(
      servers.flatMap(({ url }) =>
        [verifyInNode, python.verify].map((verify) => verify([url, '--state', state])),
      ),
    )
    const known = JSON.parse(readFileSync(state, 'utf8')) as Record<string, unknown>
    expect(Object.keys(known).sort()).toEqual(servers.map(({ url }) => url).sort())
    expect(readdirSync(folder).filter((name) => name.endsWith('.lock') || name.endsWith('.new'))).toEqual([])
    await Promise.all(servers.map((one) => one.close()))
  })

  it('a lock that a killed process left is taken over', async () => {
    const state = join(folder, 'state.json')
    const { utimesSync } = await import('node:fs')
    for (const verify of [verifyInNode, python.verify]) {
      writeFileSync(`${state}.lock`, '1\n')
      utimesSync(`${state}.lock`, NOW - 60, NOW - 60)
      server.chain = SEEN
      expect((await verify([server.url, '--state', state])).code % 3).toBe(0)
    }
  })

  it('a state of an older version protects its reader still', async () => {
    for (const verify of [verifyInNode, python.verify]) {
      server.chain = SEEN
      const state = join(folder, 'state.json')
      rmSync(state, { force: true })
      await read(verify, server.url)
      const memory =
        (JSON.parse(readFileSync(state, 'utf8')) as Record<string, Record<string, unknown>>)[server.url] ?? {}
      const { seq, payload_hash: hash, pubkeys, unsigned: _, ...rest } = memory
      const lastVersion = { ...rest, history: 'ab'.repeat(32), seals: 'AAAA' }
      const { entries, seals } = rewriteUnder()
      for (const [older, shown] of [
        [{ history: 'ab'.repeat(32), checked_at: 1 }, fork],
        [lastVersion, fork],
        [lastVersion, { entries, seals: [...seals.slice(0, 2), third] }],
      ] as [object, LedgerChain][]) {
        writeFileSync(state, JSON.stringify({ [server.url]: { seq, payload_hash: hash, pubkeys, ...older } }))
        server.chain = shown
        expect((await read(verify, server.url)).code).toBe(1)
      }
      server.chain = fork
      expect(await read(verify, server.url)).toMatchObject({ code: 1, words: ['history_rewritten'] })
      server.chain = SEEN
      expect(await read(verify, server.url)).toMatchObject({ code: 0, resumed_at: null })
      expect(await read(verify, server.url)).toMatchObject({ code: 0, resumed_at: 3, entries_read: 1 })
    }
  })
})
