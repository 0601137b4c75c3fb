import type { Queue } from 'bullmq'
import type { RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { kindOfError } from '../../shared/platform/errors.ts'
import { readAuthorization } from '../../shared/platform/operator-token.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { readTrail } from '../../shared/operation/trail.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'

/**
 * Makes a handler that shows Bull Board over all queues, without buttons unless BOARD_WRITES is set. It
 * answers 503 until Redis was reached. The board is made anew when a queue's connection was replaced after an
 * outage, and loaded when somebody looks at it first: most processes never show it.
 */
export function showQueues(ctx: Context): RequestHandler {
  let isReached = false
  void ctx.queues.whenReady().then(() => (isReached = true))
  let shown: readonly Queue[] = []
  let board: RequestHandler | undefined
  return async (req, res, next) => {
    if (!isReached) {
      res.status(503).setHeader('Retry-After', '2')
      res.json({
        ok: false,
        error: 'unavailable',
        message: 'Redis has not been reached yet; try again in a moment.',
      })
      return
    }
    const queues = QUEUE_NAMES.map((name) => ctx.queues.get(name))
    if (board === undefined || queues.some((queue, index) => queue !== shown[index])) {
      const { createBoard } = await import('./bull-board.ts')
      shown = queues
      board = createBoard(queues, !ctx.config.boardWrites, subjectOf)
    }
    await board(req, res, next)
  }
}

/** The id of the record that a job is about: the first in its payload; undefined if it has none. */
function subjectOf(data: unknown): string | undefined {
  const values = typeof data === 'object' && data !== null ? Object.entries(data) : []
  const id = values.find(
    ([name, value]) => name !== 'request_id' && /^[a-z]{3}_[0-9a-z]{26}$/.test(String(value)),
  )?.[1]
  return id === undefined ? undefined : String(id)
}

/** The actions that the path of a button may name, after the queue or the job. */
const ACTS = [
  ...(['pause', 'resume', 'add', 'retry', 'promote', 'clean', 'empty', 'obliterate', 'concurrency'] as const),
  ...(['rate-limit', 'job-schedulers', 'update-data', 'delay', 'priority'] as const),
  'remove-unprocessed-children',
]
const LONGEST_USER = 80

/**
 * Makes a handler that records each request that presses a button of the board, as an operator's act in the
 * ledger, before it takes effect. If that fails, the request is refused with 503.
 */
export function recordActions(ctx: Context): RequestHandler {
  return async (req, res, next) => {
    if (req.method === 'GET' || req.method === 'HEAD' || !ctx.config.boardWrites) return next()
    const [, , ...words] = req.path.split('/')
    const act = words.slice(1).find((word) => ACTS.includes(word)) ?? 'other'
    const queue = QUEUE_NAMES.find((name) => name === words[1]) ?? 'all'
    const press = { by: userOf(req.headers.authorization), path: req.path.slice(0, 300), act, queue }
    try {
      const id = await ctx.operation.acts.record(press, unixSeconds(ctx.now()))
      ctx.log.warn({ act_id: id, ...press }, `the board: ${act} ${queue}`)
      next()
    } catch (error) {
      ctx.log.warn({ err: error }, 'a press on the board could not be recorded, and is not done')
      res.status(503).setHeader('Retry-After', '2')
      res.json({
        ok: false,
        error: 'unavailable',
        message: 'MongoDB is out of reach: the action cannot be recorded, so it is not done.',
      })
    }
  }
}

/**
 * The user name of Basic authentication, which the operator chooses freely; `token` for a program's Bearer.
 */
function userOf(authorization: string | undefined): string {
  if (readAuthorization(authorization).scheme !== 'basic') return 'token'
  const text = Buffer.from((authorization ?? '').split(' ')[1] ?? '', 'base64').toString('utf8')
  return text.slice(0, Math.max(0, text.indexOf(':'))).slice(0, LONGEST_USER) || 'nobody'
}

/**
 * Makes a handler that answers what `operator show` prints about the word in the path: an id, an address, …
 */
export function showTrail(ctx: Context): RequestHandler<{ word: string }> {
  return async (req, res) => {
    const trail = await readTrail(ctx, req.params.word)
    if (trail !== undefined) return void res.json({ ok: true, ...trail })
    res.status(404).json({
      ok: false,
      error: 'no_such_record',
      message:
        'Nothing of this network has this name: it is no id, entry, address, transaction, handle or job.',
    })
  }
}

const FAILED_OF_A_QUEUE = 500

/** Makes a handler that answers with the failed jobs that are kept, grouped by queue and kind of error. */
export function showFailed(ctx: Context): RequestHandler {
  return async (_req, res) => {
    const failed = await Promise.all(
      QUEUE_NAMES.map(async (queue) => {
        const jobs = await ctx.queues.get(queue).getFailed(0, FAILED_OF_A_QUEUE - 1)
        const kinds = Map.groupBy(jobs, ({ failedReason }) => kindOfError(failedReason ?? 'unknown'))
        return [...kinds].map(([kind, jobsOfKind]) => ({
          queue,
          kind,
          jobs: jobsOfKind.length,
          last_at: unixSeconds(Math.max(...jobsOfKind.map(({ finishedOn = 0 }) => finishedOn))),
          show: [...new Set(jobsOfKind.map(({ id, data }) => `/show/${subjectOf(data) ?? id}`))].slice(0, 5),
        }))
      }),
    )
    res.json({ ok: true, failed: failed.flat() })
  }
}
