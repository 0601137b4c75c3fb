import { createServer } from 'node:http'
import express, { type Request, type Response } from 'express'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { takeBodyRoom } from '../../api/http/body.ts'
import { createGate } from '../../api/gate/gate.ts'
import { answerErrors, beginRequest } from '../../api/http/mount.ts'
import { defineRoute, ok } from '../../api/http/route.ts'
import { serve, type Frame } from '../../api/http/serve.ts'
import type { Caller } from '../../shared/agents/agent-store.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import {
  AGENT_BODY_SHARE,
  FREE_BODY_BYTES,
  MAX_HELD_BODY_BYTES,
  MAX_LOOK_UPS_AT_ONCE,
} from '../../shared/platform/limits.ts'
import { listen } from '../../shared/platform/listen.ts'

/** An authenticator that remembers no token. */
const authenticatorOf = (authenticate: Frame['authenticator']['authenticate']): Frame['authenticator'] => ({
  authenticate,
  recall: () => undefined,
  forget: () => undefined,
})

/** Serves a route with this frame, and returns its URL. @param body the schema of its body; it is a GET if absent */
async function serveRoute(
  frame: Pick<Frame, 'authenticator' | 'gate'>,
  access: 'open' | 'token',
  body?: z.ZodObject,
): Promise<string> {
  const route = defineRoute({
    method: body === undefined ? 'GET' : 'POST',
    path: '/x',
    access,
    summary: 'x',
    ...(body === undefined ? {} : { body }),
    view: z.object({ is: z.string() }),
    handle: () => ok({ is: 'there' }),
  })
  const ctx = { config: { requestMs: 5_000 }, database: { isReady: () => true } } as unknown as Context
  const answer = serve(
    {
      ctx,
      requireDisk: () => undefined,
      waits: { wait: () => Promise.resolve(), end: () => undefined, count: () => 0 },
      ...frame,
    },
    route,
    '/x',
  )
  const app = express()
  app.use(beginRequest)
  app.all('/x', (req: Request, res: Response, next) => answer(req, res, next))
  app.use(answerErrors(ctx, frame.gate, () => undefined))
  const server = createServer(app)
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${await listen(server, 0, '127.0.0.1')}/x`
}

describe('a request that waits for nothing', () => {
  it.each([
    ['is answered', undefined, 200],
    ['is refused', new Refusal('wrong_state', 'Not now.'), 409],
  ])('%s in the turn that it began with', async (_, refusal, expected) => {
    const gate = createGate()
    let waited = 0
    const url = await serveRoute(
      {
        authenticator: authenticatorOf(() =>
          refusal === undefined ? Promise.resolve(undefined) : Promise.reject(refusal),
        ),
        gate: {
          ...gate,
          next(visitor) {
            waited++
            return gate.next(visitor)
          },
          async goOn(visitor) {
            let isWaiting = true
            const going = gate.goOn(visitor).finally(() => (isWaiting = false))
            // No other turn begins before these are over.
            for (let tick = 0; tick < 10; tick++) await Promise.resolve()
            if (isWaiting) waited++
            await going
          },
        },
      },
      'open',
    )
    expect((await fetch(url)).status).toBe(expected)
    expect(waited).toBe(0)
  })
})

it('tokens that are not known are looked up so many at a time, and nobody without a token waits for that', async () => {
  const { promise: isOver, resolve: end } = Promise.withResolvers<undefined>()
  const most = MAX_LOOK_UPS_AT_ONCE.all
  const gate = createGate()
  let lookUps = 0
  const url = await serveRoute(
    {
      authenticator: authenticatorOf(() => (lookUps++, isOver)),
      gate,
    },
    'token',
  )
  const answers = Array.from({ length: 2 * most }, () =>
    fetch(url, { headers: { Authorization: 'Bearer x' } }),
  )
  while (lookUps < most) await new Promise((resolve) => setImmediate(resolve))
  for (let pass = 0; pass < 200; pass++) await new Promise((resolve) => setImmediate(resolve))
  expect(lookUps).toBe(most)
  const open = await serveRoute(
    { authenticator: authenticatorOf(() => Promise.resolve(undefined)), gate },
    'open',
  )
  expect((await fetch(open)).status).toBe(200)
  end(undefined)
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(answers.map(() => 200))
  expect(lookUps).toBe(2 * most)
})

it('a long body is parsed in one turn and checked in another, each followed by a rest', async () => {
  const gate = createGate()
  const results: unknown[] = []
  const url = await serveRoute(
    {
      authenticator: authenticatorOf(() => Promise.resolve(undefined)),
      gate: {
        ...gate,
        async runWhole(visitor, work) {
          const result = await gate.runWhole(visitor, work)
          // To read on has none.
          if (result !== undefined) results.push(result)
          return result
        },
      },
    },
    'open',
    z.object({ a: z.number() }),
  )
  const sent = { a: 1, more: 'x'.repeat(100_000) }
  const headers = { 'Content-Type': 'application/json' }
  const { status } = await fetch(url, { method: 'POST', headers, body: JSON.stringify(sent) })
  expect(status).toBe(200)
  expect(results).toEqual([sent, { a: 1 }])
})

it('a body that is refused when it is there already gives back the room that it took', async () => {
  const gate = createGate()
  const caller = { _id: 'agt_refused' } as Caller
  const url = await serveRoute(
    {
      authenticator: {
        ...authenticatorOf(() => Promise.resolve(caller)),
        recall: () => caller,
      },
      gate: {
        ...gate,
        async run(visitor, kind, part) {
          // Until then it comes.
          for (let pass = 0; pass < 100; pass++) await new Promise((resolve) => setImmediate(resolve))
          return gate.run(visitor, kind, part)
        },
      },
    },
    'token',
    z.object({ a: z.number() }),
  )
  const headers = { 'Content-Type': 'application/json', Authorization: 'Bearer x' }
  const { status } = await fetch(url, { method: 'POST', headers, body: 'x'.repeat(2 * FREE_BODY_BYTES) })
  expect(status).toBe(400)
  // As much as the agent may have, if it has nothing else.
  const room = takeBodyRoom(caller._id)
  expect(room.add(MAX_HELD_BODY_BYTES.token / AGENT_BODY_SHARE)).toBe(true)
  room.release()
})

it('a port that another program has is named, with the setting that gives the process another one', async () => {
  const holder = createServer()
  onTestFinished(() => void holder.close())
  const port = await listen(holder, 0, '127.0.0.1')
  await expect(listen(createServer(), port, '127.0.0.1', 'METRICS_PORT')).rejects.toThrow(
    `Port ${port} on 127.0.0.1 is taken by another program; set METRICS_PORT to a free one.`,
  )
})
