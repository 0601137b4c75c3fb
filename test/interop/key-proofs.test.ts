import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createClient } from '../../client/client.ts'
import { judgeKey } from '../../client/own-ledger.ts'
import { check } from '../../client/verify/main.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import {
  buildChain,
  makeEntry,
  SEAL_KEY,
  serveChain,
  type LedgerChain,
  type LedgerServer,
} from '../support/ledger-chain.ts'
import { cosign, POLICY } from '../support/log-policies.ts'
import { consistencyOf, keyAnswerOf, noteOf } from '../support/log-proofs.ts'

/* What a reader takes of an agent's keys from a service that shows it older ones, true as they were. */

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const [leaked, current] = ['1', '2'].map((digit) => digit.repeat(64)) as [string, string]

/** Bob sets a key by entry 2, which leaks, and another one by entry 10. */
const CHAIN = buildChain([4, 4, 5, 6, 5], 0, {
  loggedFrom: 1,
  entry: (id) =>
    id === 2 || id === 10
      ? {
          ...makeEntry(id, { agent_id: 'agt_bob', dm_key: id === 2 ? leaked : current }),
          kind: 'dm_key_change',
        }
      : undefined,
})
const upTo = (seals: number): LedgerChain => ({ ...CHAIN, seals: CHAIN.seals.slice(0, seals) })

describe('the keys of an agent', () => {
  let folder: string
  let server: LedgerServer
  beforeAll(async () => {
    server = await serveChain(CHAIN)
    server.consistency = consistencyOf
  })
  afterAll(() => server.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'key-proofs-'))
    return () => rmSync(folder, { recursive: true })
  })
  const stateFile = () => join(folder, 'state.json')
  /** What the service shows from now on. */
  const show = (chain: LedgerChain, note = noteOf(chain)) =>
    Object.assign(server, { chain, note, keys: (agentId: string) => keyAnswerOf(chain, agentId, note) })
  const walk = async (...args: string[]) =>
    (
      await check([
        server.url,
        ...['--state', stateFile(), '--max-age', String(2 ** 40), '--pubkey', PUBKEY, ...args],
      ])
    ).exitCode
  const judge = (key: string, trust = {}) =>
    judgeKey(createClient({ baseUrl: server.url }), 'agt_bob', key, {
      stateFile: stateFile(),
      pubkeys: [PUBKEY],
      ...trust,
    })

  it('are not proven by a log that is shorter than the one that was seen', async () => {
    show(CHAIN)
    expect(await walk()).toBe(0)
    expect(await judge(current)).toEqual({ version: 2 })
    show(upTo(2))
    expect(await judge(leaked)).toEqual({ doubt: expect.stringContaining('was seen here') as string })
    // The same for whoever has seen it by a checkpoint alone: the log of a receipt, or one in a box.
    show(upTo(3))
    expect(await judge(leaked)).toEqual({ doubt: expect.stringContaining('was seen here') as string })
  })

  it('are proven to a newcomer by a log of any age, unless it names one', async () => {
    show(upTo(2))
    expect(await judge(leaked)).toEqual({ version: 1 })
    expect(await judge(leaked, { maxAgeSeconds: 3_600 })).toEqual({
      doubt: expect.stringContaining('3600 s are allowed') as string,
    })
  })

  it("are as new as the newest cosignature of the reader's own witnesses, not as the service says", async () => {
    const policyFile = join(folder, 'policy.txt')
    writeFileSync(policyFile, POLICY)
    const now = Math.floor(Date.now() / 1000)
    const fresh = buildChain([4, 4], 0, {
      at: now - 1_200,
      loggedFrom: 1,
      entry: (id) => CHAIN.entries[id - 1],
    })
    const cosigned = (chain: LedgerChain, at: number) => {
      const note = noteOf(chain)
      const text = note.slice(0, note.indexOf('\n\n') + 1)
      return note + ['X1', 'X2', 'Y1'].map((name) => `${cosign(text, name, at)}\n`).join('')
    }
    const trust = { policyFile, maxAgeSeconds: 3_600 }
    show(fresh, cosigned(fresh, now - 7_200))
    expect(await judge(leaked, trust)).toEqual({
      doubt: expect.stringContaining('3600 s are allowed') as string,
    })
    show(upTo(2), cosigned(upTo(2), now - 60))
    expect(await judge(leaked, trust)).toEqual({ version: 1 })
    // A cosignature from the future is nobody's word.
    show(upTo(2), cosigned(upTo(2), now + 86_400))
    expect(await judge(leaked, trust)).toEqual({
      doubt: expect.stringContaining('quorum_not_met') as string,
    })
  })
})
