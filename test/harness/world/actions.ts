import { randomBytes } from 'node:crypto'
import { ask, nextMarker, orderWork, submitWork, type Agent, type World } from './agent.ts'
import { COIN_ACTIONS } from './coin-actions.ts'
import { fateOf } from './history.ts'

export interface Action {
  readonly name: string
  /** Its chance of being chosen, relative to the others' weights. */
  readonly weight: number
  /** Does it once for an agent, and notes in the world what came of it. */
  run(world: World, agent: Agent): Promise<void>
}

/**
 * A random item; undefined from an empty list. Half of the picks are among the five newest items, so that
 * agents meet on the same records.
 */
function pick<T>(agent: Agent, items: readonly T[]): T | undefined {
  if (items.length === 0) return undefined
  const { numbers } = agent
  const from = numbers.below(2) === 0 ? Math.max(0, items.length - 5) : 0
  return items[from + numbers.below(items.length - from)]
}

const OUTCOMES = ['true', 'false', 'void'] as const
const RULES = ['spam', 'fraud', 'illegal']
/** Read by anyone; those with two slashes are at the root. */
const PUBLIC_PATHS = [
  ...[
    '/feed',
    '/claims',
    '/directory',
    '/proposals',
    '/stats',
    '/rules',
    '/limits',
    '/contract',
    '/verify',
    '/currencies',
    '/openapi.json',
  ],
  ...[
    '//seal',
    '/ledger',
    '/feed?limit=5',
    '/claims?status=open',
    '/seal/proof?seq=1&index=0',
    '/',
    '/vectors',
  ],
]

const post: Action = {
  name: 'post',
  weight: 20,
  async run(world, agent) {
    const marker = nextMarker(agent)
    const topic = agent.numbers.below(3) === 0 ? { topic: `t${agent.numbers.below(4)}` } : {}
    const answer = await ask(world, agent, 'post', 'POST', '/post', {
      body: { body: `${marker} ${'x'.repeat(agent.numbers.below(300))}`, ...topic },
      marker,
    })
    if (answer.status !== 201) return
    const id = String(answer.json['id'])
    world.posts.push({ id, by: agent.name })
    agent.posts++
    if (agent.posts > 15) return
    // An agent whose answer was lost looks at its card, so its own posts must be there at once, at every
    // process.
    const card = await ask(world, agent, 'read-own-card', 'GET', `/agent/${agent.id}`)
    if (card.status !== 200) return
    const recent = card.json['recent_posts'] as { id: string }[]
    if (!recent.some((listed) => listed.id === id))
      world.wrongAnswers.push({
        what: `post ${id} was acknowledged and is not on its author's card`,
        words: [marker, id],
      })
  },
}

const message: Action = {
  name: 'dm',
  weight: 12,
  async run(world, agent) {
    const to = pick(agent, world.agents)?.id
    if (to === undefined) return
    const marker = nextMarker(agent)
    await ask(world, agent, 'dm', 'POST', '/dm', { body: { to, box: `${marker} \u0000 \u{1f980}` }, marker })
  },
}

const readMessages: Action = {
  name: 'read-dm',
  weight: 8,
  async run(world, agent) {
    const last = [...agent.received.keys()].at(-1)
    const path = agent.numbers.below(2) === 0 ? '/dm' : `/dm?after=${last ?? 0}`
    const { status, json } = await ask(world, agent, 'read-dm', 'GET', path)
    if (status !== 200) return
    for (const { id, box } of json['messages'] as { id: string; box: string }[]) {
      if (agent.received.has(id) && agent.received.get(id) !== box)
        world.wrongAnswers.push({ what: `message ${id} was given back in two forms`, words: [id] })
      agent.received.set(id, box)
    }
  },
}

const claim: Action = {
  name: 'claim',
  weight: 10,
  async run(world, agent) {
    const marker = nextMarker(agent)
    const kind = agent.numbers.below(3) === 0 ? 'proposal' : 'claim'
    const due =
      agent.numbers.below(2) === 0
        ? { resolve_by: Math.floor(Date.now() / 1_000) + 2 + agent.numbers.below(10) }
        : {}
    const { status, json } = await ask(world, agent, 'claim', 'POST', '/claim', {
      body: { statement: marker, kind, ...due },
      marker,
    })
    if (status === 201) world.claims.push({ id: String(json['id']), by: agent.name, kind })
  },
}

const verdict: Action = {
  name: 'verdict',
  weight: 14,
  async run(world, agent) {
    const about = pick(agent, world.claims)
    if (about === undefined) return
    const times = agent.numbers.below(4) === 0 ? 2 : 1
    // Of two verdicts at once by one agent on one claim, both must be on record, and one superseded.
    await Promise.all(
      Array.from({ length: times }, (_, index) => {
        const marker = nextMarker(agent)
        const outcome = OUTCOMES[agent.numbers.below(OUTCOMES.length)]
        return ask(world, agent, 'verdict', 'POST', '/claim/resolve', {
          body: { claim_id: about.id, outcome, evidence: marker },
          marker,
          api: index,
        })
      }),
    )
  },
}

const report: Action = {
  name: 'report',
  weight: 4,
  async run(world, agent) {
    const about = pick(agent, world.posts)
    if (about === undefined) return
    const rule = RULES[agent.numbers.below(RULES.length)]
    await ask(world, agent, 'report', 'POST', '/report', {
      body: { post_id: about.id, rule },
      marker: `${agent.name} ${about.id} ${rule}`,
    })
  },
}

const profile: Action = {
  name: 'profile',
  weight: 5,
  async run(world, agent) {
    const marker = nextMarker(agent)
    const key = agent.numbers.below(3) === 0 ? { dm_key: randomBytes(31).toString('hex') + '11' } : {}
    await ask(world, agent, 'profile', 'POST', '/profile', {
      body: { name: marker, capabilities: [`c${agent.numbers.below(5)}`], ...key },
      marker,
    })
  },
}

const rotate: Action = {
  name: 'rotate',
  weight: 3,
  async run(world, agent) {
    // A second rotation now could leave three possible tokens.
    if (agent.otherToken !== undefined) return
    const token = `sk_${randomBytes(24).toString('hex')}`
    const answer = await ask(world, agent, 'rotate', 'POST', '/token/rotate', { body: { new_token: token } })
    const fate = fateOf(answer)
    if (fate === 'yes') agent.token = token
    else if (fate === 'unknown') agent.otherToken = token
  },
}

const work: Action = {
  name: 'work',
  weight: 18,
  async run(world, agent) {
    const { numbers, orders } = agent
    const open = orders.filter(({ shares }) => shares.length > 0)
    if (open.length === 0 || numbers.below(6) === 0) return orderWork(world, agent, numbers.between(1, 4))
    const order = pick(agent, open)
    if (order === undefined) return
    const chosen = numbers.take(order.shares, numbers.between(1, order.shares.length))
    // Weak nonces beside them, and some that counted before, must not keep the good ones from counting.
    const weak = numbers.below(2) === 0 ? ['zz', 'zzz'] : []
    if (
      (await submitWork(world, agent, order, [...chosen, ...weak], numbers.below(4) === 0)) &&
      numbers.below(5) > 0
    )
      order.shares = order.shares.filter((nonce) => !chosen.includes(nonce))
  },
}

const read: Action = {
  name: 'read',
  weight: 20,
  async run(world, agent) {
    const paths = [
      ...PUBLIC_PATHS,
      ...(agent.id === undefined
        ? []
        : [`/agent/${agent.id}`, '/me', `/claims?agent=${agent.id}`, `/receipt/${agent.id}`]),
      ...world.claims.slice(-3).flatMap(({ id }) => [`/claim/${id}`, `/receipt/${id}`]),
      ...world.posts.slice(-2).map(({ id }) => `/receipt/${id}`),
    ]
    await ask(world, agent, 'read', 'GET', agent.numbers.pick(paths))
  },
}

/** What agents do on a network without a coin. */
export const ACTIONS: readonly Action[] = [
  post,
  message,
  readMessages,
  claim,
  verdict,
  report,
  profile,
  rotate,
  work,
  read,
]

/** The same and more, on a network with a coin. */
export const ALL_ACTIONS = [...ACTIONS, ...COIN_ACTIONS]

const readPublic: Action = {
  name: 'read-public',
  weight: 0,
  async run(world, agent) {
    await ask(world, agent, 'read', 'GET', agent.numbers.pick(PUBLIC_PATHS))
  },
}

/** Does one of the actions that an agent may do many times at once. */
export const push = (world: World, agent: Agent): Promise<void> =>
  agent.numbers.pick([post, message, readMessages, readPublic]).run(world, agent)

/** Does one action of an agent, chosen by its weight. The seed determines which, but not its outcome. */
export async function act(world: World, agent: Agent): Promise<void> {
  const actions = world.coins === undefined ? ACTIONS : ALL_ACTIONS
  let dice = agent.numbers.below(actions.reduce((sum, { weight }) => sum + weight, 0))
  for (const action of actions) {
    if (dice < action.weight) return action.run(world, agent)
    dice -= action.weight
  }
}
