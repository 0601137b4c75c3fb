import { createHash, createPublicKey, verify } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  MAX_SIGNATURE_AGE_SECONDS,
  signPost,
  signingKeyOf,
  verifyPost,
} from '../../shared/crypto/message-signature.ts'

const SECRET = signingKeyOf(new Uint8Array(32).fill(7))
const KEY = SECRET.publicKey
const URL = 'https://bell.example/ring?x=1'
const BODY = '{"agent_id":"agt_1","kind":"wake","at":1700000000}'
const AT = 1_700_000_000
const signed = signPost({ url: URL, body: BODY, at: AT }, SECRET)
const holds = (
  changed: Partial<{ url: string; body: string; headers: Record<string, unknown> }>,
  keys = [KEY],
  now = AT,
) => verifyPost({ url: URL, body: BODY, headers: signed, ...changed }, keys, now)

describe('the signature of a post', () => {
  // holds: rules.doorbells.statements.each_post_is_signed_by_rfc
  it('is what RFC 9421 says, as OpenSSL verifies it from the text of the standard alone', () => {
    const digest = createHash('sha256').update(BODY).digest('base64')
    expect(signed['content-digest']).toBe(`sha-256=:${digest}:`)
    const [, parameters] = /^bell=(.*)$/.exec(signed['signature-input']) ?? []
    const base = [
      '"@method": POST',
      `"@target-uri": ${URL}`,
      `"content-digest": sha-256=:${digest}:`,
      `"@signature-params": ${parameters}`,
    ].join('\n')
    const spki = Buffer.from(`302a300506032b6570032100${KEY}`, 'hex')
    const key = createPublicKey({ key: spki, format: 'der', type: 'spki' })
    const [, signature = ''] = /^bell=:(.*):$/.exec(signed.signature) ?? []
    expect(verify(null, Buffer.from(base), key, Buffer.from(signature, 'base64'))).toBe(true)
  })

  it('holds for its URL, body, key and time, and for none other', () => {
    expect(holds({})).toBe(true)
    expect(holds({}, ['00'.repeat(32), KEY], AT + MAX_SIGNATURE_AGE_SECONDS)).toBe(true)
    expect(holds({ url: 'https://bell.example/other' })).toBe(false)
    expect(holds({ body: `${BODY} ` })).toBe(false)
    expect(holds({}, ['00'.repeat(32)])).toBe(false)
    expect(holds({}, [])).toBe(false)
    expect(holds({}, [KEY], AT + MAX_SIGNATURE_AGE_SECONDS + 1)).toBe(false)
    expect(holds({}, [KEY], AT - MAX_SIGNATURE_AGE_SECONDS - 1)).toBe(false)
  })

  it.each([
    ['no headers', {}],
    ['no signature', { signature: undefined }],
    ['fewer components', { 'signature-input': signed['signature-input'].replace('"@method" ', '') }],
    ['another tag', { 'signature-input': signed['signature-input'].replace('doorbell"', 'other"') }],
    ['no key id', { 'signature-input': signed['signature-input'].replace(/keyid="\w+";/, '') }],
    ['a later time', { 'signature-input': signed['signature-input'].replace(String(AT), String(AT + 1)) }],
    ['another algorithm', { 'signature-input': signed['signature-input'].replace('ed25519', 'hmac-sha256') }],
    ['two signatures', { signature: `${signed.signature}, ${signed.signature}` }],
    ['another digest', { 'content-digest': `sha-256=:${'A'.repeat(43)}=:` }],
    ['a list', { signature: [signed.signature, signed.signature] }],
  ])('does not hold with %s', (what, changed) => {
    expect(holds({ headers: what === 'no headers' ? {} : { ...signed, ...changed } })).toBe(false)
  })
})
