import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { createSearch } from '../../client/miner/block-search.ts'
import { mineShares } from '../../client/miner/miner.ts'
import { createProgramRunner, prepareNativeSearch } from '../../client/miner/native-search.ts'
import { BLOCK_NONCES, drawHead } from '../../client/miner/block.ts'
import { isShare } from '../../shared/crypto/pow.ts'
import { FULL } from '../support/full.ts'

const HOME = mkdtempSync(path.join(tmpdir(), 'native-search-'))
const PREFIX = '00112233445566778899aabbccddeeff'
const randomPrefix = (): string => randomBytes(16).toString('hex')

vi.stubEnv('XDG_CACHE_HOME', HOME)
const search = await prepareNativeSearch()
const program = 'program' in search ? search.program : ''
const missing = 'missing' in search ? search.missing : ''
const native = test.skipIf(missing !== '') // a machine without a C compiler or without AVX2 mines by WebAssembly

afterAll(() => {
  vi.unstubAllEnvs()
  rmSync(HOME, { recursive: true, force: true })
})

const sharesOf = (...words: string[]): string[] =>
  Array.from(
    execFileSync(program, words, { maxBuffer: 2 ** 26 })
      .toString()
      .matchAll(/^share (\w+)$/gm),
    ([, nonce = '']) => nonce,
  )

/** What one process hands over whose first run begins at a head, until what came last is enough. */
async function findFrom(
  prefix: string,
  head: string,
  difficultyBits: number,
  isEnough: (nonces: readonly string[], hashes: number) => boolean,
): Promise<string[]> {
  const stopper = new AbortController()
  const found: string[] = []
  let next = head
  const draw = (): string => {
    const drawn = next
    next = drawHead()
    return drawn
  }
  await createProgramRunner(program, draw)({ prefix, difficultyBits }, stopper.signal, (report) => {
    found.push(...report.nonces)
    if (isEnough(report.nonces, report.hashes)) stopper.abort()
  })
  return found
}

describe('the native search', () => {
  const runs = FULL ? 300 : 8

  native(`finds the very shares that the vector search finds, ${runs} times three blocks`, () => {
    const searchBlock = createSearch()
    for (let run = 0; run < runs; run++) {
      const bits = [0, 1, 2, 4, 7, 9, 12, 16][run % 8] ?? 8
      const prefix = randomPrefix()
      const expected: string[] = []
      const range = drawHead().slice(0, 9)
      const start = `${range}00fffe`
      for (const block of ['00fffe', '00ffff', '010000'])
        expected.push(...searchBlock(prefix, range + block, bits))
      expect(sharesOf(prefix, start, String(bits), '3'), `${prefix}:${start}, ${bits} bits`).toEqual(expected)
    }
  })

  native('finds a share of more than 32 bits, and hands over no nonce that has 32 alone', async () => {
    const file = new URL('../vectors/valid/pow-more-than-32-bits.json', import.meta.url)
    const { prefix, nonce } = JSON.parse(readFileSync(file, 'utf8')) as { prefix: string; nonce: string }
    const found = await findFrom(prefix, nonce.slice(0, 15), 33, (nonces) => nonces.length > 0)
    expect(found).toEqual([nonce])
    let hashes = 0
    const handed = await findFrom(
      prefix,
      nonce.slice(0, 15),
      34,
      (_, more) => (hashes += more) > BLOCK_NONCES,
    )
    expect(handed).toEqual([])
  })

  native('goes on in another range at the end of one', async () => {
    let count = 0
    const isEnough = (nonces: readonly string[]) => (count += nonces.length) >= 400
    const shares = await findFrom(PREFIX, 'abcdefghifffffe', 10, isEnough) // the last blocks but one
    const here = shares.filter((nonce) => nonce.startsWith('abcdefghi'))
    expect(here.length).toBeGreaterThan(64) // 128 in two blocks on average
    expect(here.length).toBeLessThan(400)
    expect(new Set(shares).size).toBe(shares.length)
  })

  native('mines on threads', async () => {
    const prefix = randomPrefix()
    const shares = await mineShares({ prefix, difficultyBits: 10, count: 600, threads: 2, program })
    expect(new Set(shares).size).toBe(600)
    for (const nonce of shares) expect(isShare(prefix, nonce, 10)).toBe(true)
  })

  native('ends with what a callback throws', async () => {
    const failure = new Error('no more')
    const onShare = (): never => {
      throw failure
    }
    const order = { prefix: PREFIX, difficultyBits: 8, count: 5, threads: 2, program }
    await expect(mineShares({ ...order, onShare })).rejects.toBe(failure)
  })

  test('that fails while it mines ends the run with an error', async () => {
    const order = { prefix: PREFIX, difficultyBits: 8, count: 5, threads: 2 }
    await expect(mineShares({ ...order, program: '/bin/false' })).rejects.toThrow(
      'the native search ended with 1',
    )
    await expect(mineShares({ ...order, program: path.join(HOME, 'none') })).rejects.toThrow('ENOENT')
  })
})

describe.skipIf(process.platform === 'win32' || process.arch !== 'x64')('a native search', () => {
  /** A compiler that gives a program of this text for every source. */
  function fakeCompiler(name: string, text: string): string {
    const compiler = path.join(HOME, name)
    const put = `printf '%s\\n' '#!/bin/sh' '${text}' > "$out"; chmod 700 "$out"`
    writeFileSync(compiler, `#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; out=$2\n${put}\n`, {
      mode: 0o700,
    })
    return compiler
  }
  const prepareAt = async (name: string, compiler: string): Promise<string> => {
    vi.stubEnv('XDG_CACHE_HOME', path.join(HOME, name))
    const found = await prepareNativeSearch(compiler)
    return 'missing' in found ? found.missing : ''
  }

  test('is missing on a machine without a compiler', async () => {
    expect(await prepareAt('no-compiler', path.join(HOME, 'no-such-cc'))).toContain('ENOENT')
  })

  test('that finds other shares than node:crypto is not used', async () => {
    const reason = await prepareAt('wrong', fakeCompiler('wrong-cc', `echo share ${'0'.repeat(19)}`))
    expect(reason).toBe('the native search and node:crypto disagree about SHA-256')
  })

  test('that another user may have written is not run', async () => {
    const dir = path.join(HOME, 'open/agent-network/miner')
    mkdirSync(dir, { recursive: true })
    chmodSync(dir, 0o777)
    expect(await prepareAt('open', fakeCompiler('any-cc', 'exit 0'))).toContain('may be written by others')
  })
})
