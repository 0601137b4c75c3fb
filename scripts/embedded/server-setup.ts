import mongoose from 'mongoose'
import { Redis } from 'ioredis'
import { z } from 'zod'
import { StartError } from '../../shared/platform/process.ts'
import {
  ADMIN,
  DATABASE,
  dropDatabases,
  dropOtherUsers,
  ensureAdmin,
  ensureUsers,
  initiateReplicaSet,
  NOT_YET_INITIALIZED,
} from './mongo-users.ts'
import { HOST, REPLICA_SET, type UserPassword } from './server.ts'

/*
 * What a server that has just been started is asked and told by its clients' libraries. The start script has it
 * done in a process of its own (setup-child.ts), which ends with the start, so that it needn't hold these.
 */

/** A server that has answered may be slow on a busy machine; one that starts is tried again and again. */
const CONNECT_LIMIT_MS = 10_000
const TRY_LIMIT_MS = 500

// Codes of the server's error_codes.yml.
const INVALID_REPLICA_SET_CONFIG = 93
const AUTHENTICATION_FAILED = 18

/** Makes the administrator of a MongoDB that has no users yet. */
export const makeAdmin = (port: number, password: string): Promise<void> =>
  withClient(port, undefined, (client) => ensureAdmin(client, password))

/** Makes each user, or sets what it may do, and drops all others; of a new server also what is stored. */
export const makeUsers = (
  port: number,
  adminPassword: string,
  users: readonly UserPassword[],
  isNew: boolean,
): Promise<void> =>
  withClient(port, adminPassword, async (client) => {
    await dropOtherUsers(client, [ADMIN, ...users.map(({ name }) => name)])
    if (isNew) await dropDatabases(client)
    await ensureUsers(client, DATABASE, users)
  })

/**
 * Asks the server once whether it takes writes, and configures its replica set if it is not the primary.
 *
 * @returns whether it takes writes; if not yet, ask again
 * @throws StartError if it refuses the password
 */
export async function becomePrimary(port: number, adminPassword: string | undefined): Promise<boolean> {
  const host = `${HOST}:${port}`
  const checkAndConfigure = async (client: mongoose.mongo.MongoClient): Promise<boolean> => {
    const hello = await client.db('admin').command({ hello: 1 })
    // `hello` needs no login; this command fails if the password is wrong.
    if (adminPassword !== undefined) await client.db('admin').command({ connectionStatus: 1 })
    if (hello['isWritablePrimary'] === true && hello['me'] === host) return true
    await configureReplicaSet(client, host)
    return false
  }
  try {
    return await withClient(port, adminPassword, checkAndConfigure, TRY_LIMIT_MS)
  } catch (error) {
    if (error instanceof mongoose.mongo.MongoServerError && error.code === AUTHENTICATION_FAILED)
      throw new StartError(
        'MongoDB refuses the password in DATA_DIR/mongo-password. If the data was replaced, remove DATA_DIR/mongo-users, and the next start makes its users anew.',
      )
    // Not up yet, in an election, or being configured already.
    if (!(error instanceof mongoose.mongo.MongoError)) throw error
    return false
  }
}

/**
 * Makes the one-member set if there is none, or sets its member's address to `host` if the port has changed;
 * else does nothing.
 */
async function configureReplicaSet(client: mongoose.mongo.MongoClient, host: string): Promise<void> {
  const admin = client.db('admin')
  const state = await admin.command({ replSetGetStatus: 1 }).then(
    () => 'a member',
    (error: unknown) =>
      error instanceof mongoose.mongo.MongoServerError ? error.code : Promise.reject(error),
  )
  if (state === NOT_YET_INITIALIZED) {
    await initiateReplicaSet(client, REPLICA_SET, [host])
    return
  }
  // Without a member that is itself, the server answers nothing about the set, so the stored configuration is
  // read.
  if (state !== INVALID_REPLICA_SET_CONFIG && state !== 'a member') return
  const stored = await client
    .db('local')
    .collection('system.replset')
    .findOne({}, { readPreference: 'nearest' })
  const config = storedConfig.safeParse(stored)
  if (!config.success || (config.data.members.length === 1 && config.data.members[0]?.host === host)) return
  const member = { ...config.data.members[0], host }
  // Forced, because a member that is not in its own set cannot be elected to agree to anything.
  await admin.command({
    replSetReconfig: { ...config.data, version: config.data.version + 1, members: [member] },
    force: true,
  })
}

const storedConfig = z.looseObject({
  version: z.int(),
  members: z.array(z.looseObject({ host: z.string() })).min(1),
})

/**
 * Does some work with a client of its own, and closes it. (A client whose first connection failed stays
 * closed for good, so that each try needs another one.)
 */
async function withClient<T>(
  port: number,
  adminPassword: string | undefined,
  work: (client: mongoose.mongo.MongoClient) => Promise<T>,
  limitMs = CONNECT_LIMIT_MS,
): Promise<T> {
  const client = new mongoose.mongo.MongoClient(`mongodb://${HOST}:${port}/?directConnection=true`, {
    serverSelectionTimeoutMS: limitMs,
    appName: 'start',
    ...(adminPassword === undefined ? {} : { auth: { username: ADMIN, password: adminPassword } }),
  })
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

/**
 * Whether a Redis answers a ping; false while it doesn't listen yet or is still loading its file.
 *
 * @throws the server's error if it refuses the URL's password
 */
export async function answersPing(url: string): Promise<boolean> {
  const connection = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    connectTimeout: 2_000,
  })
  // Each failure also rejects the calls below.
  connection.on('error', () => undefined)
  try {
    await connection.connect()
    return (await connection.ping()) === 'PONG'
  } catch (error) {
    if (error instanceof Error && /WRONGPASS|NOAUTH/.test(error.message)) throw error
    return false
  } finally {
    connection.disconnect()
  }
}
