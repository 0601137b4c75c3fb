import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  buildTree,
  foldPath,
  inclusionPath,
  leafHash,
  merkleRoot,
  pathShape,
  verifyInclusion,
  type PathStep,
} from '../../shared/crypto/merkle.ts'
import { hashLeaves } from '../support/merkle-leaves.ts'
import { VECTORS_DIR } from '../support/generate-vectors.ts'

const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const leavesOf = (count: number) =>
  Array.from({ length: count }, (_, index) => sha256(Buffer.from(`leaf ${index}`)))

/**
 * The definition of RFC 6962 section 2.1, without its node byte: split at the largest power of two below the
 * count.
 */
function rootByDefinition(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 1) return leaves[0] as Buffer
  const split = splitOf(leaves.length)
  return sha256(rootByDefinition(leaves.slice(0, split)), rootByDefinition(leaves.slice(split)))
}

/** The definition of RFC 6962 section 2.1.1. */
function pathByDefinition(leaves: readonly Buffer[], index: number): PathStep[] {
  if (leaves.length === 1) return []
  const split = splitOf(leaves.length)
  const left = leaves.slice(0, split)
  const right = leaves.slice(split)
  return index < split
    ? [...pathByDefinition(left, index), { hash: rootByDefinition(right).toString('hex'), side: 'right' }]
    : [
        ...pathByDefinition(right, index - split),
        { hash: rootByDefinition(left).toString('hex'), side: 'left' },
      ]
}

function splitOf(count: number): number {
  let split = 1
  while (2 * split < count) split *= 2
  return split
}

/** Cheap distinct leaves for large trees. */
function numberedLeaves(count: number): Buffer {
  const leaves = Buffer.alloc(count * 32)
  for (let index = 0; index < count; index++) leaves.writeUInt32BE(index, index * 32)
  return leaves
}

describe('the tree', () => {
  // holds: rules.ledger.statements.a_leaf_is_sha_256_of
  it('is that of RFC 6962 for 1 to 70 leaves: root, path and shape of path', () => {
    for (let count = 1; count <= 70; count++) {
      const leaves = leavesOf(count)
      const levels = buildTree(Buffer.concat(leaves))
      expect(levels.at(-1)).toEqual(rootByDefinition(leaves))
      expect(merkleRoot(Buffer.concat(leaves))).toEqual(rootByDefinition(leaves))
      for (let index = 0; index < count; index++) {
        const path = inclusionPath(levels, index)
        expect(path).toEqual(pathByDefinition(leaves, index))
        expect(pathShape(count, index)).toEqual(path.map(({ side }) => side))
      }
    }
  })

  // holds: rules.ledger.statements.a_leaf_is_sha_256_of
  it('hashes an entry after the byte 00, in canonical form', () => {
    const entry = { kind: 'post', id: 7, at: 1, data: { b: 1, a: '\u20ac' } }
    const expected = sha256(
      Buffer.from('00', 'hex'),
      Buffer.from('{"at":1,"data":{"a":"\u20ac","b":1},"id":7,"kind":"post"}'),
    ).toString('hex')
    expect(leafHash(entry)).toBe(expected)
    expect(hashLeaves([entry, entry]).toString('hex')).toBe(expected + expected)
  })

  it('refuses a leaf of anything but an object', () => {
    expect(() => leafHash(['list'])).toThrow('"entry" expected a plain object')
    expect(() => leafHash(null as unknown as object)).toThrow('"entry" expected a plain object')
  })

  it('leaves the leaves it was given as they were', () => {
    const leaves = numberedLeaves(5)
    const before = Buffer.from(leaves)
    merkleRoot(leaves)
    buildTree(leaves)
    expect(leaves).toEqual(before)
  })

  it('refuses no leaves, and half ones', () => {
    for (const bytes of [0, 33]) {
      expect(() => merkleRoot(new Uint8Array(bytes))).toThrow(/at least one/)
      expect(() => buildTree(new Uint8Array(bytes))).toThrow(/at least one/)
    }
  })

  it('refuses an index outside of it', () => {
    const levels = buildTree(numberedLeaves(3))
    for (const index of [-1, 3, 0.5, Number.NaN])
      expect(() => inclusionPath(levels, index)).toThrow(RangeError)
    expect(() => pathShape(0, 0)).toThrow('"count" expected a whole number from 1, got 0')
  })
})

describe('a proof of inclusion', () => {
  const tree = fc
    .integer({ min: 1, max: 40 })
    .chain((count) => fc.tuple(fc.constant(count), fc.nat(count - 1)))

  function proofOf(count: number, index: number) {
    const levels = buildTree(numberedLeaves(count))
    const root = (levels.at(-1) as Buffer).toString('hex')
    return {
      leaf: (levels[0] as Buffer).toString('hex', index * 32, index * 32 + 32),
      path: inclusionPath(levels, index),
      root,
      index,
      count,
    }
  }

  it('holds for every leaf of every tree', () => {
    fc.assert(
      fc.property(
        tree,
        ([count, index]) => void expect(verifyInclusion(proofOf(count, index))).toEqual({ ok: true }),
      ),
    )
  })

  it('holds for no other index', () => {
    fc.assert(
      fc.property(tree, fc.nat(39), ([count, index], other) => {
        fc.pre(other !== index)
        expect(verifyInclusion({ ...proofOf(count, index), index: other })).toMatchObject({ ok: false })
      }),
    )
  })

  it('holds for no other leaf, sibling or root', () => {
    fc.assert(
      fc.property(tree, fc.nat(), ([count, index], place) => {
        const proof = proofOf(count, index)
        const other = 'f'.repeat(64)
        expect(verifyInclusion({ ...proof, leaf: other })).toMatchObject({ reason: 'wrong_root' })
        expect(verifyInclusion({ ...proof, root: other })).toMatchObject({ reason: 'wrong_root' })
        if (proof.path.length === 0) return
        const path = proof.path.map((step, number) =>
          number === place % proof.path.length ? { ...step, hash: other } : step,
        )
        expect(verifyInclusion({ ...proof, path })).toMatchObject({ reason: 'wrong_root' })
      }),
    )
  })

  it('may have no step more or less, even where the root is made to fit', () => {
    fc.assert(
      fc.property(tree, fc.constantFrom('left' as const, 'right' as const), ([count, index], side) => {
        const proof = proofOf(count, index)
        for (const path of [
          [...proof.path, { hash: proof.leaf, side }],
          [{ hash: proof.leaf, side }, ...proof.path],
          ...(proof.path.length > 0 ? [proof.path.slice(1)] : []),
        ]) {
          expect(verifyInclusion({ ...proof, path, root: foldPath(proof.leaf, path) })).toMatchObject({
            reason: 'path_shape',
          })
        }
      }),
    )
  })

  it('says what is malformed instead of throwing', () => {
    const proof = proofOf(7, 2)
    const malformed = [
      { ...proof, root: 'A'.repeat(64) },
      { ...proof, leaf: 7 as unknown as string },
      { ...proof, root: proof.root.slice(1) },
      { ...proof, index: 7 },
      { ...proof, index: -1 },
      { ...proof, count: 0 },
      { ...proof, path: 'none' as unknown as PathStep[] },
      { ...proof, path: new Map() as unknown as PathStep[] },
      { ...proof, path: [null as unknown as PathStep, ...proof.path.slice(1)] },
      { ...proof, path: [{ hash: proof.leaf, side: 'up' as 'left' }, ...proof.path.slice(1)] },
      { ...proof, path: [{ hash: 'ab', side: 'left' as const }, ...proof.path.slice(1)] },
    ]
    for (const parts of malformed)
      expect(verifyInclusion(parts)).toMatchObject({ ok: false, reason: 'malformed_proof' })
  })

  const vectors = ['valid', 'invalid'].flatMap((folder) =>
    readdirSync(`${VECTORS_DIR}/${folder}`)
      .filter((name) => name.startsWith('proof-'))
      .map((name) => ({
        name,
        ...(JSON.parse(readFileSync(`${VECTORS_DIR}/${folder}/${name}`, 'utf8')) as ReturnType<
          typeof proofOf
        > & {
          entry?: object
          reason?: string
        }),
      })),
  )

  it.each(vectors)('$name gives its verdict', ({ entry, reason, ...proof }) => {
    const verdict =
      entry !== undefined && leafHash(entry) !== proof.leaf
        ? { ok: false, reason: 'wrong_leaf' }
        : verifyInclusion(proof)
    expect(verdict).toMatchObject(reason === undefined ? { ok: true } : { ok: false, reason })
  })
})
