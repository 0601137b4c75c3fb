import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WORDING } from '../../client/verify/wording.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import { FULL } from '../support/full.ts'
import { buildChain, serveChain } from '../support/ledger-chain.ts'
import {
  reportIn,
  startNodeVerifier,
  startPythonVerifier,
  verifyInNode,
  type StartedVerifier,
} from '../support/both-verifiers.ts'
import { generateVectors } from '../support/generate-vectors.ts'
import type { VectorResult } from '../support/run-vectors.ts'
import { canRunPythonVerifier, NODE_VERIFIER, PYTHON_VERIFIER, runVerifier } from '../support/run-verifier.ts'
import { describeVerifier } from '../support/verifier-suite.ts'

/**
 * Random inputs for the comparison of the two: enough to meet every member with several kinds of junk over a
 * few runs.
 */
const RUNS = FULL ? 500 : 30
const isAvailable = canRunPythonVerifier()

describeVerifier(
  'seal_verify.py (skipped if there is no python3)',
  PYTHON_VERIFIER,
  startPythonVerifier,
  isAvailable,
)

describe.skipIf(!isAvailable)(
  "the two verifiers and the service's own code (skipped if there is no python3)",
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'seal-verify-'))
    const node = startNodeVerifier()
    let python: StartedVerifier
    beforeAll(() => {
      python = startPythonVerifier()
    })
    afterAll(() => {
      python.stop()
      rmSync(folder, { recursive: true })
    })

    it('say everything in the same words', () => {
      const program = `import json, runpy; print(json.dumps(runpy.run_path("${PYTHON_VERIFIER[1]}")["SENTENCES"]))`
      const printed = execFileSync(PYTHON_VERIFIER[0], ['-c', program], { encoding: 'utf8' })
      expect(JSON.parse(printed)).toEqual(WORDING)
    })

    const inNode = (...args: string[]) => reportIn(folder, verifyInNode, args)
    const inPython = (...args: string[]) => reportIn(folder, python.verify, args)

    /** Both verifiers' verdict on one vector. */
    const bothOn = (vector: object) =>
      Promise.all([node.runVector(JSON.parse(JSON.stringify(vector)) as object), python.runVector(vector)])

    /** What was found, and where. */
    const outline = ({ findings, notBinding }: VectorResult) => [
      ...notBinding,
      ...findings.map(({ reason, where }) => `${reason} ${where}`).sort(),
    ]

    it('find the same in the same places of every vector', async () => {
      const { valid, invalid } = generateVectors()
      for (const [name, vector] of Object.entries({ ...valid, ...invalid })) {
        const [ofNode, ofPython] = await bothOn(vector)
        expect(outline(ofPython), name).toEqual(outline(ofNode))
      }
    })

    it('write the same canonical JSON for any value', async () => {
      const values = [
        ...fc.sample(fc.jsonValue({ stringUnit: 'binary', maxDepth: 3 }), 400),
        ...fc.sample(
          fc.dictionary(fc.string({ unit: 'binary', maxLength: 3 }), fc.constant(1), { minKeys: 2 }),
          200,
        ),
        ...fc.sample(fc.double({ noNaN: true, noDefaultInfinity: true }), 1_000),
        ...fc.sample(
          fc
            .tuple(fc.integer({ min: -9_999_999, max: 9_999_999 }), fc.integer({ min: -330, max: 300 }))
            .map(([digits, power]) => Number(`${digits}e${power}`)),
          1_000,
        ),
      ]
      const cases = values.map((value) => ({ json: JSON.stringify(value), canonical: canonicalJson(value) }))
      for (const { findings } of await bothOn({ kind: 'canonical-json', cases })) expect(findings).toEqual([])
    })

    it('hash the same leaf for any data', async () => {
      for (const data of fc.sample(
        fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ stringUnit: 'binary', maxDepth: 2 })),
        4,
      )) {
        const entry = { id: 1, at: 2, kind: 'post', data }
        for (const { findings } of await bothOn({ kind: 'leaf', entry, leaf: leafHash(entry) }))
          expect(findings).toEqual([])
        for (const { findings } of await bothOn({
          kind: 'leaf',
          entry: { ...entry, at: 3 },
          leaf: leafHash(entry),
        }))
          expect(findings).toHaveLength(1)
      }
    })

    it('refuse alike whatever stands in the place of any part of a chain or a receipt', async () => {
      const { valid } = generateVectors()
      const sources = [
        'seal-chain-of-three',
        'seal-unsigned-between',
        'seal-remembered',
        'receipt-with-an-opening',
        'receipt-under-two-seals',
        'receipt-still-waiting',
      ].map((name) => valid[name] as object)
      const junk = fc.oneof(
        fc.constantFrom(
          null,
          true,
          false,
          0,
          1,
          2,
          -1,
          1.5,
          2 ** 53,
          '',
          '0',
          [],
          {},
          [null],
          'ab'.repeat(32),
          'A'.repeat(88),
          '\ud800',
        ),
        fc.jsonValue({ maxDepth: 1 }),
      )
      const changes = fc.array(
        fc.tuple(
          fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
          fc.option(junk, { nil: undefined }),
        ),
        {
          minLength: 1,
          maxLength: 2,
        },
      )
      let refused = 0
      for (const [source, parts] of fc.sample(fc.tuple(fc.constantFrom(...sources), changes), RUNS)) {
        const vector = JSON.parse(JSON.stringify(source)) as { kind: string }
        for (const [place, value] of parts) {
          const places = placesIn(vector, vector.kind === 'seal' ? ['seals', 'entries'] : ['receipt'])
          const [holder, key] = places[Math.floor(place * places.length)] as [Record<string, unknown>, string]
          if (value === undefined && !Array.isArray(holder)) delete holder[key]
          else holder[key] = value ?? null
        }
        const [ofNode, ofPython] = await bothOn(vector)
        expect(outline(ofPython), JSON.stringify(vector)).toEqual(outline(ofNode))
        if (ofNode.findings.length > 0) refused++
      }
      expect(refused).toBeGreaterThan(RUNS / 4)
    })

    it('report the same of a chain and share one memory', async () => {
      const server = await serveChain(buildChain([4, 1, 7], 2), 3)
      const words = ['--full', '--max-age', '999999999']
      const [ofNode, ofPython] = [await inNode(server.url, ...words), await inPython(server.url, ...words)]
      expect(ofNode).toMatchObject({
        code: 3,
        remembered_seq: null,
        not_binding: [{ reason: 'key_unknown' }],
      })
      expect(ofPython).toEqual({
        ...ofNode,
        ...{ code: 0, ok: true, binding: true, verdict: 'good', not_binding: [] },
        ...{ remembered_seq: 3, key_trust: 'remembered', head_age_seconds: expect.any(Number) as number },
        rests_on: { key: 'remembered', cosigned_by: [], quorum: null, seen_size: 12 },
      })
      server.chain = buildChain([4, 1], 2)
      for (const report of [inNode, inPython])
        expect(await report(server.url)).toMatchObject({
          code: 1,
          findings: [{ reason: 'chain_shortened' }],
        })
      await server.close()
    })

    it('print the same lines', async () => {
      const chain = buildChain([4, 1, 7], 2)
      await writeFile(join(folder, 'dump.json'), JSON.stringify(chain))
      const [ofNode, ofPython] = [
        await runVerifier(NODE_VERIFIER, ['dump.json'], folder),
        await runVerifier(PYTHON_VERIFIER, ['dump.json'], folder),
      ]
      const untimed = ({ stdout }: { stdout: string }) =>
        stdout.replace(/made \d+ s ago/, 'made some time ago')
      expect(untimed(ofPython)).toBe(untimed(ofNode))
    })
  },
)

/**
 * Every member at any depth below the named parts of a vector, with what holds it; bare parts themselves
 * stay.
 */
function placesIn(vector: object, parts: readonly string[]): [object, string][] {
  const places: [object, string][] = []
  const open = parts.map((part) => (vector as Record<string, unknown>)[part])
  while (open.length > 0) {
    const holder = open.pop()
    if (typeof holder !== 'object' || holder === null) continue
    for (const [key, member] of Object.entries(holder)) {
      places.push([holder, key])
      open.push(member)
    }
  }
  return places
}
