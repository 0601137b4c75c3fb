import { describe, it } from 'vitest'
import { FULL } from '../support/full.ts'
import {
  crashAt,
  crashInRun,
  prepareNanoPassage,
  startNanoChild,
  type CrashPoint,
} from '../support/nano-crashes.ts'
import { useNanoVenue, type NanoVenue } from '../support/nano-venue.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

/** One of each kind, with the blocks below; all of them are in test/faults. */
const SOME: readonly CrashPoint[] = [{ call: 'transaction', phase: 'after', count: 1 }]

describe('a worker that is killed', () => {
  it.each(SOME)(
    '$phase call $count of $call leaves one credit, one transfer each, and nothing forgotten',
    (point) => crashAt(venue, point),
    120_000,
  )

  it.runIf(FULL).each<CrashPoint>([
    { call: 'process', phase: 'answered', count: 2 },
    { call: 'process', phase: 'after', count: 11 },
  ])(
    '$phase call $count of $call, in the middle of a run of blocks, does so too',
    (point) => crashInRun(venue, point),
    120_000,
  )
})

describe('three workers at once', () => {
  it.runIf(FULL)(
    'count, sweep and pay everything once, with no fork',
    async () => {
      const { verify } = await prepareNanoPassage(venue, 6)
      await Promise.all([1, 2, 3].map(() => startNanoChild(venue, { ROUNDS: '3' }).ended))
      await startNanoChild(venue, { ROUNDS: '2' }).ended
      await verify()
    },
    240_000,
  )
})
