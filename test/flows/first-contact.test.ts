import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { newAuthorKeyPair } from '../../client/author-signatures.ts'
import { createClient } from '../../client/client.ts'
import { verifyReceipt } from '../../client/verify-receipt.ts'
import { newDmKeyPair } from '../../client/sealed-box.ts'
import {
  createTokenFile,
  readTokenFile,
  tokenFilePath,
  writeTokenFile,
  type Identity,
} from '../../client/token-file.ts'
import { runAgent } from '../../client/command/run.ts'
import { announce } from '../../shared/announcements/announcement-service.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { isEverythingSealed } from '../support/ledger.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

/*
 * The first message to an agent, on a service whose ledger is sealed and signed: what the operator could do
 * to a card.
 */

let folder: string
let service: TestService
let homes = 0

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'first-contact-'))
  const files = {
    SEAL_KEY_FILE: path.join(folder, 'seal-key'),
    SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
  }
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
  const env: Record<string, string> = { AGENT_HOME: home }
  const run = async (...argv: string[]) => {
    let stdout = ''
    let stderr = ''
    const exitCode = await runAgent({
      argv: [...argv, '--json', '--url', service.url],
      env,
      stdin: Readable.from([]),
      stdout: { write: (text) => (stdout += text) },
      stderr: { write: (text) => (stderr += text) },
      signal: new AbortController().signal,
    })
    return { exitCode, stderr, answer: JSON.parse(stdout) as Record<string, unknown> }
  }
  return {
    id: agent.id,
    tokenFile,
    env,
    run,
    key: () => readTokenFile(tokenFile)?.dm_public_key,
    identity: () => readTokenFile(tokenFile) ?? { url: service.url, agent_id: agent.id, token: agent.token },
    fileOf: (kind: string) => tokenFile.replace(/json$/, `${kind}.json`),
  }
}

async function sealEverything(): Promise<void> {
  await vi.waitFor(
    async () => {
      await service.ctx.queues.enqueue('make-seal', {}, { debounceId: 'make-seal' })
      expect(await isEverythingSealed(service.ctx)).toBe(true)
    },
    { timeout: 60_000, interval: 300 },
  )
}

async function showKey(agentId: string, key: string): Promise<void> {
  const agents = service.ctx.database.connection.collection<{ _id: string }>('agents')
  await agents.updateOne({ _id: agentId }, { $set: { 'profile.dm_key': key } })
}

describe('a message key that is seen for the first time', () => {
  // holds: limits.sealed_messages.detail
  it('is pinned once a signed seal of a known key bears it out, and not before', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    expect(await ada.run('dm', 'send', bob.id, 'x')).toMatchObject({
      exitCode: 1,
      answer: { error: 'unsealed_key' },
    })
    await sealEverything()
    // Sealed, and the key of the seals is still anybody's.
    const unknown = await ada.run('dm', 'send', bob.id, 'x')
    expect(unknown.answer).toMatchObject({
      error: 'unsealed_key',
      message: expect.stringContaining('key_unknown') as string,
    })
    expect((await ada.run('seals')).exitCode).toBe(3)
    expect(await ada.run('dm', 'send', bob.id, 'for bob')).toMatchObject({
      exitCode: 0,
      answer: { ok: true },
    })
    await bob.run('seals')
    expect((await bob.run('dm', 'read')).answer).toMatchObject({
      messages: [{ text: 'for bob', sender_key: 'pinned' }],
    })
  })

  it('of a sender opens what it sealed, and is kept once it is under a seal', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    await sealEverything()
    await Promise.all([ada.run('seals'), bob.run('seals')])
    await ada.run('dm', 'send', bob.id, 'one') // publishes her own key first, which is under no seal yet
    expect((await bob.run('dm', 'read')).answer).toMatchObject({
      messages: [{ text: 'one', sender_key: 'unsealed' }],
    })
    await sealEverything()
    await ada.run('dm', 'send', bob.id, 'two')
    expect((await bob.run('dm', 'read')).answer).toMatchObject({
      messages: [{ text: 'two', sender_key: 'pinned' }],
    })
  })

  // holds: limits.sealed_messages
  it('is refused if the card shows another than the ledger has, unless the caller takes it upon itself', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    await sealEverything()
    await ada.run('seals')
    const mallory = newDmKeyPair().publicKey
    await showKey(bob.id, mallory)
    const refused = await ada.run('dm', 'send', bob.id, 'secret')
    expect(refused.answer).toMatchObject({
      error: 'unsealed_key',
      message: expect.stringContaining('is to another key') as string,
    })
    expect((await bob.run('me')).answer).toMatchObject({ unread_messages: 0 })
    expect(await ada.run('dm', 'send', bob.id, 'secret', '--unsealed-key')).toMatchObject({ exitCode: 0 })
    await showKey(bob.id, bob.key() ?? '')
  })

  // holds: limits.sealed_messages.detail
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
  // holds: limits.sealed_messages.detail
  it('is shouted by its next run, once, and what it did is not', async () => {
    const ada = await arrive()
    expect((await ada.run('profile', '--dm-key')).stderr).toBe('')
    expect((await ada.run('rotate')).stderr).toBe('')
    await sealEverything()
    expect((await ada.run('me')).stderr).toBe('')
    const token = readTokenFile(tokenFilePath(path.join(folder, `home-${homes}`), service.url))
      ?.token as string
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

describe('an announcement', () => {
  const verify = async (reader: Awaited<ReturnType<typeof arrive>>, ...args: string[]) => {
    const { exitCode, answer } = await reader.run('verify', '--limit', '1', ...args)
    const { reasons } = (answer['verification'] as { reasons: string[] }[])[0] ?? { reasons: [] }
    expect([answer['ok'], answer['binding']]).toEqual([exitCode === 0, exitCode === 0])
    return [exitCode, ...reasons]
  }

  it('is good if a known key signed it and its entry stands under a seal, and with no less', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await sealEverything()
    await ada.run('seals')
    const { _id: id } = await announce(service.ctx, { kind: 'protocol', text: 'A change.' })
    await vi.waitFor(
      async () => expect((await service.ctx.announcements.find(id))?.signature).toBeDefined(),
      { timeout: 60_000 },
    )
    const waiting = await verify(ada)
    expect([[3, 'waiting'], [0]]).toContainEqual(waiting) // a seal may come between
    await sealEverything()
    expect(await verify(ada)).toEqual([0])
    expect(await verify(bob)).toEqual([3, 'key_unknown'])
    const pubkey = (await service.ctx.announcements.find(id))?.pubkey ?? ''
    expect(await verify(bob, '--pubkey', pubkey)).toEqual([0])
    expect(await verify(bob, '--pubkey', 'ab'.repeat(32))).toEqual([1, 'wrong_key'])
    // As the operator could show it: another text under the same id, and one without an entry.
    const announcements = service.ctx.database.connection.collection<{ _id: string }>('announcements')
    const before = (await announcements.findOne({ _id: id })) ?? { _id: id }
    await announcements.updateOne({ _id: id }, { $set: { text: 'Another change.' } })
    expect((await verify(ada))[0]).toBe(1)
    await announcements.replaceOne({ _id: id }, before)
    expect(await verify(ada)).toEqual([0])
  })
})

describe('the log and the keys under it', () => {
  // holds: rules.signatures.statements.seen_is_size_root_of_the
  it('prove a key with its version, place a receipt, and carry what an agent has seen into what it signs', async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await bob.run('profile', '--dm-key')
    expect((await ada.run('author-key', 'new')).exitCode).toBe(0)
    expect((await ada.run('author-key', 'new')).answer).toMatchObject({ error: 'author_key_exists' })
    await sealEverything()
    const early = await ada.run('post', 'before the first look')
    await sealEverything()
    await ada.run('seals')
    expect((await ada.run('seals')).answer).toMatchObject({
      ok: true,
      verification: { log: {}, keys: {}, checkpoint: {} },
    })
    expect((await ada.run('dm', 'send', bob.id, 'proven')).exitCode).toBe(0)
    const pinDir = ada.fileOf('keys').replace(/\.json$/, '')
    expect(JSON.parse(readFileSync(`${pinDir}/${bob.id}.json`, 'utf8'))).toEqual({
      keys: [bob.key()],
      version: 1,
    })
    // A key that she takes in place of a pinned one must be newer, by what the ledger proves.
    const [sent, real] = [`${pinDir}/${bob.id}.json`, bob.key() ?? '']
    const before = readFileSync(sent, 'utf8')
    const another = newDmKeyPair().publicKey
    for (const version of [1, 2, 7]) {
      writeFileSync(sent, JSON.stringify({ keys: [another], version }), { mode: 0o600 })
      expect((await ada.run('dm', 'send', bob.id, 'older', '--accept-key', real)).answer).toMatchObject({
        error: 'unsealed_key',
        message: expect.stringContaining(`as version 1, and the pinned one was version ${version}`) as string,
      })
    }
    writeFileSync(sent, JSON.stringify([another]), { mode: 0o600 })
    expect((await ada.run('dm', 'send', bob.id, 'newer', '--accept-key', real)).exitCode).toBe(0)
    writeFileSync(sent, before, { mode: 0o600 })

    const seen = (await ada.run('seals')).answer['verification'] as { log: { size: number; root: string } }
    const { post } = (await ada.run('post', 'after it')).answer as {
      post: { id: string; author: { seen: object } }
    }
    expect(post.author.seen).toEqual(seen.log)
    await sealEverything()
    const receipt = (await ada.run('receipt', post.id)).answer as { verification: object }
    expect(receipt.verification).toMatchObject({
      verdict: 'good',
      log: { connected: 'consistent' },
      authors: [{ author_key: expect.any(String) as string }],
    })
    expect((await ada.run('receipt', String(early.answer['id']))).answer).toMatchObject({
      verification: { log: { connected: 'same' } },
    })

    // Her next author key is signed by the one before; the answer to the first try is lost.
    const own = () => ada.identity()
    const old = own().author_public_key
    const rotated = await ada.run('author-key', 'rotate')
    expect(rotated.answer).toMatchObject({ ok: true, author_key: own().author_public_key })
    expect(own()).not.toHaveProperty('next_author_public_key')
    expect(own().author_public_key).not.toBe(old)
    const { author_secret_key, author_public_key, ...rest } = own()
    const fresh = newAuthorKeyPair()
    const lost = {
      ...rest,
      ...{ author_secret_key: fresh.author_secret_key, author_public_key: fresh.author_public_key },
      ...{ next_author_secret_key: author_secret_key, next_author_public_key: author_public_key },
    } as Identity
    writeTokenFile(ada.tokenFile, lost)
    expect((await ada.run('author-key', 'rotate')).answer).toMatchObject({ author_key: author_public_key })
    expect(own()).toEqual({ ...rest, author_secret_key, author_public_key })
    expect((await ada.run('post', 'by the new key')).answer).toMatchObject({
      post: { author: { author_key: author_public_key } },
    })
    expect((await bob.run('author-key', 'rotate')).answer).toMatchObject({ error: 'no_author_key' })
  })

  it('are witnessed by an agent that cosigns what goes on from what it cosigned', async () => {
    const ada = await arrive()
    await ada.run('post', 'something to seal')
    await sealEverything()
    expect((await ada.run('witness')).answer).toMatchObject({ error: 'key_unknown' })
    await ada.run('seals')
    const first = (await ada.run('witness')).answer as { size: number; line: string; vkey: string }
    expect(first).toMatchObject({ ok: true, counted: true })
    expect((await ada.run('witness')).answer).toMatchObject({ size: first.size, counted: false })
    await ada.run('post', 'and more')
    await sealEverything()
    const second = (await ada.run('witness')).answer as { size: number; line: string }
    expect(second.size).toBeGreaterThan(first.size)
    expect(await (await fetch(`${service.url}/api/v1/checkpoint`)).text()).toContain(second.line)
    // What it remembers binds it: a service that was set back, or another history.
    const file = ada.fileOf('witness')
    const kept = JSON.parse(readFileSync(file, 'utf8'))
    for (const [state, error] of [
      [{ ...kept, size: second.size + 1 }, 'rollback'],
      [{ ...kept, root: '0'.repeat(64) }, 'log_rewritten'],
      [{ ...kept, size: first.size, root: '0'.repeat(64) }, 'log_rewritten'],
      [{ ...kept, origin: 'another.example' }, 'other_log'],
    ]) {
      writeFileSync(file, JSON.stringify(state), { mode: 0o600 })
      expect((await ada.run('witness')).answer, JSON.stringify(state)).toMatchObject({ ok: false, error })
    }
  })

  it("count for a reader whose policy names the witness, and the reader's commands say so", async () => {
    const [ada, bob] = [await arrive(), await arrive()]
    await ada.run('profile', '--dm-key')
    await ada.run('post', 'witnessed')
    await sealEverything()
    for (const agent of [ada, bob]) await agent.run('seals')
    // The first makes her key an entry, which waits for a seal of its own.
    const { vkey } = (await ada.run('witness')).answer as { vkey: string }
    await sealEverything()
    await ada.run('witness')
    const policy = path.join(folder, 'policy.txt')
    writeFileSync(policy, `witness ada ${vkey}\nquorum ada\n`)
    const alone = { key: 'remembered', cosigned_by: [], quorum: null }
    const witnessed = { key: 'remembered', cosigned_by: ['ada'], quorum: 'ada' }
    expect((await bob.run('receipt', ada.id)).answer).toMatchObject({ verification: { rests_on: alone } })
    expect((await bob.run('receipt', ada.id, '--policy', policy)).answer).toMatchObject({
      ok: true,
      verification: { rests_on: witnessed },
    })
    bob.env['WITNESS_POLICY'] = policy
    expect((await bob.run('seals')).answer).toMatchObject({ ok: true, verification: { rests_on: witnessed } })
    expect((await bob.run('dm', 'send', ada.id, 'hello')).exitCode).toBe(0)
    // A checkpoint that she has not cosigned binds him to nothing, and proves no key to him.
    await ada.run('post', 'not witnessed')
    await sealEverything()
    expect(await bob.run('receipt', ada.id)).toMatchObject({
      exitCode: 3,
      answer: { ok: false, verification: { not_binding: [{ reason: 'quorum_not_met' }] } },
    })
    const trust = { stateFile: path.join(folder, 'library.json'), policyFile: policy }
    const client = createClient({ baseUrl: service.url })
    expect(await verifyReceipt({ client, recordId: ada.id, trust })).toMatchObject({
      verdict: 'not_binding',
      reasons: expect.arrayContaining(['quorum_not_met']),
    })
    expect((await bob.run('seals', '--policy', '/dev/null')).exitCode).toBe(2)
    const again = path.join(folder, 'home-again')
    createTokenFile(tokenFilePath(again, service.url), bob.identity())
    Object.assign(bob.env, { AGENT_HOME: again, WITNESS_POLICY: '' })
    await bob.run('seals')
    bob.env['WITNESS_POLICY'] = policy
    const unproven = await bob.run('dm', 'send', ada.id, 'hello')
    expect(JSON.stringify(unproven.answer)).toContain('quorum_not_met')
    await ada.run('witness')
    expect((await bob.run('dm', 'send', ada.id, 'hello')).exitCode).toBe(0)
  })
})
