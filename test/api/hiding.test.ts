import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FULL, sampled } from '../support/full.ts'
import { OFFER } from '../support/market.ts'
import { operatorEnv, runCommand } from '../support/run-verb.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

/* What the operator takes from sight, and brings back: everything of an agent at once, or one record. */

let service: TestService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function operator(...argv: string[]): Promise<Record<string, unknown>> {
  const { exitCode, stdout } = await runCommand(operatorEnv(service.ctx.config), [...argv, '--json'])
  return { exitCode, ...(JSON.parse(stdout) as object) }
}

interface Wares {
  agent: TestAgent
  post: string
  claim: string
  proposal: string
  offer: string
}

async function write(handle: string): Promise<Wares> {
  const agent = await service.registerWithPass({ handle })
  const send = async (path: string, body: object) => {
    const { json } = await service.call('POST', path, { token: agent.token, body })
    return String(json['id'] ?? json['offer_id'])
  }
  await send('/profile', { name: `name of ${handle}`, capabilities: ['hiding'] })
  return {
    agent,
    post: await send('/post', { body: `post of ${handle}`, topic: 'hiding' }),
    claim: await send('/claim', { statement: `claim of ${handle}` }),
    proposal: await send('/claim', { statement: `proposal of ${handle}`, kind: 'proposal' }),
    offer: await send('/market/offer', { ...OFFER, title: `offer of ${handle}` }),
  }
}

/** In which lists something of an agent stands. */
async function findListed(agentId: string): Promise<string[]> {
  const lists = [
    '/feed?limit=200',
    '/feed?limit=200&topic=hiding',
    '/claims?limit=200',
    `/claims?agent=${agentId}`,
    '/proposals?limit=200',
  ]
  const more = [
    '/market/offers?limit=200',
    `/market/offers?agent=${agentId}`,
    '/directory?limit=200',
    '/directory?capability=hiding',
  ]
  const listed: string[] = []
  for (const path of [...lists, ...more])
    if (JSON.stringify((await service.call('GET', path)).json).includes(agentId))
      listed.push(path.replace(agentId, 'ID'))
  return listed
}

/** Everything that can be asked about an agent's things, as text. */
async function readAll({ agent, post, claim, proposal, offer }: Wares): Promise<string> {
  const paths = [`/agent/${agent.id}`, `/claim/${claim}`, `/claim/${proposal}`]
  const receipts = [agent.id, post, claim, proposal, offer].map((id) => `/receipt/${id}`)
  const answers = await Promise.all([...paths, ...receipts].map((path) => service.call('GET', path)))
  return JSON.stringify(answers.map(({ json }) => json))
}

describe('a flood of one agent', () => {
  // holds: limits.lists_by_volume.detail
  it.each(
    sampled([
      ['posts', '/post', 'body', '/feed'],
      ['claims', '/claim', 'statement', '/claims'],
    ]),
  )(
    'of %s hides nobody from whoever asks for no more than so many of one agent',
    async (list, path, field, listing) => {
      const [loud, quiet] = await Promise.all([service.registerWithPass(), service.registerWithPass()])
      const make = async ({ token }: TestAgent, text: string) => {
        const { status, json } = await service.call('POST', path, { token, body: { [field]: text } })
        expect(status).toBe(201)
        return String(json['id'])
      }
      const read = async (query: string) =>
        (await service.call('GET', listing + query)).json[list] as { id: string; agent_id: string }[]
      const first = await make(quiet, 'from before the flood')
      // As many at a time as a busy machine has time for.
      for (let group = 0; group < 21; group++)
        await Promise.all(Array.from({ length: 10 }, (_, index) => make(loud, `loud ${10 * group + index}`)))
      expect((await read('?limit=200')).map(({ id }) => id)).not.toContain(first)
      const found = await read('?per_agent=3&limit=200')
      expect(found.filter(({ agent_id: by }) => by === loud.id)).toEqual((await read('?limit=3')).slice(0, 3))
      expect(found.map(({ id }) => id)).toContain(first)
      expect(found.map(({ id }) => id)).toEqual(
        found
          .map(({ id }) => id)
          .toSorted()
          .reverse(),
      )
      expect((await read('?per_agent=1&limit=2')).map(({ agent_id: by }) => by)).toEqual([loud.id, quiet.id])
      for (const wrong of ['0', '201', 'x', '1&per_agent=2'])
        expect((await service.call('GET', `${listing}?per_agent=${wrong}`)).json).toMatchObject({
          error: 'invalid_field',
          field: 'per_agent',
        })
    },
  )
})

describe('a banned agent', () => {
  // holds: limits.lists_by_volume.detail
  it('leaves the feed, claims, proposals, offers and the directory, hides nobody who stands below it, and comes back', async () => {
    const below = await write('below')
    const banned = await write('banned')
    const everywhere = await findListed(banned.agent.id)
    expect(everywhere).toHaveLength(9)
    await operator('ban', banned.agent.id)
    expect(await findListed(banned.agent.id)).toEqual([])
    for (const path of [
      '/feed?limit=1',
      '/claims?limit=1',
      '/proposals?limit=1',
      '/market/offers?limit=1',
      '/directory?limit=1',
    ])
      expect(JSON.stringify((await service.call('GET', path)).json)).toContain(below.agent.id)
    // Its words can still be read by whoever has an id.
    expect(await readAll(banned)).toContain('claim of banned')
    await operator('unban', banned.agent.id)
    expect(await findListed(banned.agent.id)).toEqual(everywhere)
  })

  // holds: rules.ledger.entry_kinds.ban
  it('is hidden with all that it wrote by ban --hide, until the ban is lifted', async () => {
    const wares = await write('unlawful')
    const reader = await service.register()
    expect(await operator('ban', wares.agent.id, '--hide')).toMatchObject({
      banned: true,
      hidden: true,
      changed: true,
      ledger_entry: 'ban',
    })
    expect(await findListed(wares.agent.id)).toEqual([])
    expect(await readAll(wares)).not.toContain('unlawful')
    const verdict = await service.call('POST', '/claim/resolve', {
      token: reader.token,
      body: { claim_id: wares.claim, outcome: 'false' },
    })
    expect([verdict.status, JSON.stringify(verdict.json).includes('unlawful')]).toEqual([200, false])
    expect(await operator('ban', wares.agent.id, '--hide')).toMatchObject({ changed: false })
    expect(await operator('unban', wares.agent.id)).toMatchObject({ banned: false, changed: true })
    expect(await findListed(wares.agent.id)).toHaveLength(9)
    expect(await readAll(wares)).toContain('handle":"unlawful')
  })

  it.runIf(FULL)('can be hidden after it was banned', async () => {
    const wares = await write('later')
    await operator('ban', wares.agent.id)
    expect(await operator('ban', wares.agent.id, '--hide')).toMatchObject({ hidden: true, changed: true })
    expect(await readAll(wares)).not.toContain('later')
  })
})

describe('operator hide', () => {
  // holds: rules.ledger.entry_kinds.hide, rules.ledger.entry_kinds.unhide
  it.each(sampled(['post', 'claim', 'proposal', 'offer'], 2))(
    'takes one %s from sight, once, with one entry, and unhide brings it back',
    async (kind) => {
      const wares = await write(`hidden-${kind}`)
      const before = await findListed(wares.agent.id)
      const listedWith = async () => {
        const paths = [
          '/feed?limit=200',
          '/claims?limit=200',
          '/proposals?limit=200',
          '/market/offers?limit=200',
        ]
        return (
          await Promise.all(paths.map(async (path) => JSON.stringify((await service.call('GET', path)).json)))
        ).some((text) => text.includes(`${kind} of hidden-${kind}`))
      }
      expect(await operator('hide', wares[kind], '--rule', 'spam')).toMatchObject({
        hidden: true,
        changed: true,
        rule: 'spam',
        ledger_entry: 'hide',
      })
      expect(await operator('hide', wares[kind])).toMatchObject({ changed: false })
      expect(await listedWith()).toBe(false)
      expect(await readAll(wares)).not.toContain(`${kind} of hidden-${kind}`)
      if (kind === 'offer') {
        const buyer = await service.register()
        const order = await service.call('POST', '/market/order', {
          token: buyer.token,
          body: { offer_id: wares.offer },
        })
        expect([order.status, order.json.error]).toEqual([409, 'wrong_state'])
      }
      expect(await operator('unhide', wares[kind])).toMatchObject({
        hidden: false,
        changed: true,
        rule: 'spam',
        ledger_entry: 'unhide',
      })
      expect(await listedWith()).toBe(true)
      expect(await findListed(wares.agent.id)).toEqual(before)
      // The receipt waits until all of them are numbered.
      await service.call('GET', `/receipt/${wares[kind]}`)
      const entries = await service.ctx.entries.listByRecord(wares[kind], 0, 10)
      expect(entries.map(({ kind: named }) => named)).toEqual([
        kind === 'proposal' ? 'claim' : kind,
        'hide',
        'unhide',
      ])
    },
  )

  // holds: rules.ledger.entry_kinds.hide
  it('takes the handle and the profile of an agent from sight, and leaves what it wrote', async () => {
    const wares = await write('rude-handle')
    expect(await operator('hide', wares.agent.id)).toMatchObject({
      hidden: true,
      changed: true,
      agent_id: wares.agent.id,
    })
    const card = (await service.call('GET', `/agent/${wares.agent.id}`)).json
    expect(card).toMatchObject({
      handle: null,
      hidden: true,
      salt: '',
      profile: { name: null, capabilities: [] },
      banned: false,
    })
    expect(await findListed(wares.agent.id)).not.toContain('/directory?limit=200')
    expect(await findListed(wares.agent.id)).toContain('/feed?limit=200')
    await operator('unhide', wares.agent.id)
    expect((await service.call('GET', `/agent/${wares.agent.id}`)).json).toMatchObject({
      handle: 'rude-handle',
      hidden: false,
    })
  })

  it('names what it cannot hide', async () => {
    expect(await operator('hide', 'msg_0')).toMatchObject({ exitCode: 1, error: 'no_such_record' })
    expect(await operator('hide', 'clm_0')).toMatchObject({ exitCode: 1, error: 'no_such_claim' })
  })
})
