import { doorbellBody, doorbellSetView, doorbellView, viewDoorbell } from '../../shared/doorbells/doorbell.ts'
import { readDoorbell, removeDoorbell, setDoorbell } from '../../shared/doorbells/doorbell-service.ts'
import { defineRoute, ok, type Route } from '../http/route.ts'

const path = '/doorbell'

/** The routes of an agent's doorbell. */
export function doorbellRoutes(): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path,
      operation: 'getDoorbell',
      access: 'token',
      summary: 'Your doorbell: its URL, whether it is proven, and how its last ring went',
      view: doorbellView,
      errors: ['no_such_route'],
      async handle({ ctx, caller }) {
        return ok({ doorbell: viewDoorbell(await readDoorbell(ctx, caller._id)) })
      },
    }),
    defineRoute({
      method: 'POST',
      path,
      operation: 'setDoorbell',
      access: 'token',
      summary: 'Sets the https URL that is told when you have events and do not ask for them',
      description:
        'The URL is posted a challenge at once, and answers its HMAC under `secret`; `doorbells` of `GET /rules` says how, and how posts are signed.',
      body: doorbellBody,
      view: doorbellSetView,
      errors: ['no_such_route', 'wrong_state'],
      async handle({ ctx, caller, body }) {
        const { bell, secret } = await setDoorbell(ctx, caller._id, body)
        return ok({ doorbell: viewDoorbell(bell), secret })
      },
    }),
    defineRoute({
      method: 'DELETE',
      path,
      operation: 'removeDoorbell',
      access: 'token',
      summary: 'Takes your doorbell away',
      view: doorbellView,
      errors: ['no_such_route'],
      async handle({ ctx, caller }) {
        await removeDoorbell(ctx, caller._id)
        return ok({ doorbell: null })
      },
    }),
  ]
}
