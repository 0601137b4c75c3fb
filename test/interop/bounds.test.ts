import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { check } from '../../client/verify/main.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { FULL } from '../support/full.ts'
import { buildChain, makeEntry, receiptOver, sign } from '../support/ledger-chain.ts'
import { canRunPythonVerifier, PYTHON_VERIFIER } from '../support/run-verifier.ts'

/* What a file may cost its reader, who doesn't know who made it. */

const MIB = 2 ** 20
const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
afterAll(() => python?.stop())
const verifiers: [string, Verify][] = [
  ['node', verifyInNode],
  ...(python === undefined ? [] : [['python', python.verify] as [string, Verify]]),
]

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bounds-'))
  return () => rmSync(folder, { recursive: true })
})
const file = (text: string) => {
  writeFileSync(join(folder, 'file.json'), text)
  return join(folder, 'file.json')
}

/** A receipt of this many entries, each under a seal of its own that a key of its own has signed. */
function receiptOfManyKeys(count: number) {
  const chain = buildChain(Array<number>(count).fill(2), 0, {
    entry: (id) => ({ ...makeEntry(id, { of: 'new_1' }), kind: 'newer' }),
  })
  const seals = chain.seals.map((seal, at) => {
    const secret = new Uint8Array(32)
    secret.set([at & 0xff, at >> 8, 7])
    return sign(seal, secret)
  })
  const ids = Array.from({ length: count }, (_, at) => 2 * at + 1)
  return receiptOver({ entries: chain.entries, seals }, 'new_1', ids)
}

describe.each(verifiers)('a file for the verifier in %s', (_name, verify) => {
  const run = async (...args: string[]) =>
    readReport(await verify([...args, '--state', join(folder, 'state.json'), '--json']))

  it('has at most 16 MiB, whatever it is said to be', async () => {
    const long = file(`{"entries":[],"seals":[],"a":"${'x'.repeat(16 * MIB)}"}`)
    for (const args of [[long], ['--evidence', long], ['--note', long]])
      expect(await run(...args), args[0]).toMatchObject({ code: 2, error: 'usage' })
    const good = file(JSON.stringify(receiptOver(buildChain([3]), 'pst_2', [2])))
    writeFileSync(join(folder, 'long'), ' '.repeat(16 * MIB + 1))
    for (const option of ['--policy', '--consistency'])
      expect(await run(good, option, join(folder, 'long')), option).toMatchObject({ code: 2, error: 'usage' })
    // A dump is read line by line, and each line has that bound.
    const line = `{"a":"${'x'.repeat(16 * MIB)}"}`
    expect(await run(file(`{"entries":[\n${line}\n],"seals":[\n]}\n`))).toMatchObject({
      code: 2,
      error: 'usage',
    })
  })

  it('is not parsed if it is nested too deep or has too many parts', async () => {
    for (const text of [
      '['.repeat(4_000_000),
      `{"entries":[${'[],'.repeat(600_000)}[]],"seals":[]}`,
      `{"entries":[${'{"a":1},'.repeat(600_000)}{}],"seals":[]}`,
      `{"entries":["${'[{'.repeat(600_000)}`,
    ])
      expect(await run(file(text)), text.slice(0, 20)).toMatchObject({ code: 2, error: 'usage' })
    const brackets = JSON.stringify({
      ...receiptOver(buildChain([3]), 'pst_2', [2]),
      _: '[{'.repeat(600_000),
    })
    expect(await run(file(brackets))).toMatchObject({ code: 3 })
  })

  it('is judged alike, however many keys it names', async () => {
    expect(await run(file(JSON.stringify(receiptOfManyKeys(40))))).toMatchObject({
      code: 1,
      words: ['key_changed'],
      findings_total: 39,
    })
  })
})

describe.skipIf(!canRunPythonVerifier())('the verifier in python (skipped if there is no python3)', () => {
  it.runIf(FULL)('keeps the points of a few keys, and those of none that is used once', async () => {
    const receipt = file(JSON.stringify(receiptOfManyKeys(60)))
    const program = `
import sys
sys.path.insert(0, sys.argv[1].rsplit("/", 1)[0])
import seal_verify
for _ in range(3):
    seal_verify.check([sys.argv[2], "--state", sys.argv[2] + ".state"])
print(len(seal_verify._tables) <= 8)
`
    const { stdout } = await promisify(execFile)(PYTHON_VERIFIER[0], [
      ...['-c', program, PYTHON_VERIFIER[1] as string, receipt],
    ])
    expect(stdout.trim()).toBe('True')
    expect((await check([receipt, '--state', join(folder, 'none')])).exitCode).toBe(1)
  })
})
