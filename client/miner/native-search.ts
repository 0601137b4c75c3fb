/**
 * The search as a program of its own: native-search.c, compiled by this machine's C compiler when it is first
 * wanted, and compared with the platform's hash before each use. It mines several times as fast as
 * WebAssembly, whose vectors have four lanes.
 */
import { execFile, spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { cpus, homedir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { isShare } from '../../shared/crypto/pow.ts'
import type { NativeSearch } from '../mine.ts'
import { drawHead, searchBlockPlainly } from './block.ts'
import { H, K } from './sha256-simd.ts'
import type { RunThread } from './threads.ts'

const SOURCE = new URL('./native-search.c', import.meta.url)
const COMPILER = 'cc'
const COMPILE_MS = 60_000
const CHECK_MS = 10_000
const CHECK_BITS = 6
const OTHERS_MAY_WRITE = 0o022
const SHARES_MAX_BYTES = 2 ** 24

/**
 * Prepares the native search: compiles it, once for each source and processor, and checks what it finds. The
 * program is kept in `$XDG_CACHE_HOME/agent-network/miner` (`~/.cache/…`), a directory that only its owner
 * may write.
 *
 * @param compiler the C compiler's command
 * @returns `missing` with the reason on a machine without such a compiler or such a processor, and if what
 *   was compiled doesn't find what the platform's hash finds: then mine with WebAssembly
 */
export async function prepareNativeSearch(compiler = COMPILER): Promise<NativeSearch> {
  if (process.platform === 'win32' || process.arch !== 'x64')
    return { missing: 'the native search is for x64 processors under Unix' }
  const dir = path.join(
    process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'),
    'agent-network/miner',
  )
  const cpu = cpus()[0]?.model ?? ''
  const version = hash('sha256', `${readFileSync(SOURCE, 'utf8')}${cpu}`, 'hex').slice(0, 16)
  const program = path.join(dir, `search-${version}`)
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    assertOwn(dir)
    if (!existsSync(program)) await compile(compiler, program)
    assertOwn(program)
    await checkAgainstPlatform(program)
    return { program }
  } catch (error) {
    return { missing: error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error) }
  }
}

/**
 * Makes a RunThread that mines with that program, each thread a process of its own.
 *
 * @param draw gives the head at which a run of the program begins
 * @internal
 */
export const createProgramRunner =
  (program: string, draw = drawHead): RunThread =>
  async (order, signal, onReport) => {
    while (!signal.aborted) await searchFrom(draw(), program, order, signal, onReport)
  }

/**
 * Runs the program once: it searches block after block from this head on, to the last of those that differ in their 6 hex
 * digits alone, or until stopped.
 *
 * @throws Error if the program fails
 */
function searchFrom(
  head: string,
  program: string,
  ...[{ prefix, difficultyBits }, signal, onReport]: Parameters<RunThread>
): Promise<void> {
  return new Promise((resolve, reject) => {
    let nonces: string[] = []
    let isAtEnd = false
    const search = spawn(program, [prefix, head, String(difficultyBits)], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {},
    })
    const stop = (): void => void search.kill()
    /** Reads a line of the program: `share NONCE`, `at HEAD HASHES` or, as its last, `end HASHES`. */
    const readLine = (line: string): void => {
      const [word, text = '', count] = line.split(' ')
      if (word === 'share') {
        if (isShare(prefix, text, difficultyBits)) nonces.push(text) // the program checks only 32 bits
        return
      }
      isAtEnd = word === 'end'
      onReport({ hashes: Number(isAtEnd ? text : count), nonces })
      nonces = []
    }
    createInterface({ input: search.stdout }).on('line', (line) => {
      if (signal.aborted) return
      try {
        readLine(line)
      } catch (error) {
        reject(error)
        stop()
      }
    })
    signal.addEventListener('abort', stop, { once: true })
    search.once('error', reject)
    search.once('close', (code, killedBy) => {
      signal.removeEventListener('abort', stop)
      if (isAtEnd || signal.aborted) resolve()
      else reject(new Error(`the native search ended with ${code ?? killedBy}`))
    })
  })
}

/** @throws Error unless this user owns the file, and nobody else may write it */
function assertOwn(file: string): void {
  const { uid, mode } = lstatSync(file)
  if (uid !== process.getuid?.() || (mode & OTHERS_MAY_WRITE) !== 0)
    throw new Error(`${file} may be written by others, so it is not run`)
}

/**
 * Compiles the source into a program; beside its place first, so that nobody runs half of it.
 *
 * @throws Error
 */
async function compile(compiler: string, program: string): Promise<void> {
  const written = `${program}.${randomBytes(6).toString('hex')}.tmp`
  const constants = [`-DK_WORDS=${K.join('u,')}u`, `-DH_WORDS=${H.join('u,')}u`]
  const options = ['-O3', '-march=native', ...constants, '-x', 'c', '-o', written, SOURCE.pathname]
  try {
    await runProgram(compiler, options, COMPILE_MS)
    renameSync(written, program)
  } finally {
    rmSync(written, { force: true })
  }
}

/** Compares what the program finds in one block with node:crypto. @throws Error if they differ */
async function checkAgainstPlatform(program: string): Promise<void> {
  const prefix = hash('sha256', '', 'hex').slice(0, 32)
  const head = drawHead()
  const { stdout } = await runProgram(program, [prefix, head, String(CHECK_BITS), '1'], CHECK_MS)
  const found = Array.from(stdout.matchAll(/^share (\w+)$/gm), ([, nonce]) => nonce)
  if (found.join() !== searchBlockPlainly(prefix, head, CHECK_BITS).join())
    throw new Error('the native search and node:crypto disagree about SHA-256')
}

/** Runs a program to its end. @throws Error if it fails, or takes longer than `timeout` ms */
const runProgram = (program: string, options: string[], timeout: number): Promise<{ stdout: string }> =>
  promisify(execFile)(program, options, { timeout, maxBuffer: SHARES_MAX_BYTES })
