import {
  hintChannel,
  QUEUE_NAMES,
  queuePrefix,
  queueRow,
  type QueueName,
} from '../../shared/servers/queues.ts'

/*
 * Who may do what at the servers. Every user may read the database; what each may write is the list here, and
 * there is a row for every collection (a test compares them with the models). A process that is taken over
 * can do what its row says and no more: the API's can alter what it writes itself, and no entry, seal, tile
 * or status of the ledger, no adoption, no announcement, no payment that was counted, no state of a wallet or
 * a coin.
 *
 * Not in the API's reach, though it is in its rows: it takes addresses from the pool and records what a
 * buyer's acceptance makes owed, so it can name an address or a payout that is not right. Who pays by hand,
 * or reconciles, sees it.
 */

/** `npm start` runs `api` and `workers`; if each pool is a process of its own, it has a user of its own. */
export const ACCESS_NAMES = [
  'api',
  'shares',
  'ledger',
  'signer',
  'payments',
  'sweep',
  'workers',
  'operator',
] as const
export type AccessName = (typeof ACCESS_NAMES)[number]
/** The users of one host. */
export const HOST_USERS = ['api', 'workers', 'operator'] as const satisfies readonly AccessName[]
export type HostUser = (typeof HOST_USERS)[number]

type Action = 'insert' | 'update' | 'remove'
type Writers = Partial<Record<AccessName, readonly Action[]>>

const ADD = ['insert', 'update'] as const
/** The sequencer takes numbered entries out of the records that carry them. */
const MARKS = { ledger: ['update'] } as const

export const WRITERS = {
  // The ledger. The signer alone signs, and the sequencer and the sealer alone add.
  entries: { ledger: ['insert'] },
  seals: { ledger: ['insert'], signer: ['update'] },
  seal_tiles: { ledger: ADD },
  log_tiles: { ledger: ADD },
  cosignatures: { api: ['insert'], signer: ['insert'] },
  ledger_status: { ledger: ADD, signer: ADD },
  seal_adoptions: { ...MARKS, signer: ['insert'] },
  announcements: { ...MARKS, operator: ['insert'], signer: ['update'] },
  leases: {
    ledger: [...ADD, 'remove'],
    payments: [...ADD, 'remove'],
    signer: [...ADD, 'remove'],
    sweep: [...ADD, 'remove'],
    operator: [...ADD, 'remove'],
  },
  // Agents and what they write.
  agents: { ...MARKS, api: ADD, shares: ADD, payments: ADD, sweep: ADD, operator: ADD },
  used_challenges: { api: ADD },
  allowances: { api: ADD },
  posts: { api: ADD, operator: ADD, ...MARKS },
  claims: { api: ADD, sweep: ADD, operator: ADD, ...MARKS },
  verdicts: { api: ADD, ...MARKS },
  messages: { api: ADD },
  inboxes: { api: ADD },
  events: { api: ADD },
  event_heads: { api: ADD },
  reports: { api: ADD },
  // Proof of work.
  work_orders: { api: ADD, shares: ADD, sweep: ['update'], ...MARKS },
  work_batches: { api: ADD, shares: ADD },
  share_pages: { shares: ADD, sweep: ['remove'] },
  share_counts: { shares: ADD },
  // The market.
  offers: { api: ADD, operator: ADD, ...MARKS },
  orders: { api: ADD, payments: ADD, operator: ADD, ...MARKS },
  serving: { api: ADD },
  outages: { api: ADD, payments: ADD },
  // Money.
  invoices: { api: ADD, payments: ADD, operator: ADD, ...MARKS },
  payouts: { api: ADD, payments: ADD, operator: ADD, ...MARKS },
  addresses: { api: ['update'], payments: ADD, operator: ADD },
  payments: { payments: ADD, operator: ADD, ...MARKS },
  transfers: { payments: ADD, operator: ADD, ...MARKS },
  coins: { payments: ADD, operator: ADD },
  rates: { payments: ADD, operator: ADD },
  reconciliations: { payments: ADD, operator: ADD, ...MARKS },
  journal: { api: ['insert'], payments: ['insert'], operator: ['insert'] },
  openings: { payments: ADD, operator: ADD },
  // Which shape the database has: those who may write all that a migration changes.
  schema: { payments: ADD, operator: ADD },
  // What was seen of the network, and when it was backed up. Nobody else waits for it: payments make it too.
  watch: { payments: ADD, sweep: ADD, operator: ADD },
  // Where traces go on, if there are traces.
  traces: { api: ADD, ledger: ['update'] },
  // What was pressed on the board, which the sweep's process serves.
  operator_acts: { ...MARKS, sweep: ['insert'], operator: ['insert'] },
  // Why an operator did something. The command makes no collection, so payments may.
  operator_notes: { payments: ['insert'], operator: ['insert'] },
  look_ups: { payments: ADD, operator: ADD },
  // Each process says that it runs.
  processes: {
    api: ADD,
    shares: ADD,
    ledger: ADD,
    signer: ADD,
    payments: ADD,
    sweep: ADD,
    operator: ADD,
  },
} as const satisfies Record<string, Writers>

/**
 * The queues that a user serves or adds to. `sweep` has the operator's board too, which shows all of them.
 */
function queuesOf(user: AccessName): readonly QueueName[] {
  if (user === 'sweep' || user === 'workers' || user === 'operator') return QUEUE_NAMES
  return QUEUE_NAMES.filter((name) => {
    const { pool, addedBy = [] } = queueRow(name)
    return pool === user || addedBy.some((one) => one === user)
  })
}

export interface Privilege {
  resource: { db: string; collection: string }
  actions: string[]
}

/** A role of MongoDB: reads the database, and writes what the table says. */
export function mongoPrivileges(db: string, name: AccessName): Privilege[] {
  const reading = ['find', 'listCollections', 'listIndexes', 'collStats', 'dbStats', 'indexStats']
  const writing = Object.entries(WRITERS as Record<string, Writers>).flatMap(([collection, writers]) => {
    const actions = actionsOf(writers, name)
    return actions.length === 0
      ? []
      : [{ resource: { db, collection }, actions: [...actions, 'createCollection', 'createIndex'] }]
  })
  return [{ resource: { db, collection: '' }, actions: reading }, ...writing]
}

/** `workers` is all pools in one process. */
function actionsOf(writers: Writers, name: AccessName): Action[] {
  const names =
    name === 'workers' ? ACCESS_NAMES.filter((one) => one !== 'api' && one !== 'operator') : [name]
  return [...new Set(names.flatMap((one) => writers[one] ?? []))]
}

/** A user of Redis as its configuration declares it. */
export function redisUser(name: AccessName, password: string, prefix: string): string {
  return `user ${name} on >${password} ${redisRules(name, prefix)}`
}

/**
 * The keys of a user's queues and the hints of events, and nothing else, and no command that reaches beyond them. A worker names its
 * connection, which the count of workers is read from.
 */
export function redisRules(name: AccessName, prefix: string): string {
  const keys = queuesOf(name).map((queue) => `~${queuePrefix(prefix, queue)}:*`)
  const client = name === 'api' ? '' : ' +client'
  return `resetkeys ${keys.join(' ')} resetchannels &${hintChannel(prefix)} -@all +@all -@admin -@dangerous +info${client}`
}
