import { announcementContent, type AnnouncementRecord } from '../announcements/announcement.ts'
import { claimContent, type ClaimRecord, type VerdictRecord } from '../claims/claim.ts'
import type { Context } from '../context.ts'
import { canonicalJson, type JsonValue } from '../crypto/canonical-json.ts'
import { isOpenedBy, openContent } from '../crypto/commitment.ts'
import type { AgentRecord } from '../agents/agent.ts'
import { offerContent, type OfferRecord } from '../market/offer.ts'
import { postContent, type PostRecord } from '../posts/post.ts'
import type { EntryRecord } from './entry.ts'
import type { EntryKind } from './pending.ts'
import type { SealRecord } from './seal.ts'
import { headOf } from './seal-memory.ts'
import { closesSeal, closingEntry, countOwed, NOTHING_OWED, readOwed, type Owed } from './solvency.ts'

/*
 * The chain says that entries are what they were when they were sealed. Whether the records that the service shows are what
 * the entries commit to, by the authors that the entries name, and whether the sums follow from the entries, is looked at
 * here, with each walk over the chain. A fault is the records', not the chain's: it stops nothing, and somebody has to look.
 */

type Content = { readonly [key: string]: JsonValue }
interface Stored {
  _id: string
  salt: string
  agent_id?: string
}

interface Opener {
  collection: string
  field: string
  content(record: never): Content
}

/** One row for each kind whose commitment is to what anyone may read. */
const OPENERS: Partial<Record<EntryKind, Opener>> = {
  registration: { collection: 'agents', field: 'handle_hash', content: (agent: AgentRecord) => ({ handle: agent.handle ?? null }) },
  post: { collection: 'posts', field: 'content_hash', content: (post: PostRecord) => postContent(post) },
  claim: { collection: 'claims', field: 'content_hash', content: (claim: ClaimRecord) => claimContent(claim) },
  verdict: {
    collection: 'verdicts',
    field: 'evidence_hash',
    content: (verdict: VerdictRecord) => ({ evidence: verdict.evidence ?? null }),
  },
  announcement: {
    collection: 'announcements',
    field: 'content_hash',
    content: (record: AnnouncementRecord) => announcementContent(record),
  },
  offer: { collection: 'offers', field: 'content_hash', content: (offer: OfferRecord) => offerContent(offer) },
}

/** Faults told in words; all of them are counted. */
const MAX_TOLD = 20

export interface ContentFaults {
  count: number
  /** A sentence each, the first few. */
  told: string[]
}

type CheckContext = Pick<Context, 'database' | 'entries' | 'seals'>

/** Reads all numbered entries and the records that they name. */
export async function findContentFaults(ctx: CheckContext): Promise<ContentFaults> {
  const faults: ContentFaults = { count: 0, told: [] }
  const tell = (sentence: string): void => {
    if (faults.count++ < MAX_TOLD) faults.told.push(sentence)
  }
  const checkSums = createSumCheck(ctx, tell)
  for await (const page of ctx.entries.pages(1)) {
    for (const entry of page) await checkSums(entry)
    for (const [kind, opener] of Object.entries(OPENERS)) {
      const own = page.filter((entry) => entry.kind === kind)
      if (own.length > 0) await checkRecords(ctx, opener, own, tell)
    }
  }
  return faults
}

async function checkRecords(
  ctx: CheckContext,
  { collection, field, content }: Opener,
  entries: readonly EntryRecord[],
  tell: (sentence: string) => void,
): Promise<void> {
  const ids = entries.map(({ record }) => record)
  const found = await ctx.database.connection
    .collection<Stored>(collection)
    .find({ _id: { $in: ids } }, { readConcern: { level: 'majority' }, projection: { pending: 0 }, batchSize: ids.length + 1 })
    .toArray()
  const records = new Map(found.map((record) => [record._id, record]))
  for (const { _id, record: id, data } of entries) {
    const record = records.get(id)
    if (record === undefined) {
      tell(`entry ${_id}: ${id} is gone`)
      continue
    }
    const { salt, agent_id: author } = record
    if (!isOpenedBy(data[field], salt, openContent(data[field], salt, id, content(record as never))))
      tell(`entry ${_id}: ${id} is not what its entry commits to`)
    if (author !== undefined && author !== data['agent_id']) tell(`entry ${_id}: ${id} has another author than its entry`)
  }
}

/** Goes through the entries in their order and computes what each seal's closing entry should have said. */
function createSumCheck({ seals }: CheckContext, tell: (sentence: string) => void): (entry: EntryRecord) => Promise<void> {
  let seq = 1
  let owed: Owed = NOTHING_OWED
  let previous: SealRecord | undefined
  let seal: SealRecord | undefined
  return async (entry) => {
    seal ??= await seals.find(seq)
    if (seal?.to_id === entry._id) {
      if (!closesSeal(entry, seq)) return tell(`entry ${entry._id} is the last of seal ${seq} and does not close it`)
      const { data } = closingEntry(seq, entry.at, owed, previous === undefined ? null : headOf(previous).payloadHash)
      if (canonicalJson(entry.data['owed']) !== canonicalJson(data['owed']))
        tell(`entry ${entry._id}: the sums of seal ${seq} do not follow`)
      if (entry.data['prev_seal'] !== undefined && entry.data['prev_seal'] !== data['prev_seal'])
        tell(`entry ${entry._id}: seal ${seq} names another seal before it`)
      owed = readOwed(entry)
      previous = seal
      seal = undefined
      seq++
      return
    }
    const counted = countOwed(owed, entry)
    if (counted.anomaly !== undefined) tell(counted.anomaly)
    owed = counted.owed
  }
}
