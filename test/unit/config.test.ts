import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  ConfigError,
  readConfig,
  REMOVED,
  SECRETS,
  VARIABLE_NAMES,
  type Part,
  type VariableName,
} from '../../shared/platform/config.ts'
import { ADDRESS, REQUIRED, SECRET, VALUES } from '../support/settings.ts'

const PARTS: Part[] = ['start', 'api', 'workers', 'doorbells', 'operator']
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

  it.each(VARIABLE_NAMES)(
    'takes the right forms of %s and names it for each wrong one, telling no value',
    (name) => {
      for (const value of VALUES[name].right)
        expect(problemsOf({ ...REQUIRED, [name]: value }, 'api')).toEqual([])
      for (const value of VALUES[name].wrong) {
        const problems = problemsOf({ ...REQUIRED, [name]: value }, 'api')
        expect(problems, `${name}=${value}`).toHaveLength(1)
        expect(problems[0]).toMatch(new RegExp(`^${name}: expected `))
        if (value.length > 12) expect(problems[0]).not.toContain(value)
      }
    },
  )

  it('tells every problem at once, in one error', () => {
    const wrong = Object.fromEntries(
      VARIABLE_NAMES.flatMap((name) =>
        VALUES[name].wrong[0] === undefined ? [] : [[name, VALUES[name].wrong[0]]],
      ),
    )
    const problems = problemsOf(wrong, 'start')
    expect(problems.map((problem) => problem.split(':')[0])).toEqual(Object.keys(wrong))
    expect(() => readConfig(wrong, 'start')).toThrow(
      `The settings have ${problems.length} problems:\n  - PORT: `,
    )
  })

  it('asks of each part what it cannot do without, and counts an empty variable as absent', () => {
    const missing = (part: Part, env: Record<string, string> = {}) =>
      problemsOf(env, part).map((problem) => problem.split(' ')[0])
    expect(missing('start')).toEqual([])
    expect(missing('api', { MONGODB_URL: '', REDIS_URL: '' })).toEqual([
      'MONGODB_URL',
      'REDIS_URL',
      'CHALLENGE_SECRET',
    ])
    expect(missing('workers')).toEqual(['MONGODB_URL', 'REDIS_URL'])
    expect(missing('operator')).toEqual(['MONGODB_URL', 'REDIS_URL'])
  })

  it.each(Object.keys(REMOVED))('refuses %s of earlier versions, and says what takes its place', (name) => {
    expect(VARIABLE_NAMES).not.toContain(name)
    expect(problemsOf({ ...REQUIRED, [name]: '' }, 'workers')).toEqual([])
    const [problem, ...others] = problemsOf({ ...REQUIRED, [name]: 'marked' }, 'workers')
    expect(others).toEqual([])
    expect(problem).toMatch(new RegExp(`^${name} is a setting no longer: `))
    expect(problem).not.toContain('marked')
    expect(
      VARIABLE_NAMES.some((known) => problem?.includes(`${known} `) || problem?.includes(`${known},`)),
    ).toBe(true)
  })

  it('hands a secret to no part but those that are named for it', () => {
    const filled: Record<string, string> = {
      ...REQUIRED,
      ...Object.fromEntries(VARIABLE_NAMES.map((name) => [name, VALUES[name].right[0] ?? ''])),
    }
    // Values that nothing else holds, so that they can be searched for.
    const marked: Partial<Record<VariableName, string>> = {
      OPERATOR_TOKEN: 'operator-token-marked',
      METRICS_TOKEN: 'metrics-token-marked',
      CHALLENGE_SECRET: 'c1'.repeat(32),
      SEAL_KEY_FILE: 'marked.key',
      SEAL_MEMORY_FILE: 'marked.memory',
      NANO_RPC_URL: 'http://marked-rpc',
      NANO_WS_URL: 'ws://marked-ws',
      NANO_WORK_URL: 'http://marked-work',
      NANO_SEED_FILE: 'marked.seed',
      NANO_REPRESENTATIVE: ADDRESS,
      MONERO_WALLET_RPC_URL: 'http://marked-monero',
      DOORBELL_KEY_FILE: 'marked.doorbell',
    }
    expect(Object.keys(marked).sort()).toEqual(Object.keys(SECRETS).sort())
    for (const part of PARTS) {
      const config = JSON.stringify(readConfig({ ...filled, ...marked }, part))
      for (const [name, value] of Object.entries(marked)) {
        expect(config.includes(value), `${part} and ${name}`).toBe(
          SECRETS[name as VariableName]?.includes(part),
        )
      }
    }
    // The API never sees a wallet, a node or a key.
    expect(
      Object.entries(SECRETS)
        .filter(([, parts]) => parts.includes('api'))
        .map(([name]) => name),
    ).toEqual(['METRICS_TOKEN', 'CHALLENGE_SECRET'])
  })

  it("gives the API the token of the metrics and never the operator's, whether it serves metrics or not", () => {
    const tokens = { OPERATOR_TOKEN: 'operator-token-marked', METRICS_TOKEN: 'metrics-token-marked' }
    for (const METRICS_PORT of ['', '0', '9100'])
      expect(readConfig({ ...REQUIRED, ...tokens, METRICS_PORT }, 'api').secrets).toMatchObject({
        operatorToken: undefined,
        metricsToken: 'metrics-token-marked',
      })
  })

  it('takes a secret from a file in place of a value, for the parts that may read it, and says what is wrong with one', () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'config-'))
    const fileOf = (text: string) => {
      const file = path.join(folder, `${fs.readdirSync(folder).length}`)
      fs.writeFileSync(file, text)
      return file
    }
    const files = {
      MONGODB_URL_FILE: fileOf('mongodb://user:word@a/b\n'),
      REDIS_URL_FILE: fileOf('redis://:word@a\n'),
      CHALLENGE_SECRET_FILE: fileOf(`${SECRET}\n`),
      OPERATOR_TOKEN_FILE: fileOf('operator-token-marked\n'),
    }
    expect(readConfig(files, 'workers')).toMatchObject({
      mongodbUrl: 'mongodb://user:word@a/b',
      redisUrl: 'redis://:word@a',
      secrets: { operatorToken: 'operator-token-marked', challengeSecret: undefined },
    })
    expect(readConfig(files, 'api').secrets).toMatchObject({
      operatorToken: undefined,
      challengeSecret: SECRET,
    })
    expect(problemsOf({ ...files, MONGODB_URL: 'mongodb://a/b' }, 'api')).toEqual([
      'MONGODB_URL and MONGODB_URL_FILE are both set; set one of them',
    ])
    const wrong = {
      ...files,
      MONGODB_URL_FILE: path.join(folder, 'none'),
      REDIS_URL_FILE: fileOf('\n'),
      CHALLENGE_SECRET_FILE: fileOf('short'),
    }
    expect(problemsOf(wrong, 'api')).toEqual([
      'MONGODB_URL_FILE: the file cannot be read (ENOENT)',
      'REDIS_URL is not set, and api cannot run without it',
      expect.stringMatching(/^CHALLENGE_SECRET: expected /),
    ])
    // A file that is none of its business is not opened.
    expect(problemsOf({ ...files, CHALLENGE_SECRET_FILE: path.join(folder, 'none') }, 'workers')).toEqual([])
    fs.rmSync(folder, { recursive: true })
  })

  // holds: limits.deadlines_of_an_order, limits.disk, limits.proof_of_work_payment, limits.registration
  // holds: limits.smallest_payout, limits.time_to_pay_an_invoice, rules.proof_of_work.registration_bits
  // holds: rules.proof_of_work.share_bits, rules.proof_of_work.shares_per_day
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
      registerBits: 22,
      shareBits: 26,
      sharesPerDay: 500,
      invoiceTtlMs: 3_600_000,
      payByMs: 3_600_000,
      acceptMs: 259_200_000,
      paymentPollMs: 10_000,
      payouts: 'manual',
      minPayout: { xno: '0.01', xmr: '0.001' },
      minFreeDiskBytes: 500_000_000,
    })
  })

  it('says where it is reached by default, whatever it listens on', () => {
    const urlOf = (host: string) => readConfig({ HOST: host }, 'start').baseUrl
    expect(['127.0.0.1', '0.0.0.0', '::', '::1'].map(urlOf)).toEqual([
      'http://127.0.0.1:3000',
      'http://127.0.0.1:3000',
      'http://[::1]:3000',
      'http://[::1]:3000',
    ])
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
