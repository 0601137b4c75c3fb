import type { GetKeysAnswer } from '../../client/client.ts'
import { describe, expect, it } from 'vitest'
import { Refused } from '../../client/verify/findings.ts'
import { verifyKeyAnswer } from '../../client/verify/light.ts'
import { ed25519PublicKey, keyToHex } from '../../shared/crypto/ed25519.ts'
import { buildChain, makeEntry, OTHER_SEAL_KEY, SEAL_KEY } from '../support/ledger-chain.ts'
import { keyAnswerOf, noteOf } from '../support/log-proofs.ts'

const PUBKEY = keyToHex(ed25519PublicKey(SEAL_KEY))
const [first, second, swapped] = ['ab', 'cd', 'ee'].map((byte) => byte.repeat(32)) as [string, string, string]

/** Agents 0 to 9 set a key each, and agent 0 another one. */
const chain = (key = second) =>
  buildChain([12, 3], 0, {
    loggedFrom: 1,
    entry: (id) =>
      id <= 11
        ? {
            ...makeEntry(id, { agent_id: `agt_${id % 10}`, dm_key: id === 10 ? key : first }),
            kind: 'dm_key_change',
          }
        : undefined,
  })

const answerOf = (of = chain(), agentId = 'agt_0', checkpoint = noteOf(of)) =>
  keyAnswerOf(of, agentId, checkpoint)

const READER = { pubkeys: [PUBKEY], policy: undefined, seen: undefined, maxAge: undefined, now: 2 ** 40 }

describe('the proof of the keys of an agent', () => {
  it('leads from its keys, or from their absence, to a signed checkpoint', () => {
    expect(answerOf().keys).toMatchObject({ dm_key: second, version: 1, entry_id: 10 })
    expect(answerOf(chain(), 'agt_1').keys).toMatchObject({ version: 2, entry_id: 11 })
    for (const agentId of ['agt_0', 'agt_7', 'agt_nobody'])
      expect(verifyKeyAnswer(agentId, answerOf(chain(), agentId), READER)).toMatchObject({ size: 15 })
  })

  it('is refused for a swapped key, another agent, an older tree, and whatever no known key has signed', () => {
    const good = answerOf()
    const keys = { ...(good.keys as NonNullable<GetKeysAnswer['keys']>), dm_key: swapped }
    const older = { ...chain(), seals: chain().seals.slice(0, 1) }
    const wrong: [string, GetKeysAnswer][] = [
      ['a swapped key', { ...good, keys }],
      ['a swapped key with its leaf', { ...good, keys, proof: { ...good.proof, found: keys } }],
      ['no key', { ...good, keys: null }],
      ['another agent', answerOf(chain(), 'agt_1')],
      ['an older closing entry', { ...answerOf(older, 'agt_0', noteOf(chain())) }],
      ['another key of the log', answerOf(chain(), 'agt_0', noteOf(chain(), { key: OTHER_SEAL_KEY }))],
      ['an altered entry', { ...good, entry: { ...good.entry, at: good.entry.at + 1 } }],
      ['another history', { ...good, tlog_proof: answerOf(chain(swapped)).tlog_proof }],
      ['no closing entry', { ...good, entry: makeEntry(15) }],
      ['no proof', { ...good, tlog_proof: '' }],
    ]
    for (const [name, answer] of wrong)
      expect(() => verifyKeyAnswer('agt_0', answer, READER), name).toThrow(Refused)
  })
})
