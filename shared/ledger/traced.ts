import type { Context } from '../context.ts'
import { currentScope } from '../platform/scope.ts'
import { createTraceStore } from '../platform/trace-store.ts'
import { currentTracer } from '../platform/tracing.ts'
import type { EntryRecord } from './entry.ts'
import type { SealRecord } from './seal.ts'

/*
 * Numbering and sealing are regular jobs over what many requests have written, so no request's trace leads to
 * them. They add spans to the trace of each request whose record they take, after its last span.
 */

type TracedContext = Pick<Context, 'database' | 'log'>

/**
 * Adds a span for the job that numbered entries, and one for each entry, to the traces of their records. Does
 * nothing if tracing is off; a failure is logged and not thrown.
 *
 * @param startedAtMs when the insert of the entries began
 */
export async function traceEntries(
  ctx: TracedContext,
  entries: readonly EntryRecord[],
  startedAtMs: number,
): Promise<void> {
  const tracer = currentTracer()
  if (tracer === undefined) return
  const numbers = new Map(entries.map(({ record, _id }) => [record, _id]))
  const { queue = 'sequence', job_id = '' } = currentScope()
  await logFailure(ctx, async () => {
    const traces = createTraceStore(ctx.database.connection)
    const traced = await traces.findUnnumbered([...numbers.keys()])
    const numbered = traced.map(({ _id, place }) => {
      const attributes = { record_id: _id, entry_id: numbers.get(_id) ?? 0 }
      const jobSpan = tracer.note(`process ${queue}`, place, startedAtMs, { ...attributes, job_id })
      const entrySpan = tracer.note('entry', jobSpan, startedAtMs, attributes)
      return { _id, entry: attributes.entry_id, place: entrySpan }
    })
    await traces.putEntries(numbered)
  })
}

/**
 * Adds a span for a seal to the trace of each of its entries. Does nothing if tracing is off; a failure is
 * logged and not thrown.
 *
 * @param startedAtMs when the seal's making began
 */
export async function traceSeal(
  ctx: TracedContext,
  { _id: seq, from_id, to_id }: SealRecord,
  startedAtMs: number,
): Promise<void> {
  const tracer = currentTracer()
  if (tracer === undefined) return
  await logFailure(ctx, async () => {
    const traced = await createTraceStore(ctx.database.connection).findByEntry(from_id, to_id)
    for (const { _id, place, entry = 0 } of traced)
      tracer.note('seal', place, startedAtMs, { record_id: _id, entry_id: entry, seal_seq: seq })
  })
}

/** Runs `work` and logs its error: tracing must not fail a job. */
async function logFailure({ log }: TracedContext, work: () => Promise<void>): Promise<void> {
  await work().catch((error: unknown) => log.debug({ err: error }, 'traces could not be followed'))
}
