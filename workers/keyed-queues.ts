import { randomUUID } from 'node:crypto'
import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { SECOND_MS } from '../shared/foundation/time.ts'
import { followSignedSeals, isAdoptedHere, knownSealKey, ownSealKey } from '../shared/ledger/standby.ts'
import { requireMonero } from '../shared/payments/monero/monero-gateway.ts'
import { requireNano } from '../shared/payments/nano/nano-gateway.ts'
import { isOutage, type Database } from '../shared/servers/database.ts'
import { KEY_LEASES, type Candidate, type Claim, type KeyLease } from '../shared/servers/lease-store.ts'
import { queueRow, type Need, type QueueName } from '../shared/servers/queues.ts'
import type { WorkerContext } from './worker-context.ts'

/*
 * Queues whose jobs use a key are served by one process at a time, the one that has the key's lease. A second
 * process with the same key waits, and takes over when the first is gone; one with another key is refused,
 * takes no job and changes nothing.
 */

interface Key {
  lease: KeyLease
  /** What the key of this process is known by. @throws where it cannot be read, or its wallet be asked */
  own(ctx: WorkerContext): Promise<string>
  /** The one in use, as the database knows it without a lease; undefined if none is. */
  known(ctx: WorkerContext): Promise<string | undefined>
  /** While another process has the lease, and once more when it is had after that. */
  follow?(ctx: WorkerContext): Promise<unknown>
  /** Whether the operator has decided on this host that its key is the one from now on. */
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
    own: (ctx) => Promise.resolve(ownSealKey(ctx)),
    known: knownSealKey,
    follow: followSignedSeals,
    isDecided: isAdoptedHere,
  },
}

/** The lease that a queue is served under, if it is. */
export const keyOf = (name: QueueName): Key | undefined => {
  const { needs } = queueRow(name)
  return needs === undefined ? undefined : KEYS[needs]
}

interface Served {
  /** Takes no new job and finishes those under way. */
  close(): Promise<unknown>
}

const LOOK_EVERY_MS = SECOND_MS
/** Twice before the lease would end. */
const RENEW_EVERY_MS = 2 * SECOND_MS
/** A wallet may be exchanged behind its address. */
const ASK_EVERY_LOOKS = 10

/**
 * Serves while this process has the lease of a key.
 *
 * @param serve begins with a context whose transactions store nothing once another process has the lease
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
      // Without it the jobs of an idle lease are served all the same: they say what is wrong.
      publicName = await key.own(ctx).catch(() => publicName)
    if (!isKnown) {
      const known = await key.known(ctx)
      if (known !== undefined) await ctx.leases.expectKey(key.lease, known)
      isKnown = true
    }
    const claim = await ctx.leases.claim(candidate())
    if (claim.state === 'refused' && publicName !== undefined && (await isDecided(ctx, key)))
      return ctx.leases.entrust(key.lease, publicName)
    if (claim.state === 'waiting' || (claim.state === 'held' && before === 'waiting')) await follow(ctx, key)
    if (claim.state !== before) tell(ctx, candidate(), claim, before)
    before = claim.state
    if (serving !== undefined && (claim.state !== 'held' || claim.fence !== serving.fence))
      await stopServing()
    if (claim.state !== 'held' || serving !== undefined || ending.signal.aborted) return
    serving = { fence: claim.fence, served: serve(guard(ctx, candidate(), claim.fence)) }
  }

  const looking = (async () => {
    for (let turn = 0; !ending.signal.aborted; turn++) {
      await look(turn).catch((error: unknown) =>
        // That MongoDB is away is said elsewhere.
        ctx.log[isOutage(error) ? 'debug' : 'error'](
          { err: error, lease: key.lease },
          'a lease could not be looked at; the next look comes',
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
      await ctx.leases.leave(candidate()).catch(() => undefined) // it ends by itself
      await session.endSession()
    },
  }
}

const isDecided = async (ctx: WorkerContext, key: Key): Promise<boolean> =>
  (await key.isDecided?.(ctx).catch(() => false)) === true // what cannot be read says nothing

/** What keeps it from following keeps it from signing too, and is said then. */
async function follow(ctx: WorkerContext, key: Key): Promise<void> {
  await key
    .follow?.(ctx)
    .catch((error: unknown) => ctx.log.debug({ err: error }, 'the seals are not followed'))
}

/** For the operator, who may have two data folders on one host. */
const HOST = `${os.hostname()} (process ${process.pid})`

/** Transactions of one process would conflict at the lease: they come one after the other. */
export function guard(ctx: WorkerContext, candidate: Candidate, fence: number): WorkerContext {
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

function tell(
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
      `another process has the ${lease}: this one waits, and takes over when that one is gone`,
    )
  else
    log.error(
      about,
      `another key than the ${lease} in use: this process takes no job that needs it, see "operator status"`,
    )
  if (before === 'held') log.warn(about, `this process has the ${lease} no more`)
}
