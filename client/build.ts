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

/** A page takes one file, in which the files of browser/ stand in for what a browser has not. */
const IN_BROWSERS: InputOptions = {
  external: [/^@noble\//],
  platform: 'browser',
  resolve: { alias: { 'node:crypto': at('browser/crypto.ts') } },
  transform: { inject: { Buffer: [at('browser/buffer.ts'), 'Buffer'] } },
  plugins: [
    {
      name: 'stand-ins',
      resolveId: (id) => {
        const [, name] = /\/(private-file|threads)\.ts$/.exec(id) ?? []
        return name === undefined ? undefined : at(`browser/${name}.ts`)
      },
    },
  ],
}

rmSync(DIST, { recursive: true, force: true })
await bundle(
  { index: at('index.ts'), main: at('command/main.ts'), 'miner-thread': at('miner/miner-thread.ts') },
  { platform: 'node', external: [/^@noble\//, /^node:/] },
)
await bundle({ browser: at('browser.ts') }, IN_BROWSERS)
const { status } = spawnSync('tsc', ['--project', at('tsconfig.json')], {
  stdio: 'inherit',
  env: { ...process.env, PATH: `${at('../node_modules/.bin')}${path.delimiter}${process.env['PATH'] ?? ''}` },
})
for (const name of ['LICENSE-MIT', 'LICENSE-APACHE']) copyFileSync(at(`../${name}`), path.join(DIST, name))
copyFileSync(at('seal-verify.d.mts'), path.join(DIST, 'types/client/seal-verify.d.mts'))
removeUnreached(['index', 'browser'].map((name) => path.join(DIST, `types/client/${name}.d.ts`)))
process.exitCode = status ?? 1

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
