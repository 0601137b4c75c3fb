import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  identifyProcess,
  stopLeftovers,
  trackChildren,
  type ChildTracker,
} from '../../scripts/embedded/children.ts'
import { supervise, type ChildSpec, type SupervisedChild } from '../../scripts/embedded/supervise.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'

let folder: string
let lines: string[]
let children: ChildTracker
let supervised: SupervisedChild[]
const report = (line: string) => void lines.push(line)

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'supervise-test-'))
  lines = []
  children = trackChildren(folder, report)
  supervised = []
})

afterEach(async () => {
  for (const child of supervised) {
    child.kill()
    await child.stop()
  }
  children.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

function superviseShell(script: string, more: Partial<ChildSpec> = {}): SupervisedChild {
  const spec = {
    name: 'child',
    command: '/bin/sh',
    args: ['-c', script],
    env: { PATH: process.env.PATH },
    stopLimitMs: 10_000,
    ...more,
  }
  const child = supervise(spec, report, children)
  supervised.push(child)
  return child
}

const isAlive = (pid: number) => identifyProcess(pid) !== undefined
const whenGone = (pid: number) =>
  waitFor('the end of a process', () => (isAlive(pid) ? undefined : true), { limitMs: 15_000 })
const whenSaid = (part: string) =>
  waitFor(`a line with ${part}`, () => lines.find((line) => line.includes(part)), { limitMs: 15_000 })
const whenPid = (child: SupervisedChild) => waitFor('a process', () => child.pid(), { limitMs: 15_000 })

describe('a supervised child', () => {
  it('is started again after each death, with a pause that doubles up to its limit, and its last words are shown', async () => {
    const child = superviseShell('echo last words >&2; exit 7', {
      backOff: { firstDelayMs: 10, longestDelayMs: 40, steadyMs: 60_000 },
    })
    await waitFor('five deaths', () => (child.deaths() >= 5 ? true : undefined), { limitMs: 15_000 })
    const said = lines.slice(0, 10)
    expect(said).toEqual(
      [0.01, 0.02, 0.04, 0.04, 0.04].flatMap((pause) => [
        `child ended with exit code 7; starting it again in ${pause} s`,
        '  child: last words',
      ]),
    )
  })

  it('begins with the first pause again after a steady life', async () => {
    const child = superviseShell('exit 7', {
      backOff: { firstDelayMs: 10, longestDelayMs: 1_000, steadyMs: 0 },
    })
    await waitFor('three deaths', () => (child.deaths() >= 3 ? true : undefined), { limitMs: 15_000 })
    expect(lines.slice(0, 3)).toEqual(
      Array(3).fill('child ended with exit code 7; starting it again in 0.01 s'),
    )
  })

  it('is started again under a new number when it is killed', async () => {
    const child = superviseShell('exec sleep 60', {
      backOff: { firstDelayMs: 10, longestDelayMs: 40, steadyMs: 60_000 },
    })
    const before = await whenPid(child)
    process.kill(before, 'SIGKILL')
    expect(await whenSaid('was ended by SIGKILL')).toBe(
      'child was ended by SIGKILL; starting it again in 0.01 s',
    )
    expect(await whenPid(child)).not.toBe(before)
  })

  it('says so when its program is not there, and tries again', async () => {
    const child = superviseShell('', {
      command: path.join(folder, 'nowhere'),
      backOff: { firstDelayMs: 10, longestDelayMs: 40, steadyMs: 60_000 },
    })
    await waitFor('two deaths', () => (child.deaths() >= 2 ? true : undefined), { limitMs: 15_000 })
    expect(lines[0]).toMatch(/^child could not be started \(.*ENOENT\); starting it again in 0.01 s$/)
  })

  it('ends at SIGTERM when stopped, and stays gone', async () => {
    const child = superviseShell('exec sleep 60', {
      backOff: { firstDelayMs: 0, longestDelayMs: 0, steadyMs: 0 },
    })
    const pid = await whenPid(child)
    await child.stop()
    expect(isAlive(pid)).toBe(false)
    expect(child.pid()).toBeUndefined()
    expect(lines).toEqual([])
  })

  it('is killed, with what it has started, when it takes no notice of SIGTERM', async () => {
    const output: string[] = []
    const child = superviseShell('trap "" TERM; sleep 60 & echo $!; while :; do wait; done', {
      stopLimitMs: 50,
      onLine: (line) => output.push(line),
    })
    const grandchild = Number(
      await waitFor('the number of the grandchild', () => output[0], { limitMs: 15_000 }),
    )
    await child.stop()
    await whenGone(grandchild)
    expect(child.pid()).toBeUndefined()
    expect(lines).toEqual(['child did not end within 0.05 s and is killed'])
  })

  it('is not started again when it is stopped during the pause', async () => {
    const started = path.join(folder, 'started')
    const child = superviseShell(`echo once >> ${started}; exit 7`, {
      backOff: { firstDelayMs: 300, longestDelayMs: 300, steadyMs: 60_000 },
    })
    await whenSaid('starting it again')
    await child.stop()
    // A second child outlives the pause.
    const clock = superviseShell('sleep 0.6', { name: 'clock' })
    await waitFor('the end of the pause', () => (clock.deaths() > 0 ? true : undefined), { limitMs: 15_000 })
    expect(child.deaths()).toBe(1)
    expect(fs.readFileSync(started, 'utf8')).toBe('once\n')
  })
})

describe('children of a process that was killed', () => {
  /** A process of its own that tracks a child and then does nothing; its child's number is its output. */
  async function startOwner(
    isThrownAway = false,
  ): Promise<{ owner: ChildProcess; childPid: number; shellPid: number }> {
    const source = new URL('../../scripts/embedded/', import.meta.url).href
    const script = `
      import fs from 'node:fs';
      import { trackChildren } from '${source}children.ts';
      import { supervise } from '${source}supervise.ts';
      const children = trackChildren(${JSON.stringify(folder)}, console.log, ${isThrownAway});
      const child = supervise({ name: 'sleeper', command: 'sleep', args: ['600'], env: { PATH: process.env.PATH }, stopLimitMs: 1000 }, console.log, children);
      const shells = fs.readFileSync('/proc/self/task/' + process.pid + '/children', 'utf8').trim().split(' ').map(Number);
      console.log(JSON.stringify({ childPid: child.pid(), shellPid: shells.find((pid) => pid !== child.pid()) }));
    `
    const owner = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    owner.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
    const line = await waitFor('the numbers of the child processes', () => /^\{.*\}$/m.exec(output)?.[0], {
      limitMs: 15_000,
    })
    return { owner, ...(JSON.parse(line) as { childPid: number; shellPid: number }) }
  }

  it.runIf(process.platform === 'linux')('are stopped by the watch as soon as it is gone', async () => {
    // skipped elsewhere: reads /proc
    const { owner, childPid, shellPid } = await startOwner()
    expect(isAlive(childPid)).toBe(true)
    owner.kill('SIGKILL')
    await whenGone(childPid)
    await whenGone(shellPid)
  })

  it.runIf(process.platform === 'linux')(
    'are stopped by the next start when the watch was killed too',
    async () => {
      // skipped elsewhere: reads /proc
      const { owner, childPid, shellPid } = await startOwner()
      process.kill(shellPid, 'SIGKILL')
      await whenGone(shellPid)
      owner.kill('SIGKILL')
      await whenGone(owner.pid!)
      expect(isAlive(childPid)).toBe(true)
      await stopLeftovers(folder, report)
      expect(isAlive(childPid)).toBe(false)
      expect(lines).toEqual([`stopping sleeper (process ${childPid}), left over from an earlier start`])
    },
  )

  it.runIf(process.platform === 'linux')('take a folder that was to be thrown away with them', async () => {
    // skipped elsewhere: reads /proc
    const { owner } = await startOwner(true)
    owner.kill('SIGKILL')
    await waitFor('the end of the folder', () => (fs.existsSync(folder) ? undefined : true), {
      limitMs: 15_000,
    })
  })

  it('take a folder with a file system of its own that is mounted in it', async (context) => {
    const place = path.join(folder, 'disk')
    fs.mkdirSync(place)
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', place]).status === 0
    if (!mounted) context.skip('this user may not mount')
    const { owner } = await startOwner(true)
    owner.kill('SIGKILL')
    await waitFor('the end of the folder', () => (fs.existsSync(folder) ? undefined : true), {
      limitMs: 15_000,
    })
  })

  it('are left alone when their number belongs to another process by now', async () => {
    const stranger = spawn('sleep', ['60'])
    const record = [{ name: 'mongod', pid: stranger.pid, identity: 'another-boot:1' }]
    fs.writeFileSync(path.join(folder, 'children.json'), JSON.stringify(record))
    await stopLeftovers(folder, report)
    expect(isAlive(stranger.pid!)).toBe(true)
    expect(lines).toEqual([])
    stranger.kill()
  })

  it.each(['', '[{"name":"mongod"'])(
    'are not looked for where their list was cut off with the power: %j',
    async (text) => {
      fs.writeFileSync(path.join(folder, 'children.json'), text)
      await stopLeftovers(folder, report)
      expect(lines).toEqual([
        `${path.join(folder, 'children.json')} cannot be read; whatever an earlier start left running is not stopped`,
      ])
      expect(fs.readFileSync(path.join(folder, 'children.json'), 'utf8')).toBe('[]')
    },
  )
})
