/**
 * `npm run harness -- found --check NAME --what TEXT --mended COMMIT --shown COMMAND [--seed S]`: adds a bug that
 * was found to TRACK-RECORD.md. It is refused if there is no such commit.
 *
 * `npm run harness -- found --again [COMMIT,…]` shows bugs again: each on record, or those that these commits
 * mended. It takes the tests that a mend changed and runs them twice. On the commit before the mend one of them must
 * fail; on the mend all must pass. Each bug takes a checkout and an installation. The command exits with 1 if a bug
 * doesn't show or isn't mended.
 */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const RECORD = fileURLToPath(new URL('TRACK-RECORD.md', import.meta.url))
const text = { type: 'string' } as const
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { check: text, seed: text, what: text, mended: text, shown: text, again: { type: 'boolean' } },
})
if (values.again === true) showAgain(positionals[0]?.split(',') ?? readMends())
else add()

function add(): void {
  const { check, seed = '–', what, mended, shown } = values
  if (check === undefined || what === undefined || mended === undefined || shown === undefined)
    stop('expected --check, --what, --mended and --shown, or --again')
  if (git('cat-file', '-e', `${mended}^{commit}`) === undefined)
    stop(`--mended expected a commit, got ${mended}`)
  const cells = [check, seed, what, `\`${mended}\``, `\`${shown}\``].map((cell) =>
    cell.replaceAll('|', '\\|'),
  )
  fs.appendFileSync(RECORD, `| ${cells.join(' | ')} |\n`)
  process.stdout.write(`added to ${RECORD}\n`)
}

/** The commits of the record's column "mended in". */
function readMends(): string[] {
  const rows = fs.readFileSync(RECORD, 'utf8').matchAll(/^\|.*\| ((?:`[0-9a-f]{7,}`(?:, )?)+) \| `[^|]*\|$/gm)
  return [...rows].flatMap(([, mends = '']) => [...mends.matchAll(/`(\w+)`/g)].map(([, mend = '']) => mend))
}

function showAgain(mends: readonly string[]): void {
  for (const mend of mends) {
    const tests = git('show', '--format=', '--name-only', '--diff-filter=d', mend, '--', 'test/')
      ?.split('\n')
      .filter((file) => file.endsWith('.test.ts'))
    if (tests === undefined) stop(`expected commits, got ${mend}`)
    const { isShown, text: outcome } =
      tests.length === 0 ? { isShown: true, text: 'was mended without a test' } : tryMend(mend, tests)
    process.stdout.write(`${mend} ${outcome}\n`)
    if (!isShown) process.exitCode = 1
  }
}

/** Runs tests before and after a mend, in a checkout that is removed at the end. */
function tryMend(mend: string, tests: readonly string[]): { isShown: boolean; text: string } {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'found-'))
  const passes = (): boolean =>
    spawnSync('npm', ['test', '--', ...tests], {
      cwd: folder,
      // Its own Node, and not the one of this checkout.
      env: { ...process.env, PATH: `${folder}/node_modules/.bin:${process.env['PATH']}` },
    }).status === 0
  try {
    if (git('worktree', 'add', '--detach', '--force', folder, `${mend}^`) === undefined)
      return { isShown: false, text: 'NOT tried: the commit before it is not here' }
    if (spawnSync('npm', ['ci'], { cwd: folder }).status !== 0)
      return { isShown: false, text: 'NOT tried: npm ci failed' }
    git('-C', folder, 'checkout', mend, '--', 'test')
    if (passes()) return { isShown: false, text: `NOT shown by ${tests.join(' ')} on the commit before it` }
    git('-C', folder, 'checkout', '--force', '--detach', mend)
    return passes()
      ? { isShown: true, text: `shown by ${tests.join(' ')}` }
      : { isShown: false, text: `NOT mended by itself: ${tests.join(' ')} fail` }
  } finally {
    git('worktree', 'remove', '--force', folder)
  }
}

/** Runs git in this checkout. @returns its output; undefined if it fails */
function git(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}

/** Ends the command with 2 and a message. */
function stop(message: string): never {
  process.stderr.write(`found: ${message}\n`)
  process.exit(2)
}
