import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { newId } from '../../shared/platform/ids.ts'
import { DM_PAGE_BYTES } from '../../shared/platform/limits.ts'
import type { MessageRecord } from '../../shared/messages/message.ts'
import { runInScope } from '../../shared/platform/scope.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'
import { listPending } from '../support/stored.ts'
import { connectRaw } from '../support/torture-sockets.ts'

const LIMIT = { limitMs: PATIENCE_MS, everyMs: 10 }

let service: TestService
let agent: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER, env: { REQUEST_SECONDS: '1' } })
  agent = await service.registerWithPass()
})
afterAll(() => service.stop())

const keyOf = (index: number) => index.toString(16).padStart(8, '0').padEnd(64, '1')
const keyChanges = async ({ id }: TestAgent) =>
  (await listPending(service.ctx.database.connection, 'agents', id)).filter(
    ({ kind }) => kind === 'dm_key_change',
  )

describe('a request that is over', () => {
  // holds: limits.a_caller_that_has_left
  it('has changed a dm_key by one update, or not at all: what was answered 503 is not written later', async () => {
    const answers = await Promise.all(
      Array.from({ length: 400 }, (_, index) =>
        service.call('POST', '/profile', { token: agent.token, body: { dm_key: keyOf(index + 1) } }),
      ),
    )
    // One command may have been under way when its request's time was over.
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const stored = (await keyChanges(agent)).length
    expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([])
    expect(stored).toBeGreaterThanOrEqual(answers.filter(({ status }) => status === 200).length)
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    expect((await keyChanges(agent)).length).toBe(stored)
  })

  // holds: limits.a_caller_that_has_left
  it('asks the database for nothing more, whatever loop it is in', async () => {
    const life = new AbortController()
    let rounds = 0
    const looping = runInScope(
      {},
      async () => {
        for (;;) {
          await service.ctx.agents.find(agent.id)
          rounds++
        }
      },
      life.signal,
    )
    await waitFor('rounds', () => (rounds > 3 ? true : undefined), LIMIT)
    life.abort(new Error('nobody waits'))
    await expect(looping).rejects.toThrow('nobody waits')
    for (const work of [
      () => service.ctx.posts.models.posts.findOne({}),
      () => service.ctx.entries.list(1, 10),
      () => service.ctx.agents.movePassEnd(agent.id, undefined, 1, []),
      () => service.ctx.database.transaction(() => Promise.resolve()),
    ])
      await expect(runInScope({}, async () => void (await work()), life.signal)).rejects.toThrow(
        'nobody waits',
      )
  })

  // holds: limits.a_caller_that_has_left
  it('ends when its caller has left, which leaves a trace', async () => {
    const other = await service.registerWithPass()
    const body = JSON.stringify({ dm_key: keyOf(7) })
    // The profile is held by a transaction, so that the request waits for it.
    let release = (): void => undefined
    const held = new Promise<void>((resolve) => (release = resolve))
    const holding = service.ctx.database.transaction(async (session) => {
      await service.ctx.agents.movePassEnd(
        other.id,
        (await service.ctx.agents.find(other.id, session))?.pass_until_ms,
        9e15,
        [],
        session,
      )
      await held
    })
    const leaving = await Promise.all(Array.from({ length: 20 }, () => connectRaw(service.url)))
    for (const { socket } of leaving)
      socket.write(
        `POST /api/v1/profile HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${other.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
    await new Promise((resolve) => setTimeout(resolve, 200))
    for (const { socket } of leaving) socket.destroy()
    release()
    await holding
    await waitFor(
      'the trace of those who left',
      () => (service.logged().includes('caller_left') ? true : undefined),
      LIMIT,
    )
    expect((await keyChanges(other)).length).toBeLessThanOrEqual(1)
  })
})

describe('unread messages', () => {
  // holds: limits.direct_message
  it('are handed out in pages bounded by bytes, each once and in order, by both ways of reading', async () => {
    const reader = await service.registerWithPass()
    const sizes = [
      300_000,
      10,
      100_000,
      100_000,
      100_000,
      300_000,
      ...Array.from({ length: 150 }, () => 1_000),
    ]
    const sent: MessageRecord[] = sizes.map((size) => ({
      _id: newId('message'),
      from: agent.id,
      to: reader.id,
      at: 1,
      box: 'b'.repeat(size),
      handed: 0,
    }))
    await service.ctx.messages.models.messages.insertMany(sent)
    type Page = { messages: { id: string; box: string }[]; more: boolean }
    const read = async (query: string) =>
      (await service.call('GET', `/dm${query}`, { token: reader.token })).json as unknown as Page
    const seen: string[] = []
    for (let more = true; more;) {
      const page = await read('')
      const bytes = page.messages.reduce((sum, { box }) => sum + box.length, 0)
      expect(page.messages.length === 1 || bytes <= DM_PAGE_BYTES).toBe(true)
      expect(page.messages.length).toBeLessThanOrEqual(100)
      seen.push(...page.messages.map(({ id }) => id))
      more = page.more
    }
    expect(seen).toEqual(sent.map(({ _id }) => _id))
    const again: string[] = []
    for (let after = '0', more = true; more;) {
      const page = await read(`?after=${after}`)
      again.push(...page.messages.map(({ id }) => id))
      after = page.messages.at(-1)?.id ?? after
      more = page.more
    }
    expect(new Set(again)).toEqual(new Set(seen))
  })
})
