import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { createClient } from '../../client/client.ts'
import { openFrom, sealFor, type MessagingIdentity } from '../../client/messages.ts'
import { newDmKeyPair, openBoxWithNote } from '../../client/sealed-box.ts'
import { check } from '../../client/verify/main.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { readReport, startPythonVerifier, verifyInNode } from '../support/both-verifiers.ts'
import {
  buildChain,
  makeEntry,
  SEAL_KEY,
  serveChain,
  type LedgerChain,
  type LedgerServer,
} from '../support/ledger-chain.ts'
import { consistencyOf, noteOf } from '../support/log-proofs.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'

/*
 * A service that signs two histories, and shows each of two agents its own. All that they have of each other
 * is a box that the service hands over.
 */

const SIZES = [7, 3, 6, 2, 9]
const chainOf = (sizes: number[], of: 'alice' | 'bob') =>
  buildChain(sizes, 0, {
    loggedFrom: 1,
    entry: (id) =>
      id === 9 && of === 'bob' ? makeEntry(id, { post_id: 'pst_9', agent_id: 'agt_bob' }) : undefined,
  })

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
afterAll(() => python?.stop())

interface Side {
  server: LedgerServer
  identity: MessagingIdentity
  stateFile: string
  pinDir: string
  client: ReturnType<typeof createClient>
  /** Has the service's history checked, as `agent seals` does. */
  look(chain?: LedgerChain): Promise<number>
}

let folder: string
let open: LedgerServer[] = []

async function startSide(
  name: 'alice' | 'bob',
  sizes: number[],
  identities: Record<string, MessagingIdentity>,
): Promise<Side> {
  const chain = chainOf(sizes, name)
  const server = await serveChain(chain)
  open.push(server)
  Object.assign(server, { note: noteOf(chain), consistency: consistencyOf })
  server.cards = Object.fromEntries(
    Object.values(identities).map(({ agent_id: id, dm_public_key: key }) => [id, key]),
  )
  const stateFile = join(folder, `${name}.seals.json`)
  return {
    server,
    identity: identities[name] as MessagingIdentity,
    stateFile,
    pinDir: join(folder, `${name}.keys`),
    client: createClient({ baseUrl: server.url }),
    async look(shown) {
      if (shown !== undefined) Object.assign(server, { chain: shown, note: noteOf(shown) })
      return (
        await check([server.url, '--state', stateFile, '--max-age', String(2 ** 40), '--pubkey', PUBKEY])
      ).exitCode
    },
  }
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gossip-'))
  return async () => {
    await Promise.all(open.map((server) => server.close()))
    open = []
    rmSync(folder, { recursive: true })
  }
})

async function startBoth(ofAlice: number[], ofBob: number[]): Promise<{ alice: Side; bob: Side }> {
  const identityOf = (id: string): MessagingIdentity => {
    const { secretKey, publicKey } = newDmKeyPair()
    return { agent_id: id, dm_secret_key: secretKey, dm_public_key: publicKey }
  }
  const identities = { alice: identityOf('agt_alice'), bob: identityOf('agt_bob') }
  const [alice, bob] = [
    await startSide('alice', ofAlice, identities),
    await startSide('bob', ofBob, identities),
  ]
  expect([await alice.look(), await bob.look()]).toEqual([0, 0])
  return { alice, bob }
}

const write = ({ client, identity, pinDir, stateFile }: Side, to: Side, plaintext = 'hello') =>
  sealFor({
    client,
    identity,
    to: to.identity.agent_id,
    plaintext,
    pinDir,
    trust: { stateFile },
    unsealedKey: true,
  })

const read = ({ client, identity, pinDir, stateFile }: Side, from: Side, box: string) =>
  openFrom({
    client,
    identity,
    pinDir,
    from: from.identity.agent_id,
    box,
    trust: { stateFile },
    unsealedKey: true,
  })

async function expectProof(evidence: string | undefined): Promise<void> {
  expect(JSON.parse(readFileSync(evidence ?? '', 'utf8'))).toMatchObject({ kind: 'log_fork', pubkey: PUBKEY })
  for (const verify of [verifyInNode, ...(python === undefined ? [] : [python.verify])])
    expect(
      readReport(
        await verify([
          '--evidence',
          evidence ?? '',
          '--pubkey',
          PUBKEY,
          '--state',
          join(folder, 'none'),
          '--json',
        ]),
      ).code,
    ).toBe(0)
}

describe('a split view', () => {
  it.each([
    ['as long as', SIZES, SIZES],
    ['shorter than', SIZES.slice(0, 4), SIZES],
    ['of a power of two, shorter than', SIZES.slice(0, 3), SIZES],
  ])(
    'is found by two agents that write to each other, the log of one %s the other, and convinces a third',
    async (_how, ofAlice, ofBob) => {
      const { alice, bob } = await startBoth(ofAlice, ofBob)
      const opened = await read(bob, alice, await write(alice, bob))
      expect(opened).toMatchObject({
        text: 'hello',
        log_fork: { message: expect.stringContaining('does not agree') as string },
      })
      await expectProof('log_fork' in opened ? opened.log_fork?.evidence : undefined)
    },
  )

  it('is found later if the sender had seen more of the log than the reader', async () => {
    const { alice, bob } = await startBoth(SIZES, SIZES.slice(0, 3))
    expect(await read(bob, alice, await write(alice, bob))).toEqual({ text: 'hello', sender_key: 'pinned' })
    expect(await bob.look(chainOf([...SIZES.slice(0, 3), 4, 8], 'bob'))).toBe(1)
  })

  it('is not claimed of agents that were shown one log, at whatever sizes', async () => {
    const { alice, bob } = await startBoth(SIZES, SIZES.slice(0, 2))
    Object.assign(alice.server, { chain: chainOf(SIZES, 'bob'), note: noteOf(chainOf(SIZES, 'bob')) })
    rmSync(alice.stateFile)
    expect(await alice.look()).toBe(0)
    for (const [from, to] of [
      [alice, bob],
      [bob, alice],
    ] as const)
      expect(await read(to, from, await write(from, to))).not.toHaveProperty('log_fork')
    expect(await bob.look(chainOf([...SIZES, 4], 'bob'))).toBe(0)
  })
})

describe('the checkpoint in a box', () => {
  it('is the newest that the sender verified, with the signature of the log alone, beside a message of any length', async () => {
    const { alice, bob } = await startBoth(SIZES, SIZES)
    const opening = {
      recipientSecretKey: bob.identity.dm_secret_key,
      recipientId: 'agt_bob',
      senderId: 'agt_alice',
    }
    for (const length of [0, 40, 250, 5_000, 49_073]) {
      const box = await write(alice, bob, 'x'.repeat(length))
      const opened = openBoxWithNote({
        box,
        ...opening,
        senderPublicKey: alice.identity.dm_public_key,
        purpose: { kind: 'message' },
      })
      expect(opened.message.length).toBe(length)
      expect(opened.note).toBe(length === 49_073 ? undefined : noteOf(chainOf(SIZES, 'alice')))
    }
  })

  it('of nobody that is known as the service, or none at all, is passed over', async () => {
    const { alice, bob } = await startBoth(SIZES, SIZES)
    const state = JSON.parse(readFileSync(alice.stateFile, 'utf8'))
    expect(state[alice.server.url].checkpoint).toBe(noteOf(chainOf(SIZES, 'alice')))
    rmSync(alice.stateFile)
    expect(await read(bob, alice, await write(alice, bob))).toEqual({ text: 'hello', sender_key: 'pinned' })
  })
})
