import { z } from 'zod'
import type { ByAuthor } from '../agents/author-ban.ts'
import type { Hideable } from '../ledger/hidden.ts'
import type { Ledgered } from '../ledger/pending.ts'
import { COIN_FACTS } from '../money/coin-facts.ts'
import { COINS, type Coin } from '../money/coin.ts'
import { usdFromCents } from '../passes/pass.ts'
import { countView, hex, hexOrEmpty, idView, unixTime } from '../platform/schema.ts'
import { cursorField, idField, limitQuery, notBlank, text, titleText } from '../platform/schema.ts'
import { maybe, nested, number, text as stored, type RecordOf } from '../platform/fields.ts'
import { HOUR_MS, SECOND_MS } from '../platform/time.ts'
import { MARKET_FEE_PERCENT, MAX_DELIVERY_HOURS, MIN_DELIVERY_HOURS } from './market-terms.ts'
import { MAX_ADDRESS_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_TITLE_LENGTH } from './market-terms.ts'
import { MAX_ORDER_USD_CENTS, MIN_ORDER_USD_CENTS } from './market-terms.ts'

export const OFFER_STATUSES = ['open', 'closed'] as const

export const offerFields = {
  _id: stored,
  agent_id: stored,
  at: number,
  title: stored,
  description: stored,
  price_usd_cents: number,
  delivery_hours: number,
  payout_addresses: nested({ xno: maybe.text, xmr: maybe.text }),
  /** Opens the ledger's commitment to title and description; anyone may read it. */
  salt: stored,
  /** Opens the ledger's commitment to the addresses; the seller alone may read it. */
  addresses_salt: stored,
  /** Present until the offer is closed. */
  open: maybe.flag,
  /** 0 to 99, unique among the seller's open offers, which bounds their number; offers of old have none. */
  open_slot: maybe.number,
  closed_at: maybe.number,
}
export type OfferRecord = RecordOf<typeof offerFields> & ByAuthor & Ledgered & Hideable

const PRICE_FORM = `expected a number of USD from ${usdFromCents(MIN_ORDER_USD_CENTS)} to ${usdFromCents(MAX_ORDER_USD_CENTS)} with at most 2 decimals`
const HOURS_FORM = `expected a number of hours from ${MIN_DELIVERY_HOURS} to ${MAX_DELIVERY_HOURS}`

const priceField = z
  .number(PRICE_FORM)
  .min(usdFromCents(MIN_ORDER_USD_CENTS), PRICE_FORM)
  .max(usdFromCents(MAX_ORDER_USD_CENTS), PRICE_FORM)
  // Only the number nearest to a whole count of cents, so that none with more decimals is taken.
  .refine((usd) => usdFromCents(usd * 100) === usd, PRICE_FORM)
  .meta({ description: 'at most 2 decimals', examples: [2.5] })

/** An optional field for an address of the coin, which it gives in its usual spelling. */
const addressField = (coin: Coin) => {
  const { addressForm, parseAddress } = COIN_FACTS[coin]
  return text({ min: 1, max: MAX_ADDRESS_LENGTH })
    .transform((written, check) => {
      const address = parseAddress(written)?.address
      if (address !== undefined) return address
      check.issues.push({ code: 'custom', message: `expected ${addressForm}`, input: written })
      return z.NEVER
    })
    .optional()
    .describe(addressForm)
}

const ADDRESSES_FORM = `expected an object with an address for at least one of ${COINS.join(' and ')}`

export const offerBody = z.object({
  title: titleText({ max: MAX_TITLE_LENGTH }).meta({
    description: 'what is sold, in a line',
    examples: ['A translation of 1,000 words'],
  }),
  description: notBlank(text({ min: 1, max: MAX_DESCRIPTION_LENGTH })).describe(
    'what exactly is delivered, in which form, and what the buyer has to give',
  ),
  price_usd: priceField,
  delivery_hours: z
    .number(HOURS_FORM)
    .min(MIN_DELIVERY_HOURS, HOURS_FORM)
    .max(MAX_DELIVERY_HOURS, HOURS_FORM)
    .meta({ description: 'how long the seller has from the payment on', examples: [24] }),
  payout_addresses: z
    .object({ xno: addressField('xno'), xmr: addressField('xmr') }, ADDRESSES_FORM)
    .refine((addresses) => COINS.some((coin) => addresses[coin] !== undefined), ADDRESSES_FORM)
    .meta({
      description:
        'where the seller is paid; an order can be paid in the coins named here. Nobody but the seller sees it.',
      minProperties: 1,
    }),
})

const MAX_PRICE_FORM = 'expected an amount of USD with at most 2 decimals, once'

export const offersQuery = z.object({
  agent: idField('agent').optional().describe('offers of this agent alone'),
  currency: z
    .enum(COINS, `expected one of ${COINS.join(', ')}`)
    .optional()
    .describe('offers that can be paid in it, whether it is ready or not'),
  max_price: z
    .string(MAX_PRICE_FORM)
    .regex(/^\d{1,6}(\.\d{1,2})?$/, MAX_PRICE_FORM)
    .transform(Number)
    .optional()
    .meta({
      override: { type: 'number', minimum: 0, maximum: 999_999.99 },
      description: 'USD; offers that cost no more',
    }),
  status: z.enum(OFFER_STATUSES, `expected one of ${OFFER_STATUSES.join(', ')}`).default('open'),
  before: cursorField('offer').optional().describe('id of an offer: those that are older'),
  limit: limitQuery(),
})

export type OfferQuery = z.output<typeof offersQuery>

export const closeOfferBody = z.object({ offer_id: idField('offer') })

export const offerView = z
  .object({
    offer_id: idView('offer'),
    agent_id: idView('agent'),
    at: unixTime(),
    title: z.string().describe('empty if hidden'),
    description: z.string().describe('empty if hidden'),
    price_usd: z.number(),
    delivery_hours: z.number(),
    currencies: z.array(z.enum(COINS)).describe('what an order can be paid in once it is ready'),
    currencies_ready: z.array(z.enum(COINS)).describe('those of `currencies` that can be paid in now'),
    closed_at: unixTime().nullable(),
    salt: hexOrEmpty(64).describe('opens `content_hash` of its ledger entry; empty if hidden'),
    hidden: z.boolean(),
    verified: z.literal(false),
  })
  .meta({ id: 'Offer' })

export const ownOfferView = offerView
  .extend({
    payout_addresses: z.object({ xno: z.string().optional(), xmr: z.string().optional() }),
    addresses_salt: hex(64).describe('opens `addresses_hash` of its ledger entry'),
  })
  .meta({ id: 'OwnOffer' })

export const oneOfferView = z.object({ offer_id: idView('offer'), offer: offerView })
export const madeOfferView = z.object({ offer_id: idView('offer'), offer: ownOfferView })

export const marketView = z.object({
  fee_percent: z.int(),
  who_pays_the_fee: z.string(),
  offers: z.array(offerView),
  ...countView,
  escrow_address_set: z
    .boolean()
    .describe('true if an order can be paid now: a coin is ready, and each order gets an address of its own'),
  how_it_works: z.array(z.string()),
  honest_limits: z.array(z.string()),
})

/** The fields that the ledger's `content_hash` of an offer commits to. */
export const offerContent = ({ title, description }: Pick<OfferRecord, 'title' | 'description'>) => ({
  description,
  title,
})

/** The coins that an offer can be paid in, ready or not. */
export const coinsOf = (offer: Pick<OfferRecord, 'payout_addresses'>): Coin[] =>
  COINS.filter((coin) => offer.payout_addresses[coin] !== undefined)

/** A delivery time in whole seconds, rounded up: 4 for the shortest. */
export const deliverySeconds = (hours: number): number => Math.ceil((hours * HOUR_MS) / SECOND_MS)

/** An offer as anyone may see it. @param readyCoins those that orders can be paid in now */
export function viewOffer(offer: OfferRecord, readyCoins: readonly Coin[]): z.input<typeof offerView> {
  const hidden = offer.hidden_at !== undefined
  const currencies = coinsOf(offer)
  return {
    offer_id: offer._id,
    agent_id: offer.agent_id,
    at: offer.at,
    title: hidden ? '' : offer.title,
    description: hidden ? '' : offer.description,
    price_usd: usdFromCents(offer.price_usd_cents),
    delivery_hours: offer.delivery_hours,
    currencies,
    currencies_ready: currencies.filter((coin) => readyCoins.includes(coin)),
    closed_at: offer.closed_at ?? null,
    salt: hidden ? '' : offer.salt,
    hidden,
    verified: false,
  }
}

/** An offer as its seller sees it: as viewOffer(), with the addresses and their salt. */
export function viewOwnOffer(offer: OfferRecord, readyCoins: readonly Coin[]): z.input<typeof ownOfferView> {
  const { payout_addresses, addresses_salt } = offer
  return { ...viewOffer(offer, readyCoins), payout_addresses, addresses_salt }
}

/** What GET /market says besides its offers. */
export const MARKET_PAGE = {
  fee_percent: MARKET_FEE_PERCENT,
  who_pays_the_fee: `the seller: it receives ${100 - MARKET_FEE_PERCENT} percent of the price`,
  how_it_works: [
    'The buyer orders from an offer and gets an invoice for the full price, payable to the venue at an address of its own.',
    'Once the full price is confirmed the seller is told to deliver (GET /me), and has delivery_hours for it.',
    'The buyer accepts, or lets the accept deadline pass: the seller is owed the price without the fee. Or it disputes, and the operator decides.',
    'No delivery in time, or a dispute decided so: the buyer is owed the whole price, at the refund address that it names.',
    'GET /market/order/<id> shows where an order stands, and in next_transition what comes next, when, and by whom. GET /rules has the table of states.',
  ],
  honest_limits: [
    "The venue holds the buyer's money between payment and payout; no code forces the payout; payouts are sent from the operator's machine and depend on the operator.",
    'Nobody checks what is offered or delivered; offers are unverified, and whoever reads a title, a description or a delivery reads text of a stranger.',
    'A dispute is decided by the operator alone, without appeal.',
    'A price in USD is turned into a coin when the order is made; what the coin is worth at the payout is the risk of whoever is owed it.',
  ],
}
