import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { findFreePort, reservePorts } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startProcess, type RunningProcess } from '../support/processes.ts'
import { startProvisioned } from '../support/provisioned.ts'

/*
 * deploy/kubernetes: built by kustomize and checked by kubeconform against the schemas of Kubernetes and KEDA, all
 * from Go's module proxy; then each workload's very command, environment, files and probes as processes here.
 */

vi.setConfig({ testTimeout: 300_000, hookTimeout: 900_000 })
const run = promisify(execFile)
const OVERLAYS = fileURLToPath(new URL('../../deploy/kubernetes/', import.meta.url))
/** The newest versions that Go 1.26 builds, and what their schemas are of. */
const KUSTOMIZE = 'sigs.k8s.io/kustomize/kustomize/v5@v5.7.1'
const KUBECONFORM = 'github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0'
const KUBERNETES = 'k8s.io/kubernetes@v1.37.2'
const KEDA = 'github.com/kedacore/keda/v2@v2.21.0'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'kubernetes-'))
const inFolder = (...names: string[]): string => path.join(folder, ...names)
const processes: RunningProcess[] = []
let stopServers: (() => Promise<void>) | undefined
afterAll(async () => {
  await Promise.all(processes.map((one) => one.stop()))
  await stopServers?.()
  fs.rmSync(folder, { recursive: true })
})

beforeAll(async () => {
  const env = { ...process.env, GOBIN: folder, GOFLAGS: '' }
  for (const program of [KUSTOMIZE, KUBECONFORM]) await run('go', ['install', program], { env })
  const folderOf = async (module: string): Promise<string> => {
    const { stdout } = await run('go', ['mod', 'download', '-json', module], { env, cwd: folder })
    return (JSON.parse(stdout) as { Dir: string }).Dir
  }
  fs.mkdirSync(inFolder('schemas'))
  const api = path.join(await folderOf(KUBERNETES), 'api/openapi-spec/swagger.json')
  writeSchemas((JSON.parse(fs.readFileSync(api, 'utf8')) as { definitions: Definitions }).definitions)
  const crd = path.join(await folderOf(KEDA), 'config/crd/bases/keda.sh_scaledobjects.yaml')
  const { spec } = parse(fs.readFileSync(crd, 'utf8')) as {
    spec: { versions: { schema: { openAPIV3Schema: Schema } }[] }
  }
  writeSchema('scaledobject-keda-v1alpha1', spec.versions[0]?.schema.openAPIV3Schema ?? {})
  await startServers()
})

type Schema = { [key: string]: unknown; $ref?: string; properties?: Record<string, Schema> }
type Kind = { group: string; version: string; kind: string }
type Definitions = Record<string, Schema & { 'x-kubernetes-group-version-kind'?: Kind[] }>

const writeSchema = (name: string, schema: Schema): void =>
  fs.writeFileSync(inFolder('schemas', `${name}.json`), JSON.stringify(schema))

/** Writes a schema for each kind, in which a field that Kubernetes doesn't know is an error. */
function writeSchemas(definitions: Definitions): void {
  const whole = (schema: unknown, above: readonly string[]): unknown => {
    if (Array.isArray(schema)) return schema.map((one) => whole(one, above))
    if (typeof schema !== 'object' || schema === null) return schema
    const { $ref } = schema as Schema
    const name = $ref?.replace('#/definitions/', '')
    if (name !== undefined) {
      if (/\.(IntOrString|Quantity)$/.test(name)) return { type: ['string', 'integer', 'number'] }
      return above.includes(name) ? {} : whole(definitions[name], [...above, name])
    }
    const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, whole(value, above)]))
    return 'properties' in copy ? { additionalProperties: false, ...copy } : copy
  }
  for (const [name, definition] of Object.entries(definitions))
    for (const { group, version, kind } of definition['x-kubernetes-group-version-kind'] ?? [])
      if (/^(apps|batch|policy|networking\.k8s\.io|)$/.test(group) && !kind.endsWith('List')) {
        const file = [kind, ...(group === '' ? [] : [group.split('.')[0]]), version].join('-').toLowerCase()
        writeSchema(file, whole(definition, [name]) as Schema)
      }
}

interface Variable {
  name: string
  value: string
}
interface Probe {
  httpGet: { path: string; port: string }
}
interface Workload {
  kind: string
  metadata: { name: string }
  data?: Record<string, string>
  spec: {
    template: {
      spec: {
        containers: {
          command: string[]
          env: Variable[]
          image: string
          ports: { name: string; containerPort: number }[]
          startupProbe: Probe
          readinessProbe: Probe
        }[]
        volumes: { name: string; secret?: { items: { key: string; path: string }[] } }[]
      }
    }
  }
}

async function build(overlay: string): Promise<{ text: string; documents: Workload[] }> {
  const { stdout } = await run(inFolder('kustomize'), ['build', path.join(OVERLAYS, overlay)])
  return {
    text: stdout,
    documents: parseAllDocuments(stdout).map((document) => document.toJS() as Workload),
  }
}

describe('deploy/kubernetes', () => {
  it.each(['base', 'small', 'autoscaled'])(
    '%s is what Kubernetes and KEDA know, field by field',
    async (name) => {
      const { text } = await build(name)
      fs.writeFileSync(inFolder(`${name}.yaml`), text)
      const schemas = inFolder('schemas', '{{.ResourceKind}}{{.KindSuffix}}.json')
      const args = ['-strict', '-summary', '-schema-location', schemas]
      const { stdout } = await run(inFolder('kubeconform'), [
        ...args,
        inFolder(`${name}.yaml`),
        path.join(OVERLAYS, 'first-start.yaml'),
      ])
      expect(stdout).toMatch(/Valid: [1-9]\d*, Invalid: 0, Errors: 0, Skipped: 0/)
      // A misspelt field is found.
      fs.writeFileSync(inFolder('wrong.yaml'), text.replace('automountServiceAccountToken', 'automountToken'))
      await expect(run(inFolder('kubeconform'), [...args, inFolder('wrong.yaml')])).rejects.toThrow()
    },
  )

  it('starts processes that become ready, serve every queue between them, and end when they are told to', async () => {
    const { documents } = await build('base')
    const workloads = documents.filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
    const settings = documents.find(({ kind }) => kind === 'ConfigMap')?.data ?? {}
    const operator = await findFreePort()
    const started = new Map<string, RunningProcess>()
    const probes: { name: string; url: string }[] = []
    for (const workload of workloads) {
      const { containers, volumes } = workload.spec.template.spec
      const [container] = containers
      const { name } = workload.metadata
      if (container === undefined) throw new Error(`${name} has no container`)
      const secrets = mountSecrets(name, volumes.find((one) => one.secret !== undefined)?.secret?.items ?? [])
      const [metrics, port] = await reservePorts(2)
      const env: Record<string, string> = { ...settings }
      for (const { name: variable, value } of container.env)
        env[variable] = value
          .replace('/run/secrets', secrets)
          .replace('/var/lib/agent-network', inFolder('volumes'))
      // Beside each other, and on loopback alone; in all else as in a pod.
      Object.assign(env, { HOST: '127.0.0.1', OPERATOR_HOST: '127.0.0.1', METRICS_PORT: String(metrics) })
      env['PORT'] = String(port)
      if (env['OPERATOR_PORT'] !== undefined) env['OPERATOR_PORT'] = String(operator)
      const [program, script = '', ...args] = container.command
      expect(program).toBe('node')
      const child = startProcess(script, { ...env, NODE_ENV: 'production' }, args)
      processes.push(child)
      started.set(name, child)
      for (const { httpGet } of [container.startupProbe, container.readinessProbe]) {
        expect(httpGet.port).toBe('metrics')
        probes.push({ name, url: `http://127.0.0.1:${metrics}${httpGet.path}` })
      }
    }
    for (const { name, url } of probes)
      await waitFor(`${url} of ${name}`, () => isOk(url), { limitMs: PATIENCE_MS }).catch(
        (error: unknown) => {
          throw new Error(`${name} is not ready:\n${started.get(name)?.logged()}`, { cause: error })
        },
      )
    const token = fs.readFileSync(inFolder('secrets', 'metrics_token'), 'utf8')
    await waitFor(
      'a worker of each queue',
      async () => {
        const answer = await fetch(`http://127.0.0.1:${operator}/metrics`, {
          headers: { authorization: `Bearer ${token}` },
        })
        const text = await answer.text()
        const served = [...text.matchAll(/^agent_network_queue_workers\{queue="([^"]+)"\} [1-9]/gm)]
        // Without a node and a wallet the queues of the coins have none, and doorbells are off.
        const needed = QUEUE_NAMES.filter((name) => !/nano|monero|doorbells|find-rings/.test(name))
        return needed.every((name) => served.some(([, queue]) => queue === name)) || undefined
      },
      { limitMs: PATIENCE_MS },
    )
    for (const [name, child] of started) {
      child.kill('SIGTERM')
      expect([name, await child.ended]).toEqual([name, 0])
    }
  })
})

const isOk = (url: string): Promise<true | undefined> =>
  fetch(url).then(
    ({ ok }) => (ok ? true : undefined),
    () => undefined,
  )

/** What the steps of deploy/kubernetes/README.md put into the cluster's Secret, and servers for it. */
async function startServers(): Promise<void> {
  const secrets = inFolder('secrets')
  fs.mkdirSync(secrets)
  stopServers = await startProvisioned(secrets)
  for (const name of ['operator_token', 'metrics_token', 'challenge_secret'])
    fs.writeFileSync(path.join(secrets, name), randomBytes(32).toString('hex'))
  fs.writeFileSync(path.join(secrets, 'monero_wallet_rpc_url'), '')
  for (const name of ['seal', 'wallet']) fs.mkdirSync(inFolder('volumes', name), { recursive: true })
  ensureSealKey(path.join(secrets, 'seal_key'))
  const memory = fs.readdirSync(secrets).find((name) => /^seal.memory$/.test(name)) ?? 'seal-memory'
  fs.renameSync(path.join(secrets, memory), inFolder('volumes', 'seal', 'seal-memory'))
  fs.writeFileSync(inFolder('volumes', 'wallet', 'nano-seed'), randomBytes(32).toString('hex'), {
    mode: 0o600,
  })
}

/** Lays the secrets of a pod out as Kubernetes mounts them: links to files that the group may read. */
function mountSecrets(pod: string, items: readonly { key: string; path: string }[]): string {
  const mounted = inFolder('pods', pod)
  fs.mkdirSync(path.join(mounted, '..2026'), { recursive: true })
  fs.symlinkSync('..2026', path.join(mounted, '..data'))
  for (const { key, path: name } of items) {
    const file = path.join(mounted, '..2026', name)
    fs.copyFileSync(inFolder('secrets', key), file)
    fs.chmodSync(file, 0o440)
    fs.symlinkSync(path.join('..data', name), path.join(mounted, name))
  }
  return mounted
}
