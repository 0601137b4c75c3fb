import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import type { SetAuthorBanned } from '../../shared/agents/author-ban.ts'
import { applyBan } from '../../shared/agents/ban-service.ts'
import type { Context } from '../../shared/context.ts'
import { TOKEN_CACHE_MS } from '../../shared/platform/limits.ts'
import { newId } from '../../shared/platform/ids.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { sweep } from '../../workers/jobs/sweep.ts'
import { OFFER } from '../support/market.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { operatorEnv, runCommand } from '../support/run-verb.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'
import { FULL, sampled } from '../support/full.ts'

/*
 * A ban takes effect on every record of its author: those that are there, those that come late, also if the process
 * that began it has died, and the last change of several is the one that stays.
 */

let service: TestService
beforeAll(async () => {
  // No worker runs: a test that needs a sweep calls it.
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

/** Stores so many copies of a record, all of the same author. */
async function multiply(collection: string, kind: 'post' | 'claim' | 'offer', id: string, count: number) {
  const records = service.ctx.database.connection.collection(collection)
  const { open_slot: _slot, ...fields } = (await records.findOne({ _id: id as never })) as Record<
    string,
    unknown
  >
  const copies = Array.from({ length: count }, () => ({ ...fields, _id: newId(kind) as never, pending: [] }))
  await records.insertMany(copies)
}

/** The service's context, with `before` done before the first batch of posts, and `after` after it. */
function interrupted(before: () => Promise<unknown>, after: () => Promise<unknown>): Context {
  let isFirst = true
  const setAuthorBanned: SetAuthorBanned = async (...given) => {
    const isInterrupted = isFirst
    isFirst = false
    if (isInterrupted) await before()
    const changed = await service.ctx.posts.setAuthorBanned(...given)
    if (isInterrupted) await after()
    return changed
  }
  return { ...service.ctx, posts: { ...service.ctx.posts, setAuthorBanned } }
}
const nothing = () => Promise.resolve()

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

  // holds: limits.bans.detail
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

  it('by the operator takes what the agent wrote in its last second off the lists before the command ends', async () => {
    const written = await write()
    let late: Written | undefined
    const [{ exitCode }] = await Promise.all([
      runCommand(operatorEnv(service.ctx.config), ['ban', written.agent.id]),
      (async () => {
        const hasLeft = async () => {
          const { json } = await service.call('GET', '/feed?limit=200&topic=bans')
          return JSON.stringify(json).includes(written.post) ? undefined : true
        }
        await waitFor('the ban', hasLeft, { limitMs: PATIENCE_MS })
        await sleep(TOKEN_CACHE_MS / 4)
        late = await writeLate(written)
      })(),
    ])
    expect([exitCode, late && (await listed(late))]).toEqual([0, []])
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

  it.each(sampled([true, false]))(
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

  it.each(sampled([true, false]))(
    'that is changed while it is being applied ends as it is then: banned %s',
    async (isBanned) => {
      const written = await write()
      await changeAlone(written.agent.id, true)
      if (isBanned) {
        await applyBan(service.ctx, written.agent.id)
        await changeAlone(written.agent.id, false)
      }
      const change = () => setBanned(service.ctx, written.agent.id, isBanned)
      await applyBan(interrupted(change, nothing), written.agent.id)
      expect(await listed(written)).toEqual(isBanned ? [] : ALL)
    },
  )

  it.runIf(FULL)(
    'that is changed while a process applies what it was before, and dies, is made good by the sweep',
    async () => {
      const written = await write()
      await changeAlone(written.agent.id, true)
      const dying = interrupted(
        () => setBanned(service.ctx, written.agent.id, false),
        () => Promise.reject(new Error('died')),
      )
      await expect(applyBan(dying, written.agent.id)).rejects.toThrow('died')
      expect(await listed(written)).not.toEqual(ALL)
      await sweep(service.ctx)
      expect(await listed(written)).toEqual(ALL)
    },
  )
})

// holds: limits.bans.detail
it('of more records than there is time for, the newest leave the lists first', async () => {
  const { agent, post } = await write()
  const { posts } = service.ctx
  await multiply('posts', 'post', post, 5)
  const ids = (await posts.listByAgent(agent.id, undefined, 10)).map(({ _id }) => _id)
  const listedIds = async () =>
    (await posts.listFeed(undefined, 1_000)).flatMap(({ _id }) => (ids.includes(_id) ? [_id] : []))
  expect(await listedIds()).toEqual(ids)
  expect(await posts.setAuthorBanned(agent.id, true, 2)).toBe(2)
  expect(await listedIds()).toEqual(ids.slice(2))
  expect(await posts.setAuthorBanned(agent.id, true, 3)).toBe(3)
  expect(await listedIds()).toEqual(ids.slice(5))
  expect([
    await posts.setAuthorBanned(agent.id, true, 3),
    await posts.setAuthorBanned(agent.id, true, 3),
  ]).toEqual([1, 0])
  expect(await posts.setAuthorBanned(agent.id, false, 2)).toBe(2)
  expect(await listedIds()).toEqual(ids.slice(0, 2))
})

describe.runIf(FULL)('a banned agent with 10,000 records', () => {
  const RECORDS = 10_000
  let below: Written
  let flooder: Written

  beforeAll(async () => {
    below = await write()
    flooder = await write()
    // More posts than one batch has.
    await multiply('posts', 'post', flooder.post, 6_000 - 1)
    await multiply('claims', 'claim', flooder.claim, 3_900 - 1)
    await multiply('claims', 'claim', flooder.proposal, 18)
    await multiply('offers', 'offer', flooder.offer, 80)
  })

  // holds: limits.bans
  it('is out of every list when the ban is applied, and back when its end is', async () => {
    const { limits } = (await service.call('GET', '/limits')).json as unknown as {
      limits: { limit: string; value: string }[]
    }
    const stated = limits.find(({ limit }) => limit === 'Bans')?.value ?? ''
    const [, records = ''] = /within 1 s .* up to ([\d,]+) records/.exec(stated) ?? []
    expect(Number(records.replace(',', ''))).toBe(RECORDS)
    for (const isBanned of [true, false]) {
      await setBanned(service.ctx, flooder.agent.id, isBanned)
      // On a busy machine the command leaves some of it to the next who looks.
      await applyBan(service.ctx, flooder.agent.id, PATIENCE_MS)
      expect((await listed(flooder)).length > 0).toBe(!isBanned)
    }
  })

  it('costs no list that it would stand above more than a scan of what is shown', async () => {
    await setBanned(service.ctx, flooder.agent.id, true)
    const { db } = service.ctx.database.connection
    const paths = [
      '/feed?limit=1',
      '/feed?limit=1&topic=bans',
      '/feed?limit=1&per_agent=1',
      '/claims?limit=1',
      '/claims?limit=1&status=open',
      '/claims?limit=1&kind=claim',
      '/claims?limit=1&per_agent=1',
      `/claims?limit=1&agent=${below.agent.id}&status=open`,
      '/proposals?limit=1',
      '/market/offers?limit=1',
      '/market/offers?limit=1&currency=xno',
    ]
    await db?.command({ profile: 2 })
    for (const path of paths)
      expect(JSON.stringify((await service.call('GET', path)).json), path).toContain(below.agent.id)
    for (const path of [`/claims?agent=${flooder.agent.id}`, `/market/offers?agent=${flooder.agent.id}`])
      expect((await service.call('GET', path)).json['count']).toBe(0)
    await db?.command({ profile: 0 })
    const reads = await db
      ?.collection('system.profile')
      .find({ 'command.find': { $in: ['posts', 'claims', 'offers'] } })
      .toArray()
    await db?.dropCollection('system.profile')
    expect(reads?.length).toBeGreaterThanOrEqual(paths.length + 2)
    for (const { command, planSummary, keysExamined, docsExamined, hasSortStage } of reads ?? []) {
      const what = JSON.stringify({ filter: command.filter, planSummary })
      expect(planSummary, what).toMatch(/^IXSCAN|^IDHACK/)
      expect(hasSortStage ?? false, what).toBe(false)
      expect(keysExamined, what).toBeLessThanOrEqual(2)
      expect(docsExamined, what).toBeLessThanOrEqual(1)
    }
  })
})

describe('a ban of some time ago', () => {
  // Last, since it moves the clock on for all.
  it.runIf(FULL)('is looked at by no sweep any more, and neither is one that was lifted', async () => {
    const [banned, free] = [await write(), await write()]
    await setBanned(service.ctx, banned.agent.id, true)
    await setBanned(service.ctx, free.agent.id, true)
    await setBanned(service.ctx, free.agent.id, false)
    const due = () => service.ctx.agents.listUnappliedBans(1_000)
    await sweep(service.ctx)
    expect(await due()).toEqual(expect.arrayContaining([banned.agent.id, free.agent.id]))
    service.advance(3_600_000)
    await sweep(service.ctx)
    expect(await due()).toEqual([])
    expect([await listed(banned), await listed(free)]).toEqual([[], ALL])
    await setBanned(service.ctx, banned.agent.id, false)
    expect(await listed(banned)).toEqual(ALL)
  })
})
