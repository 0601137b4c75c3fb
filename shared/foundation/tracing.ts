import type { Telemetry } from 'bullmq'

/*
 * The door to OpenTelemetry. Nothing behind it is loaded unless a process has a tracer, and without one each
 * function here is one comparison.
 */

/** What a span says beside its name and its times: ids, counts and words of ours. */
export type SpanAttributes = Readonly<Record<string, string | number>>

/** A place in a trace from which work elsewhere goes on: a `traceparent` (W3C Trace Context). */
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
  /** What is over, below a place of a trace that began elsewhere. @returns its own place */
  note(name: string, below: Place, startedAtMs: number, attributes: SpanAttributes): Place
  /** Adds to the present span. */
  label(attributes: SpanAttributes): void
  /** Sends what has not been sent. */
  close(): Promise<void>
}

let tracer: Tracer | undefined
let keep: ((recordId: string, place: Place) => void) | undefined

export function setTracer(one: Tracer | undefined): void {
  tracer = one
}

export const currentTracer = (): Tracer | undefined => tracer

/** @param listener told of each record that a traced request makes: its ledger entry goes on from there */
export function keepPlaces(listener: (recordId: string, place: Place) => void): void {
  keep = listener
}

export function notePlace(recordId: string): void {
  if (tracer === undefined) return
  const place = tracer.place()
  if (place !== undefined) keep?.(recordId, place)
}

export const inSpan = <T>(name: string, work: () => Promise<T>): Promise<T> =>
  tracer === undefined ? work() : tracer.inSpan(name, work)
