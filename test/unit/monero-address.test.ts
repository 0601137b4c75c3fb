import fc from 'fast-check'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseMoneroAddress } from '../../shared/money/coins/monero/monero-address.ts'
import { FULL } from '../support/full.ts'

type Vector = { address: string; valid: boolean; network?: string; kind?: string }

/** The valid ones were made by monero-wallet-rpc 0.18, which refuses each of the invalid ones. */
function readVectors(kind: 'valid' | 'invalid'): { name: string; vector: Vector }[] {
  const folder = new URL(`../vectors/${kind}/`, import.meta.url)
  return readdirSync(folder)
    .filter((file) => file.startsWith('monero-address-'))
    .map((file) => ({
      name: file.replace('.json', ''),
      vector: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Vector,
    }))
}

const [valid, invalid] = [readVectors('valid'), readVectors('invalid')]

describe('vectors', () => {
  it('are there: every kind on every network, and what is none', () => {
    const kinds = valid.map(({ vector }) => `${vector.network} ${vector.kind}`)
    expect(new Set(kinds).size).toBe(9)
    expect(invalid.length).toBeGreaterThanOrEqual(25)
    expect([...valid, ...invalid].filter(({ vector }) => vector.valid)).toEqual(valid)
  })

  it.each([...valid, ...invalid])(
    '$name is judged as it says',
    ({ vector: { address, valid: isValid, network, kind } }) => {
      const { keys, ...parsed } = parseMoneroAddress(address) ?? {}
      expect([parsed, keys?.length]).toEqual(isValid ? [{ address, network, kind }, 128] : [{}, undefined])
    },
  )
})

it('notices any one digit that is another', () => {
  const digits = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
  const addresses = fc.constantFrom(...valid.map(({ vector }) => vector.address))
  fc.assert(
    fc.property(addresses, fc.nat(), fc.integer({ min: 1, max: 57 }), (address, place, shift) => {
      const position = place % address.length
      const other = digits.charAt((digits.indexOf(address.charAt(position)) + shift) % 58)
      expect(
        parseMoneroAddress(address.slice(0, position) + other + address.slice(position + 1)),
      ).toBeUndefined()
    }),
  )
})

it('takes any text without an error', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.string({ unit: 'binary', maxLength: 120 })),
      (text) => parseMoneroAddress(text) === undefined,
    ),
    { numRuns: FULL ? 100 : 20 },
  )
})
