import { describe, expect, it } from 'vitest'
import { fitNanoAssets, isAssets, type NanoAssets } from '../../shared/ledger/assets.ts'
import { isReadable } from '../../shared/ledger/entry.ts'
import { closesSeal, closingEntry, NO_MONEY } from '../../shared/ledger/solvency.ts'
import { assetsOf } from '../../shared/money/assets.ts'
import type { CoinRecord } from '../../shared/money/coin-store.ts'
import { isProofDue } from '../../shared/money/control-service.ts'

const LETTERS = '13456789abcdefghijkmnopqrstuwxyz'
const addressOf = (number: number): string =>
  `nano_3${[...number.toString(32).padStart(59, '0')].map((digit) => LETTERS[parseInt(digit, 32)]).join('')}`
const account = (number: number, balance: bigint, waiting: bigint[] = []): NanoAssets[number] => ({
  account: addressOf(number),
  frontier: 'AB'.repeat(32),
  balance: String(balance),
  receivable: waiting.map((amount, at) => ({
    hash: at.toString(16).toUpperCase().padStart(64, 'C'),
    amount: String(amount),
  })),
})

const record = (fields: Partial<CoinRecord>): CoinRecord => ({
  _id: 'xno',
  configured: true,
  reachable: true,
  alive_at: 0,
  required_confirmations: 1,
  treasury_address: 'there',
  ...fields,
})

describe('what a closing entry states of the coins that are held', () => {
  const nano = [account(1, 5n)]
  it.each<[string, CoinRecord | undefined, string | undefined]>([
    ['a coin that nobody has set up', undefined, 'not_in_use'],
    [
      'one that was switched off',
      record({ configured: false, assets: nano, assets_at: 1_000 }),
      'not_in_use',
    ],
    [
      'one whose node is away for long',
      record({ reachable: false, assets: nano, assets_at: 99 }),
      'unreachable',
    ],
    ['one without a wallet', { ...record({}), treasury_address: undefined } as never, 'manual'],
    ['one that was not read for long', record({ assets: nano, assets_at: 99 }), 'stale'],
    ['one that was never read', record({}), 'stale'],
    ['one that was read', record({ assets: nano, assets_at: 100 }), undefined],
  ])('says of %s why it states nothing', (_name, xno, reason) => {
    const stated = assetsOf({ xno, xmr: undefined }, undefined, 1_000)
    expect(stated).toEqual({
      xno: reason === undefined ? nano : null,
      xmr: null,
      at: { xno: xno?.assets_at ?? null, xmr: null },
      unread: { ...(reason === undefined ? {} : { xno: reason }), xmr: 'not_in_use' },
    })
    expect(isAssets(stated)).toBe(true)
  })

  it('names the newest proof of the wallet, and says if there is none', () => {
    const xmr = record({ _id: 'xmr', assets: { height: 9, balance: '7' }, assets_at: 1_000 })
    const of = (proof?: string) => assetsOf({ xno: undefined, xmr }, proof, 1_000)
    expect(of()).toMatchObject({
      xmr: { height: 9, balance: '7', proof_hash: null },
      unread: { xmr: 'no_proof' },
    })
    const proven = of('ReserveProofV2abc')
    expect(proven.xmr?.proof_hash).toMatch(/^[0-9a-f]{64}$/)
    expect(proven.unread).toEqual({ xno: 'not_in_use' })
    expect([of(), proven].map(isAssets)).toEqual([true, true])
  })

  it('fits into an entry, however many accounts there are and whatever waits at them', () => {
    const many = [
      account(
        0,
        1n,
        Array.from({ length: 3_000 }, (_, at) => BigInt(at)),
      ),
      ...Array.from({ length: 2_000 }, (_, at) => account(at + 1, BigInt(at), [10n ** 38n])),
    ]
    const { accounts, more } = fitNanoAssets(many)
    expect(accounts[0]?.account).toBe(addressOf(0))
    expect(accounts[0]?.receivable).toHaveLength(20)
    expect(accounts[0]?.receivable[0]?.amount).toBe('2999')
    expect(accounts[1]?.account).toBe(addressOf(2_000))
    expect(accounts.length + more).toBe(2_001)
    const assets = assetsOf({ xno: record({ assets: many, assets_at: 1 }), xmr: undefined }, undefined, 1)
    expect(assets.more).toBe(more)
    const state = {
      prevSeal: null,
      log: { size: 0, root: 'aa' },
      keys: { root: 'aa', count: 0, v: 2 } as const,
    }
    const closing = closingEntry(1, 1, { sums: NO_MONEY, assets }, state)
    const entry = { _id: 1, record: 'seal_1', ...closing }
    expect(isReadable(entry)).toBe(true)
    expect(closesSeal(entry, 1)).toBe(true)
    expect(fitNanoAssets([])).toEqual({ accounts: [], more: 0 })
    expect(fitNanoAssets([account(0, 0n), account(1, 0n)])).toEqual({ accounts: [account(0, 0n)], more: 0 })
  })
})

it('proofs of control are due daily and when the operator asks, and an hour after one that failed', () => {
  const DAY = 86_400
  expect(isProofDue({}, undefined, 100)).toBe(true)
  expect(isProofDue({}, 100, 100 + DAY - 1)).toBe(false)
  expect(isProofDue({}, 100, 100 + DAY)).toBe(true)
  expect(isProofDue({ prove_tried_at: 100 }, undefined, 3_699)).toBe(false)
  expect(isProofDue({ prove_tried_at: 100 }, undefined, 3_700)).toBe(true)
  expect(isProofDue({ prove_tried_at: 100, prove_asked_at: 90 }, 100, 101)).toBe(true)
})
