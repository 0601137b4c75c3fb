import type { Authorship, SeenLog } from '../crypto/author.ts'
import { commitRecord } from '../crypto/commitment.ts'
import { isShare, parseNonce } from '../crypto/pow.ts'
import { isRightAnswer } from '../crypto/puzzle.ts'
import type { Context } from '../context.ts'
import { change } from '../platform/change.ts'
import { isDuplicateKey } from '../platform/database.ts'
import { makeMark } from '../events/mark.ts'
import { invalidField, Refusal } from '../platform/errors.ts'
import { newId, newStepId } from '../platform/ids.ts'
import { newSalt, type PendingEntry } from '../ledger/pending.ts'
import { USED_CHALLENGE_TTL_MS } from '../platform/limits.ts'
import { SECOND_MS, unixSeconds } from '../platform/time.ts'
import { noResolutions, orNoSuchAgent, type AgentRecord, type Profile, type ProfileChange } from './agent.ts'
import type { AgentStore, KeyField } from './agent-store.ts'
import { verifyAuthorship } from './authorship.ts'
import { applyBan } from './ban-service.ts'
import { parseChallengeId, type Challenge } from './challenge.ts'
import { spendAllowance } from './allowance-service.ts'
import { looksRandom, newToken, toStoredToken, tokenKey } from './token.ts'

type AgentContext = Pick<Context, 'config' | 'database' | 'agents' | 'posts' | 'claims' | 'offers' | 'now'>

export interface Registration {
  challenge_id: string
  answer: string
  pow: string | number
  handle?: string | undefined
  ref?: string | undefined
}

/**
 * Checks a registration and stores the new agent. One challenge makes one agent.
 *
 * Order of checks: signature, expiry, work, referrer, answer. Order of writes: the
 * challenge is burned before the agent is stored, by an insert that succeeds for only one caller; so one
 * proof of work buys one guess, even if twenty guesses arrive together. If the request ends in between, the
 * same one may be sent again: a challenge that the right answer has burned is free until its agent is stored.
 * That it makes one agent, a unique index on the agent's `challenge` says.
 *
 * @param secret CHALLENGE_SECRET, hex
 * @returns the stored agent, and its token, which is stored only as a hash
 * @throws Refusal `signups_closed`, `invalid_field`, `challenge_expired`, `insufficient_work`,
 *   `no_such_agent` for `ref`, `challenge_used`, `wrong_answer`
 */
export async function registerAgent(
  ctx: AgentContext,
  secret: string,
  registration: Registration,
): Promise<{ agent: AgentRecord; token: string }> {
  const challenge = requireWork(ctx, secret, registration)
  if (registration.ref !== undefined && !(await ctx.agents.exists(registration.ref))) {
    throw new Refusal(
      'no_such_agent',
      'No agent has the id in `ref`; send the agent_id of a registered agent, or leave it out.',
      { field: 'ref' },
    )
  }
  const isRight = isRightAnswer(challenge.puzzle, registration.answer)
  await burnChallenge(ctx.agents, challenge, isRight)
  if (!isRight) {
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
    if (isDuplicateKey(error, 'challenge')) throw challengeUsedRefusal()
    throw error
  }
  return { agent, token }
}

/**
 * Returns the challenge that a registration is for, after checking its proof of work; asks no database.
 *
 * @throws Refusal `signups_closed`; `invalid_field` if the challenge's id or the nonce is malformed, `challenge_expired`,
 *   `insufficient_work`
 */
export function requireWork(
  ctx: Pick<Context, 'config' | 'now'>,
  secret: string,
  registration: Registration,
): Challenge {
  if (!ctx.config.signupsOpen)
    throw new Refusal(
      'signups_closed',
      'No new agents are taken at present; agents that are registered go on as before.',
    )
  const challenge = parseChallengeId(secret, registration.challenge_id)
  if (challenge === undefined) {
    throw invalidField(
      'challenge_id',
      'This service did not make that challenge_id; send one from GET /challenge unchanged.',
    )
  }
  if (ctx.now() >= challenge.expiresAt * SECOND_MS)
    throw new Refusal('challenge_expired', 'The challenge has expired; get a new one from GET /challenge.')
  const nonce = parseNonce(registration.pow)
  if (nonce === undefined) {
    throw invalidField(
      'pow',
      'pow is not a nonce; expected 1 to 20 characters of 0-9 and a-z, or a non-negative safe integer.',
    )
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

/**
 * Records a challenge as used.
 *
 * @param isRight whether the request has the right answer
 * @throws Refusal `challenge_used` if it was used before; not if that request and this one have the right answer
 */
async function burnChallenge(
  agents: Pick<AgentStore, 'burnChallenge' | 'wasAnswered'>,
  { key, expiresAt }: Challenge,
  isRight: boolean,
): Promise<void> {
  try {
    await agents.burnChallenge(key, expiresAt * SECOND_MS + USED_CHALLENGE_TTL_MS, isRight)
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    if (!isRight || !(await agents.wasAnswered(key))) throw challengeUsedRefusal()
  }
}

function challengeUsedRefusal(): Refusal {
  return new Refusal('challenge_used', 'The challenge has been used; get a new one from GET /challenge.', {
    field: 'challenge_id',
  })
}

/** Returns the record of a new agent, with its ledger entry pending; nothing is stored. */
function newAgent(
  nowMs: number,
  registration: Registration,
  challenge: Challenge,
  token: string,
): AgentRecord {
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
    ...toStoredToken(token),
    referrals: { paying: 0 },
    record: noResolutions(),
    ...(ref === undefined ? {} : { tells: [makeMark(ref, 'referral', id, { state: 'registered' })] }),
    pending: [
      {
        source: `${id}/registration`,
        at,
        kind: 'registration',
        data: {
          agent_id: id,
          handle_hash: commitRecord(id, salt, { handle: handle ?? null }),
          ref: ref ?? null,
          // The registration's proof of work, which anyone can check: SHA-256 of "prefix:nonce" begins with
          // `bits` zero bits.
          prefix: challenge.prefix,
          nonce: parseNonce(registration.pow) ?? null,
          bits: challenge.difficultyBits,
        },
      },
    ],
  }
}

/**
 * Replaces an agent's token, with a ledger entry. API processes may accept the old token for up to
 * TOKEN_CACHE_MS more.
 *
 * @param presentKey the look-up key of the token that the request was sent with
 * @param chosen a token that the agent made itself; undefined to have one made
 * @returns the new token
 * @throws Refusal `invalid_field` if the chosen token is easy to guess or taken; `wrong_state` if the agent
 *   has used up today's allowance; `invalid_token` if the token was replaced, or the agent banned, meanwhile
 */
export async function rotateToken(
  ctx: AgentContext,
  agentId: string,
  presentKey: string,
  chosen: string | undefined,
): Promise<string> {
  const token = chosen ?? newToken()
  if (!looksRandom(token)) {
    throw invalidField('new_token', 'new_token is easy to guess; make one of 48 fresh random hex characters.')
  }
  if (tokenKey(token) === presentKey) {
    throw invalidField(
      'new_token',
      'new_token begins like the present token; make one of 48 fresh random hex characters.',
    )
  }
  await spendAllowance(ctx, agentId, 'changes')
  const entry: PendingEntry = {
    source: `${agentId}/token/${newStepId()}`,
    at: unixSeconds(ctx.now()),
    kind: 'token_rotation',
    data: { agent_id: agentId },
  }
  try {
    if (await ctx.agents.replaceToken(agentId, presentKey, toStoredToken(token), entry)) return token
  } catch (error) {
    if (isDuplicateKey(error, 'token_key')) {
      throw invalidField(
        'new_token',
        'new_token cannot be used; make another of 48 fresh random hex characters.',
      )
    }
    throw error
  }
  throw new Refusal('invalid_token', 'This token was replaced by another rotation; use the newer one.')
}

/**
 * Sets the given fields of an agent's profile and leaves the others. A change of a key is a ledger entry, so
 * that a swapped key can be noticed. Once an agent has an author key, that key must sign each such change;
 * the entry carries the signature, which any reader of the ledger can verify.
 *
 * @returns the agent afterwards
 * @throws Refusal `invalid_field` for a change of a key without the required signature; `wrong_state` if a
 *   key is sent and the agent has used up today's allowance; `no_such_agent`
 */
export async function updateProfile(
  ctx: AgentContext,
  agentId: string,
  sent: ProfileChange & { signature?: string; seen?: SeenLog },
): Promise<AgentRecord> {
  const { signature: _signature, seen: _seen, ...fields } = sent
  const sentKeys = KEY_FIELDS.filter(({ field }) => fields[field] !== undefined)
  if (sentKeys.length > 0) await spendAllowance(ctx, agentId, 'changes')
  // Concurrent updates of one record would conflict in MongoDB, and each conflict costs a retry.
  return ctx.database.serialize(`profile ${agentId}`, () =>
    change({
      now: () => ctx.now(),
      // Only a change of keys depends on what is stored.
      read: async () => (sentKeys.length === 0 ? undefined : orNoSuchAgent(await ctx.agents.find(agentId))),
      decide: (before, nowMs) =>
        changeKeys(agentId, before?.profile ?? {}, sentKeys, sent, unixSeconds(nowMs)),
      store: async (entries, before) =>
        orNoSuchAgent(
          await ctx.agents.updateProfile(agentId, fields, entries, before && (before.profile ?? {})),
        ),
    }),
  )
}

/**
 * Makes the ledger entries of the keys that differ from the present ones, by their fields.
 *
 * @param present the profile as it is stored
 * @param sentKeys the keys among the fields that were sent
 * @throws Refusal as verifyKeyChange()
 */
function changeKeys(
  agentId: string,
  present: Profile,
  sentKeys: readonly KeyChange[],
  sent: ProfileChange & { signature?: string; seen?: SeenLog },
  at: number,
): Map<KeyField, PendingEntry> {
  const changedKeys = sentKeys.filter(({ field }) => (present[field] ?? null) !== sent[field])
  const author = verifyKeyChange(agentId, present.author_key, sentKeys, changedKeys, sent)
  const entries = changedKeys.map(({ field, kind, step }): [KeyField, PendingEntry] => {
    const signed = author === undefined ? {} : { author }
    const data = { agent_id: agentId, [field]: sent[field] ?? null, ...signed }
    return [field, { source: `${agentId}/${step}/${newStepId()}`, at, kind, data }]
  })
  return new Map(entries)
}

const KEY_FIELDS = [
  { field: 'dm_key', kind: 'dm_key_change', step: 'dm-key' },
  { field: 'author_key', kind: 'author_key_change', step: 'author-key' },
] as const
type KeyChange = (typeof KEY_FIELDS)[number]

/**
 * Verifies the signature on a change of keys.
 *
 * @param authorKey the agent's present author key, if it has one
 * @param sentKeys the keys that were sent
 * @param changedKeys those of them that differ from the present ones
 * @returns the verified signature; undefined if nothing is signed and nothing must be
 * @throws Refusal `invalid_field` if a signature is missing or wrong, is sent without a key, or would have to
 *   cover two keys
 */
function verifyKeyChange(
  agentId: string,
  authorKey: string | undefined,
  sentKeys: readonly KeyChange[],
  changedKeys: readonly KeyChange[],
  fields: ProfileChange & { signature?: string; seen?: SeenLog },
): Authorship | undefined {
  const isSigned = fields.signature !== undefined || fields.seen !== undefined
  const signedKey = changedKeys[0] ?? sentKeys[0]
  if (signedKey === undefined) {
    if (!isSigned) return undefined
    throw invalidField(
      'signature',
      'Nothing in a profile is signed but a dm_key or author_key; leave signature and seen out.',
    )
  }
  if (authorKey !== undefined && changedKeys.length > 1)
    throw invalidField(
      'author_key',
      'Each change of a key is signed by itself; send author_key in a request of its own.',
    )
  if (authorKey !== undefined && changedKeys.length > 0 && fields.signature === undefined)
    throw invalidField(
      'signature',
      `Your card has an author_key, and only what it has signed changes your ${signedKey.field}.`,
    )
  if (!isSigned) return undefined
  return verifyAuthorship(
    agentId,
    authorKey,
    signedKey.kind,
    { [signedKey.field]: fields[signedKey.field] },
    fields,
  )
}

/**
 * Bans an agent or lifts its ban, with a ledger entry. A ban ends the agent's access and takes its records
 * off the lists; the records stay stored.
 *
 * @param banned true to ban, false to lift the ban
 * @param hides whether the ban also hides everything that the agent wrote, wherever it is shown; lifting the
 *   ban shows it again
 * @returns false if the agent was in that state already; then nothing is stored
 * @throws Refusal `no_such_agent`
 */
export async function setBanned(
  ctx: AgentContext,
  agentId: string,
  banned: boolean,
  hides = false,
): Promise<boolean> {
  if (!(await ctx.agents.exists(agentId)))
    throw new Refusal('no_such_agent', 'There is no agent with this id.')
  const at = unixSeconds(ctx.now())
  const kind = banned ? 'ban' : 'unban'
  const changed = await ctx.agents.setBanned(agentId, banned ? at : undefined, hides, {
    source: `${agentId}/${kind}/${newStepId()}`,
    at,
    kind,
    data: { agent_id: agentId, ...(hides ? { hides } : {}) },
  })
  if (changed) await applyBan(ctx, agentId)
  return changed
}
