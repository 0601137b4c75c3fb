import { describe, expect, it } from 'vitest'
import { createLog } from '../../shared/log.ts'

function logError(error: unknown): Record<string, unknown> {
  const lines: string[] = []
  createLog('test', 'info', { write: (line: string) => void lines.push(line) }).error({ err: error }, 'it failed')
  expect(lines).toHaveLength(1)
  return (JSON.parse(lines[0] ?? '') as { err: Record<string, unknown> }).err
}

describe('a logged error', () => {
  it('has its name, message, stack and cause, without its other properties and without credentials', () => {
    const cause = new TypeError('mongodb://operator:secret@127.0.0.1/x went away')
    const error = Object.assign(new Error('the look failed', { cause }), { request: { headers: 'Bearer sk_1' } })
    const logged = logError(error)
    expect(logged).toEqual({
      name: 'Error',
      message: 'the look failed',
      stack: expect.stringContaining('log.test.ts') as string,
      cause: { name: 'TypeError', message: 'mongodb://***@127.0.0.1/x went away', stack: expect.any(String) as string },
    })
    expect(JSON.stringify(logged)).not.toContain('secret')
  })

  it('that stands for several describes the first five of them, each by the same rules', () => {
    const parts = Array.from({ length: 7 }, (_, index) => new RangeError(`redis://:pass${index}@host, part ${index}`))
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
