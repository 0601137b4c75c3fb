import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { readConfig, VARIABLE_NAMES, type VariableName } from '../../shared/platform/config.ts'
import { checkLedgerOrigin } from '../../shared/ledger/checkpoint.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { FULL, sampled } from '../support/full.ts'
import { startProcess } from '../support/processes.ts'
import { REQUIRED, VALUES } from '../support/settings.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'settings-'))
afterAll(() => fs.rmSync(folder, { recursive: true }))

/**
 * Each variable's wrong forms by turns: the first of all of them, the second of those that have two, and so
 * on.
 */
const most = Math.max(...VARIABLE_NAMES.map((name) => VALUES[name].wrong.length))
const wrongTogether = Array.from({ length: most }, (_, turn) =>
  Object.fromEntries(
    VARIABLE_NAMES.flatMap((name) =>
      VALUES[name].wrong[turn] === undefined ? [] : [[name, VALUES[name].wrong[turn]]],
    ),
  ),
) as Partial<Record<VariableName, string>>[]

const PARTS = ['scripts/start.ts', 'api/main.ts', 'workers/main.ts', 'scripts/operator.ts'] as const

describe.each(sampled(PARTS, 2))('node %s', (script) => {
  const args = script === 'scripts/operator.ts' ? ['status'] : []

  it('says all that is wrong with its settings in one message, exits with 1 and starts nothing', async () => {
    // Every form of each setting is read by the same code in test/unit/config.test.ts, without a process.
    const turns = FULL ? wrongTogether : wrongTogether.slice(0, 1)
    for (const wrong of turns) {
      const dataDir = path.join(folder, 'data')
      const started = startProcess(script, { ...REQUIRED, DATA_DIR: dataDir, ...wrong }, args)
      expect(await started.ended, started.logged()).toBe(1)
      const count = Object.keys(wrong).length
      const [head, ...problems] = started.logged().split('\n')
      expect(head).toBe(`The settings have ${count === 1 ? 'a problem' : `${count} problems`}:`)
      expect(problems.map((problem) => /^ {2}- (\w+): expected /.exec(problem)?.[1])).toEqual(
        Object.keys(wrong),
      )
      expect(fs.readdirSync(folder)).toEqual([])
    }
  })
})

describe('a process that lacks what it cannot do without', () => {
  it('is told by the command of the operator that no network was started in DATA_DIR', async () => {
    const dataDir = path.join(folder, 'data')
    const started = startProcess('scripts/operator.ts', { DATA_DIR: dataDir }, ['status'])
    expect(await started.ended).toBe(1)
    expect(started.logged()).toBe(
      `No network was started in DATA_DIR=${dataDir}. Name the folder of "npm start" in DATA_DIR, or servers of your own in MONGODB_URL and REDIS_URL.`,
    )
  })

  it.each(
    sampled([
      [
        ['--queue', 'sweep'],
        /^Unknown option '--queue'.* The workers take --queues NAME,NAME and nothing else\.$/,
      ],
      [['sweep'], /^Unexpected argument 'sweep'.* The workers take --queues NAME,NAME and nothing else\.$/],
      [
        ['--queues', 'sweep,verify-share'],
        /^--queues names verify-share; the queues are sweep, verify-shares, .*$/,
      ],
    ]),
  )(
    'is told in one sentence what is wrong with the words %j after node workers/main.ts',
    async (args, sentence) => {
      const started = startProcess('workers/main.ts', REQUIRED, args)
      expect(await started.ended).toBe(1)
      expect(started.logged()).toMatch(sentence)
    },
  )

  it.each(
    sampled([
      // The API doesn't take the operator's token for its own.
      [
        'api/main.ts',
        'METRICS_TOKEN',
        { METRICS_PORT: '39999', OPERATOR_TOKEN: 'x'.repeat(16) },
        'METRICS_PORT=0',
      ],
      ['workers/main.ts', 'METRICS_TOKEN', { METRICS_PORT: '39999', OPERATOR_PORT: '0' }, 'METRICS_PORT=0'],
      ['workers/main.ts', 'OPERATOR_TOKEN', { OPERATOR_PORT: '39999' }, 'OPERATOR_PORT=0'],
    ]),
  )('is refused a port for whoever watches by node %s without its %s', async (script, token, env, remedy) => {
    const started = startProcess(script, { ...REQUIRED, ...env })
    expect(await started.ended).toBe(1)
    expect(started.logged()).toContain(`${token} is not set`)
    expect(started.logged()).toContain(remedy)
  })

  it('is refused a name of the log other than the one that was signed for', () => {
    const [keyFile, memoryFile] = [path.join(folder, 'seal-key'), path.join(folder, 'seal-memory')]
    ensureSealKey(keyFile, memoryFile)
    const memory = JSON.parse(fs.readFileSync(memoryFile, 'utf8')) as object
    fs.writeFileSync(memoryFile, JSON.stringify({ ...memory, origin: 'agents.example/ledger' }))
    const env = {
      ...REQUIRED,
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: memoryFile,
      LEDGER_ORIGIN: 'other.example',
    }
    expect(() => checkLedgerOrigin(readConfig(env, 'workers'))).toThrow(
      'LEDGER_ORIGIN is other.example, and checkpoints were signed for the log agents.example/ledger',
    )
  })
})
