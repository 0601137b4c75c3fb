import type { Config, Part } from './config.ts'
import { setTracer, type Tracer } from './tracing.ts'

/**
 * Loads OpenTelemetry and makes its tracer this process's.
 *
 * @returns the tracer; undefined, with nothing loaded, unless OTEL_EXPORTER_OTLP_ENDPOINT is set
 */
export async function startTracing({ tracing, secrets }: Config, part: Part): Promise<Tracer | undefined> {
  if (tracing === undefined) return undefined
  const { openOtel } = await import('./otel.ts')
  const tracer = openOtel(part, { ...tracing, headers: readHeaders(secrets.otlpHeaders) })
  setTracer(tracer)
  return tracer
}

/**
 * Parses `name=value,name=value`, whose values are percent-encoded.
 *
 * @throws URIError if one can't be decoded
 */
function readHeaders(text = ''): Record<string, string> {
  const pairs = text.split(',').map((pair) => pair.trim().split(/=(.*)/s, 2))
  return Object.fromEntries(
    pairs.flatMap(([name = '', value = '']) => (name === '' ? [] : [[name, decodeURIComponent(value)]])),
  )
}
