import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import tls from 'node:tls'
import { Worker, UnrecoverableError } from 'bullmq'
import { Redis } from 'ioredis'
import { ensureSealKey } from '../../../shared/ledger/seal-key.ts'
import { newStepId } from '../../../shared/platform/ids.ts'
import { QUEUE_NAMES, queuePrefix, queueRow, type PoolName } from '../../../shared/platform/queue-table.ts'
import { reservePort } from '../../../scripts/embedded/ports.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { fileIn, type Gameday } from './network.ts'
import { signal } from '../testbed/kept-process.ts'
import type { Mishap } from './play.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
/** What the processes of a checkout need of it. */
const PROGRAM = ['api', 'workers', 'shared', 'client', 'docs', 'package.json', 'README.md']

/** The names of a pool's queues, as `--queues` takes them. */
export const queuesOf = (pool: PoolName): string =>
  QUEUE_NAMES.filter((name) => queueRow(name).pool === pool).join(',')

/** The forgotten process of another version. */
let stray: ChildProcess | undefined
let proxy: tls.Server | undefined

/** Makes a self-signed certificate that is valid for `days` days; at -1 it has expired. */
function makeCertificate(network: Gameday, days: number): { key: string; cert: string } {
  const [key, cert] = [fileIn(network, 'tls-key'), fileIn(network, 'tls-cert')]
  const asked = fileIn(network, 'tls-request')
  const openssl = (...args: string[]): void => {
    const made = spawnSync('openssl', args, { encoding: 'utf8' })
    if (made.status !== 0) throw new Error(made.stderr)
  }
  openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', asked, '-subj', '/CN=localhost')
  // `req -x509` refuses to make one that has expired.
  openssl('x509', '-req', '-in', asked, '-signkey', key, '-out', cert, '-days', String(days))
  return { key: fs.readFileSync(key, 'utf8'), cert: fs.readFileSync(cert, 'utf8') }
}

export const PROCESS_MISHAPS: readonly Mishap[] = [
  {
    name: 'the signer is dead',
    kinds: ['queue_without_worker'],
    cause: (network) => network.kill('signer'),
    remedy: { group: 'signer' },
  },
  {
    name: 'the coins worker is dead',
    kinds: ['queue_without_worker', 'coin_unheard'],
    cause: (network) => network.kill('payments'),
    remedy: { group: 'payments' },
  },
  {
    name: 'the signer has another key',
    kinds: ['queue_without_worker', 'seals_unsigned'],
    async cause(network) {
      await network.kill('signer')
      const other = fileIn(network, 'other-key')
      ensureSealKey(other)
      // The witnesses are asked by another process.
      await network.startWorkers('cosigner', 'cosign', { SEAL_KEY_FILE: '', SEAL_MEMORY_FILE: '' })
      await network.startWorkers('signer', 'sign-seals,sign-announcement', { SEAL_KEY_FILE: other })
      await network.post()
    },
    remedy: { group: 'signer', before: (network) => network.kill('signer') },
  },
  {
    name: "the signer's key file is missing",
    kinds: ['queue_without_worker'],
    async cause(network) {
      await network.kill('signer')
      const env = { SEAL_KEY_FILE: fileIn(network, 'no-such-key') }
      const part = network.testbed.start('keyless', 'workers/main.ts', ['--queues', queuesOf('signer')], env)
      await waitFor('its refusal', () => part.lastLines().find((line) => line.includes('there is no file')), {
        limitMs: 30_000,
      })
      await part.child.stop()
    },
    remedy: { group: 'signer' },
  },
  {
    name: 'a worker is frozen, and a backlog grows',
    kinds: ['queue_behind'],
    async cause(network) {
      signal(network.worker('shares').child, 'SIGSTOP')
      const jobs = Array.from({ length: 2_000 }, () => ({
        name: 'verify-shares',
        data: { batch_id: newStepId() },
        opts: { jobId: newStepId() },
      }))
      await network.ctx.queues.get('verify-shares').addBulk(jobs)
    },
    async cleanUp(network) {
      signal(network.worker('shares').child, 'SIGCONT')
      await network.kill('more')
    },
  },
  {
    name: 'a job was given up',
    kinds: ['jobs_given_up'],
    async cause(network) {
      await network.kill('payments')
      const { config, queues } = network.ctx
      const connection = new Redis(config.redisUrl ?? '', { maxRetriesPerRequest: null })
      const prefix = queuePrefix(config.queuePrefix, 'order-deadlines')
      const broken = new Worker('order-deadlines', () => Promise.reject(new UnrecoverableError('a bug')), {
        connection,
        prefix,
      })
      await queues.enqueue('order-deadlines', { due_at: Math.floor(Date.now() / 1000) })
      await new Promise((resolve) => broken.once('failed', resolve))
      await broken.close()
      connection.disconnect()
      await network.startWorkers('payments', queuesOf('payments'))
    },
  },
  {
    name: 'a process of another version was forgotten',
    kinds: ['programs_mixed'],
    cause(network) {
      const old = fileIn(network, 'old-program')
      for (const name of PROGRAM)
        fs.cpSync(path.join(ROOT, name), path.join(old, name), {
          recursive: true,
          filter: (from) => !from.includes('node_modules'),
        })
      fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(old, 'node_modules'))
      fs.writeFileSync(path.join(old, 'build-commit'), `${'0'.repeat(12)}\n`)
      stray = spawn(process.execPath, ['workers/main.ts', '--queues', 'verify-shares'], {
        cwd: old,
        env: { PATH: process.env.PATH, ...network.testbed.env },
        stdio: 'ignore',
      })
    },
    async cleanUp() {
      if (stray?.exitCode === null && stray.signalCode === null) await once(stray, 'exit')
    },
  },
  {
    name: "a host's clock is off",
    kinds: ['clock_off'],
    cause: (network) => network.worker('shares').shiftClock(120_000),
    remedy: { act: (network) => network.worker('shares').shiftClock(0) },
  },
  {
    name: 'the token of the board has leaked',
    kinds: ['secret_readable'],
    cause: (network) => fs.chmodSync(fileIn(network, 'operator-token'), 0o644),
  },
  {
    name: 'the certificate at the proxy has expired',
    kinds: ['certificate_ended'],
    async cause(network) {
      const port = await reservePort()
      proxy = tls.createServer(makeCertificate(network, -1), (socket) =>
        socket.on('error', () => undefined).end(),
      )
      proxy.on('tlsClientError', () => undefined)
      await new Promise<void>((resolve) => proxy?.listen(port, '127.0.0.1', resolve))
      network.env['BASE_URL'] = `https://localhost:${port}`
    },
    remedy: { act: (network) => proxy?.setSecureContext(makeCertificate(network, 90)) },
    cleanUp(network) {
      delete network.env['BASE_URL']
      proxy?.close()
    },
  },
]
