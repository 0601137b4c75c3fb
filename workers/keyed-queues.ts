import { randomUUID } from 'node:crypto'
import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS } from '../shared/foundation/time.ts'
import { updateSealMemory, isAdoptedHere, lastSealPubkey, readSealPubkey } from '../shared/ledger/standby.ts'
import { requireMonero } from '../shared/payments/monero/monero-gateway.ts'
import { requireNano } from '../shared/payments/nano/nano-gateway.ts'
import { isOutage, type Database } from '../shared/servers/database.ts'
import { KEY_LEASES, type Candidate, type Claim, type KeyLease } from '../shared/servers/lease-store.ts'
import { queueRow, type Need, type QueueName } from '../shared/servers/queues.ts'
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
  own(ctx: WorkerContext): Promise<string>
  /** The public name of the key in use, by the database's records; undefined if none was used yet. */
  known(ctx: WorkerContext): Promise<string | undefined>
  /** Called while another process has the lease, and once when this one gets it after that. */
  follow?(ctx: WorkerContext): Promise<unknown>
  /** Whether the operator has decided, on this host, that this key replaces the one in use. */
  isDecided?(ctx: WorkerContext): Promise<boolean>
}

const treasuryOf = async (ctx: WorkerContext, coin: 'xno' | 'xmr'): Promise<string | undefined> =>
  (await ctx.coins.findCoin(coin))?.treasury_address

const KEYS: Partial<Record<Need, Key>> = {
  'nano seed': {
    lease: KEY_LEASES.xno,
    own: (ctx) => Promise.resolve(requireNano(ctx).nano.wallet().treasury.address),
    known: (ctx) => treasuryOf(ctx, 'xno'),
  },
  'monero wallet': {
    lease: KEY_LEASES.xmr,
    own: (ctx) => requireMonero(ctx).monero.wallet.primaryAddress(),
    known: (ctx) => treasuryOf(ctx, 'xmr'),
  },
  'seal key': {
    lease: KEY_LEASES.seal,
    own: (ctx) => Promise.resolve(readSealPubkey(ctx)),
    known: lastSealPubkey,
    follow: updateSealMemory,
    isDecided: isAdoptedHere,
  },
}

/** The key that a queue's jobs use, or undefined. */
export const keyOf = (name: QueueName): Key | undefined => {
  const { needs } = queueRow(name)
  return needs === undefined ? undefined : KEYS[needs]
}

interface Served {
  /** Takes no new job and finishes those under way. */
  close(): Promise<unknown>
}

const LOOK_EVERY_MS = SECOND_MS
/** Short enough for two renewals before the lease would end. */
const RENEW_EVERY_MS = 2 * SECOND_MS
/** How often the key's name is asked for again: behind the same URL there may be another wallet. */
const ASK_EVERY_LOOKS = 10

/**
 * Serves while this process has the lease of a key.
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
  let before: Claim['state'] | undefined
  let isKnown = false

  const candidate = (): Candidate => ({ lease: key.lease, id, host: HOST, publicName, session })
  const stopServing = async (): Promise<void> => {
    const { served } = serving ?? {}
    serving = undefined
    await served?.close()
  }

  async function look(turn: number): Promise<void> {
    if (publicName === undefined || turn % ASK_EVERY_LOOKS === 0)
      // Without a name the queues are served nevertheless, so that their jobs log what is wrong with the key.
      publicName = await key.own(ctx).catch(() => publicName)
    if (!isKnown) {
      const known = await key.known(ctx)
      if (known !== undefined) await ctx.leases.bindFirst(key.lease, known)
      isKnown = true
    }
    const claim = await ctx.leases.claim(candidate())
    if (claim.state === 'refused' && publicName !== undefined && (await isDecided(ctx, key)))
      return ctx.leases.bind(key.lease, publicName)
    if (claim.state === 'waiting' || (claim.state === 'held' && before === 'waiting')) await follow(ctx, key)
    if (claim.state !== before) logClaim(ctx, candidate(), claim, before)
    before = claim.state
    if (serving !== undefined && (claim.state !== 'held' || claim.fence !== serving.fence))
      await stopServing()
    if (claim.state !== 'held' || serving !== undefined || ending.signal.aborted) return
    serving = { fence: claim.fence, served: serve(guardTransactions(ctx, candidate(), claim.fence)) }
  }

  const looking = (async () => {
    for (let turn = 0; !ending.signal.aborted; turn++) {
      await look(turn).catch((error: unknown) =>
        // An outage of MongoDB is logged elsewhere.
        ctx.log[isOutage(error) ? 'debug' : 'error'](
          { err: error, lease: key.lease },
          'a lease could not be read; this process tries again',
        ),
      )
      const pauseMs = serving === undefined ? LOOK_EVERY_MS : RENEW_EVERY_MS
      await sleep(pauseMs, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  })()
  return {
    async close() {
      ending.abort()
      await looking
      await stopServing()
      await ctx.leases.leave(candidate()).catch(() => undefined) // else it ends by itself
      await session.endSession()
    },
  }
}

const isDecided = async (ctx: WorkerContext, key: Key): Promise<boolean> =>
  (await key.isDecided?.(ctx).catch(() => false)) === true // unreadable: not decided

/** A failure is only logged: it would also keep this process from signing, which reports it. */
async function follow(ctx: WorkerContext, key: Key): Promise<void> {
  await key
    .follow?.(ctx)
    .catch((error: unknown) => ctx.log.debug({ err: error }, 'the signed seals could not be followed'))
}

/** Shown to the operator; with the process id, since one host may run several. */
const HOST = `${os.hostname()} (process ${process.pid})`

/**
 * A context whose transactions abort if another process has taken the lease since. They run one after the
 * other, because they would conflict at the lease.
 */
export function guardTransactions(ctx: WorkerContext, candidate: Candidate, fence: number): WorkerContext {
  const transaction: Database['transaction'] = (work) =>
    ctx.serialize(`lease ${candidate.lease}`, () =>
      ctx.database.transaction(async (session) => {
        const result = await work(session)
        await ctx.leases.expectFence(candidate, fence, session)
        return result
      }, candidate.session),
    )
  return { ...ctx, database: { ...ctx.database, transaction } }
}

function logClaim(
  { log }: WorkerContext,
  { lease, publicName }: Candidate,
  claim: Claim,
  before: Claim['state'] | undefined,
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
  if (before === 'held') log.warn(about, `this process has the ${lease} no more`)
}
