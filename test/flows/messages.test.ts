import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createClient, type Client } from '../../client/client.ts'
import {
  MessageKeyError,
  openFrom,
  publishDmKey,
  readPins,
  readSealed,
  sealFor,
  sendSealed,
  type MessagingIdentity,
} from '../../client/messages.ts'
import { newDmKeyPair, sealBox } from '../../client/sealed-box.ts'
import { createTokenFile, readTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { runAgent } from '../../client/command/run.ts'
import { sealWithNode } from '../support/node-sealed-box.ts'
import { startBrokenPeer } from '../support/broken-peer.ts'
import { startService, type TestAgent, type TestService } from '../support/service.ts'

interface Agent {
  id: string
  token: string
  client: Client
  identity: MessagingIdentity
  pinDir: string
  unsealedKey: boolean
}

let service: TestService
let folder: string
let alice: Agent
let bob: Agent
let agents = 0

beforeAll(async () => {
  service = await startService()
  folder = mkdtempSync(path.join(tmpdir(), 'agent-messages-'))
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})
beforeEach(async () => {
  ;[alice, bob] = [await makeAgent(), await makeAgent()]
})

const clientOf = (agent: TestAgent, baseUrl = service.url) => createClient({ baseUrl, token: agent.token })
const newKeys = () => {
  const { secretKey, publicKey } = newDmKeyPair()
  return { dm_secret_key: secretKey, dm_public_key: publicKey }
}

/** An agent whose card shows its key. */
async function makeAgent(): Promise<Agent> {
  const agent = await service.registerWithPass()
  const client = clientOf(agent)
  const identity = { agent_id: agent.id, ...newKeys() }
  expect(await publishDmKey({ client, identity })).toBe(true)
  expect(await publishDmKey({ client, identity })).toBe(false)
  return { ...agent, client, identity, pinDir: path.join(folder, `${++agents}.keys`), unsealedKey: true }
}

/** Agents who trust each other's cards: nothing is sealed here but where a test is about it. */
const send = (from: Agent, to: Agent, plaintext: string, acceptKey?: string) =>
  sendSealed({ ...from, to: to.id, plaintext, acceptKey })
const opened = (page: Awaited<ReturnType<typeof readSealed>>) =>
  page.messages.map((message) =>
    'text' in message ? [message.text, message.sender_key] : [message.problem.error],
  )
const failureOf = (call: Promise<unknown>) =>
  call.then(
    () => expect.unreachable('it was done'),
    (error: unknown) => error,
  )

/** What an operator who can write to the database can do to a card. */
async function showFalseKey(agent: Agent, key: string | undefined): Promise<void> {
  const cards = service.ctx.database.connection.collection<{ _id: string }>('agents')
  const { modifiedCount } = await (key === undefined
    ? cards.updateOne({ _id: agent.id }, { $unset: { 'profile.dm_key': 1 } })
    : cards.updateOne({ _id: agent.id }, { $set: { 'profile.dm_key': key } }))
  expect(modifiedCount).toBe(1)
}

/** A TCP proxy before the service that can break off an answer. */
async function startCutter() {
  let left = Number.POSITIVE_INFINITY
  const target = new URL(service.url)
  const ends = new Set<() => void>()
  const server = createServer((socket) => {
    const onward = connect(Number(target.port), target.hostname)
    const end = () => {
      socket.destroy()
      onward.destroy()
      ends.delete(end)
    }
    ends.add(end)
    for (const side of [socket, onward]) side.on('error', end).on('close', end)
    socket.pipe(onward)
    onward.on('data', (chunk: Buffer) => {
      if (chunk.length < left) socket.write(chunk)
      else socket.write(chunk.subarray(0, left), end)
      left -= Math.min(chunk.length, left)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Destroys the connection after so many bytes that the service sends from now on. */
    cutAfter: (bytes: number) => void (left = bytes),
    heal: () => void (left = Number.POSITIVE_INFINITY),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        for (const end of ends) end()
      }),
  }
}

describe('sealed messages', () => {
  it('go to and fro between two agents, and are told once', async () => {
    const text = 'grün \u{1f511}\u0000\ufeff\n'
    const sent = await send(alice, bob, text)
    expect(sent).toMatchObject({ ok: true, message: { id: sent.id, from: alice.id, to: bob.id } })
    const page = await readSealed(bob)
    expect(page).toMatchObject({ ok: true, count: 1, more: false, key_changes: [] })
    expect(page.messages).toEqual([{ ...sent.message, text, sender_key: 'pinned' }])
    expect((await readSealed(bob)).messages).toEqual([])
    await send(bob, alice, '\ufeff')
    expect(opened(await readSealed(alice))).toEqual([['\ufeff', 'pinned']])
  })

  // holds: contract.guarantees.direct_messages_are_stored_byte_for, limits.metadata_of_messages
  it('are a box to the operator, in the database and in the log', async () => {
    const secret = 'the-word-that-nobody-else-may-read'
    const { id } = await send(alice, bob, secret)
    await readSealed(bob)
    const { connection } = service.ctx.database
    const stored = await connection.collection<{ _id: string; box: string }>('messages').findOne({ _id: id })
    expect(Object.keys(stored ?? {}).toSorted()).toEqual([
      ...['_id', 'at', 'box', 'from', 'handed', 'tells', 'to'],
    ])
    expect(stored?.box).toMatch(/^box2\.[A-Za-z0-9_-]+$/)
    const collections = await connection.listCollections()
    const everything =
      (await Promise.all(collections.map(({ name }) => connection.collection(name).find().toArray())))
        .map((documents) => JSON.stringify(documents))
        .join('') + service.logged()
    expect(everything).toContain(bob.identity.dm_public_key)
    for (const word of [
      secret,
      Buffer.from(secret).toString('base64url').slice(0, -2),
      Buffer.from(secret).toString('hex'),
      alice.identity.dm_secret_key,
      bob.identity.dm_secret_key,
    ])
      expect(everything).not.toContain(word)
  })

  it('whose answer broke off half-way are given again after the last that arrived', async () => {
    const proxy = await startCutter()
    try {
      const reader = { ...bob, client: clientOf(bob, proxy.url) }
      const { id: last } = await send(alice, bob, 'arrived')
      expect(opened(await readSealed(reader))).toEqual([['arrived', 'pinned']])
      const lost = ['one', 'two', 'three']
      for (const text of lost) await send(alice, bob, text)
      proxy.cutAfter(1_000)
      expect(await failureOf(readSealed(reader))).toMatchObject({
        name: 'TransportError',
        kind: 'cut_off',
        status: 200,
      })
      proxy.heal()
      expect(opened(await readSealed(reader))).toEqual([])
      expect(opened(await readSealed({ ...reader, after: last }))).toEqual(
        lost.map((text) => [text, 'pinned']),
      )
      expect(opened(await readSealed({ ...reader, after: '0' }))).toEqual(
        ['arrived', ...lost].map((text) => [text, 'pinned']),
      )
    } finally {
      await proxy.close()
    }
  })

  it('are one message after a lost answer: the one that arrived is found, else the same box is sent again', async () => {
    const proxy = await startCutter()
    const dead = await startBrokenPeer((res) => res.destroy())
    try {
      const boxes: string[] = []
      const through = clientOf(alice, proxy.url)
      const cutting: typeof through = {
        ...through,
        sendMessage(body) {
          boxes.push(body.box)
          proxy.cutAfter(10)
          return through.sendMessage(body)
        },
        sentMessages(query) {
          proxy.heal()
          return through.sentMessages(query)
        },
      }
      const found = await sendSealed({ ...alice, client: cutting, to: bob.id, plaintext: 'arrived' })
      expect(boxes).toEqual([found.message.box])

      const lost = clientOf(alice, dead.url)
      const losing: typeof through = {
        ...alice.client,
        sendMessage: (body) => (boxes.push(body.box) === 2 ? lost : alice.client).sendMessage(body),
      }
      const sent = await sendSealed({ ...alice, client: losing, to: bob.id, plaintext: 'lost' })
      expect(boxes.slice(1)).toEqual([sent.message.box, sent.message.box])
      const page = await readSealed(bob)
      expect(page.messages.map(({ id }) => id)).toEqual([found.id, sent.id])
      expect(opened(page)).toEqual([
        ['arrived', 'pinned'],
        ['lost', 'pinned'],
      ])
    } finally {
      await dead.close()
      await proxy.close()
    }
  })

  it('that are equal, box for box, are shown once', async () => {
    const { message } = await send(alice, bob, 'once')
    await alice.client.sendMessage({ to: bob.id, box: message.box })
    const page = await readSealed(bob)
    expect([opened(page), page.count]).toEqual([[['once', 'pinned']], 1])
    expect(page.messages[0]?.id).toBe(message.id)
  })

  it('are not sent to who shows no key, and not by who cannot be read', async () => {
    const mute = await service.registerWithPass()
    expect(await failureOf(send(alice, { ...bob, id: mute.id }, 'x'))).toMatchObject({ code: 'no_key' })
    expect(await failureOf(send(alice, { ...bob, id: 'agt_0' }, 'x'))).toMatchObject({
      error: 'no_such_agent',
    })
    expect(
      await failureOf(publishDmKey({ client: alice.client, identity: { agent_id: alice.id, ...newKeys() } })),
    ).toMatchObject({
      code: 'own_key_differs',
    })
    expect((await alice.client.agent(alice.id)).profile.dm_key).toBe(alice.identity.dm_public_key)
  })

  it('that do not open keep no other from being read', async () => {
    const other = newKeys()
    await alice.client.sendMessage({ to: bob.id, box: 'no box at all' })
    const seal = (plaintext: string | Uint8Array, more: object = {}) =>
      sealBox({
        plaintext,
        senderSecretKey: alice.identity.dm_secret_key,
        senderId: alice.id,
        recipientPublicKey: bob.identity.dm_public_key,
        recipientId: bob.id,
        purpose: { kind: 'message' },
        ...more,
      })
    await alice.client.sendMessage({
      to: bob.id,
      box: seal('for another key', { recipientPublicKey: other.dm_public_key }),
    })
    await alice.client.sendMessage({ to: bob.id, box: seal('as another agent', { senderId: bob.id }) })
    await alice.client.sendMessage({ to: bob.id, box: seal(Uint8Array.of(0xff)) })
    const mute = await service.registerWithPass()
    await clientOf(mute).sendMessage({ to: bob.id, box: seal('by nobody') })
    await send(alice, bob, 'whole')
    const page = await readSealed(bob)
    expect(opened(page)).toEqual([
      ['not_a_box'],
      ['cannot_open'],
      ['cannot_open'],
      ['not_text'],
      ['no_key'],
      ['whole', 'pinned'],
    ])
    for (const message of page.messages)
      if ('problem' in message) expect(message.problem.message).toMatch(/^\S.* .*\.$/)
  })
})

describe('a message', () => {
  it('replayed as a delivery does not open as one, nor a delivery as a message or as that of another order', async () => {
    await send(alice, bob, 'thanks')
    const message = (await bob.client.messagesAfter('0')).messages[0]?.box ?? ''
    const delivery = await sealFor({ ...alice, to: bob.id, plaintext: 'the work', orderId: 'ord_1' })
    const problem = { problem: { error: 'cannot_open' } }
    const openAs = (box: string, orderId?: string) => openFrom({ ...bob, from: alice.id, box, orderId })
    expect(await openAs(message)).toMatchObject({ text: 'thanks' })
    expect(await openAs(message, 'ord_1')).toMatchObject(problem)
    expect(await openAs(delivery, 'ord_1')).toMatchObject({ text: 'the work' })
    expect(await openAs(delivery, 'ord_2')).toMatchObject(problem)
    expect(await openAs(delivery)).toMatchObject(problem)
  })

  it('of the first form is still read, and told apart', async () => {
    const padded = Buffer.alloc(256)
    padded.writeUInt16BE('from an old client'.length)
    padded.write('from an old client', 2)
    const { box } = sealWithNode({
      padded,
      ephemeralSecretKey: newKeys().dm_secret_key,
      nonce: randomBytes(24),
      senderSecretKey: alice.identity.dm_secret_key,
      senderId: alice.id,
      recipientPublicKey: bob.identity.dm_public_key,
      recipientId: bob.id,
    })
    await alice.client.sendMessage({ to: bob.id, box })
    expect((await readSealed(bob)).messages).toMatchObject([{ text: 'from an old client', first_form: true }])
  })

  it('to an old key opens while its secret half is kept', async () => {
    await send(alice, bob, 'to the old key')
    const { dm_public_key, dm_secret_key, agent_id } = bob.identity
    const rekeyed = { agent_id, ...newKeys() }
    const keeping = { ...rekeyed, old_dm_keys: [{ dm_public_key, dm_secret_key }] }
    expect(opened(await readSealed({ ...bob, identity: keeping, after: '0' }))).toEqual([
      ['to the old key', 'pinned'],
    ])
    expect(opened(await readSealed({ ...bob, identity: rekeyed, after: '0' }))).toEqual([['cannot_open']])
    expect(await publishDmKey({ client: bob.client, identity: keeping })).toBe(true)
  })
})

describe('the keys seen of others', () => {
  it('are pinned only by what opened with them', async () => {
    await send(alice, bob, 'x')
    await showFalseKey(alice, newKeys().dm_public_key)
    expect(opened(await readSealed({ ...bob, after: '0' }))).toEqual([['cannot_open']])
    expect(readPins(bob.pinDir, alice.id)).toEqual([])
  })

  it('are kept for their owner alone, the first one of each', async () => {
    await send(alice, bob, 'x')
    await readSealed(bob)
    expect(readPins(alice.pinDir, bob.id)).toEqual([bob.identity.dm_public_key])
    expect(readPins(bob.pinDir, alice.id)).toEqual([alice.identity.dm_public_key])
    expect(statSync(path.join(bob.pinDir, `${alice.id}.json`)).mode & 0o777).toBe(0o600)
    expect(statSync(bob.pinDir).mode & 0o777).toBe(0o700)
  })

  it('show that a key was swapped: nothing is sealed to it, and what it sealed is told apart', async () => {
    const mallory = newKeys()
    const before = await send(alice, bob, 'before')
    await readSealed(bob)
    await showFalseKey(alice, mallory.dm_public_key)
    const error = await failureOf(send(bob, alice, 'for alice alone'))
    expect(error).toBeInstanceOf(MessageKeyError)
    const change = { agent_id: alice.id, pinned: alice.identity.dm_public_key, shown: mallory.dm_public_key }
    expect(error).toMatchObject({ code: 'key_changed', change })
    expect(await failureOf(send(bob, alice, 'x', newKeys().dm_public_key))).toMatchObject({
      code: 'key_changed',
    })
    expect((await alice.client.unreadMessages()).count).toBe(0)

    await sendSealed({
      ...alice,
      identity: { agent_id: alice.id, ...mallory },
      to: bob.id,
      plaintext: 'by mallory',
    })
    await send(alice, bob, 'by alice')
    const page = await readSealed({ ...bob, after: before.id })
    expect(opened(page)).toEqual([
      ['by mallory', 'changed'],
      ['by alice', 'pinned'],
    ])
    expect(page.key_changes).toEqual([change])
    expect(readPins(bob.pinDir, alice.id)).toEqual([alice.identity.dm_public_key])
    // What was done behind the ledger's back is not in it.
    expect(JSON.stringify((await bob.client.receipt(alice.id)).entries)).not.toContain(mallory.dm_public_key)
  })

  it('give way to a new key that is named, and still open what was sealed before', async () => {
    await send(alice, bob, 'before')
    await readSealed(bob)
    const next = { ...alice, identity: { agent_id: alice.id, ...newKeys() } }
    await alice.client.updateProfile({ dm_key: next.identity.dm_public_key })
    expect(await failureOf(send(bob, alice, 'x'))).toMatchObject({ code: 'key_changed' })
    const changes = (await bob.client.receipt(alice.id)).entries
      .filter(({ entry }) => entry.kind === 'dm_key_change')
      .map(({ entry }) => entry.data['dm_key'])
    expect(changes).toEqual([alice.identity.dm_public_key, next.identity.dm_public_key])

    await send(bob, alice, 'to the new key', next.identity.dm_public_key)
    expect(readPins(bob.pinDir, alice.id)).toEqual([
      alice.identity.dm_public_key,
      next.identity.dm_public_key,
    ])
    await send(bob, alice, 'again, without a word')
    expect(opened(await readSealed(next))).toEqual([
      ['to the new key', 'pinned'],
      ['again, without a word', 'pinned'],
    ])
    await send(next, bob, 'after')
    const page = await readSealed({ ...bob, after: '0' })
    expect(opened(page)).toEqual([
      ['before', 'earlier'],
      ['after', 'pinned'],
    ])
    expect(page.key_changes).toEqual([])
  })

  it('are enough to read by where the card shows none any more', async () => {
    await send(alice, bob, 'one')
    await readSealed(bob)
    await send(alice, bob, 'two')
    await showFalseKey(alice, undefined)
    expect(opened(await readSealed(bob))).toEqual([['two', 'pinned']])
  })

  it('are none that could not be a key', async () => {
    await send(alice, bob, 'x')
    for (const key of ['zz', alice.identity.dm_public_key.toUpperCase()]) {
      await showFalseKey(alice, key)
      expect(await failureOf(send(bob, alice, 'x'))).toMatchObject({
        name: 'SealedBoxError',
        code: 'bad_key',
      })
      expect(opened(await readSealed({ ...bob, after: '0' }))).toEqual([['bad_key']])
      expect(readPins(bob.pinDir, alice.id)).toEqual([])
    }
    await showFalseKey(alice, alice.identity.dm_public_key)
    expect(opened(await readSealed({ ...bob, after: '0' }))).toEqual([['x', 'pinned']])
  })

  it('are asked for before a message is marked as read, and a broken file is named', async () => {
    await send(alice, bob, 'x')
    const file = path.join(bob.pinDir, `${alice.id}.json`)
    mkdirSync(bob.pinDir, { mode: 0o700 })
    for (const text of ['', '[]', '{}', '["zz"]']) {
      writeFileSync(file, text, { mode: 0o600 })
      expect(await failureOf(readSealed(bob))).toMatchObject({
        message: expect.stringContaining(file) as string,
      })
      expect(readFileSync(file, 'utf8')).toBe(text)
    }
    rmSync(file)
    expect(opened(await readSealed(bob))).toEqual([['x', 'pinned']])
  })

  it('in the one file that held them before are neither read nor passed over', async () => {
    const oldFile = `${bob.pinDir}.json`
    writeFileSync(oldFile, JSON.stringify({ [alice.id]: [newKeys().dm_public_key] }), { mode: 0o600 })
    await send(alice, bob, 'x')
    expect(await failureOf(readSealed(bob))).toMatchObject({
      message: expect.stringContaining(oldFile) as string,
    })
    expect(existsSync(bob.pinDir)).toBe(false)
    rmSync(oldFile)
    expect(opened(await readSealed(bob))).toEqual([['x', 'pinned']])
  })

  it('stand until a newer one is accepted', async () => {
    const next = newKeys()
    const pinned = alice.identity.dm_public_key
    await send(alice, bob, 'x')
    expect(opened(await readSealed(bob))).toEqual([['x', 'pinned']])
    await alice.client.updateProfile({ dm_key: next.dm_public_key })
    expect(await failureOf(send(bob, alice, 'x'))).toMatchObject({ code: 'key_changed' })
    await send(bob, alice, 'x', next.dm_public_key)
    expect(readPins(bob.pinDir, alice.id)).toEqual([pinned, next.dm_public_key])
  })
})

describe("the agent's command", () => {
  let homes = 0

  async function makeHome(
    agent: TestAgent,
  ): Promise<
    (argv: string[], stdin?: string) => Promise<{ exitCode: number; stdout: string; stderr: string }>
  > {
    const home = path.join(folder, `home-${++homes}`)
    createTokenFile(tokenFilePath(home, service.url), {
      url: service.url,
      agent_id: agent.id,
      token: agent.token,
    })
    return async (argv, stdin) => {
      let stdout = ''
      let stderr = ''
      const exitCode = await runAgent({
        argv: [...argv, '--url', service.url],
        env: { AGENT_HOME: home },
        stdin: Readable.from(stdin === undefined ? [] : [Buffer.from(stdin)]),
        stdout: { write: (text) => (stdout += text) },
        stderr: { write: (text) => (stderr += text) },
        signal: new AbortController().signal,
      })
      return { exitCode, stdout, stderr }
    }
  }

  it('publishes a key of its own first, sends, and reads', async () => {
    const [ada, bob] = [await service.registerWithPass(), await service.registerWithPass()]
    const [asAda, asBob] = [await makeHome(ada), await makeHome(bob)]
    expect(
      JSON.parse((await asAda(['dm', 'send', bob.id, 'x', '--json', '--unsealed-key'])).stdout),
    ).toMatchObject({
      ok: false,
      error: 'no_key',
    })
    const { dm_key: key } = (await createClient({ baseUrl: service.url }).agent(ada.id)).profile
    expect(key).toMatch(/^[0-9a-f]{64}$/)
    expect((await asBob(['dm', 'read', '--unsealed-key'])).stdout).toBe('No messages.\n')

    const sent = JSON.parse(
      (await asAda(['dm', 'send', bob.id, '-', '--json', '--unsealed-key'], 'line\n  \u001b[2Jtwo\n')).stdout,
    ) as {
      ok: boolean
      id: string
      message: object
    }
    expect(sent).toMatchObject({ ok: true, message: { id: sent.id, from: ada.id, to: bob.id } })
    expect((await createClient({ baseUrl: service.url }).agent(ada.id)).profile.dm_key).toBe(key)
    const read = await asBob(['dm', '--json', 'read', '--unsealed-key'])
    expect(read).toMatchObject({ exitCode: 0, stderr: '' })
    expect(JSON.parse(read.stdout)).toEqual({
      ok: true,
      messages: [{ ...sent.message, text: 'line\n  \u001b[2Jtwo', sender_key: 'pinned' }],
      count: 1,
      more: false,
      key_changes: [],
    })

    const { stdout } = await asBob(['dm', 'read', '--after', '0'])
    expect(stdout).toMatch(
      new RegExp(`^${sent.id}  from ${ada.id}  .* UTC\n  line\n    \\\\u\\{1b\\}\\[2Jtwo\n$`),
    )
  })

  it('seals to no changed key unless that key is named', async () => {
    const ada = await service.registerWithPass()
    const asAda = await makeHome(ada)
    expect((await asAda(['dm', 'send', bob.id, 'one', '--unsealed-key'])).exitCode).toBe(0)
    const { dm_public_key: next } = newKeys()
    await bob.client.updateProfile({ dm_key: next })
    const refused = await asAda(['dm', 'send', bob.id, 'two', '--unsealed-key'])
    expect(refused).toMatchObject({ exitCode: 1, stdout: '' })
    for (const key of [bob.identity.dm_public_key, next]) expect(refused.stderr).toContain(key)
    expect(
      JSON.parse((await asAda(['dm', 'send', bob.id, 'two', '--json', '--unsealed-key'])).stdout),
    ).toMatchObject({
      ok: false,
      error: 'key_changed',
    })
    expect(
      (await asAda(['dm', 'send', bob.id, 'two', '--accept-key', 'yes', '--unsealed-key'])).exitCode,
    ).toBe(2)
    expect(
      (await asAda(['dm', 'send', bob.id, 'two', '--accept-key', next, '--unsealed-key'])).exitCode,
    ).toBe(0)
    expect((await bob.client.unreadMessages()).count).toBe(2)
  })

  it('changes no key on the card that is not its own', async () => {
    const asAlice = await makeHome(alice)
    for (const argv of [
      ['dm', 'read', '--unsealed-key'],
      ['dm', 'send', bob.id, 'x', '--unsealed-key'],
    ])
      expect(JSON.parse((await asAlice([...argv, '--json'])).stdout)).toMatchObject({
        ok: false,
        error: 'own_key_differs',
      })
    expect((await alice.client.agent(alice.id)).profile.dm_key).toBe(alice.identity.dm_public_key)
    expect((await asAlice(['profile', '--dm-key'])).exitCode).toBe(0)
    const kept = readTokenFile(tokenFilePath(path.join(folder, `home-${homes}`), service.url))
    expect((await alice.client.agent(alice.id)).profile.dm_key).toBe(kept?.dm_public_key)
    expect((await asAlice(['dm', 'read', '--unsealed-key'])).exitCode).toBe(0)
  })
})
