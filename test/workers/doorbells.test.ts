import { createHmac } from 'node:crypto'
import os from 'node:os'
import { Readable } from 'node:stream'
import path from 'node:path'
import fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAgent } from '../../client/command/run.ts'
import { createTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { verifyPost } from '../../shared/crypto/message-signature.ts'
import { openDoorbellKey } from '../../shared/doorbells/doorbell-key.ts'
import { enqueueRing } from '../../shared/doorbells/doorbell-service.ts'
import type { DoorbellRecord } from '../../shared/doorbells/doorbell.ts'
import { createTlsContext } from '../../shared/doorbells/https-post.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext } from '../../shared/context.ts'
import { newId } from '../../shared/platform/ids.ts'
import { createLog } from '../../shared/platform/log.ts'
import { DAY_MS, HOUR_MS, unixSeconds } from '../../shared/platform/time.ts'
import { startPool, type Pool } from '../../workers/pool.ts'
import { openWorkerContext, type WorkerContext } from '../../workers/worker-context.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import {
  BELL_CERTIFICATE,
  serveBell,
  serveTcp,
  type Got,
  type Receiver,
} from '../support/doorbell-receivers.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

const LIMIT = { limitMs: PATIENCE_MS, everyMs: 20 }
const INTERVAL_SECONDS = 2

let service: TestService
let bells: Receiver & { got: Got[] }
let ringing: { ctx: WorkerContext; pool: Pool; key: string }
/** What the receiver answers at each path. */
const answers = new Map<string, Parameters<typeof serveBell>[0]>()

beforeAll(async () => {
  bells = await serveBell((got, at) => answers.get(at)?.(got, at) ?? { status: 404 })
  const env = {
    DOORBELLS: '1',
    DOORBELL_INTERVAL_SECONDS: String(INTERVAL_SECONDS),
    // Nobody listens at the second one.
    DOORBELL_TEST_HOSTS: `bell.example:${bells.port}=127.0.0.1,gone.example:9=127.0.0.1`,
  }
  service = await startService({ env, queues: [...WITHOUT_LEDGER, 'find-rings'] })
  const { mongodbUrl = '', redisUrl = '', queuePrefix } = service.ctx.config
  const read = readConfig(
    { ...env, MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix },
    'doorbells',
  )
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'doorbells-'))
  const config = { ...read, secrets: { ...read.secrets, doorbellKeyFile: path.join(folder, 'key') } }
  const opened = openWorkerContext(config, createLog('test', 'silent'), { now: service.ctx.now })
  const { ringer } = opened
  if (ringer === undefined) throw new Error('no ringer')
  const ctx = {
    ...opened,
    ringer: { ...ringer, post: { ...ringer.post, secureContext: createTlsContext(BELL_CERTIFICATE.cert) } },
  }
  await ctx.database.whenReady()
  await ctx.doorbells.noteKey(ringer.key.publicKey)
  ringing = { ctx, pool: startPool(ctx, ['doorbells', 'slow-doorbells']), key: ringer.key.publicKey }
  // One key for all starts.
  expect(openDoorbellKey(path.join(folder, 'key')).publicKey).toBe(ringing.key)
})
afterAll(async () => {
  await ringing.pool.close()
  await closeContext(ringing.ctx)
  await service.stop()
  bells.close()
})

const urlOf = (at: string) => `https://bell.example:${bells.port}${at}`
const gotAt = (agent: TestAgent, kind: string) =>
  bells.got.filter(({ body }) => {
    const said = JSON.parse(body) as { agent_id: string; kind: string }
    return said.agent_id === agent.id && said.kind === kind
  })
const read = async (agent: TestAgent) => {
  const { status, json } = await service.call('GET', '/doorbell', { token: agent.token })
  expect(status).toBe(200)
  return json['doorbell'] as Record<string, unknown> | null
}
const answerWith =
  (secret: () => string): ((got: Got) => { status: number; text?: string }) =>
  ({ body }) => {
    const { challenge } = JSON.parse(body) as { challenge?: string }
    return challenge === undefined
      ? { status: 204 }
      : { status: 200, text: createHmac('sha256', secret()).update(challenge).digest('hex') }
  }

let count = 0
/** An agent with a pass, whose doorbell is proven. */
async function withBell(fields: object = {}): Promise<{ agent: TestAgent; at: string; secret: string }> {
  const agent = await service.registerWithPass()
  const at = `/${++count}`
  let secret = ''
  answers.set(
    at,
    answerWith(() => secret),
  )
  const { status, json } = await service.call('POST', '/doorbell', {
    token: agent.token,
    body: { url: urlOf(at), ...fields },
  })
  expect([status, json['doorbell']]).toMatchObject([200, { url: urlOf(at), state: 'unproven' }])
  secret = String(json['secret'])
  await waitFor(
    'a proven doorbell',
    async () => ((await read(agent))?.['state'] === 'on' ? true : undefined),
    LIMIT,
  )
  return { agent, at, secret }
}
const send = async (to: TestAgent) => {
  const from = await service.registerWithPass()
  expect(
    (await service.call('POST', '/dm', { token: from.token, body: { to: to.id, box: 'x' } })).status,
  ).toBe(201)
}
/** What a proxy passes on of the headers. */
const passed = (headers: Got['headers']): Record<string, string> =>
  Object.fromEntries(
    ['signature', 'signature-input', 'content-digest', 'content-type'].map((name) => [
      name,
      String(headers[name]),
    ]),
  )
const freePort = async (): Promise<number> => {
  const { port, close } = await serveTcp(() => undefined)
  close()
  return port
}
const whenRung = (agent: TestAgent, times: number) =>
  waitFor(`ring ${times}`, () => (gotAt(agent, 'wake').length >= times ? true : undefined), LIMIT)

describe('a doorbell', () => {
  // holds: rules.doorbells.statements.a_doorbell_is_told_that_there, rules.doorbells.statements.post_doorbell_names_an_https_url
  it('is proven by the HMAC of a challenge, then rung for an event, with nothing but who and when, signed by the published key', async () => {
    const { agent, at, secret } = await withBell()
    expect(secret).toMatch(/^[0-9a-f]{64}$/)
    expect((await service.ctx.doorbells.find(agent.id))?.secret).toBeUndefined()
    await send(agent)
    await whenRung(agent, 1)
    const [ring] = gotAt(agent, 'wake')
    const said = JSON.parse(ring?.body ?? '') as object
    expect(said).toEqual({ agent_id: agent.id, kind: 'wake', at: expect.any(Number) as number })
    const { json } = await service.call('GET', '/rules')
    const { keys, on } = json['doorbells'] as { keys: string[]; on: boolean }
    expect([on, keys]).toEqual([true, [ringing.key]])
    const now = unixSeconds(Date.now())
    const post = { url: urlOf(at), body: ring?.body ?? '', headers: ring?.headers ?? {} }
    expect(verifyPost(post, keys, now)).toBe(true)
    await waitFor('a note', async () => ((await read(agent))?.['rung_at'] === null ? undefined : true), LIMIT)
  })

  it('rings at most once an interval, and again for what came meanwhile', async () => {
    const { agent } = await withBell()
    const from = await service.registerWithPass()
    const body = { to: agent.id, box: 'x' }
    const write = () => service.call('POST', '/dm', { token: from.token, body })
    await Promise.all(Array.from({ length: 5 }, write))
    await whenRung(agent, 1)
    await write()
    await whenRung(agent, 2)
    // When it decided to ring, in whole seconds: a busy machine may deliver one late.
    const times = gotAt(agent, 'wake').map((ring) => (JSON.parse(ring.body) as { at: number }).at)
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(INTERVAL_SECONDS - 1)
    expect(times.length).toBeLessThan(6)
  })

  it('does not ring for kinds that it was not asked to ring for, nor for an agent that asks for its events', async () => {
    const { agent } = await withBell({ kinds: ['order'] })
    const awake = await withBell()
    const waiting = service.call('GET', '/events?after=0&wait=20', { token: awake.agent.token })
    await send(agent)
    await send(awake.agent)
    expect((await waiting).status).toBe(200)
    const other = await withBell()
    await send(other.agent)
    await whenRung(other.agent, 1)
    expect([gotAt(agent, 'wake').length, gotAt(awake.agent, 'wake').length]).toEqual([0, 0])
  })

  it('that answers a challenge wrongly stays unproven and says why', async () => {
    const agent = await service.registerWithPass()
    answers.set('/wrong', ({ body }) => ({ status: 200, text: body }))
    await service.call('POST', '/doorbell', { token: agent.token, body: { url: urlOf('/wrong') } })
    const bell = await waitFor(
      'a failure',
      async () => {
        const found = await read(agent)
        return found?.['failure'] === null ? undefined : found
      },
      LIMIT,
    )
    expect(bell).toMatchObject({
      state: 'unproven',
      failure: 'the answer was not the HMAC-SHA256 of the challenge under your secret',
    })
    await send(agent)
    expect(gotAt(agent, 'wake')).toEqual([])
  })

  it('that fails is tried again, silent after an hour, on again once its agent asks, and off after a week with an event', async () => {
    const { agent, at } = await withBell()
    answers.set(at, () => ({ status: 503 }))
    await send(agent)
    await waitFor(
      'a failure',
      async () => ((await read(agent))?.['failing_since'] === null ? undefined : true),
      LIMIT,
    )
    expect(await read(agent)).toMatchObject({ state: 'on', failure: 'the answer was 503, expected 2xx' })
    const { doorbells } = service.ctx
    const models = doorbells.models.doorbells
    const nowMs = service.ctx.database.now()
    // An hour of tries, without waiting for it.
    await models.updateOne(
      { _id: agent.id },
      { $set: { begun_ms: nowMs - HOUR_MS, due_ms: nowMs - 60_000, failing_ms: nowMs - HOUR_MS } },
    )
    await waitFor(
      'silence',
      async () => ((await read(agent))?.['state'] === 'silent' ? true : undefined),
      LIMIT,
    )
    expect((await service.call('GET', '/events?after=0', { token: agent.token })).status).toBe(200)
    await waitFor('sound', async () => ((await read(agent))?.['state'] === 'on' ? true : undefined), LIMIT)
    await models.updateOne({ _id: agent.id }, { $set: { failing_ms: nowMs - 7 * DAY_MS } })
    await waitFor('an end', async () => ((await read(agent))?.['state'] === 'off' ? true : undefined), LIMIT)
    const { json } = await service.call('GET', '/events?after=0', { token: agent.token })
    const events = (json['events'] as { kind: string; id: string; state?: string }[]).filter(
      ({ kind }) => kind === 'doorbell',
    )
    expect(events).toMatchObject([{ id: agent.id, state: 'off' }])
    const me = await service.call('GET', '/me', { token: agent.token })
    expect(me.json['doorbell']).toBe('off')
  })

  it('is set, shown and listened to by the command, which runs a program at each ring', async () => {
    const agent = await service.registerWithPass()
    const home = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-home-'))
    createTokenFile(tokenFilePath(home, service.url), {
      url: service.url,
      agent_id: agent.id,
      token: agent.token,
    })
    const ending = new AbortController()
    const port = await freePort()
    const run = async (...argv: string[]) => {
      let out = ''
      const exitCode = await runAgent({
        argv: ['doorbell', ...argv, '--url', service.url],
        env: { AGENT_HOME: home },
        stdin: Readable.from([]),
        stdout: { write: (text) => void (out += text) },
        stderr: { isTTY: false, write: () => true },
        signal: ending.signal,
      })
      return [exitCode, out] as const
    }
    // The agent's own proxy in front of the listener.
    const forward = async ({ body, headers }: Got) => {
      const response = await fetch(`http://127.0.0.1:${port}/`, {
        method: 'POST',
        body,
        headers: passed(headers),
      })
      return { status: response.status, text: await response.text() }
    }
    answers.set('/command', forward)
    const rung = path.join(home, 'rung')
    const listening = run('listen', '--port', String(port), '--exec', `echo rung >> ${rung}`)
    expect((await run('set', urlOf('/command'), '--quiet', '03:00-03:01'))[0]).toBe(0)
    await waitFor('a proof', async () => ((await run('show'))[1].includes('on') ? true : undefined), LIMIT)
    await send(agent)
    await waitFor('a program that ran', () => (fs.existsSync(rung) ? true : undefined), LIMIT)
    const [forged] = gotAt(agent, 'wake')
    const body = forged?.body.replace('wake', 'fake') ?? ''
    expect((await forward({ atMs: 0, headers: forged?.headers ?? {}, body })).status).toBe(401)
    expect((await run('off'))[0]).toBe(0)
    expect(await read(agent)).toBeNull()
    ending.abort()
    // Stopped: the program itself ends with 130 then.
    expect((await listening)[0]).toBe(1)
  })

  it('whose job is lost is found by the sweep', async () => {
    const { agent } = await withBell()
    await ringing.pool.close()
    await send(agent)
    await waitFor(
      'a ring that is due',
      async () => ((await service.ctx.doorbells.find(agent.id))?.due_ms === undefined ? undefined : true),
      LIMIT,
    )
    for (const name of ['doorbells', 'slow-doorbells'] as const)
      await service.ctx.queues.get(name).obliterate({ force: true })
    ringing.pool = startPool(ringing.ctx, ['doorbells', 'slow-doorbells'])
    await whenRung(agent, 1)
  })

  it('that failed is tried beside at most 99 such others a second, however many are due', async () => {
    const nowMs = service.ctx.database.now()
    const failing = Array.from({ length: 460 }, (): DoorbellRecord => ({
      ...{
        _id: newId('agent'),
        rev: 'r',
        url: 'https://gone.example:9/',
        kinds: ['message'],
        at: unixSeconds(nowMs),
      },
      ...{ state: 'on', tries: 3, begun_ms: nowMs, due_ms: nowMs, failing_ms: nowMs, slow: true },
    }))
    await service.ctx.doorbells.models.doorbells.insertMany(failing)
    await Promise.all(failing.map((bell) => enqueueRing(service.ctx, bell, nowMs)))
    const ids = new Set(failing.map(({ _id }) => _id))
    const begun = await waitFor(
      'all tries',
      async () => {
        const jobs = await service.ctx.queues.get('slow-doorbells').getJobs(['completed'])
        const own = jobs.filter(({ data }) => ids.has((data as { agent_id: string }).agent_id))
        return own.length < failing.length
          ? undefined
          : own.map(({ processedOn = 0 }) => processedOn).toSorted((a, b) => a - b)
      },
      LIMIT,
    )
    // Those of another test may have begun the first second, of which the first hundred then have only the end.
    expect((begun[400] ?? 0) - (begun[0] ?? 0)).toBeGreaterThan(2_900)
    await service.ctx.doorbells.models.doorbells.deleteMany({ _id: { $in: [...ids] } })
  })

  it('whose change goes to the database with those of others fails alone if it was changed meanwhile', async () => {
    const { doorbells } = service.ctx
    const bells = Array.from({ length: 20 }, (): DoorbellRecord => ({
      ...{ _id: newId('agent'), rev: 'before', url: 'https://bell.example/', kinds: ['message'], at: 0 },
      ...{ state: 'on', tries: 0 },
    }))
    await doorbells.models.doorbells.insertMany(bells)
    const [changed = '', twice = ''] = bells.map(({ _id }) => _id)
    await doorbells.models.doorbells.updateOne({ _id: changed }, { $set: { rev: 'after' } })
    const step = (tries: number) => ({ set: { tries, tried_ms: 1 }, unset: [], tells: [] })
    const outcomes = await Promise.allSettled([
      ...bells.map((bell) => doorbells.take(bell, step(1))),
      ...bells.filter(({ _id }) => _id === twice).map((bell) => doorbells.take(bell, step(2))),
    ])
    const failed = outcomes.flatMap(({ status }, at) => (status === 'rejected' ? [at] : []))
    expect(failed).toEqual([0, 20])
    const [first, second, third] = await Promise.all(bells.slice(0, 3).map(({ _id }) => doorbells.find(_id)))
    expect([first?.tries, second?.tries, third?.tries]).toEqual([0, 1, 1])
    await doorbells.models.doorbells.deleteMany({ _id: { $in: bells.map(({ _id }) => _id) } })
  })

  it('says in the metrics how late its rings are', async () => {
    const { agent } = await withBell()
    const read = async () => {
      const text = await ringing.ctx.metrics.registry.getSingleMetricAsString(
        'agent_network_doorbell_ring_seconds',
      )
      const arrived = /_bucket\{le="(\S+)",queue="doorbells",outcome="arrived"\} (\d+)/g
      return new Map([...text.matchAll(arrived)].map(([, le = '', count]) => [le, Number(count)]))
    }
    const before = await read()
    await send(agent)
    await whenRung(agent, 1)
    await waitFor(
      'one more',
      async () => ((await read()).get('+Inf') === (before.get('+Inf') ?? 0) + 1 ? true : undefined),
      LIMIT,
    )
    // Not from some other clock's beginning.
    expect((await read()).get('60')).toBe((before.get('60') ?? 0) + 1)
  })

  it('can be taken away and set anew, which is proven anew', async () => {
    const { agent, at } = await withBell()
    expect((await service.call('DELETE', '/doorbell', { token: agent.token })).json).toMatchObject({
      doorbell: null,
    })
    expect(await read(agent)).toBeNull()
    expect(JSON.stringify(await service.ctx.doorbells.find(agent.id))).not.toContain(at)
    await send(agent)
    const { json } = await service.call('POST', '/doorbell', { token: agent.token, body: { url: urlOf(at) } })
    expect(json['doorbell']).toMatchObject({ state: 'unproven', rung_at: null })
    expect(gotAt(agent, 'wake')).toEqual([])
  })
})

describe('a service without doorbells', () => {
  // holds: rules.doorbells.on, rules.doorbells.keys, limits.doorbell, limits.doorbell.detail
  it('refuses them in one way, and says so in its rules', async () => {
    const off = await startService({ queues: WITHOUT_LEDGER })
    const agent = await off.register()
    for (const method of ['GET', 'POST', 'DELETE'])
      expect(
        await off.call(method, '/doorbell', {
          token: agent.token,
          ...(method === 'POST' ? { body: { url: 'https://bell.example/' } } : {}),
        }),
      ).toMatchObject({ status: 404, json: { error: 'no_such_route' } })
    expect((await off.call('GET', '/rules')).json['doorbells']).toMatchObject({ on: false, keys: [] })
    const me = await off.call('GET', '/me', { token: agent.token })
    expect('doorbell' in me.json).toBe(false)
    const { limits } = (await off.call('GET', '/limits')).json as {
      limits: { limit: string; value: string }[]
    }
    expect(limits.find(({ limit }) => limit === 'Doorbell')?.value).toBe(
      'none: this service rings no doorbells, and clients poll',
    )
    const on = (await service.call('GET', '/limits')).json['limits'] as typeof limits
    expect(on.find(({ limit }) => limit === 'Doorbell')?.value).toContain('no ring is guaranteed')
    await off.stop()
  })
})
