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
      resolveId(id) {
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
    'miner-thread': at('miner/miner-thread.ts'),
  },
  ON_ANY_PLATFORM,
  [
    // A mining thread loads no more than this.
    { name: 'pow', test: /crypto\/pow\.ts/, priority: 2 },
    // What browsers have too.
    { name: 'base', test: /client\/(sealed-box|register|author-signatures|client)\.ts/, priority: 1 },
    {
      name: 'node',
      test: /client\/(verify\/|messages|own-ledger|solvency|verify-receipt|token-file|doorbell|command\/(format|command-error))/,
    },
  ],
)
await bundle(
  { platform: at('platform.ts'), threads: at('miner/threads.ts') },
  {
    external: [/^node:/],
  },
)
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
  nativeSearch.replace(/\/\*[^]*?\*\/ */g, '').replace(/\n\s+/g, '\n'),
)
const TYPE_ENTRIES = ['index', 'browser', 'mine'].map((name) => path.join(DIST, `types/client/${name}.d.ts`))
removeUnreached(TYPE_ENTRIES)
dropComments([
  'types/client/{answer-check,author-signatures,errors,http,messages,mine,own-ledger,puzzle-solver,register,routes,sealed-box,solvency,token-file,verify-receipt,wire,work-bound}.d.*ts',
  'types/{client/miner,client/verify,shared/**}/*.d.ts',
])
dropUnused(
  globSync(
    path.join(
      DIST,
      'types/{client/{work-bound,mine,miner/*,answer-check,author-signatures,http},shared/crypto/*}.d.ts',
    ),
  ),
)
removeUnreached(TYPE_ENTRIES)
process.exitCode = status ?? 1

/**
 * Drops comments and indents of the type files that match, for a smaller package: what a field means stands in the
 * OpenAPI document, and the other functions are seldom called.
 */
function dropComments(patterns: readonly string[]): void {
  for (const file of globSync(patterns.map((pattern) => path.join(DIST, pattern))))
    writeFileSync(file, withoutComments(readFileSync(file, 'utf8')))
}

/** A type file's text without indents and JSDoc comments; each line of those goes as a whole. */
function withoutComments(text: string): string {
  let isComment = false
  const kept = text.split('\n').filter((line) => {
    const begins = line.trimStart().startsWith('/**')
    const isWithin = isComment || begins
    isComment = isWithin && !line.endsWith('*/')
    return !isWithin
  })
  return kept.map((line) => line.trimStart()).join('\n')
}

/** Drops from type files without indents what nothing else names, and imports that are needed no more. */
function dropUnused(files: readonly string[]): void {
  const texts = new Map(
    globSync(path.join(DIST, 'types/**/*.d.ts')).map((file) => [file, readFileSync(file, 'utf8')]),
  )
  for (let before = -1, size = 0; before !== size;) {
    before = size
    for (const file of files.filter((one) => !TYPE_ENTRIES.includes(one))) {
      const parts = (texts.get(file) ?? '').split(/\n(?=export |import |type |interface |declare )/)
      const others = [...texts].filter(([name]) => name !== file).map(([, text]) => text)
      const isNamed = (part: string) => {
        const [, name] =
          /^(?:export )?(?:declare )?(?:type|interface|const|function|class) (\w+)/.exec(part) ?? []
        const [, names] = /^import .*?\{(.*)\}/.exec(part) ?? []
        const word = new RegExp(`\\b(${name ?? names?.replace(/\btype\b|\s/g, '').replaceAll(',', '|')})\\b`)
        const within = parts.some((other) => other !== part && word.test(other))
        return (
          (name ?? names) === undefined ||
          within ||
          (name !== undefined && others.some((text) => word.test(text)))
        )
      }
      texts.set(file, parts.filter(isNamed).join('\n'))
    }
    size = [...texts.values()].join('').length
  }
  for (const [file, text] of texts) writeFileSync(file, text)
}

/**
 * Removes the type files that the entries don't import, directly or not, and makes the imports in the others
 * name `.js` files, which the package has, instead of `.ts`.
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
