import { execFile, execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ACCESS_NAMES, type AccessName } from '../../scripts/embedded/access.ts'
import { reservePorts } from '../../scripts/embedded/ports.ts'
import { describeAccess, provisionMongo, writeAccessFiles } from '../../scripts/embedded/provision.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findMongod } from '../../scripts/prepare.mjs'
import { closeContext, type Context } from '../../shared/context.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { publishPost } from '../../shared/posts/post-service.ts'
import { checkChain } from '../../workers/jobs/check-chain.ts'
import { openWorkerContext } from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startProcess } from '../support/processes.ts'
import { startProvisioned } from '../support/provisioned.ts'
import { withSigning } from '../support/signing.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let folder: string
let stopServers: (() => Promise<void>) | undefined
/** Members of another set. */
const programs: ChildProcess[] = []
const contexts: Context[] = []
const secret = (name: string): string => fs.readFileSync(path.join(folder, name), 'utf8').trim()

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-provision-'))
  stopServers = await startProvisioned(folder)
})
afterAll(async () => {
  await Promise.all(contexts.map((ctx) => closeContext(ctx)))
  await stopServers?.()
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
      await client.db().collection('schema').findOne()
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
    expect(await signSeals(withSigning(signer))).toEqual({ signed: 1, because: 'all_signed' })
    await checkChain(ledger)
    expect(await ledger.seals.readStatus()).toMatchObject({ intact: true, seq: 1 })
  })
})

describe('a set of three members over TLS', () => {
  it('is made of all of them once the last one is up, with an administrator, users, and URLs that lead to it', async () => {
    const place = path.join(folder, 'three')
    fs.mkdirSync(place)
    const certificate = path.join(place, 'members.pem')
    makeCertificate(place, certificate)
    const ports = await reservePorts(3)
    const mongo = ports.map((port) => `127.0.0.1:${port}`).join(',')
    const redis = secret('redis_url_api').replace(/\/\/.*@/, '//')
    const access = path.join(place, 'access')
    const provision = (...args: string[]) =>
      promisify(execFile)(process.execPath, ['scripts/provision.ts', ...args])
    const made = await provision(
      '--make',
      access,
      '--mongo',
      mongo,
      '--redis',
      redis,
      '--tls-ca',
      certificate,
    )
    expect(made.stderr).toBe('')
    const logOf = (port: number) => path.join(place, `${port}.log`)
    const startMember = (port: number): void => {
      const data = path.join(place, String(port))
      fs.mkdirSync(data)
      const args = [
        ...['--dbpath', data, '--logpath', logOf(port)],
        ...['--port', String(port), '--replSet=agents', '--nounixsocket'],
      ]
      const tls = [
        '--tlsMode=requireTLS',
        `--tlsCertificateKeyFile=${certificate}`,
        `--tlsCAFile=${certificate}`,
      ]
      const key = [
        `--keyFile=${path.join(access, 'mongo_keyfile')}`,
        '--tlsAllowConnectionsWithoutCertificates',
      ]
      programs.push(spawn(findMongod(process.env) ?? '', [...args, ...tls, ...key], { stdio: 'ignore' }))
    }
    const [first = 0, second = 0, last = 0] = ports
    startMember(first)
    startMember(second)
    const applying = provision('--apply', access)
    await waitFor(
      'the set to be asked for',
      () => fs.readFileSync(logOf(first), 'utf8').includes('replSetInitiate') || undefined,
      { limitMs: PATIENCE_MS },
    )
    startMember(last)
    expect((await applying).stderr).toBe('')
    expect((await provision('--apply', access)).stderr).toBe('')
    const read = (name: string) => fs.readFileSync(path.join(access, name), 'utf8').trim()
    const admin = new mongoose.mongo.MongoClient(read('mongodb_url_admin'))
    const { config } = (await admin.db('admin').command({ replSetGetConfig: 1 })) as unknown as {
      config: { members: { host: string }[] }
    }
    await admin.close()
    expect(config.members.map(({ host }) => host).join(',')).toBe(mongo)
    const payments = new mongoose.mongo.MongoClient(read('mongodb_url_payments'))
    await payments.db().collection<{ _id: string }>('rates').insertOne({ _id: 'xno' })
    await payments.close()
    const status = new mongoose.mongo.MongoClient(read('mongodb_url_operator'))
    const { members } = await status.db('admin').command({ replSetGetStatus: 1 })
    await status.close()
    expect(members).toHaveLength(3)
  })

  it('of somebody else gets its users by an administrator of theirs, or from what is printed', async () => {
    const admin = secret('mongodb_url_admin')
    const user = 'mongodb_url_sweep'
    const other = path.join(folder, 'managed')
    fs.mkdirSync(other)
    writeAccessFiles(other, 'agent-network', { mongo: new URL(admin).host })
    await provisionMongo(other, admin)
    const client = new mongoose.mongo.MongoClient(fs.readFileSync(path.join(other, user), 'utf8').trim())
    await client.db().collection('posts').findOne()
    await client.close()
    const { mongodb, redis } = describeAccess('agent-network') as {
      mongodb: { user: string; role: string; privileges: object[] }[]
      redis: { user: string; rules: string }[]
    }
    expect(mongodb.map((row) => row.user)).toEqual([...ACCESS_NAMES])
    expect(mongodb[0]).toMatchObject({
      role: 'agent_network_api',
      privileges: expect.any(Array) as object[],
    })
    expect(redis.find((row) => row.user === 'api')?.rules).toMatch(/^resetkeys ~\{agent-network\./)
    await provisionMongo(folder) // with the passwords that the other tests have
  })

  it('says what is wrong with a command line, and changes nothing', () => {
    for (const [args, said] of [
      [[], /takes one of --make FOLDER, --apply FOLDER and --print/],
      [['--make', path.join(folder, 'x'), '--mongo', 'a.example'], /--mongo expected the members/],
      [['--make', path.join(folder, 'x'), '--redis', 'http://a'], /--redis expected redis:/],
      [['--make', path.join(folder, 'x'), '--redis', 'redis://u:p@a:1'], /without a user/],
    ] as const) {
      const ran = spawnSync(process.execPath, ['scripts/provision.ts', ...args], { encoding: 'utf8' })
      expect([ran.status, ran.stderr]).toEqual([2, expect.stringMatching(said)])
    }
    expect(fs.existsSync(path.join(folder, 'x'))).toBe(false)
  })
})

/** A certificate of its own authority for this machine, with its key in the same file. */
function makeCertificate(place: string, file: string): void {
  const [key, chain] = [path.join(place, 'key.pem'), path.join(place, 'chain.pem')]
  const words = '-newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1'
  execFileSync('openssl', ['req', '-x509', ...words.split(' '), '-keyout', key, '-out', chain], {
    stdio: 'ignore',
  })
  fs.writeFileSync(file, fs.readFileSync(key, 'utf8') + fs.readFileSync(chain, 'utf8'))
}

describe('the operator’s port', () => {
  it('is opened by the process that serves the sweep, and by no other pool unless it is told to', async () => {
    const env = (user: AccessName, more: Record<string, string> = {}) => ({
      MONGODB_URL: secret(`mongodb_url_${user}`),
      REDIS_URL: secret(`redis_url_${user}`),
      ...more,
    })
    const shares = startProcess('workers/main.ts', env('shares'), ['--queues', 'verify-shares'])
    await shares.waitForLine('the workers work')
    expect(shares.logged()).not.toContain('operator')
    await shares.stop()
    const sweep = startProcess('workers/main.ts', env('sweep'), ['--queues', 'sweep'])
    expect(await sweep.ended).toBe(1)
    expect(sweep.logged()).toContain('OPERATOR_TOKEN is not set')
    const told = startProcess('workers/main.ts', env('shares', { OPERATOR_PORT: '39998' }), [
      ...['--queues', 'verify-shares'],
    ])
    expect(await told.ended).toBe(1)
    expect(told.logged()).toContain('OPERATOR_TOKEN is not set')
  })
})
