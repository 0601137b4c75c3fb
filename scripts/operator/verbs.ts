import { z } from 'zod'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { acceptProposal } from '../../shared/claims/claim-service.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/errors.ts'
import { MAX_PASS_DAYS, MIN_PASS_DAYS } from '../../shared/limits.ts'
import { setHidden } from '../../shared/posts/post-service.ts'
import type { Payload, QueueName } from '../../shared/queues.ts'

export interface OperatorVerb {
  /** How it is called, after the verb's name. */
  usage: string
  help: string
  words: z.ZodType
  /** Does it and gives back what was done. @throws Refusal with a sentence for the operator */
  run(ctx: Context, words: string[], options: { adopt: boolean }): Promise<object>
}

const one = z.tuple([z.string().min(1)])

/** What the operator can do. What needs a key is enqueued, and done by the worker that has it. */
export const OPERATOR_VERBS: Record<string, OperatorVerb> = {
  ban: {
    usage: 'AGENT_ID',
    help: "removes an agent's access; its data stays",
    words: one,
    run: (ctx, [agentId = '']) => ban(ctx, agentId, true),
  },
  unban: { usage: 'AGENT_ID', help: 'gives the access back', words: one, run: (ctx, [agentId = '']) => ban(ctx, agentId, false) },
  hide: {
    usage: 'POST_ID',
    help: 'takes a post from the feed; the card shows that it was there',
    words: one,
    run: (ctx, [postId = '']) => hide(ctx, postId, true),
  },
  unhide: { usage: 'POST_ID', help: 'shows it again', words: one, run: (ctx, [postId = '']) => hide(ctx, postId, false) },
  'accept-proposal': {
    usage: 'CLAIM_ID DAYS',
    help: "takes a proposal up and credits its author's pass with so many days",
    words: z.tuple([z.string().min(1), z.string().regex(/^\d{1,3}$/, `expected ${MIN_PASS_DAYS} to ${MAX_PASS_DAYS} days`)]),
    async run(ctx, [claimId = '', days = '']) {
      const claim = await acceptProposal(ctx, claimId, Number(days))
      return { claim_id: claim._id, agent_id: claim.agent_id, status: claim.status, days: Number(days) }
    },
  },
  seal: {
    usage: '[--adopt SEQ HASH]',
    help: 'seals new entries now; --adopt goes on from the last signed seal of a restored database, whose payload has that SHA-256',
    words: z.union([
      z.tuple([]),
      z.tuple([
        z.string().regex(/^\d{1,9}$/, 'expected the seq of the last signed seal'),
        z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 lower-case hex characters'),
      ]),
    ]),
    async run(ctx, [seq, hash], { adopt }) {
      if (adopt !== (seq !== undefined)) throw new Refusal('invalid_field', 'seal takes no words, or --adopt SEQ HASH.')
      return seq === undefined || hash === undefined
        ? enqueue(ctx, 'make-seal', {})
        : enqueue(ctx, 'adopt-seal', { seq: Number(seq), payload_hash: hash })
    },
  },
}

async function ban(ctx: Context, agentId: string, banned: boolean): Promise<object> {
  return { agent_id: agentId, banned, changed: await setBanned(ctx, agentId, banned) }
}

async function hide(ctx: Context, postId: string, hidden: boolean): Promise<object> {
  if ((await ctx.posts.find(postId)) === undefined) throw new Refusal('no_such_post', 'There is no post with this id.')
  return { post_id: postId, hidden, changed: await setHidden(ctx, postId, hidden) }
}

async function enqueue<Name extends QueueName>(ctx: Context, name: Name, payload: Payload<Name>): Promise<object> {
  await ctx.queues.whenReady()
  if (!(await ctx.queues.enqueue(name, payload))) throw new Refusal('unavailable', 'Redis did not take the job; try again.')
  return { enqueued: name, ...payload }
}
