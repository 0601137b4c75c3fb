import { ConfigError, type Part } from './config.ts'
import { setTracer, type Tracer } from './tracing.ts'

/**
 * Loads OpenTelemetry and makes its tracer this process's. Its settings are OpenTelemetry's own variables, most
 * of which its library reads from the environment itself.
 *
 * @param env has to be the environment of this process
 * @returns the tracer; undefined, with nothing loaded, unless OTEL_EXPORTER_OTLP_ENDPOINT is set
 * @throws ConfigError for what the library would silently replace by a default
 */
export async function startTracing(env: NodeJS.ProcessEnv, part: Part): Promise<Tracer | undefined> {
  const endpoint = env['OTEL_EXPORTER_OTLP_ENDPOINT']
  if (!endpoint) return undefined
  const ratio = Number(env['OTEL_TRACES_SAMPLER_ARG'] || '1')
  const problems: string[] = []
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    problems.push('OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL that begins with http:// or https://')
  if (!(ratio >= 0 && ratio <= 1)) problems.push('OTEL_TRACES_SAMPLER_ARG: expected a share from 0 to 1')
  if (problems.length > 0) throw new ConfigError(problems)
  const { openOtel } = await import('./otel.ts')
  const tracer = openOtel(part, ratio)
  setTracer(tracer)
  return tracer
}
