import { context, propagation, ROOT_CONTEXT, SpanKind, trace, type Context } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  RandomIdGenerator,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-node'
import { BullMQOtel } from 'bullmq-otel'
import { readBuild } from './build.ts'
import { currentScope } from './scope.ts'
import type { Place, Tracer } from './tracing.ts'

/**
 * What leaves this process beside names and times. BullMQ says more (a job's options and result, the message
 * of an error), and none of that is sent.
 */
const SENT_ATTRIBUTES: ReadonlySet<string> = new Set([
  'http.request.method',
  'http.route',
  'http.response.status_code',
  'request_id',
  'record_id',
  'entry_id',
  'seal_seq',
  'job_id',
  'bullmq.queue.name',
  'bullmq.queue.operation',
  'bullmq.job.id',
  'bullmq.job.attempts.made',
])

/**
 * Registers OpenTelemetry for this process and returns the tracer. Where it sends its spans to, and with which
 * headers, the exporter reads from the environment.
 *
 * @param ratio of requests, 0 to 1, which begin a trace
 */
export function openOtel(part: string, ratio: number): Tracer {
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({
      'service.name': `agent-network-${part}`,
      'service.version': readBuild().version,
    }),
    sampler: new ParentBasedSampler({ root: sampleRequests(ratio) }),
    idGenerator: { ...randomIds(), generateTraceId: traceIdOfRequest },
    spanProcessors: [new BatchSpanProcessor(openExporter())],
  })
  provider.register()
  const spans = trace.getTracer('agent-network')
  const placeOf = (ctx: Context): Place | undefined => {
    const carrier: { traceparent?: string } = {}
    const spanContext = trace.getSpanContext(ctx)
    if (spanContext !== undefined && (spanContext.traceFlags & 1) === 1) propagation.inject(ctx, carrier)
    return carrier.traceparent
  }
  return {
    telemetry: new BullMQOtel({ tracerName: 'agent-network' }),
    inRequest(method, work) {
      const span = spans.startSpan(method, { kind: SpanKind.SERVER, root: true })
      context.with(trace.setSpan(ROOT_CONTEXT, span), work)
      return {
        end(name, attributes) {
          span.updateName(name).setAttributes(attributes).end()
        },
      }
    },
    inSpan: (name, work) => spans.startActiveSpan(name, (span) => work().finally(() => span.end())),
    leaveTrace: (work) => context.with(ROOT_CONTEXT, work),
    place: () => placeOf(context.active()),
    note(name, below, startedAtMs, attributes) {
      const parent = propagation.extract(ROOT_CONTEXT, { traceparent: below })
      const span = spans.startSpan(name, { startTime: startedAtMs, attributes }, parent)
      span.end()
      return placeOf(trace.setSpan(parent, span)) ?? below
    },
    label: (attributes) => void trace.getActiveSpan()?.setAttributes(attributes),
    close: () => provider.shutdown(),
  }
}

/** The id of a new trace: that of its request without the dashes, or a random one outside of requests. */
function traceIdOfRequest(): string {
  return currentScope().request_id?.replaceAll('-', '') ?? randomIds().generateTraceId()
}

function randomIds() {
  const { generateTraceId, generateSpanId } = new RandomIdGenerator()
  return { generateTraceId, generateSpanId }
}

/**
 * A sampler by which only requests begin traces, a share `ratio` of them: workers poll, and each poll would
 * be a trace of its own.
 */
function sampleRequests(ratio: number): Sampler {
  const chosen = new TraceIdRatioBasedSampler(ratio)
  return {
    shouldSample: (parent, traceId, _name, kind) =>
      kind === SpanKind.SERVER
        ? chosen.shouldSample(parent, traceId)
        : { decision: SamplingDecision.NOT_RECORD },
    toString: () => `requests, ${ratio} of them`,
  }
}

/** An exporter over HTTP (OTLP) that sends of each span only what onlySentParts() leaves. */
function openExporter(): OTLPTraceExporter {
  const exporter = new OTLPTraceExporter()
  const send = exporter.export.bind(exporter)
  exporter.export = (spans, done) => send(spans.map(onlySentParts), done)
  return exporter
}

/**
 * Returns a span with SENT_ATTRIBUTES only, and without its events: these are errors, whose messages may hold
 * anything.
 */
function onlySentParts(span: ReadableSpan): ReadableSpan {
  const attributes = Object.fromEntries(
    Object.entries(span.attributes).filter(([name]) => SENT_ATTRIBUTES.has(name)),
  )
  return Object.create(span, {
    attributes: { value: attributes },
    events: { value: [] },
    status: { value: { code: span.status.code } },
  }) as ReadableSpan
}
