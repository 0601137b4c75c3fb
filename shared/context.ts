import { setMarkClock } from './events/mark.ts'
import { createEventStore, type EventStore } from './events/event-store.ts'
import { createAgentStore, type AgentStore } from './agents/agent-store.ts'
import { createAnnouncementStore, type AnnouncementStore } from './announcements/announcement-store.ts'
import { createClaimStore, storeEndorsements, type ClaimStore } from './claims/claim-store.ts'
import { createDoorbellStore, type DoorbellStore } from './doorbells/doorbell-store.ts'
import type { Config } from './platform/config.ts'
import { openDatabase, type Database } from './platform/database.ts'
import { createEntryStore, type EntryStore } from './ledger/entry-store.ts'
import { createLeaseStore, type LeaseStore } from './platform/lease-store.ts'
import { createSealStore, type SealStore } from './ledger/seal-store.ts'
import { createIndexes } from './platform/indexes.ts'
import type { Log } from './platform/log.ts'
import { onTracedRecord } from './platform/tracing.ts'
import { orderPurpose } from './market/order-payments.ts'
import { createOfferStore, type OfferStore } from './market/offer-store.ts'
import { createOrderStore, type OrderStore } from './market/order-store.ts'
import { createMetrics, type Metrics } from './platform/metrics.ts'
import {
  defineSchemaModel,
  expectSchema,
  migrate,
  refuseNewer,
  type Migration,
} from './platform/migrations.ts'
import { createMessageStore, type MessageStore } from './messages/message-store.ts'
import { recordOldArrivals } from './money/arrival-migration.ts'
import { giveOldLinesEntries } from './money/journal-migration.ts'
import type { AddressGiver } from './money/address-store.ts'
import { createCoinStore, type CoinStore } from './money/coin-store.ts'
import { passPurpose } from './passes/pass-purchase.ts'
import { createInvoiceStore, type InvoiceStore } from './money/invoice-store.ts'
import { createJournalStore, type JournalStore } from './money/journal-store.ts'
import { createPayoutStore, type PayoutStore } from './money/payout-store.ts'
import type { Purposes } from './money/purpose.ts'
import { createPostStore, type PostStore } from './posts/post-store.ts'
import { openQueues, type Queues } from './platform/queues.ts'
import { createTraceStore } from './platform/trace-store.ts'
import { createReportStore, type ReportStore } from './reports/report-store.ts'
import { createOperationStore, type OperationStore } from './operation/operation-store.ts'
import { createWorkStore, type WorkStore } from './passes/work-store.ts'

/** Everything that a use case works with. One for each process; a test makes its own with its own clock. */
export interface Context {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
  readonly database: Database
  readonly queues: Queues
  readonly agents: AgentStore
  readonly posts: PostStore
  readonly claims: ClaimStore
  readonly work: WorkStore
  readonly coins: CoinStore
  readonly invoices: InvoiceStore
  readonly payouts: PayoutStore
  readonly journal: JournalStore
  readonly purposes: Purposes
  readonly offers: OfferStore
  readonly orders: OrderStore
  readonly messages: MessageStore
  readonly events: EventStore
  readonly doorbells: DoorbellStore
  readonly reports: ReportStore
  readonly announcements: AnnouncementStore
  readonly entries: EntryStore
  readonly seals: SealStore
  readonly leases: LeaseStore
  readonly operation: OperationStore
  /**
   * The present by this machine's clock, in milliseconds since the epoch. Every time that decides about money
   * or a pass is `database.now()`.
   */
  now(): number
}

export interface ContextOptions {
  /** Puts the present somewhere else, by the machine's clock and by the database's. */
  now?: () => number
  /** Longest wait for MongoDB; as long as a request may wait if absent. */
  databaseTimeoutMs?: number
  /** Who gives out addresses; this process if absent. */
  addressGiver?: AddressGiver
  /** Makes no collection and no index, and upgrades nothing: for who only looks. */
  changesNothing?: boolean
}

/** The migrations of the database, in order; see migrations.ts. Version 1 is that of the first release. */
const MIGRATIONS: readonly Migration[] = [
  { to: 1, what: 'the database begins', run: () => Promise.resolve() },
  { to: 2, what: 'money that no invoice counts has records of its own', run: recordOldArrivals },
  { to: 3, what: 'moves of money that no other entry tells of have entries', run: giveOldLinesEntries },
  { to: 4, what: 'proposals say how many endorsements they have', run: storeEndorsements },
]

/**
 * Opens stores and queues and wires the features. Database and queues connect in the background, so a process
 * can start before its servers.
 *
 * @throws TypeError without mongodbUrl and redisUrl
 */
export function openContext(config: Config, log: Log, options: ContextOptions = {}): Context {
  if (config.mongodbUrl === undefined || config.redisUrl === undefined)
    throw new TypeError('"config" expected mongodbUrl and redisUrl')
  const now = options.now ?? (() => Date.now())
  const database = openDatabase({
    now,
    url: config.mongodbUrl,
    log,
    timeoutMs: options.databaseTimeoutMs ?? config.databaseMs,
    async prepare(connected) {
      if (options.changesNothing === true) return expectSchema(connected, MIGRATIONS)
      await refuseNewer(connected, MIGRATIONS)
      await createIndexes(connected)
      await migrate(connected, MIGRATIONS, log)
    },
  })
  const { connection } = database
  defineSchemaModel(connection)
  const queues = openQueues(config.redisUrl, config.queuePrefix, log)
  setMarkClock(() => (database.isReady() ? database.now() : Date.now()))
  const traces = createTraceStore(connection)
  onTracedRecord((recordId, place) => {
    traces
      .put(recordId, place)
      .catch((error: unknown) => log.debug({ err: error }, 'a trace could not be followed'))
  })
  return {
    config,
    log,
    metrics: createMetrics(),
    database,
    queues,
    agents: createAgentStore(connection, config.requestMs),
    posts: createPostStore(connection, config.requestMs),
    claims: createClaimStore(connection),
    work: createWorkStore(connection, config.requestMs),
    coins: createCoinStore(connection, options.addressGiver),
    invoices: createInvoiceStore(connection),
    payouts: createPayoutStore(connection),
    journal: createJournalStore(connection),
    purposes: { pass: passPurpose, order: orderPurpose },
    offers: createOfferStore(connection),
    orders: createOrderStore(connection),
    messages: createMessageStore(connection, config.requestMs),
    events: createEventStore(connection),
    doorbells: createDoorbellStore(connection),
    reports: createReportStore(connection),
    announcements: createAnnouncementStore(connection),
    entries: createEntryStore(connection),
    seals: createSealStore(connection),
    leases: createLeaseStore(connection),
    operation: createOperationStore(connection),
    now,
  }
}

/** Closes the queues and the database; nothing can be done with the context after that. */
export async function closeContext({
  queues,
  database,
}: Pick<Context, 'queues' | 'database'>): Promise<void> {
  await Promise.all([queues.close(), database.close()])
}
