import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openGate, type Gate } from '../../scripts/torture/gate.ts'
import { createLog } from '../../shared/foundation/log.ts'
import { isOutage, openDatabase, type Database } from '../../shared/servers/database.ts'
import { isolate } from '../support/servers.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

/** More than the buffers of both ends of a connection and of the gate between them take together. */
const BIG = Array.from({ length: 4 }, () => ({ text: 'x'.repeat(10_000_000) }))

let gate: Gate
let database: Database
const sockets = new Set<Socket>()

const remember = (message: unknown): void => {
  const { socket } = message as { socket: Socket }
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
}
/** As the driver closes a connection of whose server it has found out that it is away. */
const closeAll = (): void => {
  for (const socket of sockets) if (socket.remotePort === gate.port) socket.destroy()
}
/** How an operation ends; an operation that never ends makes the test run out of time. */
const outcomeOf = (operation: Promise<unknown>): Promise<string> =>
  operation.then(
    () => 'done',
    (error: unknown) => (isOutage(error) ? 'outage' : `defect: ${String(error)}`),
  )

beforeAll(async () => {
  const url = new URL(isolate().mongodbUrl)
  gate = await openGate(Number(url.port))
  url.port = String(gate.port)
  // Otherwise the driver connects to the member's own address.
  url.search = '?directConnection=true'
  subscribe('net.client.socket', remember)
  database = openDatabase({
    url: url.href,
    log: createLog('test', 'silent'),
    timeoutMs: 5_000,
    prepare: () => Promise.resolve(),
  })
  await database.whenReady()
})
afterAll(async () => {
  unsubscribe('net.client.socket', remember)
  gate.heal()
  await database.connection.dropDatabase()
  await database.close()
  await gate.close()
})

describe('an operation on a connection that is closed', () => {
  it('just before it is sent, ends', async () => {
    const records = database.connection.collection('records')
    for (let round = 0; round < 20; round++) {
      await records.findOne({})
      closeAll()
      expect(await outcomeOf(records.findOne({}))).toMatch(/^(done|outage)$/)
      closeAll()
      expect(await outcomeOf(records.insertOne({ round }))).toMatch(/^(done|outage)$/)
      closeAll()
      const transaction = database.transaction((session) => records.insertOne({ round }, { session }))
      expect(await outcomeOf(transaction)).toMatch(/^(done|outage)$/)
    }
  })

  it('while it is sent to a server that reads nothing, ends', async () => {
    const records = database.connection.collection('records')
    await records.findOne({})
    gate.hang()
    const write = outcomeOf(records.insertMany(BIG))
    await sleep(500)
    closeAll()
    gate.heal()
    expect(await write).toMatch(/^(done|outage)$/)
  })
})
