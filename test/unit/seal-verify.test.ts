import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { buildBundle, hashVerifiers } from '../../client/verify/build-bundle.ts'
import { startNodeVerifier } from '../support/both-verifiers.ts'
import { generateVectors, VECTOR_NAME, VECTORS_DIR, vectorText } from '../support/generate-vectors.ts'
import { describeRules } from '../../shared/about/rules.ts'
import { NODE_VERIFIER, PYTHON_VERIFIER } from '../support/run-verifier.ts'
import { describeVerifier } from '../support/verifier-suite.ts'

describeVerifier('seal-verify.mjs', NODE_VERIFIER, startNodeVerifier)

describe('the vectors of the ledger', () => {
  it.each(['valid', 'invalid'] as const)('that are %s lie there as they are generated', (kind) => {
    const files = readdirSync(`${VECTORS_DIR}/${kind}`).filter((name) => VECTOR_NAME.test(name))
    const vectors = generateVectors()[kind]
    expect(files.sort()).toEqual(
      Object.keys(vectors)
        .map((name) => `${name}.json`)
        .sort(),
    )
    for (const [name, vector] of Object.entries(vectors))
      expect(readFileSync(`${VECTORS_DIR}/${kind}/${name}.json`, 'utf8')).toBe(vectorText(vector))
  })

  it('name a reason where they are invalid, and none where they are valid', () => {
    const { valid, invalid } = generateVectors()
    expect(Object.values(valid).filter((vector) => 'reason' in vector)).toEqual([])
    for (const { reason } of Object.values(invalid)) expect(reason).toMatch(/^[a-z_]+$/)
  })
})

describe('the words of the verifiers', () => {
  it('are listed in the README, each with an invalid vector', () => {
    const readme = readFileSync(new URL('../../client/python/README.md', import.meta.url), 'utf8')
    const rows = readme
      .slice(readme.indexOf('## Words'), readme.indexOf('## Vectors'))
      .split('\n')
      .filter((row) => row.startsWith('| `'))
    const listed = rows.flatMap((row) =>
      [...(row.split('|')[1] as string).matchAll(/`([a-z_]+)`/g)].map(([, word]) => word as string),
    )
    // Of a checkpoint, or a proof that comes beside a receipt: test/interop/log.test.ts meets these.
    const elsewhere = ['log_rewritten', 'wrong_checkpoint', 'wrong_log_proof']
    const met = new Set(Object.values(generateVectors().invalid).map(({ reason }) => reason))
    expect(listed.sort()).toEqual([...met, ...elsewhere].sort())
  })
})

describe('the verifiers as files', () => {
  // holds: rules.ledger.statements.compare_sha_256_of_a_verifier
  // holds: rules.ledger.verifiers.python_seal_verify_py, rules.ledger.verifiers.seal_verify_mjs
  it('have the SHA-256 that client/seal-verify.sha256 and the rules name (after a change: npm run docs)', () => {
    const list = hashVerifiers()
    expect(readFileSync(new URL('../../client/seal-verify.sha256', import.meta.url), 'utf8')).toBe(list)
    const { ledger } = describeRules({ registerBits: 1, shareBits: 1, sharesPerDay: 1 })
    expect(ledger.verifiers.map(({ file, sha256 }) => `${sha256}  ${file}\n`).join('')).toBe(list)
  })

  it('are, in JavaScript, what client/verify is bundled to (after a change: npm run docs)', async () => {
    expect(readFileSync(NODE_VERIFIER[1] as string, 'utf8')).toBe(await buildBundle())
  })

  it('need nothing beside them: the one in Python its library alone', () => {
    const imports = [
      ...readFileSync(PYTHON_VERIFIER[1] as string, 'utf8').matchAll(/^\s*(?:import|from) ([a-z0-9]+)/gm),
    ].map(([, name]) => name)
    const known = [
      'argparse',
      'base64',
      'binascii',
      'calendar',
      'hashlib',
      'http',
      'json',
      'os',
      're',
      'sys',
      'threading',
      'time',
      'urllib',
      'zlib',
      'dataclasses',
      'contextlib',
      'itertools',
    ]
    expect(imports.filter((name) => !known.includes(name as string))).toEqual([])
  })

  it('need nothing beside them: the one in JavaScript the runtime alone', () => {
    const imports = [...readFileSync(NODE_VERIFIER[1] as string, 'utf8').matchAll(/from '([^']+)'/g)].map(
      ([, name]) => name,
    )
    expect(imports.length).toBeGreaterThan(0)
    expect(imports.filter((name) => !name?.startsWith('node:'))).toEqual([])
  })
})
