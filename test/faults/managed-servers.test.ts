import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import tls from 'node:tls'
import mongoose from 'mongoose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { closeContext, openContext } from '../../shared/context.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { connectFailingFast, tryRedis } from '../../shared/platform/redis-connection.ts'
import { createLog } from '../../shared/platform/log.ts'
import { writeAccessFiles } from '../../scripts/embedded/provision.ts'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { requireMongod } from '../../scripts/embedded/programs.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { guardByPasswords, openFarm, type Farm, type RedisNodes } from '../support/cluster.ts'
import { PATIENCE_MS } from '../support/patience.ts'

/*
 * Servers as providers offer them: behind TLS of an authority of their own that asks for a client's certificate,
 * which may be the login itself (MongoDB); with sentinels that have a login of their own; and at addresses other
 * than those by which servers name each other.
 */

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })
const LIMIT_MS = 10_000
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'managed-redis-'))
const file = (name: string): string => path.join(folder, name)
const gates: net.Server[] = []
let farm: Farm
let sentinels: RedisNodes
let cluster: RedisNodes

beforeAll(async () => {
  farm = openFarm()
  ;[sentinels, cluster] = await Promise.all([
    farm.startSentinel(guardByPasswords('of-redis', 'of-sentinels')),
    farm.startRedisCluster(),
  ])
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    'req',
    '-x509',
    ...key,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-subj',
    '/CN=an authority',
    '-days',
    '2',
  )
  fs.writeFileSync(file('names'), 'subjectAltName=IP:127.0.0.1\n')
  for (const name of ['server', 'client']) {
    openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`)
    const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names']
    openssl('x509', '-req', '-in', `${name}.csr`, ...signed, '-out', `${name}.crt`)
    fs.writeFileSync(
      file(`${name}.pem`),
      fs.readFileSync(file(`${name}.crt`), 'utf8') + fs.readFileSync(file(`${name}.key`), 'utf8'),
    )
  }
})
afterAll(async () => {
  for (const gate of gates) gate.close()
  await farm.stop()
  fs.rmSync(folder, { recursive: true })
})

/** A port at which a server is reached over TLS, by clients that show a certificate. */
async function gateTo(port: number): Promise<number> {
  const own = fs.readFileSync(file('server.pem'))
  const options = { cert: own, key: own, ca: fs.readFileSync(file('ca.pem')), requestCert: true }
  const gate = tls.createServer({ ...options, rejectUnauthorized: true }, (socket) => {
    const inner = net.connect(port, '127.0.0.1')
    for (const side of [socket, inner])
      side.on('error', () => [socket, inner].forEach((one) => one.destroy()))
    socket.pipe(inner).pipe(socket)
  })
  gates.push(gate)
  await new Promise<void>((resolve) => gate.listen(0, '127.0.0.1', resolve))
  return (gate.address() as net.AddressInfo).port
}

async function gatesTo(nodes: RedisNodes['nodes']): Promise<{ ports: number[]; natMap: string }> {
  const ports = await Promise.all(nodes.map(({ port }) => gateTo(port)))
  const pairs = nodes.map(({ port }, index) => `127.0.0.1:${port}>127.0.0.1:${ports[index]}`)
  return { ports, natMap: encodeURIComponent(pairs.join(',')) }
}

const tlsFiles = () => `tlsCAFile=${file('ca.pem')}&tlsCertificateKeyFile=${file('client.pem')}`

describe('a Redis with sentinels', () => {
  it('replicates and fails over with the users and lines that "provision" makes', async () => {
    const made = file('made')
    fs.mkdirSync(made)
    writeAccessFiles(made, 'agent-network', { redis: 'redis+sentinel://127.0.0.1:1/farm' })
    const linesOf = (name: string) => fs.readFileSync(path.join(made, name), 'utf8').trim().split('\n')
    const urlOf = (user: string) => fs.readFileSync(path.join(made, `redis_url_${user}`), 'utf8').trim()
    const nodes = await farm.startSentinel({
      login: { username: 'sweep', password: new URL(urlOf('sweep')).password },
      lines: [...linesOf('redis_conf'), `aclfile ${path.join(made, 'redis_acl')}`],
      sentinelLines: linesOf('sentinel_conf'),
    })
    const url = urlOf('workers').replace(':1/', `:${nodes.nodes[2]?.port}/`)
    await tryRedis(url, LIMIT_MS)
    await nodes.nodes[0]?.kill()
    const promoted = () => tryRedis(url, LIMIT_MS).then(...[() => true as const, () => undefined])
    await waitFor('the replica as primary', promoted, { limitMs: PATIENCE_MS })
  })
})

describe('a Redis behind TLS', () => {
  it('is reached with the authority and the certificate that the URL names, and not without one of them', async () => {
    const port = await gateTo(sentinels.nodes[0]?.port ?? 0)
    const url = `rediss://:of-redis@127.0.0.1:${port}`
    await tryRedis(`${url}?${tlsFiles()}`, LIMIT_MS)
    await expect(tryRedis(`${url}?tlsCAFile=${file('ca.pem')}`, LIMIT_MS)).rejects.toThrow()
    await expect(tryRedis(url, LIMIT_MS)).rejects.toThrow(/certificate/)
    await expect(tryRedis(`${url}?tlsCAFile=${file('nowhere.pem')}`, LIMIT_MS)).rejects.toThrow(
      `REDIS_URL: the file ${file('nowhere.pem')} cannot be read (ENOENT)`,
    )
  })

  it('is found by sentinels with a login of their own, at another address than they name', async () => {
    const { ports, natMap } = await gatesTo(sentinels.nodes)
    const url = `rediss+sentinel://:of-redis@127.0.0.1:${ports[2]}/farm?${tlsFiles()}&natMap=${natMap}`
    const client = connectFailingFast(`${url}&sentinelPassword=of-sentinels`, createLog('test', 'silent'))
    await waitFor('Redis', async () => (client.status === 'ready' ? true : undefined), {
      limitMs: PATIENCE_MS,
    })
    expect(await client.set('written', 'x')).toBe('OK')
    client.disconnect()
    await expect(tryRedis(url, LIMIT_MS)).rejects.toThrow()
  })

  it('is reached as a cluster whose nodes name each other by addresses of their own network', async () => {
    const { ports, natMap } = await gatesTo(cluster.nodes)
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',')
    const url = `rediss+cluster://:farm-word@${hosts}?${tlsFiles()}&natMap=${natMap}`
    const client = connectFailingFast(url, createLog('test', 'silent'))
    await waitFor('Redis', async () => (client.status === 'ready' ? true : undefined), {
      limitMs: PATIENCE_MS,
    })
    // Of slots on each of the three.
    for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) expect(await client.set(key, 'x')).toBe('OK')
    client.disconnect()
  })
})

describe('a MongoDB that takes a certificate as the login', () => {
  it('is used by a URL that names the authority and the certificate', async () => {
    const port = await reservePort()
    const secret = 'ab'.repeat(20)
    fs.writeFileSync(file('key'), secret, { mode: 0o600 })
    fs.mkdirSync(file('mongo'), { recursive: true })
    const place = ['--dbpath', file('mongo'), '--port', String(port), '--nounixsocket', '--replSet=x']
    const guard = ['--tlsMode=requireTLS', `--tlsCAFile=${file('ca.pem')}`, `--keyFile=${file('key')}`]
    const own = `--tlsCertificateKeyFile=${file('server.pem')}`
    const mongod = spawn(requireMongod(), [...place, ...guard, own], { stdio: 'ignore' })
    const ended = once(mongod, 'exit')
    try {
      const security = `tls=true&${tlsFiles()}`
      const member = new mongoose.mongo.MongoClient(
        `mongodb://127.0.0.1:${port}/?directConnection=true&authSource=local&${security}`,
        { auth: { username: '__system', password: secret }, authMechanism: 'SCRAM-SHA-256' },
      )
      const asked = (command: object) =>
        member
          .db('admin')
          .command(command)
          .catch((error: unknown) => {
            if (error instanceof mongoose.mongo.MongoError) return undefined
            throw error
          })
      const members = [{ _id: 0, host: `127.0.0.1:${port}` }]
      const initiate = { replSetInitiate: { _id: 'x', members } }
      await waitFor('the set', () => asked(initiate), { limitMs: PATIENCE_MS })
      const isPrimary = async () => (await asked({ hello: 1 }))?.['isWritablePrimary'] === true || undefined
      await waitFor('a primary', isPrimary, { limitMs: PATIENCE_MS })
      const roles = [{ role: 'readWrite', db: 'agents' }]
      await member.db('$external').command({ createUser: 'CN=client', roles })
      await member.close()

      const login = 'authMechanism=MONGODB-X509&authSource=$external'
      const ctx = openContext(
        readConfig(
          {
            MONGODB_URL: `mongodb://127.0.0.1:${port}/agents?replicaSet=x&${security}&${login}`,
            REDIS_URL: 'redis://127.0.0.1:9',
          },
          'operator',
        ),
        createLog('test', 'silent'),
        { databaseTimeoutMs: 30_000 },
      )
      await ctx.database.whenReady()
      const { authInfo } = (await ctx.database.connection.db?.command({ connectionStatus: 1 })) ?? {}
      expect(authInfo).toMatchObject({ authenticatedUsers: [{ user: 'CN=client', db: '$external' }] })
      await closeContext(ctx)
    } finally {
      mongod.kill('SIGKILL')
      await ended
    }
  })
})
