import { hash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { z } from 'zod'
import { ACCESS_NAMES, mongoPrivileges, redisRules, type AccessName } from './access.ts'
import { readJsonFile, replaceFile } from '../../shared/platform/durable-file.ts'
import { StartError } from '../../shared/platform/process.ts'
import { parseRedisUrl } from '../../shared/platform/redis-url.ts'
import { makeSecret } from './data-dir.ts'
import {
  DATABASE,
  ensureUser,
  ensureUsers,
  initiateReplicaSet,
  NODE_NOT_FOUND,
  NOT_YET_INITIALIZED,
  roleOf,
} from './mongo-users.ts'
import type { UserPassword } from './server.ts'
import { waitFor } from './wait.ts'

const REPLICA_SET = 'agents'
/** Who configures the set later, such as with rs.add(). */
const ADMINISTRATOR = 'admin'
/** The secret that members of the replica set show to each other; it also lets `--apply` in. */
const KEY_FILE = 'mongo_keyfile'
const PASSWORDS_FILE = 'mongo_passwords'
const ACL_FILE = 'redis_acl'
/** Lines for the configuration of each Redis and of each sentinel. */
const REDIS_CONFIG_FILE = 'redis_conf'
const SENTINEL_CONFIG_FILE = 'sentinel_conf'
/** The user of Redis as whom replicas and sentinels log in to each other's servers. */
const SERVERS = 'servers'
/** What Redis's documentation asks for replication and for sentinels: https://redis.io/docs/latest/operate/oss_and_stack/management/ */
const SERVERS_RULES =
  'resetkeys allchannels -@all +psync +replconf +ping +subscribe +publish +info +role +slaveof +multi +exec +config|rewrite +client|setname +client|kill +script|kill'
const READY_LIMIT_MS = 120_000

const passwordsFile = z.object({
  /** Every member of the set, as `HOST:PORT`, separated by commas. */
  host: z.string(),
  /** The file of the authority that has signed the members' certificates; absent without TLS. */
  tls_ca_file: z.string().optional(),
  /** The administrator's, who configures the set; absent in files of older versions. */
  admin: z.string().optional(),
  users: z.record(z.enum(ACCESS_NAMES), z.string()),
})
type Passwords = z.output<typeof passwordsFile>
/** The file may be of a version that had fewer users. */
const keptOfPasswordsFile = passwordsFile.omit({ users: true })

/** Where the servers are. */
export interface ServerPlaces {
  /** The members of MongoDB's set, as `HOST:PORT`, separated by commas. */
  mongo?: string
  /** The URL of Redis without a user, in any form of REDIS_URL; or its `HOST:PORT`. */
  redis?: string
  /** MongoDB is reached over TLS, and Redis if its URL says rediss, with certificates of this authority. */
  tlsCaFile?: string
}

/**
 * Writes the files that give users access: for each user one file with its URL of MongoDB and one with its
 * URL of Redis, so that a process can be given its own alone; and for the servers the key file, the passwords
 * of MongoDB's users and the ACL of Redis. A key file or URL that exists is kept, with its password; the
 * passwords and the ACL are changed to match the URLs, and keep their host and any other user. Of a Redis with
 * sentinels, also the lines of configuration by which replicas and sentinels log in.
 *
 * @param prefix begins the names of the queues
 * @throws Error if a URL that exists has no password
 */
export function writeAccessFiles(folder: string, prefix: string, places: ServerPlaces = {}): void {
  const { mongo = 'mongo:27017', redis = 'redis:6379', tlsCaFile } = places
  const [, scheme = 'redis', redisPlace = redis] = /^(rediss?(?:\+\w+)?):\/\/(.*)$/.exec(redis) ?? []
  const redisRest = withAuthority(redisPlace, scheme.startsWith('rediss') ? tlsCaFile : undefined)
  const read = (name: string): string | undefined => {
    const file = path.join(folder, name)
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : undefined
  }
  const write = (name: string, text: string): void => {
    if (read(name) !== text) replaceFile(path.join(folder, name), `${text}\n`)
  }
  /** Writes a user's URL with a new password unless the file exists. @returns the password in the file */
  const ensureUrl = (name: string, urlWith: (password: string) => string): string => {
    const url = read(name) ?? urlWith(makeSecret())
    const [, password] = /^[a-z+]+:\/\/[^:@/]+:([^@/]+)@/.exec(url) ?? []
    if (password === undefined) throw new Error(`${path.join(folder, name)} has no password`)
    write(name, url)
    return decodeURIComponent(password)
  }
  write(KEY_FILE, read(KEY_FILE) ?? makeSecret())
  const mongoPasswords: Record<string, string> = {}
  const aclLines: string[] = []
  const query = `replicaSet=${REPLICA_SET}&authSource=admin${tlsCaFile === undefined ? '' : `&tls=true&tlsCAFile=${encodeURIComponent(tlsCaFile)}`}`
  const mongoUrl = (user: string, database: string) => (password: string) =>
    `mongodb://${user}:${password}@${mongo}/${database}?${query}`
  const admin = ensureUrl('mongodb_url_admin', mongoUrl(ADMINISTRATOR, 'admin'))
  for (const user of ACCESS_NAMES) {
    mongoPasswords[user] = ensureUrl(`mongodb_url_${user}`, mongoUrl(user, DATABASE))
    const redisPassword = ensureUrl(
      `redis_url_${user}`,
      (password) => `${scheme}://${user}:${password}@${redisRest}`,
    )
    aclLines.push(`user ${user} on #${hash('sha256', redisPassword, 'hex')} ${redisRules(user, prefix)}`)
  }
  const kept = read(PASSWORDS_FILE)
  const { host, tls_ca_file: caFile } =
    kept === undefined ? { host: mongo, tls_ca_file: tlsCaFile } : keptOfPasswordsFile.parse(JSON.parse(kept))
  const tls = caFile === undefined ? {} : { tls_ca_file: caFile }
  write(PASSWORDS_FILE, JSON.stringify({ host, ...tls, admin, users: mongoPasswords }))
  const target = parseRedisUrl(`${scheme}://${redisRest}`)
  if (target?.kind === 'sentinel') {
    const kept = /^masterauth (\S+)$/m.exec(read(REDIS_CONFIG_FILE) ?? '')?.[1]
    const password = kept ?? makeSecret()
    write(REDIS_CONFIG_FILE, `masteruser ${SERVERS}\nmasterauth ${password}`)
    write(
      SENTINEL_CONFIG_FILE,
      `sentinel auth-user ${target.name} ${SERVERS}\nsentinel auth-pass ${target.name} ${password}`,
    )
    aclLines.push(`user ${SERVERS} on #${hash('sha256', password, 'hex')} ${SERVERS_RULES}`)
  }
  const ourUsers = target?.kind === 'sentinel' ? [...ACCESS_NAMES, SERVERS] : ACCESS_NAMES
  const isOurs = (line: string): boolean => ourUsers.some((user) => line.startsWith(`user ${user} `))
  const otherLines = (read(ACL_FILE) ?? 'user default off').split('\n').filter((line) => !isOurs(line))
  write(ACL_FILE, [...otherLines, ...aclLines].join('\n'))
}

/** Where Redis is, with the authority of its certificates. */
function withAuthority(place: string, caFile: string | undefined): string {
  if (caFile === undefined || place.includes('tlsCAFile=')) return place
  return `${place}${place.includes('?') ? '&' : '?'}tlsCAFile=${encodeURIComponent(caFile)}`
}

/**
 * Reads the passwords of MongoDB's users.
 *
 * @throws StartError if the file is missing, or holds something else
 */
export function readPasswords(folder: string): Passwords {
  const file = path.join(folder, PASSWORDS_FILE)
  const broken = new StartError(
    `${file} does not hold what "provision" wrote there: restore it, or remove all access files and have them made anew.`,
  )
  const passwords = readJsonFile(file, passwordsFile, () => broken)
  if (passwords === undefined) throw broken
  return passwords
}

/** Reads the secret of the replica set. @throws StartError if the file is missing, or holds something else */
function readKey(folder: string): string {
  const file = path.join(folder, KEY_FILE)
  const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : ''
  if (/^[0-9a-f]{64}$/.test(text)) return text
  throw new StartError(`${file} does not hold a secret of 64 hex characters: restore it.`)
}

/**
 * Waits until the MongoDB of these access files takes writes, and creates or updates the administrator and
 * every role and user. Makes the replica set of all its members if it has none yet.
 *
 * @param adminUrl the URL of an administrator of a MongoDB that somebody else runs, whose set exists
 * @throws TimeoutError after two minutes
 */
export async function provisionMongo(folder: string, adminUrl?: string): Promise<void> {
  const passwords = readPasswords(folder)
  const logins = Object.entries(passwords.users).map(([name, own]): UserPassword => ({
    name: name as AccessName,
    password: own,
  }))
  const makeUsers = async (client: mongoose.mongo.MongoClient): Promise<void> => {
    if (adminUrl === undefined && passwords.admin !== undefined)
      await ensureUser(client, ADMINISTRATOR, passwords.admin, ['root'])
    await ensureUsers(client, DATABASE, logins)
  }
  const open =
    adminUrl === undefined
      ? connectAsMember(passwords, readKey(folder))
      : () => new mongoose.mongo.MongoClient(adminUrl, { serverSelectionTimeoutMS: SELECTION_MS })
  await waitFor(
    'a MongoDB that takes writes',
    () => provisionOnce(open, passwords.host.split(','), makeUsers),
    { limitMs: READY_LIMIT_MS, everyMs: 500 },
  )
}

const SELECTION_MS = 2_000

/**
 * Returns a function that connects as the members of the set do to each other: that user exists before any
 * other. To the set if it is known to exist, else to its first member alone.
 */
function connectAsMember({ host, tls_ca_file: caFile }: Passwords, password: string) {
  return (isSetMade: boolean): mongoose.mongo.MongoClient => {
    const [first = host] = host.split(',')
    const address = isSetMade
      ? `${host}/?replicaSet=${REPLICA_SET}&authSource=local`
      : `${first}/?directConnection=true&authSource=local`
    return new mongoose.mongo.MongoClient(`mongodb://${address}`, {
      auth: { username: '__system', password },
      authMechanism: 'SCRAM-SHA-256',
      serverSelectionTimeoutMS: SELECTION_MS,
      ...(caFile === undefined ? {} : { tls: true, tlsCAFile: caFile }),
    })
  }
}

/** Makes the set if there is none yet, or the users if it has a primary. @returns true once they are made */
async function provisionOnce(
  open: (isSetMade: boolean) => mongoose.mongo.MongoClient,
  hosts: readonly string[],
  makeUsers: (client: mongoose.mongo.MongoClient) => Promise<void>,
): Promise<true | undefined> {
  for (const isSetMade of [true, false]) {
    const client = open(isSetMade)
    try {
      const admin = client.db('admin')
      const { isWritablePrimary } = await admin.command({ hello: 1 })
      if (isWritablePrimary === true) {
        await makeUsers(client)
        return true
      }
      await admin.command({ replSetGetStatus: 1 })
    } catch (error) {
      if (!(error instanceof mongoose.mongo.MongoError)) throw error
      if (error.code === NOT_YET_INITIALIZED)
        await initiateReplicaSet(client, REPLICA_SET, hosts).catch(unlessMemberIsAway)
    } finally {
      await client.close()
    }
  }
  return undefined
}

/** @throws the error unless it says that a member of the set is not up yet */
function unlessMemberIsAway(error: unknown): void {
  if (!(error instanceof mongoose.mongo.MongoServerError) || error.code !== NODE_NOT_FOUND) throw error
}

/** What each user may do, for servers whose users are made by other means. @param prefix of the queues */
export function describeAccess(prefix: string): object {
  return {
    mongodb: ACCESS_NAMES.map((user) => ({
      user,
      role: roleOf(user),
      privileges: mongoPrivileges(DATABASE, user),
    })),
    redis: ACCESS_NAMES.map((user) => ({ user, rules: redisRules(user, prefix) })),
  }
}
