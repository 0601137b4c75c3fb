import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { newId } from '../../shared/platform/ids.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { sweep } from '../../workers/jobs/sweep.ts'
import { OFFER } from '../support/market.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

/*
 * A ban takes effect on every record of its author: those that are there, those that come late, also if the process
 * that began it has died, and the last change of several is the one that stays.
 */

let service: TestService
beforeAll(async () => {
  // No worker: each test sweeps where it says so.
  service = await startService({ queues: [] })
})
afterAll(() => service.stop())

interface Written {
  agent: TestAgent
  post: string
  claim: string
  proposal: string
  offer: string
}

/** A new agent with one record of each kind that stands in a list. */
async function write(): Promise<Written> {
  const agent = await service.registerWithPass()
  const send = async (path: string, body: object) => {
    const { json } = await service.call('POST', path, { token: agent.token, body })
    return String(json['id'] ?? json['offer_id'])
  }
  return {
    agent,
    post: await send('/post', { body: 'words', topic: 'bans' }),
    claim: await send('/claim', { statement: 'words' }),
    proposal: await send('/claim', { statement: 'words', kind: 'proposal' }),
    offer: await send('/market/offer', { ...OFFER, title: 'words' }),
  }
}

const LISTS = [
  '/feed?limit=200',
  '/feed?limit=200&per_agent=200',
  '/feed?limit=200&topic=bans',
  '/claims?limit=200',
  '/claims?limit=200&per_agent=200',
  '/claims?limit=200&status=open',
  '/claims?limit=200&kind=proposal',
  '/proposals?limit=200',
  '/market/offers?limit=200',
]

/** Which of these records stand in some list. */
async function listed({ agent, post, claim, proposal, offer }: Written): Promise<string[]> {
  const paths = [
    ...LISTS,
    `/claims?agent=${agent.id}`,
    `/claims?agent=${agent.id}&status=open`,
    `/market/offers?agent=${agent.id}`,
  ]
  const answers = await Promise.all(paths.map((path) => service.call('GET', path)))
  const text = JSON.stringify(answers.map(({ json }) => json))
  return Object.entries({ post, claim, proposal, offer }).flatMap(([kind, id]) =>
    text.includes(id) ? [kind] : [],
  )
}
const ALL = ['post', 'claim', 'proposal', 'offer']

/** Which of these records are shown without their text by their id. */
async function hidden({ post, claim, proposal, offer }: Written): Promise<string[]> {
  const paths = {
    post: `/post/${post}`,
    claim: `/claim/${claim}`,
    proposal: `/claim/${proposal}`,
    offer: `/market/offer/${offer}`,
  }
  const answers = await Promise.all(
    Object.entries(paths).map(async ([kind, path]) => ({
      kind,
      json: (await service.call('GET', path)).json,
    })),
  )
  return answers.flatMap(({ kind, json }) =>
    (json[kind === 'proposal' ? 'claim' : kind] as { hidden: boolean }).hidden ? [kind] : [],
  )
}

/** Stores another record of each kind, as a request that was let in before does. */
async function writeLate(from: Written): Promise<Written> {
  const { connection } = service.ctx.database
  const copy = async (collection: string, kind: 'post' | 'claim' | 'offer', id: string) => {
    const one = await connection.collection(collection).findOne({ _id: id as never })
    const copied = newId(kind)
    const { open_slot: _slot, author_banned: _banned, ...fields } = one as Record<string, unknown>
    await connection.collection(collection).insertOne({ ...fields, _id: copied as never, pending: [] })
    return copied
  }
  return {
    agent: from.agent,
    post: await copy('posts', 'post', from.post),
    claim: await copy('claims', 'claim', from.claim),
    proposal: await copy('claims', 'claim', from.proposal),
    offer: await copy('offers', 'offer', from.offer),
  }
}

/** Changes whether an agent is banned, and dies: what follows from it is left to others. */
const changeAlone = (agentId: string, banned: boolean, hides = false) =>
  service.ctx.agents.setBanned(agentId, banned ? Math.floor(service.ctx.now() / 1_000) : undefined, hides, {
    source: `${agentId}/test/${newId('post')}`,
    at: 1,
    kind: banned ? 'ban' : 'unban',
    data: {},
  })

describe('a ban', () => {
  it.each([
    ['leaves the text of a record to whoever has its id', false, []],
    ['takes the text of every record with it if it hides', true, ALL],
  ])('takes everything off the lists, and %s, until it is lifted', async (_, hides, withoutText) => {
    const written = await write()
    expect([await listed(written), await hidden(written)]).toEqual([ALL, []])
    await setBanned(service.ctx, written.agent.id, true, hides)
    expect([await listed(written), await hidden(written)]).toEqual([[], withoutText])
    await sweep(service.ctx)
    expect([await listed(written), await hidden(written)]).toEqual([[], withoutText])
    await setBanned(service.ctx, written.agent.id, false)
    expect([await listed(written), await hidden(written)]).toEqual([ALL, []])
  })

  it('that begins to hide hides what has left the lists before', async () => {
    const written = await write()
    await setBanned(service.ctx, written.agent.id, true)
    await setBanned(service.ctx, written.agent.id, true, true)
    expect([await listed(written), await hidden(written)]).toEqual([[], ALL])
  })

  it('that is lifted leaves hidden what the operator hid by itself, before it or meanwhile', async () => {
    const written = await write()
    await setHidden(service.ctx, written.post, true)
    await setBanned(service.ctx, written.agent.id, true, true)
    await setHidden(service.ctx, written.claim, true)
    await setHidden(service.ctx, written.offer, true)
    await setHidden(service.ctx, written.offer, false)
    await setBanned(service.ctx, written.agent.id, false)
    expect([await listed(written), await hidden(written)]).toEqual([
      ['proposal', 'offer'],
      ['post', 'claim'],
    ])
  })

  it('takes what was stored after it off the lists too, and gives it back', async () => {
    const written = await write()
    await setBanned(service.ctx, written.agent.id, true, true)
    const first = await writeLate(written)
    await sweep(service.ctx)
    const second = await writeLate(written)
    expect([await hidden(first), await hidden(second)]).toEqual([ALL, ALL])
    await sweep(service.ctx)
    expect([await listed(first), await listed(second)]).toEqual([[], []])
    await setBanned(service.ctx, written.agent.id, false)
    for (const late of [written, first, second])
      expect([await listed(late), await hidden(late)]).toEqual([ALL, []])
    const afterwards = await writeLate(written)
    await sweep(service.ctx)
    expect(await listed(afterwards)).toEqual(ALL)
  })

  it('whose process died takes effect with the next sweep, and hides by itself what is asked for by its id', async () => {
    const written = await write()
    await changeAlone(written.agent.id, true, true)
    expect(await hidden(written)).toEqual(ALL)
    await sweep(service.ctx)
    expect(await listed(written)).toEqual([])
    await changeAlone(written.agent.id, false)
    expect(await hidden(written)).toEqual([])
    await sweep(service.ctx)
    expect(await listed(written)).toEqual(ALL)
  })

  it('from before there were marks takes effect with the first sweep', async () => {
    const written = await write()
    await service.ctx.agents.models.agents.collection.updateOne(
      { _id: written.agent.id as never },
      { $set: { banned_at: 1_000 } },
    )
    await sweep(service.ctx)
    expect(await listed(written)).toEqual([])
    await setBanned(service.ctx, written.agent.id, false)
    expect(await listed(written)).toEqual(ALL)
  })

  it.each([true, false])(
    'lifted and set again and again, by several at once, ends as the last change says: banned %s',
    async (banned) => {
      const written = await write()
      for (let i = 0; i < 30; i++) await writeLate(written)
      for (let round = 0; round < 3; round++) {
        const acts: Promise<unknown>[] = []
        for (let i = 0; i < 4; i++) {
          await changeAlone(written.agent.id, i % 2 === (banned ? 1 : 0))
          acts.push(sweep(service.ctx), sweep(service.ctx))
        }
        await Promise.all(acts)
        await sweep(service.ctx)
        expect(await listed(written)).toEqual(banned ? [] : ALL)
      }
    },
  )
})
