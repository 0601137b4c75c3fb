import { execFile, spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { startTracing } from '../../shared/platform/start-tracing.ts'
import { setTracer } from '../../shared/platform/tracing.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService } from '../support/service.ts'

/* Programs that an operator's machine runs, built from Go's module proxy. */

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const LIMIT = { limitMs: PATIENCE_MS }
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'operator-programs-'))
afterAll(() => fs.rmSync(folder, { recursive: true }))

async function build(name: string): Promise<string> {
  const binary = path.join(folder, name)
  await run('go', ['build', '-o', binary, '.'], { cwd: path.join(ROOT, 'test/interop', name) })
  return binary
}

describe("docker-compose.yml, loaded by Docker Compose's own library", () => {
  it('is a project whose services all have limits, a check of their health and no right too many', async () => {
    const { stdout } = await run(await build('go-compose'), ['docker-compose.yml'], { cwd: ROOT })
    const { services } = JSON.parse(stdout) as {
      services: Record<string, { cap_drop: string[]; read_only: boolean; profiles?: string[] } & object>
    }
    expect(Object.keys(services)).toEqual(
      expect.arrayContaining(['api', 'wallet', 'nano', 'monerod', 'redis']),
    )
    for (const [name, service] of Object.entries(services)) {
      expect(service, name).toMatchObject({ cap_drop: ['ALL'], read_only: true })
      for (const limit of ['mem_limit', 'pids_limit', 'cpus']) expect(service, name).toHaveProperty(limit)
      if (name !== 'mongo-init') expect(service, name).toHaveProperty('healthcheck.test')
    }
  }, 600_000)
})

interface Span {
  trace: string
  id: string
  parent: string
  name: string
}

describe('a collector of OpenTelemetry', () => {
  let said = ''
  let stop: () => Promise<void>
  let endpoint: string
  beforeAll(async () => {
    const binary = await build('go-collector')
    const port = await findFreePort()
    endpoint = `http://127.0.0.1:${port}`
    const config = path.join(folder, 'collector.yaml')
    fs.writeFileSync(
      config,
      `receivers: { otlp: { protocols: { http: { endpoint: '127.0.0.1:${port}' } } } }
exporters: { debug: { verbosity: detailed } }
service:
  telemetry: { metrics: { level: none } }
  pipelines: { traces: { receivers: [otlp], exporters: [debug] } }
`,
    )
    const child = spawn(binary, [config], { stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (part: Buffer) => (said += part.toString()))
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    stop = () => (child.kill(), ended)
    await waitFor('the collector', () => (said.includes('Everything is ready') ? true : undefined), LIMIT)
  }, 900_000)
  afterAll(() => stop?.())

  const readSpans = (): Span[] =>
    [...said.matchAll(/Trace ID\s*: (\w+)\s+Parent ID\s*: (\w*)\s+ID\s*: (\w+)\s+Name\s*: (.+)/g)].map(
      ([, trace = '', parent = '', id = '', name = '']) => ({ trace, parent, id, name: name.trim() }),
    )

  it('gets one trace of five spans for a post: request, commit, job, entry, seal', async () => {
    process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = endpoint
    const tracer = await startTracing(process.env, 'api')
    delete process.env['OTEL_EXPORTER_OTLP_ENDPOINT']
    const service = await startService()
    try {
      const { token } = await service.registerWithPass()
      const { headers } = await service.call('POST', '/post', { token, body: { body: 'traced' } })
      const trace = String(headers.get('x-request-id')).replaceAll('-', '')
      const own = () => readSpans().filter((span) => span.trace === trace)
      const isThere = (name: string) => () => (own().some((span) => span.name === name) ? true : undefined)
      await waitFor('the entry', isThere('entry'), LIMIT)
      await service.ctx.queues.enqueue('make-seal', {})
      await waitFor('the seal', isThere('seal'), LIMIT)
      const names = ['POST /api/v1/post', 'commit posts', 'entry', 'process sequence', 'seal']
      expect(
        own()
          .map(({ name }) => name)
          .sort(),
      ).toEqual(names)
      const ids = new Set(own().map(({ id }) => id))
      expect(
        own()
          .filter(({ parent }) => !ids.has(parent))
          .map(({ name }) => name),
      ).toEqual([names[0]])
    } finally {
      setTracer(undefined)
      await service.stop()
      await tracer?.close()
    }
  }, 120_000)
})
