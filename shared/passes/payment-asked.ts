import { z } from 'zod'
import { API_BASE, PRICE_USD_CENTS_PER_DAY } from '../platform/limits.ts'
import { Refusal, type PaymentAsked } from '../platform/errors.ts'
import { CURRENCIES } from './currencies.ts'
import { usdFromCents } from './pass.ts'

/** What a 402 asks for, as its answer says it. */
export const paymentAskedView = z
  .object({
    buys: z.string().describe('`pass_days`'),
    price_usd_per_day: z.number().describe('the base price'),
    price_path: z.string().describe('the path that tells your own price, and which currencies are ready'),
    calls: z.array(
      z.object({
        currency: z.string(),
        method: z.string(),
        path: z.string(),
        body: z.object({ currency: z.string(), days: z.int() }),
      }),
    ),
  })
  .meta({ id: 'PaymentAsked', description: 'the calls of which any one buys what is missing' })

const PASS_ASKED: PaymentAsked = {
  buys: 'pass_days',
  price_usd_per_day: usdFromCents(PRICE_USD_CENTS_PER_DAY),
  price_path: `${API_BASE}/currencies`,
  calls: CURRENCIES.map((currency) => ({
    currency,
    method: 'POST',
    path: `${API_BASE}/invoice`,
    body: { currency, days: 1 },
  })),
}

/** Names the calls that buy a pass and tell prices, which differ by agent, coin and time. */
const MESSAGE = `This route needs an active pass. POST ${API_BASE}/invoice {"currency": "pow", "days": 1} buys a day with work, {"currency": "xno"} or {"currency": "xmr"} with a coin; a day costs ${PASS_ASKED.price_usd_per_day.toFixed(2)} USD unless GET ${PASS_ASKED.price_path} says less; in the free period it says 0, and any of them is credited at once.`

/** Returns the refusal of a call that needs a pass, with the calls that buy one. */
export const passRequired = (): Refusal => new Refusal('pass_required', MESSAGE, { pay: PASS_ASKED })
