import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { readReport, startPythonVerifier, verifyInNode, type Verify } from '../support/both-verifiers.ts'
import { FULL } from '../support/full.ts'
import { buildChain, makeEntry, SEAL_KEY, serveChain, type LedgerChain } from '../support/ledger-chain.ts'
import { cosign, POLICY } from '../support/log-policies.ts'
import { consistencyOf, noteOf, receiptInLog } from '../support/log-proofs.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/*
 * Checkpoints, old and new, with cosignatures of any time, empty lines and other harm, for readers who have
 * seen the log at some size and have a policy: both verifiers must end alike, rest on the same, and remember
 * the same.
 */

/** MUTATIONS and SEED make a run of another length, or of others. */
const COUNT = Number(process.env['MUTATIONS'] ?? (FULL ? 100_000 : 80))
const BATCH = 200
/** How often a verifier keeps how far it has come. */
const KEEP_MS = 10 * SECOND_MS
const SEED = Number(process.env['SEED'] ?? 1)
const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const NOW = Math.floor(Date.now() / 1000)

const SIZES = [7, 3, 6, 2, 9]
const [WHOLE, FORK] = ([0, 9] as const).map((forked) =>
  buildChain(SIZES, 0, {
    at: NOW - 3_600,
    loggedFrom: 1,
    entry: (id) => (id === forked ? makeEntry(id, { post_id: 'pst_x', agent_id: 'agt_x' }) : undefined),
  }),
) as [LedgerChain, LedgerChain]
const upTo = (chain: LedgerChain, seals: number) => ({ ...chain, seals: chain.seals.slice(0, seals) })

const TIMES = [1, NOW - 10_000, NOW - 60, NOW + 10, NOW + 10_000, 2 ** 53, 2 ** 60]
const POLICIES = [
  POLICY,
  POLICY.replace(/quorum .*/, 'quorum none'),
  POLICY.replace(/quorum .*/, 'quorum X1'),
  POLICY.replace(/^log .*/m, ''),
]
const BREAKS = ['\n', '\n\n', '\n\n\n', ' ', '\u2028', '— ', '— x y\n', '0', '\r\n', '\ufeff', 'a\n']
const MUTATION = fc.record({
  kind: fc.constantFrom('note', 'receipt', 'service'),
  isFork: fc.boolean(),
  seals: fc.integer({ min: 1, max: SIZES.length }),
  seen: fc.integer({ min: 0, max: SIZES.length }),
  cosigned: fc.array(
    fc.tuple(fc.constantFrom('X1', 'X2', 'X3', 'Y1', 'Y2'), fc.nat(TIMES.length - 1), fc.boolean()),
    { maxLength: 5 },
  ),
  policy: fc.option(fc.nat(POLICIES.length - 1)),
  maxAge: fc.option(fc.constantFrom('0', '100', '5000', '100000')),
  isPinned: fc.boolean(),
  proof: fc.option(fc.tuple(fc.integer({ min: 0, max: 27 }), fc.integer({ min: 1, max: 27 }), fc.boolean())),
  harm: fc.oneof(
    { weight: 2, arbitrary: fc.constant<[number, string, boolean][]>([]) },
    fc.array(fc.tuple(fc.nat(2 ** 20), fc.constantFrom(...BREAKS), fc.boolean()), {
      minLength: 1,
      maxLength: 2,
    }),
  ),
})
type Mutation = typeof MUTATION extends fc.Arbitrary<infer T> ? T : never

/** The checkpoint with its cosignatures, some of another text, and with harm done to it. */
function makeNote(chain: LedgerChain, { cosigned, harm }: Mutation): string {
  const note = noteOf(chain)
  const text = note.slice(0, note.indexOf('\n\n') + 1)
  const lines = cosigned.map(
    ([name, time, isTrue]) => `${cosign(isTrue ? text : `x${text}`, name, TIMES[time])}\n`,
  )
  return harm.reduce(
    (whole, [place, part, replaces]) => {
      const at = place % (whole.length + 1)
      return whole.slice(0, at) + part + whole.slice(at + (replaces ? part.length : 0))
    },
    note + lines.join(''),
  )
}

describe.skipIf(!canRunPythonVerifier())('mutated checkpoints (skipped if there is no python3)', () => {
  it(`end alike in both verifiers, ${COUNT} of them`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'note-mutations-'))
    const python = startPythonVerifier()
    const codes = new Map<number, number>()
    const servers = await Promise.all([...Array(Math.min(BATCH, COUNT)).keys()].map(() => serveChain(WHOLE)))
    try {
      const states = await writeStates(folder)
      for (const [at, policy] of POLICIES.entries()) writeFileSync(join(folder, `policy-${at}`), policy)
      for (let done = 0; done < COUNT; done += BATCH) {
        const mutations = fc.sample(MUTATION, {
          numRuns: Math.min(BATCH, COUNT - done),
          seed: SEED * 1_000_003 + done,
        })
        const ends = await Promise.all(
          mutations.map(async (mutation, number) => {
            const shown = upTo(mutation.isFork ? FORK : WHOLE, mutation.seals)
            const note = makeNote(shown, mutation)
            const server = servers[number] as (typeof servers)[number]
            Object.assign(server, { chain: shown, note, consistency: consistencyOf })
            const file = join(folder, `${number}.json`)
            // A harmed size has no proof to go with it.
            const size = Number(note.split('\n')[1])
            const inLog = Number.isSafeInteger(size) && size >= 2 && size <= 27 ? note : noteOf(shown)
            if (mutation.kind === 'note') writeFileSync(file, note)
            if (mutation.kind === 'receipt')
              writeFileSync(file, JSON.stringify(receiptInLog(shown, 'pst_2', [2], inLog)))
            const [from = 0, to = 0, isSwapped = false] = mutation.proof ?? []
            const [less, more] = isSwapped ? [Math.max(from, to), to] : [Math.min(from, to), to]
            if (mutation.proof !== null)
              writeFileSync(`${file}.proof`, JSON.stringify(consistencyOf(WHOLE, Math.min(less, more), more)))
            const options = [
              ...(mutation.proof === null || mutation.kind === 'service'
                ? []
                : ['--consistency', `${file}.proof`]),
              ...(mutation.policy === null ? [] : ['--policy', join(folder, `policy-${mutation.policy}`)]),
              ...(mutation.maxAge === null ? [] : ['--max-age', mutation.maxAge]),
              ...(mutation.isPinned ? ['--pubkey', PUBKEY] : []),
            ]
            const target =
              mutation.kind === 'service'
                ? [server.url]
                : [...(mutation.kind === 'note' ? ['--note', file] : [file]), '--service', 'http://a.example']
            const run = async (verify: Verify, name: string) => {
              const state = join(folder, `${number}-${name}.state`)
              rmSync(state, { force: true })
              const known = states[mutation.seen]
              if (known !== undefined) copyFileSync(known, state)
              if (known !== undefined && mutation.kind === 'service')
                writeFileSync(
                  state,
                  readFileSync(known, 'utf8').replace('"http://a.example"', `"${server.url}"`),
                )
              return outline(verify, [...target, ...options, '--state', state, '--json'], state)
            }
            const inNode = await run(verifyInNode, 'node')
            const inPython = await run(python.verify, 'python')
            const looks = [inNode]
            // What is too old by the second in which Python looked may not have been so in Node's: then Node looks again.
            if (!isAlike(inPython, inNode)) looks.push(await run(verifyInNode, 'node'))
            return { mutation, inNode: looks.find((look) => isAlike(inPython, look)) ?? inNode, inPython }
          }),
        )
        for (const { mutation, inNode, inPython } of ends) {
          if (!isAlike(inPython, inNode))
            expect(inPython, `seed ${SEED}, batch ${done}: ${JSON.stringify(mutation)}`).toEqual(inNode)
          codes.set(inNode.code, (codes.get(inNode.code) ?? 0) + 1)
        }
      }
    } finally {
      python.stop()
      await Promise.all(servers.map((server) => server.close()))
      rmSync(folder, { recursive: true })
    }
    console.log(`checkpoints by exit code: ${JSON.stringify(Object.fromEntries([...codes].sort()))}`)
    for (const code of [0, 1, 3]) expect(codes.get(code) ?? 0, `exit ${code}`).toBeGreaterThan(COUNT / 100)
  }, 7_200_000)
})

/** State files of readers who have seen the log up to so many seals; none of who has seen nothing. */
async function writeStates(folder: string): Promise<(string | undefined)[]> {
  const server = await serveChain(WHOLE)
  const states: (string | undefined)[] = [undefined]
  for (const seals of SIZES.keys()) {
    const chain = upTo(WHOLE, seals + 1)
    Object.assign(server, { chain, note: noteOf(chain) })
    const state = join(folder, `seen-${seals + 1}.state`)
    await verifyInNode([server.url, '--state', state, '--pubkey', PUBKEY])
    writeFileSync(state, readFileSync(state, 'utf8').replace(`"${server.url}"`, '"http://a.example"'))
    states.push(state)
  }
  await server.close()
  return states
}

type End = Awaited<ReturnType<typeof outline>>

/**
 * Whether two checks ended alike. On a busy machine one that finds something wrong may have kept before how far
 * it was.
 */
function isAlike(one: End, other: End): boolean {
  const mayHaveKept = one.code === 1 && (one.isSlow || other.isSlow)
  const told = ({ isSlow: _isSlow, remembered, ...end }: End) => (mayHaveKept ? end : { ...end, remembered })
  return isDeepStrictEqual(told(one), told(other))
}

/** What a check ended with, what it rests on, and what it remembers. */
async function outline(verify: Verify, args: readonly string[], state: string) {
  const startedAt = performance.now()
  const { code, words, findings = [], rests_on: restsOn = null } = readReport(await verify(args))
  const isSlow = performance.now() - startedAt >= KEEP_MS
  if (words.includes('failed')) throw new Error(`a verifier crashed on ${args.join(' ')}`)
  const places = findings.map(({ reason, where }) => `${reason} ${where}`).sort()
  const kept = existsSync(state) ? (JSON.parse(readFileSync(state, 'utf8')) as object) : {}
  const remembered = Object.values(kept).map((memory: object) => ({ ...memory, checked_at: 0 }))
  return { code, words, places, restsOn, remembered, isSlow }
}
