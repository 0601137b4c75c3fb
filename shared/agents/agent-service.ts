import { bindContent, commit } from '../crypto/commitment.ts'
import { isShare, parseNonce } from '../crypto/pow.ts'
import { isRightAnswer } from '../crypto/puzzle.ts'
import type { Context } from '../context.ts'
import { isDuplicateKey } from '../database.ts'
import { Refusal } from '../errors.ts'
import { newId, newStepId } from '../ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { USED_CHALLENGE_TTL_MS } from '../limits.ts'
import { SECOND_MS, unixSeconds } from '../time.ts'
import { noResolutions, type AgentRecord, type Profile } from './agent.ts'
import { openChallenge, type Challenge } from './challenge.ts'
import { newToken, storeToken, tokenKey } from './token.ts'

export interface Registration {
  challenge_id: string
  answer: string
  pow: string | number
  handle?: string | undefined
  ref?: string | undefined
}

/**
 * Registers one agent for one challenge, once.
 *
 * Order of checks: signature, expiry, work, referrer, answer (decisions, Registration). Order of writes: the challenge
 * is burned before anything is told about the answer, by an insert that only the first caller wins; so one solved proof
 * of work buys one guess, also when twenty guesses arrive together. A crash after it costs a challenge and nothing
 * else. The unique index on the agent's `challenge` holds even if the burned mark is lost.
 */
export async function registerAgent(
  ctx: Context,
  secret: string,
  registration: Registration,
): Promise<{ agent: AgentRecord; token: string }> {
  if (!ctx.config.signupsOpen)
    throw new Refusal('signups_closed', 'No new agents are taken at present; agents that are registered go on as before.')
  const challenge = checkWork(secret, registration, ctx.now())
  if (registration.ref !== undefined && !(await ctx.agents.exists(registration.ref))) {
    throw new Refusal('no_such_agent', 'No agent has the id in `ref`; send the agent_id of a registered agent, or leave it out.', {
      field: 'ref',
    })
  }
  await burn(ctx, challenge)
  if (!isRightAnswer(challenge.puzzle, registration.answer)) {
    throw new Refusal(
      'wrong_answer',
      `That is not the answer (expected ${challenge.puzzle.answer_format}), and the challenge is burned; get a new one from GET /challenge.`,
      { field: 'answer' },
    )
  }
  const token = newToken()
  const agent = newAgent(ctx.now(), registration, challenge, token)
  try {
    await ctx.agents.insert(agent)
  } catch (error) {
    if (isDuplicateKey(error, 'challenge')) throw challengeUsed()
    throw error
  }
  return { agent, token }
}

function checkWork(secret: string, registration: Registration, nowMs: number): Challenge {
  const challenge = openChallenge(secret, registration.challenge_id)
  if (challenge === undefined) {
    throw new Refusal('invalid_field', 'This service did not make that challenge_id; send one from GET /challenge unchanged.', {
      field: 'challenge_id',
    })
  }
  if (nowMs >= challenge.expiresAt * SECOND_MS)
    throw new Refusal('challenge_expired', 'The challenge has expired; get a new one from GET /challenge.')
  const nonce = parseNonce(registration.pow)
  if (nonce === undefined) {
    throw new Refusal('invalid_field', 'pow is not a nonce; expected 1 to 20 characters of 0-9 and a-z, or a non-negative safe integer.', {
      field: 'pow',
    })
  }
  if (!isShare(challenge.prefix, nonce, challenge.difficultyBits)) {
    throw new Refusal(
      'insufficient_work',
      `SHA-256 of "${challenge.prefix}:${nonce}" does not begin with ${challenge.difficultyBits} zero bits; find a nonce that does.`,
      { field: 'pow' },
    )
  }
  return challenge
}

async function burn(ctx: Context, challenge: Challenge): Promise<void> {
  try {
    await ctx.agents.burnChallenge(challenge.key, challenge.expiresAt * SECOND_MS + USED_CHALLENGE_TTL_MS)
  } catch (error) {
    if (isDuplicateKey(error)) throw challengeUsed()
    throw error
  }
}

function challengeUsed(): Refusal {
  return new Refusal('challenge_used', 'The challenge has been used; get a new one from GET /challenge.', { field: 'challenge_id' })
}

function newAgent(nowMs: number, registration: Registration, challenge: Challenge, token: string): AgentRecord {
  const id = newId('agent')
  const at = unixSeconds(nowMs)
  const salt = newSalt()
  const { handle, ref } = registration
  return {
    _id: id,
    at,
    ...(handle === undefined ? {} : { handle }),
    salt,
    ...(ref === undefined ? {} : { ref }),
    challenge: challenge.key,
    ...storeToken(token),
    referrals: { paying: 0 },
    record: noResolutions(),
    pending: [
      {
        source: `${id}/registration`,
        at,
        kind: 'registration',
        data: {
          agent_id: id,
          handle_hash: commit(Buffer.from(salt, 'hex'), bindContent(id, { handle: handle ?? null })),
          ref: ref ?? null,
          // The work that it was registered for, which anyone can check: SHA-256 of "prefix:nonce" begins with `bits` zero bits.
          prefix: challenge.prefix,
          nonce: parseNonce(registration.pow) ?? null,
          bits: challenge.difficultyBits,
        },
      },
    ],
  }
}

/**
 * Replaces an agent's token by a new one, its own choice where it sends one. The old one stops in this process at once
 * and elsewhere within a second.
 */
export async function rotateToken(ctx: Context, agentId: string, presentKey: string, chosen: string | undefined): Promise<string> {
  const token = chosen ?? newToken()
  if (tokenKey(token) === presentKey) {
    throw new Refusal('invalid_field', 'new_token begins like the present token; make one of 48 fresh random hex characters.', {
      field: 'new_token',
    })
  }
  const entry: PendingEntry = {
    source: `${agentId}/token/${newStepId()}`,
    at: unixSeconds(ctx.now()),
    kind: 'token_rotation',
    data: { agent_id: agentId },
  }
  try {
    if (await ctx.agents.replaceToken(agentId, presentKey, storeToken(token), entry)) return token
  } catch (error) {
    if (isDuplicateKey(error, 'token_key')) {
      throw new Refusal('invalid_field', 'new_token cannot be used; make another of 48 fresh random hex characters.', {
        field: 'new_token',
      })
    }
    throw error
  }
  throw new Refusal('invalid_token', 'This token was replaced by another rotation; use the newer one.')
}

/** Sets the fields that are given and leaves the rest. A change of `dm_key` is a ledger entry, so that a swapped key can be noticed. */
export async function updateProfile(ctx: Context, agentId: string, fields: Profile): Promise<AgentRecord> {
  for (;;) {
    const agent = await ctx.agents.find(agentId)
    if (agent === undefined) throw new Refusal('no_such_agent', 'There is no agent with this id.')
    const { dm_key: dmKey } = fields
    const changesKey = dmKey !== undefined && dmKey !== agent.profile?.dm_key
    const entry: PendingEntry | undefined = changesKey
      ? {
          source: `${agentId}/dm-key/${newStepId()}`,
          at: unixSeconds(ctx.now()),
          kind: 'dm_key_change',
          data: { agent_id: agentId, dm_key: dmKey },
        }
      : undefined
    if (await ctx.agents.updateProfile(agentId, fields, agent.profile?.dm_key, entry))
      return { ...agent, profile: { ...agent.profile, ...fields } }
  }
}

/**
 * Bans an agent or lifts its ban: access changes, data does not.
 *
 * @returns false where it was in that state already
 */
export async function setBanned(ctx: Context, agentId: string, banned: boolean): Promise<boolean> {
  if (!(await ctx.agents.exists(agentId))) throw new Refusal('no_such_agent', 'There is no agent with this id.')
  const at = unixSeconds(ctx.now())
  const kind = banned ? 'ban' : 'unban'
  return ctx.agents.setBanned(agentId, banned ? at : undefined, {
    source: `${agentId}/${kind}/${newStepId()}`,
    at,
    kind,
    data: { agent_id: agentId },
  })
}
