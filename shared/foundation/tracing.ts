import type { Telemetry } from 'bullmq'

/*
 * The only way to OpenTelemetry, which is not loaded unless a process has a tracer; without a tracer each
 * function here costs one comparison. The tracer is the process's: OpenTelemetry registers itself globally, and
 * ids are made and groups are performed outside of any context.
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
let keepPlace: ((recordId: string, place: Place) => void) | undefined

export function setTracer(one: Tracer | undefined): void {
  tracer = one
}

export const currentTracer = (): Tracer | undefined => tracer

/**
 * @param listener is told of each record that a traced request makes: its ledger entry continues the trace
 */
export function keepPlaces(listener: (recordId: string, place: Place) => void): void {
  keepPlace = listener
}

/** Tells the listener where in a trace the record is made, if the present work is traced. */
export function notePlace(recordId: string): void {
  const place = tracer?.place()
  if (place !== undefined) keepPlace?.(recordId, place)
}

export const inSpan = <T>(name: string, work: () => Promise<T>): Promise<T> =>
  tracer === undefined ? work() : tracer.inSpan(name, work)
