import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import mongoose from 'mongoose'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { requireMongod } from '../../scripts/embedded/programs.ts'
import { findClientPorts } from '../harness/testbed/client-ports.ts'
import { startMongoSet, type MongoMember, type MongoSet } from '../harness/testbed/mongo-set.ts'
import { writeBackup } from '../../shared/operation/backup.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'backup-of-member-'))
const children = trackChildren(folder, () => undefined, true)

let set: MongoSet
let primary: MongoMember
let other: MongoMember
let client: mongoose.mongo.MongoClient

beforeAll(async () => {
  set = await startMongoSet({
    binary: requireMongod(),
    folder,
    size: 2,
    children,
    report: () => undefined,
  })
  const index = (await set.findPrimary()) ?? 0
  ;[primary, other] = (index === 0 ? set.members : set.members.toReversed()) as [MongoMember, MongoMember]
  // A majority is the primary alone, so that the other member may stay behind.
  const { config } = await set.command(index, { replSetGetConfig: 1 })
  const members = (config.members as { _id: number }[]).map((member) =>
    member._id === index ? member : { ...member, votes: 0, priority: 0, tags: { behind: 'yes' } },
  )
  await set.command(index, { replSetReconfig: { ...config, version: config.version + 1, members } })
  client = await mongoose.mongo.MongoClient.connect(set.url)
})

afterAll(async () => {
  await client?.close()
  await set?.stop()
  children.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

it('holds all that was acknowledged before it, though the member that is read is behind', async () => {
  const posts = client.db('network').collection<{ _id: number }>('posts')
  await posts.insertOne({ _id: 0 }, { writeConcern: { w: 2 } })
  const ports = (): Set<number> => findClientPorts(primary.gate.port, [other.child])
  const catchUp = primary.gate.divide(ports, 'both')
  await posts.insertOne({ _id: 1 }, { writeConcern: { w: 'majority', journal: true } })
  const ofMember = client.db('network', {
    readPreference: new mongoose.mongo.ReadPreference('secondary', [{ behind: 'yes' }]),
  })
  expect(await ofMember.collection('posts').countDocuments()).toBe(1)
  const writing = writeBackup(ofMember, path.join(folder, 'backup'), [])
  await sleep(500)
  catchUp('go-on')
  const { collections } = await writing
  expect(collections.map(({ name, documents }) => ({ name, documents }))).toEqual([
    { name: 'posts', documents: 2 },
  ])
})
