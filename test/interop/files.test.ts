import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { readReport, startPythonVerifier, verifyInNode } from '../support/both-verifiers.ts'
import {
  buildChain,
  makeEntry,
  openingOf,
  receiptOver,
  SEAL_KEY,
  serveChain,
} from '../support/ledger-chain.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/* Saved dumps and receipts as bytes: what a reader may find in a file, and how both verifiers end. */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const CHAIN = buildChain([3, 2], 0, {
  entry: (id) => (id === 2 ? makeEntry(2, { post_id: 'pst_2', odd: '\ufffd' }) : undefined),
})
const RECEIPT = JSON.stringify({ ...receiptOver(CHAIN, 'pst_4', [4]), openings: [openingOf(4)] })
const REPLACEMENT = Buffer.from('\ufffd')

const replaceBytes = (text: Buffer, what: Uint8Array, by: Uint8Array): Buffer => {
  const at = text.indexOf(what)
  if (at === -1) throw new Error('there is nothing to replace')
  return Buffer.concat([text.subarray(0, at), by, text.subarray(at + what.length)])
}
const append = (more: string) => (text: Buffer) => Buffer.concat([text, Buffer.from(more)])
const edit = (what: string, by: string) => (text: Buffer) =>
  replaceBytes(text, Buffer.from(what), Buffer.from(by))
const deep = (levels: number) =>
  edit('{"entries"', `{"ignored":${'['.repeat(levels)}${']'.repeat(levels)},"entries"`)

/**
 * By name: what is done to a dump of one entry or seal a line, to the same on one line, and to a receipt; the
 * exit code and word.
 */
const OF_DUMPS: Record<string, [(text: Buffer) => Buffer, number, string?]> = {
  'as it was saved': [(text) => text, 0],
  'without its last line feed': [(text) => text.subarray(0, -1), 0],
  'an invalid byte where U+FFFD was sealed': [
    (text) => replaceBytes(text, REPLACEMENT, Buffer.from([0xff])),
    2,
    'usage',
  ],
  'text after its end': [append('and more\n'), 2, 'usage'],
  'another object after its end': [append('{}\n'), 2, 'usage'],
  'cut off before its end': [(text) => text.subarray(0, text.lastIndexOf(']}')), 2, 'usage'],
  'cut off within an entry': [(text) => text.subarray(0, text.indexOf('"kind"')), 2, 'usage'],
  'a key twice': [edit('"kind":"post"', '"kind":"post","kind":"post"'), 2, 'usage'],
  'a key twice in two spellings': [edit('"kind":"post"', '"kind":"post","k\\u0069nd":"post"'), 2, 'usage'],
  'a number in another spelling': [edit('"id":1,', '"id":1.0,'), 0],
  'a letter in another spelling': [edit('"kind":"post"', '"kind":"p\\u006fst"'), 0],
  'lines that end in CR LF': [
    (text) => Buffer.from(text.toString('latin1').replaceAll('\n', '\r\n'), 'latin1'),
    0,
  ],
  'a mark of byte order': [(text) => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text]), 2, 'usage'],
  'NaN for an amount': [edit('"odd":', '"amount":NaN,"odd":'), 2, 'usage'],
  'an entry that was altered': [edit('"post_id":"pst_1"', '"post_id":"pst_9"'), 1, 'wrong_root'],
  'nothing at all': [() => Buffer.alloc(0), 2, 'usage'],
}
const OF_ONE_LINE: typeof OF_DUMPS = {
  'a dump on one line': [(text) => text, 0],
  'one on one line with text after its end': [append('x'), 2, 'usage'],
  'one on one line with blanks after its end': [append(' \n\t'), 0],
  'one with a list in a list, 90 deep, in what nobody reads': [deep(90), 0],
  'one with a list in a list, 5000 deep': [deep(5_000), 2, 'usage'],
  'one with an invalid byte': [(text) => replaceBytes(text, REPLACEMENT, Buffer.from([0xff])), 2, 'usage'],
}
const OF_RECEIPTS: typeof OF_DUMPS = {
  'a receipt': [(text) => text, 0],
  'a receipt whose seq is true': [edit('"seq":2,"index"', '"seq":true,"index"'), 1, 'malformed_receipt'],
  'a receipt with a key twice': [edit('"sealed":true', '"sealed":true,"sealed":true'), 2, 'usage'],
  'a receipt with text after its end': [append('GOOD'), 2, 'usage'],
  'a receipt with an invalid byte': [edit('post number 4', 'post\u0000number 4'), 2, 'usage'],
}

describe.skipIf(!canRunPythonVerifier())(
  'a file, read by both verifiers (skipped if there is no python3)',
  () => {
    let python: ReturnType<typeof startPythonVerifier>
    let folder: string
    let saved: Buffer
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'files-'))
      python = startPythonVerifier()
      const lines = (values: readonly object[]) => values.map((value) => JSON.stringify(value)).join(',\n')
      saved = Buffer.from(`{"entries":[\n${lines(CHAIN.entries)}\n],"seals":[\n${lines(CHAIN.seals)}\n]}\n`)
    })
    afterAll(() => {
      python.stop()
      rmSync(folder, { recursive: true })
    })

    const read = async (bytes: Uint8Array) => {
      const file = join(folder, 'file.json')
      writeFileSync(file, bytes)
      const args = [file, '--pubkey', PUBKEY, '--state', join(folder, 'none.json')]
      const both = [verifyInNode, python.verify]
      const plain = await Promise.all(both.map((verify) => verify(args)))
      const reports = await Promise.all(
        both.map(async (verify) => readReport(await verify([...args, '--json']))),
      )
      return { plain, reports }
    }
    const rows = [
      ...Object.entries(OF_DUMPS).map((row) => ({ row, text: () => saved })),
      ...Object.entries(OF_ONE_LINE).map((row) => ({ row, text: () => Buffer.from(JSON.stringify(CHAIN)) })),
      ...Object.entries(OF_RECEIPTS).map((row) => ({ row, text: () => Buffer.from(RECEIPT) })),
    ].map(({ row: [name, [change, code, word]], text }) => ({
      name,
      change,
      code,
      words: word === undefined ? [] : [word],
      text,
    }))

    it.each(rows)('ends alike: $name', async ({ change, code, words, text }) => {
      const { plain, reports } = await read(change(text()))
      for (const report of reports)
        expect([report.code, report.words, report.binding]).toEqual([code, words, code === 0])
      for (const { text: lines } of plain) expect(lines.includes('GOOD')).toBe(code === 0)
    })

    // holds: contract.non_guarantees.sealing_prevents_rewriting_not_withholding, limits.seal_chain
    // holds: limits.what_a_verifier_can_say, rules.ledger.statements.a_seal_binds_nobody_before_it
    it('says of a receipt that it proves presence and not completeness', async () => {
      const { plain, reports } = await read(Buffer.from(RECEIPT))
      for (const report of reports) expect(report).toMatchObject({ proves: 'presence' })
      for (const { text } of plain)
        expect(text).toContain('these entries are on record, not that there are no others')
    })

    // holds: limits.what_a_verifier_can_say.detail
    it('says at a first check where keys and seals are remembered', async () => {
      const server = await serveChain(CHAIN)
      for (const [name, verify] of [
        ['a', verifyInNode],
        ['b', python.verify],
      ] as const) {
        const state = join(folder, `${name}.json`)
        expect((await verify([server.url, '--state', state])).text).toContain(
          `the first check of this service with ${state}`,
        )
        expect((await verify([server.url, '--state', state])).text).not.toContain('the first check')
      }
      await server.close()
    })
  },
)
