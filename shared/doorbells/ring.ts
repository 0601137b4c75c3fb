import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Context } from '../context.ts'
import { signPost, type SigningKey } from '../crypto/message-signature.ts'
import { change } from '../platform/change.ts'
import type { Config } from '../platform/config.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { openDoorbellKey } from './doorbell-key.ts'
import { enqueueRing, queueOf } from './doorbell-service.ts'
import { onOutcome, onTry, type Outcome } from './doorbell-steps.ts'
import type { DoorbellRecord } from './doorbell.ts'
import { createResolver, createTlsContext, postOnce, type PostOptions } from './https-post.ts'

/** What rings doorbells, and nothing else, works with: the key, and the way out. */
export interface Ringer {
  key: SigningKey
  post: PostOptions
}

/** @throws StartError if the key's file can't be used; TypeError if the settings name none */
export function openRinger({ secrets, doorbells }: Pick<Config, 'secrets' | 'doorbells'>): Ringer {
  if (secrets.doorbellKeyFile === undefined) throw new TypeError('"config" expected a doorbellKeyFile')
  return {
    key: openDoorbellKey(secrets.doorbellKeyFile),
    post: { resolve: createResolver(doorbells.testHosts), secureContext: createTlsContext() },
  }
}

type RingContext = Pick<Context, 'config' | 'database' | 'queues' | 'doorbells' | 'metrics'>

/**
 * Rings an agent's doorbell if that is due, and stores how it went. First the try is stored, then it is rung: if
 * this process dies between, another rings once more.
 */
export async function ring(
  ctx: RingContext,
  { key, post }: Ringer,
  agentId: string,
): Promise<{ rung: boolean; because?: string }> {
  const claimed = await claim(ctx, agentId)
  if (claimed === undefined) return { rung: false, because: 'it is not due' }
  const { bell, dueMs } = claimed
  const startedAt = performance.now()
  const challenge = bell.state === 'unproven' ? randomBytes(32).toString('hex') : undefined
  const at = unixSeconds(ctx.database.now())
  const body = JSON.stringify(
    challenge === undefined
      ? { agent_id: agentId, kind: 'wake', at }
      : { agent_id: agentId, kind: 'challenge', at, challenge },
  )
  const headers = { ...signPost({ url: bell.url, body, at }, key) }
  const posted = await postOnce(
    post,
    { url: bell.url, body, headers, turn: bell.tries - 1 },
    challenge !== undefined,
  )
  const tookMs = performance.now() - startedAt
  const failure =
    posted.kind === 'failed' ? posted.why : findFault(posted.status, posted.text, challenge, bell.secret)
  const outcome: Outcome =
    failure === undefined ? { kind: 'arrived', tookMs } : { kind: 'failed', why: failure }
  ctx.metrics.countRing(
    { queue: queueOf(bell), outcome: outcome.kind },
    (ctx.database.now() - dueMs) / SECOND_MS,
  )
  await note(ctx, bell, outcome)
  return { rung: failure === undefined, ...(failure === undefined ? {} : { because: failure }) }
}

/** What is wrong with an answer; undefined if nothing is. */
function findFault(
  status: number,
  text: string,
  challenge: string | undefined,
  secret = '',
): string | undefined {
  if (status < 200 || status > 299) return `the answer was ${status}, expected 2xx`
  if (challenge === undefined) return undefined
  const expected = createHmac('sha256', secret).update(challenge).digest('hex')
  const given = text.trim().slice(0, expected.length).padEnd(expected.length)
  return timingSafeEqual(Buffer.from(given, 'latin1'), Buffer.from(expected)) &&
    text.trim().length === expected.length
    ? undefined
    : 'the answer was not the HMAC-SHA256 of the challenge under your secret'
}

/** Stores that a try begins. @returns the doorbell after that, and since when it was due; undefined if none is */
const claim = (
  ctx: RingContext,
  agentId: string,
): Promise<{ bell: DoorbellRecord; dueMs: number } | undefined> =>
  change({
    now: () => ctx.database.now(),
    read: () => ctx.doorbells.find(agentId),
    decide: (bell, nowMs) => (bell === undefined ? undefined : onTry(bell, nowMs)),
    async store(step, bell) {
      if (step === undefined || bell?.due_ms === undefined) return undefined
      await ctx.doorbells.take(bell, step)
      return { bell: { ...bell, ...step.set }, dueMs: bell.due_ms }
    },
  })

/** Stores how a try went, unless the doorbell was set anew or tried again since, and enqueues what is due then. */
function note(ctx: RingContext, tried: DoorbellRecord, outcome: Outcome): Promise<void> {
  // It is mostly as it was stored before the try; if not, it is read.
  const known = [tried]
  return change({
    now: () => ctx.database.now(),
    read: async () => known.pop() ?? (await ctx.doorbells.find(tried._id)),
    decide: (bell, nowMs) => ({
      nowMs,
      step:
        bell === undefined || bell.rev !== tried.rev || bell.tried_ms !== tried.tried_ms
          ? undefined
          : onOutcome(bell, outcome, nowMs, ctx.config.doorbells.intervalMs),
    }),
    async store({ nowMs, step }, bell) {
      if (step === undefined || bell === undefined) return
      await ctx.doorbells.take(bell, step)
      const { due_ms: _due, slow: _slow, ...rest } = bell
      const isSlow = step.set.slow ?? (step.unset.includes('slow') ? undefined : bell.slow)
      await enqueueRing(
        ctx,
        {
          ...rest,
          ...(step.set.due_ms === undefined ? {} : { due_ms: step.set.due_ms }),
          ...(isSlow === true ? { slow: true } : {}),
        },
        nowMs,
      )
    },
  })
}
