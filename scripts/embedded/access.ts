import { QUEUE_NAMES, queuePrefix, queueRow, type QueueName } from '../../shared/platform/queue-table.ts'

/*
 * Who may do what at the servers. Every user but that of doorbells may read the database; what each may write is listed here, with
 * a row for every collection (a test compares them with the models). A process that is taken over
 * can do what the rows say and no more: the API's can alter what it writes itself, and no entry, seal, tile
 * or status of the ledger, no adoption, no announcement, no payment that was counted, no state of a wallet or
 * a coin.
 *
 * What this does not prevent: the API takes addresses from the pool and records what a buyer's acceptance makes
 * owed, so a taken-over one can name an address or a payout that is wrong. Who pays by hand, or reconciles,
 * sees it.
 */

/** `npm start` runs `api` and `workers`; if each pool is a process of its own, it has a user of its own. */
export const ACCESS_NAMES = [
  'api',
  'shares',
  'ledger',
  'signer',
  'payments',
  'sweep',
  'doorbells',
  'workers',
  'operator',
] as const
export type AccessName = (typeof ACCESS_NAMES)[number]
/** The users of one host. */
export const HOST_USERS = ['api', 'workers', 'doorbells', 'operator'] as const satisfies readonly AccessName[]
export type HostUser = (typeof HOST_USERS)[number]

type Action = 'insert' | 'update' | 'remove'
type Writers = Partial<Record<AccessName, readonly Action[]>>

const ADD = ['insert', 'update'] as const
/** For records that carry pending entries: the sequencer takes out those that it has numbered. */
const CARRIES_ENTRIES = { ledger: ['update'] } as const

export const WRITERS = {
  // The ledger. The signer alone signs, and the sequencer and the sealer alone add.
  entries: { ledger: ['insert'] },
  seals: { ledger: ['insert'], signer: ['update'] },
  log_tiles: { ledger: ADD },
  cosignatures: { api: ['insert'], signer: ['insert'] },
  ledger_status: { ledger: ADD, signer: ADD },
  seal_adoptions: { ...CARRIES_ENTRIES, signer: ['insert'] },
  announcements: { ...CARRIES_ENTRIES, operator: ['insert'], signer: ['update'] },
  leases: {
    ledger: [...ADD, 'remove'],
    payments: [...ADD, 'remove'],
    signer: [...ADD, 'remove'],
    sweep: [...ADD, 'remove'],
    operator: [...ADD, 'remove'],
  },
  // Agents and what they write.
  agents: { ...CARRIES_ENTRIES, api: ADD, shares: ADD, payments: ADD, sweep: ADD, operator: ADD },
  used_challenges: { api: ADD },
  allowances: { api: ADD },
  posts: { api: ADD, sweep: ['update'], operator: ADD, ...CARRIES_ENTRIES },
  claims: { api: ADD, sweep: ADD, operator: ADD, ...CARRIES_ENTRIES },
  verdicts: { api: ADD, ...CARRIES_ENTRIES },
  messages: { api: ADD },
  inboxes: { api: ADD },
  events: { api: ADD },
  event_heads: { api: ADD },
  reports: { api: ADD },
  // Who rings them reads nothing but these and says which key it signs with.
  doorbells: { api: ADD, sweep: ADD, doorbells: ADD },
  // Where none are rung, payments make it, and write nothing.
  doorbell_keys: { doorbells: ADD, payments: [] },
  // Proof of work.
  work_orders: { api: ADD, shares: ADD, sweep: ['update'], ...CARRIES_ENTRIES },
  work_batches: { api: ADD, shares: ADD },
  share_pages: { shares: ADD, sweep: ['remove'] },
  share_counts: { shares: ADD },
  // The market.
  offers: { api: ADD, sweep: ['update'], operator: ADD, ...CARRIES_ENTRIES },
  orders: { api: ADD, payments: ADD, operator: ADD, ...CARRIES_ENTRIES },
  serving: { api: ADD },
  outages: { api: ADD, payments: ADD },
  // Money.
  invoices: { api: ADD, payments: ADD, operator: ADD, ...CARRIES_ENTRIES },
  payouts: { api: ADD, payments: ADD, operator: ADD, ...CARRIES_ENTRIES },
  addresses: { api: ['update'], payments: ADD, operator: ADD },
  payments: { payments: ADD, operator: ADD, ...CARRIES_ENTRIES },
  transfers: { payments: ADD, operator: ADD, ...CARRIES_ENTRIES },
  coins: { payments: ADD, operator: ADD },
  rates: { payments: ADD, operator: ADD },
  reconciliations: { payments: ADD, operator: ADD, ...CARRIES_ENTRIES },
  // Whoever upgrades gives old lines their entries.
  journal: { ...CARRIES_ENTRIES, api: ['insert'], payments: ADD, operator: ADD },
  // Which shape the database has: those who may write all that a migration changes.
  schema: { payments: ADD, operator: ADD },
  // What was seen of the network, and when it was backed up. Nobody else waits for it: payments make it too.
  watch: { payments: ADD, sweep: ADD, operator: ADD },
  // The network's figures of the last day. Who has the operator's port takes them; payments make it, as above.
  samples: { payments: ADD, sweep: ADD, operator: ADD },
  // Where traces go on, if there are traces.
  traces: { api: ADD, ledger: ['update'] },
  // What was pressed on the board, which the sweep's process serves.
  operator_acts: { ...CARRIES_ENTRIES, sweep: ['insert'], operator: ['insert'] },
  // Why an operator did something. The command makes no collection, so payments may.
  operator_notes: { payments: ['insert'], operator: ['insert'] },
  // Proofs of control, kept as they were made.
  control_proofs: { payments: ['insert'] },
  look_ups: { payments: ADD, operator: ADD },
  // Each process says that it runs.
  processes: {
    api: ADD,
    shares: ADD,
    ledger: ADD,
    signer: ADD,
    payments: ADD,
    sweep: ADD,
    doorbells: ADD,
    operator: ADD,
  },
} as const satisfies Record<string, Writers>

/**
 * The queues that a user reaches: those that it serves or adds to; all of them for who has or shows the
 * board.
 */
function queuesOf(user: AccessName): readonly QueueName[] {
  if (user === 'sweep' || user === 'workers' || user === 'operator') return QUEUE_NAMES
  return QUEUE_NAMES.filter((name) => {
    const { pool, addedBy = [] } = queueRow(name)
    return pool === user || addedBy.some((adder) => adder === user)
  })
}

/** Those who tell the operator which member of MongoDB's set is away. */
const MAY_SEE_MEMBERS: ReadonlySet<AccessName> = new Set(['sweep', 'workers', 'operator'])

export interface Privilege {
  resource: { db: string; collection: string } | { cluster: true }
  actions: string[]
}

/** What of a database any process may know: which collections and indexes it has, and how large they are. */
const SHAPES = ['listCollections', 'listIndexes', 'collStats', 'dbStats', 'indexStats'] as const

/** Who reads only some collections: what connects to hosts that strangers name must have nothing to tell them. */
const READS_ONLY: Partial<Record<AccessName, readonly (keyof typeof WRITERS)[]>> = {
  doorbells: ['doorbells', 'doorbell_keys', 'processes', 'schema'],
}

/** The privileges of a user's role in MongoDB: reading the database, and writing what WRITERS allows. */
export function mongoPrivileges(db: string, user: AccessName): Privilege[] {
  const reads = READS_ONLY[user]
  const privileges: Privilege[] = [
    { resource: { db, collection: '' }, actions: reads === undefined ? ['find', ...SHAPES] : [...SHAPES] },
    ...(reads ?? []).map((collection) => ({ resource: { db, collection }, actions: ['find'] })),
  ]
  if (MAY_SEE_MEMBERS.has(user))
    privileges.push({ resource: { cluster: true }, actions: ['replSetGetStatus'] })
  for (const [collection, writers] of Object.entries<Writers>(WRITERS)) {
    if (rowsOf(user).some((name) => writers[name] !== undefined))
      privileges.push({
        resource: { db, collection },
        actions: [...writeActions(writers, user), 'createCollection', 'createIndex'],
      })
  }
  return privileges
}

/** What a user may do in a collection by its row. */
const writeActions = (writers: Writers, user: AccessName): Action[] => [
  ...new Set(rowsOf(user).flatMap((name) => writers[name] ?? [])),
]

/**
 * Whose rights a user has: `workers` runs all pools in one process; the process with the operator's port, which
 * has the operator's user, serves the sweep.
 */
function rowsOf(user: AccessName): readonly AccessName[] {
  if (user === 'workers')
    return ACCESS_NAMES.filter((name) => !['api', 'operator', 'doorbells'].includes(name))
  return user === 'operator' ? [user, 'sweep'] : [user]
}

/** The line of Redis's configuration that declares a user. @param prefix begins the names of the queues */
export function redisUser(name: AccessName, password: string, prefix: string): string {
  return `user ${name} on >${password} ${redisRules(name, prefix)}`
}

/**
 * The ACL rules of a Redis user: it reaches the keys of its queues, and has no command that reaches beyond them. Workers name their connections, by which they are
 * counted, so all but the API have CLIENT.
 */
export function redisRules(name: AccessName, prefix: string): string {
  const keys = queuesOf(name).map((queue) => `~${queuePrefix(prefix, queue)}:*`)
  // What the API has no need of: the names of others' keys, and an end to their scripts.
  const own = name === 'api' ? ' -script +script|load +script|exists -randomkey -scan' : ' +client'
  return `resetkeys ${keys.join(' ')} resetchannels -@all +@all -@admin -@dangerous +info${own}`
}
