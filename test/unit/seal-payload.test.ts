import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  sealPayload,
  sealPayloadHash,
  signSeal,
  verifySealFollows,
  verifySealSignature,
  type Seal,
  type SealFields,
} from '../../shared/crypto/seal-payload.ts'
import { buildChain, SEAL_KEY } from '../support/ledger-chain.ts'
import { VECTORS_DIR } from '../support/generate-vectors.ts'

const FIELDS: SealFields = {
  seq: 2,
  at: 1_790_000_600,
  count: 3,
  root: 'ab'.repeat(32),
  prev_root: 'cd'.repeat(32),
  from_id: 4,
  to_id: 6,
}
const PAYLOAD = `{"at":1790000600,"count":3,"from_id":4,"prev_root":"${'cd'.repeat(32)}","root":"${'ab'.repeat(32)}","seq":2,"to_id":6}`

/** The reasons that can be told from the seals alone, without the ledger, a pin or a memory. */
const REASONS_OF_SEALS = [
  'malformed_seal',
  'seq_gap',
  'range_gap',
  'wrong_count',
  'wrong_prev_root',
  'at_goes_back',
  'signed_before_made',
  'weak_key',
  'bad_signature',
]

function firstFault(seals: readonly Seal[]): string | null {
  let previous: Seal | null = null
  for (const seal of seals) {
    const link = verifySealFollows(previous, seal)
    if (!link.ok) return link.reason
    const signature = seal.signed ? verifySealSignature(seal) : link
    if (!signature.ok) return signature.reason
    previous = seal
  }
  return null
}

describe('a seal', () => {
  // holds: rules.ledger.statements.a_seal_signs_with_ed25519_the
  it('signs the canonical JSON of exactly seven fields', () => {
    expect(sealPayload(FIELDS)).toBe(PAYLOAD)
    expect(sealPayload({ ...FIELDS, signed: true, extra: 'ignored' } as SealFields)).toBe(PAYLOAD)
    expect(sealPayload({ ...FIELDS, prev_root: null })).toBe(PAYLOAD.replace(`"${'cd'.repeat(32)}"`, 'null'))
    expect(sealPayloadHash(FIELDS)).toBe(createHash('sha256').update(PAYLOAD, 'utf8').digest('hex'))
  })

  it.each([
    ['seq', '2'],
    ['at', 1.5],
    ['count', -1],
    ['from_id', undefined],
    ['to_id', 2 ** 53],
    ['root', 'AB'.repeat(32)],
    ['root', null],
    ['prev_root', undefined],
    ['prev_root', ''],
  ])('has no payload when %s is %j', (field, value) => {
    expect(() => sealPayload({ ...FIELDS, [field]: value })).toThrow(`"${field}" expected`)
  })

  // holds: contract.authentication.seals_are_signed_with_a_single
  // holds: rules.ledger.statements.a_seal_signs_with_ed25519_the
  it('verifies as it was signed and in no other way', () => {
    const signed = { ...FIELDS, ...signSeal(FIELDS, SEAL_KEY, FIELDS.at) }
    expect(verifySealSignature(signed)).toEqual({ ok: true })
    const changes: Partial<SealFields>[] = [
      { seq: 3 },
      { at: FIELDS.at - 1 },
      { count: 4 },
      { root: 'ee'.repeat(32) },
      { prev_root: null },
      { from_id: 5 },
      { to_id: 7 },
    ]
    for (const change of changes)
      expect(verifySealSignature({ ...signed, ...change })).toMatchObject({
        ok: false,
        reason: 'bad_signature',
      })
  })

  it("can't be signed before it was made", () => {
    expect(() => signSeal(FIELDS, SEAL_KEY, FIELDS.at - 1)).toThrow('"signedAt" expected a whole number')
  })

  it('follows the one before it along a whole chain', () => {
    expect(firstFault(buildChain([3, 1, 4, 1, 5]).seals)).toBe(null)
  })

  const vectors = ['valid', 'invalid'].flatMap((folder) =>
    readdirSync(`${VECTORS_DIR}/${folder}`)
      .filter((name) => name.startsWith('seal-'))
      .map((name) => ({
        name,
        ...(JSON.parse(readFileSync(`${VECTORS_DIR}/${folder}/${name}`, 'utf8')) as {
          seals: Seal[]
          reason?: string
        }),
      })),
  )
  // Two of them are told by fields that only the reader of a whole seal looks at: `signed` beside the
  // signature.
  const told = vectors.filter(
    ({ name, reason }) =>
      (reason === undefined || REASONS_OF_SEALS.includes(reason)) && name !== 'seal-signature-disowned.json',
  )

  it.each(told)('$name gives its verdict', ({ seals, reason }) => {
    expect(firstFault(seals)).toBe(reason ?? null)
  })
})
