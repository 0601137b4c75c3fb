import type { Context } from '../context.ts'
import { messageOf } from '../platform/errors.ts'
import { coinFindings } from './coin-findings.ts'
import { keyOf, OPERATOR, severityOf, type Finding, type FindingReader } from './finding.ts'
import { hostFindings } from './host-findings.ts'
import { keyFindings } from './key-findings.ts'
import { ledgerFindings } from './ledger-findings.ts'
import {
  askApi,
  askServer,
  describeBusy,
  inTime,
  isBusy,
  judgeReach,
  NoAnswer,
  watchHost,
  type Reach,
} from './reach.ts'
import { memberFindings } from './member-findings.ts'
import { processFindings } from './process-findings.ts'
import { queueFindings } from './queue-findings.ts'
import { serviceFindings } from './service-findings.ts'

const READERS: readonly FindingReader[] = [
  hostFindings,
  memberFindings,
  processFindings,
  queueFindings,
  ledgerFindings,
  coinFindings,
  keyFindings,
  serviceFindings,
]

/**
 * Asks every reader for what isn't fine, and changes nothing. Whoever is silent is asked a second time. Takes
 * at most four times `limitMs`, if a server is silent: then that is a finding, and the readers that need the
 * server aren't asked.
 *
 * @param limitMs how long each is waited for, each time
 * @returns the findings, those to act on first
 */
export async function readFindings(ctx: Context, limitMs: number): Promise<Finding[]> {
  const readHost = watchHost()
  let api: Promise<boolean | undefined> | undefined
  const reaches = {
    // Whether the API serves says what MongoDB's silence means.
    mongodb: askServer(ctx, 'mongodb', limitMs, () => {
      api = askApi(ctx, limitMs)
    }),
    redis: askServer(ctx, 'redis', limitMs),
  }
  const askReader = async ({ name, needs, read }: FindingReader): Promise<Part> => {
    if (needs !== 'nothing' && !isReached(await reaches[needs])) return { findings: [], wasLate: false }
    const ask = () => inTime(read(ctx), limitMs, `The part "${name}"`)
    let wasLate = false
    try {
      const found = await ask().catch((error: unknown) => {
        if (!(error instanceof NoAnswer)) throw error
        wasLate = true
        return ask()
      })
      return { findings: found.filter((finding) => finding !== undefined), wasLate }
    } catch (error) {
      return { findings: [describeUnreadable(name, error)], wasLate }
    }
  }
  const readSince = async (): Promise<ReadonlyMap<string, number>> =>
    isReached(await reaches.mongodb) ? inTime(ctx.operation.watch.readSince(), limitMs, 'MongoDB') : new Map()
  const [mongodb, redis, sinceByKey, ...parts] = await Promise.all([
    reaches.mongodb,
    reaches.redis,
    readSince().catch(() => new Map<string, number>()),
    ...READERS.map(askReader),
  ])
  const host = readHost()
  const apiServes = mongodb.kind === 'silent' ? await api : undefined
  const findings = [
    ...judgeReach('mongodb', mongodb, { apiServes, host }),
    ...judgeReach('redis', redis, { apiServes, host }),
    ...(parts.some(({ wasLate }) => wasLate) && isBusy(host) ? [describeBusy(host)] : []),
    ...parts.flatMap((part) => part.findings),
  ]
  return [...new Map(findings.map((finding) => [keyOf(finding), finding])).values()]
    .map((finding) => ({ ...finding, since: finding.since ?? sinceByKey.get(keyOf(finding)) }))
    .toSorted((a, b) => Number(severityOf(a) === 'look') - Number(severityOf(b) === 'look'))
}

/** What a reader found, and whether it had to be asked twice. */
interface Part {
  findings: Finding[]
  wasLate: boolean
}

/** Whether what a server holds can be read. */
const isReached = ({ kind }: Reach): boolean => kind === 'answers' || kind === 'late'

/** Makes the finding for a part that failed, or did not answer in time twice. */
const describeUnreadable = (name: string, error: unknown): Finding => ({
  kind: 'part_unreadable',
  about: name,
  what: `The part "${name}" cannot be read, so nothing is known of it`,
  why: messageOf(error),
  command: `${OPERATOR} status --wait 30`,
})
