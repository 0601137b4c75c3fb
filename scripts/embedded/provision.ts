import { hash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { z } from 'zod'
import { ACCESS_NAMES, redisRules, type AccessName } from './access.ts'
import { readJsonFile, replaceFile } from '../../shared/foundation/durable-file.ts'
import { StartError } from '../../shared/foundation/process.ts'
import { makeSecret } from './data-dir.ts'
import { DATABASE, ensureUsers, initiateReplicaSet, NOT_YET_INITIALIZED } from './mongo-users.ts'
import type { UserPassword } from './server.ts'
import { waitFor } from './wait.ts'

const REPLICA_SET = 'agents'
/** The secret that members of the replica set show to each other; it also lets `--apply` in. */
const KEY_FILE = 'mongo_keyfile'
const PASSWORDS_FILE = 'mongo_passwords'
const ACL_FILE = 'redis_acl'
const READY_LIMIT_MS = 120_000

const passwordsFile = z.object({ host: z.string(), users: z.record(z.enum(ACCESS_NAMES), z.string()) })
/** The file may be of a version that had fewer users. */
const hostInPasswordsFile = passwordsFile.pick({ host: true })

/**
 * Writes the files that give users access: for each user one file with its URL of MongoDB and one with its
 * URL of Redis, so that a process can be given its own alone; and for the servers the key file, the passwords
 * of MongoDB's users and the ACL of Redis. A key file or URL that exists is kept, with its password; the
 * passwords and the ACL are changed to match the URLs, and keep their host and any other user.
 *
 * @param prefix begins the names of the queues
 * @param hosts the servers' addresses, `HOST:PORT`
 * @throws Error if a URL that exists has no password
 */
export function writeAccessFiles(
  folder: string,
  prefix: string,
  hosts = { mongo: 'mongo:27017', redis: 'redis:6379' },
): void {
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
  for (const user of ACCESS_NAMES) {
    const query = `replicaSet=${REPLICA_SET}&authSource=admin`
    mongoPasswords[user] = ensureUrl(
      `mongodb_url_${user}`,
      (password) => `mongodb://${user}:${password}@${hosts.mongo}/${DATABASE}?${query}`,
    )
    const redisPassword = ensureUrl(
      `redis_url_${user}`,
      (password) => `redis://${user}:${password}@${hosts.redis}`,
    )
    aclLines.push(`user ${user} on #${hash('sha256', redisPassword, 'hex')} ${redisRules(user, prefix)}`)
  }
  const passwords = read(PASSWORDS_FILE)
  const { host } =
    passwords === undefined ? { host: hosts.mongo } : hostInPasswordsFile.parse(JSON.parse(passwords))
  write(PASSWORDS_FILE, JSON.stringify({ host, users: mongoPasswords }))
  const isOurs = (line: string): boolean => ACCESS_NAMES.some((user) => line.startsWith(`user ${user} `))
  const otherLines = (read(ACL_FILE) ?? 'user default off').split('\n').filter((line) => !isOurs(line))
  write(ACL_FILE, [...otherLines, ...aclLines].join('\n'))
}

/**
 * Reads the passwords of MongoDB's users.
 *
 * @throws StartError if the file is missing, or holds something else
 */
export function readPasswords(folder: string): z.output<typeof passwordsFile> {
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
 * Waits until the MongoDB of these access files takes writes, and creates or updates every role and user.
 * Makes its replica set if it has none yet.
 *
 * @throws TimeoutError after two minutes
 */
export async function provisionMongo(folder: string): Promise<void> {
  const { host, users } = readPasswords(folder)
  const password = readKey(folder)
  const logins = Object.entries(users).map(([name, own]): UserPassword => ({
    name: name as AccessName,
    password: own,
  }))
  await waitFor(
    'a MongoDB that takes writes',
    async () => {
      // The user that members of the set log in as, which exists before any other.
      const client = new mongoose.mongo.MongoClient(
        `mongodb://${host}/?directConnection=true&authSource=local`,
        {
          auth: { username: '__system', password },
          authMechanism: 'SCRAM-SHA-256',
          serverSelectionTimeoutMS: 2_000,
        },
      )
      try {
        const admin = client.db('admin')
        const { isWritablePrimary } = await admin.command({ hello: 1 })
        if (isWritablePrimary === true) {
          await ensureUsers(client, DATABASE, logins)
          return true
        }
        await admin.command({ replSetGetStatus: 1 })
      } catch (error) {
        if (!(error instanceof mongoose.mongo.MongoError)) throw error
        if (error.code === NOT_YET_INITIALIZED) await initiateReplicaSet(client, REPLICA_SET, host)
      } finally {
        await client.close()
      }
      return undefined
    },
    { limitMs: READY_LIMIT_MS, everyMs: 500 },
  )
}
