import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  coinsOf,
  deliverySeconds,
  MARKET_PAGE,
  marketView,
  offerBody,
  offerContent,
  offersQuery,
  offerView,
  ownOfferView,
  viewOffer,
  viewOwnOffer,
  type OfferRecord,
} from '../../shared/market/offer.ts'
import { COIN_FACTS } from '../../shared/money/coin-facts.ts'

const addressOf = (name: string): string => {
  const file = new URL(`../vectors/valid/${name}.json`, import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { address: string }).address
}
const NANO = addressOf('nano-address-of-a-seed')
const NANO_IN_THE_OLD_SPELLING = addressOf('nano-address-in-the-old-spelling')
const MONERO = addressOf('monero-address-mainnet-standard')

const BODY = {
  title: 'A translation of 1,000 words',
  description: 'From English into Esperanto, as plain text.',
  price_usd: 10,
  delivery_hours: 24,
  payout_addresses: { xno: NANO },
}
const takes = (fields: object): boolean => offerBody.safeParse({ ...BODY, ...fields }).success

describe('what an offer may say', () => {
  // holds: limits.market_order, rules.market.max_order_usd, rules.market.min_order_usd
  it('is a price from 1 to 5,000 USD in whole cents', () => {
    for (const price_usd of [1, 1.01, 2.3, 19.99, 4999.99, 5000])
      expect([price_usd, takes({ price_usd })]).toEqual([price_usd, true])
    for (const price_usd of [0.99, 5000.01, 1.001, 2.005, 1e6, 0, -1, '10', null, NaN, Infinity])
      expect([price_usd, takes({ price_usd })]).toEqual([price_usd, false])
  })

  it('is a time from 0.001 to 720 hours, parts of an hour too', () => {
    for (const delivery_hours of [0.001, 0.5, 24, 720])
      expect([delivery_hours, takes({ delivery_hours })]).toEqual([delivery_hours, true])
    for (const delivery_hours of [0, 0.0009, 720.1, -1, '24', null])
      expect([delivery_hours, takes({ delivery_hours })]).toEqual([delivery_hours, false])
    expect([0.001, 0.5, 24, 720].map(deliverySeconds)).toEqual([4, 1_800, 86_400, 2_592_000])
  })

  it('is a title in one line of up to 120 characters, and a description of up to 4,000', () => {
    expect(takes({ title: 'x'.repeat(120), description: 'x'.repeat(4_000) })).toBe(true)
    for (const fields of [
      { title: '' },
      { title: ' ' },
      { title: 'a\nb' },
      { title: 'x'.repeat(121) },
      { description: '' },
      { description: ' \n' },
      { description: 'x'.repeat(4_001) },
    ])
      expect([fields, takes(fields)]).toEqual([fields, false])
  })

  it('is an address of the main network for at least one coin, which is kept in its usual spelling', () => {
    const parsed = (payout_addresses: object) =>
      offerBody.safeParse({ ...BODY, payout_addresses }).data?.payout_addresses
    expect(parsed({ xno: NANO })).toEqual({ xno: NANO })
    expect(parsed({ xmr: MONERO })).toEqual({ xmr: MONERO })
    expect(parsed({ xno: NANO_IN_THE_OLD_SPELLING, xmr: MONERO })).toEqual({ xno: NANO, xmr: MONERO })
    for (const addresses of [
      {},
      { xno: '' },
      { xno: MONERO },
      { xmr: NANO },
      { xno: `${NANO.slice(0, -1)}1` },
      { xmr: addressOf('monero-address-stagenet-standard') },
      { xno: NANO, xmr: 'x' },
      { xmr: `${MONERO}${' '.repeat(110)}` },
    ])
      expect([addresses, parsed(addresses)]).toEqual([addresses, undefined])
    expect(offerBody.safeParse({ ...BODY, payout_addresses: undefined }).success).toBe(false)
  })

  it('names what is expected of an address that is none', () => {
    const { error } = offerBody.safeParse({ ...BODY, payout_addresses: { xno: 'x' } })
    expect(error?.issues.map(({ path, message }) => [path, message])).toEqual([
      [['payout_addresses', 'xno'], `expected ${COIN_FACTS.xno.addressForm}`],
    ])
  })
})

describe('a search for offers', () => {
  it('asks for open ones unless it says otherwise', () => {
    expect(offersQuery.parse({})).toEqual({ status: 'open', limit: expect.any(Number) as number })
    expect(offersQuery.parse({ status: 'closed' }).status).toBe('closed')
    expect(offersQuery.safeParse({ status: 'hidden' }).success).toBe(false)
  })

  it('may bound the price, name a coin, an agent and the offer to go on from', () => {
    const query = { agent: 'agt_1', currency: 'xmr', before: 'ofr_1' }
    expect(offersQuery.parse({ ...query, max_price: '999999.99' })).toMatchObject({
      ...query,
      max_price: 999_999.99,
    })
    expect(['0', '7', '2.5', '2.50'].map((max_price) => offersQuery.parse({ max_price }).max_price)).toEqual([
      0, 7, 2.5, 2.5,
    ])
    for (const max_price of ['', '-1', '1.', '.5', '1.234', '1e3', '1000000', ' 1', '1x', ['1', '2']])
      expect([max_price, offersQuery.safeParse({ max_price }).success]).toEqual([max_price, false])
    expect(offersQuery.safeParse({ currency: 'btc' }).success).toBe(false)
    expect(offersQuery.safeParse({ before: 'ord_1' }).success).toBe(false)
  })
})

const offer: OfferRecord = {
  _id: 'ofr_1',
  agent_id: 'agt_1',
  at: 100,
  title: 'a title',
  description: 'a description',
  price_usd_cents: 1_999,
  delivery_hours: 24,
  payout_addresses: { xno: NANO, xmr: MONERO },
  salt: 'aa'.repeat(32),
  addresses_salt: 'bb'.repeat(32),
  open: true,
}
const SHOWN = {
  offer_id: 'ofr_1',
  agent_id: 'agt_1',
  at: 100,
  title: 'a title',
  description: 'a description',
  price_usd: 19.99,
  delivery_hours: 24,
  currencies: ['xno', 'xmr'],
  currencies_ready: ['xmr'],
  closed_at: null,
  salt: 'aa'.repeat(32),
  hidden: false,
  verified: false,
}

describe('an offer', () => {
  it('is shown to anyone without its addresses, and never as verified', () => {
    expect(viewOffer(offer, ['xmr'])).toEqual(SHOWN)
    expect(viewOffer({ ...offer, closed_at: 200 }, ['xmr']).closed_at).toBe(200)
    expect(coinsOf({ payout_addresses: { xmr: MONERO } })).toEqual(['xmr'])
  })

  it('that is hidden keeps its words and what opens them to itself', () => {
    expect(viewOffer({ ...offer, hidden_at: 150 }, [])).toEqual({
      ...SHOWN,
      title: '',
      description: '',
      salt: '',
      hidden: true,
      currencies_ready: [],
    })
  })

  it('is shown to its seller with the addresses and what opens their commitment', () => {
    expect(viewOwnOffer(offer, ['xmr'])).toEqual({
      ...SHOWN,
      payout_addresses: { xno: NANO, xmr: MONERO },
      addresses_salt: 'bb'.repeat(32),
    })
  })

  it('is committed to by its words alone', () => {
    expect(offerContent(offer)).toEqual({ title: 'a title', description: 'a description' })
  })

  it('has the fields that the API says it has, in each of its views', () => {
    offerView.strict().parse(viewOffer(offer, []))
    offerView.strict().parse(viewOffer({ ...offer, hidden_at: 150, closed_at: 200 }, []))
    ownOfferView.strict().parse(viewOwnOffer(offer, ['xno']))
    marketView.strict().parse({ ...MARKET_PAGE, offers: [SHOWN], count: 1, escrow_address_set: true })
  })
})
