import { createServer } from 'node:http'
import express, { type Request, type Response } from 'express'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { createGate } from '../../api/http/gate.ts'
import { beginRequest } from '../../api/http/mount.ts'
import { defineRoute, ok } from '../../api/http/route.ts'
import { serve, type Frame } from '../../api/http/serve.ts'
import type { Context } from '../../shared/context.ts'
import { listen } from '../../shared/platform/listen.ts'

it('a request that waits for nothing is answered in the turn that it began with', async () => {
  const gate = createGate()
  let waited = 0
  const frame: Frame = {
    ctx: { config: { requestMs: 5_000 }, database: { isReady: () => true } } as unknown as Context,
    authenticator: {
      authenticate: () => Promise.resolve(undefined),
      recall: () => undefined,
      forget: () => undefined,
    },
    gate: {
      ...gate,
      async goOn(visitor) {
        let isWaiting = true
        const going = gate.goOn(visitor).finally(() => (isWaiting = false))
        // No other turn begins before these are over.
        for (let tick = 0; tick < 10; tick++) await Promise.resolve()
        if (isWaiting) waited++
        await going
      },
    },
    requireDisk: () => undefined,
    waits: { wait: () => Promise.resolve(), end: () => undefined, count: () => 0 },
  }
  const route = defineRoute({
    method: 'GET',
    path: '/x',
    access: 'open',
    summary: 'x',
    view: z.object({ is: z.string() }),
    handle: () => ok({ is: 'there' }),
  })
  const answer = serve(frame, route)
  const app = express()
  app.use(beginRequest)
  app.get('/x', (req: Request, res: Response, next) => answer(req, res, next))
  const server = createServer(app)
  onTestFinished(() => void server.close())
  const port = await listen(server, 0, '127.0.0.1')
  expect(await (await fetch(`http://127.0.0.1:${port}/x`)).json()).toEqual({ ok: true, is: 'there' })
  expect(waited).toBe(0)
})
