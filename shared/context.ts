import { createAgentStore, type AgentStore } from './agents/agent-store.ts'
import { createAnnouncementStore, type AnnouncementStore } from './announcements/announcement-store.ts'
import { createClaimStore, type ClaimStore } from './claims/claim-store.ts'
import type { Config } from './config.ts'
import { openDatabase, type Database } from './database.ts'
import { createEntryStore, type EntryStore } from './ledger/entry-store.ts'
import { createLeaseStore, type LeaseStore } from './ledger/lease-store.ts'
import { createSealStore, type SealStore } from './ledger/seal-store.ts'
import type { Log } from './log.ts'
import { createMessageStore, type MessageStore } from './messages/message-store.ts'
import { createPostStore, type PostStore } from './posts/post-store.ts'
import { openQueues, type Queues } from './queues.ts'
import { createReportStore, type ReportStore } from './reports/report-store.ts'
import { createWorkStore, type WorkStore } from './work/work-store.ts'

/** Everything that a use case works with. One for each process; a test makes its own with its own clock. */
export interface Context {
  readonly config: Config
  readonly log: Log
  readonly database: Database
  readonly queues: Queues
  readonly agents: AgentStore
  readonly posts: PostStore
  readonly claims: ClaimStore
  readonly work: WorkStore
  readonly messages: MessageStore
  readonly reports: ReportStore
  readonly announcements: AnnouncementStore
  readonly entries: EntryStore
  readonly seals: SealStore
  readonly leases: LeaseStore
  /** The present, in milliseconds since the epoch. */
  now(): number
  close(): Promise<void>
}

export interface ContextOptions {
  now?: () => number
  /** Longest wait for MongoDB; the API answers 503 past it. */
  databaseTimeoutMs?: number
}

/** Opens stores and queues. Both connect in the background, so a process can start before its servers. */
export function openContext(config: Config, log: Log, options: ContextOptions = {}): Context {
  if (config.mongodbUrl === undefined || config.redisUrl === undefined) throw new TypeError('"config" expected mongodbUrl and redisUrl')
  const database = openDatabase({
    url: config.mongodbUrl,
    log,
    ...(options.databaseTimeoutMs === undefined ? {} : { timeoutMs: options.databaseTimeoutMs }),
    createIndexes: async (connection) => {
      for (const model of Object.values(connection.models)) {
        await model.createCollection()
        await model.createIndexes()
      }
    },
  })
  const { connection } = database
  const queues = openQueues(config.redisUrl, config.queuePrefix, log)
  return {
    config,
    log,
    database,
    queues,
    agents: createAgentStore(connection),
    posts: createPostStore(connection),
    claims: createClaimStore(connection),
    work: createWorkStore(connection),
    messages: createMessageStore(connection),
    reports: createReportStore(connection),
    announcements: createAnnouncementStore(connection),
    entries: createEntryStore(connection),
    seals: createSealStore(connection),
    leases: createLeaseStore(connection),
    now: options.now ?? Date.now,
    async close() {
      await Promise.all([queues.close(), database.close()])
    },
  }
}
