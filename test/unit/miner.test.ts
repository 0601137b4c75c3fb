import { execFile } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { drawHead, searchBlockPlainly } from '../../client/miner/block.ts'
import { createSearch, createSimdSearch } from '../../client/miner/block-search.ts'
import { mineShares, solveWork } from '../../client/miner/miner.ts'
import type { MiningProgress } from '../../client/work-bound.ts'
import {
  assembleModule,
  canRunSimd,
  encodeSigned,
  encodeUnsigned,
  getLocal,
  i32,
} from '../../client/miner/wasm-module.ts'
import { isShare } from '../../shared/crypto/pow.ts'
import { FULL } from '../support/full.ts'

const BLOCK_NONCES = 65_536
const PREFIX = '00112233445566778899aabbccddeeff'
const randomPrefix = (): string => randomBytes(16).toString('hex')

/** The rule once more, by its words alone: no code of the miner's or of the verifier's. */
function hashWholeBlock(prefix: string, head: string, bits: number): string[] {
  const shares: string[] = []
  for (let i = 0; i < BLOCK_NONCES; i++) {
    const nonce = head + i.toString(16).padStart(4, '0')
    const first = Number.parseInt(hash('sha256', `${prefix}:${nonce}`, 'hex').slice(0, 8), 16)
    if (first < 2 ** (32 - bits)) shares.push(nonce)
  }
  return shares
}

describe('the vector search', () => {
  const blocks = FULL ? 1_000 : 8

  test(
    `finds the very shares that node:crypto finds among ${blocks * BLOCK_NONCES} nonces`,
    { timeout: 600_000 },
    () => {
      expect(canRunSimd()).toBe(true)
      const search = createSimdSearch()
      let found = 0
      for (let block = 0; block < blocks; block++) {
        const prefix = randomPrefix()
        const head = drawHead()
        const shares = search(prefix, head, 8)
        expect(shares, `${prefix}:${head}`).toEqual(hashWholeBlock(prefix, head, 8))
        found += shares.length
      }
      expect(found).toBeGreaterThan(blocks * 128) // 256 a block on average
    },
  )

  test('is exact at every difficulty, also where every nonce is a share', () => {
    const search = createSimdSearch()
    for (const bits of [0, 1, 2, 4, 7, 12, 16]) {
      expect(search(PREFIX, 'zzzzzzzzzfffffe', bits)).toEqual(hashWholeBlock(PREFIX, 'zzzzzzzzzfffffe', bits))
    }
  })

  test('looks at the whole digest where the difficulty is above 32 bits', () => {
    const file = new URL('../vectors/valid/pow-more-than-32-bits.json', import.meta.url)
    const { prefix, nonce } = JSON.parse(readFileSync(file, 'utf8')) as { prefix: string; nonce: string }
    const search = createSimdSearch()
    expect(search(prefix, nonce.slice(0, 15), 32)).toEqual([nonce])
    expect(search(prefix, nonce.slice(0, 15), 33)).toEqual([nonce])
    expect(search(prefix, nonce.slice(0, 15), 34)).toEqual([])
    expect(search(prefix, nonce.slice(0, 15), 256)).toEqual([])
  })

  test('is what createSearch gives here, and plain hashing finds the same', () => {
    const expected = hashWholeBlock(PREFIX, 'abcdefghi000000', 9)
    expect(createSearch()).not.toBe(searchBlockPlainly)
    expect(createSearch()(PREFIX, 'abcdefghi000000', 9)).toEqual(expected)
    expect(searchBlockPlainly(PREFIX, 'abcdefghi000000', 9)).toEqual(expected)
  })

  test('refuses a malformed prefix, head or difficulty', () => {
    for (const search of [createSimdSearch(), searchBlockPlainly]) {
      expect(() => search('00', 'abcdefghi000000', 9)).toThrow('"prefix"')
      for (const head of ['', 'abcdefghi00000', 'abcdefghi0000000', 'Abcdefghi000000', 'äbcdefghi000000']) {
        expect(() => search(PREFIX, head, 9)).toThrow('"head" must be 15 characters of 0-9 a-z')
      }
      expect(() => search(PREFIX, 'abcdefghi000000', 257)).toThrow('"difficultyBits"')
    }
  })
})

describe('mineShares', () => {
  test('finds as many different shares as asked on threads and hands each over as it is found', async () => {
    const prefix = randomPrefix()
    const handed: string[] = []
    const shares = await mineShares({
      prefix,
      difficultyBits: 16,
      count: 40,
      threads: 2,
      onShare: (nonce) => handed.push(nonce),
    })
    expect(shares).toHaveLength(40)
    expect(new Set(shares).size).toBe(40)
    expect(handed).toEqual(shares)
    for (const nonce of shares) expect(isShare(prefix, nonce, 16)).toBe(true)
  })

  test('reports the hashes, the rate, the shares and the time left', async () => {
    const reports: MiningProgress[] = []
    await mineShares({
      prefix: PREFIX,
      difficultyBits: 16,
      count: 20,
      threads: 1,
      progressMs: 0,
      onProgress: (report) => reports.push(report),
    })
    const last = reports.at(-1)
    expect(last?.sharesFound).toBe(20)
    expect(last?.secondsLeft).toBe(0)
    for (const report of reports) {
      expect(report.hashes % BLOCK_NONCES).toBe(0)
      const left = ((20 - report.sharesFound) * 2 ** 16) / report.hashesPerSecond
      expect(report.secondsLeft).toBeCloseTo(left, 6)
    }
  })

  test.each([1, undefined])('stops with the reason of its signal (threads: %s)', async (threads) => {
    const stopper = new AbortController()
    const reason = new Error('enough')
    let last: MiningProgress | undefined
    // 2^22 hashes at most are done on the caller's thread; one of its own goes on until this one gets to hear
    // of a share.
    const count = threads === undefined ? 1_000 : 1_000_000
    const run = mineShares({
      prefix: PREFIX,
      difficultyBits: 12,
      count,
      ...(threads === undefined ? {} : { threads }),
      signal: stopper.signal,
      onShare: () => stopper.abort(reason),
      onProgress: (progress) => (last = progress),
    })
    await expect(run).rejects.toBe(reason)
    expect(last?.sharesFound).toBeGreaterThan(0)
    expect(last?.sharesFound).toBeLessThan(count)
  })

  test('does not begin when its signal was aborted before', async () => {
    const reason = new Error('never')
    let reports = 0
    const signal = AbortSignal.abort(reason)
    const run = mineShares({
      prefix: PREFIX,
      difficultyBits: 8,
      count: 1,
      signal,
      onProgress: () => reports++,
    })
    await expect(run).rejects.toBe(reason)
    expect(reports).toBe(0)
  })

  test.each([1, 2, undefined])(
    'ends with what a callback throws and calls it no more (threads: %s)',
    async (threads) => {
      const failure = new Error('the disk is full')
      let calls = 0
      const onShare = (): void => {
        calls++
        throw failure
      }
      const order = { prefix: PREFIX, difficultyBits: 8, count: 10_000, onShare }
      await expect(mineShares(threads === undefined ? order : { ...order, threads })).rejects.toBe(failure)
      expect(calls).toBe(1)
    },
  )

  test('refuses a malformed order', async () => {
    const order = { prefix: PREFIX, difficultyBits: 8, count: 1 }
    await expect(mineShares({ ...order, prefix: 'x' })).rejects.toThrow('"prefix"')
    await expect(mineShares({ ...order, difficultyBits: 300 })).rejects.toThrow('"difficultyBits"')
    await expect(mineShares({ ...order, count: 0 })).rejects.toThrow(
      '"count" must be an integer from 1, got 0',
    )
    await expect(mineShares({ ...order, threads: 1.5 })).rejects.toThrow(
      '"threads" must be an integer from 1, got 1.5',
    )
  })
})

test(
  'mines by plain hashing, on threads and without, where the engine lacks vectors',
  { timeout: 60_000 },
  async () => {
    const prefix = randomPrefix()
    const script = `
    import { createSearch } from ${JSON.stringify(new URL('../../client/miner/block-search.ts', import.meta.url))}
    import { searchBlockPlainly } from ${JSON.stringify(new URL('../../client/miner/block.ts', import.meta.url))}
    import { canRunSimd } from ${JSON.stringify(new URL('../../client/miner/wasm-module.ts', import.meta.url))}
    import { solveWork } from ${JSON.stringify(new URL('../../client/miner/miner.ts', import.meta.url))}
    const order = { prefix: '${prefix}', difficultyBits: 12 }
    console.log(canRunSimd(), createSearch() === searchBlockPlainly, await solveWork(order), await solveWork({ ...order, threads: 1 }))`
    // Node itself strips types with WebAssembly, so the engine keeps it and says no to the probe; threads
    // inherit that.
    const engine = 'data:text/javascript,WebAssembly.validate = () => false'
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--import',
      engine,
      '--input-type=module',
      '-e',
      script,
    ])
    const [simd, plain, ownThread = '', thread = ''] = stdout.trim().split(' ')
    expect([simd, plain]).toEqual(['false', 'true'])
    expect(isShare(prefix, ownThread, 12)).toBe(true)
    expect(isShare(prefix, thread, 12)).toBe(true)
  },
)

test('solveWork finds it on a thread of a process that was given options of V8', async () => {
  const prefix = randomPrefix()
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--max-old-space-size=512',
    fileURLToPath(new URL('../support/mine-on-thread.ts', import.meta.url)),
    prefix,
  ])
  expect(isShare(prefix, stdout.trim(), 8)).toBe(true)
})

test('solveWork finds the one nonce that a registration needs', async () => {
  const prefix = randomPrefix()
  expect(isShare(prefix, await solveWork({ prefix, difficultyBits: 18 }), 18)).toBe(true)
  expect(isShare(prefix, await solveWork({ prefix, difficultyBits: 18, threads: 2 }), 18)).toBe(true)
})

test('the head of a block is drawn from all of 0-9 a-z, ends with 6 hex digits and never comes twice', () => {
  const drawn = Array.from({ length: 2000 }, drawHead)
  for (const head of drawn) expect(head).toMatch(/^[0-9a-z]{9}[0-9a-f]{6}$/)
  expect(new Set(drawn).size).toBe(2000)
  expect(new Set(drawn.join('')).size).toBe(36)
})

describe('the assembler', () => {
  test('encodes integers as LEB128, as the standard gives them', () => {
    expect(encodeUnsigned(0)).toEqual([0])
    expect(encodeUnsigned(127)).toEqual([0x7f])
    expect(encodeUnsigned(128)).toEqual([0x80, 0x01])
    expect(encodeUnsigned(624_485)).toEqual([0xe5, 0x8e, 0x26])
    expect(encodeUnsigned(0xffffffff)).toEqual([0xff, 0xff, 0xff, 0xff, 0x0f])
    expect(encodeSigned(63)).toEqual([0x3f])
    expect(encodeSigned(64)).toEqual([0xc0, 0x00])
    expect(encodeSigned(-1)).toEqual([0x7f])
    expect(encodeSigned(-64)).toEqual([0x40])
    expect(encodeSigned(-123_456)).toEqual([0xc0, 0xbb, 0x78])
    expect(encodeSigned(-(2 ** 31))).toEqual([0x80, 0x80, 0x80, 0x80, 0x78])
  })

  test('refuses integers that have no such encoding', () => {
    for (const bad of [-1, 0.5, 2 ** 32, NaN]) expect(() => encodeUnsigned(bad)).toThrow('expected u32')
    for (const bad of [0.5, 2 ** 31, -(2 ** 31) - 1, NaN])
      expect(() => encodeSigned(bad)).toThrow('expected i32')
  })

  test('writes the module that the standard describes, byte for byte', () => {
    const body = i32.add(getLocal(0), i32.const(-1))
    const bytes = assembleModule({ name: 'f', params: 1, i32Locals: 0, v128Locals: 2, body }, 65_537)
    const expected = [
      '0061736d01000000', // magic and version
      '0106' + '01' + '60017f017f', // type: (i32) → i32
      '0302' + '0100', // function 0 has type 0
      '0503' + '010002', // two pages
      '070e' + '02' + '01660000' + '066d656d6f72790200', // exports "f" and "memory"
      '0a0d' + '01' + '0b' + '02007f027b' + '2000417f6a0b', // code: locals, then get 0, const -1, add, end
    ]
    expect(Buffer.from(bytes).toString('hex')).toBe(expected.join(''))
  })
})
