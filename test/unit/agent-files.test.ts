import { cardOf } from '../support/hostile-answers.ts'
import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lockByFiles } from '../../client/file-lock.ts'
import { readPins } from '../../client/messages.ts'
import { writeMiningState } from '../../client/mining-state.ts'
import { withFileLock, readPrivateFile, writePrivateFile } from '../../client/private-file.ts'
import { newDmKeyPair } from '../../client/sealed-box.ts'
import { createTokenFile, readTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { runAgent } from '../../client/command/run.ts'
import { sendJson, startBrokenPeer } from '../support/broken-peer.ts'
import { FULL } from '../support/full.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const TOKEN = `sk_${'01'.repeat(24)}`
let home: string
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), 'agent-files-'))
})
afterEach(() => rmSync(home, { recursive: true }))

/** Runs the text as a module in a process of its own; resolves with its exit code and what it wrote. */
function runModule(text: string): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', text], { cwd: ROOT })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.on('close', (code) => resolve({ code, output }))
  })
}

describe('the file of a lock', () => {
  it('is for its owner alone, whatever the umask, so that nobody else can hold the lock', () => {
    const before = process.umask(0)
    try {
      for (const file of ['locked', 'locked-before'].map((name) => path.join(home, name))) {
        if (file.endsWith('before')) writeFileSync(`${file}.lock`, '')
        withFileLock(file, () => undefined)
        expect((statSync(`${file}.lock`).mode & 0o777).toString(8)).toBe('600')
      }
    } finally {
      process.umask(before)
    }
  })
})

describe('the keys seen of others', () => {
  const processes = FULL ? 12 : 4
  it(`are all kept when ${processes} processes each pin another agent at once`, async () => {
    const keys = newDmKeyPair()
    const peer = await startBrokenPeer((res, { path: requested }) => {
      // All answers at once, so that all pin at once.
      waiting.push(() => sendJson(res, 200, cardOf(requested.split('/').at(-1) ?? '', keys.publicKey)))
      if (waiting.length === processes) for (const answer of waiting) answer()
    })
    const waiting: (() => void)[] = []
    const pinDir = path.join(home, 'x.keys')
    const identity = { agent_id: 'agt_me', dm_secret_key: keys.secretKey, dm_public_key: keys.publicKey }
    const runs = await Promise.all(
      Array.from({ length: processes }, (_, index) =>
        runModule(`
          import { createClient } from './client/client.ts'
          import { sealFor } from './client/messages.ts'
          await sealFor({
            client: createClient({ baseUrl: ${JSON.stringify(peer.url)} }), identity: ${JSON.stringify(identity)}, to: 'agt_${index}',
            plaintext: 'x', pinDir: ${JSON.stringify(pinDir)}, unsealedKey: true,
          })`),
      ),
    )
    await peer.close()
    expect(runs.filter(({ code }) => code !== 0)).toEqual([])
    for (let index = 0; index < processes; index++)
      expect(readPins(pinDir, `agt_${index}`)).toEqual([keys.publicKey])
  })
})

it('the file of keys seen of others that is read no more is named, and not passed over', () => {
  const pinDir = path.join(home, 'old.keys')
  writePrivateFile(`${pinDir}.json`, { agt_other: ['ab'.repeat(32)] })
  expect(() => readPins(pinDir, 'agt_other')).toThrow(`${pinDir}.json holds keys seen`)
})

describe("an agent's file", () => {
  it('is changed by one process after the other, and a killed one holds up nobody', async () => {
    const file = path.join(home, 'count')
    writePrivateFile(file, [0])
    const add = (then: string) => `
      import { withFileLock, readPrivateFile, writePrivateFile } from './client/private-file.ts'
      const file = ${JSON.stringify(file)}
      for (let i = 0; i < 20; i++) withFileLock(file, () => { writePrivateFile(file, [readPrivateFile(file, Number) + 1]); ${then} })`
    const killed = await runModule(add('process.kill(process.pid, "SIGKILL")'))
    expect(killed.code).toBeNull()
    const runs = await Promise.all([1, 2, 3].map(() => runModule(add(''))))
    expect(runs.map(({ code, output }) => [code, output])).toEqual([1, 2, 3].map(() => [0, '']))
    expect(withFileLock(file, () => readPrivateFile(file, Number))).toBe(61)
  })

  it('that others may read is refused, with the command that mends it', async () => {
    const url = 'http://127.0.0.1:9'
    const file = tokenFilePath(home, url)
    createTokenFile(file, { url, agent_id: 'agt_me', token: TOKEN })
    const pinFile = path.join(file.replace('.json', '.keys'), 'agt_other.json')
    const stateFile = file.replace('.json', '.work.json')
    writePrivateFile(pinFile, ['ab'.repeat(32)])
    writeMiningState(stateFile, {
      order: {
        order_id: 'wrk_1',
        currency: 'pow',
        days: 1,
        shares_required: 1,
        difficulty_bits: 1,
        prefix: 'a'.repeat(32),
        preimage: 'prefix:nonce',
        status: 'open',
        shares_accepted: 0,
        credited_days: 0,
        expires_at: 1,
      },
      unsent: [],
    })
    const { readMiningState } = await import('../../client/mining-state.ts')
    for (const mode of [0o644, 0o640, 0o660, 0o604])
      for (const [open, read] of [
        [file, readTokenFile],
        [pinFile, () => readPins(path.dirname(pinFile), 'agt_other')],
        [stateFile, readMiningState],
      ] as const) {
        chmodSync(open, mode)
        expect(() => read(open)).toThrow(`"chmod 600 ${open}"`)
        chmodSync(open, 0o600)
        expect(read(open)).toBeDefined()
      }
  })
})

describe('the lock on a Node without SQLite', () => {
  const LOCK = new URL('../../client/file-lock.ts', import.meta.url).href
  const count = (file: string, rounds: number, ending = '') => `
    import { readFileSync, writeFileSync } from 'node:fs'
    const { lockByFiles } = await import(${JSON.stringify(LOCK)})
    for (let round = 0; round < ${rounds}; round++) {
      const release = lockByFiles(${JSON.stringify(file)}, 30_000)
      writeFileSync(${JSON.stringify(file)}, String(Number(readFileSync(${JSON.stringify(file)}, 'utf8')) + 1))
      ${ending}
      release()
    }`
  const runCounter = (code: string) =>
    new Promise((resolve) => {
      const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: 'inherit' })
      child.once('exit', (exitCode, signal) => resolve(signal ?? exitCode))
    })

  it('lets one process at a time through, and ends with a holder that is killed', async () => {
    const file = path.join(home, 'count')
    writeFileSync(file, '0')
    const killed = count(file, 3, `if (round === 2) process.kill(process.pid, 'SIGKILL')`)
    const ended = await Promise.all([...[1, 2, 3].map(() => count(file, 40)), killed].map(runCounter))
    expect([readFileSync(file, 'utf8'), ended]).toEqual(['123', [0, 0, 0, 'SIGKILL']])
    expect(readdirSync(home).filter((name) => name.startsWith('count.lock'))).toHaveLength(1)
  })

  it('gives up if it is not free in time', () => {
    const file = path.join(home, 'held')
    const release = lockByFiles(file, 100)
    expect([release === undefined, lockByFiles(file, 100)]).toEqual([false, undefined])
    release?.()
    expect(lockByFiles(file, 100)).toBeDefined()
  })
})

describe('agent dm rekey', () => {
  async function run(url: string, ...argv: string[]) {
    let stdout = ''
    await runAgent({
      argv: [...argv, '--json', '--url', url],
      env: { AGENT_HOME: home },
      stdin: Readable.from([]),
      stdout: { write: (text) => (stdout += text) },
      stderr: { write: () => true },
      signal: new AbortController().signal,
    })
    return JSON.parse(stdout) as Record<string, unknown>
  }

  it('keeps both pairs before it publishes the new key, and forgets the old secret when told', async () => {
    const keys = newDmKeyPair()
    const published: string[] = []
    const peer = await startBrokenPeer((res, { path: requested, body }) => {
      if (!requested.endsWith('/profile')) return void res.writeHead(503).end()
      const { dm_key: key } = body as { dm_key: string }
      published.push(key)
      // The first answer is lost.
      if (published.length === 1) return void res.destroy()
      sendJson(res, 200, {
        ok: true,
        agent_id: 'agt_me',
        profile: { name: null, purpose: null, capabilities: [], dm_key: key, verified: false },
      })
    })
    const file = tokenFilePath(home, peer.url)
    createTokenFile(file, {
      url: peer.url,
      agent_id: 'agt_me',
      token: TOKEN,
      dm_secret_key: keys.secretKey,
      dm_public_key: keys.publicKey,
    })
    expect(await run(peer.url, 'dm', 'rekey')).toMatchObject({ error: 'unreachable' })
    const first = readTokenFile(file)
    expect(first).toMatchObject({
      dm_public_key: published[0],
      old_dm_keys: [{ dm_public_key: keys.publicKey, dm_secret_key: keys.secretKey }],
    })
    expect(await run(peer.url, 'dm', 'rekey')).toMatchObject({ ok: true })
    expect(readTokenFile(file)).toMatchObject({ dm_public_key: published[1] })
    expect(await run(peer.url, 'dm', 'rekey', '--forget-old')).toEqual({ ok: true, forgotten: 2 })
    await peer.close()
    expect(readTokenFile(file)).toMatchObject({
      dm_public_key: published[1],
      old_dm_keys: [{ dm_public_key: published[0] }, { dm_public_key: keys.publicKey }],
    })
    for (const secret of [keys.secretKey, String(first?.dm_secret_key)])
      expect(readFileSync(file, 'utf8')).not.toContain(secret)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })
})
