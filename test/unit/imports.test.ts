import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '../..')
const IMPORT = /(?:^|\n)\s*(?:import|export)\s+(type\s)?(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'/g

interface Import {
  file: string
  /** A path from the root, or a package's name as written. */
  target: string
  isType: boolean
}

const sources = ['api', 'workers', 'shared', 'client']
  .flatMap((folder) => fs.readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`))
  .filter((file) => /\.(ts|mjs)$/.test(file))
const imports: Import[] = sources.flatMap((file) =>
  [...fs.readFileSync(path.join(ROOT, file), 'utf8').matchAll(IMPORT)].map(([, type, named, dynamic]) => {
    const specifier = named ?? dynamic ?? ''
    return {
      file,
      target: specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : specifier,
      isType: type !== undefined,
    }
  }),
)
const isBelow =
  (...folders: string[]) =>
  (name: string) =>
    folders.some((folder) => name.startsWith(`${folder}/`))
const isOurs = isBelow('api', 'workers', 'shared', 'client', 'scripts', 'test')
const breaches = (isBreach: (one: Import) => boolean) => imports.filter(isBreach).map(({ file, target }) => `${file} → ${target}`)

describe('the law of imports', () => {
  it('is held against imports that are really read', () => {
    expect(imports).toContainEqual({ file: 'api/app.ts', target: 'api/routes/posts.ts', isType: false })
    expect(imports).toContainEqual({ file: 'api/app.ts', target: 'shared/context.ts', isType: true })
    expect(imports.filter(({ target }) => isOurs(target) && !fs.existsSync(path.join(ROOT, target)))).toEqual([])
  })

  it('lets api and workers import shared and neither the other', () => {
    expect(breaches(({ file, target }) => isBelow('api')(file) && isOurs(target) && !isBelow('api', 'shared')(target))).toEqual([])
    expect(breaches(({ file, target }) => isBelow('workers')(file) && isOurs(target) && !isBelow('workers', 'shared')(target))).toEqual([])
    expect(breaches(({ file, target }) => isBelow('shared')(file) && isOurs(target) && !isBelow('shared')(target))).toEqual([])
  })

  it('keeps shared/crypto to itself', () => {
    expect(breaches(({ file, target }) => isBelow('shared/crypto')(file) && isOurs(target) && !isBelow('shared/crypto')(target))).toEqual(
      [],
    )
  })

  it('keeps the client, at run time, to itself and shared/crypto', () => {
    expect(
      breaches(
        ({ file, target, isType }) => isBelow('client')(file) && !isType && isOurs(target) && !isBelow('client', 'shared/crypto')(target),
      ),
    ).toEqual([])
  })

  it('keeps stores, queues and the context out of the pure files', () => {
    const pure = sources.filter((file) => isBelow('shared/crypto')(file) || sources.includes(file.replace(/\.ts$/, '-store.ts')))
    expect(pure.length).toBeGreaterThan(10)
    const isOutside = (target: string) =>
      /-store\.ts$|-service\.ts$|^shared\/(context|database|queues)\.ts$|^(mongoose|bullmq|ioredis|express)$/.test(target)
    expect(breaches(({ file, target, isType }) => pure.includes(file) && !isType && isOutside(target))).toEqual([])
  })

  it('keeps Express in api/http, api/routes, api/app.ts and the operator port, and mongoose in shared', () => {
    const mayUseExpress = (file: string) => isBelow('api/http', 'api/routes', 'workers/operator')(file) || file === 'api/app.ts'
    expect(breaches(({ file, target }) => target === 'express' && !mayUseExpress(file))).toEqual([])
    expect(breaches(({ file, target }) => target === 'mongoose' && !isBelow('shared')(file))).toEqual([])
  })
})
