import fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { RequestHandler } from 'express'
import type { Context } from '../../shared/context.ts'
import { severityOf, worstOf } from '../../shared/operation/finding.ts'
import { readFindings } from '../../shared/operation/findings.ts'
import { toSeries } from '../../shared/operation/sample.ts'
import { RING_NAMES, RINGS } from '../../shared/operation/sample-store.ts'
import { describeVerdict } from '../../shared/operation/verdict.ts'
import { readBuild } from '../../shared/platform/build.ts'
import { withDeadline } from '../../shared/platform/deadline.ts'
import { SECOND_MS, unixSeconds } from '../../shared/platform/time.ts'

/** How long each server is waited for, as long as `operator status` does. */
const WAIT_MS = 0.8 * SECOND_MS
/** The page asks again after 10 s. */
const SERIES_LIMIT_MS = 5 * SECOND_MS

/** Like the board's, and without a style in the page itself. */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const ours = (name: string): URL => new URL(`page/${name}`, import.meta.url)
const ofUplot = (name: string): URL => new URL(import.meta.resolve(`uplot/dist/${name}`))

/** The files of the page by their path. */
const FILES: Readonly<Record<string, { type: string; file: () => URL }>> = {
  '/': { type: 'text/html', file: () => ours('page.html') },
  '/page/page.mjs': { type: 'text/javascript', file: () => ours('page.mjs') },
  '/page/page.css': { type: 'text/css', file: () => ours('page.css') },
  '/page/uplot.js': { type: 'text/javascript', file: () => ofUplot('uPlot.iife.min.js') },
  '/page/uplot.css': { type: 'text/css', file: () => ofUplot('uPlot.min.css') },
}

/** Makes a handler that serves the page's files, and leaves other paths to the next handler. */
export function servePage(): RequestHandler {
  return (req, res, next) => {
    const found = Object.hasOwn(FILES, req.path) ? FILES[req.path] : undefined
    if (found === undefined || (req.method !== 'GET' && req.method !== 'HEAD')) return next()
    res.setHeader('Content-Security-Policy', CONTENT_POLICY)
    res.type(found.type).send(fs.readFileSync(fileURLToPath(found.file())))
  }
}

/**
 * Makes a handler that answers what the page shows: the verdict and findings of `operator status`, and the
 * network's figures of the last hour or, with `?span=day`, of the last day. `series` is null if MongoDB doesn't
 * answer in time.
 */
export function showOverview(ctx: Context): RequestHandler {
  return async (req, res) => {
    const span = RING_NAMES.find((name) => name === req.query['span']) ?? 'hour'
    const { stepSeconds, places } = RINGS[span]
    const now = unixSeconds(ctx.now())
    const readSamples = async () => {
      const samples = await ctx.operation.samples.list(span, unixSeconds(ctx.database.now()))
      return toSeries(samples, stepSeconds)
    }
    const [findings, series] = await Promise.all([
      readFindings(ctx, WAIT_MS),
      withDeadline(readSamples(), SERIES_LIMIT_MS, () => new Error('MongoDB did not answer')).catch(
        () => null,
      ),
    ])
    res.json({
      ok: true,
      at: now,
      verdict: worstOf(findings),
      sentence: describeVerdict(findings),
      findings: findings.map((finding) => ({
        severity: severityOf(finding),
        ...finding,
        since: finding.since ?? null,
        why: finding.why ?? null,
      })),
      ...readBuild(),
      span,
      span_seconds: stepSeconds * places,
      series,
    })
  }
}
