import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import type { ChildTracker } from '../../../scripts/embedded/children.ts'
import { reservePort } from '../../../scripts/embedded/ports.ts'
import type { SupervisedChild } from '../../../scripts/embedded/supervise.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { openGate, type Gate } from './gate.ts'
import { keepProcess, type KeptProcess } from './kept-process.ts'
import { makeServerClock, type ServerClock } from './server-clock.ts'

const SET_NAME = 'testbed'
const HOST = '127.0.0.1'
const READY_LIMIT_MS = 60_000
const PARAMETERS = [
  'diagnosticDataCollectionEnabled=false',
  'transactionLifetimeLimitSeconds=3',
  'shutdownTimeoutMillisForSignaledShutdown=100',
]

export interface MongoMember {
  readonly child: KeptProcess
  /** All connections to the member go through it, including other members'. */
  readonly gate: Gate
  /** The member itself, past its gate. */
  readonly port: number
  /** Its data. */
  readonly folder: string
  /** Its clock, if it can be set. */
  readonly clock: ServerClock | undefined
}

export interface MongoSet {
  /** Names every member, by its gate unless the set is direct. */
  readonly url: string
  readonly members: readonly MongoMember[]
  /** The index of the member that takes writes, or undefined if none says that it does. */
  findPrimary(): Promise<number | undefined>
  /** Runs an admin command on one member, past its gate. @throws Error if it cannot or does not answer */
  command(index: number, command: mongoose.mongo.Document): Promise<mongoose.mongo.Document>
  /** Resolves when a member takes writes. @throws TimeoutError after a minute */
  whenWritable(): Promise<void>
  /** Stops the members and closes their gates. */
  stop(): Promise<void>
  closeGates(): Promise<void>
}

export interface MongoSetOptions {
  binary: string
  folder: string
  size: number
  /** Whether everything connects to the members themselves, and their gates are unused. */
  isDirect?: boolean
  /** Whether the members' clocks can be set, if this machine has what that takes. */
  hasClocks?: boolean
  children: ChildTracker
  report: (line: string) => void
  /** Called with each member's process before the set is ready, so that it can be stopped in the meantime. */
  onStarted?: (child: SupervisedChild) => void
}

/**
 * Starts a replica set of real, journaled members, each behind a gate and under supervision, and waits until
 * it takes writes.
 */
export async function startMongoSet({
  binary,
  folder,
  size,
  isDirect = false,
  hasClocks = false,
  children,
  report,
  onStarted,
}: MongoSetOptions): Promise<MongoSet> {
  const members: MongoMember[] = []
  for (let index = 0; index < size; index++) {
    const port = await reservePort()
    const dbPath = path.join(folder, `mongo-${index}`)
    fs.mkdirSync(dbPath, { recursive: true })
    const clock = hasClocks ? makeServerClock(folder, `mongod-${index}`, binary, false) : undefined
    const options = {
      dbpath: dbPath,
      port: String(port),
      bind_ip: HOST,
      replSet: SET_NAME,
      logpath: path.join(folder, `mongod-${index}.log`),
      wiredTigerCacheSizeGB: '0.25',
      oplogSize: '256',
      networkMessageCompressors: 'disabled',
    }
    const child = keepProcess(
      {
        name: `mongod-${index}`,
        command: clock?.binary ?? binary,
        args: [
          ...['--nounixsocket', '--logappend', '--noscripting'],
          ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
          ...PARAMETERS.flatMap((parameter) => ['--setParameter', parameter]),
        ],
        env: { PATH: process.env.PATH, HOME: process.env.HOME },
        // With a clock that was shifted a stop in order may never end.
        stopLimitMs: hasClocks ? 3_000 : 20_000,
      },
      report,
      children,
    )
    onStarted?.(child)
    members.push({ child, port, clock, folder: dbPath, gate: await openGate(port) })
  }
  const hosts = members.map(({ gate, port }) => `${HOST}:${isDirect ? port : gate.port}`)
  const directUrl = (index: number): string =>
    `mongodb://${HOST}:${members[index]?.port}/?directConnection=true`
  const command = async (
    index: number,
    document: mongoose.mongo.Document,
    socketTimeoutMS = 3_000,
  ): Promise<mongoose.mongo.Document> => {
    const client = new mongoose.mongo.MongoClient(directUrl(index), {
      serverSelectionTimeoutMS: 1_000,
      connectTimeoutMS: 1_000,
      socketTimeoutMS,
    })
    try {
      return await client.db('admin').command(document)
    } finally {
      await client.close()
    }
  }
  const findPrimary = async (): Promise<number | undefined> => {
    for (const index of members.keys()) {
      const hello = await command(index, { hello: 1 }).catch(() => undefined) // down, so not the primary
      if (hello?.['isWritablePrimary'] === true) return index
    }
    return undefined
  }
  const whenWritable = async (): Promise<void> => {
    await waitFor('a MongoDB set that takes writes', findPrimary, { limitMs: READY_LIMIT_MS, everyMs: 100 })
  }
  const closeGates = async (): Promise<void> => {
    await Promise.all(members.map(({ gate }) => gate.close()))
  }
  for (const index of members.keys())
    await waitFor(
      `an answer from mongod-${index}`,
      async () =>
        (await command(index, { hello: 1 }).catch(() => undefined)) === undefined ? undefined : true,
      { limitMs: READY_LIMIT_MS },
    )
  const config = {
    _id: SET_NAME,
    members: hosts.map((host, _id) => ({ _id, host })),
    // Faster than the 10 s of the default, so that a short run sees many elections.
    settings: { electionTimeoutMillis: 2_000, heartbeatIntervalMillis: 500 },
  }
  await command(0, { replSetInitiate: config }, READY_LIMIT_MS)
  await whenWritable()
  return {
    url: `mongodb://${hosts.join(',')}/testbed?replicaSet=${SET_NAME}`,
    members,
    findPrimary,
    command,
    whenWritable,
    closeGates,
    async stop() {
      await Promise.all(members.map(({ child }) => child.stop()))
      await closeGates()
    },
  }
}
