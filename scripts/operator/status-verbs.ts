import { formatTime } from '../../client/command/format.ts'
import { flagOption, numberOption } from '../../client/command/verb.ts'
import { usageError } from '../../client/command/command-error.ts'
import { enqueueJob, whenRedisAnswers } from './job.ts'
import { formatFacts, readFacts } from './status-facts.ts'
import { STATUS_SECTIONS } from './status-sections.ts'
import { formatAge, type StatusSection } from './status-section.ts'
import { showDone } from './output.ts'
import { defineOperatorVerb, type OperatorVerb, type VerbOutput } from './verb.ts'
import type { Context } from '../../shared/context.ts'
import { describeBuild, readBuild } from '../../shared/platform/build.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { messageOf } from '../../shared/platform/errors.ts'
import { SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'
import { severityOf, worstOf, type Finding } from '../../shared/operation/finding.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import { describeVerdict } from '../../shared/operation/verdict.ts'
import { replaceRedisMarker } from '../../shared/operation/redis-marker.ts'
import { limitOf } from '../../shared/platform/queue-state.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'

/** Whoever is silent is asked twice: so that it is told within 2 s. */
const WAIT_MS = 0.8 * SECOND_MS
const EXIT_CODES = { fine: 0, look: 1, act: 2 } as const

export const statusVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'status',
    words: [],
    options: {
      all: flagOption('show everything, not what needs you alone'),
      watch: flagOption('draw it anew every 5 s until Ctrl-C'),
      wait: numberOption(
        'SECONDS',
        'how long to wait for MongoDB and Redis each of two times, 0.8 if absent',
        1,
      ),
    },
    help: 'What needs you, with since when, why and the command; exit code 0 fine, 1 look, 2 act',
    changes: false,
    needsDatabase: false,
    run: ({ ctx, options: { all, wait } }) =>
      showStatus(ctx, wait === undefined ? WAIT_MS : wait * SECOND_MS, all),
  }),
  defineOperatorVerb({
    name: 'resume',
    words: ['[QUEUE]'],
    options: { all: flagOption('every queue') },
    help: 'Let a queue go on that was paused or limited on the board',
    changes: true,
    needsDatabase: false,
    run: ({ ctx, words: [name], options: { all }, dryRun }) => resume(ctx, name, all, dryRun),
  }),
  defineOperatorVerb({
    name: 'retry',
    words: ['QUEUE'],
    options: {},
    help: 'Try once more what was given up on a queue, after its cause is mended',
    changes: true,
    needsDatabase: false,
    run: ({ ctx, words: [name], dryRun }) => retry(ctx, name, dryRun),
  }),
  defineOperatorVerb({
    name: 'remove-job',
    words: ['QUEUE', 'JOB_ID'],
    options: {},
    help: 'Remove a job that was given up and that no other try can help',
    changes: true,
    needsDatabase: false,
    run: ({ ctx, words: [name, id], dryRun }) => removeJob(ctx, name, id, dryRun),
  }),
  defineOperatorVerb({
    name: 'sweep',
    words: [],
    options: {},
    help: 'Look in MongoDB for work that Redis has lost, now, and take note that it had lost it',
    changes: true,
    async run({ ctx, dryRun }) {
      const noted = await ctx.operation.watch.readRedis()
      if (!dryRun) {
        await whenRedisAnswers(ctx)
        await replaceRedisMarker(ctx, noted, {})
        await enqueueJob(ctx, 'sweep', {})
      }
      return showDone({ enqueued: 'sweep', redis_was_emptied_at: noted?.emptied_at ?? null }, dryRun)
    },
  }),
]

/** The queue of this name. @throws CommandError if there is none */
async function requireQueue(ctx: Context, name: string) {
  const known = QUEUE_NAMES.find((queueName) => queueName === name)
  if (known === undefined) throw usageError(`QUEUE expected one of ${QUEUE_NAMES.join(', ')}.`)
  await whenRedisAnswers(ctx)
  return ctx.queues.get(known)
}

/** Removes a failed job. @throws CommandError if there is no such queue, or no such job that failed */
async function removeJob(ctx: Context, name: string, id: string, dryRun: boolean): Promise<VerbOutput> {
  const queue = await requireQueue(ctx, name)
  const job = await queue.getJob(id)
  if (job === undefined || !(await job.isFailed()))
    throw usageError(`There is no job ${id} on ${name} that was given up; "status" names those there are.`)
  if (!dryRun) await job.remove()
  return showDone({ queue: name, removed: id }, dryRun)
}

/** Tries the failed jobs of a queue again. @throws CommandError if there is no such queue */
async function retry(ctx: Context, name: string, dryRun: boolean): Promise<VerbOutput> {
  const queue = await requireQueue(ctx, name)
  const failed = await queue.getFailedCount()
  if (!dryRun) await queue.retryJobs({ state: 'failed' })
  return showDone({ queue: name, retried: failed, changed: failed > 0 }, dryRun)
}

/**
 * Reads and formats what needs the operator, and the facts; whatever can't be read in time is left out or
 * says so.
 *
 * @param isAll whether the text has every section too; `answer` always has
 */
async function showStatus(ctx: Context, waitMs: number, isAll: boolean): Promise<VerbOutput> {
  const [findings, facts, ...sections] = await Promise.all([
    readFindings(ctx, waitMs),
    withDeadline(readFacts(ctx), waitMs, () => new Error('MongoDB did not answer')).catch(() => undefined),
    ...STATUS_SECTIONS.map((section) => readSection(ctx, section, waitMs)),
  ])
  const verdict = worstOf(findings)
  const now = unixSeconds(ctx.now())
  const shown = findings.map((finding) => ({
    severity: severityOf(finding),
    ...finding,
    since: finding.since ?? null,
    why: finding.why ?? null,
  }))
  return {
    answer: {
      ok: true,
      verdict,
      findings: shown,
      ...readBuild(),
      facts: facts ?? null,
      ...Object.fromEntries(sections.map(({ name, answer }) => [name, answer])),
    },
    text: [
      `${describeVerdict(findings)}   ${formatTime(now)}, ${describeBuild()}`,
      ...findings.flatMap((finding) => ['', ...formatFinding(finding, now)]),
      ...(facts === undefined ? [] : ['', ...formatFacts(facts, now)]),
      ...(isAll
        ? sections.flatMap(({ title, lines }) => ['', title, ...lines.map((line) => `  ${line}`)])
        : []),
    ].join('\n'),
    exitCode: EXIT_CODES[verdict],
  }
}

/** A finding as lines: what, since when and why, and the command that mends it. */
function formatFinding(finding: Finding, now: number): string[] {
  const { what, since, why, command } = finding
  const details: string[] = []
  if (since !== undefined) details.push(`since ${formatTime(since)}, ${formatAge(since, now)}`)
  if (why !== undefined) details.push(why)
  const lines = [`${severityOf(finding).toUpperCase().padEnd(4)}  ${what}.`]
  if (details.length > 0) lines.push(`      ${details.join('; ')}`)
  lines.push(`      > ${command}`)
  return lines
}

/** Reads what a section shows; if that fails, the section shows why. */
async function readSection(ctx: Context, section: StatusSection, limitMs: number) {
  const { name, title } = section
  try {
    const { answer, lines } = await withDeadline(
      section.read(ctx),
      limitMs,
      () => new Error(`MongoDB or Redis did not answer within ${limitMs / SECOND_MS} s`),
    )
    return { name, title, answer, lines }
  } catch (error) {
    const message = messageOf(error)
    return { name, title, answer: { error: message }, lines: [`cannot be read: ${message}`] }
  }
}

/**
 * Lifts what was set on the board for one queue or for all: a pause, and limits of the rate or of concurrent
 * jobs. Shows which queues had something to lift.
 */
async function resume(
  ctx: Context,
  name: string | undefined,
  isAll: boolean,
  dryRun: boolean,
): Promise<VerbOutput> {
  const names = QUEUE_NAMES.filter((queueName) => isAll || queueName === name)
  if (names.length === 0 || (isAll && name !== undefined))
    throw usageError(`"resume" takes --all or one queue: ${QUEUE_NAMES.join(', ')}.`)
  await whenRedisAnswers(ctx)
  const resumed: string[] = []
  for (const queueName of names) {
    const queue = ctx.queues.get(queueName)
    const meta = await queue.getMeta()
    if (meta.paused !== true && limitOf(meta) === undefined) continue
    resumed.push(queueName)
    if (dryRun) continue
    await queue.removeGlobalRateLimit()
    await queue.removeGlobalConcurrency()
    await queue.removeRateLimitKey()
    await queue.resume()
  }
  return showDone({ resumed: resumed.join(', ') || null, changed: resumed.length > 0 }, dryRun)
}
