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
import { NANO_BURN_ADDRESS } from '../../shared/crypto/nano-address.ts'
import { coreHoursPerDay } from '../../shared/passes/solvers.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'

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

describe('a coin', () => {
  const base = readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/x', REDIS_URL: 'redis://127.0.0.1' }, 'workers')

  it('is set up once the service knows where its node or its wallet is', () => {
    const nano = { ...base, nano: { ...base.nano, rpcUrl: 'http://127.0.0.1:7076' } }
    const monero = { ...base, monero: { ...base.monero, walletRpcUrl: 'http://127.0.0.1:18083' } }
    const setUp = (config: typeof base) => COINS.filter((of) => COIN_FACTS[of].isSetUp(config))
    expect([setUp(base), setUp(nano), setUp(monero)]).toEqual([[], ['xno'], ['xmr']])
  })

  it('confirms a block of Nano or does not, and waits twice as long for a market order in Monero', () => {
    const { xno, xmr } = COIN_FACTS
    const order = { order_id: 'ord_1' }
    expect([xno.requiredConfirmations({}, 10), xno.requiredConfirmations(order, 10)]).toEqual([1, 1])
    expect([xmr.requiredConfirmations({}, 10), xmr.requiredConfirmations(order, 10)]).toEqual([10, 20])
  })

  it('takes the addresses of its main network that somebody has a key to', () => {
    const nano = 'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3'
    const { xno, xmr } = COIN_FACTS
    expect(xno.parseAddress(nano.replace('nano', 'xrb'))).toEqual({ address: nano, account: nano })
    for (const text of ['', nano.slice(0, -1), NANO_BURN_ADDRESS])
      expect([text, xno.parseAddress(text)]).toEqual([text, undefined])
    for (const text of ['', nano]) expect([text, xmr.parseAddress(text)]).toEqual([text, undefined])
  })

  it('shows in a Nano block whom it pays, and in Monero not', () => {
    const signed = JSON.stringify({
      link: 'D93B69AB3F5E0C0B912573F61E877DFE5A9A0D3127F4575F89DA402BAF5C89F7',
    })
    expect(COIN_FACTS.xno.payeeOf?.(signed)).toBe(
      'nano_3pbuf8omyqie3gakcwzp5t5quzktma8m4bzncxhrmpk17gqos4hq7qwweiz3',
    )
    expect(COIN_FACTS.xmr.payeeOf).toBeUndefined()
  })

  it('has queues that there are, of its own', () => {
    const queues = COINS.flatMap((of) => Object.values(COIN_FACTS[of].queues))
    expect(new Set(queues).size).toBe(8)
    expect(queues.filter((queue) => !QUEUE_NAMES.includes(queue))).toEqual([])
  })
})

describe('the work of a day', () => {
  it('takes a core as many hours as its speed says', () => {
    expect(coreHoursPerDay({ name: 'one', hashesPerSecond: 1_000 }, 7_200_000)).toBe(2)
  })
})
