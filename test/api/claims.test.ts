import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { acceptProposal, storeOverdueClaims } from '../../shared/claims/claim-service.ts'
import { storeEndorsements } from '../../shared/claims/claim-store.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { listPending } from '../support/stored.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'
import { checkChain } from '../../workers/jobs/check-chain.ts'

interface Claim {
  id: string
  agent_id: string
  statement: string
  kind: string
  resolve_by: number | null
  status: string
  standing: { true: number; false: number; void: number }
  salt: string
}
interface Verdict {
  id: string
  agent_id: string
  outcome: string
  evidence: string | null
  by_author: boolean
  superseded: boolean
  salt: string
}

let service: TestService
let author: TestAgent
let judges: TestAgent[]

beforeAll(async () => {
  // No sweep: what a claim is must be right at read time; the tests run the sweep's step themselves.
  service = await startService({ queues: ['verify-shares'] })
  author = await service.register()
  judges = await Promise.all(Array.from({ length: 6 }, () => service.register()))
})
afterAll(() => service.stop())

const judge = (index: number): TestAgent => judges[index] ?? author
const nowSeconds = () => Math.floor(service.ctx.now() / 1_000)
const claim = async (fields: object = {}, { token } = author) => {
  const { status, json } = await service.call('POST', '/claim', {
    token,
    body: { statement: 'it will rain', ...fields },
  })
  expect(status, JSON.stringify(json)).toBe(201)
  return json as unknown as { id: string; claim: Claim }
}
const resolve = async (claim_id: string, outcome: string, { token }: TestAgent, evidence?: string) => {
  const { status, json } = await service.call('POST', '/claim/resolve', {
    token,
    body: { claim_id, outcome, ...(evidence === undefined ? {} : { evidence }) },
  })
  expect(status, JSON.stringify(json)).toBe(200)
  return json as unknown as { verdict: Verdict; claim: Claim }
}
const read = async (id: string) =>
  (await service.call('GET', `/claim/${id}`)).json['claim'] as Claim & { verdicts: Verdict[] }
const list = async (query = '') =>
  ((await service.call('GET', `/claims${query}`)).json as unknown as { claims: Claim[] }).claims
const recordOf = async ({ id }: TestAgent) =>
  (await service.call('GET', `/agent/${id}`)).json['resolution_record']
const pendingOf = (collection: 'claims' | 'verdicts', id: string) =>
  listPending(service.ctx.database.connection, collection, id)
const commitment = (salt: string, canonicalJson: string) =>
  createHash('sha256').update(Buffer.from(salt, 'hex')).update(canonicalJson).digest('hex')

describe('a claim', () => {
  // holds: contract.guarantees.post_post_post_dm_and_post, rules.claims.statuses.open
  // holds: rules.ledger.entry_kinds.claim
  it('is on record as it was made, open, with one entry that shows no text', async () => {
    const { id, claim: made } = await claim({ statement: 'no entry may show this' })
    expect(made).toMatchObject({
      id,
      agent_id: author.id,
      statement: 'no entry may show this',
      kind: 'claim',
      resolve_by: null,
      status: 'open',
      standing: { true: 0, false: 0, void: 0 },
      verified: false,
    })
    expect(await read(id)).toEqual({ ...made, verdicts: [] })
    const entries = await pendingOf('claims', id)
    expect(entries.map(({ kind, data }) => ({ kind, data }))).toEqual([
      {
        kind: 'claim',
        data: {
          claim_id: id,
          agent_id: author.id,
          resolve_by: null,
          content_hash: commitment(
            made.salt,
            `{"id":"${id}","kind":"claim","statement":"no entry may show this"}`,
          ),
        },
      },
    ])
    expect(JSON.stringify(entries)).not.toContain('may show')
  })

  // holds: contract.formats.at_and_at_are_unix_seconds
  it('takes resolve_by as Unix seconds or ISO 8601, and gives it back as Unix seconds', async () => {
    expect((await claim({ resolve_by: 4_000_000_000 })).claim.resolve_by).toBe(4_000_000_000)
    expect((await claim({ resolve_by: '2096-10-02T07:06:40Z' })).claim.resolve_by).toBe(4_000_000_000)
    expect((await claim({ resolve_by: '2096-10-02T09:06:40.9+02:00' })).claim.resolve_by).toBe(4_000_000_000)
    expect((await claim({ resolve_by: nowSeconds() + 1_000_000 })).claim.status).toBe('open')
  })

  // holds: limits.claim
  it('may be of 2,000 characters and of any kind in a-z, 0-9, _ and -', async () => {
    expect(
      (await claim({ statement: '🜚'.repeat(2_000), kind: 'a-z_09'.padEnd(32, 'x') })).claim.kind,
    ).toHaveLength(32)
  })
})

describe('verdicts', () => {
  // holds: rules.claims.statements.a_status_says_what_is_on, rules.claims.statuses.contested
  // holds: rules.claims.statuses.judged
  it('make a claim judged while they agree and contested when they differ', async () => {
    const { id } = await claim()
    expect((await resolve(id, 'true', judge(0))).claim).toMatchObject({
      status: 'judged',
      standing: { true: 1, false: 0, void: 0 },
    })
    expect((await resolve(id, 'true', judge(1))).claim).toMatchObject({
      status: 'judged',
      standing: { true: 2, false: 0, void: 0 },
    })
    expect((await resolve(id, 'void', judge(2))).claim).toMatchObject({
      status: 'contested',
      standing: { true: 2, false: 0, void: 1 },
    })
    expect(await read(id)).toMatchObject({
      status: 'contested',
      verdicts: [{ outcome: 'void' }, { outcome: 'true' }, { outcome: 'true' }],
    })
  })

  // holds: rules.claims.outcomes
  it('have one of three outcomes, and no other', async () => {
    const { id } = await claim()
    for (const outcome of ['true', 'false', 'void'])
      expect((await resolve(id, outcome, judge(0))).verdict.outcome).toBe(outcome)
    for (const outcome of ['True', 'yes', 'accepted', '']) {
      const { status, json } = await service.call('POST', '/claim/resolve', {
        token: judge(0).token,
        body: { claim_id: id, outcome },
      })
      expect([outcome, status, json.error, json.field]).toEqual([outcome, 400, 'invalid_field', 'outcome'])
    }
    expect((await read(id)).verdicts).toHaveLength(3)
  })

  // holds: rules.claims.statements.an_agent_s_later_verdict_on, rules.ledger.entry_kinds.verdict
  it('supersede the earlier one of the same agent, and both stay on record', async () => {
    const { id } = await claim()
    const first = (await resolve(id, 'false', judge(0), 'I looked')).verdict
    await resolve(id, 'true', judge(1))
    const second = await resolve(id, 'true', judge(0), 'I looked again')
    expect(second.claim).toMatchObject({ status: 'judged', standing: { true: 2, false: 0, void: 0 } })
    const { verdicts } = await read(id)
    expect(
      verdicts.map(({ agent_id, outcome, superseded, evidence }) => [
        agent_id,
        outcome,
        superseded,
        evidence,
      ]),
    ).toEqual([
      [judge(0).id, 'true', false, 'I looked again'],
      [judge(1).id, 'true', false, null],
      [judge(0).id, 'false', true, 'I looked'],
    ])
    const [entry, ...rest] = await pendingOf('verdicts', second.verdict.id)
    expect(rest).toEqual([])
    expect(entry).toMatchObject({
      kind: 'verdict',
      data: {
        verdict_id: second.verdict.id,
        claim_id: id,
        agent_id: judge(0).id,
        outcome: 'true',
        by_author: false,
        supersedes: first.id,
        evidence_hash: commitment(
          second.verdict.salt,
          `{"evidence":"I looked again","id":"${second.verdict.id}"}`,
        ),
      },
    })
    expect(JSON.stringify([entry, await pendingOf('verdicts', first.id)])).not.toContain('looked')
  })

  // holds: rules.claims.statements.an_agent_s_later_verdict_on, rules.claims.statuses.open
  it('of the author are kept and do not count', async () => {
    const { id } = await claim({}, judge(5))
    const own = await resolve(id, 'true', judge(5))
    expect(own.verdict).toMatchObject({ by_author: true, superseded: false })
    expect(own.claim).toMatchObject({ status: 'open', standing: { true: 0, false: 0, void: 0 } })
    await resolve(id, 'false', judge(0))
    await resolve(id, 'void', judge(5))
    expect(await read(id)).toMatchObject({
      status: 'judged',
      standing: { true: 0, false: 1, void: 0 },
      verdicts: [
        { by_author: true, superseded: false },
        { by_author: false },
        { by_author: true, superseded: true },
      ],
    })
    expect(await recordOf(judge(5))).toMatchObject({
      claims: { open: 0, judged: 1 },
      verdicts: { true: 0, false: 1, void: 0 },
    })
  })

  it('count exactly when all come at once, two from each agent', async () => {
    const { id } = await claim({}, judge(4))
    const outcomes = ['true', 'false', 'void', 'true', 'false']
    await Promise.all(
      [...outcomes, ...outcomes].map((outcome, i) =>
        i % 5 === 4 ? resolve(id, outcome, author) : resolve(id, outcome, judge(i % 5 === 3 ? 5 : i % 5)),
      ),
    )
    const { standing, status, verdicts } = await read(id)
    expect([status, standing]).toEqual(['contested', { true: 2, false: 2, void: 1 }])
    expect(verdicts.filter(({ superseded }) => !superseded)).toHaveLength(5)
    expect(verdicts).toHaveLength(10)
    expect(await recordOf(judge(4))).toMatchObject({ claims: { open: 0, contested: 1 }, verdicts: standing })
  })

  it('count when another process has stored one since the claim was read', async () => {
    const other = await service.addApi()
    const { id } = await claim({}, judge(1))
    // So that the status stays `judged`.
    await resolve(id, 'true', judge(2))
    const { claims } = service.ctx
    const { findByVerdicts } = claims
    claims.findByVerdicts = async (onClaims, session) => {
      claims.findByVerdicts = findByVerdicts
      const found = await findByVerdicts(onClaims, session)
      const body = { claim_id: id, outcome: 'true' }
      expect((await other.call('POST', '/claim/resolve', { token: judge(3).token, body })).status).toBe(200)
      return found
    }
    const { claim: after } = await resolve(id, 'true', judge(4))
    expect([after.standing, (await read(id)).standing]).toEqual([
      { true: 3, false: 0, void: 0 },
      { true: 3, false: 0, void: 0 },
    ])
  })

  it('count exactly when they come by three processes at once, each the next of one earlier', async () => {
    const apis = [service, await service.addApi(), await service.addApi()]
    const claimant = await service.register()
    const { id } = await claim({}, claimant)
    const five = [0, 1, 2, 3, 4].map(judge)
    const answers = await Promise.all(
      apis.flatMap((api, place) =>
        five.map(({ token }, index) =>
          api.call('POST', '/claim/resolve', {
            token,
            body: { claim_id: id, outcome: ['true', 'false', 'void'][(place + index) % 3] },
          }),
        ),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    const { standing, verdicts } = await read(id)
    expect(verdicts).toHaveLength(15)
    const stand = verdicts.filter(({ superseded }) => !superseded)
    expect(stand.map(({ agent_id: agentId }) => agentId).sort()).toEqual(five.map((agent) => agent.id).sort())
    const counted = { true: 0, false: 0, void: 0 }
    for (const { outcome } of stand) counted[outcome as keyof typeof counted]++
    expect(standing).toEqual(counted)
    expect(await recordOf(claimant)).toMatchObject({ verdicts: standing })
    const superseded = (await Promise.all(verdicts.map((verdict) => pendingOf('verdicts', verdict.id))))
      .flat()
      .flatMap(({ data }) => (data['supersedes'] === null ? [] : [data['supersedes']]))
    expect(superseded.sort()).toEqual(
      verdicts.flatMap((verdict) => (verdict.superseded ? [verdict.id] : [])).sort(),
    )
  })

  // holds: rules.errors.no_such_claim
  it('are refused for a claim that does not exist', async () => {
    const answer = await service.call('POST', '/claim/resolve', {
      token: author.token,
      body: { claim_id: 'clm_none', outcome: 'true' },
    })
    expect([answer.status, answer.json.error, answer.json.field]).toEqual([404, 'no_such_claim', 'claim_id'])
  })
})

describe('a claim whose time passed', () => {
  // holds: rules.claims.statuses.overdue
  it('is overdue at once where it is read, and stays so when the sweep has moved it', async () => {
    const agent = await service.register()
    const late = await claim({ resolve_by: nowSeconds() + 100 }, agent)
    const judged = await claim({ resolve_by: nowSeconds() + 100 }, agent)
    await claim({ resolve_by: nowSeconds() + 100_000 }, agent)
    await resolve(judged.id, 'true', judge(0))
    service.advance(100_000)
    const look = async () => ({
      one: (await read(late.id)).status,
      overdue: (await list(`?agent=${agent.id}&status=overdue`)).map(({ id, status }) => [id, status]),
      open: (await list(`?agent=${agent.id}&status=open`)).length,
      judged: (await list(`?agent=${agent.id}&status=judged`)).map(({ id }) => id),
      all: (await list(`?agent=${agent.id}`)).map(({ status }) => status),
      record: await recordOf(agent),
    })
    const before = await look()
    expect(before).toMatchObject({
      one: 'overdue',
      overdue: [[late.id, 'overdue']],
      open: 1,
      judged: [judged.id],
      all: ['open', 'judged', 'overdue'],
      record: { claims: { open: 1, judged: 1, overdue: 1 } },
    })
    expect((await service.ctx.claims.find(late.id))?.status).toBe('open')
    for (let run = 0; run < 2; run++) {
      await storeOverdueClaims(service.ctx)
      expect(await look()).toEqual(before)
    }
    expect((await service.ctx.claims.find(late.id))?.status).toBe('overdue')
  })

  // holds: rules.claims.statuses.overdue
  it('moves on with a later verdict, before the sweep and after it, and with ten sweeps at once', async () => {
    const agent = await service.register()
    const ids = [
      (await claim({ resolve_by: nowSeconds() + 10 }, agent)).id,
      (await claim({ resolve_by: nowSeconds() + 10 }, agent)).id,
    ]
    service.advance(10_000)
    expect((await resolve(ids[0] ?? '', 'true', judge(0))).claim.status).toBe('judged')
    await Promise.all(Array.from({ length: 10 }, () => storeOverdueClaims(service.ctx)))
    expect(await recordOf(agent)).toMatchObject({
      claims: { open: 0, judged: 1, contested: 0, overdue: 1, accepted: 0 },
    })
    expect((await resolve(ids[1] ?? '', 'false', judge(0))).claim.status).toBe('judged')
    expect(await recordOf(agent)).toMatchObject({
      claims: { open: 0, judged: 2, contested: 0, overdue: 0, accepted: 0 },
      verdicts: { true: 1, false: 1, void: 0 },
    })
  })

  it('is moved by the sweep of a running worker', async () => {
    const swept = await startService({ queues: ['sweep'] })
    const { token } = await swept.register()
    const { id } = (
      await swept.call('POST', '/claim', {
        token,
        body: { statement: 's', resolve_by: Math.floor(swept.ctx.now() / 1_000) + 1_000 },
      })
    ).json
    swept.advance(1_000_000)
    await waitFor(
      'the sweep',
      async () => ((await swept.ctx.claims.find(String(id)))?.status === 'overdue' ? true : undefined),
      {
        limitMs: PATIENCE_MS,
      },
    )
    await swept.stop()
  })
})

describe('the claims ledger', () => {
  // holds: contract.ordering, limits.lists_by_volume
  it('is newest first, by agent, by status, and as many as are asked for', async () => {
    const agent = await service.register()
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.unshift((await claim({ statement: `c${i}` }, agent)).id)
    expect((await list(`?agent=${agent.id}`)).map(({ id }) => id)).toEqual(ids)
    expect((await list('?limit=2')).map(({ id }) => id)).toEqual(ids.slice(0, 2))
    await resolve(ids[0] ?? '', 'true', judge(0))
    await resolve(ids[1] ?? '', 'true', judge(0))
    await resolve(ids[1] ?? '', 'void', judge(1))
    const byStatus = async (status: string) =>
      (await list(`?agent=${agent.id}&status=${status}`)).map(({ id }) => id)
    expect([
      await byStatus('judged'),
      await byStatus('contested'),
      await byStatus('open'),
      await byStatus('overdue'),
      await byStatus('accepted'),
    ]).toEqual([[ids[0]], [ids[1]], ids.slice(2), [], []])
  })
})

describe('proposals', () => {
  const propose = (agent: TestAgent = author) => claim({ kind: 'proposal', statement: 'let us' }, agent)
  const readProposals = async () =>
    (
      (await service.call('GET', '/proposals?limit=200')).json as unknown as {
        proposals: (Claim & { endorsements: number })[]
      }
    ).proposals

  // holds: rules.claims.statements.a_claim_of_kind_proposal_is
  it('are ranked by endorsements of others, the newest first among equals', async () => {
    const ids = [(await propose()).id, (await propose()).id, (await propose()).id, (await propose()).id]
    const [one, two, three, four] = ids as [string, string, string, string]
    await claim({ kind: 'proposals', statement: 'no proposal' })
    for (const index of [0, 1]) await resolve(three, 'true', judge(index))
    await resolve(four, 'true', judge(0))
    await resolve(two, 'true', author)
    await resolve(one, 'false', judge(1))
    const ranked = await readProposals()
    expect(
      ranked.filter(({ id }) => ids.includes(id)).map(({ id, endorsements }) => [id, endorsements]),
    ).toEqual([
      [three, 2],
      [four, 1],
      [two, 0],
      [one, 0],
    ])
    expect(ranked.every(({ kind }) => kind === 'proposal')).toBe(true)
    await resolve(three, 'void', judge(0))
    await resolve(three, 'void', judge(1))
    expect((await readProposals()).filter(({ id }) => ids.includes(id)).map(({ id }) => id)).toEqual([
      four,
      three,
      two,
      one,
    ])
  })

  it('of before an upgrade have their place after it', async () => {
    const agent = await service.register()
    const [old, other] = [await propose(agent), await propose(agent)]
    await resolve(old.id, 'true', judge(0))
    const { models } = service.ctx.claims
    await models.claims.updateMany({ agent_id: agent.id }, { $unset: { endorsements: 1 } })
    await storeEndorsements(service.ctx.database.connection)
    const ranked = (await readProposals()).filter(({ agent_id: by }) => by === agent.id)
    expect(ranked.map(({ id }) => id)).toEqual([old.id, other.id])
    const unendorsed = await service.ctx.database.transaction((session) =>
      service.ctx.claims.countUnendorsed([agent.id], session),
    )
    expect(unendorsed.get(agent.id)).toBe(1)
  })

  it('that a process of an older version makes and endorses during an upgrade have their place after the hourly check', async () => {
    const agent = await service.register()
    const [endorsed, made] = [await propose(agent), await propose(agent)]
    const { claims } = service.ctx.claims.models
    await claims.collection.updateOne({ _id: endorsed.id as never }, { $set: { 'standing.true': 1 } })
    await claims.collection.updateOne({ _id: made.id as never }, { $unset: { endorsements: 1 } })
    await checkChain(service.ctx)
    expect(
      (await claims.collection.find({ agent_id: agent.id }).sort({ _id: 1 }).toArray()).map(
        ({ endorsements }) => endorsements as number,
      ),
    ).toEqual([1, 0])
  })

  // holds: rules.claims.statements.the_operator_accepts_a_proposal_with
  it('pay their author once when they are accepted, also by ten at once', async () => {
    const agent = await service.register()
    const { id } = await propose(agent)
    await resolve(id, 'false', judge(0))
    const attempts = await Promise.allSettled(
      Array.from({ length: 10 }, () => acceptProposal(service.ctx, id, 30)),
    )
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const attempt of attempts)
      if (attempt.status === 'rejected') expect((attempt.reason as Refusal).code).toBe('wrong_state')
    const me = (await service.call('GET', '/me', { token: agent.token })).json
    expect(me['pass_active']).toBe(true)
    expect(Math.abs(Date.parse(String(me['pass_until'])) - service.ctx.now() - 30 * 86_400_000)).toBeLessThan(
      60_000,
    )
    const entries = await pendingOf('claims', id)
    expect(entries.map(({ kind, data }) => [kind, data['days'], data['means']])).toEqual([
      ['claim', undefined, undefined],
      ['proposal_accepted', 30, undefined],
      ['pass_credit', 30, 'proposal'],
    ])
    expect(await recordOf(agent)).toMatchObject({ claims: { open: 0, judged: 0, accepted: 1 } })
  })

  // holds: rules.claims.statuses.accepted
  it('that were accepted stay so whatever is said later', async () => {
    const agent = await service.register()
    const { id } = await propose(agent)
    await acceptProposal(service.ctx, id, 1)
    expect((await resolve(id, 'false', judge(0))).claim).toMatchObject({
      status: 'accepted',
      standing: { false: 1 },
    })
    await resolve(id, 'true', judge(1))
    expect((await read(id)).status).toBe('accepted')
    expect((await list(`?agent=${agent.id}&status=accepted`)).map((found) => found.id)).toEqual([id])
    expect(await recordOf(agent)).toMatchObject({
      claims: { open: 0, judged: 0, contested: 0, accepted: 1 },
      verdicts: { true: 1, false: 1 },
    })
  })

  // holds: rules.claims.statements.a_claim_of_kind_proposal_is
  it('alone can be accepted', async () => {
    const { id } = await claim()
    await expect(acceptProposal(service.ctx, id, 1)).rejects.toMatchObject({ code: 'wrong_state' })
    await expect(acceptProposal(service.ctx, 'clm_none', 1)).rejects.toMatchObject({ code: 'no_such_claim' })
  })
})
