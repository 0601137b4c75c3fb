import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { MAX_DRAIN_SECONDS, REQUEST_TIMEOUT_MS, TIME_TO_ANSWER_MS } from './limits.ts'
import { isNoteName, NOTE_KEY, parseVkey } from '../crypto/note.ts'
import { parseNanoAddress } from '../crypto/nano-address.ts'
import { parseRedisUrl, REDIS_URL_FORM } from './redis-url.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './time.ts'

/** The process that reads the settings; each gets only the secrets that it needs. */
export type Part = 'start' | 'api' | 'workers' | 'doorbells' | 'operator'

/** Settings that cannot be used; the message lists every problem at once. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(
      `The settings have ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`,
    )
    this.name = 'ConfigError'
    this.problems = problems
  }
}

const port = number('a port number from 0 to 65535', { min: 0, max: 65_535, whole: true })
const bits = number('a whole number of bits from 0 to 64', { min: 0, max: 64, whole: true })
const positive = (unit: string, max: number) =>
  number(`a number of ${unit} above 0, at most ${max}`, { above: 0, max })
const filePath = z.string()
const hosts = z
  .string()
  .transform((text) => text.split(',').map((name) => name.trim().toLowerCase()))
  .refine(
    (names) => names.every((name) => /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name)),
    'expected comma-separated host names without ports',
  )
const usd = z
  .string()
  .regex(/^(?!0+(\.0+)?$)\d{1,9}(\.\d{1,9})?$/, 'expected a price in USD above 0, such as 0.95')
const FREE_UNTIL_FORM = 'expected ISO 8601 with an offset, such as 2030-01-31T00:00:00+00:00, or none'
const coins = z.string().regex(/^\d{1,9}(\.\d{1,12})?$/, 'expected an amount of the coin, such as 0.01')

/**
 * One row for each variable, in the order of the table in docs/. Everything is optional here; what a part
 * needs is checked below.
 */
const VARIABLES = {
  PORT: port,
  HOST: z.string(),
  BASE_URL: webUrl(['http:', 'https:']),
  ALLOWED_HOSTS: hosts,
  SECURITY_CONTACT: z
    .string()
    .regex(
      /^(mailto:|tel:|https:\/\/)[\x21-\x7e]+$/,
      'expected a URI that begins with mailto:, tel: or https://',
    ),
  OPERATOR_PORT: port,
  OPERATOR_HOST: z.string(),
  OPERATOR_TOKEN: z.string().min(16, 'expected at least 16 characters'),
  BOARD_WRITES: z.enum(['0', '1'], 'expected 0 or 1'),
  METRICS_PORT: port,
  METRICS_TOKEN: z.string().min(16, 'expected at least 16 characters'),
  REQUEST_SECONDS: number('a number of seconds from 1 to 15', { min: 1, max: 15 }),
  DRAIN_SECONDS: number(`a number of seconds from 0 to ${MAX_DRAIN_SECONDS}`, { max: MAX_DRAIN_SECONDS }),
  DATA_DIR: filePath,
  MIN_FREE_DISK_GB: number('a number of GB from 0 to 100000', { max: 100_000 }),
  MONGODB_URL: webUrl(['mongodb:', 'mongodb+srv:']),
  REDIS_URL: z.string().refine((text) => parseRedisUrl(text) !== undefined, REDIS_URL_FORM),
  QUEUE_PREFIX: z.string().regex(/^[a-z0-9-]{1,40}$/, 'expected 1 to 40 characters of a-z, 0-9 and -'),
  SEAL_KEY_FILE: filePath,
  SEAL_MEMORY_FILE: filePath,
  SEAL_PEERS: z
    .string()
    .refine(areBaseUrls, 'expected comma-separated base URLs that begin with http:// or https://'),
  LEDGER_ORIGIN: z
    .string()
    .refine(isNoteName, 'expected a name without spaces and plus signs, such as agents.example.org/ledger'),
  WITNESSES: z
    .string()
    .refine(areWitnesses, 'expected comma-separated VKEY@URL, each vkey that of a cosigner (type 04)'),
  WITNESS_QUORUM: number('a whole number from 0 to 15', { max: 15, whole: true }),
  SEAL_INTERVAL_SECONDS: positive('seconds', 86_400),
  SWEEP_SECONDS: positive('seconds', 3_600),
  CHALLENGE_SECRET: z
    .string()
    .regex(
      /^[0-9a-f]{64,}$/,
      'expected at least 64 lower-case hex characters (openssl rand -hex 32 makes them)',
    ),
  SIGNUPS: z.enum(['open', 'closed'], 'expected open or closed'),
  FREE_UNTIL: z.union(
    [z.literal('none'), z.iso.datetime({ offset: true, error: FREE_UNTIL_FORM })],
    FREE_UNTIL_FORM,
  ),
  REGISTER_BITS: bits,
  SHARE_BITS: bits,
  SHARES_PER_DAY: number('a whole number from 1 to 100000', { min: 1, max: 100_000, whole: true }),
  INVOICE_MINUTES: positive('minutes', 525_600),
  PAY_BY_MINUTES: positive('minutes', 525_600),
  ACCEPT_HOURS: positive('hours', 8_760),
  DISPUTE_HOLD_MINUTES: number('a number of minutes from 0 to 1440', { max: 1_440 }),
  XNO_USD: usd,
  XMR_USD: usd,
  RATE_SOURCES: z
    .string()
    .refine(areRateSources, { error: 'expected comma-separated coin=URL#json.path', abort: true })
    .refine(
      haveTwoHostsPerCoin,
      'expected sources on at least two different hosts for each coin that is named: one source agrees with nobody',
    ),
  NANO_RPC_URL: webUrl(['http:', 'https:']),
  NANO_WS_URL: webUrl(['ws:', 'wss:']),
  NANO_WORK_URL: webUrl(['http:', 'https:']),
  NANO_SEED_FILE: filePath,
  NANO_REPRESENTATIVE: z
    .string()
    .refine((text) => parseNanoAddress(text)?.address === text, 'expected a nano_ address with its checksum'),
  MONERO_WALLET_RPC_URL: webUrl(['http:', 'https:']),
  MONERO_CONFIRMATIONS: number('a whole number from 1 to 1000', { min: 1, max: 1_000, whole: true }),
  DOORBELLS: z.enum(['0', '1'], 'expected 0 or 1'),
  DOORBELL_HOSTS: hosts,
  DOORBELL_INTERVAL_SECONDS: positive('seconds', 86_400),
  DOORBELL_KEY_FILE: filePath,
  DOORBELL_TEST_HOSTS: z
    .string()
    .regex(
      /^[a-z0-9.-]+:\d{1,5}=[0-9a-f.:]+(,[a-z0-9.-]+:\d{1,5}=[0-9a-f.:]+)*$/,
      'expected HOST:PORT=ADDRESS,…',
    ),
  SANDBOX_FAUCET_URL: webUrl(['http:', 'https:']),
  PAYMENT_POLL_SECONDS: positive('seconds', 3_600),
  PAYOUTS: z.enum(['manual', 'automatic'], 'expected manual or automatic'),
  MIN_PAYOUT_XNO: coins,
  MIN_PAYOUT_XMR: coins,
  MAX_FEE_XMR: coins,
  LOG_LEVEL: z.enum(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'expected a level of pino, such as info',
  ),
} as const

export type VariableName = keyof typeof VARIABLES
export const VARIABLE_NAMES = Object.keys(VARIABLES) as VariableName[]
/**
 * Variables of earlier versions, each with what takes its place. A start refuses them: one that kept something
 * closed must not lose its effect unnoticed.
 */
export const REMOVED: Readonly<Record<string, string>> = {
  OPERATOR_HOSTS: "name the hosts of the operator's port in ALLOWED_HOSTS, beside those of the API",
  METRICS_HOST: 'OPERATOR_HOST is the address of the port for metrics too',
}

type Read = { [Name in VariableName]?: z.output<(typeof VARIABLES)[Name]> }

/**
 * Variables that are secrets or may contain one. Each may also be given as a file, whose name stands in the
 * variable with `_FILE` appended: more processes and people can read an environment than a file.
 */
const IN_FILES = [
  'OPERATOR_TOKEN',
  'METRICS_TOKEN',
  'CHALLENGE_SECRET',
  'MONGODB_URL',
  'REDIS_URL',
  'MONERO_WALLET_RPC_URL',
] as const
const fileVariable = (name: VariableName): string => `${name}_FILE`
/** `OPERATOR_TOKEN_FILE` and so on, and the variable that each stands for. */
export const FILE_VARIABLES: ReadonlyMap<string, VariableName> = new Map(
  IN_FILES.map((name) => [fileVariable(name), name]),
)

/** The variables that each part requires. `start` generates or embeds everything. */
const REQUIRED: Record<Part, readonly VariableName[]> = {
  start: [],
  api: ['MONGODB_URL', 'REDIS_URL', 'CHALLENGE_SECRET'],
  workers: ['MONGODB_URL', 'REDIS_URL'],
  doorbells: ['MONGODB_URL', 'REDIS_URL'],
  operator: ['MONGODB_URL', 'REDIS_URL'],
}

/**
 * The variables that are secrets or lead to one, and the parts that may read them; `start` only passes them
 * on.
 */
export const SECRETS: Partial<Record<VariableName, readonly Part[]>> = {
  OPERATOR_TOKEN: ['start', 'workers'],
  // Opens the metrics and nothing else, so that the API needn't hold the operator's token.
  METRICS_TOKEN: ['start', 'api', 'workers', 'doorbells'],
  CHALLENGE_SECRET: ['start', 'api'],
  SEAL_KEY_FILE: ['start', 'workers'],
  // The operator's command writes the record of an adopted memory beside it.
  SEAL_MEMORY_FILE: ['start', 'workers', 'operator'],
  NANO_RPC_URL: ['start', 'workers'],
  NANO_WS_URL: ['start', 'workers'],
  NANO_WORK_URL: ['start', 'workers'],
  NANO_SEED_FILE: ['start', 'workers'],
  NANO_REPRESENTATIVE: ['start', 'workers'],
  MONERO_WALLET_RPC_URL: ['start', 'workers'],
  // Who has the way out to strangers' hosts has this key and no other.
  DOORBELL_KEY_FILE: ['start', 'doorbells'],
}

/**
 * Returns the environment with each `…_FILE` variable replaced by the variable that it stands for, which has
 * the file's trimmed content; an empty file counts as absent. Only files that the part may read are opened.
 *
 * @returns also a sentence for each problem, and the variables whose file couldn't be read
 */
export function readFileVariables(
  env: NodeJS.ProcessEnv,
  part: Part,
): { env: NodeJS.ProcessEnv; problems: string[]; unread: readonly VariableName[] } {
  const problems: string[] = []
  const unread: VariableName[] = []
  const whole = { ...env }
  for (const [fileName, name] of FILE_VARIABLES) {
    const file = env[fileName]
    delete whole[fileName]
    if (!file || !mayRead(name, part)) continue
    if (env[name]) {
      problems.push(`${name} and ${fileName} are both set; set one of them`)
      continue
    }
    try {
      whole[name] = fs.readFileSync(file, 'utf8').trim()
    } catch (error) {
      unread.push(name)
      problems.push(
        `${fileName}: the file cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`,
      )
    }
  }
  return { env: whole, problems, unread }
}

/** Whether a part may read a variable: those of SECRETS are only for the parts named there. */
export const mayRead = (name: VariableName, part: Part): boolean => SECRETS[name]?.includes(part) ?? true

export type Config = ReturnType<typeof toConfig>

/**
 * Reads and checks the settings of one part from the environment; secrets that the part may not read are left
 * out. Nothing else reads the environment. An empty variable counts as absent.
 *
 * @throws ConfigError listing every wrong or missing setting at once
 */
export function readConfig(environment: NodeJS.ProcessEnv, part: Part): Config {
  const { env, problems, unread } = readFileVariables(environment, part)
  for (const [name, instead] of Object.entries(REMOVED))
    if (env[name]) problems.push(`${name} is a setting no longer: ${instead}`)
  const read: Record<string, unknown> = {}
  for (const name of VARIABLE_NAMES) {
    const text = env[name]
    if (!text) {
      if (REQUIRED[part].includes(name) && !unread.includes(name))
        problems.push(`${name} is not set, and ${part} cannot run without it`)
      continue
    }
    const result = VARIABLES[name].safeParse(text)
    if (!result.success) problems.push(`${name}: ${result.error.issues[0]?.message ?? 'not usable'}`)
    else if (name === 'WITNESS_QUORUM' && Number(result.data) > parseWitnesses(read['WITNESSES']).length)
      problems.push('WITNESS_QUORUM: expected at most the number of WITNESSES')
    else read[name] = result.data
  }
  if (env['DOORBELL_TEST_HOSTS'] && env['NODE_ENV'] === 'production')
    problems.push('DOORBELL_TEST_HOSTS is for tests: it lets doorbells reach this host itself; unset it')
  if (problems.length > 0) throw new ConfigError(problems)
  for (const name of VARIABLE_NAMES) if (!mayRead(name, part)) delete read[name]
  return toConfig(read)
}

/**
 * Lists the files of secrets on this host with the variable of each: those that a variable names, and those
 * in DATA_DIR where `npm start` keeps them. They needn't exist.
 */
export function listSecretFiles(env: NodeJS.ProcessEnv): { name: VariableName; file: string }[] {
  const inDataDir = (name: string): string => path.join(path.resolve(env['DATA_DIR'] || '.data'), name)
  const defaults: Partial<Record<VariableName, string>> = {
    OPERATOR_TOKEN: inDataDir('operator-token'),
    METRICS_TOKEN: inDataDir('metrics-token'),
    CHALLENGE_SECRET: inDataDir('challenge-secret'),
    SEAL_KEY_FILE: inDataDir('seal-key'),
    SEAL_MEMORY_FILE: inDataDir('seal-memory'),
    DOORBELL_KEY_FILE: inDataDir('doorbell-key'),
  }
  const named = [
    ...IN_FILES,
    'SEAL_KEY_FILE',
    'SEAL_MEMORY_FILE',
    'NANO_SEED_FILE',
    'DOORBELL_KEY_FILE',
  ] as const
  return named.flatMap((name) => {
    const file = env[name.endsWith('_FILE') ? name : fileVariable(name)] || defaults[name]
    return file === undefined ? [] : [{ name, file: path.resolve(file) }]
  })
}

/**
 * Returns what to write as the host in the URL of a server that listens on `host`: the loopback address if it
 * listens on all addresses, and IPv6 addresses in brackets.
 */
export function toUrlHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** Makes the settings from the variables that were read, in the units that the code uses, with defaults. */
function toConfig(read: Read) {
  const host = read.HOST ?? '127.0.0.1'
  const apiPort = read.PORT ?? 3_000
  const dataDir = path.resolve(read.DATA_DIR ?? '.data')
  const requestMs = read.REQUEST_SECONDS === undefined ? REQUEST_TIMEOUT_MS : read.REQUEST_SECONDS * SECOND_MS
  return {
    port: apiPort,
    host,
    baseUrl: (read.BASE_URL ?? `http://${toUrlHost(host)}:${apiPort}`).replace(/\/+$/, ''),
    /** BASE_URL, if it is set: how others reach the service. */
    publicUrl: read.BASE_URL?.replace(/\/+$/, ''),
    /** Others who publish the chain of seals, as base URLs. */
    sealPeers: (read.SEAL_PEERS ?? '')
      .split(',')
      .flatMap((url) => (url.trim() === '' ? [] : [url.trim().replace(/\/+$/, '')])),
    /** The name of the log, if it is set. */
    ledgerOrigin: read.LEDGER_ORIGIN,
    /** Witnesses from outside, to whom each checkpoint is offered. */
    witnesses: parseWitnesses(read.WITNESSES),
    /** How many of them have to cosign a checkpoint before the operator is content. */
    witnessQuorum: read.WITNESS_QUORUM ?? 0,
    /** The names that requests to the API may name in `Host`; undefined if any will do. */
    allowedHosts: read.ALLOWED_HOSTS,
    /** Where weaknesses are told, as a URI; undefined if it is not set. */
    securityContact: read.SECURITY_CONTACT,
    /** The names by which a browser may call the operator's port. */
    operatorHosts: [(read.OPERATOR_HOST ?? '').toLowerCase(), ...(read.ALLOWED_HOSTS ?? [])],
    operatorPort: read.OPERATOR_PORT ?? 3_001,
    /** Whether this process opens the operator's port even if it doesn't serve the queue `sweep`. */
    isOperatorPortSet: read.OPERATOR_PORT !== undefined,
    /** Where the operator's port and the metrics port listen. */
    operatorHost: read.OPERATOR_HOST ?? '127.0.0.1',
    /** Whether Bull Board has buttons. */
    boardWrites: read.BOARD_WRITES === '1',
    /** 0: no metrics port. */
    metricsPort: read.METRICS_PORT ?? 0,
    /** How long a request may take, and how long it may wait for the database within that. */
    requestMs,
    databaseMs: requestMs - TIME_TO_ANSWER_MS,
    drainMs: (read.DRAIN_SECONDS ?? 0) * SECOND_MS,
    dataDir,
    /** Below this the API takes no writes. */
    minFreeDiskBytes: (read.MIN_FREE_DISK_GB ?? 0.5) * 1e9,
    mongodbUrl: read.MONGODB_URL,
    redisUrl: read.REDIS_URL,
    queuePrefix: read.QUEUE_PREFIX ?? 'agent-network',
    sealIntervalMs: (read.SEAL_INTERVAL_SECONDS ?? 600) * SECOND_MS,
    sweepMs: (read.SWEEP_SECONDS ?? 15) * SECOND_MS,
    signupsOpen: (read.SIGNUPS ?? 'open') === 'open',
    /** End of the free period in milliseconds since the epoch; undefined if there is none. */
    freeUntilMs:
      read.FREE_UNTIL === undefined || read.FREE_UNTIL === 'none' ? undefined : Date.parse(read.FREE_UNTIL),
    registerBits: read.REGISTER_BITS ?? 22,
    shareBits: read.SHARE_BITS ?? 26,
    sharesPerDay: read.SHARES_PER_DAY ?? 500,
    invoiceTtlMs: (read.INVOICE_MINUTES ?? 60) * MINUTE_MS,
    payByMs: (read.PAY_BY_MINUTES ?? 60) * MINUTE_MS,
    acceptMs: (read.ACCEPT_HOURS ?? 72) * HOUR_MS,
    /** How long what a decision of a dispute owes isn't sent. */
    disputeHoldMs: (read.DISPUTE_HOLD_MINUTES ?? 10) * MINUTE_MS,
    fixedRates: { xno: read.XNO_USD, xmr: read.XMR_USD },
    rateSources: read.RATE_SOURCES,
    nano: {
      rpcUrl: read.NANO_RPC_URL,
      wsUrl: read.NANO_WS_URL,
      workUrl: read.NANO_WORK_URL,
      seedFile: read.NANO_SEED_FILE,
      representative: read.NANO_REPRESENTATIVE,
    },
    monero: { walletRpcUrl: read.MONERO_WALLET_RPC_URL, confirmations: read.MONERO_CONFIRMATIONS ?? 10 },
    doorbells: {
      isOn: read.DOORBELLS === '1',
      /** The hosts, with all below each, that may be rung at; undefined if any may. */
      hosts: read.DOORBELL_HOSTS,
      /** An agent's doorbell rings at most once in it. */
      intervalMs: (read.DOORBELL_INTERVAL_SECONDS ?? 60) * SECOND_MS,
      /** Only in tests: `HOST:PORT` that may be rung at, with the address of each. */
      testHosts: new Map(
        (read.DOORBELL_TEST_HOSTS ?? '').split(',').flatMap((one) => {
          const [host, address] = one.split('=')
          return host && address ? [[host, address] as const] : []
        }),
      ),
    },
    /** Only in a sandbox: where agents get play money. */
    sandboxFaucetUrl: read.SANDBOX_FAUCET_URL,
    paymentPollMs: (read.PAYMENT_POLL_SECONDS ?? 10) * SECOND_MS,
    payouts: read.PAYOUTS ?? ('manual' as const),
    minPayout: { xno: read.MIN_PAYOUT_XNO ?? '0.01', xmr: read.MIN_PAYOUT_XMR ?? '0.001' },
    maxFeeXmr: read.MAX_FEE_XMR ?? '0.01',
    logLevel: read.LOG_LEVEL ?? 'info',
    /** Files whose modes are checked; filled in by the processes that report to the operator. */
    secretFiles: [] as { name: VariableName; file: string }[],
    secrets: {
      operatorToken: read.OPERATOR_TOKEN,
      metricsToken: read.METRICS_TOKEN,
      challengeSecret: read.CHALLENGE_SECRET,
      sealKeyFile: read.SEAL_KEY_FILE,
      sealMemoryFile: read.SEAL_MEMORY_FILE,
      doorbellKeyFile: read.DOORBELL_KEY_FILE,
    },
  }
}

/**
 * A decimal number without sign or exponent.
 *
 * @param expected what to say if it isn't one, or lies outside of `bound`
 */
function number(expected: string, bound: { min?: number; above?: number; max: number; whole?: boolean }) {
  return z
    .string()
    .regex(/^\d{1,12}(\.\d{1,12})?$/, `expected ${expected}`)
    .transform(Number)
    .refine(
      (value) =>
        value >= (bound.min ?? 0) &&
        value > (bound.above ?? -1) &&
        value <= bound.max &&
        (!bound.whole || Number.isInteger(value)),
      `expected ${expected}`,
    )
}

/** A URL that begins with one of these protocols, such as `http:`; the rest isn't checked, but for blanks. */
function webUrl(protocols: readonly string[]) {
  const expected = `expected a URL that begins with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`
  return z
    .string()
    .refine(
      (text) =>
        protocols.some(
          (protocol) =>
            text.startsWith(`${protocol}//`) && text.length > protocol.length + 2 && !/\s/.test(text),
        ),
      expected,
    )
}

/** Whether a text is a comma-separated list of http(s) URLs. */
function areBaseUrls(text: string): boolean {
  return text.split(',').every((url) => /^https?:\/\/[^\s/]/.test(url.trim()) && URL.canParse(url.trim()))
}

/**
 * Parses a comma-separated list of VKEY@URL; parts of another form have an empty URL.
 *
 * @throws TypeError for a bad vkey
 */
function parseWitnesses(text: unknown = '') {
  return String(text)
    .split(',')
    .flatMap((witness) => {
      // A name may have an @, a key has none.
      const [, vkey = '', url = ''] = /^(.+)@(https?:\/\/[^\s/]\S*)$/.exec(witness.trim()) ?? []
      return witness.trim() === '' ? [] : [{ key: parseVkey(vkey), url: url.replace(/\/+$/, '') }]
    })
}

/** Whether a text is a comma-separated list of VKEY@URL, each vkey that of a cosigner. */
function areWitnesses(text: string): boolean {
  try {
    return parseWitnesses(text).every(({ key, url }) => key.type === NOTE_KEY.cosigner && URL.canParse(url))
  } catch {
    return false
  }
}

/** Whether a text is a comma-separated list of COIN=URL#json.path. */
function areRateSources(text: string): boolean {
  return text.split(',').every((source) => {
    const [, url] = /^(?:xno|xmr)=(https?:\/\/[^\s#]+)#[\w.[\]-]+$/.exec(source.trim()) ?? []
    return url !== undefined && URL.canParse(url)
  })
}

/** Whether each coin that is named has at least two sources, all on different hosts. */
function haveTwoHostsPerCoin(text: string): boolean {
  const sources = text.split(',').map((source) => /^(\w+)=([^#]+)/.exec(source.trim()) ?? [])
  return [...Map.groupBy(sources, ([, coin]) => coin).values()].every((sourcesOfCoin) => {
    const distinctHosts = new Set(sourcesOfCoin.map(([, , url = '']) => new URL(url).host))
    return distinctHosts.size >= 2 && distinctHosts.size === sourcesOfCoin.length
  })
}

/** The default length of the free period under `npm start`, counted from the first start. */
export const FREE_PERIOD_DAYS = 30
export const FREE_PERIOD_MS = FREE_PERIOD_DAYS * DAY_MS
