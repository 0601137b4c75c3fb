import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, compileCacheDir } from '../../scripts/prepare.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface Clone {
  folder: string
  /**
   * The environment of a newcomer: nothing of ours but the folder of downloaded programs, with what Node has
   * compiled, and a home of its own.
   */
  env: NodeJS.ProcessEnv
  remove(): void
}

/**
 * A fresh folder, at a path that comes again: what Node compiled there the last time, it need not compile again,
 * which is a third of what a first session costs.
 */
function makeCloneFolder(): string {
  for (let number = 0; ; number++) {
    const folder = path.join(os.tmpdir(), `agent-network-clone-${number}`)
    try {
      mkdirSync(folder, { mode: 0o700 })
      return folder
    } catch (error) {
      // That of a run beside this one, or of one that was killed.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/**
 * A copy of the checkout as a stranger would have it, with the packages linked in so that nothing is
 * downloaded twice.
 */
export function makeClone(): Clone {
  const folder = makeCloneFolder()
  const project = path.join(folder, 'project')
  const listed = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  if (listed.status !== 0) throw new Error(`git ls-files failed: ${listed.stderr}`)
  for (const file of listed.stdout
    .split('\0')
    .filter((name) => name !== '' && existsSync(path.join(ROOT, name)))) {
    const target = path.join(project, file)
    mkdirSync(path.dirname(target), { recursive: true })
    cpSync(path.join(ROOT, file), target, { preserveTimestamps: true })
  }
  const linked = spawnSync(
    'cp',
    ['-al', path.join(ROOT, 'node_modules'), path.join(project, 'node_modules')],
    { encoding: 'utf8' },
  )
  if (linked.status !== 0)
    cpSync(path.join(ROOT, 'node_modules'), path.join(project, 'node_modules'), { recursive: true })
  const { PATH, LANG } = process.env
  const env = {
    PATH,
    LANG,
    HOME: path.join(folder, 'home'),
    AGENT_NETWORK_CACHE: cacheDir(process.env),
    NODE_COMPILE_CACHE: compileCacheDir(process.env),
  }
  mkdirSync(env.HOME)
  return { folder: project, env, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

export interface RunningStart {
  /** Everything on screen so far. */
  screen(): string
  /**
   * Ctrl-C, as a terminal sends it: to every process of the group. Resolves when the last of them has let go
   * of the screen.
   */
  interrupt(): Promise<void>
}

/** `npm start`, until it says that the network is up. */
export async function npmStart(clone: Clone, env: Record<string, string>): Promise<RunningStart> {
  const child: ChildProcess = spawn('npm', ['start'], {
    cwd: clone.folder,
    env: { ...clone.env, ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let screen = ''
  // npm itself ends by the signal before its script has; `close` waits for everyone who writes to the screen.
  const gone = new Promise<number | null>((resolve) => child.once('close', resolve))
  await new Promise<void>((resolve, reject) => {
    const onData = (chunk: Buffer): void => {
      screen += chunk.toString()
      if (screen.includes('To register an agent')) resolve()
    }
    child.stdout?.on('data', onData)
    child.stderr?.on('data', onData)
    void gone.then((code) => reject(new Error(`npm start ended with ${code}:\n${screen}`)))
  })
  return {
    screen: () => screen,
    async interrupt() {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGINT')
      await gone
    },
  }
}

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

/** `npm run --silent agent -- …` in the clone. */
export function runAgent(clone: Clone, home: string, words: readonly string[]): Finished {
  return run(clone, 'npm', ['run', '--silent', 'agent', '--', ...words], {
    AGENT_HOME: path.join(clone.folder, '..', home),
  })
}

/** `npm run --silent operator -- …` in the clone. */
export function runOperator(clone: Clone, words: readonly string[]): Finished {
  return run(clone, 'npm', ['run', '--silent', 'operator', '--', ...words], {})
}

/** The verifier as a stranger runs it, in a folder of its own. */
export function runSealVerifier(clone: Clone, words: readonly string[]): Finished {
  return run(clone, 'node', [path.join(clone.folder, 'client', 'seal-verify.mjs'), ...words], {})
}

function run(clone: Clone, program: string, words: readonly string[], env: NodeJS.ProcessEnv): Finished {
  const { status, stdout, stderr } = spawnSync(program, words, {
    cwd: clone.folder,
    env: { ...clone.env, ...env },
    encoding: 'utf8',
  })
  return { code: status, stdout, stderr }
}
