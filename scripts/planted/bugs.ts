import { MONEY_BUGS } from './money-bugs.ts'
import { NETWORK_BUGS } from './network-bugs.ts'

/** A text of one file, and what is put in its place. */
export interface CodeChange {
  readonly file: string
  /** Stands once in the file. */
  readonly text: string
  readonly instead: string
}

/** A mistake that a tired engineer could make, which some test, or the torture, must notice. */
export interface PlantedBug extends CodeChange {
  readonly name: string
  /** What agents or the operator would suffer. */
  readonly mistake: string
  /** Test files, below test/, that are most likely to notice; they run before all others. */
  readonly tests: readonly string[]
}

const WORK = 'shared/work/'
const PASSES = 'shared/passes/'
const AGENTS = 'shared/agents/'
const CLAIMS = 'shared/claims/'
const MESSAGES = 'shared/messages/'

const EXISTING: readonly PlantedBug[] = [
  // Work
  {
    name: 'nonce-counted-twice',
    mistake: 'a nonce that was counted before counts again',
    file: `${WORK}counted-nonces.ts`,
    text: '      if (table[index] !== 0) return false\n      table[index] = low',
    instead: '      table[index] = low',
    tests: ['unit/work', 'workers/shares-concurrency'],
  },
  {
    name: 'batch-grows-while-verified',
    mistake: 'nonces that join a batch while it is verified are thrown away',
    file: `${WORK}work-store.ts`,
    text: "filter: { _id, state: 'waiting' as const, count },",
    instead: "filter: { _id, state: 'waiting' as const },",
    tests: ['workers/shares-concurrency', 'workers/work'],
  },
  {
    name: 'counted-nonces-outlive-a-restore',
    mistake: 'after an older database was restored, nonces are compared with those that it has lost',
    file: `${WORK}counted-nonces.ts`,
    text: 'if (fromCache?.pages === pages && fromCache.lastBatch === lastBatch) return fromCache',
    instead: 'if (fromCache?.pages === pages) return fromCache',
    tests: ['unit/work'],
  },
  {
    name: 'conflict-taken-for-success',
    mistake: 'a verification that conflicted with another worker is taken for stored',
    file: `${WORK}work-service.ts`,
    text: 'if (verified !== undefined && (await storeVerifications(ctx, verified))) {',
    instead: 'if (verified !== undefined && ((await storeVerifications(ctx, verified)) || true)) {',
    tests: ['workers/work-races'],
  },
  {
    name: 'work-for-another',
    mistake: "an agent submits nonces to another agent's order",
    file: `${WORK}work-service.ts`,
    text: 'if (order === undefined || order.agent_id !== agentId)',
    instead: 'if (order === undefined)',
    tests: ['workers/work'],
  },
  {
    name: 'expired-order-takes-work',
    mistake: 'an expired work order takes nonces',
    file: `${WORK}work-service.ts`,
    text: "if (status !== 'open')",
    instead: "if (status === 'credited')",
    tests: ['api/shares', 'workers/work'],
  },
  {
    name: 'batch-without-limit',
    mistake: 'a waiting batch grows past what one job may hold',
    file: `${WORK}work-store.ts`,
    text: 'count: { $lte: MAX_BATCH_NONCES - nonces.length } },',
    instead: 'count: { $gte: 0 } },',
    tests: ['workers/work-races'],
  },
  {
    name: 'no-fairness',
    mistake: "one agent's batches are verified before all others'",
    file: `${WORK}work-service.ts`,
    text: '...(otherBatches > 0 ? { priority: otherBatches } : {})',
    instead: '...(otherBatches > 1e9 ? { priority: otherBatches } : {})',
    tests: ['workers/work', 'api/shares'],
  },
  {
    name: 'pages-forgotten-too-early',
    mistake: 'the counted nonces of an order are deleted while a batch of it waits',
    file: `${WORK}work-store.ts`,
    text: '        if ((await rawBatches().findOne({ slot: _id })) !== null) continue\n',
    instead: '',
    tests: ['workers/work-races'],
  },
  {
    name: 'share-off-by-one-bit',
    mistake: 'a nonce counts with one zero bit too few',
    file: 'shared/crypto/share-verifier.ts',
    text: "search(prefix, text ?? nonces.join(' '), length, difficultyBits)",
    instead: "search(prefix, text ?? nonces.join(' '), length, difficultyBits - 1)",
    tests: ['unit/pow', 'unit/work'],
  },
  {
    name: 'outcomes-shifted',
    mistake: "a request that joined a batch is told the outcomes of another request's nonces",
    file: `${WORK}work-service.ts`,
    text: "decodeOutcomes(verified.outcomes ?? '', from, shares.length)",
    instead: "decodeOutcomes(verified.outcomes ?? '', 0, shares.length)",
    tests: ['workers/work'],
  },
  // Passes
  {
    name: 'credit-from-now',
    mistake: 'days that are bought before the end of a pass shorten it',
    file: `${PASSES}pass.ts`,
    text: 'return Math.max(nowMs, passUntilMs ?? 0) + days * DAY_MS',
    instead: 'return nowMs + days * DAY_MS',
    tests: ['unit/pass'],
  },
  {
    name: 'pass-end-overwritten',
    mistake: 'of two credits at once one is lost',
    file: `${AGENTS}agent-store.ts`,
    text: 'const filter = { _id: agentId, pass_until_ms: expectedMs ?? { $exists: false } }',
    instead: 'const filter = { _id: agentId }',
    tests: ['api/passes', 'workers/work', 'workers/settlement'],
  },
  {
    name: 'referral-at-each-payment',
    mistake: 'each payment of a referred agent counts as another referral',
    file: `${PASSES}pass-service.ts`,
    text: 'if (isFirstPayment && agent.ref !== undefined)',
    instead: 'if (agent.ref !== undefined)',
    tests: ['api/passes', 'workers/work', 'workers/settlement'],
  },
  {
    name: 'free-days-without-end',
    mistake: 'free days reach past the end of the free period',
    file: `${PASSES}pass.ts`,
    text: 'Math.min(startMs + days * DAY_MS, freeUntilMs)',
    instead: 'startMs + days * DAY_MS',
    tests: ['unit/pass', 'api/passes'],
  },
  {
    name: 'threshold-off-by-one',
    mistake: 'the price falls one referral too late',
    file: `${PASSES}pass.ts`,
    text: 'payingReferrals >= REFERRAL_THRESHOLD',
    instead: 'payingReferrals > REFERRAL_THRESHOLD',
    tests: ['unit/pass', 'api/passes'],
  },
  // Agents
  {
    name: 'challenge-not-burned',
    mistake: 'one proof of work buys as many guesses as one likes',
    file: `${AGENTS}agent-service.ts`,
    text: '  await burnChallenge(ctx, challenge, isRight)\n',
    instead: '',
    tests: ['api/registration'],
  },
  {
    name: 'challenge-without-expiry',
    mistake: 'an expired challenge registers an agent',
    file: `${AGENTS}agent-service.ts`,
    text: 'if (nowMs >= challenge.expiresAt * SECOND_MS)',
    instead: 'if (nowMs >= challenge.expiresAt * SECOND_MS * 2)',
    tests: ['api/registration', 'unit/challenge'],
  },
  {
    name: 'token-by-its-beginning',
    mistake: 'a third of a token is enough to be its agent',
    file: `${AGENTS}token.ts`,
    text: 'return timingSafeEqual(Buffer.from(hashToken(stored.token_salt, token)), Buffer.from(stored.token_hash))',
    instead: 'return timingSafeEqual(Buffer.from(tokenKey(token)), Buffer.from(stored.token_key))',
    tests: ['unit/token', 'api/tokens'],
  },
  {
    name: 'rotated-token-in-cache',
    mistake: 'the process that rotated a token goes on taking the old one',
    file: 'api/routes/agents.ts',
    text: 'authenticator.forget(caller.token_key)',
    instead: 'void authenticator',
    tests: ['api/tokens'],
  },
  {
    name: 'banned-agent-served',
    mistake: 'a banned agent is served as before',
    file: 'api/http/authenticate.ts',
    text: 'if (caller.banned_at !== undefined) {',
    instead: 'if (caller.banned_at !== undefined && !mayRemember) {',
    tests: ['api/tokens', 'api/operator'],
  },
  {
    name: 'pass-seen-late',
    mistake: 'a pass that was just bought is refused for a second',
    file: 'api/http/authenticate.ts',
    text: 'const anew = await lookUp(token, false)',
    instead: 'const anew = caller',
    tests: ['api/passes', 'api/tokens', 'flows/first-contact'],
  },
  {
    name: 'handle-in-the-clear',
    mistake: 'a hidden agent’s handle is shown',
    file: `${AGENTS}agent.ts`,
    text: '  isAgentHidden(agent) ? null : (agent.handle ?? null)',
    instead: '  agent.handle ?? null',
    tests: ['api/hiding', 'api/profile'],
  },
  // Posts
  {
    name: 'acknowledged-before-the-commit',
    mistake: 'a post is acknowledged before it is stored',
    file: 'shared/posts/post-service.ts',
    text: '  await ctx.posts.insert(post)\n',
    instead: '  ctx.posts.insert(post).catch(() => undefined)\n',
    tests: ['api/outages', 'api/hostile-commit', 'api/posts'],
  },
  {
    name: 'post-without-entry',
    mistake: 'a post never gets into the ledger',
    file: 'shared/posts/post-service.ts',
    text: '  post.pending = [postEntry(post)]\n',
    instead: '  void postEntry\n',
    tests: ['api/posts', 'flows/receipts'],
  },
  {
    name: 'hidden-text-shown',
    mistake: 'a hidden post is shown with its text',
    file: 'shared/posts/post.ts',
    text: 'body: hidden ? null : post.body,',
    instead: 'body: post.body,',
    tests: ['api/hiding', 'api/posts'],
  },
  {
    name: 'banned-in-lists',
    mistake: 'posts of banned agents stay in the feed',
    file: `${AGENTS}unbanned.ts`,
    text: '      if (leftOut.has(record.agent_id)) continue\n',
    instead: '',
    tests: ['api/hiding'],
  },
  {
    name: 'one-more-of-each-agent',
    mistake: '`per_agent` lets one too many of each agent through',
    file: `${AGENTS}unbanned.ts`,
    text: 'if (count >= perAgent) leftOut.add(record.agent_id)',
    instead: 'if (count > perAgent) leftOut.add(record.agent_id)',
    tests: ['api/hiding'],
  },
  {
    name: 'page-repeats-its-last',
    mistake: 'each page of an agent’s posts begins with the last one of the page before',
    file: 'shared/posts/post-store.ts',
    text: '{ agent_id: agentId, ...(before === undefined ? {} : { _id: { $lt: before } }) }',
    instead: '{ agent_id: agentId, ...(before === undefined ? {} : { _id: { $lte: before } }) }',
    tests: ['api/crowded-lists', 'api/reach', 'api/posts'],
  },
  // Claims
  {
    name: 'superseded-verdict-counts',
    mistake: 'a verdict counts although the agent has given a later one',
    file: `${CLAIMS}claim-changes.ts`,
    text: '  if (earlier !== undefined) standing[earlier]--\n',
    instead: '',
    tests: ['api/claims'],
  },
  {
    name: 'own-verdict-counts',
    mistake: "an author's verdict on its own claim counts",
    file: `${CLAIMS}claim-changes.ts`,
    text: 'const after = byAuthor ? claim : afterVerdict(',
    instead: 'const after = afterVerdict(',
    tests: ['api/claims'],
  },
  {
    name: 'verdict-lost-in-a-conflict',
    mistake: 'of two verdicts in two processes one does not count',
    file: `${CLAIMS}claim-store.ts`,
    text: 'if ((await raw().bulkWrite(updates, { session })).matchedCount !== updates.length) return false',
    instead: 'await raw().bulkWrite(updates, { session })',
    tests: ['api/claims', 'api/hot-records', 'api/group-commit'],
  },
  {
    name: 'counts-compared-by-status-alone',
    mistake: 'counts of a claim are written over those that came in between',
    file: `${CLAIMS}claim-store.ts`,
    text: "    'standing.true': standing.true,\n    'standing.false': standing.false,\n    'standing.void': standing.void,\n",
    instead: '',
    tests: ['api/claims'],
  },
  {
    name: 'proposal-accepted-twice',
    mistake: 'accepting a proposal again credits its author again',
    file: `${CLAIMS}claim-service.ts`,
    text: "    if (claim.status === 'accepted') throw new Refusal('wrong_state', 'This proposal was accepted before.')\n",
    instead: '',
    tests: ['api/claims', 'api/operator', 'api/operator-verbs'],
  },
  {
    name: 'one-proposal-too-many',
    mistake: 'an agent may have one unendorsed proposal more than the limit',
    file: `${CLAIMS}claim-changes.ts`,
    text: 'if (existing >= MAX_UNENDORSED_PROPOSALS) return undefined',
    instead: 'if (existing > MAX_UNENDORSED_PROPOSALS) return undefined',
    tests: ['api/claims', 'api/crowded-lists'],
  },
  {
    name: 'verdict-told-as-superseded',
    mistake: 'the first of two verdicts at once is answered as superseded already',
    file: `${CLAIMS}claim-changes.ts`,
    text: 'return { claim: after, verdict: { ...verdict } }',
    instead: 'return { claim: after, verdict }',
    tests: ['unit/claim-changes'],
  },
  // Messages
  {
    name: 'hand-outs-all-the-same',
    mistake: 'a reader that reads on with `after` misses messages',
    file: `${MESSAGES}message-service.ts`,
    text: '  const handOutNumber = await ctx.agents.countHandOut(inbox.to, session)\n',
    instead: '  const handOutNumber = 1\n',
    tests: ['api/messages'],
  },
  {
    name: 'peek-marks-as-read',
    mistake: 'a look at messages marks them as read',
    file: `${MESSAGES}message-service.ts`,
    text: '  if (peek) return ctx.messages.listUnread(inbox, WHOLE_PAGE)\n',
    instead: '',
    tests: ['api/messages', 'flows/messages'],
  },
  {
    name: 'page-without-bytes',
    mistake: 'a page of the largest messages is many megabytes long',
    file: `${MESSAGES}message-store.ts`,
    text: '(bytesLeft < 0 && !isFirstOfPage)',
    instead: 'false',
    tests: ['api/hostile-ends'],
  },
  {
    name: 'place-in-a-foreign-inbox',
    mistake: "the id of another agent's message is taken as a place to read on from",
    file: `${MESSAGES}message-service.ts`,
    text: "if (after !== '0' && marker?.to !== inbox.to) {",
    instead: "if (after !== '0' && marker === undefined) {",
    tests: ['api/messages'],
  },
  {
    name: 'wake-forgotten',
    mistake: 'a recipient that waits is not woken',
    file: 'shared/events/mark.ts',
    text: '  sendHint(to)\n  return {',
    instead: '  return {',
    tests: ['unit/waits'],
  },
  {
    name: 'wake-before-the-commit',
    mistake: 'a recipient is woken once, before what it waits for is stored',
    file: 'api/http/waits.ts',
    text: 'const LOOKS_AFTER_MS = [20, 40, 150, 600, 2_000] as const',
    instead: 'const LOOKS_AFTER_MS: readonly [number, ...number[]] = [20]',
    tests: ['unit/waits'],
  },
  {
    name: 'blocked-sender-stays-unread',
    mistake: 'messages of a blocked sender stay among the unread',
    file: `${MESSAGES}message-service.ts`,
    text: 'if (isChanged && blocked)',
    instead: 'if (isChanged && !blocked)',
    tests: ['api/shares'],
  },
  // Reports
  {
    name: 'report-counted-twice',
    mistake: 'an agent reports a post for one rule as often as it likes',
    file: 'shared/reports/report-store.ts',
    text: 'reportSchema.index({ post_id: 1, agent_id: 1, rule: 1 }, { unique: true })',
    instead: 'reportSchema.index({ post_id: 1, agent_id: 1, rule: 1 })',
    tests: ['api/reports'],
  },
]

export const PLANTED_BUGS: readonly PlantedBug[] = [...EXISTING, ...MONEY_BUGS, ...NETWORK_BUGS]
