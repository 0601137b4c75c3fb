import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { findComposeProblems } from '../../scripts/compose/rules.ts'
import { VARIABLE_NAMES } from '../../shared/platform/config.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (name: string) => fs.readFileSync(path.join(ROOT, name), 'utf8')
const input = {
  root: ROOT,
  compose: read('docker-compose.yml'),
  dockerfile: read('Dockerfile'),
  ignore: read('.dockerignore'),
}

/** One part of a file put in another's place, which must be there. */
function change(file: 'compose' | 'dockerfile' | 'ignore', from: string | RegExp, to: string): typeof input {
  const changed = input[file].replace(from, to)
  if (changed === input[file]) throw new Error(`there is no ${String(from)} to change`)
  return { ...input, [file]: changed }
}

describe('the check of docker-compose.yml and Dockerfile', () => {
  it('finds nothing wrong with ours', () => {
    expect(findComposeProblems(input)).toEqual([])
  })

  it.each([
    ['a file that is no YAML', /^services:/m, 'services: [', /docker-compose\.yml: /],
    ['a key that stands twice', /^services:/m, 'name: other\nservices:', /unique/],
    [
      'a key that Compose does not know',
      'command: [node, api/main.ts]',
      'comand: [node, api/main.ts]',
      /services\.api/,
    ],
    [
      'a name that keeps a service from being scaled',
      'command: [node, api/main.ts]',
      'command: [node, api/main.ts]\n    container_name: api',
      /services\.api.*container_name/,
    ],
    ['a user that is root', "user: '10001:10001'", "user: '0:0'", /service api: user must not be root/],
    ['a user by name', "user: '10001:10001'", 'user: agents', /expected uid:gid in numbers/],
    [
      'a container that can write everywhere',
      'read_only: true',
      'read_only: false',
      /service api: read_only must be true/,
    ],
    [
      'capabilities that are kept',
      'cap_drop: [ALL]',
      'cap_drop: [NET_RAW]',
      /service redis: cap_drop must be \[ALL\]/,
    ],
    [
      'a program that may gain rights',
      'no-new-privileges:true',
      'no-new-privileges:false',
      /service mongo: security_opt/,
    ],
    [
      'a container without a memory limit',
      '  mem_limit: 1g\n',
      '',
      /services\.api\.mem_limit: a container without a memory limit/,
    ],
    ['a container without a limit of processes', '  pids_limit: 256\n', '', /services\.api\.pids_limit: /],
    ['a container without a limit of processors', '  cpus: 1.5\n', '', /services\.api\.cpus: /],
    [
      'a container without descriptors',
      ', nofile: { soft: 65536, hard: 65536 }',
      '',
      /services\.api\.ulimits\.nofile: /,
    ],
    [
      'an image without a version',
      'redis:7.4.7-bookworm',
      'redis:latest',
      /service redis: image redis:latest must be pinned/,
    ],
    [
      'a fixed port of a service to scale',
      '127.0.0.1:3000-3015:3000',
      '127.0.0.1:3000:3000',
      /service api: port .* cannot be scaled/,
    ],
    [
      'a setting that nobody reads',
      'LOG_LEVEL: ${',
      'LOGLEVEL: ${',
      /service shares: LOGLEVEL is no setting that readConfig knows/,
    ],
    [
      'a setting that cannot be used',
      "METRICS_PORT: '9100'",
      "METRICS_PORT: '91000'",
      /service ledger: its settings cannot be used: METRICS_PORT: expected/,
    ],
    [
      'a default that cannot be used',
      '${LOG_LEVEL:-info}',
      '${LOG_LEVEL:-loud}',
      /service api: its settings cannot be used: LOG_LEVEL/,
    ],
    [
      'a setting that is missing',
      /\n {6}CHALLENGE_SECRET_FILE: .*/,
      '',
      /service api: its settings cannot be used: CHALLENGE_SECRET is not set/,
    ],
    [
      'a key where it does not belong',
      'DRAIN_SECONDS: $',
      'SEAL_KEY_FILE: /run/secrets/operator_token\n      DRAIN_SECONDS: $',
      /service api: SEAL_KEY_FILE is not for the api to read/,
    ],
    [
      "the operator's token for the API",
      'DRAIN_SECONDS: $',
      'OPERATOR_TOKEN_FILE: /run/secrets/operator_token\n      DRAIN_SECONDS: $',
      /service api: OPERATOR_TOKEN_FILE is not for the api to read/,
    ],
    [
      'a command that does not exist',
      'command: [node, api/main.ts]',
      'command: [node, api/server.ts]',
      /service api: its command must be node with/,
    ],
    [
      'a queue that does not exist',
      '--queues, verify-shares',
      '--queues, verify-share',
      /service shares: --queues names verify-share,/,
    ],
    [
      'a queue that nobody serves',
      'sequence,make-seal,check-chain',
      'sequence,make-seal',
      /queue check-chain is served by no service: add it to the --queues/,
    ],
    [
      'workers that serve all queues',
      '[node, workers/main.ts, --queues, sweep]',
      '[node, workers/main.ts]',
      /service operator: workers must be told their --queues/,
    ],
    [
      'a signer without its key',
      /\n {6}SEAL_KEY_FILE: .*/,
      '',
      /service signer: it is told to serve sign-seals, sign-announcement and has no key/,
    ],
    [
      'a seal memory that is not kept',
      "volumes: ['seal:/var/lib/agent-network/seal']",
      "volumes: ['seal:/var/lib/other']",
      /service signer: SEAL_MEMORY_FILE lies on no writable volume/,
    ],
    [
      'an address index that cannot be written',
      "['wallet:/var/lib/agent-network/wallet']",
      "['wallet:/var/lib/agent-network/wallet:ro']",
      /service wallet: NANO_SEED_FILE lies on no writable volume/,
    ],
    [
      'a secret that the service does not have',
      '/run/secrets/seal_key',
      '/run/secrets/seal_kee',
      /service signer: SEAL_KEY_FILE names the secret seal_kee/,
    ],
    ['a secret that others may read', 'mode: 0o400', 'mode: 0o444', /secret metrics_token has mode 444/],
    [
      'a secret of another user',
      "gid: '10001'",
      "gid: '10002'",
      /secret metrics_token belongs to 10001:10002/,
    ],
    [
      'a secret that is not declared',
      '  seal_key: { file: ./secrets/seal_key }\n',
      '',
      /service signer: secret seal_key is not declared/,
    ],
    ['a volume that is not declared', '  redis: {}\n', '', /service redis: volume redis is not declared/],
    [
      'a volume that nobody uses',
      '  redis: {}\n',
      '  redis: {}\n  other: {}\n',
      /volume other is declared and not used/,
    ],
    ['a network that is not declared', '  front: {}\n', '', /service api: network front is not declared/],
    [
      'a dependency that is no service',
      'redis: { condition: service_healthy }',
      'cache: { condition: service_healthy }',
      /service api: depends_on names cache/,
    ],
    [
      'a port published from inside',
      'networks: [data, front]',
      'networks: [data]',
      /service api: it publishes a port, and a network that is internal/,
    ],
    [
      'a stop that Docker cuts short',
      'stop_grace_period: 60s',
      'stop_grace_period: 20s',
      /service api: stop_grace_period must be longer than the 27 s/,
    ],
  ])('finds %s', (_, from, to, problem) => {
    expect(findComposeProblems(change('compose', from, to)).join('\n')).toMatch(problem)
  })

  it.each([
    [
      'a source that does not exist',
      'COPY shared shared',
      'COPY share shared',
      /COPY share: there is no such file/,
    ],
    [
      'a base that is not pinned',
      'FROM node:24.21.0-bookworm-slim AS',
      'FROM node:24 AS',
      /FROM node:24 must be pinned/,
    ],
    [
      'another Node than package.json pins',
      'FROM node:24.21.0-bookworm-slim AS',
      'FROM node:22.1.0-bookworm-slim AS',
      /must bring Node 24/,
    ],
    ['a user that is root', 'USER 10001:10001', 'USER root', /USER root must be uid:gid/],
    [
      'a user that Compose does not know',
      'USER 10001:10001',
      'USER 10002:10002',
      /is not the user 10001:10001/,
    ],
  ])('finds in the Dockerfile %s', (_, from, to, problem) => {
    expect(findComposeProblems(change('dockerfile', from, to)).join('\n')).toMatch(problem)
  })

  it('finds a source that .dockerignore holds back', () => {
    expect(findComposeProblems(change('ignore', '!client\n', '')).join('\n')).toMatch(
      /COPY client: \.dockerignore does not let it through/,
    )
  })

  it('takes a digest in place of a version', () => {
    expect(
      findComposeProblems(change('compose', 'redis:7.4.7-bookworm', `redis@sha256:${'ab'.repeat(32)}`)),
    ).toEqual([])
  })
})

describe('docker-compose.yml', () => {
  const { services } = parse(input.compose, { merge: true }) as {
    services: Record<string, { image: string; environment?: Record<string, string>; command?: string[] }>
  }

  it('passes every setting through that is no secret and that Compose itself does not decide', () => {
    const passed = new Set([...input.compose.matchAll(/\$\{(\w+)/g)].map(([, name]) => name))
    // Where a container listens, what lies on its volumes, and what is handed in as a file.
    const decided = new Set<string>([
      ...['PORT', 'HOST', 'OPERATOR_PORT', 'OPERATOR_HOST', 'METRICS_PORT', 'METRICS_HOST', 'DATA_DIR'],
      ...['QUEUE_PREFIX', 'SANDBOX_FAUCET_URL'],
      ...[
        'OPERATOR_TOKEN',
        'METRICS_TOKEN',
        'CHALLENGE_SECRET',
        'MONGODB_URL',
        'REDIS_URL',
        'MONERO_WALLET_RPC_URL',
      ],
      ...['SEAL_KEY_FILE', 'SEAL_MEMORY_FILE', 'NANO_SEED_FILE'],
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
