import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { identifyProcess } from '../../scripts/embedded/children.ts'
import { reservePorts } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { makeStartFolder, SCRIPTS_URL } from '../support/start-folder.ts'

let folder: string
let dataDir: string

beforeEach(() => {
  ;({ folder, dataDir } = makeStartFolder())
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
        `import { runStart } from '${SCRIPTS_URL}start.ts';
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
