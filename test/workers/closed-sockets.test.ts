import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import mongoose from 'mongoose'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { openGate, type Gate } from '../harness/testbed/gate.ts'
import { createLog } from '../../shared/platform/log.ts'
import { isOutage, openDatabase, type Database } from '../../shared/platform/database.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { isolate } from '../support/servers.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

/** More than the buffers of both ends of a connection and of the gate between them take together. */
const BIG = Array.from({ length: 4 }, () => ({ text: 'x'.repeat(10_000_000) }))

let gate: Gate
/** Past the gate. */
let directUrl: URL
let database: Database
const sockets = new Set<Socket>()

const remember = (message: unknown): void => {
  const { socket } = message as { socket: Socket }
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
}
/** The database's connections now. */
const listSockets = (): Socket[] => [...sockets].filter(({ remotePort }) => remotePort === gate.port)
/** As the driver closes a connection of whose server it has found out that it is away. */
const closeAll = (): void => listSockets().forEach((socket) => socket.destroy())
/** As Node does when the server resets a connection. */
const resetAll = (): void =>
  listSockets().forEach((socket) =>
    socket.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })),
  )
/** As Node does when the server ends a connection: it is closed a moment later, and until then refuses writes. */
const endAll = async (): Promise<void> => {
  listSockets().forEach((socket) => socket.push(null))
  await new Promise((resolve) => process.nextTick(resolve))
}
/** How an operation ends; an operation that never ends makes the test run out of time. */
const outcomeOf = (operation: Promise<unknown>): Promise<string> =>
  operation.then(
    () => 'done',
    (error: unknown) => (isOutage(error) ? 'outage' : `defect: ${String(error)}`),
  )

beforeAll(async () => {
  const url = new URL(isolate().mongodbUrl)
  directUrl = new URL(url)
  gate = await openGate(Number(url.port))
  url.port = String(gate.port)
  // Otherwise the driver connects to the member's own address.
  url.search = '?directConnection=true&monitorCommands=true'
  subscribe('net.client.socket', remember)
  database = openDatabase({
    now: Date.now,
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

describe('a connection that ends just as a transaction commits', () => {
  const { commitTransaction } = mongoose.mongo.ClientSession.prototype
  afterEach(() => {
    mongoose.mongo.ClientSession.prototype.commitTransaction = commitTransaction
  })

  /** Counts in one transaction. @returns what stands there afterwards, and how often the work was done */
  async function countOnce(name: string): Promise<[number | undefined, number]> {
    const counters = database.connection.collection<{ _id: string; n: number }>('counters')
    let runs = 0
    await database.transaction(async (session) => {
      runs++
      await counters.updateOne({ _id: name }, { $inc: { n: 1 } }, { upsert: true, session })
    })
    return [(await counters.findOne({ _id: name }))?.n, runs]
  }

  it.each([
    ['the driver closes it', closeAll],
    ['it is reset', resetAll],
    ['the server ends it', endAll],
  ])('leaves it committed, once: %s before the commit is written', async (way, end) => {
    let commits = 0
    mongoose.mongo.ClientSession.prototype.commitTransaction = async function (
      this: mongoose.mongo.ClientSession,
      options,
    ) {
      commits++
      // Closed any sooner, it would be replaced by a new connection.
      if (end === endAll) await end()
      else database.connection.getClient().once('commandStarted', end)
      return commitTransaction.call(this, options)
    }
    for (let round = 0; round < 10; round++) expect(await countOnce(`${way} ${round}`)).toEqual([1, 1])
    expect(commits).toBe(10)
  })

  it('leaves it committed, once: it is reset when the commit is done and not yet answered', async () => {
    const observer = await mongoose.createConnection(directUrl.href).asPromise()
    const counters = observer.collection<{ _id: string; n: number }>('counters')
    const client = database.connection.getClient()
    for (let round = 0; round < 10; round++) {
      const name = `done ${round}`
      let losing: Promise<void> | undefined
      const loseAnswer = ({ commandName }: { commandName: string }): void => {
        if (commandName !== 'commitTransaction' || losing !== undefined) return
        const ports = new Set(listSockets().map(({ localPort }) => localPort ?? 0))
        const end = gate.divide(() => ports, 'answers')
        losing = waitFor('the commit', async () => (await counters.findOne({ _id: name })) ?? undefined, {
          limitMs: PATIENCE_MS,
          everyMs: 5,
        }).then(() => end('reset'))
      }
      client.on('commandStarted', loseAnswer)
      expect(await countOnce(name)).toEqual([1, 1])
      client.off('commandStarted', loseAnswer)
      expect(losing).toBeDefined()
      await losing
    }
    await observer.close()
  })
})
