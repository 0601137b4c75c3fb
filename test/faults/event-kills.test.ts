import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import {
  ask,
  newAgent,
  newWorld,
  nextMarker,
  orderWork,
  register,
  registerWithPass,
  submitWork,
  type Agent,
  type World,
} from '../harness/world/agent.ts'
import { createClient } from '../harness/world/client.ts'
import { checkEvents } from '../harness/auditor/events.ts'
import { followEvents, readAllEvents } from '../harness/world/events.ts'
import { startHistory } from '../harness/world/history.ts'
import { numbersFor } from '../harness/world/numbers.ts'
import { drawFault } from '../harness/faults/plan.ts'
import { FAULTS } from '../harness/faults/table.ts'
import { startTestbed, type Testbed } from '../harness/testbed/testbed.ts'
import { readStored } from '../harness/auditor/stored.ts'
import { MINUTE_MS } from '../../shared/platform/time.ts'
import { QUEUES_TOGETHER } from '../../shared/platform/queue-table.ts'

const KILLS = Number(process.env['EVENT_KILLS'] ?? 100)
const SEED = Number(process.env['TORTURE_SEED'] ?? Math.floor(Date.now() / 86_400_000))
const KINDS = ['kill-api', 'kill-worker', 'redis-kill', 'mongo-kill-primary'] as const
const READERS = 8
const FOLLOWERS_EACH = 3
const WRITERS = 6
/** Writes that are acknowledged between one kill and the next. */
const WRITES_BETWEEN = 4
/** What the second API's machine believes of the time. */
const CLOCK_AHEAD_MS = MINUTE_MS
const LIMIT = { limitMs: 2 * MINUTE_MS, everyMs: 50 }

let stack: Testbed
let world: World
const readers: Agent[] = []

beforeAll(async () => {
  stack = await startTestbed({
    members: 3,
    each: 2,
    groups: { all: QUEUES_TOGETHER },
    report: () => undefined,
  })
  stack.apis[1]?.shiftClock(CLOCK_AHEAD_MS)
  const history = startHistory()
  world = newWorld({ client: createClient(stack.urls, history), history, apis: 2 })
  for (let nth = 0; nth < READERS; nth++) {
    const reader = newAgent(`r${nth}`, numbersFor(SEED, `reader/${nth}`))
    await registerWithPass(world, reader, undefined, 1)
    const { json } = await ask(world, reader, 'claim', 'POST', '/claim', { body: { statement: reader.name } })
    world.claims.push({ id: String(json['id']), by: reader.name, kind: 'claim' })
    readers.push(reader)
  }
}, 5 * MINUTE_MS)
afterAll(() => stack?.stop(), MINUTE_MS)

/** Messages, verdicts, and agents that were referred and then pay, which a worker writes. */
async function write(writer: Agent, nth: number): Promise<boolean> {
  const { numbers } = writer
  const reader = numbers.pick(readers)
  if (nth % 8 === 0) {
    const friend = newAgent(`${writer.name}f${nth}`, numbersFor(SEED, `${writer.name}/${nth}`))
    await register(world, friend, reader.id, numbers.below(1_000))
    if (friend.id === undefined) return false
    await orderWork(world, friend, 1)
    for (const order of friend.orders) await submitWork(world, friend, order, order.shares, true)
    return true
  }
  const [path, body] =
    nth % 8 === 1
      ? [
          '/claim/resolve',
          { claim_id: numbers.pick(world.claims).id, outcome: numbers.pick(['true', 'false']) },
        ]
      : ['/dm', { to: reader.id, box: nextMarker(writer) }]
  const { status = 0 } = await ask(world, writer, path.slice(1), 'POST', path, { body })
  return status < 300
}

describe('events under kills', () => {
  it(
    `tell each follower of everything, once and in order, over ${KILLS} kills of API, workers, Redis and MongoDB's primary`,
    async () => {
      let isWriting = true
      let isOver = false
      let written = 0
      const writers = Array.from({ length: WRITERS }, async (_, nth) => {
        const writer = newAgent(`w${nth}`, numbersFor(SEED, `writer/${nth}`))
        await registerWithPass(world, writer, undefined, 1)
        for (let turn = 0; isWriting; turn++) if (await write(writer, turn)) written++
      })
      // Each goes on by a cursor of its own.
      const followers = readers.flatMap((reader) =>
        Array.from({ length: FOLLOWERS_EACH }, (_, nth) => ({
          ...reader,
          name: `${reader.name}.${nth}`,
          events: [],
        })),
      )
      const following = followers.map((one) => followEvents(world, one, () => isOver))

      const numbers = numbersFor(SEED, 'kills')
      const kills: Record<string, number> = {}
      for (let killed = 0, deck: (typeof KINDS)[number][] = []; killed < KILLS;) {
        const goal = written + WRITES_BETWEEN
        await waitFor('writes between two kills', () => (written >= goal ? true : undefined), LIMIT)
        await sleep(numbers.below(500))
        if (deck.length === 0) deck = numbers.shuffle(KINDS)
        const [kind = 'kill-api'] = deck
        if ((await FAULTS[kind].cause(stack, drawFault(numbers, kind))) === undefined) continue
        deck.shift()
        killed++
        kills[kind] = (kills[kind] ?? 0) + 1
      }
      isWriting = false
      await Promise.all(writers)
      await stack.mongo.whenWritable()
      await stack.whenServing()
      isOver = true
      await Promise.all(following)

      // The last work may be verified a moment later.
      await waitFor(
        'the work to be done',
        async () => ((await readStored(stack.mongo.url)).waitingBatches === 0 ? true : undefined),
        LIMIT,
      )
      for (const follower of followers) await readAllEvents(world, follower)
      const findings = checkEvents(followers, await readStored(stack.mongo.url), [], [])
      expect([...world.wrongAnswers, ...findings]).toEqual([])
      const told = followers.map(({ events }) => events.length)
      console.log(
        `${written} writes, ${told.reduce((sum, count) => sum + count)} events told to ${followers.length} followers over ${JSON.stringify(kills)}`,
      )
      expect(Math.min(...told)).toBeGreaterThan(0)
    },
    60 * MINUTE_MS,
  )

  it(
    'come from the other machine too while Redis is away',
    async () => {
      const [reader, writer] = readers as [Agent, Agent]
      const follower: Agent = { ...reader, name: 'r0.late', events: [] }
      let isOver = false
      stack.redisGate.cut()
      try {
        const following = followEvents(world, follower, () => isOver)
        const sent: string[] = []
        while (sent.length < 20) {
          const body = { to: reader.id, box: nextMarker(writer) }
          const { status, json } = await ask(world, writer, 'dm', 'POST', '/dm', { body, api: sent.length })
          if (status === 201) sent.push(String(json['id']))
        }
        const areTold = () => sent.every((id) => follower.events.some((event) => event.id === id))
        await waitFor('the events of what was sent', () => (areTold() ? true : undefined), LIMIT)
        isOver = true
        await following
      } finally {
        stack.redisGate.heal()
      }
      expect(world.wrongAnswers).toEqual([])
    },
    5 * MINUTE_MS,
  )
})
