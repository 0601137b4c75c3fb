import { ConfigError, type Part } from './config.ts'
import { setTracer, type Tracer } from './tracing.ts'

/**
 * Reads what we need of OpenTelemetry's own variables; its library reads the others from the environment itself.
 *
 * @returns of which share of the requests traces are sent; undefined unless OTEL_EXPORTER_OTLP_ENDPOINT is set
 * @throws ConfigError for what the library would silently replace by a default
 */
export function readTracedShare(env: NodeJS.ProcessEnv): number | undefined {
  const endpoint = env['OTEL_EXPORTER_OTLP_ENDPOINT']
  if (!endpoint) return undefined
  const share = Number(env['OTEL_TRACES_SAMPLER_ARG'] || '1')
  const problems: string[] = []
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    problems.push('OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL that begins with http:// or https://')
  if (!(share >= 0 && share <= 1)) problems.push('OTEL_TRACES_SAMPLER_ARG: expected a share from 0 to 1')
  if (problems.length > 0) throw new ConfigError(problems)
  return share
}

/**
 * Loads OpenTelemetry and makes its tracer this process's.
 *
 * @param env has to be the environment of this process
 * @returns the tracer; undefined, with nothing loaded, if no traces are sent
 * @throws ConfigError: see readTracedShare()
 */
export async function startTracing(env: NodeJS.ProcessEnv, part: Part): Promise<Tracer | undefined> {
  const share = readTracedShare(env)
  if (share === undefined) return undefined
  const { openOtel } = await import('./otel.ts')
  const tracer = openOtel(part, share)
  setTracer(tracer)
  return tracer
}
