import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import type { Receipt } from '../../shared/crypto/receipt.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { writePosts } from '../support/ledger.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

const run = promisify(execFile)
const PROGRAM = fileURLToPath(new URL('../interop/go', import.meta.url))

let service: TestService
let folder: string
let alice: TestAgent
let binary: string
let older: { size: number; root: string }

async function seal(posts: number): Promise<{ size: number; root: string }> {
  const before = (await service.ctx.seals.lastSigned())?._id ?? 0
  await writePosts(service.ctx, posts)
  await service.ctx.queues.enqueue('make-seal', {})
  const last = await waitFor(
    'a signed seal',
    async () => {
      const now = await service.ctx.seals.lastSigned()
      return (now?._id ?? 0) > before ? now : undefined
    },
    { limitMs: 60_000 },
  )
  return { size: last?.to_id ?? 0, root: last?.log_root ?? '' }
}

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-programs-'))
  binary = path.join(folder, 'interop')
  await run('go', ['build', '-o', binary, '.'], { cwd: PROGRAM })
  const keyFile = path.join(folder, 'seal-key')
  ensureSealKey(keyFile)
  service = await startService({
    env: {
      SEAL_KEY_FILE: keyFile,
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
      LEDGER_ORIGIN: 'agents.example/ledger',
    },
  })
  alice = await service.register()
  older = await seal(300)
  await seal(1_000)
})
afterAll(async () => {
  await service.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

async function check(from: { size: number; root: string }, url = `${service.url}/api/v1`): Promise<string> {
  const { vkey } = (await service.call('GET', '/seal')).json as { vkey: string }
  const { entries } = (await service.call('GET', `/receipt/${alice.id}`)).json as unknown as Receipt
  const [first] = entries
  if (first?.sealed !== true) throw new Error('the registration is not sealed')
  const proofFile = path.join(folder, 'registration.tlog-proof')
  fs.writeFileSync(proofFile, first.tlog_proof ?? '')
  return (
    await run(binary, [url, vkey, String(from.size), from.root, proofFile, leafHash(first.entry)])
  ).stdout.trim()
}

describe("other people's programs", () => {
  it('find every tile and entry right, the growth from an older checkpoint, and a record where its proof says', async () => {
    expect(await check(older)).toBe('ok')
  })

  it('refuse a log that does not begin with the older one', async () => {
    await expect(check({ ...older, root: 'ab'.repeat(32) })).rejects.toThrow('growth')
  })

  it('refuse a log in which an entry was altered after it was signed', async () => {
    const entries = service.ctx.database.connection.collection<{ _id: number }>('entries')
    const before = await entries.findOne({ _id: 700 })
    await entries.updateOne({ _id: 700 }, { $set: { at: 1 } })
    await expect(check(older)).rejects.toThrow('fsck')
    await entries.replaceOne({ _id: 700 }, before as never)
    expect(await check(older)).toBe('ok')
  })
})
