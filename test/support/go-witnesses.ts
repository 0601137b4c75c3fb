import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findFreePort } from '../../scripts/embedded/ports.ts'
import { EMPTY_LOG_ROOT } from '../../shared/crypto/log-tree.ts'
import { formatVkey, NOTE_KEY, parseVkey, type NoteKey } from '../../shared/crypto/note.ts'
import { PATIENCE_MS } from './patience.ts'

/* Other people's witnesses, as processes of their own, each of one log. */

const run = promisify(execFile)
const SOURCE = fileURLToPath(new URL('../interop/go-witness', import.meta.url))
/** The newest version that Go 1.26 builds. */
const LITEWITNESS = 'filippo.io/torchwood/cmd/litewitness@v0.9.0'

const PATIENCE = { limitMs: PATIENCE_MS }

export interface GoWitness {
  program: string
  key: NoteKey
  url: string
  stop(): Promise<void>
}

function stopChildren(children: readonly ChildProcess[]): Promise<void> {
  const ends = children.map((child) => new Promise<void>((resolve) => child.once('exit', () => resolve())))
  for (const child of children) child.kill()
  return Promise.all(ends).then(() => undefined)
}

/** transparency-dev/witness: its own Update and handler, in a process that only listens. */
export async function startTransparencyWitness(folder: string, log: NoteKey): Promise<GoWitness> {
  const source = path.join(folder, 'witness')
  fs.cpSync(SOURCE, source, { recursive: true })
  await run('go', ['mod', 'vendor'], { cwd: source })
  // Its newest version names an unreleased one of a dependency, for a function that this test has no use for.
  fs.renameSync(
    path.join(source, 'subtree.go.txt'),
    path.join(source, 'vendor/github.com/transparency-dev/merkle/proof/subtree.go'),
  )
  const binary = path.join(folder, 'witness-program')
  await run('go', ['build', '-mod=vendor', '-o', binary, '.'], { cwd: source })
  const child = spawn(binary, ['127.0.0.1:0', formatVkey(log), 'witness.example/transparency'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [line] = (await createInterface(child.stdout)[Symbol.asyncIterator]().next()).value?.split('\n') ?? []
  const [vkey = '', url = ''] = String(line).split(' ')
  return { program: 'transparency-dev/witness', key: parseVkey(vkey), url, stop: () => stopChildren([child]) }
}

/** torchwood's litewitness, whose key an ssh-agent holds and whose logs are rows of its database. */
export async function startLitewitness(folder: string, log: NoteKey): Promise<GoWitness> {
  await run('go', ['install', LITEWITNESS], { env: { ...process.env, GOBIN: folder, GOFLAGS: '' } })
  // The path of a socket is short.
  const socket = path.join(fs.mkdtempSync('/tmp/agent-'), 's')
  const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' })
  await waitFor('the ssh-agent', () => Promise.resolve(fs.existsSync(socket) || undefined), PATIENCE)
  const keyFile = path.join(folder, `key-${randomBytes(4).toString('hex')}`)
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile])
  await run('ssh-add', [keyFile], { env: { ...process.env, SSH_AUTH_SOCK: socket } })
  const fingerprint = (await run('ssh-keygen', ['-l', '-f', `${keyFile}.pub`])).stdout.split(' ')[1] ?? ''
  const publicKey = Buffer.from(
    fs.readFileSync(`${keyFile}.pub`, 'utf8').split(' ')[1] ?? '',
    'base64',
  ).subarray(-32)
  const key = { name: 'witness.example/lite', type: NOTE_KEY.cosigner, publicKey: new Uint8Array(publicKey) }

  const db = path.join(folder, 'litewitness.db')
  const database = new DatabaseSync(db)
  database.exec(
    'CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL); CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))',
  )
  database.prepare('INSERT INTO log VALUES (?, 0, ?)').run(log.name, EMPTY_LOG_ROOT.toString('base64'))
  database.prepare('INSERT INTO key VALUES (?, ?)').run(log.name, formatVkey(log))
  database.close()

  const port = await findFreePort()
  const args = ['-name', key.name, '-db', db, '-ssh-agent', socket, '-key', fingerprint]
  const child = spawn(path.join(folder, 'litewitness'), [...args, '-listen', `127.0.0.1:${port}`], {
    stdio: 'ignore',
  })
  await waitFor('litewitness', () => answersAt(port), PATIENCE)
  const stop = async () => {
    await stopChildren([child, agent])
    fs.rmSync(path.dirname(socket), { recursive: true, force: true })
  }
  return { program: 'litewitness', key, url: `http://127.0.0.1:${port}`, stop }
}

function answersAt(port: number): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(undefined))
  })
}
