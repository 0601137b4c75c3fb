import type { Context } from '../context.ts'
import { formatVkey } from '../crypto/note.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { checkpointOf } from '../ledger/checkpoint.ts'
import { headOf } from '../ledger/seal.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'
import { shorten, isRedisReady } from './queue-findings.ts'

type LedgerFindingsContext = Pick<
  Context,
  'config' | 'database' | 'queues' | 'entries' | 'seals' | 'operation' | 'now'
>

/** Making and signing a seal takes seconds; a worker that died is replaced within a minute. */
export const SEAL_SLACK_SECONDS = 120
/** A witness answers within seconds; it is asked again with each sweep. */
const COSIGN_SLACK_SECONDS = 5
const MAX_UNSIGNED = 1_000
const REDIS_LIMIT_MS = 500

/**
 * What is wrong with the ledger: its chain of seals, and entries without a number, seal, signature or
 * witness.
 */
export const ledgerFindings: FindingReader = {
  name: 'ledger',
  needs: 'mongodb',
  async read(ctx) {
    return Promise.all([
      findBrokenChain(ctx),
      findUnsigned(ctx),
      findUnsealed(ctx),
      findUnnumbered(ctx),
      findUnwitnessed(ctx),
    ])
  },
}

/** Reads whether the last check of the chain of seals found a fault. @returns undefined if it found none */
async function findBrokenChain(ctx: LedgerFindingsContext): Promise<Finding | undefined> {
  const { intact, fault } = await ctx.seals.readStatus()
  if (intact) return undefined
  return {
    kind: 'chain_broken',
    what: 'The chain of seals does not hold, and nothing more is signed',
    why: fault,
    command: `${OPERATOR} check`,
  }
}

/** Finds seals without a signature: at once if the signer refused, else when they have waited for long. */
async function findUnsigned(ctx: LedgerFindingsContext): Promise<Finding | undefined> {
  const unsigned = await ctx.seals.listUnsigned(MAX_UNSIGNED)
  const [first] = unsigned
  const seal = first === undefined ? undefined : await ctx.seals.find(first)
  if (seal === undefined) return undefined
  const reason = await readRefusal(ctx)
  if (reason === undefined && unixSeconds(ctx.now()) - seal.at < SEAL_SLACK_SECONDS) return undefined
  const { seq, payloadHash } = headOf(await ctx.seals.lastSigned())
  // The signer's refusal names this command if another database may be the right one.
  const asksForAdoption = reason?.includes('operator seal --adopt') === true
  return {
    kind: 'seals_unsigned',
    since: seal.at,
    what: `${unsigned.length} seals have no signature, from ${seal._id} on`,
    why: reason ?? (await readWait(ctx)) ?? 'no worker with SEAL_KEY_FILE has tried',
    command: asksForAdoption
      ? `${OPERATOR} seal --adopt ${seq} ${payloadHash}   # on the signing host, only if this database is the one to go on from`
      : `npm run workers -- --queues sign-seals,sign-announcement,cosign   # with SEAL_KEY_FILE; or: ${OPERATOR} seal`,
  }
}

/** Reads what the signer waits for, by its process's own record; undefined if none says so. */
async function readWait(ctx: LedgerFindingsContext): Promise<string | undefined> {
  const processes = await ctx.operation.processes.list()
  return processes.find(({ signing_waits: waits }) => waits !== undefined)?.signing_waits
}

/** Reads why the signer's last try failed; undefined if it didn't, or if Redis is away. */
async function readRefusal(ctx: LedgerFindingsContext): Promise<string | undefined> {
  if (!(await isRedisReady(ctx, REDIS_LIMIT_MS))) return undefined
  const [job] = await ctx.queues
    .get('sign-seals')
    .getJobs(['failed', 'delayed'], 0, 0)
    .catch(() => [])
  return job?.failedReason === undefined || job.failedReason === '' ? undefined : shorten(job.failedReason)
}

/** Finds entries that no seal covers though the next seal was due. */
async function findUnsealed(ctx: LedgerFindingsContext): Promise<Finding | undefined> {
  const last = await ctx.seals.last()
  const [oldest] = await ctx.entries.list((last?.to_id ?? 0) + 1, 1)
  const limitSeconds = ctx.config.sealIntervalMs / SECOND_MS + SEAL_SLACK_SECONDS
  if (oldest === undefined || unixSeconds(ctx.now()) - oldest.at <= limitSeconds) return undefined
  return {
    kind: 'entries_unsealed',
    since: oldest.at,
    what: `No seal stands over the entries from ${oldest._id} on`,
    command: `${OPERATOR} seal`,
  }
}

/** Finds entries that have waited in their records for a number for long; it normally takes seconds. */
async function findUnnumbered(ctx: LedgerFindingsContext): Promise<Finding | undefined> {
  const pendingEntries = await Promise.all(
    ctx.entries
      .pendingCollections()
      .map(async ({ name, list }) =>
        (await list('', 20)).flatMap(({ _id: id, pending }) => pending.map(({ at }) => ({ name, id, at }))),
      ),
  )
  const [oldest] = pendingEntries.flat().toSorted((a, b) => a.at - b.at)
  if (oldest === undefined || unixSeconds(ctx.now()) - oldest.at < SEAL_SLACK_SECONDS) return undefined
  return {
    kind: 'entries_unnumbered',
    since: oldest.at,
    what: `Records wait for their number in the ledger, ${oldest.id} of ${oldest.name} first`,
    command: `npm run workers -- --queues sequence,make-seal,check-chain`,
  }
}

/**
 * Checks whether WITNESS_QUORUM of WITNESSES have cosigned the newest checkpoint, or the newest one that they
 * have had time for. Nothing waits for cosignatures.
 *
 * @returns undefined if they have, if the quorum is 0, or if there is no checkpoint yet
 */
async function findUnwitnessed(ctx: LedgerFindingsContext): Promise<Finding | undefined> {
  const { witnesses, witnessQuorum: quorum } = ctx.config
  if (quorum === 0) return undefined
  const vkeys = witnesses.map(({ key }) => formatVkey(key))
  const findCosigned = (size: number): Promise<ReadonlySet<string>> =>
    ctx.seals.cosignatures.findCosigned(size, vkeys)
  // Each new seal has its own time to be cosigned, and the one before isn't offered any more.
  const askedBefore = unixSeconds(ctx.now()) - COSIGN_SLACK_SECONDS
  const [due, last] = await Promise.all([
    ctx.seals.lastSigned(undefined, askedBefore),
    ctx.seals.lastSigned(),
  ])
  const [checkpoint, newest] = [checkpointOf(due), checkpointOf(last)]
  if (due === undefined || checkpoint === undefined || newest === undefined) return undefined
  if ((await findCosigned(newest.size)).size >= quorum) return undefined
  const cosigned = await findCosigned(checkpoint.size)
  if (cosigned.size >= quorum) return undefined
  const missing = witnesses.filter(({ key }) => !cosigned.has(formatVkey(key))).map(({ key }) => key.name)
  return {
    kind: 'log_unwitnessed',
    since: due.at,
    what: `${cosigned.size} of the ${quorum} witnesses that WITNESS_QUORUM asks for have cosigned the checkpoint of ${checkpoint.size} entries`,
    why: `without a cosignature: ${missing.join(', ')}`,
    command: `npm run workers -- --queues cosign   # with WITNESSES; then ask those who run the witnesses`,
  }
}
