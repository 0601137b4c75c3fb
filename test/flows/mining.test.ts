import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createClient } from '../../client/client.ts'
import { mineDays } from '../../client/mine.ts'
import { readMiningState } from '../../client/mining-state.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

const SHARES_PER_DAY = 12
const BATCH = 4

let service: TestService
let agent: TestAgent
let folder: string

beforeAll(async () => {
  service = await startService({ env: { SHARES_PER_DAY: String(SHARES_PER_DAY), SHARE_BITS: '20' } })
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
    let batches = 0
    const firstRun = mineDays({
      client,
      days: 2,
      stateFile,
      batchSize: BATCH,
      threads: 1,
      signal: stopping.signal,
      onProgress: (progress) => {
        if (progress.step === 'submitted' && ++batches === 3) stopping.abort(stopped)
      },
    })
    await expect(firstRun).rejects.toBe(stopped)
    const half = readMiningState(stateFile)?.order
    expect(half?.shares_accepted).toBeGreaterThanOrEqual(3 * BATCH)
    expect(half?.shares_accepted).toBeLessThan(2 * SHARES_PER_DAY)
    expect(half?.credited_days).toBe(1)

    const mined = await mineDays({ client, stateFile, batchSize: BATCH, threads: 1 })
    expect(mined.kind).toBe('mined')
    expect(mined.answer).toMatchObject({
      order_id: half?.order_id,
      status: 'credited',
      shares_accepted: 2 * SHARES_PER_DAY,
      credited_days: 2,
    })

    // The sequencer numbers the credits' entries in its own time, and takes them off the order after that.
    await vi.waitFor(
      async () => {
        const entries = await service.ctx.entries.listByRecord(String(half?.order_id))
        expect(entries.reduce((days, { data }) => days + Number(data['days']), 0)).toBe(2)
        expect((await service.ctx.work.findOrder(String(half?.order_id)))?.pending ?? []).toEqual([])
      },
      { timeout: 10_000 },
    )
    const me = await client.me()
    expect(Date.parse(String(me.pass_until)) - Date.now()).toBeGreaterThan(1.99 * 86_400_000)
    expect(Date.parse(String(me.pass_until)) - Date.now()).toBeLessThanOrEqual(2 * 86_400_000)
    const { id } = await client.post({ body: 'worked for' })
    expect((await client.feed()).posts.map((post) => post.id)).toContain(id)
  })
})
