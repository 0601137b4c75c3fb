import { expect, it } from 'vitest'
import { MISHAPS } from '../harness/gameday/mishaps.ts'
import { runGameday } from '../harness/gameday/run.ts'

const LIMIT_MS = 900_000

/*
 * The part of `npm run harness -- gameday` that takes little time, for `npm run test:long`. All of it is played by that command.
 */
const quick = MISHAPS.filter(({ isQuick }) => isQuick)

it(
  'names each quick mishap by status, mends it by the command that status gives, and loses nothing',
  async () => {
    const { played, findings } = await runGameday(quick, () => undefined)
    expect(findings).toEqual([])
    expect(played.map(({ name }) => name)).toEqual(quick.map(({ name }) => name))
  },
  LIMIT_MS,
)

it('has 20 mishaps and more, each of a name of its own', () => {
  expect(new Set(MISHAPS.map(({ name }) => name)).size).toBe(MISHAPS.length)
  expect(MISHAPS.length).toBeGreaterThanOrEqual(20)
})
