import { describe, expect, it } from 'vitest'
import { startTracing } from '../../shared/platform/start-tracing.ts'

describe('startTracing', () => {
  it('starts nothing without an address to send to', async () => {
    for (const OTEL_EXPORTER_OTLP_ENDPOINT of [undefined, ''])
      expect(await startTracing({ OTEL_EXPORTER_OTLP_ENDPOINT }, 'api')).toBeUndefined()
  })

  it.each(['127.0.0.1:4318', 'grpc://secret@collector', 'secret'])(
    'refuses an address that OpenTelemetry would silently replace, without telling it: %s',
    async (OTEL_EXPORTER_OTLP_ENDPOINT) => {
      const started = startTracing({ OTEL_EXPORTER_OTLP_ENDPOINT }, 'api')
      await expect(started).rejects.toThrow(/OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL/)
      await expect(started).rejects.not.toThrow(/secret|4318/)
    },
  )

  it.each(['all', '1.5', '-0.1'])('refuses %s as the share of requests that are traced', async (share) => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_TRACES_SAMPLER_ARG: share }
    await expect(startTracing(env, 'api')).rejects.toThrow(/OTEL_TRACES_SAMPLER_ARG: expected a share/)
  })
})
