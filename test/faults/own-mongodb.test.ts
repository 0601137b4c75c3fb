import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findMongod } from '../../scripts/prepare.mjs'
import { PATIENCE_MS } from '../support/patience.ts'
import { startProcess } from '../support/processes.ts'
import { isolate } from '../support/servers.ts'
import { CHALLENGE_SECRET } from '../support/service.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

let folder: string
let mongod: ChildProcess
let port: number
let host: string

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'own-mongodb-'))
  port = await findFreePort()
  host = `127.0.0.1:${port}`
  mongod = spawn(
    findMongod(process.env) ?? '',
    [
      '--dbpath',
      folder,
      '--port',
      String(port),
      '--bind_ip',
      '127.0.0.1',
      '--replSet',
      'ours',
      '--nounixsocket',
    ],
    { stdio: 'ignore' },
  )
  // Before it listens, a process finds nobody there, and says that.
  await onAdmin((admin) => admin.command({ hello: 1 }))
})
afterAll(async () => {
  mongod.kill('SIGKILL')
  if (mongod.exitCode === null && mongod.signalCode === null) await once(mongod, 'exit')
  fs.rmSync(folder, { recursive: true, force: true })
})

const settings = (mongodbUrl: string) => ({
  MONGODB_URL: mongodbUrl,
  REDIS_URL: isolate().redisUrl,
  CHALLENGE_SECRET,
  OPERATOR_PORT: '0',
  PORT: '0',
})

/** What a process says first of a MongoDB that it doesn't reach. */
async function reasonFrom(script: 'api/main.ts' | 'workers/main.ts', mongodbUrl: string): Promise<unknown> {
  const started = startProcess(script, settings(mongodbUrl))
  try {
    const line = await started.waitForLine('MongoDB is out of reach')
    return (JSON.parse(line) as { reason?: unknown }).reason
  } finally {
    await started.stop()
  }
}

async function onAdmin<T>(work: (admin: mongoose.mongo.Db) => Promise<T>): Promise<T> {
  const client = new mongoose.mongo.MongoClient(`mongodb://${host}/?directConnection=true`, {
    serverSelectionTimeoutMS: 120_000,
  })
  try {
    return await work(client.db('admin'))
  } finally {
    await client.close()
  }
}

const PARTS = ['api/main.ts', 'workers/main.ts'] as const

describe('a MongoDB of your own', () => {
  it.each(PARTS)('that was never made a set is named as that within seconds by %s', async (script) => {
    expect(await reasonFrom(script, `mongodb://${host}/x`)).toBe(
      `${host} waits to be made a member of a set: run rs.initiate() on it, once`,
    )
  })

  it.each(PARTS)(
    'of another set than MONGODB_URL names is named as that within seconds by %s',
    async (script) => {
      await onAdmin(async (admin) => {
        await admin
          .command({ replSetInitiate: { _id: 'ours', members: [{ _id: 0, host }] } })
          .catch(() => undefined) // it was
        await waitFor(
          'a primary',
          async () => ((await admin.command({ hello: 1 }))['isWritablePrimary'] === true ? true : undefined),
          { limitMs: PATIENCE_MS },
        )
      })
      expect(await reasonFrom(script, `mongodb://${host}/x?replicaSet=other`)).toMatch(
        /^no server of MONGODB_URL is a member of the set "other" that it names/,
      )
    },
  )

  it('whose URL names no database holds the network under the usual name', async () => {
    const client = new mongoose.mongo.MongoClient(`mongodb://${host}/?directConnection=true`)
    try {
      const url = `mongodb://${host}/?replicaSet=ours`
      const started = startProcess('workers/main.ts', settings(url), ['--queues', 'sweep'])
      await started.waitForLine('the workers work')
      await started.stop()
      const { databases } = await client.db().admin().listDatabases()
      expect(databases.map(({ name }) => name)).toContain('agent_network')
    } finally {
      await client.close()
    }
  })
})
