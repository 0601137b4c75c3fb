/** Builds the package `agent-network` into dist/: what runs on Node, what runs in browsers, and the types. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { rolldown, type InputOptions } from 'rolldown'

const HERE = import.meta.dirname
const DIST = path.join(HERE, 'dist')
const at = (file: string): string => path.join(HERE, file)

async function bundle(input: Record<string, string>, options: InputOptions = {}): Promise<void> {
  const build = await rolldown({ ...options, input, tsconfig: false })
  await build.write({
    dir: DIST,
    format: 'esm',
    minify: true,
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
  })
  await build.close()
}

/** Imports of what client/platform.ts brings lead to `#platform`, for which package.json has a file for each. */
const ON_ANY_PLATFORM: InputOptions = {
  external: [/^@noble\//, /^node:(?!crypto$)/, '#platform'],
  transform: { inject: { Buffer: ['#platform', 'Buffer'] } },
  plugins: [
    {
      name: 'platform',
      resolveId: (id) =>
        /^node:crypto$|\/(private-file|threads|native-search)\.ts$/.test(id)
          ? { id: '#platform', external: true }
          : undefined,
      transform: (code, id) => (id.endsWith('/seal-verify.mjs') ? withoutCommand(code) : undefined),
    },
  ],
}

/** The verifier is a command too; here it is what others call. */
const withoutCommand = (code: string): string =>
  code
    .slice(0, code.lastIndexOf('\nasync function run('))
    .replace(/(?<=\nconst USAGE = `)[^`]*/, 'See the options of check().')

rmSync(DIST, { recursive: true, force: true })
await bundle(
  {
    index: at('index.ts'),
    browser: at('browser.ts'),
    main: at('command/main.ts'),
    'miner-thread': at('miner/miner-thread.ts'),
  },
  ON_ANY_PLATFORM,
)
await bundle({ platform: at('platform.ts') }, { external: [/^node:/] })
await bundle({ 'platform-browser': at('browser/platform.ts') }, { external: [/^@noble\//] })
const { status } = spawnSync('tsc', ['--project', at('tsconfig.json'), '--checkers', '1'], {
  stdio: 'inherit',
  env: { ...process.env, PATH: `${at('../node_modules/.bin')}${path.delimiter}${process.env['PATH'] ?? ''}` },
})
copyFileSync(at('../LICENSE-MIT'), path.join(DIST, 'LICENSE-MIT'))
copyFileSync(at('miner/native-search.c'), path.join(DIST, 'native-search.c'))
copyFileSync(at('seal-verify.d.mts'), path.join(DIST, 'types/client/seal-verify.d.mts'))
removeUnreached(['index', 'browser'].map((name) => path.join(DIST, `types/client/${name}.d.ts`)))
dropComments([
  'types/client/{http,own-ledger,puzzle-solver,seal-verify,sealed-box,wire,work-bound}.d.*ts',
  'types/{client/miner,shared/**}/*.d.ts',
])
process.exitCode = status ?? 1

/** What a field means stands in the OpenAPI document of the service; the others are seldom called. */
function dropComments(patterns: readonly string[]): void {
  for (const file of globSync(patterns.map((pattern) => path.join(DIST, pattern))))
    writeFileSync(file, withoutComments(readFileSync(file, 'utf8')))
}

function withoutComments(text: string): string {
  let isComment = false
  const kept = text.split('\n').filter((line) => {
    const begins = line.trimStart().startsWith('/**')
    const isWithin = isComment || begins
    isComment = isWithin && !line.endsWith('*/')
    return !isWithin
  })
  return kept.join('\n')
}

/**
 * The compiler writes the types of every file, with the imports of the sources: they are made to name what the
 * package has, and what nobody can name stays out of it.
 */
function removeUnreached(entries: readonly string[]): void {
  const reached = new Set<string>()
  const visit = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    const text = readFileSync(file, 'utf8').replace(/((?:from |import\()['"]\.[^'"]+)\.ts(?=['"])/g, '$1.js')
    writeFileSync(file, text)
    for (const [, target = ''] of text.matchAll(/(?:from |import\()['"](\.[^'"]+)['"]/g))
      visit(path.join(path.dirname(file), target.replace(/\.(m?)js$/, '.d.$1ts')))
  }
  entries.forEach(visit)
  for (const file of globSync(path.join(DIST, 'types/**/*.d.*ts'))) if (!reached.has(file)) rmSync(file)
}
