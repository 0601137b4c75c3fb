import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FILE_VARIABLES, mayRead, VARIABLE_NAMES, type Part } from '../../shared/platform/config.ts'
import { QUEUE_NAMES, type QueueName } from '../../shared/platform/queue-table.ts'
import { lackingRights } from '../support/access.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const UNITS = path.join(ROOT, 'deploy/systemd')
const services = fs.readdirSync(UNITS).filter((name) => name.endsWith('.service'))
const read = (name: string) => fs.readFileSync(path.join(UNITS, name), 'utf8')
const common = read('agent-network-.service.d/10-common.conf')
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

let folder: string
beforeAll(() => {
  // As they would be installed, but for the folder of the program, which is this one.
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'units-'))
  fs.cpSync(UNITS, folder, { recursive: true })
  for (const name of services) {
    const text = read(name).replaceAll('/opt/agent-network/node_modules/.bin/node', process.execPath)
    fs.writeFileSync(path.join(folder, name.replace('@', '@3000')), text)
  }
})
afterAll(() => fs.rmSync(folder, { recursive: true }))

const analyze = (...args: string[]) =>
  spawnSync('systemd-analyze', args, {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], SYSTEMD_UNIT_PATH: `${folder}:` },
  })

describe('the units of deploy/systemd (without systemd-analyze two of these are skipped)', () => {
  it.skipIf(!hasSystemd)('are taken by systemd-analyze verify without a word', () => {
    const files = services.map((name) => path.join(folder, name.replace('@', '@3000')))
    const { stderr } = analyze('verify', '--man=no', ...files)
    expect(stderr.split('\n').filter((line) => line.includes('agent-network'))).toEqual([])
  })

  it.skipIf(!hasSystemd)('leave a service less than systemd itself calls medium exposure', () => {
    for (const name of ['agent-network-signer.service', 'agent-network-api@3000.service']) {
      const { status, stdout } = analyze(
        'security',
        '--offline=true',
        '--threshold=30',
        '--no-pager',
        path.join(folder, name),
      )
      expect(status, stdout).toBe(0)
    }
  })

  it('serve every queue, each in one service', () => {
    const served = services.flatMap((name) => /--queues (\S+)/.exec(read(name))?.[1]?.split(',') ?? [])
    expect(served.toSorted()).toEqual([...QUEUE_NAMES].toSorted())
  })

  it('have a user of MongoDB that may write whatever their queues write', () => {
    for (const name of services.filter((one) => read(one).includes('--queues'))) {
      const queues = /--queues (\S+)/.exec(read(name))?.[1]?.split(',') as QueueName[]
      const user = /^LoadCredential=mongodb_url:.*mongodb_url_(\w+)$/m.exec(read(name))?.[1] ?? ''
      expect([name, lackingRights(user, queues)]).toEqual([name, []])
    }
  })

  it('name settings that there are, and hand a secret only to who may read it, as a credential', () => {
    for (const name of services) {
      const text = `${common}\n${read(name)}`
      const part: Part = text.includes('api/main.ts')
        ? 'api'
        : name.includes('doorbells')
          ? 'doorbells'
          : 'workers'
      const variables = [...text.matchAll(/^Environment=(.*)$/gm)].flatMap(([, line = '']) => line.split(' '))
      for (const variable of variables) {
        const [given = '', value = ''] = variable.split('=')
        const setting = FILE_VARIABLES.get(given) ?? VARIABLE_NAMES.find((one) => one === given)
        expect(setting, `${name}: ${given}`).toBeDefined()
        if (setting !== undefined) expect(mayRead(setting, part), `${name}: ${given}`).toBe(true)
        const [, credential] = /^%d\/(\w+)$/.exec(value) ?? []
        if (FILE_VARIABLES.has(given)) expect(credential, `${name}: ${given}`).toBeDefined()
        if (credential !== undefined) expect(text).toContain(`LoadCredential=${credential}:`)
      }
    }
  })

  it("hand the operator's token to the service with the operator's port alone", () => {
    const holders = services.filter((name) => `${common}\n${read(name)}`.includes('operator_token'))
    expect(holders).toEqual(['agent-network-operator.service'])
  })
})
