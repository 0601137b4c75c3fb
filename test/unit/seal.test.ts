import { describe, expect, it } from 'vitest'
import { SEAL_ALGO } from '../../shared/crypto/seal-payload.ts'
import {
  closingSource,
  SealError,
  sealFields,
  sealSignature,
  sealView,
  viewSeal,
  type SealRecord,
} from '../../shared/ledger/seal.ts'

const fields = { at: 600, count: 4, root: 'aa'.repeat(32), prev_root: null, from_id: 1, to_id: 4 }
const unsigned: SealRecord = { _id: 1, ...fields, signed: false }
const signature = { signature: 'c2ln', pubkey: 'bb'.repeat(32), algo: SEAL_ALGO, signed_at: 601 } as const
const signed: SealRecord = {
  ...unsigned,
  ...signature,
  signed: true,
  origin: 'example.org',
  log_root: 'cc',
  note: 'x',
}

describe('a seal', () => {
  it('is signed over its number, time, range, count and roots, and nothing else', () => {
    expect(sealFields(signed)).toEqual({ seq: 1, ...fields })
  })

  it('is shown with its signature, or with nulls in its place', () => {
    expect(viewSeal(signed)).toEqual({ seq: 1, ...fields, ...signature, signed: true })
    expect(viewSeal(unsigned)).toEqual({
      seq: 1,
      ...fields,
      signature: null,
      pubkey: null,
      algo: null,
      signed_at: null,
      signed: false,
    })
    for (const seal of [signed, unsigned]) sealView.strict().parse(viewSeal({ ...seal, _id: 2, from_id: 2 }))
  })

  it('that says it is signed and lacks a part of the signature is refused', () => {
    for (const name of ['signature', 'pubkey', 'algo', 'signed_at'] as const) {
      const { [name]: _, ...rest } = signed
      expect(() => sealSignature(rest)).toThrow(SealError)
      expect(() => viewSeal(rest)).toThrow(/seal 1 /)
    }
    expect(new SealError('x').name).toBe('SealError')
  })

  it('is closed by an entry whose source names it', () => {
    expect(closingSource(12)).toBe('seal_12/solvency')
  })
})
