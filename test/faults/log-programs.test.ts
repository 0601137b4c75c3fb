import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import {
  formatCheckpoint,
  formatNote,
  formatVkey,
  NOTE_KEY,
  parseNote,
  signNote,
  verifyCosignature,
} from '../../shared/crypto/note.ts'
import { leafHash } from '../../shared/crypto/merkle.ts'
import type { Receipt } from '../../shared/crypto/receipt.ts'
import { readCheckpoint, formatCosignedNote } from '../../shared/ledger/log-service.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { requestCosignatures } from '../../shared/ledger/witnesses.ts'
import { startLitewitness, startTransparencyWitness, type GoWitness } from '../support/go-witnesses.ts'
import {
  openLedger,
  openWorkerContext,
  type SignerContext,
  verifyWholeLedger,
  writePosts,
  type TestLedger,
} from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'
import { closeContext } from '../../shared/context.ts'

const run = promisify(execFile)
const ORIGIN = 'agents.example/ledger'
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
    { limitMs: PATIENCE_MS },
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
      LEDGER_ORIGIN: ORIGIN,
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

describe("other people's witnesses", () => {
  let ledger: TestLedger
  let ctx: SignerContext
  let witnesses: GoWitness[]
  let secret: Uint8Array
  const closing: (() => Promise<void>)[] = []
  beforeAll(async () => {
    ledger = await openLedger({ env: { LEDGER_ORIGIN: ORIGIN } })
    secret = readSealKey(ledger.keyFile) ?? new Uint8Array(32)
    const log = { name: ORIGIN, type: NOTE_KEY.signer, publicKey: ed25519PublicKey(secret) }
    closing.push(ledger.stop)
    witnesses = []
    for (const start of [startLitewitness, startTransparencyWitness]) {
      const witness = await start(folder, log)
      closing.push(witness.stop)
      witnesses.push(witness)
    }
    const settings = witnesses.map(({ key, url }) => `${formatVkey(key)}@${url}`)
    ctx = await openWorkerContext({ ...ledger.env, WITNESSES: settings.join() })
    closing.push(() => closeContext(ctx))
  }, 300_000)
  afterAll(async () => {
    for (const close of closing.toReversed()) await close()
  })

  it('cosign each of three checkpoints, and their lines stand below it', async () => {
    const written: string[] = []
    for (const posts of [3, 300, 2]) {
      written.push(...(await ledger.write(posts)))
      await ledger.seal()
      const from = performance.now()
      await requestCosignatures(ctx, ctx.signing.witnesses)
      const ms = performance.now() - from
      const { checkpoint } = await readCheckpoint(ctx)
      const note = parseNote(await formatCosignedNote(ctx.seals, checkpoint))
      for (const { program, key } of witnesses) {
        const line = note.signatures.find(({ name }) => name === key.name)
        expect(line && verifyCosignature(note.text, line, key), program).toBeGreaterThan(1_700_000_000)
      }
      expect(ms).toBeLessThan(5_000)
    }
    await verifyWholeLedger(ctx, written)
  })

  it('refuse an older checkpoint, a proof that proves nothing, and a rewritten history', async () => {
    const { size, root } = (await readCheckpoint(ctx)).checkpoint
    const noteOf = (entries: number, hash: Uint8Array) => {
      const text = formatCheckpoint({ origin: ORIGIN, size: entries, root: hash })
      return formatNote(text, [signNote(text, ORIGIN, secret)])
    }
    const older = (await ctx.seals.listSigned(1, 1, 1))[0]
    const rootOf = (hex: string | undefined) => Buffer.from(hex ?? '', 'hex')
    const grown = noteOf(size + 1, randomBytes(32))
    const junk = `${randomBytes(32).toString('base64')}\n`
    const offers: [string, number, string, string][] = [
      ['an older size', size, '', noteOf(older?.to_id ?? 0, rootOf(older?.log_root))],
      ['an older size from there on', older?.to_id ?? 0, '', noteOf(size, rootOf(root))],
      ['another root for the size', size, '', noteOf(size, randomBytes(32))],
      ['growth without a proof', size, '', grown],
      ['growth by a wrong proof', size, junk.repeat(5), grown],
      ['a whole other history', 0, '', grown],
    ]
    for (const { program, key, url } of witnesses) {
      for (const [name, from, proof, note] of offers) {
        const body = `old ${from}\n${proof}\n${note}`
        const answer = await fetch(`${url}/add-checkpoint`, { method: 'POST', body })
        expect([400, 403, 409, 422], `${program}: ${name}`).toContain(answer.status)
        expect(await answer.text(), `${program}: ${name}`).not.toContain(`— ${key.name}`)
      }
    }
    await ledger.write(1)
    await ledger.seal()
    await requestCosignatures(ctx, ctx.signing.witnesses)
    expect((await ctx.seals.cosignatures.listLines((await readCheckpoint(ctx)).checkpoint.size)).length).toBe(
      2,
    )
  })
})
