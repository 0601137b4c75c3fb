import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createStandingReader } from '../../shared/about/standing-service.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { createLog } from '../../shared/platform/log.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startApiProcess, type RunningProcess } from '../support/processes.ts'
import { isolate, leaveDatabase, PATIENT, startServers, type TemporaryServers } from '../support/servers.ts'
import {
  callService,
  CHALLENGE_SECRET,
  registerOver,
  startService,
  type Answer,
  type TestAgent,
  type TestApi,
  type TestService,
  whenServed,
} from '../support/service.ts'
import { atOneMoment } from '../support/stored.ts'
import { FULL } from '../support/full.ts'

const TOGETHER = 60
const ROUNDS = FULL ? 25 : 4
const each = <T>(length: number, make: (index: number) => T): T[] =>
  Array.from({ length }, (_, index) => make(index))
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status)

describe('one bad record among many at once', () => {
  let service: TestService
  let agent: TestAgent

  beforeAll(async () => {
    service = await startService({ queues: [] })
    agent = await service.registerWithPass()
    const { db } = service.ctx.database.connection
    // A refusal by the server itself, of one record and for no reason that the others share.
    for (const [collection, field] of [
      ['posts', 'body'],
      ['claims', 'statement'],
      ['verdicts', 'evidence'],
      ['messages', 'box'],
    ] as const)
      await db?.command({ collMod: collection, validator: { [field]: { $ne: 'bad' } } })
  })
  afterAll(() => service.stop())

  // Past the check of answers: no route declares a 500.
  const send = (path: string, token: string, body: object) =>
    callService(service.url, 'POST', path, { token, body })
  const sendTogether = (path: string, bodyOf: (text: string) => object) =>
    Promise.all(
      each(TOGETHER, (index) => send(path, agent.token, bodyOf(index % 20 === 7 ? 'bad' : `good ${index}`))),
    )
  const expectThreeBad = (answers: readonly Answer[], good: number) =>
    expect(statuses(answers)).toEqual(each(TOGETHER, (index) => (index % 20 === 7 ? 500 : good)))

  it('is the only post that fails', async () => {
    const answers = await sendTogether('/post', (body) => ({ body }))
    expectThreeBad(answers, 201)
    const shown = (await service.call('GET', '/feed?limit=200')).json as unknown as {
      posts: { id: string }[]
    }
    expect(new Set(shown.posts.map(({ id }) => id))).toEqual(
      new Set(answers.flatMap(({ status, json }) => (status === 201 ? [json['id']] : []))),
    )
  })

  it('is the only message that fails', async () => {
    const answers = await sendTogether('/dm', (box) => ({ to: agent.id, box }))
    expectThreeBad(answers, 201)
    expect((await createStandingReader(service.ctx)(agent.id)).unreadMessages).toBe(TOGETHER - 3)
  })

  it('is the only claim that fails, and the only one that its author is not counted for', async () => {
    const answers = await sendTogether('/claim', (statement) => ({ statement }))
    expectThreeBad(answers, 201)
    expect((await service.ctx.agents.find(agent.id))?.record.claims.open).toBe(TOGETHER - 3)
    expect(await service.ctx.claims.models.claims.countDocuments()).toBe(TOGETHER - 3)
  })

  it('is the only verdict that fails, be it refused by the database or for want of its claim', async () => {
    const author = await service.register()
    const made = await service.call('POST', '/claim', {
      token: author.token,
      body: { statement: 'judged by many' },
    })
    const judges = await Promise.all(each(10, () => service.register()))
    const answers = await Promise.all(
      judges.map(({ token }, index) =>
        send('/claim/resolve', token, {
          claim_id: index === 3 ? 'clm_none' : made.json['id'],
          outcome: 'true',
          evidence: index === 6 ? 'bad' : 'good',
        }),
      ),
    )
    expect(statuses(answers)).toEqual(each(10, (index) => (index === 3 ? 404 : index === 6 ? 500 : 200)))
    const { claim } = (await service.call('GET', `/claim/${String(made.json['id'])}`)).json as unknown as {
      claim: { standing: object; verdicts: object[] }
    }
    expect([claim.standing, claim.verdicts.length]).toEqual([{ true: 8, false: 0, void: 0 }, 8])
    expect((await service.ctx.agents.find(author.id))?.record).toMatchObject({
      claims: { open: 0, judged: 1 },
      verdicts: { true: 8 },
    })
  })

  it('is a post that cannot even be written as BSON, and the others are stored', async () => {
    const post = (index: number) => ({
      _id: `pst_${index}`,
      agent_id: agent.id,
      at: 1,
      body: 'fine',
      salt: 'ab'.repeat(32),
    })
    const circular: { self?: object } = {}
    circular.self = circular
    const bad = { ...post(2), topic: circular as unknown as string }
    const outcomes = await Promise.allSettled(
      [post(0), post(1), bad, post(3)].map((one) => service.ctx.posts.insert(one)),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
    const stored = await service.ctx.posts.models.posts.find({ _id: /^pst_[0-3]$/ }, { _id: 1 }).lean()
    expect(stored.map(({ _id }) => _id).sort()).toEqual(['pst_0', 'pst_1', 'pst_3'])
  })
})

describe('readers beside one another', () => {
  let service: TestService
  let other: TestApi
  beforeAll(async () => {
    service = await startService({ queues: [] })
    other = await service.addApi()
  })
  afterAll(() => service.stop())

  it.runIf(FULL)(
    'never miss what was acknowledged before they asked, though they share their answers and ask another API',
    async () => {
      // Each has a card of its own, from which no other's posts push what it has just written.
      const writers = await Promise.all(each(4, () => service.registerWithPass()))
      let writing = true
      const crowd = each(30, async (place) => {
        const card = `/agent/${(writers[place % writers.length] as TestAgent).id}`
        while (writing)
          await Promise.all([
            other.call('GET', '/feed'),
            other.call('GET', '/claims'),
            other.call('GET', card),
          ])
      })
      const idsIn = (answer: Answer, list: string) =>
        (answer.json[list] as { id: string }[]).map(({ id }) => id)
      await Promise.all(
        writers.map(async (agent) => {
          for (let i = 0; i < ROUNDS; i++) {
            const post = await service.call('POST', '/post', {
              token: agent.token,
              body: { body: 'seen at once' },
            })
            expect(idsIn(await other.call('GET', '/feed'), 'posts')).toContain(post.json['id'])
            const claim = await service.call('POST', '/claim', {
              token: agent.token,
              body: { statement: 'seen at once' },
            })
            const [list, card] = await Promise.all([
              other.call('GET', '/claims'),
              other.call('GET', `/agent/${agent.id}`),
            ])
            expect(idsIn(list, 'claims')).toContain(claim.json['id'])
            expect(idsIn(card, 'recent_claims')).toContain(claim.json['id'])
            expect(idsIn(card, 'recent_posts')).toContain(post.json['id'])
          }
        }),
      )
      writing = false
      await Promise.all(crowd)
    },
  )
})

describe('a group under way when its process is killed', () => {
  /** Of its own, for the test that kills one of them. */
  let servers: TemporaryServers | undefined
  let ctx: Context
  let settings: Record<string, string>
  const running: RunningProcess[] = []

  beforeAll(async () => {
    servers = FULL ? await startServers(() => undefined) : undefined
    const shared = isolate()
    settings = {
      MONGODB_URL: servers?.mongod.url ?? shared.mongodbUrl,
      REDIS_URL: servers?.redis.url ?? shared.redisUrl,
      QUEUE_PREFIX: shared.queuePrefix,
      ...PATIENT,
      CHALLENGE_SECRET,
      REGISTER_BITS: '4',
      FREE_UNTIL: new Date(Date.now() + 30 * 86_400_000).toISOString(),
    }
    ctx = openContext(readConfig(settings, 'api'), createLog('test', 'silent'), { databaseTimeoutMs: 30_000 })
    await ctx.database.whenReady()
  })
  afterAll(async () => {
    for (const one of running) one.kill('SIGKILL')
    await Promise.all(running.map(({ ended }) => ended))
    await leaveDatabase(ctx.database.connection)
    await closeContext(ctx)
    await servers?.stop()
  })

  const startApi = async () => {
    const api = await startApiProcess(settings)
    running.push(api)
    const call = (method: string, path: string, options = {}) => callService(api.url, method, path, options)
    await waitFor(
      'an answer from the database',
      async () => ((await call('GET', '/feed')).status === 200 ? true : undefined),
      {
        limitMs: PATIENCE_MS,
      },
    )
    return { ...api, call }
  }
  const register = async ({ call }: Awaited<ReturnType<typeof startApi>>) => {
    const agent = await registerOver(call)
    await whenServed(() => call('POST', '/invoice', { token: agent.token, body: { currency: 'pow' } }))
    return agent
  }

  /**
   * Forty writers of every kind until the blow has fallen and none of them gets through. @returns the ids
   * that were acknowledged
   */
  async function writeUntilKilled(
    { call }: Awaited<ReturnType<typeof startApi>>,
    agents: readonly TestAgent[],
    claimIds: readonly string[],
    kill: () => void,
    isOver: () => boolean,
  ) {
    const acknowledged: { collection: string; id: string }[] = []
    const writers = each(40, async (writer) => {
      const { token, id } = agents[writer % agents.length] as TestAgent
      for (let turn = writer; !isOver(); turn++) {
        const [path, collection, body] = (
          [
            ['/post', 'posts', { body: 'p' }],
            ['/claim', 'claims', { statement: 's' }],
            [
              '/claim/resolve',
              'verdicts',
              { claim_id: claimIds[turn % claimIds.length], outcome: turn % 3 === 0 ? 'false' : 'true' },
            ],
            ['/dm', 'messages', { to: id, box: 'b' }],
          ] as const
        )[turn % 4] as readonly [string, string, object]
        let answer: Answer
        try {
          answer = await call('POST', path, { token, body })
        } catch {
          continue // the process is gone
        }
        if (answer.status >= 300) continue
        const { json } = answer
        acknowledged.push({
          collection,
          id: String(collection === 'verdicts' ? (json['verdict'] as { id: string }).id : json['id']),
        })
      }
    })
    await waitFor('enough writes', () => (acknowledged.length > (FULL ? 200 : 60) ? true : undefined), {
      limitMs: PATIENCE_MS,
      everyMs: 1,
    })
    kill()
    await Promise.all(writers)
    return acknowledged
  }

  async function expectAllThere(acknowledged: readonly { collection: string; id: string }[]): Promise<void> {
    for (const [collection, own] of Map.groupBy(acknowledged, (one) => one.collection)) {
      const ids = own.map(({ id }) => id)
      const found = await ctx.database.connection
        .collection<{ _id: string; pending?: { source: string }[] }>(collection)
        .find({ _id: { $in: ids } })
        .toArray()
      expect(found.map(({ _id }) => _id).sort(), collection).toEqual(ids.sort())
      if (collection !== 'messages')
        for (const { _id, pending } of found) expect(pending?.[0]?.source).toMatch(new RegExp(`^${_id}/`))
    }
  }

  /**
   * Claims, verdicts and the counts on claims and on authors say the same at any moment: what nobody waits
   * for any more may still be stored.
   */
  async function expectCountsToAgree(agents: readonly TestAgent[]): Promise<void> {
    const { claims, standing, records } = await atOneMoment(ctx.database.connection, async (session) => ({
      claims: await ctx.claims.models.claims.find({}, null, { session }).lean(),
      standing: await ctx.claims.models.verdicts
        .find({ superseded: false, by_author: false }, null, { session })
        .lean(),
      records: new Map(
        (await ctx.agents.models.agents.find({}, { record: 1 }, { session }).lean()).map(
          ({ _id, record }) => [_id, record],
        ),
      ),
    }))
    for (const claim of claims) {
      const own = standing.filter(({ claim_id: id }) => id === claim._id)
      const counts = { true: 0, false: 0, void: 0 }
      for (const { outcome } of own) counts[outcome]++
      expect(claim.standing).toEqual(counts)
    }
    for (const { id } of agents) {
      const own = claims.filter(({ agent_id: author }) => author === id)
      const record = records.get(id)
      for (const status of ['open', 'judged', 'contested'] as const)
        expect(record?.claims[status], status).toBe(own.filter((claim) => claim.status === status).length)
      for (const outcome of ['true', 'false', 'void'] as const)
        expect(record?.verdicts[outcome], outcome).toBe(
          own.reduce((sum, claim) => sum + claim.standing[outcome], 0),
        )
    }
  }

  const prepare = async () => {
    const api = await startApi()
    const agents = await Promise.all(each(8, () => register(api)))
    const made = await Promise.all(
      agents.map(({ token }) =>
        whenServed(() => api.call('POST', '/claim', { token, body: { statement: 'to judge' } })),
      ),
    )
    return { api, agents, claimIds: made.map(({ json }) => String(json['id'])) }
  }

  it('loses nothing that the API had acknowledged, and leaves no half of a verdict', async () => {
    const { api, agents, claimIds } = await prepare()
    let isGone = false
    void api.ended.then(() => (isGone = true))
    const acknowledged = await writeUntilKilled(
      api,
      agents,
      claimIds,
      () => api.kill('SIGKILL'),
      () => isGone,
    )
    await expectAllThere(acknowledged)
    // A transaction that the dead process left open is aborted by the server, at the latest after its
    // lifetime.
    await expectCountsToAgree(agents)
  })

  it.runIf(FULL)('loses nothing that was acknowledged before MongoDB itself was killed', async () => {
    const { api, agents, claimIds } = await prepare()
    const { child } = servers?.mongod ?? expect.fail('the servers are not of its own')
    const [pid, deaths] = [child.pid(), child.deaths()]
    if (pid === undefined) throw new Error('MongoDB does not run')
    let isBack = false
    // An API that waits for its database need not refuse anything; what was asked after the death, the next
    // MongoDB stored.
    const call: typeof api.call = async (...request) => {
      const isDead = child.deaths() > deaths
      const answer = await api.call(...request)
      if (isDead && answer.status < 300) isBack = true
      return answer
    }
    const acknowledged = await writeUntilKilled(
      { ...api, call },
      agents,
      claimIds,
      () => process.kill(pid, 'SIGKILL'),
      () => isBack,
    )
    expect(child.deaths()).toBeGreaterThan(deaths)
    await expectAllThere(acknowledged)
    await expectCountsToAgree(agents)
  })
})
