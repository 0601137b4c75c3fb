import fs from 'node:fs'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { lockFile } from '../../shared/platform/durable-file.ts'
import type { WatchStep } from '../../shared/platform/step.ts'
import { requestPassInvoice } from '../../shared/passes/pass-purchase.ts'
import { newAddressGiver } from '../../shared/money/address-store.ts'
import { readIndexFile } from '../../shared/money/address-index.ts'
import { fillStocks } from '../../shared/money/address-pool.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { HOUR_MS, MINUTE_MS } from '../../shared/platform/time.ts'
import { setRate } from '../support/coins.ts'
import { FULL } from '../support/full.ts'
import { takeBackup } from '../support/ledger.ts'
import { checkBooksAfterEach } from '../support/money.ts'
import { reconcileNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { DAY_RAW, nanoChain, openNanoVenue, type NanoVenue } from '../support/nano-venue.ts'

let venue: NanoVenue
/** Processes of the API. */
let apis: Context[] = []
const given: string[] = []

beforeAll(async () => {
  venue = await openNanoVenue()
})
beforeEach(async () => {
  await venue.reset()
  given.length = 0
  apis = await startApis()
})
afterEach(async () => {
  await Promise.all(apis.map((api) => closeContext(api)))
})
checkBooksAfterEach(
  () => venue.ctx,
  () => nanoChain(venue),
)
afterAll(() => venue.stop())

const silent = createLog('test', 'fatal', { write: () => undefined })
/** With a memory of its own, as another process has it. */
async function startApi(): Promise<Context> {
  const api = openContext(readConfig(venue.env, 'workers'), silent, {
    now: () => venue.ctx.now(),
    databaseTimeoutMs: 30_000,
    addressGiver: newAddressGiver(),
  })
  await api.database.whenReady()
  return api
}
const startApis = async () => [await startApi(), await startApi()]
const fill = (api?: Context) =>
  fillStocks(venue.ctx, nanoDriver(venue.ctx), api?.coins.addresses.stock('xno'))
const indexFile = () => venue.wallet.indexFile

/**
 * An API process gives an address out, and asks the worker for more if it has none. A coin that a restore has
 * halted gives none before its operator has reconciled it.
 */
async function give(api: Context, canAsk = true): Promise<void> {
  const { holder } = api.coins.addresses.stock('xno')
  const askIfEmpty = async () => {
    if (canAsk && !(await venue.ctx.coins.addresses.countFree('xno')).has(holder)) await fill(api)
  }
  await askIfEmpty()
  if (await isHalted()) await work().then(askIfEmpty)
  const { invoice } = await requestPassInvoice(api, await venue.addAgent(), 'xno', 1)
  given.push(invoice.address)
}
const giveSome = async (count: number, canAsk = true) => {
  for (let left = count; left > 0; left--) for (const api of apis) await give(api, canAsk)
}
const expectNoneTwice = () => expect(new Set(given).size, 'addresses that were given once').toBe(given.length)

interface Backup {
  database(): Promise<void>
  index(): void
}
async function backUp(): Promise<Backup> {
  const database = await takeBackup(venue.ctx)
  const index = fs.readFileSync(indexFile())
  return {
    async database() {
      await database()
      await setRate(venue.ctx, 'xno', '1')
    },
    index: () => fs.writeFileSync(indexFile(), index),
  }
}
/** The workers begin anew. */
const restartWorkers = () => venue.setPatience()
async function restartApis(): Promise<void> {
  await Promise.all(apis.map((api) => closeContext(api)))
  apis = await startApis()
}
const isHalted = async () => (await venue.ctx.coins.findCoin('xno'))?.halted !== undefined
async function work(): Promise<void> {
  await watchNano(venue.ctx)
  await fill()
  await sweepNano(venue.ctx)
  if (await isHalted()) await reconcileNano(venue.ctx).then(work)
}

describe('the index file', () => {
  it('is written by one process of a host at a time: the other makes no addresses meanwhile', async () => {
    const [api] = apis
    const free = () => venue.ctx.coins.addresses.countFree('xno')
    const [before, text] = [await free(), fs.readFileSync(indexFile(), 'utf8')]
    const release = lockFile(indexFile())
    await fill(api)
    expect(await free()).toEqual(before)
    expect(fs.readFileSync(indexFile(), 'utf8')).toBe(text)
    release?.()
    await fill(api)
    expect((await free()).size).toBe(before.size + 1)
    expect(fs.readFileSync(indexFile(), 'utf8')).not.toBe(text)
  })
})

describe('no address is given twice', () => {
  it.runIf(FULL)(
    'by an API that runs on while an older database is put beneath it, before any worker looks at that',
    async () => {
      await giveSome(2)
      const backup = await backUp()
      await giveSome(3)
      await backup.database()
      await giveSome(3, false)
      expectNoneTwice()
    },
  )

  it('by an API that begins with an older database: it gives none before a worker has made some for it', async () => {
    await giveSome(2)
    const backup = await backUp()
    await giveSome(3)
    await backup.database()
    await restartApis()
    await expect(giveSome(1, false)).rejects.toThrow('No address')
    await giveSome(3)
    expectNoneTwice()
  })

  it('by a worker that dies with them stored: the file beside the seed names them before that', async () => {
    const dies: WatchStep = (write, phase) => {
      if (write === 'addresses' && phase === 'after') throw new Error('it dies here')
    }
    const asker = (apis[0] as Context).coins.addresses.stock('xno')
    const filling = fillStocks(venue.ctx, nanoDriver(venue.ctx), asker, dies)
    await expect(filling).rejects.toThrow('it dies here')
    const highest = await venue.ctx.coins.addresses.highestIndex('xno')
    expect(highest).toBeGreaterThan(0)
    expect(readIndexFile(indexFile()).highest).toBe(highest)
  })

  const steps = {
    'the database': (backup: Backup) => backup.database(),
    'the index file': (backup: Backup) => backup.index(),
    'the workers': restartWorkers,
    'the API': restartApis,
    'a round': work,
    three: () => giveSome(3),
  }
  it.runIf(FULL).each<[string, (keyof typeof steps)[]]>([
    ['an older database and the newer index file', ['the database', 'three', 'a round', 'three']],
    ['the same, and workers that begin', ['the database', 'the workers', 'a round', 'three']],
    ['the same, and an API that begins', ['the database', 'the API', 'three', 'a round', 'three']],
    ['an older index file and the newer database', ['the index file', 'three', 'a round', 'three']],
    ['the same, and workers that begin', ['the index file', 'the workers', 'three', 'a round', 'three']],
    ['the same, and an API that begins', ['the index file', 'the workers', 'the API', 'three']],
    [
      'both from one backup, beneath all that runs on',
      ['the database', 'the index file', 'three', 'a round', 'the API', 'three'],
    ],
    [
      'both from one backup, and workers that begin',
      ['the database', 'the index file', 'the workers', 'three', 'the API', 'three'],
    ],
    [
      'both from one backup, and everything begins',
      ['the database', 'the index file', 'the workers', 'the API', 'three', 'a round', 'three'],
    ],
    [
      'the file and then the database, and everything begins',
      ['the index file', 'the workers', 'three', 'the database', 'the API', 'three'],
    ],
    [
      'the database and then the file, and everything begins',
      ['the database', 'the API', 'three', 'the index file', 'the workers', 'three'],
    ],
  ])('with %s: %s', async (_, order) => {
    await giveSome(1)
    await work()
    const backup = await backUp()
    // New processes took what was free then, and what came later.
    await giveSome(2)
    await restartApis()
    await giveSome(2)
    for (const step of order) await steps[step](backup)
    expectNoneTwice()
  })

  it.runIf(FULL)(
    'after both are restored from a backup of two hours ago, though more were given since than a start leaves out and none was paid',
    async () => {
      await giveSome(1)
      const backup = await backUp()
      venue.advance(2 * HOUR_MS)
      const look = async () => {
        await watchNano(venue.ctx)
        await setRate(venue.ctx, 'xno', '1')
      }
      await look()
      for (let count = 0; count < 2; count++) {
        await restartApis()
        await giveSome(1)
        await fill()
      }
      const most = (await venue.ctx.coins.addresses.highestIndex('xno')) + 1
      expect(most).toBeGreaterThan(500)
      await backup.database()
      backup.index()
      restartWorkers()
      await restartApis()
      await look()
      await giveSome(1)
      expectNoneTwice()
      const { address_index: index } =
        (await venue.ctx.invoices.models.invoices.findOne({ address: given.at(-1) ?? '' }).lean()) ?? {}
      expect(index).toBeGreaterThanOrEqual(most)
    },
  )

  it.runIf(FULL)(
    'after both are restored from a backup made before the last start, though that start left out as many',
    async () => {
      await giveSome(1)
      const backup = await backUp()
      const start = async () => {
        restartWorkers()
        await restartApis()
      }
      await start()
      await giveSome(20)
      await backup.database()
      backup.index()
      await start()
      await giveSome(8)
      expectNoneTwice()
    },
  )

  it.runIf(FULL)(
    'in whatever order workers and API start, addresses are given and paid, and backups are taken and restored',
    async () => {
      let backups: Backup[] = []
      const acts = {
        give: () => giveSome(2),
        'pay one': () =>
          Promise.resolve(given.length > 0 && venue.pay({ address: given.at(-1) ?? '' }, DAY_RAW)),
        'back up': async () => void backups.push(await backUp()),
        'restore the database': () => backups.at(-1)?.database(),
        'restore the index file': () => backups.at(-1)?.index(),
        'restore both': async () => {
          await backups.at(0)?.database()
          backups.at(0)?.index()
        },
        'start the workers': restartWorkers,
        'start the API': restartApis,
        'start everything': async () => {
          restartWorkers()
          await restartApis()
        },
        work,
      }
      const names = Object.keys(acts) as (keyof typeof acts)[]
      // Without one between, nothing could have been given twice.
      const history = fc.array(fc.constantFrom(...names), { minLength: 6, maxLength: 16 })
      const property = fc.asyncProperty(history, async (steps) => {
        await venue.reset()
        given.length = 0
        backups = []
        await restartApis()
        for (const step of [...steps, 'start everything', 'give'] as const) {
          await acts[step]()
          expectNoneTwice()
        }
      })
      await fc.assert(property, { numRuns: 40 })
    },
    15 * MINUTE_MS,
  )

  it.runIf(FULL)(
    'though another process of the API has given it out and runs on, whatever was restored',
    async () => {
      await giveSome(1)
      const backup = await backUp()
      for (let count = 0; count < 3; count++) {
        venue.pay({ address: given.at(-1) ?? '' }, DAY_RAW)
        await giveSome(1)
      }
      await backup.database()
      backup.index()
      restartWorkers()
      await fill(apis[0])
      await fill(apis[1])
      await giveSome(3)
      expectNoneTwice()
    },
  )
})
