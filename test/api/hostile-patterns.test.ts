import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { solvePuzzle } from '../../client/puzzle-solver.ts'
import { FULL } from '../support/full.ts'
import { findPatterns, longTexts } from '../support/torture-patterns.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Longer than any text that reaches a pattern before its length is checked, but for the body itself. */
const LENGTH = 50_000
/** Ends that do not fit: all four in the long run, which one hardly tells from another. */
const MISFITS = FULL ? 4 : 1
/** Patterns that are slow on long texts, and how long theirs can be. */
const BOUNDED: Readonly<Record<string, { length: number; because: string }>> = {
  '\\/+$': { length: 2_000, because: 'of URLs that their own user sets' },
  '0+$': { length: 40, because: 'of the digits of an amount' },
}
/**
 * A pattern in time that grows with the length takes less than a millisecond; one that grows with its square,
 * seconds.
 */
const LIMIT_MS = 300

/** What work takes of a processor, so that a machine that does something else meanwhile does not count. */
function measureMs(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1_000
}

/** Of the programs that read what others send. */
const patterns = findPatterns(ROOT, ['api', 'shared', 'workers', 'client'])

describe('the patterns of the service and the client', () => {
  it('are found: each is one', () => {
    expect(patterns.length).toBeGreaterThan(80)
    for (const { file, source, flags } of patterns)
      expect(() => new RegExp(source, flags), `${file}: /${source}/${flags}`).not.toThrow()
    const sources = patterns.map(({ source }) => source)
    for (const known of ['^sk_[0-9a-f]{48}$', '^[0-9a-f]{64}$', ...Object.keys(BOUNDED)])
      expect(sources).toContain(known)
  })

  it.each([
    ...new Map(patterns.map((pattern) => [`/${pattern.source}/${pattern.flags}`, pattern])).entries(),
  ])('%s takes time that grows with the length alone', (_, { source, flags }) => {
    const pattern = new RegExp(source, flags)
    for (const text of longTexts(source, BOUNDED[source]?.length ?? LENGTH, MISFITS)) {
      const test = (): void => {
        pattern.lastIndex = 0
        pattern.test(text)
      }
      // The best of five counts: a guest's processor may have done something else, too.
      let bestMs = measureMs(test)
      for (let round = 1; round < 5 && bestMs >= LIMIT_MS; round += 1)
        bestMs = Math.min(bestMs, measureMs(test))
      expect(bestMs, `${JSON.stringify(text.slice(0, 20))}… ${JSON.stringify(text.slice(-2))}`).toBeLessThan(
        LIMIT_MS,
      )
    }
  })

  it.runIf(FULL)('would be caught if one did not', () => {
    const slow = /^(a+)+$/
    expect(measureMs(() => void slow.test(`${'a'.repeat(25)}!`))).toBeGreaterThan(LIMIT_MS)
    expect([...longTexts('^(a+)+$', 27)]).toContain(`${'a'.repeat(27)}!`)
    expect(() =>
      solvePuzzle({ kind: 'sort-words', question: 'words '.repeat(1_000), answer_format: 'words' }),
    ).toThrow(/at most 2000 characters/)
  })
})
