import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import type { Receipt } from '../../shared/crypto/receipt.ts'
import type { Seal } from '../../shared/crypto/seal-payload.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { FULL } from '../support/full.ts'
import { generateVectors } from '../support/generate-vectors.ts'
import { buildChain, openingOf, receiptOver, SEAL_KEY, sign } from '../support/ledger-chain.ts'
import { makeVenue } from '../support/venue-model.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/*
 * Receipts and chains with a few things done to them, in their structure or their text, half of those with
 * another seal signed again by the service's own key: both verifiers must end alike, with the same words at
 * the same places.
 */

/**
 * MUTATIONS and SEED make a run of another length, or of others. OLD_VERIFIER names an earlier seal-verify.mjs,
 * whose verdicts are compared too: what it ends otherwise is printed, since a rule may have changed on purpose.
 */
const COUNT = Number(process.env['MUTATIONS'] ?? (FULL ? 100_000 : 200))
const BATCH = 500
const SEED = Number(process.env['SEED'] ?? 1)
const OLD_VERIFIER = process.env['OLD_VERIFIER']
const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))

const money = { kind: 'payment', data: { order_id: 'mkt_1', coin: 'xno', amount_raw: '100' } }
const CHAIN = buildChain([3, 1, 4], 1, {
  entry: (id) => (id === 5 ? { id, at: 1_700_000_005, ...money } : undefined),
})
const SOURCES: object[] = [
  CHAIN,
  buildChain([2, 3], 2, { chainedFrom: 2 }),
  makeVenue('venue', 7, 1_700_010_000).chain,
  { ...receiptOver(CHAIN, 'pst_6', [6]), openings: [openingOf(6)] },
  receiptOver(CHAIN, 'agt_seller', [1, 2, 6]),
  receiptOver(CHAIN, 'pst_9', [9]),
  receiptOver(CHAIN, 'mkt_1', [5]),
  generateVectors().valid['receipt-with-an-opening-of-its-record']?.['receipt'] as Receipt,
]

const VALUES = fc.oneof(
  fc.constantFrom(
    null,
    true,
    false,
    0,
    1,
    2,
    3,
    -0,
    -1,
    1.5,
    2 ** 31,
    2 ** 48,
    2 ** 53,
    1e300,
    '',
    '0',
    '1',
    'xno',
    'solvency',
    [],
    {},
    [null],
  ),
  fc.constantFrom(
    'ab'.repeat(32),
    'A'.repeat(86) + '==',
    '\ud800',
    'é',
    '__proto__',
    'pst_6',
    'order_id',
    'seal_2',
    '007',
    'owed',
    'invoices',
    '-0',
  ),
  fc.jsonValue({ maxDepth: 2 }),
)
const PLACE = fc.nat(2 ** 30)
const STRUCTURE = fc.record({
  place: PLACE,
  value: VALUES,
  act: fc.constantFrom('set', 'delete', 'copy', 'swap', 'double'),
})
const TEXTS = fc.constantFrom(
  '"',
  '\\',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '\n',
  '\u0000',
  '0',
  '-',
  '.',
  'e',
  ' ',
  '\u00ff',
  '\\u0061',
  '"id":1,',
  '"a":1,"a":1,',
)
const TEXT = fc.record({
  place: PLACE,
  text: TEXTS,
  act: fc.constantFrom('insert', 'replace', 'cut', 'repeat'),
})
type TextChange = typeof TEXT extends fc.Arbitrary<infer T> ? T : never
const MUTATION = fc.record({
  source: fc.nat(SOURCES.length - 1),
  structure: fc.array(STRUCTURE, { maxLength: 3 }),
  isSignedAgain: fc.boolean(),
  text: fc.oneof(
    { weight: 3, arbitrary: fc.constant<TextChange[]>([]) },
    fc.array(TEXT, { minLength: 1, maxLength: 2 }),
  ),
  isPinned: fc.boolean(),
})
type Mutation = typeof MUTATION extends fc.Arbitrary<infer T> ? T : never
type Holder = Record<string, unknown>

/** Every member at any depth, with what holds it. */
function placesIn(value: unknown): [Holder, string][] {
  const places: [Holder, string][] = []
  const open = [value]
  while (open.length > 0) {
    const holder = open.pop()
    if (typeof holder !== 'object' || holder === null) continue
    for (const [key, member] of Object.entries(holder)) {
      places.push([holder as Holder, key])
      open.push(member)
    }
  }
  return places
}

function changeStructure(value: object, { place, value: drawn, act }: Mutation['structure'][number]): void {
  // Some values are drawn again and again: one that was changed in its place would be changed in all, and could hold itself.
  const fresh = structuredClone(drawn)
  const places = placesIn(value)
  const [holder, key] = places[place % places.length] ?? [{}, '']
  const [other, otherKey] = places[(place * 7 + 3) % places.length] ?? [{}, '']
  if (act === 'set') holder[key] = fresh
  else if (act === 'copy') holder[key] = structuredClone(other[otherKey])
  else if (act === 'swap')
    [holder[key], other[otherKey]] = [structuredClone(other[otherKey]), structuredClone(holder[key])]
  else if (Array.isArray(holder) && act === 'delete') holder.splice(Number(key), 1)
  else if (Array.isArray(holder)) holder.splice(Number(key), 0, structuredClone(holder[Number(key)]))
  else if (act === 'delete') delete holder[key]
  else holder[`${key}2`] = fresh
}

/** So that a change behind a signature is looked at too. */
function signAgain(value: object): void {
  const { seals = [], entries = [] } = value as { seals?: unknown; entries?: unknown }
  const holders = [seals, entries].flatMap((list) => (Array.isArray(list) ? (list as (Holder | null)[]) : []))
  const signed: (Partial<Seal> | null)[] = holders.map((holder) => holder?.['seal'] ?? holder)
  for (const seal of signed) {
    if (seal?.signed !== true || typeof seal.seq !== 'number') continue
    try {
      Object.assign(seal, { signature: sign(seal as Seal).signature })
    } catch {
      // a seal that can't be signed stays as it is
    }
  }
}

function changeText(text: string, { place, text: fresh, act }: TextChange): string {
  const at = place % (text.length + 1)
  if (act === 'insert') return text.slice(0, at) + fresh + text.slice(at)
  if (act === 'replace') return text.slice(0, at) + fresh + text.slice(at + fresh.length)
  if (act === 'cut') return text.slice(0, at) + text.slice(at + (place % 40) + 1)
  return text.slice(0, at) + text.slice(Math.max(0, at - 30))
}

function write({ source, structure, isSignedAgain, text }: Mutation): Buffer {
  const value = structuredClone(SOURCES[source]) as object
  for (const change of structure) changeStructure(value, change)
  if (isSignedAgain) signAgain(value)
  // One byte a character now and then, so that some of it is not UTF-8.
  const encoding = text.some(({ place }) => place % 2 === 0) ? 'latin1' : 'utf8'
  return Buffer.from(text.reduce(changeText, JSON.stringify(value)), encoding)
}

describe.skipIf(!canRunPythonVerifier())(
  'mutated receipts and chains (skipped if there is no python3)',
  () => {
    it(`end alike in both verifiers, ${COUNT} of them`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'mutations-'))
      const python = startPythonVerifier()
      const old = await startOldVerifier()
      const codes = new Map<number, number>()
      const otherwise = new Map<string, number>()
      try {
        for (let done = 0; done < COUNT; done += BATCH) {
          const mutations = fc.sample(MUTATION, {
            numRuns: Math.min(BATCH, COUNT - done),
            seed: SEED * 1_000_003 + done,
          })
          const ends = await Promise.all(
            mutations.map(async (mutation, number) => {
              const file = join(folder, `${number}.json`)
              writeFileSync(file, write(mutation))
              const args = [
                file,
                '--json',
                '--state',
                join(folder, 'none.json'),
                ...(mutation.isPinned ? ['--pubkey', PUBKEY] : []),
              ]
              return {
                args,
                before: await old?.(args),
                ended: await Promise.all(
                  [verifyInNode, python.verify].map((verify) => outline(verify, args)),
                ),
              }
            }),
          )
          for (const { args, before, ended } of ends) {
            const [inNode, inPython] = ended
            if (inNode?.outline !== inPython?.outline) {
              // The file stays for whoever looks at it.
              expect
                .soft(inPython?.outline, `seed ${SEED}, mutation ${done}: ${args.join(' ')}`)
                .toBe(inNode?.outline)
              throw new Error(`the verifiers disagree over ${args[0]}`)
            }
            const code = inNode?.code ?? -1
            codes.set(code, (codes.get(code) ?? 0) + 1)
            if (before === undefined || before === code) continue
            const change = `${before} is now ${code}`
            otherwise.set(change, (otherwise.get(change) ?? 0) + 1)
            if (otherwise.get(change) === 1)
              console.log(`${change}: mutation ${done} of ${args.join(' ')}: ${inNode?.outline}`)
          }
        }
        rmSync(folder, { recursive: true })
      } finally {
        python.stop()
      }
      console.log(`mutations by exit code: ${JSON.stringify(Object.fromEntries([...codes].sort()))}`)
      if (old) console.log(`exit codes of ${OLD_VERIFIER}: ${JSON.stringify([...otherwise])}`)
      for (const code of [0, 1, 2, 3])
        expect(codes.get(code) ?? 0, `exit ${code}`).toBeGreaterThan(COUNT / 100)
    }, 7_200_000)
  },
)

/** The exit code, and what was found at which place; a crash is none of the words. */
async function outline(verify: Verify, args: readonly string[]): Promise<{ code: number; outline: string }> {
  const ended = await verify(args)
  const {
    code,
    words,
    findings = [],
    entries_sealed: sealed,
    entries_waiting: waiting,
    openings,
  } = readReport(ended)
  const places = findings.map(({ reason, where }) => `${reason} ${where}`).sort()
  if (words.includes('failed')) throw new Error(`a verifier crashed on ${args.join(' ')}: ${ended.text}`)
  return { code, outline: JSON.stringify({ code, words, places, sealed, waiting, openings }) }
}

type Check = (args: readonly string[]) => Promise<{ exitCode: number }>

/** An earlier bundle's exit code, if OLD_VERIFIER names one; -1 if it crashed. */
async function startOldVerifier(): Promise<((args: readonly string[]) => Promise<number>) | undefined> {
  if (OLD_VERIFIER === undefined) return undefined
  const { check } = (await import(pathToFileURL(OLD_VERIFIER).href)) as { check: Check }
  return (args) =>
    check(args).then(
      ({ exitCode }) => exitCode,
      () => -1,
    )
}
