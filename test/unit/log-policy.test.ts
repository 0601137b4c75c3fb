import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { findCosigners } from '../../client/verify/light.ts'
import { formatLogPolicy, meetsQuorum, parseLogPolicy } from '../../shared/crypto/log-policy.ts'
import { formatCheckpoint, formatNote, formatVkey, parseNote, signNote } from '../../shared/crypto/note.ts'
import { cosign, LOG_VKEY, POLICY, WRONG_POLICIES } from '../support/log-policies.ts'
import { SEAL_KEY } from '../support/ledger-chain.ts'
import { ORIGIN } from '../support/log-proofs.ts'

const text = formatCheckpoint({ origin: ORIGIN, size: 7, root: randomBytes(32) })
const noteOf = (names: readonly string[], signer: Uint8Array = SEAL_KEY) =>
  parseNote(
    formatNote(text, [
      signNote(text, ORIGIN, signer),
      ...names.map((name, at) => cosign(text, name, 100 + at)),
    ]),
  )

describe('a policy of witnesses', () => {
  it('is met by the witnesses that it names, in the number that it asks for', () => {
    const policy = parseLogPolicy(POLICY)
    const met = (...names: string[]) =>
      meetsQuorum(policy, new Set(findCosigners(policy, noteOf(names)).keys()))
    expect(met('X1', 'X3', 'Y2')).toBe(true)
    expect(met('X1', 'X2', 'X3')).toBe(false)
    expect(met('X1', 'Y1', 'Y2', 'Y3')).toBe(false)
    expect(met('X1', 'X1', 'Y1')).toBe(false)
    expect(met()).toBe(false)
    expect(findCosigners(policy, noteOf(['X1', 'Y1', 'Y1']))).toEqual(
      new Map([
        ['X1', 100],
        ['Y1', 102],
      ]),
    )
  })

  it('may ask for nobody', () => {
    expect(meetsQuorum(parseLogPolicy(`log ${LOG_VKEY}\nquorum none\n`), new Set())).toBe(true)
  })

  it('as the service writes it names its log, its witnesses, and how many of them have to cosign', () => {
    const { witnesses } = parseLogPolicy(POLICY)
    const named = witnesses.flatMap(({ key }) =>
      key.type === 'unknown' ? [] : [{ vkey: formatVkey(key), url: 'https://witness.example' }],
    )
    for (const quorum of [0, 1, named.length]) {
      const policy = parseLogPolicy(
        formatLogPolicy({ vkey: LOG_VKEY, url: 'https://a.example' }, named, quorum),
      )
      expect(policy.witnesses.map(({ key }) => key)).toEqual(witnesses.map(({ key }) => key))
      const cosigners = policy.witnesses.map(({ name }) => name)
      for (let count = 0; count <= cosigners.length; count++)
        expect(meetsQuorum(policy, new Set(cosigners.slice(0, count)))).toBe(count >= quorum)
    }
  })

  it.each(WRONG_POLICIES)('refuses what is no policy, and says which line: %j', (policy, reason) => {
    expect(() => parseLogPolicy(policy)).toThrow(reason)
  })
})
