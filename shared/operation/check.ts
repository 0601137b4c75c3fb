import type { ClientSession, Connection } from 'mongoose'
import { findContentFaults } from '../account/content-check.ts'
import type { Context } from '../context.ts'
import { findChainFault } from '../ledger/chain-check.ts'
import { readLogFromTiles } from '../ledger/log.ts'
import type { PendingEntry } from '../ledger/pending.ts'
import { memoryFileOf, readMemory } from '../ledger/seal-memory.ts'
import { COINS, formatAmount } from '../payments/coin.ts'
import { SHARE_PAGES_KEPT_MS } from '../foundation/limits.ts'
import { SECOND_MS, unixSeconds } from '../foundation/time.ts'
import { findBookFaults, findMoneyFaults, type BookRecords } from './check-money.ts'
import { findLost, mendLost, type Lost } from './lost-entries.ts'
import { OPERATOR } from './finding.ts'

/** Something that doesn't hold. */
export interface Fault {
  what: string
  /** What to run, or to do if no command can do it. */
  command: string
}

export interface CheckResult {
  name: string
  /** What was looked at. */
  title: string
  faults: Fault[]
  mended: number
}

interface Check {
  name: string
  title: string
  run(ctx: Context, mends: boolean): Promise<{ faults: Fault[]; mended?: number }>
}

/** The books were compared lately if that was so long ago at most. */
const COMPARED_SECONDS = 900
const RESTORE = `${OPERATOR} restore DIR --to URL|DATA_DIR   # of a backup from before`

const CHECKS: readonly Check[] = [
  { name: 'indexes', title: 'every collection has its indexes', run: checkIndexes },
  { name: 'entries', title: 'numbers without a gap, one entry for each record', run: checkEntries },
  {
    name: 'seals',
    title: 'links, ranges, roots and signatures of all seals, over all entries',
    async run(ctx) {
      const fault = await findChainFault(ctx)
      return { faults: fault === undefined ? [] : [{ what: fault, command: RESTORE }] }
    },
  },
  { name: 'log', title: 'the tiles of the log lead to the root that was signed', run: checkLog },
  {
    name: 'content',
    title: 'records are what their entries commit to, and sums follow from the entries',
    async run(ctx) {
      const { count, sentences: told } = await findContentFaults(ctx)
      const rest = count > told.length ? [`and ${count - told.length} more`] : []
      return { faults: [...told, ...rest].map((what) => ({ what, command: showOf(what) })) }
    },
  },
  { name: 'memory', title: 'the seal memory of this host fits the database', run: checkMemory },
  { name: 'money', title: 'every payment is accounted for, once', run: checkMoney },
  { name: 'books', title: 'the journal agrees with the records', run: checkBooks },
  { name: 'shares', title: 'the shares of an order are the nonces on its pages', run: checkShares },
  { name: 'chains', title: 'the books agree with the chains of the coins', run: checkChains },
]

export const CHECK_NAMES = CHECKS.map(({ name }) => name)

/** Runs every check, one after another; each reads the database as it was at one moment. */
export async function runChecks(
  ctx: Context,
  { mends, only, report }: { mends: boolean; only?: string | undefined; report?: (name: string) => void },
): Promise<CheckResult[]> {
  const results: CheckResult[] = []
  for (const { name, title, run } of CHECKS.filter((check) => only === undefined || check.name === only)) {
    report?.(name)
    results.push({ name, title, mended: 0, ...(await run(ctx, mends)) })
  }
  return results
}

const showOf = (sentence: string): string => {
  const [id] = /\b[a-z]{3}_[0-9a-z]{26}\b/.exec(sentence) ?? []
  return id === undefined ? `${OPERATOR} check --only seals` : `${OPERATOR} show ${id}`
}

/** Every read of `work` is of one moment, so that what runs meanwhile is no fault. */
async function atOneMoment<T>(
  { database }: Context,
  work: (connection: Connection, session: ClientSession) => Promise<T>,
): Promise<T> {
  const session = await database.connection.startSession({ snapshot: true })
  try {
    return await work(database.connection, session)
  } finally {
    await session.endSession()
  }
}

async function checkIndexes({ database: { connection } }: Context): Promise<{ faults: Fault[] }> {
  const lacking = await Promise.all(
    Object.values(connection.models).map(async ({ collection: { collectionName: name }, schema }) => {
      const found = await connection
        .collection(name)
        .indexes()
        .catch(() => [])
      const keys = new Set(found.map(({ key }) => JSON.stringify(key)))
      return schema.indexes().every(([key]) => keys.has(JSON.stringify(key))) ? [] : [name]
    }),
  )
  return {
    faults: lacking.flat().map((name) => ({
      what: `the collection ${name} lacks an index: nothing guards what is unique in it`,
      command: 'start any process of the network: it makes what is missing',
    })),
  }
}

async function checkEntries(ctx: Context, mends: boolean): Promise<{ faults: Fault[]; mended: number }> {
  const { gaps, lost } = await atOneMoment(ctx, async (connection, session) => ({
    gaps: await findGaps(connection, session),
    lost: await findLost(connection, session),
  }))
  const faults = gaps.map((what) => ({ what, command: RESTORE }))
  let mended = 0
  for (const one of lost) {
    if (mends && (await mendLost(ctx, one))) mended++
    else faults.push(describeLost(one))
  }
  return { faults, mended }
}

const describeLost = ({ collection, id, source, isMendable }: Lost): Fault => ({
  what: `${id} of ${collection} has no entry in the ledger and waits for none (${source})`,
  command: isMendable
    ? `${OPERATOR} check --mend   # it is numbered anew, after all that was`
    : `${OPERATOR} show ${id}   # what its entry said is not in the record; a backup of one moment has it`,
})

async function findGaps(connection: Connection, session: ClientSession): Promise<string[]> {
  const entries = connection.collection<{ _id: number }>('entries')
  const [last] = await entries
    .find({}, { session, projection: { _id: 1 } })
    .sort({ _id: -1 })
    .limit(1)
    .toArray()
  const count = await entries.countDocuments({}, { session })
  if (count === (last?._id ?? 0)) return []
  let due = 1
  for await (const { _id } of entries.find({}, { session, projection: { _id: 1 } }).sort({ _id: 1 })) {
    if (_id !== due) return [`the ledger has entry ${_id} where ${due} should be, and ${count} in all`]
    due++
  }
  return [`the ledger has ${count} entries and ends at ${last?._id ?? 0}`]
}

async function checkLog(ctx: Context): Promise<{ faults: Fault[] }> {
  const last = await ctx.seals.lastSigned()
  if (last?.log_root === undefined) return { faults: [] }
  const tree = await readLogFromTiles(ctx, last.to_id)
  const root = tree?.root().toString('hex')
  if (root === last.log_root) return { faults: [] }
  return {
    faults: [
      {
        what: `the tiles of the log ${root === undefined ? 'are not all there' : `give the root ${root}`}, and seal ${last._id} was signed with ${last.log_root}`,
        command: 'drop the collection log_tiles: the next seal builds it again',
      },
    ],
  }
}

async function checkMemory(ctx: Context): Promise<{ faults: Fault[] }> {
  const file = memoryFileOf(ctx.config)
  const remembered = readMemory(file)
  const last = await ctx.seals.lastSigned()
  if (remembered === undefined || remembered.seq <= (last?._id ?? 0) + 1) return { faults: [] }
  return {
    faults: [
      {
        what: `${file} remembers seal ${remembered.seq}, and the database ends at the signed seal ${last?._id ?? 0}`,
        command: `give back the newer database; or, on the signing host, ${OPERATOR} seal --adopt SEQ HASH`,
      },
    ],
  }
}

async function checkMoney(ctx: Context): Promise<{ faults: Fault[] }> {
  const read = await atOneMoment(ctx, async (connection, session) => {
    const all = async (name: string) => connection.collection(name).find({}, { session }).toArray()
    const kinds = { kind: { $in: ['payment', 'pass_credit'] } }
    const numbered = await connection.collection('entries').find(kinds, { session }).toArray()
    const pending: PendingEntry[] = []
    for (const { collection } of Object.values(connection.models).filter(
      ({ schema }) => schema.path('pending') !== undefined,
    ))
      for await (const record of connection
        .collection<{ pending: PendingEntry[] }>(collection.collectionName)
        .find({ 'pending.source': { $exists: true } }, { session, projection: { pending: 1 } }))
        pending.push(...record.pending)
    const entries = [...(numbered as unknown as PendingEntry[]), ...pending]
    return {
      invoices: (await all('invoices')) as never[],
      payments: (await all('payments')) as never[],
      entries: [...new Map(entries.map((entry) => [entry.source, entry])).values()],
    }
  })
  return { faults: findMoneyFaults(read).map((what) => ({ what, command: showOf(what) })) }
}

async function checkBooks(ctx: Context): Promise<{ faults: Fault[] }> {
  const read = await atOneMoment(ctx, async (connection, session) => {
    const all = async (name: string) => connection.collection(name).find({}, { session }).toArray()
    return {
      invoices: await all('invoices'),
      payments: await all('payments'),
      orders: await all('orders'),
      payouts: await all('payouts'),
      transfers: await all('transfers'),
      lines: await all('journal'),
    } as unknown as BookRecords
  })
  return {
    faults: findBookFaults(read).map((what) => ({
      what,
      command: `${OPERATOR} books --coin ${what.slice(0, 3)}`,
    })),
  }
}

async function checkShares(ctx: Context): Promise<{ faults: Fault[] }> {
  return atOneMoment(ctx, async (connection, session) => {
    const counts = new Map<string, number>()
    for await (const { order_id: id, nonces } of connection
      .collection<{ order_id: string; nonces: string }>('share_pages')
      .find({}, { session, projection: { order_id: 1, nonces: 1 } }))
      counts.set(id, (counts.get(id) ?? 0) + nonces.split(' ').filter((nonce) => nonce !== '').length)
    const faults: Fault[] = []
    // The sweep deletes pages of orders whose time has long been over.
    const kept = unixSeconds(ctx.databaseNow() - SHARE_PAGES_KEPT_MS)
    const withPages = { $or: [{ share_pages: { $exists: true } }, { expires_at: { $gt: kept } }] }
    for await (const { _id, shares_accepted: accepted } of connection
      .collection<{ _id: string; shares_accepted: number }>('work_orders')
      .find(withPages, { session, projection: { shares_accepted: 1 } }))
      if ((counts.get(_id) ?? 0) !== accepted)
        faults.push({
          what: `${_id} counts ${accepted} shares, and its pages hold ${counts.get(_id) ?? 0}`,
          command: `${OPERATOR} show ${_id}`,
        })
    return { faults }
  })
}

/** As the workers, who have the nodes, have compared them. */
async function checkChains(ctx: Context): Promise<{ faults: Fault[] }> {
  const now = unixSeconds(ctx.databaseNow())
  const faults: Fault[] = []
  for (const {
    _id: coin,
    configured,
    gap_raw: gap = '0',
    gap_at: at = 0,
    halted,
  } of await ctx.coins.listCoins()) {
    if (!configured || !COINS.includes(coin)) continue
    if (gap !== '0')
      faults.push({
        what: `the chain of ${coin} holds ${formatAmount(BigInt(gap), coin)} more than the books say`,
        command: `${OPERATOR} books --coin ${coin}`,
      })
    if (now - at > COMPARED_SECONDS)
      faults.push({
        what: `the books of ${coin} were not compared with the chain ${at === 0 ? 'yet' : `since ${new Date(at * SECOND_MS).toISOString()}`}`,
        command: 'start the workers of the coin, and check again',
      })
    if (halted !== undefined)
      faults.push({
        what: `${coin} is halted: ${halted.reason}`,
        command: `${OPERATOR} reconcile ${coin} --dry-run`,
      })
  }
  return { faults }
}
