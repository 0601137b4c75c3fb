import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { lockDataDir, ensureFirstStart } from '../../scripts/embedded/data-dir.ts'
import { openLogFile } from '../../scripts/embedded/log-file.ts'
import { selectEnvironment, formatForScreen, startPart } from '../../scripts/embedded/parts.ts'
import { assertPortFree, findFreePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { startNetwork } from '../../scripts/start.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { makeStartFolder, SCRIPTS_URL } from '../support/start-folder.ts'

let folder: string
let dataDir: string

beforeEach(() => {
  ;({ folder, dataDir } = makeStartFolder())
})

const modeOf = (file: string) => fs.statSync(path.join(dataDir, file)).mode & 0o777

describe('the data folder', () => {
  it('belongs to one start at a time and is free again after it', () => {
    const lock = lockDataDir(dataDir)
    expect(() => lockDataDir(dataDir)).toThrow(
      `The data folder ${dataDir} is in use by another start (process ${process.pid}): stop that one first, or set DATA_DIR to another folder.`,
    )
    lock.release()
    lockDataDir(dataDir).release()
    expect(modeOf('.')).toBe(0o700)
  })

  it('is held by a process that keeps nothing of its lock, and free again when that was killed', async () => {
    const script = `import { lockDataDir } from '${SCRIPTS_URL}embedded/data-dir.ts';
      lockDataDir(${JSON.stringify(dataDir)});
      await new Promise((resolve) => setTimeout(resolve));
      gc();
      console.log('held');
      setInterval(() => {}, 1000);`
    const holder = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = new Promise((resolve) => holder.once('exit', resolve))
    try {
      await new Promise((resolve) => holder.stdout.once('data', resolve))
      expect(() => lockDataDir(dataDir)).toThrow(`(process ${holder.pid})`)
    } finally {
      holder.kill('SIGKILL')
      await ended
    }
    lockDataDir(dataDir).release()
  })

  it('holds what the first start made, unreadable to others and the same at the next start', () => {
    lockDataDir(dataDir).release()
    const first = ensureFirstStart(dataDir, Date.UTC(2030, 0, 1))
    expect(first.challengeSecret).toMatch(/^[0-9a-f]{64}$/)
    expect(first.operatorToken).toMatch(/^[0-9a-f]{64}$/)
    expect(first.challengeSecret).not.toBe(first.operatorToken)
    expect(first.firstStartMs).toBe(Date.UTC(2030, 0, 1))
    expect(ensureFirstStart(dataDir, Date.UTC(2031, 0, 1))).toEqual(first)
    const kept = ['challenge-secret', 'operator-token', 'metrics-token', 'first-start']
    expect(kept.map(modeOf)).toEqual(kept.map(() => 0o600))
  })

  it('refuses a damaged secret instead of going on with a new one', () => {
    lockDataDir(dataDir).release()
    ensureFirstStart(dataDir, 0)
    fs.writeFileSync(path.join(dataDir, 'challenge-secret'), '')
    expect(() => ensureFirstStart(dataDir, 0)).toThrow(
      'challenge-secret does not hold what was once written there',
    )
  })
})

describe('ports', () => {
  it('says which variable to set when a port is taken, and nothing when it is free', async () => {
    const server = net.createServer()
    const port = await findFreePort()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    await expect(assertPortFree('OPERATOR_PORT', port, '127.0.0.1')).rejects.toThrow(
      `Port ${port} on 127.0.0.1 is taken by another program: set OPERATOR_PORT to a free port.`,
    )
    expect(await findFreePort(port)).not.toBe(port)
    await new Promise((resolve) => server.close(resolve))
    await assertPortFree('OPERATOR_PORT', port, '127.0.0.1')
    expect(await findFreePort(port)).toBe(port)
  })

  it('says so when the address is not one of this machine', async () => {
    await expect(assertPortFree('PORT', 3_000, '192.0.2.1')).rejects.toThrow(
      '192.0.2.1 is no address of this machine (EADDRNOTAVAIL): set HOST to one',
    )
  })
})

describe('what a part is given and what is shown of it', () => {
  const secrets = {
    CHALLENGE_SECRET: 'c',
    OPERATOR_TOKEN: 't',
    METRICS_TOKEN: 'o',
    SEAL_KEY_FILE: 'k',
    SEAL_MEMORY_FILE: 'm',
    NANO_SEED_FILE: 's',
    NANO_RPC_URL: 'n',
    MONERO_WALLET_RPC_URL: 'w',
  }
  const env = {
    ...secrets,
    MONGODB_URL: 'mongodb://x',
    REDIS_URL: 'redis://x',
    PORT: '3000',
    PATH: '/bin',
    AWS_SECRET_ACCESS_KEY: 'a',
    SIGNUPS: '',
    OTEL_EXPORTER_OTLP_TIMEOUT: '500',
  }

  it('gives the API no key, seed, wallet or operator token, and neither part what neither it nor OpenTelemetry reads', () => {
    expect(selectEnvironment({ ...env, METRICS_PORT: '9100' }, 'api')).toEqual({
      METRICS_TOKEN: 'o',
      METRICS_PORT: '9100',
      CHALLENGE_SECRET: 'c',
      MONGODB_URL: 'mongodb://x',
      REDIS_URL: 'redis://x',
      PORT: '3000',
      PATH: '/bin',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
    })
    const { CHALLENGE_SECRET: _, ...forWorkers } = secrets
    expect(selectEnvironment(env, 'workers')).toEqual({
      ...forWorkers,
      MONGODB_URL: 'mongodb://x',
      REDIS_URL: 'redis://x',
      PORT: '3000',
      PATH: '/bin',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
    })
  })

  it('shows warnings and errors in one line, and whatever is no log line as it is', () => {
    expect(formatForScreen('{"level":30,"msg":"listening"}')).toBeUndefined()
    expect(formatForScreen('{"level":40,"msg":"the node is out of reach"}')).toBe('the node is out of reach')
    expect(formatForScreen('{"level":50,"msg":"job failed","err":{"message":"no route","stack":"…"}}')).toBe(
      'job failed: no route',
    )
    expect(formatForScreen('TypeError: x is not a function')).toBe('TypeError: x is not a function')
    expect(formatForScreen('{"level":50,"msg":"cut o')).toBe('{"level":50,"msg":"cut o')
  })

  it('keeps a log file and one before it', () => {
    const file = path.join(folder, 'logs', 'api.log')
    const log = openLogFile(file, (said) => expect.unreachable(said), 30)
    for (let number = 1; number <= 7; number += 1) log.write(`line ${number} 89`)
    log.close()
    expect(fs.readFileSync(`${file}.1`, 'utf8')).toBe('line 4 89\nline 5 89\nline 6 89\n')
    expect(fs.readFileSync(file, 'utf8')).toBe('line 7 89\n')
  })

  it('says once that a log file cannot be written, and writes on as soon as it can', () => {
    const said: string[] = []
    const logs = path.join(folder, 'logs')
    fs.writeFileSync(logs, 'in the way')
    const log = openLogFile(path.join(logs, 'api.log'), (line) => said.push(line), 30)
    for (const line of ['lost', 'lost too']) log.write(line)
    expect(said).toEqual([
      expect.stringContaining(
        `${path.join(logs, 'api.log')} cannot be written, and lines may be lost until it can: `,
      ),
    ])
    fs.rmSync(logs)
    log.write('kept')
    expect(fs.readFileSync(path.join(logs, 'api.log'), 'utf8')).toBe('\nkept\n')
    // Nothing can take the place of a folder.
    fs.mkdirSync(path.join(logs, 'api.log.1', 'full'), { recursive: true })
    for (const line of ['a line of more than 30 characters', 'the next']) log.write(line)
    log.close()
    expect(said).toHaveLength(2)
    expect(fs.readFileSync(path.join(logs, 'api.log'), 'utf8')).toContain('30 characters\nthe next\n')
  })

  it.runIf(process.platform === 'linux')('starts a part again on a disk that is full', async () => {
    // skipped elsewhere: /dev/full is Linux's own
    const said: string[] = []
    const report = (line: string) => void said.push(line)
    fs.mkdirSync(path.join(dataDir, 'logs'), { recursive: true })
    for (const name of ['logs/api.log', 'children.json.new'])
      fs.symlinkSync('/dev/full', path.join(dataDir, name))
    const script = path.join(folder, 'part.mjs')
    fs.writeFileSync(script, "console.log('a line'); console.error('an error'); process.exit(7)")
    const children = trackChildren(dataDir, report)
    const part = startPart({
      part: 'api',
      script,
      env: { PATH: process.env.PATH },
      dataDir,
      children,
      report,
    })
    try {
      await waitFor('two deaths', () => (part.deaths() >= 2 ? true : undefined), { limitMs: PATIENCE_MS })
    } finally {
      await part.stop()
      children.close()
    }
    expect(said.filter((line) => line.includes('cannot be written'))).toHaveLength(2)
    expect(said.filter((line) => line.includes('starting it again'))).toHaveLength(2)
  })
})

it('npm start refuses what its parts would be refused for, again and again', async () => {
  // Without the refusal it would end at the port, which has to be known.
  const env = { PORT: '0', OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }
  await expect(startNetwork({ env, report: () => undefined })).rejects.toThrow(/OTEL_EXPORTER_OTLP_ENDPOINT/)
})

describe('the start script', () => {
  it('holds no library of the servers’ clients, for as long as the network runs', () => {
    const script = `import { registerHooks } from 'node:module'
      const packages = new Set()
      registerHooks({
        load(url, context, next) {
          packages.add(/node_modules\\/((@[^/]+\\/)?[^/]+)/.exec(url)?.[1])
          return next(url, context)
        },
      })
      await import('${SCRIPTS_URL}start.ts')
      console.log([...packages].join())`
    const loaded = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
    const packages = loaded.trim().split(',')
    expect(packages).toContain('zod')
    for (const heavy of ['mongoose', 'mongodb', 'ioredis', 'bullmq']) expect(packages).not.toContain(heavy)
  })
})
