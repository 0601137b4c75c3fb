import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FULL } from '../support/full.ts'
import { histories, openRealMarket, playHistory, type RealMarket } from '../support/market-model.ts'

const HISTORIES = FULL ? 2_000 : 2
const HISTORY_LIMIT_MS = 5_000
const COMMANDS = 40
let real: RealMarket

beforeAll(async () => {
  real = await openRealMarket()
})
afterAll(() => real.stop())

describe('the market, in histories of buyers, sellers, payments, deadlines, disputes, outages and deaths of workers', () => {
  it(
    `owes everything that it received, once, to the right one, in ${HISTORIES} of them`,
    { timeout: 120_000 + HISTORIES * HISTORY_LIMIT_MS },
    async () => {
      expect.hasAssertions()
      await fc.assert(
        fc.asyncProperty(histories(COMMANDS), (history) => playHistory(real, history)),
        { numRuns: HISTORIES },
      )
    },
  )
})
