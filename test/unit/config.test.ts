import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { ConfigError, readConfig, SECRETS, VARIABLE_NAMES, type Part, type VariableName } from '../../shared/config.ts'

const PARTS: Part[] = ['start', 'api', 'workers', 'operator']
const SECRET = 'ab'.repeat(32)
const REQUIRED = { MONGODB_URL: 'mongodb://127.0.0.1:1/x', REDIS_URL: 'redis://127.0.0.1:2', CHALLENGE_SECRET: SECRET }
const ADDRESS = `nano_3${'1'.repeat(59)}`

/** Each variable with values that it takes and values that it refuses; free text and paths refuse nothing. */
const VALUES: Record<VariableName, { right: string[]; wrong: string[] }> = {
  PORT: { right: ['0', '3000', '65535'], wrong: ['65536', '-1', '3e3', '80.5', 'http', ' 80', '0x50'] },
  HOST: { right: ['127.0.0.1'], wrong: [] },
  BASE_URL: { right: ['https://agents.example/'], wrong: ['agents.example', 'ftp://agents.example', 'https://', 'https://a b'] },
  OPERATOR_PORT: { right: ['0', '3001'], wrong: ['70000', 'none'] },
  OPERATOR_HOST: { right: ['127.0.0.1'], wrong: [] },
  OPERATOR_TOKEN: { right: ['0123456789abcdef'], wrong: ['short'] },
  DATA_DIR: { right: ['data'], wrong: [] },
  MONGODB_URL: { right: ['mongodb://a/b', 'mongodb+srv://a/b'], wrong: ['http://a', 'localhost:27017'] },
  REDIS_URL: { right: ['redis://a', 'rediss://a'], wrong: ['http://a', '127.0.0.1:6379'] },
  QUEUE_PREFIX: { right: ['agents-1'], wrong: ['a:b', '{a}', 'A', 'a'.repeat(41)] },
  SEAL_KEY_FILE: { right: ['seal.key'], wrong: [] },
  SEAL_MEMORY_FILE: { right: ['seal.memory'], wrong: [] },
  SEAL_INTERVAL_SECONDS: { right: ['600', '0.5'], wrong: ['0', '-600', '86401', '10m'] },
  SWEEP_SECONDS: { right: ['15'], wrong: ['0', '3601', 'often'] },
  CHALLENGE_SECRET: { right: [SECRET, 'ab'.repeat(40)], wrong: ['ab'.repeat(31), 'AB'.repeat(32), 'zz'.repeat(32)] },
  SIGNUPS: { right: ['open', 'closed'], wrong: ['Open', 'true', 'no'] },
  FREE_UNTIL: {
    right: ['none', '2030-01-31T00:00:00+00:00', '2030-01-31T00:00:00Z', '2030-01-31T12:30:00.5-05:00'],
    wrong: ['2031-12-31', '2031-12-31T00:00:00', '2030-02-30T00:00:00Z', '1900000000', 'never'],
  },
  REGISTER_BITS: { right: ['0', '20', '64'], wrong: ['65', '-1', '20.5', 'twenty'] },
  SHARE_BITS: { right: ['26'], wrong: ['65', '2.6e1'] },
  SHARES_PER_DAY: { right: ['1', '500'], wrong: ['0', '100001', '1.5'] },
  INVOICE_MINUTES: { right: ['60', '0.05'], wrong: ['0', '-1', '525601'] },
  PAY_BY_MINUTES: { right: ['60'], wrong: ['0', 'hour'] },
  ACCEPT_HOURS: { right: ['72', '0.001'], wrong: ['0', '8761'] },
  XNO_USD: { right: ['0.95', '12'], wrong: ['0', '0.00', '-1', '1e3', '$1', '1,5'] },
  XMR_USD: { right: ['160.5'], wrong: ['0', 'free'] },
  RATE_SOURCES: {
    right: ['xno=https://a.example/x#data.price', 'xno=http://a/x#p, xmr=http://b/y#q[0].r'],
    wrong: ['btc=https://a/x#p', 'xno=https://a/x', 'https://a/x#p'],
  },
  NANO_RPC_URL: { right: ['http://127.0.0.1:7076'], wrong: ['ws://127.0.0.1:7076', '127.0.0.1:7076'] },
  NANO_WS_URL: { right: ['ws://127.0.0.1:7078', 'wss://a'], wrong: ['http://127.0.0.1:7078'] },
  NANO_WORK_URL: { right: ['http://127.0.0.1:7000'], wrong: ['tcp://a'] },
  NANO_SEED_FILE: { right: ['seed'], wrong: [] },
  NANO_REPRESENTATIVE: {
    right: [ADDRESS],
    wrong: [`xrb_3${'1'.repeat(59)}`, ADDRESS.slice(0, -1), ADDRESS.replace('_3', '_2'), `nano_3${'l'.repeat(59)}`],
  },
  MONERO_WALLET_RPC_URL: { right: ['http://user:word@127.0.0.1:18083'], wrong: ['127.0.0.1:18083'] },
  MONERO_CONFIRMATIONS: { right: ['1', '10'], wrong: ['0', '1001', '1.5'] },
  PAYMENT_POLL_SECONDS: { right: ['10', '0.2'], wrong: ['0', 'fast'] },
  PAYOUTS: { right: ['manual', 'automatic'], wrong: ['auto', 'true'] },
  MIN_PAYOUT_XNO: { right: ['0.01', '0'], wrong: ['-1', '.5', '1 XNO'] },
  MIN_PAYOUT_XMR: { right: ['0.001'], wrong: ['1e-3'] },
  LOG_LEVEL: { right: ['trace', 'silent'], wrong: ['verbose'] },
}

const problemsOf = (env: Record<string, string>, part: Part): readonly string[] => {
  try {
    readConfig(env, part)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems
  }
}

describe('readConfig', () => {
  it('is asked here about every variable', () => {
    expect(Object.keys(VALUES)).toEqual(VARIABLE_NAMES)
  })

  it.each(VARIABLE_NAMES)('takes the right forms of %s and names it for each wrong one, telling no value', (name) => {
    for (const value of VALUES[name].right) expect(problemsOf({ ...REQUIRED, [name]: value }, 'api')).toEqual([])
    for (const value of VALUES[name].wrong) {
      const problems = problemsOf({ ...REQUIRED, [name]: value }, 'api')
      expect(problems, `${name}=${value}`).toHaveLength(1)
      expect(problems[0]).toMatch(new RegExp(`^${name}: expected `))
      if (value.length > 12) expect(problems[0]).not.toContain(value)
    }
  })

  it('tells every problem at once, in one error', () => {
    const wrong = Object.fromEntries(
      VARIABLE_NAMES.flatMap((name) => (VALUES[name].wrong[0] === undefined ? [] : [[name, VALUES[name].wrong[0]]])),
    )
    const problems = problemsOf(wrong, 'start')
    expect(problems.map((problem) => problem.split(':')[0])).toEqual(Object.keys(wrong))
    expect(() => readConfig(wrong, 'start')).toThrow(`The settings have ${problems.length} problems:\n  - PORT: `)
  })

  it('asks of each part what it cannot do without, and counts an empty variable as absent', () => {
    const missing = (part: Part, env: Record<string, string> = {}) => problemsOf(env, part).map((problem) => problem.split(' ')[0])
    expect(missing('start')).toEqual([])
    expect(missing('api', { MONGODB_URL: '', REDIS_URL: '' })).toEqual(['MONGODB_URL', 'REDIS_URL', 'CHALLENGE_SECRET'])
    expect(missing('workers')).toEqual(['MONGODB_URL', 'REDIS_URL'])
    expect(missing('operator')).toEqual(['MONGODB_URL', 'REDIS_URL'])
  })

  it('hands a secret to no part but those that are named for it', () => {
    const filled: Record<string, string> = {
      ...REQUIRED,
      ...Object.fromEntries(VARIABLE_NAMES.map((name) => [name, VALUES[name].right[0] ?? ''])),
    }
    // Values that nothing else holds, so that they can be searched for.
    const marked: Partial<Record<VariableName, string>> = {
      OPERATOR_TOKEN: 'operator-token-marked',
      CHALLENGE_SECRET: 'c1'.repeat(32),
      SEAL_KEY_FILE: 'marked.key',
      SEAL_MEMORY_FILE: 'marked.memory',
      NANO_RPC_URL: 'http://marked-rpc',
      NANO_WS_URL: 'ws://marked-ws',
      NANO_WORK_URL: 'http://marked-work',
      NANO_SEED_FILE: 'marked.seed',
      NANO_REPRESENTATIVE: ADDRESS,
      MONERO_WALLET_RPC_URL: 'http://marked-monero',
    }
    expect(Object.keys(marked).sort()).toEqual(Object.keys(SECRETS).sort())
    for (const part of PARTS) {
      const config = JSON.stringify(readConfig({ ...filled, ...marked }, part))
      for (const [name, value] of Object.entries(marked)) {
        expect(config.includes(value), `${part} and ${name}`).toBe(SECRETS[name as VariableName]?.includes(part))
      }
    }
    // The API never sees a wallet, a node or a key.
    expect(
      Object.entries(SECRETS)
        .filter(([, parts]) => parts.includes('api'))
        .map(([name]) => name),
    ).toEqual(['CHALLENGE_SECRET'])
  })

  it('has the defaults that the settings page names', () => {
    expect(readConfig({}, 'start')).toMatchObject({
      port: 3_000,
      host: '127.0.0.1',
      baseUrl: 'http://127.0.0.1:3000',
      operatorPort: 3_001,
      operatorHost: '127.0.0.1',
      dataDir: path.resolve('.data'),
      sealIntervalMs: 600_000,
      sweepMs: 15_000,
      signupsOpen: true,
      freeUntilMs: undefined,
      registerBits: 20,
      shareBits: 26,
      sharesPerDay: 500,
      invoiceTtlMs: 3_600_000,
      payByMs: 3_600_000,
      acceptMs: 259_200_000,
      paymentPollMs: 10_000,
      payouts: 'manual',
      minPayout: { xno: '0.01', xmr: '0.001' },
    })
  })

  it('reads what is set, in the units that the service counts in', () => {
    const config = readConfig(
      {
        FREE_UNTIL: '2030-01-31T01:00:00+01:00',
        SIGNUPS: 'closed',
        SWEEP_SECONDS: '0.5',
        PAY_BY_MINUTES: '0.1',
        ACCEPT_HOURS: '0.01',
        BASE_URL: 'https://agents.example//',
      },
      'start',
    )
    expect(config).toMatchObject({
      freeUntilMs: Date.UTC(2030, 0, 31),
      signupsOpen: false,
      sweepMs: 500,
      payByMs: 6_000,
      acceptMs: 36_000,
      baseUrl: 'https://agents.example',
    })
  })
})
