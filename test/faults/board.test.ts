import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { chromium, type Browser, type BrowserContext, type Page, type Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { findChromium } from '../support/prepare.mjs'
import { announce } from '../../shared/announcements/announcement-service.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { watchHealth } from '../../shared/platform/health.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { createLog } from '../../shared/platform/log.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'
import { startOperatorServer, type OperatorServer } from '../../workers/operator/server.ts'
import { startPool, type Pool } from '../../workers/pool.ts'
import { openWorkerContext, type WorkerContext } from '../../workers/worker-context.ts'
import { PATIENT } from '../support/servers.ts'
import { startService, type TestService } from '../support/service.ts'
import { closeContext } from '../../shared/context.ts'

/** What README shows; made anew with UPDATE_SCREENSHOT=1. */
const SCREENSHOT = path.resolve(import.meta.dirname, '../../workers/operator/board.png')
const TOKEN = 'operator-token-of-this-test'
const LIMIT = { limitMs: PATIENCE_MS }
// A page waits 30 s for each thing that it is asked to show.
vi.setConfig({ testTimeout: 180_000 })

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'board-'))
const keyFile = path.join(folder, 'seal-key')
let service: TestService
let ctx: WorkerContext
let pool: Pool
let operator: OperatorServer
let browser: Browser
let url: string
/** What the page asked for that is not on the operator's port. */
const elsewhere: string[] = []

beforeAll(async () => {
  service = await startService({ queues: ['verify-shares', 'sequence', 'make-seal'] })
  const { mongodbUrl, redisUrl, queuePrefix } = service.ctx.config
  ensureSealKey(keyFile)
  const config = readConfig(
    {
      ...PATIENT,
      MONGODB_URL: mongodbUrl,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: queuePrefix,
      OPERATOR_PORT: '0',
      OPERATOR_TOKEN: TOKEN,
      BOARD_WRITES: '1',
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
    },
    'workers',
  )
  ctx = openWorkerContext(config, createLog('board', 'silent'))
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  pool = startPool(ctx, ['sign-announcement', 'sign-seals'])
  operator = await startOperatorServer(ctx, watchHealth(ctx, new Promise(() => {}), true))
  url = `http://127.0.0.1:${operator.port}`
  browser = await chromium.launch({
    executablePath: findChromium(process.env),
    // Chromium's sandbox needs a user that is not root.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  })
})

afterAll(async () => {
  await browser?.close()
  await operator?.close()
  await pool?.close()
  if (ctx !== undefined) await closeContext(ctx)
  await service?.stop()
  fs.rmSync(folder, { recursive: true })
})

async function openBrowser(password?: string): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 1080 },
    ...(password === undefined ? {} : { httpCredentials: { username: 'operator', password } }),
  })
  // What the page's policy holds back is not sent.
  const note = (request: Request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:'))
      elsewhere.push(request.url())
  }
  context.on('requestfinished', note)
  context.on('requestfailed', (request) => {
    if (request.failure()?.errorText !== 'csp') note(request)
  })
  return context
}

async function openPage(context: BrowserContext, pathname: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(url + pathname)
  await page.getByText('Agent network').first().waitFor()
  return page
}

describe('Bull Board in a browser', () => {
  it('refuses whoever has no token or a wrong one, and shows it nothing', async () => {
    for (const password of [undefined, 'wrong']) {
      const context = await openBrowser(password)
      const page = await context.newPage()
      // Chromium tells of the refusal as an answer or, where it would ask for a password, as an error of its
      // own.
      const answered = await page.goto(`${url}/queues`).then(
        async (answer) => `${answer?.status()} ${await answer?.text()}`,
        (error: Error) => error.message,
      )
      expect(answered).toMatch(/^401 .*"invalid_token"|ERR_INVALID_AUTH_CREDENTIALS/)
      expect(answered).not.toContain('Agent network')
      await context.close()
    }
  })

  it('shows all queues to the operator, and asks nobody else for anything', async () => {
    const context = await openBrowser(TOKEN)
    const page = await openPage(context, '/queues')
    for (const name of QUEUE_NAMES)
      await page
        .getByRole('link', { name: new RegExp(`^${name}\\b`) })
        .first()
        .waitFor()
    expect(elsewhere).toEqual([])
    await context.close()
  })

  it('shows a failed job with its reason and its payload, and a retry from the page succeeds', async () => {
    fs.chmodSync(keyFile, 0o644)
    // Its own job is left out, as where Redis is away, for one that is tried once.
    const withoutJob = { ...ctx, queues: { ...ctx.queues, enqueue: () => Promise.resolve(false) } }
    const { _id: id } = await announce(withoutJob, { kind: 'protocol', text: 'The board shows this job.' })
    const queue = ctx.queues.get('sign-announcement')
    await queue.add('sign-announcement', { announcement_id: id }, { attempts: 1 })
    await waitFor(
      'a job that was given up',
      async () => ((await queue.getFailedCount()) === 1 ? true : undefined),
      LIMIT,
    )

    const context = await openBrowser(TOKEN)
    const page = await openPage(context, '/queues/queue/sign-announcement?status=failed')
    await page.getByText('can be read or written by others').first().waitFor()
    await page.getByRole('tab', { name: 'Data' }).click()
    await page.getByText(id).last().waitFor()
    fs.chmodSync(keyFile, 0o600)
    // Of the two buttons with this sign, the first retries all; the job's own has no words.
    await page.locator('main button:has(.lucide-refresh-cw)').last().click()
    await page.getByRole('alertdialog').getByRole('button', { name: 'Confirm' }).click()
    await waitFor('the signature', async () => (await ctx.announcements.find(id))?.signature, LIMIT)
    await waitFor(
      'the job to be done',
      async () => ((await queue.getCompletedCount()) === 1 ? true : undefined),
      LIMIT,
    )
    expect(await queue.getFailedCount()).toBe(0)
    await context.close()
  })

  it('looks as README shows it', async () => {
    const context = await openBrowser(TOKEN)
    const page = await openPage(context, '/queues')
    await page.locator('main').getByText('verify-shares').first().waitFor()
    const image = await page.screenshot()
    expect(image.length).toBeGreaterThan(10_000)
    if (process.env['UPDATE_SCREENSHOT'] === '1') fs.writeFileSync(SCREENSHOT, image)
    await context.close()
  })
})
