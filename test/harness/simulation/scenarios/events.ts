import type { Connection } from 'mongoose'
import type { Context } from '../../../../shared/context.ts'
import { seqOf, type EventHead, type EventRecord } from '../../../../shared/events/event.ts'
import { readEvents } from '../../../../shared/events/event-service.ts'
import { createEventStore } from '../../../../shared/events/event-store.ts'
import { makeMark, type EventMark } from '../../../../shared/events/mark.ts'
import { numberOverdueMarks } from '../../../../shared/events/overdue-marks.ts'
import { OVERDUE_MARK_DAYS } from '../../../../shared/platform/limits.ts'
import { DAY_MS, unixSeconds } from '../../../../shared/platform/time.ts'
import { createPostStore } from '../../../../shared/posts/post-store.ts'
import { requireThat, stubs } from '../stubs.ts'
import type { Scenario, World } from '../world.ts'

const PATIENCE_MS = 10_000
const AGENTS = ['agt_a', 'agt_b']

/** What a client has: the cursor that it goes on after, and the marks whose events it was given. */
interface Client {
  agentId: string
  after: number
  told: string[]
}

/** Marks are stored, some of them long after they were made; each agent's clients page through its events. */
export const eventsScenario: Scenario = {
  name: 'events',
  defineModels: openStores,
  play(world) {
    const { random } = world.schedule
    const open = (aheadMs = 0) => {
      const database = world.openDatabase()
      const ahead = { ...database, now: () => database.now() + aheadMs }
      return { ...openStores(world.connection), ...stubs(world), database: ahead } as unknown as Context
    }
    let [posts, marks] = [0, 0]
    const newMark = (): EventMark => makeMark(random.pick(AGENTS), 'post_hidden', `mark${++marks}`)
    for (let writer = 0; writer < 3; writer++)
      world.spawn(`writer${writer}`, async () => {
        const ctx = open()
        for (let count = random.below(4); count >= 0; count--) {
          const tells = [newMark(), ...(random.chance(0.3) ? [newMark()] : [])]
          await world.attempt(() =>
            random.chance(0.5) || posts === 0
              ? ctx.posts.insert(newPost(`pst_${++posts}`, tells))
              : tellLate(ctx, [1 + random.below(posts), 1 + random.below(posts)], tells),
          )
        }
      })
    const clients = AGENTS.flatMap((agentId) => [0, 1].map((): Client => ({ agentId, after: 0, told: [] })))
    for (const [place, client] of clients.entries())
      world.spawn(
        `reader${place}`,
        async () => {
          const ctx = open()
          for (let page = 0; page < 5; page++) {
            await world.pause()
            await world.attempt(() => readPage(ctx, client, 1 + random.below(4), random.chance(0.3)))
          }
        },
        2,
      )
    world.spawn('overdue', async () => {
      const ctx = open((OVERDUE_MARK_DAYS + 1) * DAY_MS)
      for (let run = 0; run < 2; run++) await world.attempt(() => numberOverdueMarks(ctx, undefined))
    })
    const watch = watchEvents(world, clients)
    return {
      ...watch,
      async finish() {
        const ctx = open()
        for (const client of clients) while (await readPage(ctx, client, 3, false));
      },
    }
  },
}

function openStores(connection: Connection) {
  return { posts: createPostStore(connection, PATIENCE_MS), events: createEventStore(connection) }
}

const newPost = (_id: string, tells: EventMark[]) =>
  ({ _id, agent_id: 'agt_1', at: unixSeconds(Date.now()), body: 'b', salt: 's', tells }) as never

/** Stores marks that were made before, in one transaction over several records. */
function tellLate({ database, posts }: Context, ids: readonly number[], tells: EventMark[]): Promise<void> {
  return database.transaction(async (session) => {
    for (const [place, mark] of tells.entries())
      await posts.models.posts.updateOne(
        { _id: `pst_${ids[place] ?? 1}` },
        { $push: { tells: mark } },
        { session },
      )
  })
}

/** Reads the client's next page. @returns whether there was any event in it */
async function readPage(ctx: Context, client: Client, limit: number, peek: boolean): Promise<boolean> {
  const page = await readEvents(ctx, { _id: client.agentId }, client.after, limit, peek)
  requireThat(!page.truncated, `${client.agentId} is told that events are no longer kept`)
  client.told.push(...page.events.map(({ id }) => id))
  client.after = page.next
  return page.events.length > 0
}

/** What must hold of marks, events and what clients were told. */
function watchEvents({ set }: World, clients: readonly Client[]) {
  const everMarked = new Map<string, string>()
  const eventsOf = (agentId: string): EventRecord[] =>
    (set.lasting('events') as unknown as EventRecord[])
      .filter(({ _id }) => _id.startsWith(`${agentId}/`))
      .sort((a, b) => seqOf(a) - seqOf(b))
  const known = new Map<string, string[]>(AGENTS.map((agentId) => [agentId, []]))
  const marksOf = () =>
    (set.lasting('posts') as unknown as { tells?: EventMark[] }[]).flatMap(({ tells = [] }) => tells)

  const check = (): void => {
    const marks = new Map(marksOf().map(({ id, to }) => [id, to]))
    for (const [id, to] of marks) everMarked.set(id, to)
    for (const agentId of AGENTS) {
      const events = eventsOf(agentId)
      const head = (set.lasting('event_heads') as unknown as EventHead[]).find(({ _id }) => _id === agentId)
      requireThat(
        (head?.seq ?? 0) === events.length,
        `${agentId} has ${events.length} events, not ${head?.seq}`,
      )
      events.forEach((event, place) =>
        requireThat(seqOf(event) === place + 1, `${agentId} lacks event ${place + 1}`),
      )
      const ids = events.map(({ id }) => id)
      requireThat(new Set(ids).size === ids.length, `${agentId} has an event twice`)
      const before = known.get(agentId) ?? []
      requireThat(
        before.every((id, place) => ids[place] === id),
        `an event of ${agentId} has changed its number`,
      )
      known.set(agentId, ids)
      for (const [id, to] of everMarked)
        if (to === agentId) {
          requireThat(marks.has(id) || ids.includes(id), `${agentId} is not told of ${id}`)
          requireThat(
            !(marks.has(id) && ids.includes(id)),
            `${agentId} is told of ${id}, which is still a mark`,
          )
        }
    }
    for (const { agentId, told } of clients) {
      const ids = known.get(agentId) ?? []
      const place = told.findIndex((id, index) => ids[index] !== id)
      requireThat(
        place === -1,
        `a client of ${agentId} got ${told[place]} as event ${place + 1}, which is ${ids[place]}`,
      )
    }
  }
  return {
    check,
    checkEnd(): void {
      check()
      requireThat(marksOf().length === 0, 'a mark is left')
      for (const { agentId, told } of clients)
        requireThat(
          told.length === known.get(agentId)?.length,
          `a client of ${agentId} has not got every event`,
        )
    },
  }
}
