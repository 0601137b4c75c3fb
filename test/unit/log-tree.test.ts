import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  createLogTree,
  edgeTiles,
  EMPTY_LOG_ROOT,
  logConsistencyPath,
  logInclusionPath,
  logNodeHash,
  logRoot,
  logRootFromTiles,
  listLogTiles,
  parseTilePlace,
  tilePath,
  tilesForConsistency,
  tilesForInclusion,
  verifyLogConsistency,
  verifyLogInclusion,
  type ReadTile,
} from '../../shared/crypto/log-tree.ts'
import type { TileAddress } from '../../shared/crypto/merkle.ts'

const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const leafOf = (bytes: Uint8Array) => sha256(Buffer.of(0), bytes)
const leavesOf = (count: number) =>
  Array.from({ length: count }, (_, index) => leafOf(Buffer.from(`entry ${index}`)))

function splitOf(count: number): number {
  let split = 1
  while (2 * split < count) split *= 2
  return split
}

const roots = new Map<string, Buffer>()

/** MTH of RFC 6962 section 2.1 over leaves `from` to before `to`, as it is defined. */
function rootByDefinition(leaves: readonly Buffer[], from = 0, to = leaves.length): Buffer {
  if (to === from) return sha256()
  if (to - from === 1) return leaves[from] as Buffer
  const place = `${from}-${to}`
  const known = leaves === SOME ? roots.get(place) : undefined
  if (known !== undefined) return known
  const middle = from + splitOf(to - from)
  const root = sha256(
    Buffer.of(1),
    rootByDefinition(leaves, from, middle),
    rootByDefinition(leaves, middle, to),
  )
  if (leaves === SOME) roots.set(place, root)
  return root
}

/** PATH of section 2.1.1. */
function pathByDefinition(leaves: readonly Buffer[], index: number, from = 0, to = leaves.length): Buffer[] {
  if (to - from === 1) return []
  const middle = from + splitOf(to - from)
  return from + index < middle
    ? [...pathByDefinition(leaves, index, from, middle), rootByDefinition(leaves, middle, to)]
    : [...pathByDefinition(leaves, from + index - middle, middle, to), rootByDefinition(leaves, from, middle)]
}

/** SUBPROOF of section 2.1.2. */
function consistencyByDefinition(
  leaves: readonly Buffer[],
  old: number,
  from = 0,
  to = leaves.length,
  whole = true,
): Buffer[] {
  if (old === to - from) return whole ? [] : [rootByDefinition(leaves, from, to)]
  const split = splitOf(to - from)
  return old <= split
    ? [
        ...consistencyByDefinition(leaves, old, from, from + split, whole),
        rootByDefinition(leaves, from + split, to),
      ]
    : [
        ...consistencyByDefinition(leaves, old - split, from + split, to, false),
        rootByDefinition(leaves, from, from + split),
      ]
}

const hexOf = (path: readonly Buffer[]) => path.map((hash) => hash.toString('hex')).join()

const SOME = leavesOf(70)

/** Tiles of a log, as they are after each of the sizes at which it was written. */
function grow(leaves: readonly Buffer[], sizes: readonly number[] = [leaves.length]) {
  const tiles = new Map<string, Buffer>()
  const tree = createLogTree()
  for (const size of sizes) {
    for (const tile of [...tree.append(Buffer.concat(leaves.slice(tree.size, size))), ...tree.edge()])
      tiles.set(`${tile.level}/${tile.index}`, tile.hashes)
  }
  const readTile: ReadTile = ({ level, index }) => tiles.get(`${level}/${index}`)
  return { tree, tiles, readTile }
}

describe('the log of RFC 6962', () => {
  it('has the roots that other implementations agree on', () => {
    const inputs = [
      '',
      '00',
      '10',
      '2021',
      '3031',
      '40414243',
      '5051525354555657',
      '606162636465666768696a6b6c6d6e6f',
    ]
    const leaves = inputs.map((hex) => leafOf(Buffer.from(hex, 'hex')))
    const found = leaves.map((_, last) => logRoot(Buffer.concat(leaves.slice(0, last + 1))).toString('hex'))
    expect([EMPTY_LOG_ROOT.toString('hex'), ...found]).toEqual([
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
      'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
      'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
      '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
      '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
      'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
      '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
    ])
  })

  it('gives root and proofs of the definition for each leaf and each older size of 1 to 70 leaves', () => {
    const { readTile } = grow(SOME)
    for (let size = 1; size <= SOME.length; size++) {
      const leaves = SOME.slice(0, size)
      const root = rootByDefinition(SOME, 0, size)
      expect(logRoot(Buffer.concat(leaves))).toEqual(root)
      expect(logRootFromTiles(size, readTile)).toEqual(root)
      for (let index = 0; index < size; index++) {
        const path = logInclusionPath(index, size, readTile)
        expect(hexOf(path)).toBe(hexOf(pathByDefinition(SOME, index, 0, size)))
        expect(verifyLogInclusion({ leaf: SOME[index] as Buffer, index, size, path, root })).toBe(true)
      }
      for (let old = 1; old <= size; old++) {
        const path = logConsistencyPath(old, size, readTile)
        expect(hexOf(path)).toBe(hexOf(consistencyByDefinition(SOME, old, 0, size)))
        expect(
          verifyLogConsistency({ size: old, root: rootByDefinition(SOME, 0, old) }, { size, root }, path),
        ).toBe(true)
      }
      expect(verifyLogConsistency({ size: 0, root: EMPTY_LOG_ROOT }, { size, root }, [])).toBe(true)
    }
  })

  it('takes no inclusion proof for another leaf, index, size or root, nor one hash more or less', () => {
    const { readTile } = grow(SOME)
    for (let size = 1; size <= 20; size++) {
      const root = rootByDefinition(SOME, 0, size)
      for (let index = 0; index < size; index++) {
        const leaf = SOME[index] as Buffer
        const path = logInclusionPath(index, size, readTile)
        const good = { leaf, index, size, path, root }
        const wrong = [
          { ...good, leaf: SOME[index + 1] as Buffer },
          { ...good, root: rootByDefinition(SOME, 0, size + 1) },
          { ...good, path: [...path, leaf] },
          { ...good, index: size },
          { ...good, index: -1 },
          { ...good, leaf: leaf.subarray(1) },
          ...(path.length > 0
            ? [
                { ...good, path: path.slice(1) },
                { ...good, path: path.slice(0, -1) },
              ]
            : []),
          ...Array.from({ length: size }, (_, other) => ({ ...good, index: other })).filter(
            ({ index: other }) => other !== index,
          ),
        ]
        for (const proof of wrong) expect(verifyLogInclusion(proof)).toBe(false)
      }
    }
  })

  it('takes no consistency proof for another size or root, nor one hash more or less', () => {
    const { readTile } = grow(SOME)
    for (let size = 1; size <= 20; size++) {
      const to = { size, root: rootByDefinition(SOME, 0, size) }
      for (let old = 1; old < size; old++) {
        const from = { size: old, root: rootByDefinition(SOME, 0, old) }
        const path = logConsistencyPath(old, size, readTile)
        const other = SOME[60] as Buffer
        expect(verifyLogConsistency({ ...from, root: other }, to, path)).toBe(false)
        expect(verifyLogConsistency(from, { ...to, root: other }, path)).toBe(false)
        expect(verifyLogConsistency(from, to, [...path, other])).toBe(false)
        expect(verifyLogConsistency(from, to, path.slice(1))).toBe(false)
        expect(verifyLogConsistency(from, to, path.slice(0, -1))).toBe(false)
        expect(verifyLogConsistency(to, from, path)).toBe(false)
        for (let at = 0; at < path.length; at++)
          expect(verifyLogConsistency(from, to, path.with(at, other))).toBe(false)
      }
      expect(verifyLogConsistency({ size, root: SOME[60] as Buffer }, to, [])).toBe(false)
      expect(verifyLogConsistency({ size: 0, root: SOME[60] as Buffer }, to, [])).toBe(false)
      expect(verifyLogConsistency({ size: 0, root: EMPTY_LOG_ROOT }, to, [to.root])).toBe(false)
    }
  })

  it('refuses an index or size outside the log', () => {
    const { readTile } = grow(SOME)
    for (const index of [-1, 70, 1.5, Number.NaN])
      expect(() => logInclusionPath(index, 70, readTile)).toThrow(RangeError)
    for (const old of [-1, 71, 1.5, Number.NaN])
      expect(() => logConsistencyPath(old, 70, readTile)).toThrow(RangeError)
    expect(() => logInclusionPath(0, 70, () => undefined)).toThrow('tile 0/0 is missing')
    expect(() => logNodeHash(Buffer.alloc(31), Buffer.alloc(32))).toThrow('"left" expected 32 bytes')
  })
})

describe('the tiles of C2SP tlog-tiles', () => {
  const many = Buffer.alloc(66_000 * 32)
  for (let index = 0; index < 66_000; index++) many.writeUInt32BE(index, index * 32)

  it('are those of the example: 273 full and one of 112, one full and one of 17, and one of 1', () => {
    const all = [...listLogTiles(70_000)]
    const partial = [
      { level: 0, index: 273, width: 112 },
      { level: 1, index: 1, width: 17 },
      { level: 2, index: 0, width: 1 },
    ]
    expect(all.filter(({ width }) => width < 256)).toEqual(partial)
    expect(edgeTiles(70_000)).toEqual(partial)
    expect(all.filter(({ level, width }) => level === 0 && width === 256)).toHaveLength(273)
    expect(all.filter(({ level, width }) => level === 1 && width === 256)).toHaveLength(1)
    expect([...listLogTiles(256)]).toEqual([
      { level: 0, index: 0, width: 256 },
      { level: 1, index: 0, width: 1 },
    ])
  })

  it('give the root and the proofs of the whole, however the log was written', () => {
    const tiles = new Map<string, Buffer>()
    let tree = createLogTree()
    for (const size of [1, 255, 256, 257, 512, 65_535, 65_536, 66_000]) {
      for (const { level, index, hashes } of [
        ...tree.append(many.subarray(tree.size * 32, size * 32)),
        ...tree.edge(),
      ]) {
        const before = tiles.get(`${level}/${index}`) ?? Buffer.alloc(0)
        // A tile only grows.
        expect(hashes.subarray(0, before.length).equals(before)).toBe(true)
        tiles.set(`${level}/${index}`, hashes)
      }
      expect([...tiles.keys()].toSorted()).toEqual(
        [...listLogTiles(size)].map(({ level, index }) => `${level}/${index}`).toSorted(),
      )
      const root = logRoot(many.subarray(0, size * 32))
      expect(tree.root()).toEqual(root)
      const read = (wanted: TileAddress[]): ReadTile => {
        const allowed = new Set(wanted.map(({ level, index }) => `${level}/${index}`))
        return ({ level, index }) =>
          allowed.has(`${level}/${index}`) ? tiles.get(`${level}/${index}`) : undefined
      }
      for (const index of [0, 1, 254, 255, 256, 65_535, 65_536, size - 1].filter((at) => at < size)) {
        const wanted = tilesForInclusion(index, size)
        const path = logInclusionPath(index, size, read(wanted))
        expect(
          verifyLogInclusion({ leaf: many.subarray(index * 32, (index + 1) * 32), index, size, path, root }),
        ).toBe(true)
      }
      for (const old of [1, 2, 255, 256, 300, size].filter((at) => at <= size)) {
        const path = logConsistencyPath(old, size, read(tilesForConsistency(old, size)))
        expect(
          verifyLogConsistency(
            { size: old, root: logRoot(many.subarray(0, old * 32)) },
            { size, root },
            path,
          ),
        ).toBe(true)
      }
      // Whoever comes next goes on from the edge.
      tree = createLogTree(
        size,
        edgeTiles(size).map(({ level, index }) => tiles.get(`${level}/${index}`)),
      )
    }
  })

  it('proves that 10^6 entries begin with 10^3 in at most 40 hashes', () => {
    expect(tilesForConsistency(1000, 1_000_000).length).toBeLessThanOrEqual(6)
    const zeros = Buffer.alloc(256 * 32)
    expect(logConsistencyPath(1000, 1_000_000, () => zeros).length).toBeLessThanOrEqual(40)
  })

  it('refuses to go on from an edge of another shape', () => {
    expect(() => createLogTree(257, [Buffer.alloc(32)])).toThrow('tile 1/0 expected 1 hashes')
    expect(() => createLogTree(2, [Buffer.alloc(32)])).toThrow('tile 0/0 expected 2 hashes')
  })

  it('have the paths of the specification, and no other', () => {
    expect(tilePath({ level: 0, index: 1_234_067, width: 256 })).toBe('tile/0/x001/x234/067')
    expect(tilePath({ level: 'entries', index: 0, width: 5 })).toBe('tile/entries/000.p/5')
    for (const index of [0, 7, 999, 1000, 1_234_067, 999_999_999])
      for (const width of [1, 255, 256])
        expect(parseTilePlace(tilePath({ level: 3, index, width }).slice('tile/3/'.length))).toEqual({
          index,
          width,
        })
    for (const wrong of [
      '',
      '0',
      '00',
      '1000',
      'x000/001',
      'x001',
      '001/002',
      '000.p/0',
      '000.p/256',
      '000.p/01',
      '000.p/',
      '000.p/5/',
      '-01',
      'x00a/001',
    ])
      expect(parseTilePlace(wrong), wrong).toBeUndefined()
  })
})
