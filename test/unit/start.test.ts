import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { identifyProcess, trackChildren } from '../../scripts/embedded/children.ts'
import { lockDataDir, ensureFirstStart } from '../../scripts/embedded/data-dir.ts'
import { openLogFile } from '../../scripts/embedded/log-file.ts'
import { selectEnvironment, formatForScreen, startPart } from '../../scripts/embedded/parts.ts'
import { assertPortFree, findFreePort, reservePorts } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from '../support/patience.ts'

const SOURCE = new URL('../../scripts/', import.meta.url).href
let folder: string
let dataDir: string

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'start-test-'))
  dataDir = path.join(folder, 'data')
})

afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

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
    const script = `import { lockDataDir } from '${SOURCE}embedded/data-dir.ts';
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
  }

  it('gives the API no key, seed, wallet or operator token, and neither part what is not a setting', () => {
    expect(selectEnvironment({ ...env, METRICS_PORT: '9100' }, 'api')).toEqual({
      METRICS_TOKEN: 'o',
      METRICS_PORT: '9100',
      CHALLENGE_SECRET: 'c',
      MONGODB_URL: 'mongodb://x',
      REDIS_URL: 'redis://x',
      PORT: '3000',
      PATH: '/bin',
    })
    const { CHALLENGE_SECRET: _, ...forWorkers } = secrets
    expect(selectEnvironment(env, 'workers')).toEqual({
      ...forWorkers,
      MONGODB_URL: 'mongodb://x',
      REDIS_URL: 'redis://x',
      PORT: '3000',
      PATH: '/bin',
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

// Each start is a database, a Redis and three processes more, and some tests start it twice.
describe.runIf(process.platform === 'linux')(
  'the whole network, with stand-ins for the API and the workers',
  { timeout: 180_000 },
  () => {
    // skipped elsewhere: looks processes up in /proc
    let starts: Start[]
    let ports: { PORT: string; OPERATOR_PORT: string }

    interface Start {
      process: ChildProcess
      output(): string
      /** The exit code once it has ended. */
      code: Promise<number | null>
    }

    beforeEach(async () => {
      starts = []
      const [port, operatorPort] = await reservePorts(2)
      ports = { PORT: String(port), OPERATOR_PORT: String(operatorPort) }
      const serve = (port: string, url: string) => `
      import http from 'node:http';
      import fs from 'node:fs';
      fs.writeFileSync(process.argv[1] + '.env', JSON.stringify(process.env));
      console.log(JSON.stringify({ level: 30, msg: 'listening' }));
      const server = http.createServer((request, response) => { response.statusCode = request.url === '${url}' ? 200 : 404; response.end('{}'); });
      server.listen(Number(process.env.${port}), '127.0.0.1');
      process.on('SIGTERM', () => { fs.appendFileSync(process.env.DATA_DIR + '/stopped', '${port} '); process.exit(0); });`
      fs.writeFileSync(path.join(folder, 'api.mjs'), serve('PORT', '/api/v1/challenge'))
      fs.writeFileSync(path.join(folder, 'workers.mjs'), serve('OPERATOR_PORT', '/healthz'))
      fs.writeFileSync(
        path.join(folder, 'start.mjs'),
        `import { runStart } from '${SOURCE}start.ts';
       await runStart({ api: ${JSON.stringify(path.join(folder, 'api.mjs'))}, workers: ${JSON.stringify(path.join(folder, 'workers.mjs'))} });`,
      )
    })

    afterEach(async () => {
      for (const start of starts) {
        start.process.kill('SIGKILL')
        await start.code
      }
      // Whatever the last start left is being stopped by its watch.
      for (const pid of childPids()) await whenGone(pid)
    })

    function start(): Start {
      const env = {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        AGENT_NETWORK_CACHE: process.env.AGENT_NETWORK_CACHE,
        DATA_DIR: dataDir,
        ...ports,
      }
      const child = spawn(process.execPath, [path.join(folder, 'start.mjs')], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env,
      })
      let output = ''
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
      const started = {
        process: child,
        output: () => output,
        code: new Promise<number | null>((resolve) => child.once('close', resolve)),
      }
      starts.push(started)
      return started
    }

    const whenUp = (started: Start) =>
      waitFor(
        'the network',
        () => {
          if (started.process.exitCode !== null) throw new Error(started.output())
          return started.output().includes('npm run --silent agent') ? true : undefined
        },
        { limitMs: PATIENCE_MS },
      )
    const childPids = () =>
      fs.existsSync(path.join(dataDir, 'children.json'))
        ? (JSON.parse(fs.readFileSync(path.join(dataDir, 'children.json'), 'utf8')) as { pid: number }[]).map(
            (child) => child.pid,
          )
        : []
    const whenGone = (pid: number, limitMs = 25_000) =>
      waitFor(`the end of process ${pid}`, () => (identifyProcess(pid) === undefined ? true : undefined), {
        limitMs,
      })

    it('comes up, gives each part its own settings, says last what to try, and stops in order at one Ctrl-C', async () => {
      const first = start()
      await whenUp(first)
      expect(first.output().trimEnd().split('\n').at(-1)).toBe(
        `  npm run --silent agent -- register --url http://127.0.0.1:${ports.PORT}`,
      )
      const token = fs.readFileSync(path.join(dataDir, 'operator-token'), 'utf8').trim()
      expect(first.output()).not.toContain(token)
      const api = JSON.parse(fs.readFileSync(path.join(folder, 'api.mjs.env'), 'utf8')) as NodeJS.ProcessEnv
      const workers = JSON.parse(
        fs.readFileSync(path.join(folder, 'workers.mjs.env'), 'utf8'),
      ) as NodeJS.ProcessEnv
      expect(workers.OPERATOR_TOKEN).toBe(token)
      expect(workers.SEAL_KEY_FILE).toBe(path.join(dataDir, 'seal-key'))
      expect(Object.keys(api).filter((name) => /TOKEN|SEAL|SEED|NANO|MONERO/.test(name))).toEqual([
        'METRICS_TOKEN',
      ])
      expect(
        Date.parse(api.FREE_UNTIL!) -
          Date.parse(fs.readFileSync(path.join(dataDir, 'first-start'), 'utf8').trim()),
      ).toBe(30 * 86_400_000)
      expect(fs.readFileSync(path.join(dataDir, 'logs', 'api.log'), 'utf8')).toBe(
        '{"level":30,"msg":"listening"}\n',
      )

      const pids = childPids()
      expect(pids).toHaveLength(4)
      // As under npm, which hands on what the terminal has sent already. Two of a kind might be merged on their
      // way.
      first.process.kill('SIGINT')
      first.process.kill('SIGTERM')
      expect(await first.code).toBe(0)
      expect(pids.filter((pid) => identifyProcess(pid) !== undefined)).toEqual([])
      expect(fs.readFileSync(path.join(dataDir, 'stopped'), 'utf8')).toBe('OPERATOR_PORT PORT ')

      const second = start()
      await whenUp(second)
      const again = JSON.parse(fs.readFileSync(path.join(folder, 'api.mjs.env'), 'utf8')) as NodeJS.ProcessEnv
      expect([again.CHALLENGE_SECRET, again.FREE_UNTIL]).toEqual([api.CHALLENGE_SECRET, api.FREE_UNTIL])
      second.process.kill('SIGTERM')
      expect(await second.code).toBe(0)
    })

    it('refuses a second start on the same data folder, and the first goes on', async () => {
      const first = start()
      await whenUp(first)
      const second = start()
      expect(await second.code).toBe(1)
      expect(second.output()).toBe(
        `The data folder ${dataDir} is in use by another start (process ${first.process.pid}): stop that one first, or set DATA_DIR to another folder.\n`,
      )
      expect((await fetch(`http://127.0.0.1:${ports.PORT}/api/v1/challenge`)).status).toBe(200)
    })

    it('starts nothing when a port is taken', async () => {
      const squatter = net.createServer()
      await new Promise<void>((resolve) => squatter.listen(Number(ports.OPERATOR_PORT), '127.0.0.1', resolve))
      const refused = start()
      expect(await refused.code).toBe(1)
      squatter.close()
      expect(refused.output()).toBe(
        `Port ${ports.OPERATOR_PORT} on 127.0.0.1 is taken by another program: set OPERATOR_PORT to a free port.\n`,
      )
      expect(fs.existsSync(path.join(dataDir, 'mongo'))).toBe(false)
    })

    it('gives up and leaves nothing running when a part ends time and again before it answers', async () => {
      fs.writeFileSync(path.join(folder, 'workers.mjs'), 'throw new Error("no such luck")')
      const refused = start()
      expect(await refused.code).toBe(1)
      expect(refused.output()).toContain('no such luck')
      expect(refused.output().trimEnd().split('\n').at(-1)).toBe(
        'The workers process ended 3 times before it answered; its last words are above.',
      )
      expect(childPids()).toEqual([])
    })

    it('leaves no process behind when it is killed, and comes up again at once', async () => {
      const first = start()
      await whenUp(first)
      const pids = childPids()
      first.process.kill('SIGKILL')
      await first.code
      const second = start()
      await whenUp(second)
      expect(pids.filter((pid) => identifyProcess(pid) !== undefined)).toEqual([])
      second.process.kill('SIGTERM')
      expect(await second.code).toBe(0)
    })

    it('kills everything at a second Ctrl-C when something will not end', async () => {
      fs.appendFileSync(
        path.join(folder, 'workers.mjs'),
        "process.removeAllListeners('SIGTERM'); process.on('SIGTERM', () => {});",
      )
      const first = start()
      await whenUp(first)
      const pids = childPids()
      await waitFor(
        'the end of the start',
        () => (first.process.exitCode === null && first.process.kill('SIGINT') ? undefined : true),
        {
          limitMs: PATIENCE_MS,
          everyMs: 200,
        },
      )
      expect(await first.code).toBe(130)
      // Sooner than the watch, which gives a child 10 s, would have done it.
      for (const pid of pids) await whenGone(pid, 5_000)
    })

    it('can be stopped while it is still starting', async () => {
      // However late it is told to stop, it is still waiting for an answer.
      fs.writeFileSync(path.join(folder, 'api.mjs'), 'setInterval(() => {}, 1_000)')
      const first = start()
      await waitFor('the first child', () => (childPids().length > 0 ? true : undefined), {
        limitMs: PATIENCE_MS,
        everyMs: 5,
      })
      first.process.kill('SIGINT')
      expect(await first.code).toBe(0)
      expect(childPids()).toEqual([])
      expect(first.output()).not.toContain('The network is up')
    })
  },
)
