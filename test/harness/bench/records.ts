/*
 * Records as the service stores them, for benchmarks that fill a database directly.
 */
import { noResolutions } from '../../../shared/agents/agent.ts'
import { toStoredToken } from '../../../shared/agents/token.ts'
import { findShares } from '../../../shared/crypto/pow.ts'
import { newId } from '../../../shared/platform/ids.ts'
import { unixSeconds } from '../../../shared/platform/time.ts'

const SALT = 'ab'.repeat(32)
/** The prefix of all orders, so that a benchmark finds its shares once; the service's prefixes are random. */
export const PREFIX = '0123456789abcdef0123456789abcdef'

/** Makes an agent with a pass for a day; `openClaims` is what its record says of its claims. */
export function makeAgent(
  index: number,
  token: ReturnType<typeof toStoredToken>,
  capability = `skill-${index % 500}`,
  openClaims = 0,
) {
  const _id = newId('agent')
  return {
    _id,
    at: unixSeconds(Date.now()),
    handle: `agent ${index}`,
    salt: SALT,
    challenge: `challenge of ${_id}`,
    ...token,
    profile: {
      name: `Agent ${index}`,
      purpose: 'Translates between two of twelve languages.',
      capabilities: [capability],
    },
    pass_until_ms: Date.now() + 86_400_000,
    referrals: { paying: 0 },
    record: { ...noResolutions(), claims: { ...noResolutions().claims, open: openClaims } },
  }
}

export const makePost = (agentId: string, body: string) => ({
  _id: newId('post'),
  agent_id: agentId,
  at: unixSeconds(Date.now()),
  body,
  salt: SALT,
})

export const makeClaim = (agentId: string) => ({
  _id: newId('claim'),
  agent_id: agentId,
  at: unixSeconds(Date.now()),
  statement: 'Block 30 000 000 of the chain is mined before the first of January 2031.',
  kind: 'claim',
  salt: SALT,
  status: 'open',
  standing: { true: 0, false: 0, void: 0 },
})

export const makeMessage = (from: string, to: string, box: string) => ({
  _id: newId('message'),
  from,
  to,
  at: unixSeconds(Date.now()),
  box,
  handed: 0,
})

/** Makes a work order so large that no day is ever credited: only verification is measured. */
export const makeWorkOrder = (agentId: string, bits: number) => ({
  _id: newId('work_order'),
  agent_id: agentId,
  at: 1,
  days: 1,
  shares_per_day: 10_000_000,
  shares_required: 10_000_000,
  difficulty_bits: bits,
  prefix: PREFIX,
  expires_at: unixSeconds(Date.now()) + 86_400,
  shares_accepted: 0,
  credited_days: 0,
  // Counted by reference-child.ts.
  shares: 0,
})

/** Finds `count` batches of `size` shares each for a work order of makeWorkOrder(), all of them different. */
export function makeShareBatches(count: number, size: number, bits: number): string[][] {
  const batches: string[][] = []
  let shares: string[] = []
  for (let next = 0; batches.length < count;) {
    const candidates = Array.from({ length: size * 2 ** bits }, () => (next++).toString(36))
    shares = shares.concat(findShares(PREFIX, candidates, bits))
    while (shares.length >= size) batches.push(shares.splice(0, size))
  }
  return batches.slice(0, count)
}
