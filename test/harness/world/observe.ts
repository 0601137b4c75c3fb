import { hash } from 'node:crypto'

/** What an answer says about an object of the service, such as `profile ag_…` and its name. */
export interface Observation {
  object: string
  value: string | number
}

interface Listing {
  agent_id: string
  banned: boolean
  hidden: boolean
  profile: { name: string | null }
}
interface ListedClaim {
  id: string
  standing: { true: number; false: number; void: number }
  hidden: boolean
}
interface ListedOrder {
  order_id: string
  status: string
}
interface ListedSeal {
  seq: number
  root: string
}

/**
 * Reads from a 2xx answer what it says about agents, claims, orders, seals and the log; an answer of another
 * route gives an empty list.
 *
 * @param path the path with its query, below `/api/v1` or, with two leading slashes, at the root
 * @param agent the name of the agent that asked, for what it is told of itself
 */
export function observe(
  method: string,
  path: string,
  agent: string,
  json: Record<string, unknown>,
): Observation[] {
  const resource = path.split('?', 1)[0] ?? ''
  if (method === 'GET' && resource.startsWith('/agent/')) return observeListing(json['agent'] as Listing)
  const observeAnswer = OBSERVERS[`${method} ${resource.replace(/^\/(claim|market\/order)\/.*/, '/$1/{id}')}`]
  return observeAnswer?.(json, agent) ?? []
}

const observeListing = ({ agent_id: id, banned, hidden, profile }: Listing): Observation[] => [
  { object: `ban ${id}`, value: String(banned) },
  ...(hidden ? [] : [{ object: `profile ${id}`, value: String(profile.name) }]),
]
const observeClaim = ({ id, standing, hidden }: ListedClaim): Observation[] =>
  hidden ? [] : [{ object: `verdicts ${id}`, value: `${standing.true} ${standing.false} ${standing.void}` }]
const observeOrder = ({ order_id: id, status }: ListedOrder): Observation[] => [
  { object: `order ${id}`, value: status },
]
const observePass = (json: Record<string, unknown>, agent: string): Observation[] => [
  { object: `pass ${agent}`, value: Date.parse(String(json['pass_until'] ?? '1970-01-01T00:00:00Z')) },
]

/** By method and path. */
const OBSERVERS: Record<string, (json: Record<string, unknown>, agent: string) => Observation[]> = {
  'GET /directory': (json) => (json['agents'] as Listing[]).flatMap(observeListing),
  'GET /claims': (json) => (json['claims'] as ListedClaim[]).flatMap(observeClaim),
  'GET /claim/{id}': (json) => observeClaim(json['claim'] as ListedClaim),
  'POST /claim/resolve': (json) => observeClaim(json['claim'] as ListedClaim),
  'GET /me': observePass,
  'POST /work/submit': observePass,
  'GET /market/orders': (json) => (json['orders'] as ListedOrder[]).flatMap(observeOrder),
  'GET /market/order/{id}': (json) => observeOrder(json as unknown as ListedOrder),
  'POST /market/deliver': (json) => observeOrder(json as unknown as ListedOrder),
  'POST /market/accept': (json) => observeOrder(json as unknown as ListedOrder),
  'POST /market/dispute': (json) => observeOrder(json as unknown as ListedOrder),
  'POST /market/refund-address': (json) => observeOrder(json as unknown as ListedOrder),
  'GET /events': (json, agent) => [{ object: `events ${agent}`, value: Number(json['next']) }],
  'GET //seal': (json) => {
    const seals = json['seals'] as ListedSeal[]
    return [
      ...seals.map(({ seq, root }) => ({ object: `seal ${seq}`, value: root })),
      { object: 'seals', value: seals.at(-1)?.seq ?? 0 },
      { object: 'log', value: Number(json['log_size'] ?? 0) },
    ]
  },
}

const OPEN_POSTS = ['/register', '/witness/cosign']
const GUARDED_READS = ['/me', '/dm', '/events', '/market/order', '/market/orders']

/** Whether a request is refused without a token. */
export function needsToken(method: string, path: string): boolean {
  const resource = path.split('?', 1)[0] ?? ''
  return method === 'POST'
    ? !OPEN_POSTS.includes(resource)
    : GUARDED_READS.some((guarded) => resource === guarded || resource.startsWith(`${guarded}/`))
}

/** A name for a token by which it cannot be used. */
export const nameToken = (token: string): string => hash('sha256', token, 'hex').slice(0, 12)
