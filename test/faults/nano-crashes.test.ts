import { describe, expect, it } from 'vitest'
import {
  crashAt,
  crashInRun,
  CRASH_POINTS,
  prepareNanoPassage,
  RUN_CRASH_POINTS,
  startNanoChild,
} from '../support/nano-crashes.ts'
import { useNanoVenue, type NanoVenue } from '../support/nano-venue.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

describe('a worker that is killed at any step of settling, sweeping and sending', () => {
  it.each(CRASH_POINTS)(
    '$phase call $count of $call: one credit, one transfer each, nothing forgotten',
    (point) => crashAt(venue, point),
    240_000,
  )
})

describe('a worker that is killed at any block of a run', () => {
  it.each(RUN_CRASH_POINTS)(
    '$phase call $count of $call: one credit, one transfer each, nothing forgotten',
    (point) => crashInRun(venue, point),
    240_000,
  )
})

describe('workers that are killed at any moment beside each other', () => {
  it.each([1, 2, 3])(
    'count, sweep and pay everything once: storm %i',
    async () => {
      const { verify } = await prepareNanoPassage(venue, 8)
      for (let blow = 0; blow < 4; blow++) {
        const workers = [startNanoChild(venue, { ROUNDS: '5' }), startNanoChild(venue, { ROUNDS: '5' })]
        await new Promise((resolve) => setTimeout(resolve, 1_000 + Math.random() * 2_000))
        for (const { child } of workers) child.kill('SIGKILL')
        await Promise.all(workers.map(({ ended }) => ended))
      }
      expect(await startNanoChild(venue, { ROUNDS: '4' }).ended).toBe(0)
      await verify()
    },
    600_000,
  )
})
