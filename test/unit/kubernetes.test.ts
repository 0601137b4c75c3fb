import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { FILE_VARIABLES, mayRead, VARIABLE_NAMES, type Part } from '../../shared/platform/config.ts'
import { assertPrivate } from '../../shared/platform/private-file.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../shared/platform/queue-table.ts'
import { lackingRights } from '../support/access.ts'

/*
 * What the files of deploy/kubernetes/base promise as they lie there. Whether Kubernetes takes them, and whether
 * what they start runs, is in test/faults/kubernetes.test.ts.
 */

interface Variable {
  name: string
  value: string
}
interface Workload {
  kind: string
  metadata: { name: string }
  spec: {
    replicas: number
    template: {
      spec: {
        containers: { command: string[]; env?: Variable[] }[]
        volumes: { name: string; secret?: { defaultMode: number; items: { key: string; path: string }[] } }[]
      }
    }
  }
}

const BASE = path.resolve(import.meta.dirname, '../../deploy/kubernetes/base')
const documents = fs
  .readdirSync(BASE)
  .flatMap((name) => parseAllDocuments(fs.readFileSync(path.join(BASE, name), 'utf8'), { version: '1.1' }))
  .map((document) => document.toJS() as Workload)
const named = (kind: string): string[] =>
  documents.filter((one) => one.kind === kind).map((one) => one.metadata.name)
const workloads = documents
  .filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
  .map((workload) => {
    const { containers, volumes } = workload.spec.template.spec
    const { command = [], env = [] } = containers[0] ?? {}
    const queues = (command[3]?.split(',') ?? []) as QueueName[]
    const isOfDoorbells = queues.some((queue) => queueRow(queue).pool === 'doorbells')
    const part: Part = command[1] === 'api/main.ts' ? 'api' : isOfDoorbells ? 'doorbells' : 'workers'
    return {
      name: workload.metadata.name,
      workload,
      env,
      part,
      queues,
      secrets: volumes.find(({ name }) => name === 'secrets')?.secret,
    }
  })

describe('the workloads of deploy/kubernetes', () => {
  it('serve every queue, each in one of them', () => {
    expect(workloads.flatMap(({ queues }) => queues).toSorted()).toEqual([...QUEUE_NAMES].toSorted())
  })

  it('have a user of MongoDB that may write whatever their queues write', () => {
    for (const { name, queues, secrets } of workloads) {
      const url = secrets?.items.find((item) => item.path === 'mongodb_url')?.key
      expect([name, lackingRights(url?.replace('mongodb_url_', '') ?? '', queues)]).toEqual([name, []])
    }
  })

  it('name settings that there are, and get those secrets alone that they may read and have a setting for', () => {
    const common = documents.find(({ metadata }) => metadata?.name === 'any')?.spec.template.spec
      .containers[0]
    for (const { name, env, part, secrets } of workloads) {
      const variables = [...(common?.env ?? []), ...env]
      for (const variable of variables) {
        const setting =
          FILE_VARIABLES.get(variable.name) ?? VARIABLE_NAMES.find((one) => one === variable.name)
        expect(setting, `${name}: ${variable.name}`).toBeDefined()
        if (setting !== undefined) expect(mayRead(setting, part), `${name}: ${variable.name}`).toBe(true)
      }
      const given = secrets?.items.map((item) => `/run/secrets/${item.path}`).toSorted()
      const asked = variables
        .filter(({ value }) => value.startsWith('/run/secrets/'))
        .map(({ value }) => value)
      expect([name, given]).toEqual([name, asked.toSorted()])
      expect([name, secrets?.defaultMode]).toEqual([name, 0o440])
    }
  })

  it('keep keys in sets of one, and may be drained: no budget stands before a single process', () => {
    expect(named('StatefulSet').toSorted()).toEqual(['doorbells', 'signer', 'wallet'])
    for (const { name, workload, env } of workloads) {
      const holdsKey = env.some(({ name: variable }) =>
        /^(SEAL_KEY|NANO_SEED|DOORBELL_KEY)_FILE$/.test(variable),
      )
      expect([name, holdsKey]).toEqual([name, workload.kind === 'StatefulSet'])
      // Doorbells are off until the operator wants them.
      if (holdsKey) expect(workload.spec.replicas).toBe(name === 'doorbells' ? 0 : 1)
      if (named('PodDisruptionBudget').includes(name)) expect(workload.spec.replicas).toBeGreaterThan(1)
    }
  })
})

describe('a file with a secret', () => {
  let folder: string
  beforeAll(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'secret-volume-'))
    for (const [name, mode] of [
      ['read', 0o440],
      ['written', 0o460],
      ['open', 0o444],
    ] as const) {
      fs.writeFileSync(path.join(folder, name), 'secret')
      fs.chmodSync(path.join(folder, name), mode)
    }
  })
  afterAll(() => fs.rmSync(folder, { recursive: true }))
  const check = (name: string) => () => assertPrivate('SEAL_KEY_FILE', path.join(folder, name))

  it('may be read by its group if Kubernetes hands it in, and by nobody else', () => {
    expect(check('read')).toThrow('mode 440')
    fs.symlinkSync('.', path.join(folder, '..data'))
    expect(check('read')).not.toThrow()
    expect(check('written')).toThrow('mode 460')
    expect(check('open')).toThrow('mode 444')
    // Of a group that this process is not in.
    if (process.getuid?.() !== 0) return
    fs.chownSync(path.join(folder, 'read'), 0, 54_321)
    expect(check('read')).toThrow('mode 440')
  })
})
