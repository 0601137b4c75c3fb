import fs from 'node:fs'
import path from 'node:path'
import { parseDocument } from 'yaml'
import {
  ConfigError,
  FILE_VARIABLES,
  mayRead,
  readConfig,
  VARIABLE_NAMES,
  type Config,
  type Part,
  type VariableName,
} from '../../shared/platform/config.ts'
import { IDLE_DRAIN_MS, STOP_LIMIT_MS } from '../../shared/platform/limits.ts'
import { QUEUE_NAMES, queueRow, type QueueName } from '../../shared/platform/queues.ts'
import { SECOND_MS } from '../../shared/platform/time.ts'
import { servedQueues } from '../../workers/worker-context.ts'
import { findDockerfileProblems, isPinned } from './dockerfile.ts'
import { composeFile, readSeconds, type ComposeFile, type ComposeService } from './schema.ts'

export interface ComposeInput {
  root: string
  compose: string
  dockerfile: string
  ignore: string
}

/** Checks the Compose file and the Dockerfile, without Docker. @returns a sentence for each problem */
export function findComposeProblems(input: ComposeInput): string[] {
  const document = parseDocument(input.compose, { merge: true, uniqueKeys: true })
  if (document.errors.length > 0)
    return document.errors.map(({ message }) => `docker-compose.yml: ${message}`)
  const parsed = composeFile.safeParse(document.toJS())
  if (!parsed.success)
    return parsed.error.issues.map(
      ({ path: place, message }) => `docker-compose.yml: ${place.map(String).join('.')}: ${message}`,
    )
  const file = parsed.data
  const services = Object.entries(file.services)
  return [
    ...services.flatMap(([name, service]) =>
      [
        ...findHardeningProblems(service, isOneShot(file, name)),
        ...findPortProblems(service),
        ...findSecretProblems(service),
        ...findCommandProblems(input.root, service),
      ].map((problem) => `service ${name}: ${problem}`),
    ),
    ...findReferenceProblems(file),
    ...findQueueProblems(file),
    ...findDockerfileProblems(
      input,
      services.filter(([, { build }]) => build !== undefined).map(([, { user }]) => user),
    ),
  ]
}

/** Whether other services wait for this one to end; such a service needs no health check. */
function isOneShot(file: ComposeFile, name: string): boolean {
  return Object.values(file.services).some(
    ({ depends_on: needs }) => needs[name]?.condition === 'service_completed_successfully',
  )
}

/** Checks what limits a container's rights, and how it is watched and stopped. */
function findHardeningProblems(service: ComposeService, oneShot: boolean): string[] {
  const problems: string[] = []
  if (!service.read_only) problems.push('read_only must be true')
  if (service.cap_drop.join() !== 'ALL') problems.push('cap_drop must be [ALL]')
  if (!service.security_opt.includes('no-new-privileges:true'))
    problems.push('security_opt must have no-new-privileges:true')
  if (service.user.startsWith('0:')) problems.push('user must not be root')
  if (!service.tmpfs.some((mount) => mount.split(':')[0] === '/tmp'))
    problems.push('tmpfs must have /tmp, since the rest is read-only')
  if (service.build === undefined && !isPinned(service.image))
    problems.push(`image ${service.image} must be pinned by a tag that names a version, or a digest`)
  if (!oneShot && service.healthcheck === undefined) problems.push('it needs a healthcheck')
  if (!oneShot && service.stop_grace_period === undefined)
    problems.push('it needs a stop_grace_period: Docker kills after 10 s')
  return problems
}

/**
 * Checks that a service with more than one container publishes a range of ports: `--scale` works only if no
 * two containers want the same port of the host.
 */
function findPortProblems(service: ComposeService): string[] {
  if (service.deploy?.replicas === 1) return []
  const problems: string[] = []
  for (const port of service.ports) {
    const parts = port.split(':')
    const published = parts.length < 2 ? undefined : parts.at(-2)
    if (published !== undefined && !published.includes('-'))
      problems.push(
        `port ${port} takes one port of the host, so the service cannot be scaled: give a range, or say deploy: { replicas: 1 }`,
      )
  }
  return problems
}

/** Checks that each secret is readable by the container's user, and by nobody else. */
function findSecretProblems(service: ComposeService): string[] {
  const problems: string[] = []
  for (const { source, uid, gid, mode } of service.secrets) {
    if (`${uid}:${gid}` !== service.user)
      problems.push(`secret ${source} belongs to ${uid}:${gid}, and the container runs as ${service.user}`)
    if (mode !== 0o400) problems.push(`secret ${source} has mode ${mode.toString(8)}, and must have 0o400`)
  }
  return problems
}

const MAIN_FILES: Record<string, Part> = { 'api/main.ts': 'api', 'workers/main.ts': 'workers' }

/** Makes the servers' users; it has no settings to check. */
const PROVISION = 'scripts/provision.ts'

/** Checks the command of a service that runs our own image, and the settings and time that it gives to it. */
function findCommandProblems(root: string, service: ComposeService): string[] {
  if (service.build === undefined) return []
  const [program, script = ''] = service.command ?? []
  if (program === 'node' && script === PROVISION) return []
  const part = MAIN_FILES[script]
  if (program !== 'node' || part === undefined)
    return [`its command must be node with ${Object.keys(MAIN_FILES).join(' or ')}`]
  if (!fs.existsSync(path.join(root, script))) return [`its command names ${script}, which does not exist`]
  const problems = [...findVariableProblems(service, part), ...findQueueNameProblems(service)]
  const settings = readSettings(service, part)
  if ('problems' in settings) return [...problems, ...settings.problems]
  const { config } = settings
  const neededSeconds = (config.drainMs + IDLE_DRAIN_MS + STOP_LIMIT_MS) / SECOND_MS
  if (readSeconds(service.stop_grace_period ?? '10s') <= neededSeconds)
    problems.push(
      `stop_grace_period must be longer than the ${neededSeconds} s that the process may take to stop`,
    )
  const unserved = namedQueues(service).filter(
    (name) => !servedQueues(config, [name]).includes(name) && !isOfACoin(name),
  )
  if (unserved.length > 0) problems.push(`it is told to serve ${unserved.join(', ')} and has no key for them`)
  return problems
}

/**
 * Whether a queue serves a coin. Coins need settings of the operator, without which their queues stay empty.
 */
const isOfACoin = (name: QueueName): boolean => queueRow(name).pool === 'payments'

/** Checks that a part may read each variable, and that the files that they name are given to the service. */
function findVariableProblems(service: ComposeService, part: Part): string[] {
  return Object.entries(service.environment).flatMap(([name, value]) => {
    const meant = FILE_VARIABLES.get(name) ?? VARIABLE_NAMES.find((known) => known === name)
    if (meant === undefined) return [`${name} is no setting that readConfig knows`]
    const problems = mayRead(meant, part) ? [] : [`${name} is not for the ${part} to read`]
    const text = String(value ?? '')
    const secret = /^\/run\/secrets\/(.+)$/.exec(text)?.[1]
    if (secret !== undefined && !service.secrets.some(({ source, target }) => (target ?? source) === secret))
      problems.push(`${name} names the secret ${secret}, which the service does not have`)
    if (WRITTEN.has(meant) && !service.volumes.some((volume) => isWithin(text, volume)))
      problems.push(`${name} lies on no writable volume of the service`)
    return problems
  })
}

/** Settings whose file, or a file beside it, is written by the process. */
const WRITTEN: ReadonlySet<VariableName> = new Set<VariableName>(['SEAL_MEMORY_FILE', 'NANO_SEED_FILE'])

/** Whether a file lies on a volume of the service (`NAME:FOLDER[:MODE]`) that is writable. */
function isWithin(file: string, volume: string): boolean {
  const [, target = '', mode = 'rw'] = volume.split(':')
  return mode === 'rw' && file.startsWith(`${target}/`)
}

/**
 * Reads the settings as the container gets them if nothing is set on the host, with stand-ins for the
 * contents of files.
 *
 * @returns the problems if they can't be used
 */
function readSettings(service: ComposeService, part: Part): { config: Config } | { problems: string[] } {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(service.environment)) {
    const meant = FILE_VARIABLES.get(name)
    env[meant ?? name] = meant === undefined ? interpolate(String(value ?? '')) : (STAND_INS[meant] ?? '')
  }
  try {
    return { config: readConfig(env, part) }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { problems: error.problems.map((problem) => `its settings cannot be used: ${problem}`) }
  }
}

const STAND_INS: Record<string, string> = {
  OPERATOR_TOKEN: 'x'.repeat(32),
  METRICS_TOKEN: 'm'.repeat(32),
  CHALLENGE_SECRET: 'c0'.repeat(32),
  MONGODB_URL: 'mongodb://mongo/x',
  REDIS_URL: 'redis://redis',
  MONERO_WALLET_RPC_URL: '',
}

/** `${NAME:-default}` as Compose reads it if NAME is not set. */
function interpolate(text: string): string {
  return text.replace(/\$\{\w+(?::?-([^}]*))?\}/g, (_, fallback: string | undefined) => fallback ?? '')
}

/** What `--queues` of the service's command names, known or not. */
const queuesOf = (service: ComposeService): string[] => {
  const at = service.command?.indexOf('--queues') ?? -1
  return at === -1 ? [] : (service.command?.[at + 1] ?? '').split(',')
}

const isQueueName = (name: string): name is QueueName => QUEUE_NAMES.some((known) => known === name)
/** The queues that `--queues` of the service's command names, without unknown ones. */
const namedQueues = (service: ComposeService): QueueName[] => queuesOf(service).filter(isQueueName)

/** Checks that a service of the workers names its queues, and none that doesn't exist. */
function findQueueNameProblems(service: ComposeService): string[] {
  if (service.command?.[1] !== 'workers/main.ts') return []
  const names = queuesOf(service)
  if (names.length === 0)
    return ['workers must be told their --queues, or the pool that has the keys is not the only one']
  return names
    .filter((name) => !isQueueName(name))
    .map((name) => `--queues names ${name}, and shared/platform/queues.ts has no such queue`)
}

/** Finds queues that no service serves. */
function findQueueProblems(file: ComposeFile): string[] {
  const served = new Set(Object.values(file.services).flatMap(queuesOf))
  return QUEUE_NAMES.filter((name) => !served.has(name)).map(
    (name) =>
      `queue ${name} is served by no service: add it to the --queues of the pool that it belongs to in docker-compose.yml`,
  )
}

/** Checks that what services refer to is declared, what is declared is used, and ports can be published. */
function findReferenceProblems(file: ComposeFile): string[] {
  const services = Object.entries(file.services)
  const problems: string[] = []
  const compare = (
    kind: string,
    declared: readonly string[],
    used: readonly (readonly [string, string])[],
  ): void => {
    for (const [service, name] of used)
      if (!declared.includes(name)) problems.push(`service ${service}: ${kind} ${name} is not declared`)
    for (const name of declared)
      if (!used.some(([, usedName]) => usedName === name))
        problems.push(`${kind} ${name} is declared and not used`)
  }
  const uses = (namesOf: (service: ComposeService) => readonly string[]) =>
    services.flatMap(([name, service]) => namesOf(service).map((used) => [name, used] as const))
  compare(
    'network',
    Object.keys(file.networks),
    uses(({ networks }) => networks),
  )
  compare(
    'volume',
    Object.keys(file.volumes),
    uses(({ volumes }) => volumes.map((volume) => volume.split(':')[0] ?? '')),
  )
  compare(
    'secret',
    Object.keys(file.secrets),
    uses(({ secrets }) => secrets.map(({ source }) => source)),
  )
  for (const [name, service] of services) {
    for (const needed of Object.keys(service.depends_on))
      if (file.services[needed] === undefined)
        problems.push(`service ${name}: depends_on names ${needed}, which is no service`)
    if (
      service.ports.length > 0 &&
      service.networks.every((network) => file.networks[network]?.internal === true)
    )
      problems.push(`service ${name}: it publishes a port, and a network that is internal publishes none`)
  }
  return problems
}
