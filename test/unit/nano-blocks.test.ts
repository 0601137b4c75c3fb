import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ed25519 } from '@noble/curves/ed25519.js'
import { encodeNanoAddress } from '../../shared/crypto/nano-address.ts'
import type { NanoBlock } from '../../shared/money/coins/nano/nano-blocks.ts'
import {
  buildReceive,
  buildSend,
  hashNanoBlock,
  isEpochBlock,
  isSignedByAccount,
  LIVE_WORK_THRESHOLDS,
  MAX_RAW,
  workRootOf,
  workValue,
  ZERO_HASH,
} from '../../shared/money/coins/nano/nano-blocks.ts'
import { createNanoKeys } from '../../shared/money/coins/nano/nano-keys.ts'
import { buildChange } from '../support/nano-change.ts'

interface Recorded {
  readonly hash: string
  readonly subtype: string
  readonly block: NanoBlock
}

type Answer = {
  hash?: string
  subtype?: string
  contents?: NanoBlock | string
  blocks?: Record<string, Answer> | ''
}

/** State blocks that a real node answered about, by hash. */
function readRecordedBlocks(): Recorded[] {
  const text = readFileSync(new URL('../vectors/nano/rpc-transcript.jsonl', import.meta.url), 'utf8')
  const found = new Map<string, Recorded>()
  for (const line of text.trim().split('\n')) {
    const { request, response } = JSON.parse(line) as { request: string; response: string }
    if (!response.includes('"contents": {')) continue
    const answer = JSON.parse(response) as Answer
    const single = (JSON.parse(request) as { hash?: string }).hash
    const blocks =
      single === undefined
        ? Object.entries(answer.blocks === '' ? {} : (answer.blocks ?? {}))
        : [[single, answer] as const]
    for (const [hash, { subtype = '', contents }] of blocks) {
      if (typeof contents === 'object' && contents.type === 'state')
        found.set(hash.toUpperCase(), { hash: hash.toUpperCase(), subtype, block: contents })
    }
  }
  return [...found.values()]
}

const recorded = readRecordedBlocks()
const account = encodeNanoAddress('D93B69AB3F5E0C0B912573F61E877DFE5A9A0D3127F4575F89DA402BAF5C89F7')
const other = encodeNanoAddress('B0311EA55708D6A53C75CDBF88300259C6D018522FE3D4D0A242E431F9E8B6D0')
const frontier = 'AB'.repeat(32)
const opened = { account, frontier, balanceRaw: 10n, representative: other }
const unopened = { account, frontier: undefined, balanceRaw: 0n, representative: other }

describe('blocks recorded from a real node', () => {
  it('are there, of every kind', () => {
    expect(new Set(recorded.map(({ subtype }) => subtype))).toEqual(
      new Set(['send', 'receive', 'change', 'epoch']),
    )
    expect(recorded.length).toBeGreaterThanOrEqual(10)
  })

  it.each(recorded)(
    '$subtype $hash has the hash and the signature that are computed here',
    ({ hash, block }) => {
      expect(hashNanoBlock(block)).toBe(hash)
      // On this network one key signs for the epochs and for its own account.
      expect(isSignedByAccount(block)).toBe(true)
      expect(workValue(workRootOf(block), block.work)).toBeGreaterThanOrEqual(0xf000000000000000n) // the dev network's, of a receive
    },
  )

  it.each(recorded)('$subtype $hash is no longer signed once any of its fields is another', ({ block }) => {
    for (const change of [
      { account: other },
      { previous: frontier },
      { representative: account },
      { balance: '7' },
      { link: frontier },
    ]) {
      const altered = { ...block, ...change }
      if (hashNanoBlock(altered) !== hashNanoBlock(block)) expect(isSignedByAccount(altered)).toBe(false)
    }
    const lastDigit = block.signature.endsWith('0') ? '1' : '0'
    expect(isSignedByAccount({ ...block, signature: block.signature.slice(0, -1) + lastDigit })).toBe(false)
  })

  it('give work the value that the node gave it', () => {
    const root = '04270D7F11C4B2B472F2854C5A59F2A7E84226CE9ED799DE75744BD7D85FC9D9'
    expect(workValue(root, '701fa17dff61b26e')).toBe(0xffc5d108ea0b3e1cn)
    expect(workValue(root, '0000000000000000')).toBe(0x5b554d0a0266df05n)
  })
})

describe('a signature', () => {
  const keys = createNanoKeys('AB'.repeat(32))
  const unsigned = buildChange({ ...opened, account: keys.deriveAccount(0).address }, other)
  const { signature } = keys.signBlock(0, unsigned)
  /** Its second half is a number of 32 bytes, little endian. */
  const shift = (by: bigint): string => {
    const scalar = BigInt(`0x${Buffer.from(signature.slice(64), 'hex').reverse().toString('hex')}`) + by
    return (
      signature.slice(0, 64) +
      Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex').reverse().toString('hex').toUpperCase()
    )
  }
  const order = ed25519.Point.Fn.ORDER

  it('is 128 upper-case hex characters, and no other text is looked at', () => {
    expect(isSignedByAccount({ ...unsigned, signature })).toBe(true)
    for (const text of ['', signature.toLowerCase(), signature.slice(2), `${signature}00`, `00${signature}`])
      expect(() => isSignedByAccount({ ...unsigned, signature: text })).toThrow('"block.signature" expected')
  })

  it('whose S is not reduced holds, as the nodes have it, below 2^253 and for its block alone', () => {
    expect(isSignedByAccount({ ...unsigned, signature: shift(0n) })).toBe(true)
    expect(isSignedByAccount({ ...unsigned, signature: shift(order) })).toBe(true)
    expect(isSignedByAccount({ ...unsigned, signature: shift(order + 1n) })).toBe(false)
    expect(isSignedByAccount({ ...unsigned, balance: '11', signature: shift(order) })).toBe(false)
    for (const times of [2n, 4n, 8n, 15n])
      expect(isSignedByAccount({ ...unsigned, signature: shift(times * order) })).toBe(false)
  })
})

describe('a signature of an account whose key is of small order', () => {
  const { Point } = ed25519
  const hexOf = (value: bigint): string =>
    Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse().toString('hex').toUpperCase()

  it('holds if the nodes take it, though nobody has made it with a key', () => {
    // The key 01 00 … 00 is the neutral element: R = S·B holds for every block.
    const small = encodeNanoAddress(`01${'0'.repeat(62)}`)
    const s = 12_345n
    const signature = Point.BASE.multiply(s).toHex().toUpperCase() + hexOf(s)
    const block = buildSend({ ...opened, account: small }, { destination: other, amountRaw: 5n })
    expect(isSignedByAccount({ ...block, signature })).toBe(true)
    expect(isSignedByAccount({ ...block, signature: signature.replace(/..$/, '01') })).toBe(false)
    // S from 2^253 on.
    expect(isSignedByAccount({ ...block, signature: signature.replace(/..$/, '20') })).toBe(false)
    // A key that is no point of the curve.
    const none = encodeNanoAddress(`02${'0'.repeat(62)}`)
    expect(
      isSignedByAccount({
        ...buildSend({ ...opened, account: none }, { destination: other, amountRaw: 5n }),
        signature,
      }),
    ).toBe(false)
  })

  it('does not hold with a cofactor alone', () => {
    // R is off by a point of order 2, so that only 8·R = 8·(S·B - h·A).
    const small = encodeNanoAddress(`01${'0'.repeat(62)}`)
    const ofOrderTwo = Point.fromHex(`ec${'f'.repeat(60)}7f`)
    const signature = Point.BASE.multiply(7n).add(ofOrderTwo).toHex().toUpperCase() + hexOf(7n)
    expect(
      isSignedByAccount({
        ...buildSend({ ...opened, account: small }, { destination: other, amountRaw: 5n }),
        signature,
      }),
    ).toBe(false)
  })
})

describe('a receive', () => {
  it('adds exactly what was sent, and names the send', () => {
    expect(buildReceive(opened, { hash: 'CD'.repeat(32), amountRaw: 5n })).toEqual({
      type: 'state',
      account,
      previous: frontier,
      representative: other,
      balance: '15',
      link: 'CD'.repeat(32),
    })
  })

  it('opens an account that has no block, and is worked for by its key', () => {
    const block = buildReceive(unopened, { hash: 'CD'.repeat(32), amountRaw: 5n })
    expect(block).toMatchObject({ previous: ZERO_HASH, balance: '5' })
    expect(workRootOf(block)).toBe('D93B69AB3F5E0C0B912573F61E877DFE5A9A0D3127F4575F89DA402BAF5C89F7')
  })

  it('is refused for nothing, for more than there is, for no send, and for a balance from nowhere', () => {
    expect(() => buildReceive(opened, { hash: 'CD'.repeat(32), amountRaw: 0n })).toThrow('more than 0 raw')
    expect(() => buildReceive(opened, { hash: 'CD'.repeat(32), amountRaw: -1n })).toThrow('0 to 2^128 - 1')
    expect(() => buildReceive(opened, { hash: 'CD'.repeat(32), amountRaw: MAX_RAW })).toThrow(
      '"balanceRaw" expected 0 to 2^128 - 1',
    )
    expect(() => buildReceive(opened, { hash: ZERO_HASH, amountRaw: 1n })).toThrow('got 64 zeros')
    expect(() => buildReceive(opened, { hash: 'cd'.repeat(32), amountRaw: 1n })).toThrow('64 upper-case hex')
    expect(() =>
      buildReceive({ ...unopened, balanceRaw: 1n }, { hash: 'CD'.repeat(32), amountRaw: 1n }),
    ).toThrow('without blocks')
  })
})

describe('a send', () => {
  it('leaves the balance less the amount, and names the destination by its key', () => {
    expect(buildSend(opened, { destination: other, amountRaw: 4n })).toMatchObject({
      previous: frontier,
      balance: '6',
      link: 'B0311EA55708D6A53C75CDBF88300259C6D018522FE3D4D0A242E431F9E8B6D0',
    })
    expect(buildSend(opened, { destination: other, amountRaw: 10n }).balance).toBe('0')
  })

  it('is refused above the balance, for nothing, to no address and from an account without blocks', () => {
    expect(() => buildSend(opened, { destination: other, amountRaw: 11n })).toThrow(
      'expected at most 10 raw, got 11',
    )
    expect(() => buildSend(opened, { destination: other, amountRaw: 0n })).toThrow('more than 0 raw')
    expect(() => buildSend(opened, { destination: `${other.slice(0, -1)}1`, amountRaw: 1n })).toThrow(
      '"payment.destination" expected a nano_',
    )
    expect(() => buildSend(opened, { destination: other.replace('nano_', 'xrb_'), amountRaw: 1n })).toThrow(
      'expected a nano_ address',
    )
    expect(() => buildSend(unopened, { destination: other, amountRaw: 1n })).toThrow('has no block yet')
    expect(() =>
      buildSend({ ...opened, balanceRaw: MAX_RAW + 1n }, { destination: other, amountRaw: 1n }),
    ).toThrow('2^128 - 1')
    expect(() =>
      buildSend({ ...opened, representative: 'nano_' }, { destination: other, amountRaw: 1n }),
    ).toThrow('"state.representative"')
    expect(() => buildSend({ ...opened, frontier: 'AB' }, { destination: other, amountRaw: 1n })).toThrow(
      '"state.frontier"',
    )
  })
})

it('changes the representative and moves nothing', () => {})

it('keeps every amount from 0 to 2^128 - 1 exact', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 1n, max: MAX_RAW }),
      fc.bigInt({ min: 0n, max: MAX_RAW }),
      (amountRaw, restRaw) => {
        const isPossible = amountRaw + restRaw <= MAX_RAW
        const receive = (): unknown =>
          buildReceive({ ...opened, balanceRaw: restRaw }, { hash: frontier, amountRaw }).balance
        if (!isPossible) {
          expect(receive).toThrow('2^128 - 1')
          return
        }
        expect(receive()).toBe(String(restRaw + amountRaw))
        expect(
          buildSend({ ...opened, balanceRaw: restRaw + amountRaw }, { destination: other, amountRaw })
            .balance,
        ).toBe(String(restRaw))
      },
    ),
  )
})

it('hashes a balance only as the one decimal text that it has', () => {
  const block = buildChange(opened, account)
  for (const balance of ['010', '+10', '10.0', '1e1', '0xA', '', '-1', `${MAX_RAW + 1n}`]) {
    expect(() => hashNanoBlock({ ...block, balance })).toThrow('"block.balance" expected')
  }
  expect(hashNanoBlock({ ...block, balance: MAX_RAW.toString() })).toMatch(/^[0-9A-F]{64}$/)
})

it('tells epoch blocks by their links', () => {
  expect(isEpochBlock({ link: '65706F636820763220626C6F636B000000000000000000000000000000000000' })).toBe(
    true,
  )
  expect(isEpochBlock({ link: ZERO_HASH })).toBe(false)
})

it('checks work as text: 16 lower-case hex characters over a root of 64 upper-case', () => {
  expect(() => workValue(frontier, 'ABCDEF0123456789')).toThrow('"work" expected 16 lower-case')
  for (const work of ['ab', '0123456789abcdef0', '00123456789abcdef', ' 0123456789abcdef'])
    expect(() => workValue(frontier, work)).toThrow('"work" expected 16 lower-case')
  for (const root of ['AB', `${frontier}AB`, `\n${frontier}`])
    expect(() => workValue(root, '0000000000000000')).toThrow('"root" expected 64 upper-case')
  expect(LIVE_WORK_THRESHOLDS.send).toBeGreaterThan(LIVE_WORK_THRESHOLDS.receive)
})
