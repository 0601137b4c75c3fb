import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { createLog } from '../../shared/platform/log.ts'
import { openLogOutput } from '../../shared/platform/log-output.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { PATIENCE_MS } from '../support/patience.ts'

function logError(error: unknown): Record<string, unknown> {
  const lines: string[] = []
  createLog('test', 'info', { write: (line: string) => void lines.push(line) }).error(
    { err: error },
    'it failed',
  )
  expect(lines).toHaveLength(1)
  return (JSON.parse(lines[0] ?? '') as { err: Record<string, unknown> }).err
}

describe('a logged error', () => {
  it('has its name, message, stack and cause, without its other properties and without credentials', () => {
    const cause = new TypeError('mongodb://operator:secret@127.0.0.1/x went away')
    const error = Object.assign(new Error('the look failed', { cause }), {
      request: { headers: 'Bearer sk_1' },
    })
    const logged = logError(error)
    expect(logged).toEqual({
      name: 'Error',
      message: 'the look failed',
      stack: expect.stringContaining('log.test.ts') as string,
      cause: {
        name: 'TypeError',
        message: 'mongodb://***@127.0.0.1/x went away',
        stack: expect.any(String) as string,
      },
    })
    expect(JSON.stringify(logged)).not.toContain('secret')
  })

  it("has MongoDB's or Node's word for it, and no property that is not a word", () => {
    const logAs = (properties: object) => logError(Object.assign(new Error('no'), properties))['code']
    expect(logAs({ code: 251, codeName: 'NoSuchTransaction' })).toBe('NoSuchTransaction')
    expect(logAs({ code: 'ECONNREFUSED' })).toBe('ECONNREFUSED')
    expect(logAs({ code: 251 })).toBeUndefined()
    expect(logAs({ code: 'mongodb://operator:secret@127.0.0.1/x' })).toBeUndefined()
  })

  it('that stands for several describes the first five of them, each by the same rules', () => {
    const parts = Array.from(
      { length: 7 },
      (_, index) => new RangeError(`redis://:pass${index}@host, part ${index}`),
    )
    const logged = logError(new AggregateError(parts, 'seven failed'))
    expect(logged).toMatchObject({ name: 'AggregateError', message: 'seven failed' })
    expect((logged['errors'] as { message: string }[]).map(({ message }) => message)).toEqual(
      [0, 1, 2, 3, 4].map((index) => `redis://***@host, part ${index}`),
    )
  })

  it('may be anything that was thrown', () => {
    expect(logError('a text')).toEqual({ message: 'a text' })
  })
})

describe.runIf(process.platform === 'linux')('an output of the log that takes no lines', () => {
  // skipped elsewhere: opens a named pipe for both ways, and /dev/full
  it('keeps some, drops the others, and says how many once it takes lines again', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'log-test-'))
    const pipe = path.join(folder, 'pipe')
    spawnSync('mkfifo', [pipe])
    const fd = fs.openSync(pipe, fs.constants.O_RDWR | fs.constants.O_NONBLOCK)
    try {
      const output = openLogOutput(fd, 100_000)
      for (let turn = 0; turn < 10; turn += 1) {
        for (let number = 0; number < 40; number += 1)
          output.write(`{"turn":${turn},"text":"${'x'.repeat(1_000)}"}\n`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      let text = ''
      const read = () => {
        const part = Buffer.alloc(65_536)
        try {
          text += part.subarray(0, fs.readSync(fd, part)).toString()
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
          output.write('{"turn":"later"}\n')
        }
        return text.includes('later"}\n') ? text.trimEnd().split('\n') : undefined
      }
      const lines = (await waitFor('the lines', read, { limitMs: PATIENCE_MS })).map(
        (line) => JSON.parse(line) as Record<string, unknown>,
      )
      const kept = lines.filter(({ text }) => text !== undefined).length
      expect(kept).toBeGreaterThan(100)
      expect(kept).toBeLessThan(400)
      expect(lines.reduce((sum, { dropped = 0 }) => sum + Number(dropped), kept)).toBe(400)
      expect(lines.at(-1)).toEqual({ turn: 'later' })
    } finally {
      fs.closeSync(fd)
      fs.rmSync(folder, { recursive: true })
    }
  })

  it('keeps the order of lines to the end, however busy the threads are that write', () => {
    const source = new URL('../../shared/platform/log.ts', import.meta.url).href
    // The one thread of the pool is at work from before the first line is handed over until after the last.
    const script = `
      import { pbkdf2 } from 'node:crypto'
      import { createLog } from '${source}'
      const log = createLog('test')
      pbkdf2('a', 'b', 300_000, 64, 'sha512', () => {})
      log.info('one')
      setTimeout(() => { log.info('two'); process.exit(3) }, 50)`
    const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
      timeout: 60_000,
      encoding: 'utf8',
    })
    expect(status).toBe(3)
    expect(stdout).toMatch(/"msg":"one"}\n.*"msg":"two"}\n$/)
  })

  it('does not hold up the end of the process where they cannot be written', () => {
    const source = new URL('../../shared/platform/log.ts', import.meta.url).href
    const script = `import { createLog } from '${source}'; const log = createLog('test'); log.info('one'); setTimeout(() => { log.info('two'); process.exit(3) }, 50)`
    const run = (stdout: number | 'pipe') =>
      spawnSync(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', stdout, 'pipe'],
        timeout: 60_000,
        encoding: 'utf8',
      })
    const full = fs.openSync('/dev/full', 'w')
    const onFull = run(full)
    fs.closeSync(full)
    expect([onFull.status, onFull.stderr]).toEqual([3, ''])
    expect(run('pipe').stdout).toMatch(/"msg":"one"}\n.*"msg":"two"}\n$/)
  })
})
