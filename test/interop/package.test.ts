import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync, readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { ensureSealKey, readSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import type { Context } from '../../shared/context.ts'
import { installClient, OWN_PATH, packClient, succeed } from '../support/package.ts'
import { startMarket, type TestMarket } from '../support/market.ts'
import { runProgram } from '../support/python.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const FULL = process.env['FAULTS'] === '1'

let folder: string
let project: string
let market: TestMarket
let pubkey: string
let sealing: Promise<void> = Promise.resolve()
let stopped = false

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'agent-network-package-'))
  project = path.join(folder, 'project')
  const packing = packClient(folder).then((tarball) => installClient(project, tarball))
  market = await startMarket({ env: { FREE_UNTIL: '2099-01-01T00:00:00Z' } })
  const keyFile = path.join(folder, 'seal-key')
  ensureSealKey(keyFile)
  pubkey = keyToHex(ed25519PublicKey(readSealKey(keyFile) ?? new Uint8Array()))
  sealing = sealOnAndOn(keyFile)
  await packing
})
afterAll(async () => {
  stopped = true
  await sealing
  await market?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** As the workers do every few minutes, here as fast as it goes. */
async function sealOnAndOn(keyFile: string): Promise<void> {
  const secrets = { sealKeyFile: keyFile, sealMemoryFile: path.join(folder, 'seal-memory') }
  const { ctx } = market
  const signing: Context = {
    ...ctx,
    config: { ...ctx.config, secrets: { ...ctx.config.secrets, ...secrets } },
  }
  while (!stopped) {
    await sequencePending(ctx, { useLease: false })
    await makeSeal(ctx, { useLease: false })
    await signSeals(signing)
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

/** A program in the empty project, on the machine's own Node. */
const inProject = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  runProgram(program, args, {
    cwd: project,
    env: { ...process.env, PATH: OWN_PATH, NODE_OPTIONS: '', AGENT_HOME: path.join(folder, 'home'), ...env },
    limitMs: 60_000,
  })

const PROGRAM = `
import { createClient, mineDays, registerAgent, RefusalError, verifyReceipt, type Feed, type Post } from 'agent-network'

declare const process: { argv: string[] }
const [, , baseUrl = '', pubkey = ''] = process.argv
const open = createClient({ baseUrl })
const { agent_id, token } = await registerAgent({ client: open, handle: 'packed' })
const client = open.with({ token })
await mineDays({ client, days: 1 })
const { id } = await client.post({ body: 'from an empty project', topic: 'packages' })
const feed: Feed = await client.feed({ topic: 'packages' })
const [post]: (Post | undefined)[] = feed.posts
if (post?.id !== id || post.agent_id !== agent_id) throw new Error('the post is not in the feed')
const trust = { stateFile: agent_id + '.seals.json', pubkeys: [pubkey] }
let verified = await verifyReceipt({ client, recordId: id, trust })
while (verified.reasons.includes('waiting')) {
  await new Promise((resolve) => setTimeout(resolve, 100))
  verified = await verifyReceipt({ client, recordId: id, trust })
}
try {
  await client.readPost('pst_none')
} catch (error) {
  if (!(error instanceof RefusalError)) throw error
  console.log(error.error, verified.verdict)
}
`

const TYPESCRIPT = path.join(ROOT, 'node_modules/.bin/tsc')
const compile = () => {
  writeFileSync(path.join(project, 'program.ts'), PROGRAM)
  const options = ['--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2023']
  return inProject(TYPESCRIPT, [
    ...options,
    '--lib',
    'es2023,dom,dom.asynciterable',
    '--types',
    '',
    'program.ts',
  ])
}

describe('the package agent-network, installed into an empty project', () => {
  it('brings four packages of one author, less than 130 KB packed, and nothing of the service', () => {
    const installed = readdirSync(path.join(project, 'node_modules')).filter((name) => !name.startsWith('.'))
    expect(installed.toSorted()).toEqual(['@noble', 'agent-network'])
    const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
    expect(statSync(path.join(folder, tarball)).size).toBeLessThan(130_000)
    const index = readFileSync(
      path.join(project, 'node_modules/agent-network/dist/types/client/index.d.ts'),
      'utf8',
    )
    expect(index).not.toContain('zod')
  })

  it('compiles with tsc --strict, registers, posts, and verifies the receipt', async () => {
    await succeed(compile())
    expect(await succeed(inProject('node', ['program.js', market.url, pubkey]))).toBe('no_such_post good\n')
  })

  it.runIf(FULL).each(['22', '24'])('does so on Node %s', async (version) => {
    await succeed(compile())
    const home = path.join(folder, `node-${version}`)
    mkdirSync(home)
    await succeed(
      runProgram('npm', ['install', '--silent', `node@${version}`], { cwd: home, limitMs: 300_000 }),
    )
    const node = path.join(home, 'node_modules/.bin/node')
    expect(await succeed(inProject(node, ['program.js', market.url, pubkey]))).toContain(
      'no_such_post good\n',
    )
  })

  it('is the whole command: npx agent-network registers, posts, and verifies the receipt', async () => {
    const agent = async (...words: string[]) => {
      const { code, output } = await inProject('npx', [
        '--offline',
        'agent-network',
        ...words,
        '--json',
        '--url',
        market.url,
      ])
      return { code, ...(JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, unknown>) }
    }
    expect(await agent('register', '--handle', 'shell')).toMatchObject({ code: 0, ok: true })
    expect(await agent('invoice', 'pow')).toMatchObject({ code: 0, credited_days: 1 })
    const { id } = (await agent('post', 'from npx')) as { id?: string }
    let receipt: Record<string, unknown>
    do receipt = await agent('receipt', String(id), '--pubkey', pubkey)
    while (receipt['sealed'] !== true)
    expect(receipt).toMatchObject({ code: 0, ok: true, binding: true })
  })
})
