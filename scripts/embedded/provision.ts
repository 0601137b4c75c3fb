import { hash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import mongoose from 'mongoose'
import { z } from 'zod'
import { ACCESS_NAMES, redisRules, type AccessName } from './access.ts'
import { replaceFile } from '../../shared/foundation/durable-file.ts'
import { makeSecret } from './data-dir.ts'
import { ensureUsers } from './mongo-users.ts'
import { waitFor } from './wait.ts'

const SET = 'agents'
const DATABASE = 'agent_network'
/**
 * What only the server and who provisions it know: members of a set show it to each other, and so does
 * `--apply`.
 */
const KEY_FILE = 'mongo_keyfile'
const PASSWORDS_FILE = 'mongo_passwords'
const NOT_YET_INITIALIZED = 94
const READY_LIMIT_MS = 120_000

/** Every user's own; the others' passwords are in files that it doesn't get. A file that is there is kept. */
export function writeAccess(
  folder: string,
  prefix: string,
  hosts = { mongo: 'mongo:27017', redis: 'redis:6379' },
): void {
  const write = (name: string, text: string): void => {
    const file = path.join(folder, name)
    if (!fs.existsSync(file)) replaceFile(file, `${text}\n`)
  }
  write(KEY_FILE, makeSecret())
  const mongo: [AccessName, string][] = ACCESS_NAMES.map((name) => [name, makeSecret()])
  const redis: [AccessName, string][] = ACCESS_NAMES.map((name) => [name, makeSecret()])
  write(PASSWORDS_FILE, JSON.stringify({ host: hosts.mongo, users: Object.fromEntries(mongo) }))
  for (const [name, password] of mongo)
    write(
      `mongodb_url_${name}`,
      `mongodb://${name}:${password}@${hosts.mongo}/${DATABASE}?replicaSet=${SET}&authSource=admin`,
    )
  for (const [name, password] of redis)
    write(`redis_url_${name}`, `redis://${name}:${password}@${hosts.redis}`)
  const lines = redis.map(
    ([name, password]) => `user ${name} on #${hash('sha256', password, 'hex')} ${redisRules(name, prefix)}`,
  )
  write('redis_acl', ['user default off', ...lines].join('\n'))
}

const passwordsFile = z.object({ host: z.string(), users: z.record(z.enum(ACCESS_NAMES), z.string()) })

/** Makes the set once, and every role and user as this version means them. */
export async function provisionMongo(folder: string): Promise<void> {
  const { host, users } = passwordsFile.parse(
    JSON.parse(fs.readFileSync(path.join(folder, PASSWORDS_FILE), 'utf8')),
  )
  const password = fs.readFileSync(path.join(folder, KEY_FILE), 'utf8').trim()
  const known = Object.entries(users).map(([name, own]) => ({ name: name as AccessName, password: own }))
  await waitFor(
    'a MongoDB that takes writes',
    async () => {
      // The set's own user, which is there before any other.
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
          await ensureUsers(client, DATABASE, known)
          return true
        }
        await admin.command({ replSetGetStatus: 1 })
      } catch (error) {
        if (!(error instanceof mongoose.mongo.MongoError)) throw error
        if (error.code === NOT_YET_INITIALIZED)
          await client.db('admin').command({ replSetInitiate: { _id: SET, members: [{ _id: 0, host }] } })
      } finally {
        await client.close()
      }
      return undefined
    },
    { limitMs: READY_LIMIT_MS, everyMs: 500 },
  )
}
