import type { Telemetry } from 'bullmq'

/*
 * The only way to OpenTelemetry, which is not loaded unless a process has a tracer; without a tracer each
 * function here costs one comparison. The tracer is the process's: OpenTelemetry registers itself globally,
 * and ids are made and groups are performed outside of any context.
 */

/** What a span says besides its name and its times: ids, counts and our own words. */
export type SpanAttributes = Readonly<Record<string, string | number>>

/** A place in a trace at which work elsewhere continues it: a `traceparent` (W3C Trace Context). */
export type Place = string

export interface Tracer {
  /** For queues and workers. */
  readonly telemetry: Telemetry
  /** Runs `work` within the span of a request, which is over when `end` is called. */
  inRequest(method: string, work: () => void): { end(name: string, attributes: SpanAttributes): void }
  /** Runs work as a part of the present trace. */
  inSpan<T>(name: string, work: () => Promise<T>): Promise<T>
  /** Runs work as a part of no trace. */
  leaveTrace<T>(work: () => T): T
  /** Where the present work stands; undefined if it is not traced. */
  place(): Place | undefined
  /** Adds a finished span below a place of a trace that began elsewhere. @returns the span's own place */
  note(name: string, below: Place, startedAtMs: number, attributes: SpanAttributes): Place
  /** Adds attributes to the present span. */
  label(attributes: SpanAttributes): void
  /** Sends the spans that were not sent yet. */
  close(): Promise<void>
}

let tracer: Tracer | undefined
let recordListener: ((recordId: string, place: Place) => void) | undefined

/** Sets this process's tracer; undefined turns tracing off. */
export function setTracer(newTracer: Tracer | undefined): void {
  tracer = newTracer
}

export const currentTracer = (): Tracer | undefined => tracer

/**
 * Sets the one listener, in place of any before, that is called for each id that newId() makes in traced
 * work, whether or not its record is then stored: with the work's place in the trace, so that the record's
 * ledger entry can continue the trace.
 */
export function onTracedRecord(listener: (recordId: string, place: Place) => void): void {
  recordListener = listener
}

/** Calls the listener of onTracedRecord() for a new record's id, if the present work is traced. */
export function reportTracedRecord(recordId: string): void {
  const place = tracer?.place()
  if (place !== undefined) recordListener?.(recordId, place)
}

/** Runs `work` within a span of the present trace, or just runs it without a tracer; returns its result. */
export const inSpan = <T>(name: string, work: () => Promise<T>): Promise<T> =>
  tracer === undefined ? work() : tracer.inSpan(name, work)

/** Runs `work` as a part of no trace; returns its result. */
export const leaveTrace = <T>(work: () => T): T => (tracer === undefined ? work() : tracer.leaveTrace(work))
