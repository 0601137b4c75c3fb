/**
 * The search as a program of its own: native-search.c, compiled by this machine's C compiler when it is first wanted,
 * and compared with the platform's hash before each use. It mines several times as fast as WebAssembly, whose vectors
 * have four lanes.
 */
import { execFile, spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { cpus, homedir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { isShare } from '../../shared/crypto/pow.ts'
import { searchBlockPlainly } from './block-search.ts'
import { drawPosition } from './position.ts'
import type { RunThread } from './threads.ts'

/** A program to mine with, or the reason why this machine has none. */
export type NativeSearch = { program: string } | { missing: string }

const SOURCE = new URL('./native-search.c', import.meta.url)
const COMPILER = 'cc'
const COMPILE_MS = 60_000
const CHECK_MS = 10_000
const CHECK_BITS = 6
const OTHERS_MAY_WRITE = 0o022
const SHARES_MAX_BYTES = 2 ** 24

/**
 * The native search of this machine, ready to use. Compiled once for each source and processor, in
 * `$XDG_CACHE_HOME/agent-network/miner` (`~/.cache/…`), a directory that only its owner may write.
 *
 * @param compiler the C compiler's command
 * @returns `missing` with the reason on a machine without such a compiler or such a processor, and if what was
 *   compiled doesn't find what the platform's hash finds: then mine with WebAssembly
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

/** Makes a RunThread that mines with that program, each thread a process of its own. */
export const createProgramRunner =
  (program: string): RunThread =>
  async (order, signal, take) => {
    let { position } = order
    while (!signal.aborted) position = await searchRange(program, { ...order, position }, signal, take)
  }

/**
 * Searches from the position to the end of its range, or until stopped.
 *
 * @returns where to go on
 * @throws Error if the program fails
 */
function searchRange(program: string, ...[order, signal, take]: Parameters<RunThread>): Promise<string> {
  const { prefix, difficultyBits, position } = order
  return new Promise((resolve, reject) => {
    let nonces: string[] = []
    let next: string | undefined
    const search = spawn(program, [prefix, position, String(difficultyBits)], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {},
    })
    const stop = (): void => void search.kill()
    const readLine = (line: string): void => {
      const [word, text = '', count] = line.split(' ')
      if (word === 'share') {
        if (isShare(prefix, text, difficultyBits)) nonces.push(text) // the program checks only 32 bits
        return
      }
      if (word === 'end') next = drawPosition()
      take({ position: next ?? text, hashes: Number(next === undefined ? count : text), nonces })
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
      if (next !== undefined || signal.aborted) resolve(next ?? position)
      else reject(new Error(`the native search ended with ${code ?? killedBy}`))
    })
  })
}

function assertOwn(file: string): void {
  const { uid, mode } = lstatSync(file)
  if (uid !== process.getuid?.() || (mode & OTHERS_MAY_WRITE) !== 0)
    throw new Error(`${file} may be written by others, so it is not run`)
}

async function compile(compiler: string, program: string): Promise<void> {
  const written = `${program}.${randomBytes(6).toString('hex')}.tmp`
  const options = ['-O3', '-march=native', '-x', 'c', '-o', written, SOURCE.pathname]
  try {
    await run(compiler, options, COMPILE_MS)
    renameSync(written, program)
  } finally {
    rmSync(written, { force: true })
  }
}

async function checkAgainstPlatform(program: string): Promise<void> {
  const prefix = hash('sha256', '', 'hex').slice(0, 32)
  const head = drawPosition()
  const { stdout } = await run(program, [prefix, head, String(CHECK_BITS), '1'], CHECK_MS)
  const found = Array.from(stdout.matchAll(/^share (\w+)$/gm), ([, nonce]) => nonce)
  if (found.join() !== searchBlockPlainly(prefix, head, CHECK_BITS).join())
    throw new Error('the native search and node:crypto disagree about SHA-256')
}

const run = (program: string, options: string[], timeout: number): Promise<{ stdout: string }> =>
  promisify(execFile)(program, options, { timeout, maxBuffer: SHARES_MAX_BYTES })
