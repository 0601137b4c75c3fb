import type { Context } from '../context.ts'
import { formatVkey } from '../crypto/note.ts'
import { SECOND_MS, unixSeconds } from '../foundation/time.ts'
import { checkpointOf } from '../ledger/checkpoint.ts'
import { headOf, NOTHING_SIGNED } from '../ledger/seal-memory.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'
import { firstLine, reachesRedis } from './queue-findings.ts'

/** Making and signing a seal takes seconds; a worker that died is replaced within a minute. */
export const SEAL_SLACK_SECONDS = 120
/** A witness answers within seconds; it is asked again with each sweep. */
const COSIGN_SLACK_SECONDS = 5
const MAX_UNSIGNED = 1_000
const REDIS_LIMIT_MS = 500

export const ledgerFindings: FindingReader = {
  name: 'ledger',
  needs: 'mongodb',
  async read(ctx) {
    const [chain, unsigned, unsealed, unnumbered, unwitnessed] = await Promise.all([
      ctx.seals.readStatus(),
      findUnsigned(ctx),
      findUnsealed(ctx),
      findUnnumbered(ctx),
      findUnwitnessed(ctx),
    ])
    return [
      ...(chain.intact
        ? []
        : [
            {
              kind: 'chain_broken' as const,
              what: 'The chain of seals does not hold, and nothing more is signed',
              why: chain.fault,
              command: `${OPERATOR} check`,
            },
          ]),
      ...unsigned,
      ...unsealed,
      ...unnumbered,
      ...unwitnessed,
    ]
  },
}

async function findUnsigned(ctx: Context): Promise<Finding[]> {
  const unsigned = await ctx.seals.listUnsigned(MAX_UNSIGNED)
  const [first] = unsigned
  const seal = first === undefined ? undefined : await ctx.seals.find(first)
  if (seal === undefined) return []
  const reason = await readRefusal(ctx)
  if (reason === undefined && unixSeconds(ctx.now()) - seal.at < SEAL_SLACK_SECONDS) return []
  const head = await ctx.seals.lastSigned()
  const { seq, payloadHash } = head === undefined ? NOTHING_SIGNED : headOf(head)
  return [
    {
      kind: 'seals_unsigned',
      since: seal.at,
      what: `${unsigned.length} seals have no signature, from ${seal._id} on`,
      why: reason ?? 'no worker with SEAL_KEY_FILE has tried',
      command:
        // The refusal asks for this, beside giving back what belongs together.
        reason?.includes('operator seal --adopt') === true
          ? `${OPERATOR} seal --adopt ${seq} ${payloadHash}   # on the signing host, only if this database is the one to go on from`
          : `npm run workers -- --queues sign-seals,sign-announcement,cosign   # with SEAL_KEY_FILE; or: ${OPERATOR} seal`,
    },
  ]
}

/** What the last try to sign ended with; undefined if Redis doesn't say. */
async function readRefusal(ctx: Context): Promise<string | undefined> {
  if (!(await reachesRedis(ctx, REDIS_LIMIT_MS))) return undefined
  const [job] = await ctx.queues
    .get('sign-seals')
    .getJobs(['failed', 'delayed'], 0, 0)
    .catch(() => [])
  return job?.failedReason === undefined || job.failedReason === '' ? undefined : firstLine(job.failedReason)
}

async function findUnsealed(ctx: Context): Promise<Finding[]> {
  const last = await ctx.seals.last()
  const [waiting] = await ctx.entries.list((last?.to_id ?? 0) + 1, 1)
  const limit = ctx.config.sealIntervalMs / SECOND_MS + SEAL_SLACK_SECONDS
  if (waiting === undefined || unixSeconds(ctx.now()) - waiting.at <= limit) return []
  return [
    {
      kind: 'entries_unsealed',
      since: waiting.at,
      what: `No seal stands over the entries from ${waiting._id} on`,
      command: `${OPERATOR} seal`,
    },
  ]
}

/** They get their numbers within seconds. */
async function findUnnumbered(ctx: Context): Promise<Finding[]> {
  const found = await Promise.all(
    ctx.entries.pendingCollections().map(async ({ name, list }) => ({ name, records: await list('', 20) })),
  )
  const waiting = found.flatMap(({ name, records }) =>
    records.flatMap(({ _id, pending }) => pending.map(({ at }) => ({ name, id: _id, at }))),
  )
  const oldest = waiting.toSorted((a, b) => a.at - b.at)[0]
  if (oldest === undefined || unixSeconds(ctx.now()) - oldest.at < SEAL_SLACK_SECONDS) return []
  return [
    {
      kind: 'entries_unnumbered',
      since: oldest.at,
      what: `Records wait for their number in the ledger, ${oldest.id} of ${oldest.name} first`,
      command: `npm run workers -- --queues sequence,make-seal,check-chain`,
    },
  ]
}

/** Fewer than WITNESS_QUORUM of WITNESSES have cosigned the newest checkpoint. It holds up nothing. */
async function findUnwitnessed(ctx: Context): Promise<Finding[]> {
  const { witnesses, witnessQuorum: quorum } = ctx.config
  if (quorum === 0) return []
  const vkeys = witnesses.map(({ key }) => formatVkey(key))
  // Each new seal has its own time to be cosigned, and the one before isn't offered any more.
  const asked = unixSeconds(ctx.now()) - COSIGN_SLACK_SECONDS
  const [due, last] = await Promise.all([ctx.seals.lastSigned(undefined, asked), ctx.seals.lastSigned()])
  if (due === undefined) return []
  for (const seal of [last, due]) {
    const checkpoint = checkpointOf(seal)
    if (checkpoint === undefined) return []
    const cosigned = await ctx.cosignatures.findCosigned(checkpoint.size, vkeys)
    if (cosigned.size >= quorum) return []
    if (seal !== due) continue
    const away = witnesses.filter((_, place) => !cosigned.has(vkeys[place] ?? '')).map(({ key }) => key.name)
    return [
      {
        kind: 'log_unwitnessed',
        since: seal.at,
        what: `${cosigned.size} of the ${quorum} witnesses that WITNESS_QUORUM asks for have cosigned the checkpoint of ${checkpoint.size} entries`,
        why: `without a cosignature: ${away.join(', ')}`,
        command: `npm run workers -- --queues cosign   # with WITNESSES; then ask those who run the witnesses`,
      },
    ]
  }
  return []
}
