import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '../..')
const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s+(type\s)?(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'/g

/**
 * The folders of `shared/`, from the top down. A folder imports only what stands below it; those of one line
 * don't see each other.
 */
const ORDER = [
  ['operation', 'about'],
  ['market', 'claims'],
  ['passes'],
  ['money'],
  ['posts', 'announcements', 'messages', 'doorbells', 'reports'],
  ['agents'],
  ['ledger'],
  ['events'],
  ['platform'],
  ['crypto', 'rpc'],
]
/**
 * The composition root sees all of `shared/`. Its type may be imported from anywhere, since features are
 * called with it.
 */
const CONTEXT = 'shared/context.ts'

interface Import {
  file: string
  /** A path from the root, or a package's name as written. */
  target: string
  isType: boolean
}

const sources = ['api', 'workers', 'shared', 'client', 'scripts', 'devnet']
  .flatMap((folder) =>
    fs
      .readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => `${folder}/${name}`),
  )
  .filter((file) => /\.(ts|mjs)$/.test(file) && !file.startsWith('client/dist/'))
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
const isOurs = isBelow('api', 'workers', 'shared', 'client', 'scripts', 'devnet', 'test')
const breaches = (isBreach: (one: Import) => boolean) =>
  imports.filter(isBreach).map(({ file, target }) => `${file} → ${target}`)

/** The folder below `shared/`; undefined for the context. */
const roomOf = (file: string): string | undefined => (file === CONTEXT ? undefined : file.split('/')[1])
const lineOf = (room: string): number => ORDER.findIndex((line) => line.includes(room))

describe('the law of imports', () => {
  it('is held against imports that are really read', () => {
    expect(imports).toContainEqual({ file: 'api/app.ts', target: 'api/routes/posts.ts', isType: false })
    expect(imports).toContainEqual({ file: 'api/app.ts', target: 'shared/context.ts', isType: true })
    expect(imports.filter(({ target }) => isOurs(target) && !fs.existsSync(path.join(ROOT, target)))).toEqual(
      [],
    )
  })

  it('lets api and workers import shared and neither the other', () => {
    expect(
      breaches(
        ({ file, target }) => isBelow('api')(file) && isOurs(target) && !isBelow('api', 'shared')(target),
      ),
    ).toEqual([])
    expect(
      breaches(
        ({ file, target }) =>
          isBelow('workers')(file) && isOurs(target) && !isBelow('workers', 'shared')(target),
      ),
    ).toEqual([])
    expect(
      breaches(({ file, target }) => isBelow('shared')(file) && isOurs(target) && !isBelow('shared')(target)),
    ).toEqual([])
  })

  it('keeps the gate free of HTTP', () => {
    expect(
      breaches(
        ({ file, target }) =>
          isBelow('api/gate')(file) && isOurs(target) && !isBelow('api/gate', 'shared')(target),
      ),
    ).toEqual([])
    expect(breaches(({ file, target }) => isBelow('api/gate')(file) && /express|http/.test(target))).toEqual(
      [],
    )
  })

  it('lets nothing outside test/ import test/', () => {
    expect(breaches(({ target }) => isBelow('test')(target))).toEqual([])
  })

  it('runs one way through the folders of shared/', () => {
    const rooms = fs.readdirSync(path.join(ROOT, 'shared'), { withFileTypes: true })
    expect(
      rooms
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual(ORDER.flat().toSorted())
    expect(rooms.filter((entry) => entry.isFile()).map(({ name }) => `shared/${name}`)).toEqual([CONTEXT])
    const isUpwards = ({ file, target, isType }: Import): boolean => {
      if (!isBelow('shared')(file) || !isBelow('shared')(target)) return false
      const [from, to] = [roomOf(file), roomOf(target)]
      if (from === undefined || from === to) return false
      return to === undefined
        ? !isType || from === 'crypto' || from === 'platform'
        : lineOf(to) <= lineOf(from)
    }
    expect(breaches(isUpwards)).toEqual([])
  })

  it('runs one way through the files of money, types included', () => {
    const inMoney = isBelow('shared/money')
    const targetsOf = Map.groupBy(
      imports.filter(({ file, target }) => inMoney(file) && inMoney(target)),
      ({ file }) => file,
    )
    const reachableFrom = (file: string): Set<string> => {
      const reached = new Set<string>()
      const waiting = [file]
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
        for (const { target } of targetsOf.get(next) ?? [])
          if (!reached.has(target)) {
            reached.add(target)
            waiting.push(target)
          }
      return reached
    }
    expect([...targetsOf.keys()].filter((file) => reachableFrom(file).has(file))).toEqual([])
  })

  it('keeps the client to itself, shared/crypto and shared/rpc, types included', () => {
    expect(
      breaches(
        ({ file, target }) =>
          isBelow('client')(file) &&
          isOurs(target) &&
          !isBelow('client', 'shared/crypto', 'shared/rpc')(target),
      ),
    ).toEqual([])
  })

  it("lets a coin's folder know what a driver is and the records, and of the services of money these alone", () => {
    const isCoinFolder = isBelow('shared/money/coins')
    const plain = ['driver', 'node-errors', 'coin', 'invoice', 'arrival', 'payout', 'transfer'].map(
      (name) => `shared/money/${name}.ts`,
    )
    const isPlain = ({ target, isType }: Import) =>
      isCoinFolder(target) || plain.includes(target) || (isType && target.endsWith('-store.ts'))
    const found = imports.filter(
      (one) => isCoinFolder(one.file) && isBelow('shared/money')(one.target) && !isPlain(one),
    )
    const users = Map.groupBy(found, ({ target }) => path.basename(target))
    const filesOf = (uses: Import[]) => uses.map(({ file }) => path.basename(file)).toSorted()
    expect(Object.fromEntries([...users].map(([target, uses]) => [target, filesOf(uses)]))).toEqual({
      // What is signed goes on record before it is sent, and what came of it before the next is signed.
      'transfer-service.ts': [
        'monero-pay.ts',
        'monero-recovery.ts',
        'nano-publish.ts',
        'nano-reconcile.ts',
        'nano-recovery.ts',
        'nano-sender.ts',
      ],
      // Nothing is stored as signed once the coin is halted; and a problem with signing is told while it lasts.
      'coin-state.ts': ['monero-pay.ts', 'nano-driver.ts', 'nano-sender.ts', 'nano-work.ts'],
      // A send that the operator has recorded by hand is no difference between chain and database …
      'unexplained-sends.ts': ['monero-chain.ts', 'nano-recovery.ts'],
      // … and goes on record before a block is built on it.
      'reconcile.ts': ['nano-recovery.ts'],
      // It lies beside the keys.
      'address-index.ts': ['monero-subaddresses.ts', 'nano-reconcile.ts'],
    })
    // Nothing of money knows a coin's folder but the table of facts, which the API reads too.
    expect(
      breaches(
        ({ file, target }) => isBelow('shared/money')(file) && !isCoinFolder(file) && isCoinFolder(target),
      ).map((breach) => breach.split(' → ')[0]),
    ).toEqual(['shared/money/coin-facts.ts', 'shared/money/coin-facts.ts'])
  })

  it('asks which coin it is in the two folders of the coins alone', () => {
    const isCoinFolder = isBelow('shared/money/coins/nano', 'shared/money/coins/monero')
    // The stand-in is of one coin.
    const isChecker = isBelow('devnet')
    const asks = sources.filter(
      (file) =>
        !isCoinFolder(file) &&
        !isChecker(file) &&
        /(?:[!=]==?|\bcase)\s*['"](?:xno|xmr)['"]|['"](?:xno|xmr)['"]\s*[!=]==?/.test(
          fs.readFileSync(path.join(ROOT, file), 'utf8'),
        ),
    )
    expect(asks).toEqual([])
  })

  it('keeps stores, queues and the context out of the pure files', () => {
    const pure = sources.filter(
      (file) =>
        isBelow('shared/crypto', 'shared/rpc')(file) || sources.includes(file.replace(/\.ts$/, '-store.ts')),
    )
    expect(pure.length).toBeGreaterThan(10)
    const isOutside = (target: string) =>
      /-store\.ts$|-service\.ts$|^shared\/(context|platform\/database|platform\/queues)\.ts$|^(mongoose|bullmq|ioredis|express)$/.test(
        target,
      )
    expect(
      breaches(({ file, target, isType }) => pure.includes(file) && !isType && isOutside(target)),
    ).toEqual([])
  })

  it('keeps Express in api/http, api/routes, api/app.ts and the operator port, and mongoose in shared', () => {
    const mayUseExpress = (file: string) =>
      isBelow('api/http', 'api/routes', 'workers/operator')(file) || file === 'api/app.ts'
    expect(breaches(({ file, target }) => target === 'express' && !mayUseExpress(file))).toEqual([])
    expect(
      breaches(({ file, target }) => target === 'mongoose' && !isBelow('shared', 'scripts')(file)),
    ).toEqual([])
  })

  // prom-client loads OpenTelemetry's API by itself; what makes and sends spans is loaded by one file, which
  // is loaded only if traces are on.
  it('loads OpenTelemetry behind one door, which opens only at run time', () => {
    const door = 'shared/platform/otel.ts'
    const isOtel = (target: string) => /^(?:@opentelemetry\/|bullmq-otel$)/.test(target)
    expect(imports.some(({ file, target }) => file === door && isOtel(target))).toBe(true)
    expect(breaches(({ file, target }) => isOtel(target) && file !== door)).toEqual([])
    const openers = imports.filter(({ target }) => target === door).map(({ file }) => file)
    expect(openers).toEqual(['shared/platform/start-tracing.ts'])
    expect(fs.readFileSync(path.join(ROOT, openers[0] ?? ''), 'utf8')).toContain("await import('./otel.ts')")
  })
})
