import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepareShareStorm, type ShareStorm } from '../support/share-storm.ts'

const STORMS = 100
/** Longer than what is waited for within it: the new workers, and the end of every batch. */
const STORM_LIMIT_MS = 120_000
let storm: ShareStorm

beforeAll(async () => {
  storm = await prepareShareStorm()
})
afterAll(() => storm.stop())

describe('sixteen submissions at once over four worker processes', () => {
  it(
    `count exactly when two workers are killed and Redis is emptied in the middle, ${STORMS} times`,
    { timeout: STORMS * STORM_LIMIT_MS },
    async () => {
      expect.hasAssertions()
      for (let i = 0; i < STORMS; i++) await storm.run()
    },
  )
})
