import fs from 'node:fs'
import path from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import type { Totals } from '../../shared/operation/sample.ts'
import { RINGS } from '../../shared/operation/sample-store.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { watchHealth } from '../../shared/platform/health.ts'
import { createLog } from '../../shared/platform/log.ts'
import { messageOf } from '../../shared/platform/errors.ts'
import { REQUEST_BUCKETS } from '../../shared/platform/metrics.ts'
import { POOLS } from '../../shared/platform/queue-table.ts'
import { startOperatorServer, type OperatorServer } from '../../workers/operator/server.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { findChromium } from '../support/prepare.mjs'
import { PATIENT } from '../support/servers.ts'
import { startService, type TestService } from '../support/service.ts'

const TOKEN = 'operator-token-of-this-test'
/** PAGE_SCREENSHOTS=DIR keeps what the browser shows. */
const { PAGE_SCREENSHOTS } = process.env
// A page waits 30 s for each thing that it is asked to show.
vi.setConfig({ testTimeout: 180_000 })

let missing: string | undefined
let executablePath = ''
try {
  executablePath = findChromium(process.env)
} catch (error) {
  missing = messageOf(error)
}

/** A day of some network: quiet at night, busy at noon, as samples of both rings. @param now Unix seconds */
async function storeDay(ctx: Context, now: number): Promise<void> {
  const totals: Totals = {
    requests: [...REQUEST_BUCKETS, Infinity].map(() => 0),
    failures: 0,
    jobs: { 'verify-shares': { count: 0, seconds: 0 } },
    cpu_seconds: { api: 0, shares: 0, ledger: 0 },
  }
  const fresh = now - 3_600
  const { samples } = ctx.operation
  for (let at = now - 86_340, before = at - 60; at <= now; at += at < fresh ? 60 : RINGS.hour.stepSeconds) {
    const seconds = at - before
    before = at
    const busy = 1.2 - Math.cos((2 * Math.PI * (at % 86_400)) / 86_400) + 0.2 * Math.sin(at / 300)
    const asked = Math.round(25 * busy * seconds)
    for (const [index, part] of [0, 0.3, 0.4, 0.2, 0.08, 0.015, 0.005].entries())
      totals.requests[index] = (totals.requests[index] ?? 0) + Math.round(part * asked)
    totals.failures += Math.floor(asked / 900)
    const verify = totals.jobs['verify-shares'] ?? { count: 0, seconds: 0 }
    totals.jobs['verify-shares'] = {
      count: verify.count + 4 * busy * seconds,
      seconds: verify.seconds + busy * seconds,
    }
    for (const [role, part] of Object.entries({ api: 0.3, shares: 0.15, ledger: 0.05 }))
      totals.cpu_seconds[role] = (totals.cpu_seconds[role] ?? 0) + part * busy * seconds
    const sinceStart = at - (now - 86_400)
    const levels: Record<string, number> = {
      entries: 120_000 + sinceStart * 2,
      seal_age_seconds: at % 600,
      unsealed_seconds: (at % 600) / 1.5,
      waiting_callers: Math.round(800 * busy),
      disk_free_bytes: 61e9 - sinceStart * 8_000,
      disk_mark_bytes: 1e9,
      database_bytes: 4e9 + sinceStart * 8_000,
      redis_used_bytes: 2e7 + 4e6 * busy,
      'treasury/xno': 410 - (sinceStart % 20_000) / 400,
      'unpaid/xno': 20 + 18 * busy,
      'unpaid/xmr': 0,
    }
    for (const [index, pool] of POOLS.entries()) {
      levels[`waiting/${pool}`] = Math.round((12 * busy) / (index + 1))
      levels[`oldest_seconds/${pool}`] = (3 * busy) / (index + 1)
    }
    await samples.store({ at, totals, processes: {} }, levels, await samples.readCounted())
  }
}

describe.skipIf(missing !== undefined)(
  `the operator's page in a browser${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    let service: TestService
    let ctx: Context
    let operator: OperatorServer
    let browser: Browser
    let url: string
    const complaints: string[] = []

    beforeAll(async () => {
      service = await startService({ queues: ['verify-shares', 'sweep'] })
      const { mongodbUrl, redisUrl, queuePrefix } = service.ctx.config
      const config = readConfig(
        {
          ...PATIENT,
          MONGODB_URL: mongodbUrl,
          REDIS_URL: redisUrl,
          QUEUE_PREFIX: queuePrefix,
          OPERATOR_PORT: '0',
          OPERATOR_TOKEN: TOKEN,
        },
        'workers',
      )
      ctx = openContext(config, createLog('operator', 'silent'))
      await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
      const now = Math.floor(ctx.database.now() / 1_000)
      await storeDay(ctx, now - (now % 10))
      operator = await startOperatorServer(ctx, watchHealth(ctx, new Promise(() => {}), true))
      url = `http://127.0.0.1:${operator.port}`
      browser = await chromium.launch({
        executablePath,
        // Chromium's sandbox needs a user that is not root.
        args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
      })
    })

    afterAll(async () => {
      await browser?.close()
      await operator?.close()
      if (ctx !== undefined) await closeContext(ctx)
      await service?.stop()
    })

    async function openPage(width: number, colorScheme: 'light' | 'dark'): Promise<Page> {
      const context = await browser.newContext({
        viewport: { width, height: 900 },
        colorScheme,
        httpCredentials: { username: 'operator', password: TOKEN },
      })
      const page = await context.newPage()
      page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(error.message))
      page.on('request', (request) => {
        if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:'))
          complaints.push(request.url())
      })
      await page.goto(url)
      await page.locator('.chart canvas').first().waitFor()
      return page
    }

    it.each([
      [390, 'light'],
      [390, 'dark'],
      [1_280, 'light'],
      [1_280, 'dark'],
    ] as const)('fits %i pixels and draws what the network did, %s', async (width, scheme) => {
      const page = await openPage(width, scheme)
      for (const span of ['Last hour', 'Last day']) {
        const answered = page.waitForResponse((answer) => answer.url().includes(`span=${span.slice(5)}`))
        await page.getByRole('button', { name: span }).click()
        await answered
        await page.getByRole('heading', { name: 'Money, in XNO' }).waitFor()
        if (PAGE_SCREENSHOTS !== undefined) {
          fs.mkdirSync(PAGE_SCREENSHOTS, { recursive: true })
          const name = `${width}-${scheme}-${span.slice(5)}.png`
          await page.screenshot({ path: path.join(PAGE_SCREENSHOTS, name), fullPage: true })
        }
      }
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
      expect(await page.locator('.chart canvas').count()).toBeGreaterThanOrEqual(12)
      // A coin in which nothing is held and nothing owed has no chart.
      expect(await page.getByRole('heading', { name: 'Money, in XMR' }).count()).toBe(0)
      expect(await page.locator('#verdict').textContent()).toMatch(/^(LOOK|ACT): /)
      const commands = await page.locator('#findings code').allTextContents()
      expect(commands.length).toBeGreaterThan(0)
      expect(complaints).toEqual([])
      await page.context().close()
    })

    it('keeps its charts when new values come, so that what the pointer is at stays', async () => {
      const page = await openPage(1_280, 'dark')
      await page.evaluate("document.querySelector('.chart').dataset.kept = 'yes'")
      const seen = await page.locator('#footer').textContent()
      await page.locator('.u-over').first().hover()
      await waitFor(
        'new values',
        async () => ((await page.locator('#footer').textContent()) === seen ? undefined : true),
        { limitMs: PATIENCE_MS },
      )
      expect(await page.locator('.chart[data-kept]').count()).toBe(1)
      expect(complaints).toEqual([])
      await page.context().close()
    })

    it('leads to the board, to the failed jobs, and to what is on record', async () => {
      const page = await openPage(1_280, 'light')
      expect(await page.getByRole('link', { name: 'Queues' }).getAttribute('href')).toBe('/queues')
      expect(await page.getByRole('link', { name: 'Failed jobs' }).getAttribute('href')).toBe('/failed')
      const agent = await service.register()
      await page.getByRole('textbox').fill(agent.id)
      await page.getByRole('button', { name: 'Show' }).click()
      await page.waitForURL(`${url}/show/${agent.id}`)
      await page.getByText(agent.id).first().waitFor()
      await page.context().close()
    })

    it('says that what it shows is old when it gets no answer', async () => {
      const page = await openPage(390, 'light')
      await page.route('**/overview*', (route) => route.abort())
      await page.getByRole('button', { name: 'Last day' }).click()
      await page.getByText('could not be renewed').waitFor()
      await page.context().close()
    })
  },
)
