import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const ROOT = path.resolve(import.meta.dirname, '../..')
/** Written into an image when it is built; a checkout has none. */
const COMMIT_FILE = path.join(ROOT, 'build-commit')
const COMMIT = /^[0-9a-f]{7,64}$/
const GIT_LIMIT_MS = 2_000

export interface Build {
  /** Of package.json. */
  version: string
  /** 12 hex characters, or `unknown`. */
  commit: string
}

const packageFile = z.object({ version: z.string() })
let cached: Build | undefined

/** The version and the commit of this program, read once. */
export function readBuild(): Build {
  cached ??= {
    version: packageFile.parse(JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))).version,
    commit: readCommit(),
  }
  return cached
}

export const describeBuild = ({ version, commit }: Build = readBuild()): string => `${version} (${commit})`

/** The commit by the image's file, else by git; `unknown` if neither says. */
function readCommit(): string {
  const text = fs.existsSync(COMMIT_FILE) ? fs.readFileSync(COMMIT_FILE, 'utf8').trim() : askGit()
  return COMMIT.test(text) ? text.slice(0, 12) : 'unknown'
}

/**
 * The commit of the checkout by git; empty if this isn't one, or git doesn't answer. The folder `.git` is
 * required, since the program may lie inside of another project's checkout.
 */
function askGit(): string {
  if (!fs.existsSync(path.join(ROOT, '.git'))) return ''
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], {
      cwd: ROOT,
      encoding: 'utf8',
      timeout: GIT_LIMIT_MS,
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return '' // no git, or another user's checkout
  }
}
