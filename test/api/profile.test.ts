import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../shared/platform/ids.ts'
import { listPending } from '../support/stored.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
})
afterAll(() => service.stop())

/** A fresh X25519 public key, as hex. */
const newKey = () =>
  generateKeyPairSync('x25519')
    .publicKey.export({ type: 'spki', format: 'der' })
    .subarray(-32)
    .toString('hex')
const EMPTY = { name: null, purpose: null, capabilities: [], dm_key: null, verified: false }
const declare = async ({ token }: TestAgent, body: object) => {
  const { status, json } = await service.call('POST', '/profile', { token, body })
  expect(status, JSON.stringify(json)).toBe(200)
  return json['profile']
}
const readCard = async ({ id }: TestAgent) => (await service.call('GET', `/agent/${id}`)).json
const search = async (query: string) =>
  (await service.call('GET', `/directory${query}`)).json as unknown as {
    agents: { agent_id: string; verified: boolean }[]
    count: number
  }
const kindsOf = async ({ id }: TestAgent) =>
  (await listPending(service.ctx.database.connection, 'agents', id)).map(({ kind, data }) => [
    kind,
    data['dm_key'],
  ])

describe('a profile', () => {
  it('is empty at first, takes what is declared, and keeps what is left out', async () => {
    const agent = await service.register({ handle: 'h' })
    expect(await readCard(agent)).toMatchObject({
      agent_id: agent.id,
      handle: 'h',
      banned: false,
      verified: false,
      profile: EMPTY,
    })
    expect(await declare(agent, { name: 'N', purpose: 'P' })).toEqual({ ...EMPTY, name: 'N', purpose: 'P' })
    expect(await declare(agent, { capabilities: ['a'] })).toEqual({
      ...EMPTY,
      name: 'N',
      purpose: 'P',
      capabilities: ['a'],
    })
    expect(await declare(agent, {})).toEqual({ ...EMPTY, name: 'N', purpose: 'P', capabilities: ['a'] })
    expect(await declare(agent, { name: '', capabilities: [] })).toEqual({ ...EMPTY, name: '', purpose: 'P' })
    expect((await readCard(agent))['profile']).toEqual({ ...EMPTY, name: '', purpose: 'P' })
  })

  // holds: limits.sealed_messages.detail, rules.ledger.entry_kinds.dm_key_change
  // holds: rules.ledger.statements.sealing_prevents_rewriting_not_withholding_profiles
  it('needs no pass, and leaves an entry for a new dm_key alone, with the key', async () => {
    const agent = await service.register()
    const [first, second] = [newKey(), newKey()]
    await declare(agent, { name: 'secret name', purpose: 'secret purpose', capabilities: ['secret'] })
    for (const fields of [{ dm_key: first }, { dm_key: first, name: 'other' }, { dm_key: second }])
      await declare(agent, fields)
    expect(await kindsOf(agent)).toEqual([
      ['registration', undefined],
      ['dm_key_change', first],
      ['dm_key_change', second],
    ])
    expect(
      JSON.stringify(await listPending(service.ctx.database.connection, 'agents', agent.id)),
    ).not.toContain('secret')
  })

  it('has one entry for each change when ten keys come at once, and the last stands', async () => {
    const agent = await service.register()
    const keys = Array.from({ length: 10 }, newKey).sort()
    await Promise.all(keys.map((dm_key) => declare(agent, { dm_key })))
    const changes = (await kindsOf(agent)).slice(1).map(([, key]) => key)
    expect([...changes].sort()).toEqual(keys)
    expect((await readCard(agent))['profile']).toMatchObject({ dm_key: changes.at(-1) })
  })

  // holds: rules.ledger.entry_kinds.dm_key_change
  it('loses each field that is set to null, the dm_key too, with an entry that says so', async () => {
    const agent = await service.register()
    const key = newKey()
    await declare(agent, { name: 'N', purpose: 'P', capabilities: ['a'], dm_key: key })
    expect(await declare(agent, { name: null })).toMatchObject({ name: null, purpose: 'P', dm_key: key })
    expect(await declare(agent, { purpose: null, dm_key: null, capabilities: [] })).toEqual(EMPTY)
    // What is not there is not taken away once more.
    expect(await declare(agent, { dm_key: null })).toEqual(EMPTY)
    expect((await readCard(agent))['profile']).toEqual(EMPTY)
    expect(await kindsOf(agent)).toEqual([
      ['registration', undefined],
      ['dm_key_change', key],
      ['dm_key_change', null],
    ])
    expect(await declare(agent, { dm_key: key })).toMatchObject({ dm_key: key })
  })

  it('is shown in one line: no control character is taken in a name or a capability', async () => {
    const agent = await service.register()
    for (const control of ['\u001b[2J', '\n', '\r', '\u007f', '\u009b', '\u2028'])
      for (const fields of [{ name: `a${control}b` }, { capabilities: [`a${control}b`] }]) {
        const { status, json } = await service.call('POST', '/profile', { token: agent.token, body: fields })
        expect([fields, status, json.error, json.field]).toEqual([
          fields,
          400,
          'invalid_field',
          Object.keys(fields)[0],
        ])
        expect(json.message).toContain('one line without control characters')
      }
    expect((await readCard(agent))['profile']).toEqual(EMPTY)
  })

  // holds: limits.profile
  it('takes its fields up to their bounds', async () => {
    const agent = await service.register()
    const capabilities = Array.from({ length: 32 }, (_, i) => `${i}`.padStart(64, 'x'))
    const profile = { name: '🜚'.repeat(80), purpose: 'é'.repeat(1_000), capabilities }
    expect(await declare(agent, profile)).toEqual({ ...EMPTY, ...profile })
  })

  it('trims capabilities, lower-cases them, and keeps each once', async () => {
    const agent = await service.register()
    expect(
      await declare(agent, { capabilities: ['  Web Search ', 'web search', 'ÉTÉ', '$where', 'a.b'] }),
    ).toMatchObject({
      capabilities: ['web search', 'été', '$where', 'a.b'],
    })
  })
})

describe('the directory', () => {
  it('lists who declares a capability, newest first, in any case, and each as unverified', async () => {
    const agents = [await service.register(), await service.register(), await service.register()]
    for (const agent of agents.slice(0, 2)) await declare(agent, { capabilities: ['Grain Trading', 'x'] })
    await declare(agents[2] as TestAgent, { capabilities: ['grain'] })
    const found = await search(`?capability=${encodeURIComponent(' GRAIN trading ')}`)
    expect(found.agents.map(({ agent_id: id }) => id)).toEqual([agents[1]?.id, agents[0]?.id])
    expect(found.agents.every(({ verified }) => !verified)).toBe(true)
    expect((await search('?capability=grain&limit=1')).agents.map(({ agent_id: id }) => id)).toEqual([
      agents[2]?.id,
    ])
    expect((await search('?capability=gra')).count).toBe(0)
    expect((await search('?capability=.*')).count).toBe(0)
  })

  it('does not look at those who declare nothing', async () => {
    const { collection } = service.ctx.agents.models.agents
    const declaring = await service.register()
    await declare(declaring, { capabilities: ['one'] })
    const bare = await collection.findOne({ _id: declaring.id as never })
    await collection.insertMany(
      Array.from({ length: 300 }, (_, place) => ({
        ...bare,
        _id: newId('agent') as never,
        ...{
          challenge: `bare ${place}`,
          token_key: `bare ${place}`,
          profile: { name: 'declares nothing' },
          pending: [],
        },
      })),
    )
    const listed = () => search('?limit=1')
    expect((await listed()).agents.map(({ agent_id: id }) => id)).toEqual([declaring.id])
    const looked: number[] = []
    for (const filter of [
      { 'profile.capabilities.0': { $exists: true } },
      { 'profile.capabilities': 'one' },
    ]) {
      const { executionStats } = (await collection
        .find(filter)
        .sort({ _id: -1 })
        .limit(1)
        .explain('executionStats')) as {
        executionStats: { totalDocsExamined: number }
      }
      looked.push(executionStats.totalDocsExamined)
    }
    expect(looked).toEqual([1, 1])
  })

  it('forgets a capability that is no longer declared, and lists everyone who declares any where none is named', async () => {
    const agent = await service.register()
    await declare(agent, { capabilities: ['fleeting'] })
    expect((await search('?capability=fleeting')).count).toBe(1)
    expect((await search('?limit=200')).agents.map(({ agent_id: id }) => id)).toContain(agent.id)
    await declare(agent, { capabilities: ['lasting'] })
    expect((await search('?capability=fleeting')).count).toBe(0)
    expect((await search('?capability=lasting')).agents.map(({ agent_id: id }) => id)).toEqual([agent.id])
  })
})

describe('an agent card', () => {
  // holds: contract.idempotency, limits.agent_card
  it('shows own writes at once, the twenty newest of each', async () => {
    const agent = await service.registerWithPass()
    const { token } = agent
    const posts: string[] = []
    const claims: string[] = []
    for (let i = 0; i < 22; i++) {
      posts.unshift(
        String((await service.call('POST', '/post', { token, body: { body: `p${i}` } })).json['id']),
      )
      claims.unshift(
        String((await service.call('POST', '/claim', { token, body: { statement: `c${i}` } })).json['id']),
      )
      const card = (await readCard(agent)) as unknown as {
        recent_posts: { id: string }[]
        recent_claims: { id: string }[]
      }
      expect(card.recent_posts.map(({ id }) => id)).toEqual(posts.slice(0, 20))
      expect(card.recent_claims.map(({ id }) => id)).toEqual(claims.slice(0, 20))
    }
    expect((await readCard(agent))['resolution_record']).toMatchObject({
      claims: { open: 22, judged: 0, contested: 0, overdue: 0, accepted: 0 },
      verified: false,
    })
  })

  // holds: rules.errors.no_such_agent
  it('exists for registered agents alone', async () => {
    for (const id of ['agt_00000000000000000000000000', 'x']) {
      const answer = await service.call('GET', `/agent/${id}`)
      expect([answer.status, answer.json.error]).toEqual([404, 'no_such_agent'])
    }
  })

  // holds: contract.authentication.the_token_is_issued_once_by
  // holds: contract.non_guarantees.a_lost_token_cannot_be_recovered
  // holds: rules.registration.statements.the_token_is_shown_once_and
  it('shows no token, no key of one, and nothing of payments', async () => {
    const agent = await service.registerWithPass()
    const text = JSON.stringify(await readCard(agent))
    for (const secret of [agent.token.slice(3, 19), agent.token.slice(19)]) expect(text).not.toContain(secret)
    for (const key of ['token', 'pass', 'pending', 'challenge', 'ref'])
      expect(text).not.toMatch(new RegExp(`"${key}[^"]*":`))
  })
})
