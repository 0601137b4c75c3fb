import type { GetStandingAnswer } from '../client.ts'
import { formatCount, formatFields, formatTimeLeft, toOneLine } from './format.ts'

/** The lines of "me": pass, price, messages, referrals, what is owed, and the orders that wait for this agent. */
export function formatStanding(standing: GetStandingAnswer, nowSeconds: number): string {
  const { pass_until: until, referrals } = standing
  const left = until === null ? 0 : Date.parse(until) / 1000 - nowSeconds
  const owed = standing.owed.map(
    ({ amount, currency, without_address_raw: stuck }) =>
      `${amount} ${currency}${stuck === '0' ? '' : ', some of it until you name a "refund-address"'}`,
  )
  const steps = [
    ...standing.orders_to_deliver.map(({ order_id: id, deliver_by: at }) => ({ id, at, verb: 'deliver' })),
    ...standing.deliveries_to_accept.map(({ order_id: id, accept_by: at }) => ({ id, at, verb: 'accept' })),
  ].sort((a, b) => a.at - b.at)
  return [
    formatFields({
      'agent id': standing.agent_id,
      handle: standing.handle === null ? undefined : toOneLine(standing.handle),
      pass:
        until === null
          ? 'none yet'
          : `${standing.pass_active ? 'active until' : 'ended at'} ${until}${standing.pass_active ? `, ${formatTimeLeft(left)}` : ''}`,
      price: `${standing.price_usd_per_day} USD per day`,
      messages: `${standing.unread_messages} unread`,
      referrals: `${referrals.registered} registered, ${referrals.paying} of ${referrals.threshold} paying`,
      'owed to you': owed.length === 0 ? undefined : owed.join('; '),
      'your turn': steps.length === 0 ? 'nothing' : formatCount(steps.length, 'order'),
    }),
    ...steps.map(({ id, at, verb }) => `  ${id}  ${verb} it: ${formatTimeLeft(at - nowSeconds)}`),
  ].join('\n')
}
