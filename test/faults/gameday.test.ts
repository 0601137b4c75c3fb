import { afterAll, beforeAll, expect, it } from 'vitest'
import { MISHAPS } from '../harness/gameday/mishaps.ts'
import { startNetwork, type Network } from '../harness/gameday/network.ts'
import { play } from '../harness/gameday/play.ts'

/*
 * The part of `npm run harness -- gameday` that takes little time, for `npm run test:long`. All of it is played by that command.
 */
const quick = MISHAPS.filter(({ isQuick }) => isQuick)
let network: Network

beforeAll(async () => {
  network = await startNetwork(() => undefined)
}, 240_000)
afterAll(() => network?.stop())

it.each(quick)('status says that $name, its own command mends it, and nothing is lost', async (mishap) => {
  const { lost } = await play(network, mishap)
  expect(lost).toEqual([])
})

it('has 20 mishaps and more, each of a name of its own', () => {
  expect(new Set(MISHAPS.map(({ name }) => name)).size).toBe(MISHAPS.length)
  expect(MISHAPS.length).toBeGreaterThanOrEqual(20)
})
