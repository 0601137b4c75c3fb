import { afterAll, beforeAll, describe, it } from 'vitest'
import { crashAt, CRASH_POINTS } from '../support/monero-crashes.ts'
import { openMoneroVenue, XMR, type MoneroPayee, type MoneroVenue } from '../support/monero-venue.ts'

let venue: MoneroVenue
let payee: MoneroPayee
beforeAll(async () => {
  venue = await openMoneroVenue({ queues: [] })
  payee = await venue.openPayee()
  await venue.fund(10, XMR)
})
afterAll(() => venue?.stop())

describe('a worker of the Monero wallet that is killed', () => {
  it.each(CRASH_POINTS)(
    '$phase call $count of $call leaves one credit, one transfer, and nothing forgotten',
    (point) => crashAt(venue, payee, point),
  )
})
