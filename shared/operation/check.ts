import type { ClientSession, Connection, mongo } from 'mongoose'
import { findContentFaults } from './content-check.ts'
import type { Context } from '../context.ts'
import { findChainFault } from '../ledger/chain-check.ts'
import { readLogFromTiles } from '../ledger/log.ts'
import { memoryFileOf, readMemory } from '../ledger/seal-memory.ts'
import { COINS } from '../money/coin.ts'
import { SHARE_PAGES_KEPT_MS } from '../platform/limits.ts'
import { nowSeconds, SECOND_MS, unixSeconds } from '../platform/time.ts'
import { findBookFaults, findMoneyFaults, findOwedFaults, type BookRecords } from './check-money.ts'
import { findLostEntries, restoreEntry, type LostEntry } from './lost-entries.ts'
import { formatGap, OPERATOR } from './finding.ts'
import { atOneMoment, readPending } from './one-moment.ts'

/** Something that doesn't hold. */
export interface Fault {
  what: string
  /** What to run, or to do if no command can do it. */
  command: string
}

export interface CheckResult {
  name: string
  /** What holds if there are no faults. */
  title: string
  faults: Fault[]
  /** How many faults were mended before the look. */
  mended: number
}

interface Check {
  name: string
  title: string
  findFaults(ctx: Context): Promise<Fault[]>
  /** Mends what can be mended. @returns how many faults it mended */
  mend?(ctx: Context): Promise<number>
}

/** The longest that the last comparison of a coin's books with its chain may be ago. */
const COMPARED_SECONDS = 900
const RESTORE = `${OPERATOR} restore DIR --to URL|DATA_DIR   # of a backup from before`

const CHECKS: readonly Check[] = [
  { name: 'indexes', title: 'every collection has its indexes', findFaults: checkIndexes },
  {
    name: 'entries',
    title: 'numbers without a gap, one entry for each record',
    findFaults: checkEntries,
    mend: restoreEntries,
  },
  {
    name: 'seals',
    title: 'links, ranges, roots and signatures of all seals, over all entries',
    async findFaults(ctx) {
      const fault = await findChainFault(ctx)
      return fault === undefined ? [] : [{ what: fault, command: RESTORE }]
    },
  },
  { name: 'log', title: 'the tiles of the log lead to the root that was signed', findFaults: checkLog },
  {
    name: 'content',
    title: 'records are what their entries commit to, and sums follow from the entries',
    async findFaults(ctx) {
      const { count, sentences } = await findContentFaults(ctx)
      const rest = count > sentences.length ? [`and ${count - sentences.length} more`] : []
      const otherwise = `${OPERATOR} check --only seals`
      return [...sentences, ...rest].map((what) => ({ what, command: showCommandFor(what, otherwise) }))
    },
  },
  { name: 'memory', title: 'the seal memory of this host fits the database', findFaults: checkMemory },
  { name: 'money', title: 'every payment is accounted for, once', findFaults: checkMoney },
  { name: 'books', title: 'the journal agrees with the records', findFaults: checkBooks },
  { name: 'shares', title: 'the shares of an order are the nonces on its pages', findFaults: checkShares },
  { name: 'chains', title: 'the books agree with the chains of the coins', findFaults: checkChains },
]

export const CHECK_NAMES = CHECKS.map(({ name }) => name)

/**
 * Runs every check, or `only` the one of that name, one after another. Each reads the database as it was at
 * one moment.
 *
 * @param mends whether to mend first what can be mended, which writes
 */
export async function runChecks(
  ctx: Context,
  { mends, only }: { mends: boolean; only?: string | undefined },
): Promise<CheckResult[]> {
  const results: CheckResult[] = []
  for (const { name, title, findFaults, mend } of CHECKS) {
    if (only !== undefined && only !== name) continue
    const mended = mends ? ((await mend?.(ctx)) ?? 0) : 0
    results.push({ name, title, faults: await findFaults(ctx), mended })
  }
  return results
}

/** The command that shows the record whose id a fault's sentence has; `otherwise` if it has no id. */
function showCommandFor(sentence: string, otherwise: string): string {
  const [id] = /\b[a-z]{3}_[0-9a-z]{26}\b/.exec(sentence) ?? []
  return id === undefined ? otherwise : `${OPERATOR} show ${id}`
}

/** Reads all documents of the named collections at one moment. */
const readCollections = <Name extends string>(
  ctx: Context,
  names: readonly Name[],
): Promise<Record<Name, mongo.Document[]>> =>
  atOneMoment(ctx, async (connection, session) => {
    const documents = {} as Record<Name, mongo.Document[]>
    for (const name of names)
      documents[name] = await connection.collection(name).find({}, { session }).toArray()
    return documents
  })

/** Checks that each collection has every index that its schema names. */
async function checkIndexes({ database: { connection } }: Context): Promise<Fault[]> {
  const faults = await Promise.all(
    Object.values(connection.models).map(async ({ collection: { collectionName: name }, schema }) => {
      const indexes = await connection
        .collection(name)
        .indexes()
        .catch(() => [])
      const keys = new Set(indexes.map(({ key }) => JSON.stringify(key)))
      if (schema.indexes().every(([key]) => keys.has(JSON.stringify(key)))) return []
      return [
        {
          what: `the collection ${name} lacks an index: nothing guards what is unique in it`,
          command: 'start any process of the network: it makes what is missing',
        },
      ]
    }),
  )
  return faults.flat()
}

/** Checks that the ledger's entries have no gap, and that no record has lost its first entry. */
async function checkEntries(ctx: Context): Promise<Fault[]> {
  const { gaps, lost } = await atOneMoment(ctx, async (connection, session) => ({
    gaps: await findGaps(connection, session),
    lost: await findLostEntries(connection, session),
  }))
  return [...gaps.map((what) => ({ what, command: RESTORE })), ...lost.map(describeLost)]
}

/** Stores lost entries again, as pending ones. @returns how many */
async function restoreEntries(ctx: Context): Promise<number> {
  let restored = 0
  for (const entry of await atOneMoment(ctx, findLostEntries)) if (await restoreEntry(ctx, entry)) restored++
  return restored
}

const describeLost = ({ collection, id, source, isMendable }: LostEntry): Fault => ({
  what: `${id} of ${collection} has no entry in the ledger and waits for none (${source})`,
  command: isMendable
    ? `${OPERATOR} check --mend   # it is numbered anew, after all that was`
    : `${OPERATOR} show ${id}   # what its entry said is not in the record; a backup of one moment has it`,
})

/** Checks that the entries are numbered from 1 without a gap. @returns a sentence for the first gap */
async function findGaps(connection: Connection, session: ClientSession): Promise<string[]> {
  const entries = connection.collection<{ _id: number }>('entries')
  const ids = { session, projection: { _id: 1 } }
  const [last = { _id: 0 }] = await entries.find({}, ids).sort({ _id: -1 }).limit(1).toArray()
  const count = await entries.countDocuments({}, { session })
  if (count === last._id) return []
  let due = 1
  for await (const { _id } of entries.find({}, ids).sort({ _id: 1 })) {
    if (_id !== due) return [`the ledger has entry ${_id} where ${due} should be, and ${count} in all`]
    due++
  }
  return [`the ledger has ${count} entries and ends at ${last._id}`]
}

/** Checks that the stored tiles of the log give the root that was signed with the newest seal. */
async function checkLog(ctx: Context): Promise<Fault[]> {
  const last = await ctx.seals.lastSigned()
  if (last?.log_root === undefined) return []
  const tree = await readLogFromTiles(ctx.entries.tiles, last.to_id)
  const root = tree?.root().toString('hex')
  if (root === last.log_root) return []
  return [
    {
      what: `the tiles of the log ${root === undefined ? 'are not all there' : `give the root ${root}`}, and seal ${last._id} was signed with ${last.log_root}`,
      command: 'drop the collection log_tiles: the next seal builds it again',
    },
  ]
}

/** Checks that the seal memory, the signer's own record of what it signed, isn't ahead of the database. */
async function checkMemory(ctx: Context): Promise<Fault[]> {
  const file = memoryFileOf(ctx.config)
  const remembered = readMemory(file)
  const lastSeq = (await ctx.seals.lastSigned())?._id ?? 0
  // A seal is remembered before its signature is stored.
  if (remembered === undefined || remembered.seq <= lastSeq + 1) return []
  return [
    {
      what: `${file} remembers seal ${remembered.seq}, and the database ends at the signed seal ${lastSeq}`,
      command: `give back the newer database; or, on the signing host, ${OPERATOR} seal --adopt SEQ HASH`,
    },
  ]
}

const SHOW_BOOKS = `${OPERATOR} books`
const ENTRIES_OF_MONEY = ['payment', 'pass_credit', 'fee', 'payout', 'dispute_outcome', 'money_move']

/** Checks that payments, invoices and ledger agree: see findMoneyFaults(). */
async function checkMoney(ctx: Context): Promise<Fault[]> {
  const records = await atOneMoment(ctx, async (connection, session) => {
    const all = async (name: string, filter = {}) =>
      connection
        .collection(name)
        .find(filter, { session, sort: { _id: 1 } })
        .toArray()
    const numbered = (await all('entries', { kind: { $in: ENTRIES_OF_MONEY } })) as never[]
    const pending = await readPending(connection, session)
    return {
      invoices: (await all('invoices')) as never[],
      payments: (await all('payments')) as never[],
      lines: (await all('journal')) as never[],
      entries: [...numbered, ...pending],
    }
  })
  return [
    ...findMoneyFaults(records).map((what) => ({ what, command: showCommandFor(what, SHOW_BOOKS) })),
    ...findOwedFaults(records.entries, records.lines).map((what) => ({
      what,
      command: booksCommandFor(what),
    })),
  ]
}

/** Checks that the journal agrees with the records: see findBookFaults(). */
async function checkBooks(ctx: Context): Promise<Fault[]> {
  const names = ['invoices', 'payments', 'orders', 'payouts', 'transfers', 'journal'] as const
  const { journal: lines, ...records } = await readCollections(ctx, names)
  return findBookFaults({ ...records, lines } as { [name in keyof BookRecords]: never[] }).map((what) => ({
    what,
    command: booksCommandFor(what),
  }))
}

/** The command that shows the books of the coin with which a fault's sentence begins. */
const booksCommandFor = (what: string): string => `${OPERATOR} books --coin ${what.slice(0, 3)}`

/** Checks that each work order counts as many shares as its pages hold nonces. */
async function checkShares(ctx: Context): Promise<Fault[]> {
  return atOneMoment(ctx, async (connection, session) => {
    const counts = new Map<string, number>()
    for await (const { order_id: id, nonces } of connection
      .collection<{ order_id: string; nonces: string }>('share_pages')
      .find({}, { session, projection: { order_id: 1, nonces: 1 } }))
      counts.set(id, (counts.get(id) ?? 0) + nonces.split(' ').filter((nonce) => nonce !== '').length)
    const faults: Fault[] = []
    // The sweep deletes pages of orders whose time has long been over.
    const keptSince = unixSeconds(ctx.database.now() - SHARE_PAGES_KEPT_MS)
    const withPages = { $or: [{ share_pages: { $exists: true } }, { expires_at: { $gt: keptSince } }] }
    for await (const { _id, shares_accepted: accepted } of connection
      .collection<{ _id: string; shares_accepted: number }>('work_orders')
      .find(withPages, { session, projection: { shares_accepted: 1 } }))
      if ((counts.get(_id) ?? 0) !== accepted)
        faults.push({
          what: `${_id} counts ${accepted} shares, and its pages hold ${counts.get(_id) ?? 0}`,
          command: `${OPERATOR} show ${_id}`,
        })
    return faults
  })
}

/** Checks what the workers, which have the nodes, have stored about their comparison of books and chains. */
async function checkChains(ctx: Context): Promise<Fault[]> {
  const now = nowSeconds(ctx)
  const faults: Fault[] = []
  for (const record of await ctx.coins.listCoins()) {
    const { _id: coin, configured, gap_raw: gap = '0', gap_at: comparedAt = 0, halted } = record
    if (!configured || !COINS.includes(coin)) continue
    if (gap !== '0')
      faults.push({
        what: `the chain of ${coin} holds ${formatGap(BigInt(gap), coin)} than the books say`,
        command: `${OPERATOR} books --coin ${coin}`,
      })
    if (now - comparedAt > COMPARED_SECONDS)
      faults.push({
        what: `the books of ${coin} were not compared with the chain ${comparedAt === 0 ? 'yet' : `since ${new Date(comparedAt * SECOND_MS).toISOString()}`}`,
        command: 'start the workers of the coin, and check again',
      })
    if (halted !== undefined)
      faults.push({
        what: `${coin} is halted: ${halted.reason}`,
        command: `${OPERATOR} reconcile ${coin} --dry-run`,
      })
  }
  return faults
}
