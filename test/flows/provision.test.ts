import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ACCESS_NAMES, type AccessName } from '../../scripts/embedded/access.ts'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { provisionMongo, writeAccessFiles } from '../../scripts/embedded/provision.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findMongod, findRedis } from '../../scripts/prepare.mjs'
import type { Context } from '../../shared/context.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { publishPost } from '../../shared/posts/post-service.ts'
import { checkChain } from '../../workers/jobs/check-chain.ts'
import { openWorkerContext } from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startProcess } from '../support/processes.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let folder: string
const programs: ChildProcess[] = []
const contexts: Context[] = []
const secret = (name: string): string => fs.readFileSync(path.join(folder, name), 'utf8').trim()

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-provision-'))
  const [mongo, redis] = [await findFreePort(), await findFreePort()]
  writeAccessFiles(folder, 'agent-network', { mongo: `127.0.0.1:${mongo}`, redis: `127.0.0.1:${redis}` })
  const data = path.join(folder, 'data')
  fs.mkdirSync(data)
  // As docker-compose.yml starts them.
  const start = (program: string | undefined, ...args: string[]) =>
    programs.push(spawn(program ?? '', args, { stdio: 'ignore' }))
  start(
    findMongod(process.env),
    '--dbpath',
    data,
    '--port',
    String(mongo),
    '--replSet=agents',
    `--keyFile=${path.join(folder, 'mongo_keyfile')}`,
    '--nounixsocket',
  )
  start(
    findRedis(process.env),
    '--port',
    String(redis),
    '--save',
    '',
    '--aclfile',
    path.join(folder, 'redis_acl'),
  )
  await provisionMongo(folder)
})
afterAll(async () => {
  await Promise.all(contexts.map((ctx) => ctx.close()))
  for (const program of programs) {
    program.kill('SIGKILL')
    if (program.exitCode === null && program.signalCode === null) await once(program, 'exit')
  }
  fs.rmSync(folder, { recursive: true, force: true })
})

async function open(name: AccessName, more: Record<string, string> = {}): Promise<Context> {
  const ctx = await openWorkerContext({
    MONGODB_URL: secret(`mongodb_url_${name}`),
    REDIS_URL: secret(`redis_url_${name}`),
    ...more,
  })
  contexts.push(ctx)
  return ctx
}

describe('servers that were provisioned', () => {
  it('know every user by its own password, and nobody else', async () => {
    // Again, as at each start.
    await provisionMongo(folder)
    for (const name of ACCESS_NAMES) {
      const client = new mongoose.mongo.MongoClient(secret(`mongodb_url_${name}`))
      await client.db().collection('posts').findOne()
      await client.close()
      const redis = new Redis(secret(`redis_url_${name}`))
      await waitFor('Redis', () => (redis.status === 'ready' ? true : undefined), { limitMs: PATIENCE_MS })
      await expect(redis.get('of-nobody')).rejects.toThrow('NOPERM')
      redis.disconnect()
    }
    const { host } = new URL(secret('redis_url_api').replace(/\/\/.*@/, '//'))
    const nobody = new Redis(`redis://${host}`)
    const [refusal] = (await once(nobody, 'error')) as [Error]
    nobody.disconnect()
    expect(refusal.message).toContain('NOAUTH')
    for (const name of fs.readdirSync(folder).filter((one) => one !== 'data'))
      expect(fs.statSync(path.join(folder, name)).mode & 0o777, name).toBe(0o600)
  })

  it('end a process with a wrong password by one sentence', async () => {
    const url = new URL(secret('mongodb_url_sweep'))
    url.password = 'wrong'
    const env = { MONGODB_URL: url.href, REDIS_URL: secret('redis_url_sweep'), OPERATOR_PORT: '0' }
    const started = startProcess('workers/main.ts', env, ['--queues', 'sweep'])
    expect(await started.ended).toBe(1)
    expect(started.logged()).toMatch(
      /^MongoDB does not take the user and the password of MONGODB_URL; [^\n]+$/,
    )
  })

  it('let each pool do its part, and the ledger cannot sign', async () => {
    const keyFile = path.join(folder, 'seal-key')
    ensureSealKey(keyFile)
    // Each makes what it may write, and waits for the rest.
    const others = Promise.all((['payments', 'shares', 'operator'] as const).map((name) => open(name)))
    const [ledger, signer, api] = await Promise.all([
      open('ledger'),
      open('signer', { SEAL_KEY_FILE: keyFile, SEAL_MEMORY_FILE: path.join(folder, 'seal-memory') }),
      open('api'),
    ])
    await others
    await publishPost(api, 'agt_x', { body: 'numbered, sealed, signed' })
    expect(await sequencePending(ledger)).toBe(1)
    await makeSeal(ledger)
    const unauthorized = { code: 13 }
    await expect(ledger.seals.models.seals.updateOne({ _id: 1 }, { signed: true })).rejects.toMatchObject(
      unauthorized,
    )
    await expect(
      signer.entries.models.entries.collection.insertOne({ _id: 99 as never }),
    ).rejects.toMatchObject(unauthorized)
    expect(await signSeals(signer)).toBe(1)
    await checkChain(ledger)
    expect(await ledger.seals.readStatus()).toMatchObject({ intact: true, seq: 1 })
  })
})
