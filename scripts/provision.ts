import fs from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { parseRedisUrl, REDIS_URL_FORM } from '../shared/platform/redis-url.ts'
import { describeAccess, provisionMongo, writeAccessFiles } from './embedded/provision.ts'

const USAGE = `Makes users for a MongoDB and a Redis that run separately, as under docker-compose.yml:

  provision --make FOLDER [--mongo HOST:PORT,…] [--redis URL] [--tls-ca FILE] [--prefix NAME]
      writes passwords, and the URL of each process, as files of mode 600; keeps the URLs that exist
      --mongo    every member of the replica set; mongo:27017 if absent
      --redis    redis://HOST:PORT, redis+sentinel://… or redis+cluster://…, rediss for TLS; redis://redis:6379 if absent
      --tls-ca   MongoDB is reached over TLS, and this authority has signed its certificates, and those of a rediss Redis
  provision --apply FOLDER [--as URL]
      at each start: makes the replica set of all members, the roles and the users
      --as       the URL of an administrator, of a MongoDB that somebody else runs: there the set exists
  provision --print [--prefix NAME]
      prints the roles of MongoDB and the ACL rules of Redis as JSON, for servers whose users are made elsewhere
`

const { values } = parseArgs({
  options: {
    make: { type: 'string' },
    apply: { type: 'string' },
    print: { type: 'boolean' },
    mongo: { type: 'string' },
    redis: { type: 'string' },
    'tls-ca': { type: 'string' },
    as: { type: 'string' },
    prefix: { type: 'string' },
  },
})
const problem = findProblem()
if (problem !== undefined) {
  process.stderr.write(`${problem}\n\n${USAGE}`)
  process.exitCode = 2
} else if (values.make !== undefined) {
  fs.mkdirSync(values.make, { recursive: true, mode: 0o700 })
  writeAccessFiles(path.resolve(values.make), values.prefix ?? 'agent-network', {
    ...(values.mongo === undefined ? {} : { mongo: values.mongo }),
    ...(values.redis === undefined ? {} : { redis: values.redis }),
    ...(values['tls-ca'] === undefined ? {} : { tlsCaFile: path.resolve(values['tls-ca']) }),
  })
} else if (values.apply !== undefined) {
  process.stdout.write('waiting for a MongoDB that takes writes\n')
  await provisionMongo(path.resolve(values.apply), values.as)
  process.stdout.write('its roles and users are made\n')
} else {
  process.stdout.write(`${JSON.stringify(describeAccess(values.prefix ?? 'agent-network'), null, 2)}\n`)
}

/** What is wrong with the command line, in a sentence; undefined if nothing is. */
function findProblem(): string | undefined {
  const { make, apply, print, mongo, redis } = values
  if ([make, apply, print].filter((value) => value !== undefined).length !== 1)
    return 'provision takes one of --make FOLDER, --apply FOLDER and --print.'
  if (mongo !== undefined && !mongo.split(',').every((host) => /^[^\s:/@]+:\d{1,5}$/.test(host)))
    return '--mongo expected the members of the set, such as a.example:27017,b.example:27017,c.example:27017.'
  if (redis !== undefined && (parseRedisUrl(redis) === undefined || redis.includes('@')))
    return `--redis ${REDIS_URL_FORM}, without a user.`
  return undefined
}
