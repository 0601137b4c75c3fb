import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  COINS,
  COIN_UNITS,
  dustThreshold,
  formatAmount,
  formatPrice,
  parseAmount,
  priceInCoin,
} from '../../shared/money/coin.ts'
import { COIN_FACTS } from '../../shared/money/coin-facts.ts'

const coin = () => fc.constantFrom(...COINS)
const raw = () => fc.bigInt({ min: 0n, max: 2n ** 130n })

describe('the text of an amount', () => {
  it('is exact both ways, whatever the amount', () => {
    fc.assert(
      fc.property(coin(), raw(), fc.nat({ max: 12 }), (of, amount, minDecimals) => {
        const text = formatAmount(amount, of, minDecimals)
        expect(text).toMatch(/^(0|[1-9]\d*)(\.\d+)?$/)
        if (text.split('.')[0]!.length <= 20) expect(parseAmount(text, of)).toBe(amount)
        expect((text.split('.')[1] ?? '').length).toBeGreaterThanOrEqual(minDecimals)
      }),
    )
  })

  it('has no zeros at its end but those that are always shown', () => {
    expect(formatAmount(10n ** 30n, 'xno')).toBe('1')
    expect(formatAmount(10n ** 29n, 'xno')).toBe('0.1')
    expect(formatAmount(1n, 'xno')).toBe(`0.${'0'.repeat(29)}1`)
    expect(formatAmount(0n, 'xmr')).toBe('0')
    expect(formatPrice(10n ** 30n, 'xno')).toBe('1.000000')
    expect(formatPrice(5n * 10n ** 11n, 'xmr')).toBe('0.50000000')
    expect(formatAmount(2n ** 128n, 'xno')).toBe('340282366.920938463463374607431768211456')
  })

  it('is refused where it is no decimal number of the coin, or has no end', () => {
    for (const text of [
      '',
      ' 1',
      '1 ',
      '+1',
      '-1',
      '.5',
      '1.',
      '1e3',
      '1,5',
      '0x1',
      '١',
      '1.0.0',
      'NaN',
      '9'.repeat(21),
      `0.${'1'.repeat(31)}`,
    ])
      expect(() => parseAmount(text, 'xno'), text).toThrow(TypeError)
    expect(() => parseAmount(`0.${'0'.repeat(12)}1`, 'xmr')).toThrow(/12 decimals/)
    expect(parseAmount('007.50', 'xmr')).toBe(7_500_000_000_000n)
    expect(() => formatAmount(-1n, 'xno')).toThrow(TypeError)
  })
})

describe('a price in a coin', () => {
  const cents = () => fc.integer({ min: 1, max: 500_000 })
  const rate = () =>
    fc
      .tuple(fc.integer({ min: 0, max: 999_999 }), fc.integer({ min: 0, max: 999_999_999_999 }))
      .filter(([whole, part]) => whole + part > 0)
      .map(([whole, part]) => `${whole}.${String(part).padStart(12, '0')}`)

  it('is the least number of shown decimals that is worth the dollars', () => {
    fc.assert(
      fc.property(coin(), cents(), rate(), (of, usdCents, rateUsd) => {
        const price = priceInCoin(usdCents, rateUsd, of)
        const step = dustThreshold(of)
        const one = 10n ** BigInt(COIN_UNITS[of].decimals)
        const rate12 = BigInt(rateUsd.replace('.', ''))
        /** Cents times one coin times 10^12. */
        const worth = (amount: bigint) => amount * rate12 * 100n
        expect(price % step).toBe(0n)
        expect(worth(price)).toBeGreaterThanOrEqual(BigInt(usdCents) * one * 10n ** 12n)
        expect(worth(price - step)).toBeLessThan(BigInt(usdCents) * one * 10n ** 12n)
        expect(parseAmount(formatPrice(price, of), of)).toBe(price)
      }),
    )
  })

  it('is what a reader would work out', () => {
    expect(formatPrice(priceInCoin(100, '0.95', 'xno'), 'xno')).toBe('1.052632')
    expect(formatPrice(priceInCoin(100, '1', 'xno'), 'xno')).toBe('1.000000')
    expect(formatPrice(priceInCoin(15, '300', 'xmr'), 'xmr')).toBe('0.00050000')
    expect(formatPrice(priceInCoin(100, '163.27', 'xmr'), 'xmr')).toBe('0.00612483')
  })

  it('is refused for no dollars, for parts of a cent and for a rate that is none', () => {
    for (const usdCents of [0, -1, 0.5, NaN, Infinity])
      expect(() => priceInCoin(usdCents, '1', 'xno')).toThrow(TypeError)
    for (const rateUsd of ['0', '0.000', '', '1e5', '-1', `1.${'1'.repeat(13)}`])
      expect(() => priceInCoin(100, rateUsd, 'xno')).toThrow(TypeError)
  })
})

describe('a payment URI', () => {
  it('says the amount as the coin does: raw for Nano, coins for Monero', () => {
    expect(COIN_FACTS.xno.paymentUri('nano_1abc', 1_052_632n * 10n ** 24n)).toBe(
      'nano:nano_1abc?amount=1052632000000000000000000000000',
    )
    expect(COIN_FACTS.xmr.paymentUri('8abc', 6_124_830_000n)).toBe('monero:8abc?tx_amount=0.00612483')
  })
})
