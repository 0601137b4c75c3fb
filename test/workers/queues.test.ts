import { afterEach, describe, expect, it } from 'vitest'
import { openGate } from '../harness/testbed/gate.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { createLog } from '../../shared/platform/log.ts'
import { openQueues } from '../../shared/platform/queues.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { isolate } from '../support/servers.ts'

const LIMIT = { limitMs: PATIENCE_MS }
const cleanUp: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const one of cleanUp.splice(0).reverse()) await one()
})

describe('a queue', () => {
  it('takes jobs again after an outage, though it was used for the first time in the middle of it', async () => {
    const { redisUrl, queuePrefix } = isolate()
    const url = new URL(redisUrl)
    const gate = await openGate(Number(url.port))
    url.port = String(gate.port)
    cleanUp.push(() => gate.close())
    const queues = openQueues(url.href, queuePrefix, createLog('test', 'silent'))
    cleanUp.push(() => queues.close())
    await queues.whenReady()
    gate.hang()
    expect(await queues.enqueue('sequence', {})).toBe(false)
    const first = queues.get('sequence').waitUntilReady()
    gate.cut()
    await expect(first).rejects.toThrow()
    gate.heal()
    await waitFor('an end of the outage', () => queues.isConnected() || undefined, LIMIT)
    await waitFor(
      'a job on the queue',
      async () => (await queues.enqueue('sequence', {})) || undefined,
      LIMIT,
    )
    expect(await queues.get('sequence').getWaitingCount()).toBeGreaterThan(0)
  })
})
