import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { newDmKeyPair } from '../../client/sealed-box.ts'
import { createTokenFile, readTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { runAgent } from '../../scripts/agent/run.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

/* The first message to an agent, on a service whose ledger is sealed and signed: what the operator could do to a card. */

let folder: string
let service: TestService
let homes = 0

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'first-contact-'))
  const files = { SEAL_KEY_FILE: path.join(folder, 'seal-key'), SEAL_MEMORY_FILE: path.join(folder, 'seal-memory') }
  ensureSealKey(files.SEAL_KEY_FILE)
  service = await startService({ env: files })
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

/** An agent with a home of its own, who has run `seals` twice, so that it knows the service's key. */
async function arrive() {
  const agent: TestAgent = await service.registerWithPass()
  const home = path.join(folder, `home-${++homes}`)
  const tokenFile = tokenFilePath(home, service.url)
  createTokenFile(tokenFile, { url: service.url, agent_id: agent.id, token: agent.token })
  const run = async (...argv: string[]) => {
    let stdout = ''
    let stderr = ''
    const exitCode = await runAgent({
      argv: [...argv, '--json', '--url', service.url],
      env: { AGENT_HOME: home },
      stdin: Readable.from([]),
      stdout: { write: (text) => (stdout += text) },
      stderr: { write: (text) => (stderr += text) },
      signal: new AbortController().signal,
    })
    return { exitCode, stderr, answer: JSON.parse(stdout) as Record<string, unknown> }
  }
  return { id: agent.id, run, key: () => readTokenFile(tokenFile)?.dm_public_key }
}

async function sealEverything(): Promise<void> {
  await vi.waitFor(
    async () => {
      await service.ctx.queues.enqueue('make-seal', {}, { debounceId: 'make-seal' })
      const [last, highest, unsigned] = await Promise.all([
        service.ctx.seals.last(),
        service.ctx.entries.highestId(),
        service.ctx.seals.listUnsigned(1),
      ])
      expect([last?.to_id, unsigned]).toEqual([highest, []])
    },
    { timeout: 30_000, interval: 300 },
  )
}

async function showKey(agentId: string, key: string): Promise<void> {
  const agents = service.ctx.database.connection.collection<{ _id: string }>('agents')
  await agents.updateOne({ _id: agentId }, { $set: { 'profile.dm_key': key } })
}

describe('a message key that is seen for the first time', () => {
  it('is pinned once a signed seal of a known key bears it out, and not before', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    expect(await ada.run('dm', 'send', bob.id, 'x')).toMatchObject({ exitCode: 1, answer: { error: 'unsealed_key' } })
    await sealEverything()
    // Sealed, and the key of the seals is still anybody's.
    const unknown = await ada.run('dm', 'send', bob.id, 'x')
    expect(unknown.answer).toMatchObject({ error: 'unsealed_key', message: expect.stringContaining('key_unknown') as string })
    expect((await ada.run('seals')).exitCode).toBe(3)
    expect(await ada.run('dm', 'send', bob.id, 'for bob')).toMatchObject({ exitCode: 0, answer: { ok: true } })
    await bob.run('seals')
    expect((await bob.run('dm', 'read')).answer).toMatchObject({ messages: [{ text: 'for bob', sender_key: 'pinned' }] })
  })

  it('of a sender opens what it sealed, and is kept once it is under a seal', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    await sealEverything()
    await Promise.all([ada.run('seals'), bob.run('seals')])
    await ada.run('dm', 'send', bob.id, 'one') // publishes her own key first, which is under no seal yet
    expect((await bob.run('dm', 'read')).answer).toMatchObject({ messages: [{ text: 'one', sender_key: 'unsealed' }] })
    await sealEverything()
    await ada.run('dm', 'send', bob.id, 'two')
    expect((await bob.run('dm', 'read')).answer).toMatchObject({ messages: [{ text: 'two', sender_key: 'pinned' }] })
  })

  it('is refused if the card shows another than the ledger has, unless the caller takes it upon itself', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    await sealEverything()
    await ada.run('seals')
    const mallory = newDmKeyPair().publicKey
    await showKey(bob.id, mallory)
    const refused = await ada.run('dm', 'send', bob.id, 'secret')
    expect(refused.answer).toMatchObject({ error: 'unsealed_key', message: expect.stringContaining('is to another key') as string })
    expect((await bob.run('me')).answer).toMatchObject({ unread_messages: 0 })
    expect(await ada.run('dm', 'send', bob.id, 'secret', '--unsealed-key')).toMatchObject({ exitCode: 0 })
    await showKey(bob.id, bob.key() ?? '')
  })

  it('is refused where the ledger never had one', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await showKey(bob.id, newDmKeyPair().publicKey)
    await sealEverything()
    await ada.run('seals')
    expect((await ada.run('dm', 'send', bob.id, 'x')).answer).toMatchObject({
      error: 'unsealed_key',
      message: expect.stringContaining('no change of key') as string,
    })
  })
})

describe('what the ledger says of an agent that it did not do', () => {
  it('is shouted by its next run, once, and what it did is not', async () => {
    const ada = await arrive()
    expect((await ada.run('profile', '--dm-key')).stderr).toBe('')
    expect((await ada.run('rotate')).stderr).toBe('')
    await sealEverything()
    expect((await ada.run('me')).stderr).toBe('')
    const token = readTokenFile(tokenFilePath(path.join(folder, `home-${homes}`), service.url))?.token as string
    // By whoever has the token: another program of hers, a thief, or the service itself.
    const key = newDmKeyPair().publicKey
    await service.call('POST', '/profile', { token, body: { dm_key: key } })
    await sealEverything()
    const { stderr } = await ada.run('me')
    expect(stderr).toContain('!!! THE LEDGER SAYS OF YOU')
    expect(stderr).toContain(key)
    expect((await ada.run('me')).stderr).toBe('')
  })
})
