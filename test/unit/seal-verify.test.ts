import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { generateVectors, VECTOR_NAME, VECTORS_DIR, vectorText } from '../support/generate-vectors.ts'
import { NODE_VERIFIER } from '../support/run-verifier.ts'
import { describeVerifier } from '../support/verifier-suite.ts'

describeVerifier('seal-verify.mjs', NODE_VERIFIER)

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
    const listed = rows.flatMap((row) => [...(row.split('|')[1] as string).matchAll(/`([a-z_]+)`/g)].map(([, word]) => word as string))
    const met = new Set(Object.values(generateVectors().invalid).map(({ reason }) => reason))
    expect(listed.sort()).toEqual([...met].sort())
  })
})

describe('seal-verify.mjs as a file', () => {
  it('needs nothing beside it: it imports the runtime alone', () => {
    const imports = [...readFileSync(NODE_VERIFIER[1] as string, 'utf8').matchAll(/from '([^']+)'/g)].map(([, name]) => name)
    expect(imports.length).toBeGreaterThan(0)
    expect(imports.filter((name) => !name?.startsWith('node:'))).toEqual([])
  })
})
