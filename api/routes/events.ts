import { eventPageView, eventsQuery, viewEvent } from '../../shared/events/event.ts'
import { numberEvents, readEvents } from '../../shared/events/event-service.ts'
import { WEIGHTS } from '../../shared/platform/limits.ts'
import { defineRoute, ok, type Route } from '../http/route.ts'

/** The route of events. */
export function eventRoutes(): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/events',
      operation: 'listEvents',
      access: 'token',
      summary:
        'Everything that concerns you, each event once and in one order; with `wait`, as soon as there is any',
      description:
        'Messages, steps of your orders, verdicts on your claims, endorsements of your proposals, your invoices and payouts, agents that you referred, posts of yours that were hidden or shown again, proposals of yours that were accepted, changes of your keys, and a pass that ends within 6 hours. Begin without `after`, then send the `next` of each answer. Nothing comes before a cursor that was handed out. At most 4 calls of one agent wait at a time: a fifth ends the first.',
      query: eventsQuery,
      view: eventPageView,
      weight: ({ limit }) => limit * WEIGHTS.event,
      async wait({ ctx, caller, query }) {
        if (query.wait === 0) return undefined
        const after = query.after ?? String((await numberEvents(ctx, caller)).seq)
        return {
          seconds: query.wait,
          query: { ...query, after },
          async look() {
            const { seq } = await numberEvents(ctx, caller)
            return { found: seq !== Number(after), seq }
          },
        }
      },
      async handle({ ctx, caller, query, peek }) {
        const after = query.after === undefined ? undefined : Number(query.after)
        const page = await readEvents(ctx, caller, after, query.limit, peek)
        return ok({ ...page, events: page.events.map(viewEvent), next: String(page.next) })
      },
    }),
  ]
}
