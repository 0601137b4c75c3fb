import { randomUUID } from 'node:crypto'
import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from '../shared/context.ts'
import { SECOND_MS } from '../shared/platform/time.ts'
import { updateSealMemory, isAdoptedHere, lastSealPubkey, readSealPubkey } from '../shared/ledger/standby.ts'
import { requireMonero } from '../shared/money/coins/monero/monero-gateway.ts'
import { requireNano } from '../shared/money/coins/nano/nano-gateway.ts'
import { isOutage, type Database } from '../shared/platform/database.ts'
import { KEY_LEASES, type Candidate, type Claim, type KeyLease } from '../shared/platform/lease-store.ts'
import { queueRow, type Need, type QueueName } from '../shared/platform/queue-table.ts'
import type { WorkerContext } from './worker-context.ts'

/*
 * Queues whose jobs use a key (the seal key, or a coin's seed or wallet) are served by one process at a time,
 * the one that holds the key's lease. A second process with the same key waits, and takes over when the first
 * is gone. A process with another key is refused: it takes no job and changes nothing.
 */

interface Key {
  lease: KeyLease
  /**
   * The public name of this process's key: an address or a public key.
   *
   * @throws Error if the key can't be read, or its wallet doesn't answer
   */
  readName(ctx: WorkerContext): Promise<string>
  /** The public name of the key in use, by the database's records; undefined if none was used yet. */
  readNameInUse(ctx: WorkerContext): Promise<string | undefined>
  /** Called while another process has the lease, and once when this one gets it after that. */
  catchUp?(ctx: WorkerContext): Promise<unknown>
  /** Whether the operator has decided, on this host, that this key replaces the one in use. */
  isAdopted?(ctx: WorkerContext): Promise<boolean>
}

/** The address of a coin's treasury by the database's records; undefined if none is known yet. */
const treasuryOf = async (ctx: WorkerContext, coin: 'xno' | 'xmr'): Promise<string | undefined> =>
  (await ctx.coins.findCoin(coin))?.treasury_address

const KEYS: Partial<Record<Need, Key>> = {
  'nano node and seed': {
    lease: KEY_LEASES.xno,
    readName: (ctx) => Promise.resolve(requireNano(ctx).nano.wallet().treasury.address),
    readNameInUse: (ctx) => treasuryOf(ctx, 'xno'),
  },
  'monero wallet': {
    lease: KEY_LEASES.xmr,
    readName: (ctx) => requireMonero(ctx).monero.wallet.primaryAddress(),
    readNameInUse: (ctx) => treasuryOf(ctx, 'xmr'),
  },
  'seal key': {
    lease: KEY_LEASES.seal,
    readName: (ctx) => Promise.resolve(readSealPubkey(ctx)),
    readNameInUse: lastSealPubkey,
    catchUp: updateSealMemory,
    isAdopted: isAdoptedHere,
  },
}

/** The key that a queue's jobs use; undefined if they use none. */
export const keyOf = (name: QueueName): Key | undefined => {
  const { needs } = queueRow(name)
  return needs === undefined ? undefined : KEYS[needs]
}

interface Served {
  /** Takes no new job and finishes those under way. */
  close(): Promise<unknown>
}

const CLAIM_EVERY_MS = SECOND_MS
/** Short enough for two renewals before the lease would end. */
const RENEW_EVERY_MS = 2 * SECOND_MS
/** How often the key's name is asked for again: behind the same URL there may be another wallet. */
const ASK_EVERY_TURNS = 10

/**
 * Claims the lease of a key again and again, and serves while this process has it, until closed. If the
 * operator has adopted this process's key, it is bound to the lease in place of the one in use.
 *
 * @param serve starts serving; it is given a context whose transactions fail once another process has the
 *   lease
 */
export function serveWithKey(
  ctx: WorkerContext,
  key: Key,
  serve: (guarded: WorkerContext) => Served,
): { close(): Promise<void> } {
  const ending = new AbortController()
  const id = randomUUID()
  const session = ctx.database.openSession()
  let publicName: string | undefined
  let serving: { fence: number; served: Served } | undefined
  let previousState: Claim['state'] | undefined
  /** The key in use by the database's records, if any, is bound to the lease. */
  let isBound = false

  const candidate = (): Candidate => ({ lease: key.lease, id, host: HOST, publicName, session })
  const stopServing = async (): Promise<void> => {
    const { served } = serving ?? {}
    serving = undefined
    await served?.close()
  }

  /** Claims or renews the lease once, and starts or stops serving as the claim says. */
  async function renew(turn: number): Promise<void> {
    if (publicName === undefined || turn % ASK_EVERY_TURNS === 0)
      // Without a name the queues are served nevertheless, so that their jobs log what is wrong with the key.
      publicName = await key.readName(ctx).catch(() => publicName)
    if (!isBound) {
      const nameInUse = await key.readNameInUse(ctx)
      if (nameInUse !== undefined) await ctx.leases.bindFirst(key.lease, nameInUse)
      isBound = true
    }
    const claim = await ctx.leases.claim(candidate())
    if (claim.state === 'refused' && publicName !== undefined && (await isAdopted(ctx, key)))
      return ctx.leases.bind(key.lease, publicName)
    if (claim.state === 'waiting' || (claim.state === 'held' && previousState === 'waiting'))
      await catchUp(ctx, key)
    if (claim.state !== previousState) logClaim(ctx, candidate(), claim, previousState)
    previousState = claim.state
    if (serving !== undefined && (claim.state !== 'held' || claim.fence !== serving.fence))
      await stopServing()
    if (claim.state !== 'held' || serving !== undefined || ending.signal.aborted) return
    serving = { fence: claim.fence, served: serve(guardTransactions(ctx, candidate(), claim.fence)) }
  }

  const renewing = (async () => {
    for (let turn = 0; !ending.signal.aborted; turn++) {
      await renew(turn).catch((error: unknown) =>
        // An outage of MongoDB is logged elsewhere.
        ctx.log[isOutage(error) ? 'debug' : 'error'](
          { err: error, lease: key.lease },
          'a lease could not be claimed or renewed; this process tries again',
        ),
      )
      const pauseMs = serving === undefined ? CLAIM_EVERY_MS : RENEW_EVERY_MS
      await sleep(pauseMs, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  })()
  return {
    async close() {
      ending.abort()
      await renewing
      await stopServing()
      await ctx.leases.leave(candidate()).catch(() => undefined) // else it ends by itself
      await session.endSession()
    },
  }
}

/** Whether the operator has adopted this process's key; false if that can't be read. */
const isAdopted = async (ctx: WorkerContext, key: Key): Promise<boolean> =>
  (await key.isAdopted?.(ctx).catch(() => false)) === true

/**
 * Calls the key's catchUp(). A failure is only logged: it also keeps this process from signing, which reports
 * it.
 */
async function catchUp(ctx: WorkerContext, key: Key): Promise<void> {
  await key
    .catchUp?.(ctx)
    .catch((error: unknown) => ctx.log.debug({ err: error }, 'the signed seals could not be followed'))
}

/** Shown to the operator; with the process id, since one host may run several. */
const HOST = `${os.hostname()} (process ${process.pid})`

/**
 * Returns a context whose transactions abort if another process has taken the lease since. They run one after
 * the other, because they would conflict at the lease.
 *
 * @param fence the number of the claim by which this process has the lease
 */
export function guardTransactions<T extends Pick<Context, 'database' | 'leases'>>(
  ctx: T,
  candidate: Candidate,
  fence: number,
): T {
  const transaction: Database['transaction'] = (work) =>
    ctx.database.serialize(`lease ${candidate.lease}`, () =>
      ctx.database.transaction(async (session) => {
        await ctx.leases.expectHeld(candidate, fence, session)
        const result = await work(session)
        await ctx.leases.expectFence(candidate, fence, session)
        return result
      }, candidate.session),
    )
  return { ...ctx, database: { ...ctx.database, transaction } }
}

/** Logs the state of a claim, and that the lease is lost if this process had it before. */
function logClaim(
  { log }: WorkerContext,
  { lease, publicName }: Candidate,
  claim: Claim,
  previousState: Claim['state'] | undefined,
): void {
  const about = { lease, key: publicName }
  if (claim.state === 'held') log.info({ ...about, fence: claim.fence }, `this process has the ${lease}`)
  else if (claim.state === 'waiting')
    log.warn(
      { ...about, holder: claim.holder },
      `another process has the ${lease}: this one waits, and takes over when that process is gone`,
    )
  else
    log.error(
      about,
      `this process has another key than the ${lease} in use, and takes no job that needs it; see "operator status"`,
    )
  if (previousState === 'held') log.warn(about, `this process has the ${lease} no more`)
}
