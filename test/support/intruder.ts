/*
 * What a program of another user of the machine can try: run as that user, with the ports and nothing else.
 * Prints as JSON what it got, one line of text each; nothing, if it got nowhere.
 */
import fs from 'node:fs'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'

interface Target {
  dataDir: string
  /** Every file and folder under it. */
  paths: string[]
  pids: number[]
  mongoPort: number
  redisPort: number
  operatorUrl: string
}

const target = JSON.parse(process.argv[2] ?? '') as Target
const got: string[] = []

async function attempt(what: string, act: () => unknown): Promise<void> {
  try {
    await act()
    got.push(what)
  } catch {
    // It got nowhere.
  }
}

for (const file of [target.dataDir, ...target.paths]) {
  await attempt(`reads ${file}`, () =>
    file === target.dataDir ? fs.readdirSync(file) : fs.readFileSync(file),
  )
  await attempt(`lists ${file}`, () => fs.readdirSync(file))
  await attempt(`writes ${file}`, () => fs.closeSync(fs.openSync(file, 'a')))
  await attempt(`moves ${file}`, () => fs.renameSync(file, `${file}.moved`))
  await attempt(`opens ${file} to all`, () => fs.chmodSync(file, 0o777))
}
await attempt('adds a file', () => fs.writeFileSync(`${target.dataDir}/planted`, ''))
for (const pid of target.pids)
  await attempt(`reads the environment of process ${pid}`, () => fs.readFileSync(`/proc/${pid}/environ`))

const logins = [
  '',
  'start:@',
  'start:start@',
  'api:api@',
  'workers:@',
  'operator:operator@',
  'admin:admin@',
  'root:root@',
]
for (const login of logins) {
  const auth = login === '' ? '' : '&authSource=admin'
  // The empty password of a name cannot be said in a URL of the driver's.
  const url = `mongodb://${login.replace(':@', ':%20@')}127.0.0.1:${target.mongoPort}/?directConnection=true&serverSelectionTimeoutMS=2000${auth}`
  const client = new mongoose.mongo.MongoClient(url)
  const db = client.db('agent_network')
  const admin = client.db('admin')
  const intruder = { createUser: 'intruder', pwd: 'intruder', roles: ['root'] }
  await attempt(`MongoDB lists collections (${login})`, () => db.listCollections().toArray())
  await attempt(`MongoDB reads agents (${login})`, () => db.collection('agents').findOne())
  await attempt(`MongoDB writes agents (${login})`, () =>
    db.collection('agents').updateMany({}, { $set: { pass_until_ms: 4e12 } }),
  )
  await attempt(`MongoDB adds a user (${login})`, () => admin.command(intruder))
  await attempt(`MongoDB reads the oplog (${login})`, () =>
    client.db('local').collection('oplog.rs').findOne(),
  )
  await attempt(`MongoDB starts a new set (${login})`, () => admin.command({ replSetInitiate: {} }))
  await attempt(`MongoDB stops (${login})`, () => admin.command({ shutdown: 1, force: true }))
  await client.close()
}

for (const [username, password] of [
  [],
  ['default', ''],
  ['default', 'default'],
  ['api', 'api'],
  ['operator', ''],
]) {
  const redis = new Redis({
    port: target.redisPort,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    retryStrategy: () => null,
    ...(username === undefined ? {} : { username, password: password ?? '' }),
  })
  redis.on('error', () => undefined)
  await once(redis, 'connect')
  for (const command of [
    ['keys', '*'],
    ['set', 'planted', '1'],
    ['config', 'get', 'dir'],
    ['acl', 'list'],
    ['flushall'],
    ['info'],
  ])
    await attempt(`Redis does ${command.join(' ')} (${username})`, () =>
      redis.call(command[0] ?? '', ...command.slice(1)),
    )
  redis.disconnect()
}

const wrong = [
  '',
  'Bearer ',
  `Bearer ${'0'.repeat(64)}`,
  `Basic ${btoa('operator:')}`,
  `Basic ${btoa(`operator:${'0'.repeat(64)}`)}`,
]
for (const page of ['/', '/metrics', '/healthz', '/queues', '/queues/api/queues', '/%2e%2e/metrics'])
  for (const authorization of wrong) {
    const answer = await fetch(target.operatorUrl + page, {
      headers: authorization === '' ? {} : { Authorization: authorization },
    })
    const text = await answer.text()
    const isProbe = page === '/healthz' && text.length < 200
    if (answer.status !== 401 && !isProbe) got.push(`the operator's port gives ${page}: ${answer.status}`)
  }

process.stdout.write(JSON.stringify(got))
