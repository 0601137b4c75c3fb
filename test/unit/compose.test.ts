import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import {
  FILE_VARIABLES,
  mayRead,
  readConfig,
  VARIABLE_NAMES,
  type Config,
  type Part,
  type VariableName,
} from '../../shared/platform/config.ts'
import { IDLE_DRAIN_MS, STOP_LIMIT_MS } from '../../shared/platform/limits.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../shared/platform/queue-table.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { servedQueues } from '../../workers/worker-context.ts'
import { lackingRights } from '../support/access.ts'

/*
 * What docker-compose.yml and the Dockerfile promise, beyond their form, which Docker Compose's own library
 * checks in test/faults/operator-programs.test.ts.
 */

interface Service {
  image: string
  build?: unknown
  user: string
  command?: string[]
  environment?: Record<string, string>
  secrets?: { source: string; uid: string; gid: string; mode: number }[]
  volumes?: string[]
  networks: string[]
  profiles?: string[]
  ports?: string[]
  tmpfs?: string[]
  deploy?: { replicas: number }
  depends_on?: Record<string, { condition: string }>
  healthcheck?: unknown
  stop_grace_period?: string
  read_only?: boolean
  cap_drop?: string[]
  cap_add?: string[]
  security_opt?: string[]
  ulimits?: { core: number; nofile: { soft: number } }
  mem_limit?: string
  pids_limit?: number
  cpus?: number
}

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (name: string) => fs.readFileSync(path.join(ROOT, name), 'utf8')
const input = { compose: read('docker-compose.yml'), dockerfile: read('Dockerfile') }
const { services, networks } = parse(input.compose, { merge: true, uniqueKeys: true }) as {
  services: Record<string, Service>
  networks: Record<string, { internal?: boolean }>
}
const all = Object.entries(services)
const api = services['api']
const queuesOf = ({ command = [] }: Service): QueueName[] => {
  const at = command.indexOf('--queues')
  return (at === -1 ? [] : (command[at + 1] ?? '').split(',')) as QueueName[]
}
/** Those of our own image that run a part of the network, with that part. */
const parts = all.flatMap(([name, service]) => {
  const part = { 'api/main.ts': 'api', 'workers/main.ts': 'workers' }[service.command?.[1] ?? ''] as
    Part | undefined
  if (part === undefined) return []
  const isOfDoorbells = queuesOf(service).some((queue) => queueRow(queue).pool === 'doorbells')
  const environment = service.environment ?? {}
  return [{ name, service, part: isOfDoorbells ? ('doorbells' as const) : part, environment }]
})

/** Whether an image's name ends in a digest, or in a tag with a version. */
const isPinned = (image: string): boolean => /@sha256:[0-9a-f]{64}$|:[^:/]*\d+\.\d+[^:/]*$/.test(image)
/** Contents of the files that are handed in. */
const STAND_INS: Partial<Record<VariableName, string>> = {
  OPERATOR_TOKEN: 'x'.repeat(32),
  METRICS_TOKEN: 'm'.repeat(32),
  CHALLENGE_SECRET: 'c0'.repeat(32),
  MONGODB_URL: 'mongodb://mongo/x',
  REDIS_URL: 'redis://redis',
  MONERO_WALLET_RPC_URL: '',
}

/** The settings as the container gets them if nothing is set on the host. */
function settingsOf({ environment, part }: (typeof parts)[number]): Config {
  const env = Object.entries(environment).map(([name, value]) => {
    const meant = FILE_VARIABLES.get(name)
    // `${NAME:-default}` as Compose reads it if NAME is not set.
    const given = value.replace(/\$\{\w+(?::-([^}]*))?\}/g, (_, fallback: string = '') => fallback)
    return meant === undefined ? [name, given] : [meant, STAND_INS[meant]]
  })
  return readConfig(Object.fromEntries(env) as NodeJS.ProcessEnv, part)
}

describe('each service', () => {
  it.each(all)(
    '%s has no right that it does not need, and takes no more than its share of the host',
    (_, service) => {
      const { user, read_only: isReadOnly, cap_drop: dropped, cap_add: added } = service
      expect(user).toMatch(/^[1-9]\d*:[1-9]\d*$/)
      expect({ isReadOnly, dropped, added }).toEqual({ isReadOnly: true, dropped: ['ALL'], added: undefined })
      expect(service.security_opt).toContain('no-new-privileges:true')
      expect(service.tmpfs?.some((mount) => mount.startsWith('/tmp'))).toBe(true)
      expect(service.ulimits).toMatchObject({ core: 0 })
      expect(service.ulimits?.nofile.soft).toBeGreaterThanOrEqual(1_024)
      expect([service.mem_limit, service.pids_limit, service.cpus]).not.toContain(undefined)
      expect(service.build !== undefined || isPinned(service.image)).toBe(true)
      for (const { uid, gid, mode } of service.secrets ?? [])
        expect([`${uid}:${gid}`, mode]).toEqual([user, 0o400])
    },
  )

  it.each(all)(
    '%s is watched, has the time that it needs to stop, and can be scaled or says that it is one',
    (name, service) => {
      const isOneShot = all.some(
        ([, { depends_on: needs }]) => needs?.[name]?.condition === 'service_completed_successfully',
      )
      if (!isOneShot) expect([service.healthcheck, service.stop_grace_period]).not.toContain(undefined)
      if (service.deploy?.replicas !== 1)
        for (const port of service.ports ?? []) expect(port).toMatch(/\d+-\d+:\d+$/)
      if (service.ports !== undefined)
        expect(service.networks.some((network) => networks[network]?.internal !== true)).toBe(true)
    },
  )
})

describe('each part of the network', () => {
  it.each(parts)('$name gets settings that it may read and can use, and its secrets', (one) => {
    const { service, part, environment } = one
    const { drainMs } = settingsOf(one)
    const stopMs = Number(/^(\d+)s$/.exec(service.stop_grace_period ?? '')?.[1]) * SECOND_MS
    expect(stopMs).toBeGreaterThan(drainMs + IDLE_DRAIN_MS + STOP_LIMIT_MS)
    for (const [name, value] of Object.entries(environment)) {
      // OpenTelemetry's library reads these itself.
      if (name.startsWith('OTEL_')) continue
      const meant = FILE_VARIABLES.get(name) ?? VARIABLE_NAMES.find((known) => known === name)
      expect(meant !== undefined && mayRead(meant, part), name).toBe(true)
      const secret = /^\/run\/secrets\/(.+)$/.exec(value)?.[1]
      if (secret !== undefined)
        expect(
          service.secrets?.map(({ source }) => source),
          name,
        ).toContain(secret)
    }
  })

  it('serves each queue in some service, and can: keys, rights and what is written beside them are there', () => {
    const served = parts.flatMap(({ service }) => queuesOf(service))
    expect(served.toSorted()).toEqual([...QUEUE_NAMES].sort())
    for (const one of parts.filter(({ part }) => part !== 'api')) {
      const names = queuesOf(one.service)
      expect(names, one.name).not.toEqual([])
      // Coins and doorbells need settings of the operator, without which their queues stay empty.
      const needed = names.filter((name) => queueRow(name).pool !== 'payments' && name !== 'find-rings')
      expect(servedQueues(settingsOf(one), needed)).toEqual(needed)
      const user = /mongodb_url_(\w+)$/.exec(one.environment['MONGODB_URL_FILE'] ?? '')?.[1] ?? ''
      expect(lackingRights(user, names), `its user ${user} may write what ${one.name} writes`).toEqual([])
      for (const written of ['SEAL_MEMORY_FILE', 'NANO_SEED_FILE', 'DOORBELL_KEY_FILE']) {
        const file = one.environment[written]
        if (file === undefined) continue
        const folders = one.service.volumes?.filter((volume) => !volume.endsWith(':ro'))
        expect(folders?.map((volume) => volume.split(':')[1])).toContain(path.dirname(file))
      }
    }
  })
})

describe('doorbells', () => {
  const doorbells = parts.filter(({ part }) => part === 'doorbells')

  it('are rung by one service that is off by itself and has no secret but its own', () => {
    expect(doorbells.map(({ name }) => name)).toEqual(['doorbells'])
    const { service } = doorbells[0]!
    expect(service.profiles).toEqual(['doorbells'])
    expect(service.secrets?.map(({ source }) => source).toSorted()).toEqual([
      'metrics_token',
      'mongodb_url_doorbells',
      'redis_url_doorbells',
    ])
  })

  it('share a network with MongoDB and Redis alone', () => {
    for (const network of doorbells[0]?.service.networks ?? []) {
      const others = all.filter(([name, one]) => name !== 'doorbells' && one.networks.includes(network))
      expect(others.map(([name]) => name)).toEqual(
        networks[network]?.internal === true ? ['mongo', 'redis'] : [],
      )
    }
  })
})

describe('docker-compose.yml', () => {
  it('passes every setting through that is no secret and that Compose itself does not decide', () => {
    const passed = new Set([...input.compose.matchAll(/\$\{(\w+)/g)].map(([, name]) => name))
    // Where a container listens, what lies on its volumes, and what is handed in as a file.
    const decided = new Set<string>([
      ...['PORT', 'HOST', 'OPERATOR_PORT', 'OPERATOR_HOST', 'METRICS_PORT', 'DATA_DIR'],
      ...['QUEUE_PREFIX', 'SANDBOX_FAUCET_URL'],
      ...[
        'OPERATOR_TOKEN',
        'METRICS_TOKEN',
        'CHALLENGE_SECRET',
        'MONGODB_URL',
        'REDIS_URL',
        'MONERO_WALLET_RPC_URL',
      ],
      ...['SEAL_KEY_FILE', 'SEAL_MEMORY_FILE', 'NANO_SEED_FILE', 'DOORBELL_KEY_FILE', 'DOORBELL_TEST_HOSTS'],
    ])
    expect(VARIABLE_NAMES.filter((name) => !passed.has(name) && !decided.has(name))).toEqual([])
    expect([...decided].filter((name) => passed.has(name))).toEqual([])
  })

  it('names no image with a hole that is published', () => {
    // The first of each series that is without: CVE-2025-14847 and CVE-2026-9740; CVE-2025-21605 and CVE-2025-49844.
    const mended: Record<string, number[]> = { mongo: [7, 0, 35], redis: [7, 4, 7] }
    for (const [name, version] of Object.entries(mended)) {
      const [, tag = ''] = /^[^:]+:([\d.]+)/.exec(services[name]?.image ?? '') ?? []
      const parts = tag.split('.').map(Number)
      const at = parts.findIndex((part, index) => part !== version[index])
      expect(at === -1 || (parts[at] ?? 0) > (version[at] ?? 0), `${name} ${tag}`).toBe(true)
      // In the words for whoever writes another one.
      expect(input.compose).toContain(version.join('.'))
    }
  })

  it('says at its head how the seed, the key and the command of the operator get into containers', () => {
    const head = input.compose.slice(0, input.compose.indexOf('\nname:'))
    for (const said of [
      'run --rm --no-deps -T wallet sh -c',
      'cat > $NANO_SEED_FILE',
      'cat > $SEAL_MEMORY_FILE',
      'operator -- keygen',
      'provision -- --make',
      'exec operator node scripts/operator.ts status',
    ])
      expect(head).toContain(said)
  })
})

describe('the image', () => {
  const lines = input.dockerfile.replace(/\\\n/g, ' ').split('\n')
  /** The words after an instruction, for each of its lines. */
  const argumentsOf = (instruction: string): string[][] =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.split(/\s+/).slice(1))

  it('brings the Node of package.json, runs as the user that Compose names, and copies what is there', () => {
    const { optionalDependencies } = JSON.parse(read('package.json')) as {
      optionalDependencies: { node: string }
    }
    for (const [image = ''] of argumentsOf('FROM')) {
      expect(isPinned(image)).toBe(true)
      expect(image).toContain(`node:${optionalDependencies.node}-`)
    }
    expect(argumentsOf('USER').at(-1)).toEqual([api?.user])
    const letThrough = read('.dockerignore').split('\n')
    expect(letThrough).toContain('*')
    const sources = argumentsOf('COPY').filter(([first]) => first?.startsWith('--from') === false)
    for (const source of sources.flatMap((words) => words.slice(0, -1))) {
      expect(fs.existsSync(path.join(ROOT, source)), source).toBe(true)
      expect(
        letThrough.some((line) => `!${source.replace(/\/$/, '')}`.startsWith(line) && line.startsWith('!')),
        source,
      ).toBe(true)
    }
  })

  it('has every page that the API reads when it starts', () => {
    const copied = [...input.dockerfile.matchAll(/^COPY (?!--from)(\S+) \S+$/gm)].map(
      ([, source]) => source ?? '',
    )
    const pages = [
      ...read('api/routes/documents.ts').matchAll(/readRepositoryFile\(((?:'[^']+'(?:, )?)+)\)/g),
    ].map(([, parts = '']) => parts.replaceAll("'", '').split(', ').join('/'))
    expect(pages).toContain('CHANGELOG.md')
    for (const page of pages)
      expect(
        copied.some((source) => page === source || page.startsWith(`${source}/`)),
        page,
      ).toBe(true)
  })
})
