import fc from 'fast-check'
import { readdirSync, readFileSync } from 'node:fs'
import { tools } from 'nanocurrency-web'
import { describe, expect, it } from 'vitest'
import { encodeNanoAddress, NANO_BURN_ADDRESS, parseNanoAddress } from '../../shared/crypto/nano-address.ts'

type Vector = { address: string; valid: boolean; public_key?: string; normalised?: string }

function readVectors(kind: 'valid' | 'invalid'): { name: string; vector: Vector }[] {
  const folder = new URL(`../vectors/${kind}/`, import.meta.url)
  return readdirSync(folder)
    .filter((file) => file.startsWith('nano-address-'))
    .map((file) => ({
      name: file.replace('.json', ''),
      vector: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Vector,
    }))
}

describe('vectors', () => {
  it('are there in both kinds', () => {
    expect(readVectors('valid').length).toBeGreaterThanOrEqual(6)
    expect(readVectors('invalid').length).toBeGreaterThanOrEqual(20)
    expect([...readVectors('valid')].every(({ vector }) => vector.valid)).toBe(true)
    expect([...readVectors('invalid')].some(({ vector }) => vector.valid)).toBe(false)
  })

  it.each([...readVectors('valid'), ...readVectors('invalid')])(
    '$name is judged as it says',
    ({ vector }) => {
      const expected = vector.valid ? { address: vector.normalised, publicKey: vector.public_key } : undefined
      expect(parseNanoAddress(vector.address)).toEqual(expected)
    },
  )
})

const publicKeys = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex').toUpperCase())

it('writes every key as another library does, and reads it back', () => {
  fc.assert(
    fc.property(publicKeys, (publicKey) => {
      const address = encodeNanoAddress(publicKey)
      expect(address).toBe(tools.publicKeyToAddress(publicKey))
      expect(parseNanoAddress(address)).toEqual({ address, publicKey })
    }),
  )
})

it('notices any one digit that is another', () => {
  const digits = '13456789abcdefghijkmnopqrstuwxyz'
  fc.assert(
    fc.property(
      publicKeys,
      fc.integer({ min: 5, max: 64 }),
      fc.integer({ min: 1, max: 31 }),
      (publicKey, position, shift) => {
        const address = encodeNanoAddress(publicKey)
        const other = digits.charAt((digits.indexOf(address.charAt(position)) + shift) % 32)
        expect(
          parseNanoAddress(address.slice(0, position) + other + address.slice(position + 1)),
        ).toBeUndefined()
      },
    ),
  )
})

it('knows the burn account by its key of zeros', () => {
  expect(parseNanoAddress(NANO_BURN_ADDRESS)?.publicKey).toBe('0'.repeat(64))
})

it('refuses to write what is no key', () => {
  for (const key of ['', 'AB', 'ab'.repeat(32), 'G'.repeat(64)])
    expect(() => encodeNanoAddress(key)).toThrow('expected 64 upper-case hex')
})
