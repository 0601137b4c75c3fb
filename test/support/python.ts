import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { cacheDir } from '../../scripts/prepare.mjs'

export interface Finished {
  /** Exit code; -1 where it did not run to its end. */
  code: number
  output: string
}

/** Runs a program to its end, or for at most `limitMs`. */
export function runProgram(
  program: string,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; limitMs: number; onOutput?: (text: string) => void },
): Promise<Finished> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.limitMs,
      ...(options.env === undefined ? {} : { env: options.env }),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8')
      stream.on('data', (text: string) => {
        output += text
        options.onOutput?.(text)
      })
    }
    child.on('error', (error) => resolve({ code: -1, output: `${program} does not run: ${error.message}` }))
    child.on('close', (code, signal) =>
      resolve({
        code: code ?? -1,
        output: signal === null ? output : `${output}\nended by ${signal} after ${options.limitMs} ms`,
      }),
    )
  })
}

/** Why no Python environment can be made here, or undefined where one can. */
export function whyNoPython(): string | undefined {
  const asked = spawnSync(
    'python3',
    ['-c', 'import sys, venv, ensurepip; print(sys.version_info >= (3, 10))'],
    {
      encoding: 'utf8',
      timeout: 60_000,
    },
  )
  if (asked.error !== undefined) return 'there is no python3 here'
  if (asked.status !== 0) return 'python3 here cannot make an environment (it has no venv or no ensurepip)'
  return asked.stdout.trim() === 'True' ? undefined : 'python3 here is older than 3.10'
}

const INSTALL_LIMIT_MS = 180_000

/** Of a package that is to be had in an environment of its own: where that lies below the project's cache. */
function environmentOf(packageName: string, version: string): string {
  return path.join(cacheDir(process.env), `python-${packageName}-${version}`)
}

/** A program of such an environment, or undefined while it has not been made. */
export function findPythonProgram(packageName: string, version: string, program: string): string | undefined {
  const home = environmentOf(packageName, version)
  return fs.existsSync(path.join(home, 'complete')) ? path.join(home, 'bin', program) : undefined
}

/**
 * A program of a Python package in an environment of its own below the project's cache, made once; one that
 * was left half made is made anew.
 *
 * @param beside other packages that go into it
 * @throws Error with pip's last lines where the package cannot be had
 */
export async function preparePythonProgram(
  packageName: string,
  version: string,
  program: string,
  beside: readonly string[] = [],
): Promise<string> {
  const found = findPythonProgram(packageName, version, program)
  if (found !== undefined) return found
  const home = environmentOf(packageName, version)
  // An environment holds its own path, so it is made where it stays; the mark comes last.
  fs.mkdirSync(path.dirname(home), { recursive: true })
  const made = await runProgram('python3', ['-m', 'venv', '--clear', home], { limitMs: INSTALL_LIMIT_MS })
  if (made.code !== 0) throw new Error(`python3 made no environment: ${lastLines(made.output)}`)
  const pip = await runProgram(
    path.join(home, 'bin', 'python'),
    [
      '-m',
      'pip',
      'install',
      '--quiet',
      '--no-input',
      '--disable-pip-version-check',
      '--retries',
      '2',
      `${packageName}==${version}`,
      ...beside,
    ],
    { limitMs: INSTALL_LIMIT_MS },
  )
  if (pip.code !== 0)
    throw new Error(`pip could not install ${packageName} ${version}: ${lastLines(pip.output)}`)
  fs.writeFileSync(path.join(home, 'complete'), '')
  return path.join(home, 'bin', program)
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-5).join('\n')
}
