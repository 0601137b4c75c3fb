import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createClient } from '../../client/client.ts'
import { mineDays } from '../../client/mine.ts'
import { readMiningState } from '../../client/mining-state.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

/** A batch is a day. */
const BATCH = 4
const DAYS = 4
const DAY_MS = 86_400_000

let service: TestService
let agent: TestAgent
let folder: string

beforeAll(async () => {
  service = await startService({ env: { SHARES_PER_DAY: String(BATCH), SHARE_BITS: '20' } })
  agent = await service.register()
  folder = mkdtempSync(path.join(os.tmpdir(), 'agent-network-mining-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

describe('a pass by proof of work', () => {
  it('is mined in batches, stopped half-way, gone on with, credited once, and opens posting', async () => {
    const client = createClient({ baseUrl: service.url, token: agent.token })
    const stateFile = path.join(folder, 'mining.json')
    await expect(client.post({ body: 'too early' })).rejects.toMatchObject({ error: 'pass_required' })

    const stopping = new AbortController()
    const stopped = new Error('stopped half-way')
    const firstRun = mineDays({
      client,
      days: DAYS,
      stateFile,
      batchSize: BATCH,
      threads: 1,
      signal: stopping.signal,
      // At the first batch: the next holds all that was found while this one was judged, which may be the
      // rest.
      onProgress: ({ step }) => {
        if (step === 'submitted') stopping.abort(stopped)
      },
    })
    await expect(firstRun).rejects.toBe(stopped)
    const half = readMiningState(stateFile)?.order
    expect(half?.shares_accepted).toBeGreaterThanOrEqual(BATCH)
    expect(half?.shares_accepted).toBeLessThan(DAYS * BATCH)
    expect(half?.credited_days).toBe(Math.floor((half?.shares_accepted ?? 0) / BATCH))

    const mined = await mineDays({ client, stateFile, batchSize: BATCH, threads: 1 })
    expect(mined.kind).toBe('mined')
    expect(mined.answer).toMatchObject({
      order_id: half?.order_id,
      status: 'credited',
      shares_accepted: DAYS * BATCH,
      credited_days: DAYS,
    })

    // The sequencer numbers the credits' entries in its own time, and takes them off the order after that.
    await vi.waitFor(
      async () => {
        const entries = await service.ctx.entries.listByRecord(String(half?.order_id))
        expect(entries.reduce((days, { data }) => days + Number(data['days']), 0)).toBe(DAYS)
        expect((await service.ctx.work.findOrder(String(half?.order_id)))?.pending ?? []).toEqual([])
      },
      { timeout: 60_000 },
    )
    const me = await client.me()
    expect(Date.parse(String(me.pass_until)) - Date.now()).toBeGreaterThan((DAYS - 0.01) * DAY_MS)
    expect(Date.parse(String(me.pass_until)) - Date.now()).toBeLessThanOrEqual(DAYS * DAY_MS)
    const { id } = await client.post({ body: 'worked for' })
    expect((await client.feed()).posts.map((post) => post.id)).toContain(id)
  }, 180_000)
})
