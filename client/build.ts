/** Builds the package `agent-network` into dist/: what runs on Node, what runs in browsers, and the types. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { rolldown, type CodeSplittingGroup, type InputOptions } from 'rolldown'

const HERE = import.meta.dirname
const DIST = path.join(HERE, 'dist')
/** A file of this folder. */
const at = (file: string): string => path.join(HERE, file)

const { version: VERSION } = JSON.parse(readFileSync(at('package.json'), 'utf8')) as { version: string }

/**
 * Bundles entry files, by their names in the package, with what they import into DIST.
 *
 * @param groups what several of them import, by the files that it is in: fewer and larger files pack better
 */
async function bundle(
  input: Record<string, string>,
  options: InputOptions = {},
  groups: CodeSplittingGroup[] = [],
): Promise<void> {
  const build = await rolldown({ ...options, input, tsconfig: false })
  await build.write({
    dir: DIST,
    format: 'esm',
    minify: true,
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    comments: false,
    codeSplitting: { groups },
  })
  await build.close()
}

/**
 * Whatever platform.ts and miner/threads.ts export is imported from `#platform` and `#threads`, for which
 * package.json names a file per platform.
 */
const ON_ANY_PLATFORM: InputOptions = {
  external: [/^@noble\//, 'commander', /^node:(?!crypto$)/, '#platform', '#threads'],
  transform: { inject: { Buffer: ['#platform', 'Buffer'] } },
  plugins: [
    {
      name: 'platform',
      resolveId(id, importer = '') {
        if (/(^|\/threads\.ts)$/.test(importer)) return undefined // the file for Node itself
        if (/^node:crypto$|\/(private-file|cores)\.ts$/.test(id)) return { id: '#platform', external: true }
        if (/\/(threads|native-search)\.ts$/.test(id)) return { id: '#threads', external: true }
        return undefined
      },
      // Of the package's own description the command shows the version alone.
      load: (id) =>
        id === at('package.json')
          ? { code: JSON.stringify({ version: VERSION }), moduleType: 'json' }
          : undefined,
    },
  ],
}

rmSync(DIST, { recursive: true, force: true })
await bundle(
  {
    index: at('index.ts'),
    browser: at('browser.ts'),
    main: at('command/main.ts'),
    mine: at('mine.ts'),
    threads: at('miner/threads.ts'),
    'miner-thread': at('miner/miner-thread.ts'),
  },
  ON_ANY_PLATFORM,
  [
    // A mining thread loads no more than these two.
    { name: 'pow', test: /crypto\/pow\.ts/, priority: 2 },
    { name: 'search', test: /miner\/(block|sha256-simd|wasm)/, priority: 2 },
    // What browsers have too.
    {
      name: 'base',
      test: /client\/(browser|sealed-box|register|author-signatures|mining-state|client)\.ts/,
      priority: 1,
    },
    {
      name: 'node',
      test: /client\/(verify\/|messages|own-ledger|solvency|verify-receipt|token-file|doorbell|command\/(format|command-error))/,
    },
  ],
)
await bundle({ platform: at('platform.ts') }, { external: [/^node:/] })
await bundle(
  { 'platform-browser': at('browser/platform.ts'), 'threads-browser': at('browser/threads.ts') },
  { external: [/^@noble\//] },
)
const { status } = spawnSync('tsc', ['--project', at('tsconfig.json'), '--checkers', '1'], {
  stdio: 'inherit',
  env: { ...process.env, PATH: `${at('../node_modules/.bin')}${path.delimiter}${process.env['PATH'] ?? ''}` },
})
copyFileSync(at('../LICENSE-MIT'), path.join(DIST, 'LICENSE-MIT'))
const nativeSearch = readFileSync(at('miner/native-search.c'), 'utf8')
writeFileSync(
  path.join(DIST, 'native-search.c'),
  nativeSearch
    .replace(/\/\*[^]*?\*\/ */g, '')
    .replace(/^[^#].*$/gm, (line) => line.replace(/\s*([^\w\s"%])\s*/g, '$1').trim())
    .replace(/\n\s+/g, '\n'),
)
finishTypes(['index', 'browser', 'mine'].map((name) => path.join(DIST, `types/client/${name}.d.ts`)))
process.exitCode = status ?? 1

/**
 * Removes the type files that the entries don't import, directly or not. In the others imports name `.js` files, which the
 * package has, instead of `.ts`, and spaces and semicolons that nothing needs go, for a smaller package.
 */
function finishTypes(entries: readonly string[]): void {
  const reached = new Set<string>()
  const visit = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    const text = readFileSync(file, 'utf8')
      .replace(/((?:from |import\()['"]\.[^'"]+)\.ts(?=['"])/g, '$1.js')
      .replace(/^ +/gm, '')
      .replace(/;?\n(?=\})|(?<=\{)\n|;$/gm, '')
      .replace(/ ?(=>|[:|=&,]) /g, '$1')
    writeFileSync(file, text)
    for (const [, target = ''] of text.matchAll(/(?:from |import\()['"](\.[^'"]+)['"]/g))
      visit(path.join(path.dirname(file), target.replace(/\.(m?)js$/, '.d.$1ts')))
  }
  entries.forEach(visit)
  for (const file of globSync(path.join(DIST, 'types/**/*.d.*ts'))) if (!reached.has(file)) rmSync(file)
}
