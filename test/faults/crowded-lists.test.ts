import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../shared/platform/ids.ts'
import { OFFER } from '../support/market.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

/*
 * Lists that a crowd has filled to its bounds: agents with all the offers and proposals that each may
 * have, written straight into the store, since the API would take minutes for them. Twenty of them fill ten
 * pages.
 */

const AGENTS = 100
const OFFERS_EACH = 100
const PROPOSALS_EACH = 20
/** Beside those that nobody endorses, so that the rank of many is the same and that of many differs. */
const ENDORSED_EACH = 3

let service: TestService
const agents: TestAgent[] = []
const offerIds: string[] = []
const proposalIds: string[] = []

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  for (let i = 0; i < AGENTS; i++) agents.push(await service.register())
  for (const agent of agents)
    await service.call('POST', '/profile', { token: agent.token, body: { capabilities: ['crowds'] } })
  const [first] = agents as [TestAgent]
  const offer = await template('offers', String((await makeOffer(first)).json['offer_id']))
  const proposal = await template('claims', String((await propose(first)).json['id']))
  const offers = []
  const proposals = []
  // In turns over the agents, so that no page is one agent's.
  for (let slot = 0; slot < OFFERS_EACH; slot++)
    for (const { id } of agents)
      offers.push({ ...offer, _id: newId('offer'), agent_id: id, open_slot: slot, pending: [] })
  for (let i = 0; i < PROPOSALS_EACH + ENDORSED_EACH; i++)
    for (const { id } of agents) {
      const endorsed = Math.max(0, i + 1 - PROPOSALS_EACH)
      const standing = { true: endorsed, false: 0, void: 0 }
      const status = endorsed > 0 ? 'judged' : 'open'
      proposals.push({ ...proposal, _id: newId('claim'), agent_id: id, standing, status, pending: [] })
    }
  await collection('offers').insertMany(offers as never)
  await collection('claims').insertMany(proposals as never)
  offerIds.push(...offers.map(({ _id }) => _id))
  proposalIds.push(...proposals.map(({ _id }) => _id))
}, 120_000)
afterAll(() => service.stop())

const collection = (name: string) => service.ctx.database.connection.collection(name)
/** A stored record, taken out again. */
async function template(name: string, id: string): Promise<object> {
  const record = await collection(name).findOne({ _id: id as never })
  await collection(name).deleteOne({ _id: id as never })
  return record ?? {}
}
const makeOffer = ({ token }: TestAgent) => service.call('POST', '/market/offer', { token, body: OFFER })
const propose = ({ token }: TestAgent) =>
  service.call('POST', '/claim', { token, body: { statement: 'Longer posts.', kind: 'proposal' } })

/** All that a list leads to, page after page. */
async function walk(path: string, name: string, idName: string): Promise<string[]> {
  const ids: string[] = []
  for (let page: string[] | undefined; page === undefined || page.length > 0;) {
    const last = ids.at(-1)
    const { json } = await service.call(
      'GET',
      `${path}limit=200${last === undefined ? '' : `&before=${last}`}`,
    )
    page = (json[name] as Record<string, string>[]).map((one) => String(one[idName]))
    if (last !== undefined && page.includes(last)) throw new Error(`${path}: before=${last} gave it again`)
    ids.push(...page)
  }
  return ids
}

describe('all the open offers and proposals that a crowd of agents may have', () => {
  it('leave every offer reachable: following before meets each exactly once, newest first', async () => {
    expect(offerIds).toHaveLength(AGENTS * OFFERS_EACH)
    expect(await walk('/market/offers?', 'offers', 'offer_id')).toEqual(offerIds.toReversed())
  })

  it('leave every offer of one seller and each by its id within reach', async () => {
    const { id: seller } = agents[17] as TestAgent
    const own = offerIds.filter((_, index) => index % AGENTS === 17)
    expect(await walk(`/market/offers?agent=${seller}&`, 'offers', 'offer_id')).toEqual(own.toReversed())
    for (const id of [offerIds[0], offerIds.at(-1)])
      expect((await service.call('GET', `/market/offer/${id}`)).json).toMatchObject({ offer_id: id })
  })

  it('leave every proposal reachable: following before meets each exactly once, by its rank', async () => {
    const endorsed = (index: number) => Math.max(0, Math.floor(index / AGENTS) + 1 - PROPOSALS_EACH)
    const ranked = proposalIds
      .map((id, index) => ({ id, endorsed: endorsed(index) }))
      .sort((a, b) => b.endorsed - a.endorsed || (a.id < b.id ? 1 : -1))
    expect(await walk('/proposals?', 'proposals', 'id')).toEqual(ranked.map(({ id }) => id))
  })

  it('leave every agent of a capability reachable: following before meets each exactly once', async () => {
    expect((await walk('/directory?capability=crowds&', 'agents', 'agent_id')).toSorted()).toEqual(
      agents.map(({ id }) => id).toSorted(),
    )
  })

  // holds: limits.open_records_per_agent
  it('are all that there can be: one offer or proposal more is refused with the limit that /limits states', async () => {
    const [agent] = agents as [TestAgent]
    const { limits } = (await service.call('GET', '/limits')).json as unknown as {
      limits: { limit: string; value: string }[]
    }
    const stated = limits.find(({ limit }) => limit === 'Open records per agent')?.value
    const [, proposals, offers] = /^at most (\d+) proposals .*, (\d+) open offers /.exec(stated ?? '') ?? []
    expect([Number(proposals), Number(offers)]).toEqual([PROPOSALS_EACH, OFFERS_EACH])
    const [offer, proposal] = [await makeOffer(agent), await propose(agent)]
    expect([offer.status, offer.json.error, offer.json.message]).toEqual([
      409,
      'wrong_state',
      expect.stringContaining(`${offers} open offers`),
    ])
    expect([proposal.status, proposal.json.error, proposal.json.message]).toEqual([
      409,
      'wrong_state',
      expect.stringContaining(`${proposals} proposals that nobody has endorsed`),
    ])
  })
})
