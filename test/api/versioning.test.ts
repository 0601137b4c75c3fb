import fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findBreaks, shapeOf, type Shape } from '../support/contract-shape.ts'
import { startService, type TestService } from '../support/service.ts'

/*
 * The shape of version 1, recorded. What removes a route or changes a shape raises PROTOCOL_VERSION and is
 * recorded as a vector of its own; what is added breaks nobody and is recorded with UPDATE_CONTRACT=1, which
 * adds and never takes away.
 */

const recordOf = (version: number) => new URL(`../vectors/contract-v${version}.json`, import.meta.url)
const readRecord = (version: number) => JSON.parse(fs.readFileSync(recordOf(version), 'utf8')) as Shape

let service: TestService
let present: Shape
beforeAll(async () => {
  service = await startService({ queues: [] })
  present = shapeOf(service.routes)
  const file = recordOf(present.protocol_version)
  const breaks = fs.existsSync(file)
    ? findBreaks(readRecord(present.protocol_version).routes, present.routes)
    : []
  if (process.env['UPDATE_CONTRACT'] === '1' && breaks.length === 0)
    fs.writeFileSync(file, `${JSON.stringify(present, null, 1)}\n`)
})
afterAll(() => service.stop())

describe('version 1 of the contract', () => {
  // holds: contract.change_policy.anything_that_removes_a_route_or
  // holds: contract.change_policy.changes_to_get_responses_are_additive
  it('still has every route, every field and every type that was recorded', () => {
    expect(findBreaks(readRecord(present.protocol_version).routes, present.routes)).toEqual([])
  })
})

describe('the guard of the contract', () => {
  const change = (how: (routes: Shape['routes']) => void): string[] => {
    const routes = structuredClone(present.routes)
    how(routes)
    return findBreaks(present.routes, routes)
  }
  const answer = (routes: Shape['routes'], name: string, status = '200') =>
    routes[name]?.responses[status] as Record<string, string>

  it('lets additions through', () => {
    expect(
      change((routes) => {
        routes['GET /api/v1/new'] = {
          needs: 'pass',
          request: { q: 'string' },
          responses: { '200': { ok: 'boolean' } },
        }
        answer(routes, 'GET /api/v1/feed')['posts[].language'] = 'string'
        ;(routes['GET /api/v1/feed'] as Shape['routes'][string]).request['language'] = 'string?'
      }),
    ).toEqual([])
  })

  // holds: contract.change_policy.anything_that_removes_a_route_or
  it('sees a route that is gone', () => {
    expect(change((routes) => delete routes['GET /api/v1/feed'])).toEqual(['GET /api/v1/feed is gone'])
  })

  // holds: contract.change_policy.changes_to_get_responses_are_additive
  it('sees a field that is gone, renamed or may now be absent, at any depth', () => {
    expect(change((routes) => delete answer(routes, 'GET /api/v1/feed')['posts[].body'])).toEqual([
      'GET /api/v1/feed 200 no longer gives posts[].body',
    ])
    expect(
      change((routes) => {
        const fields = answer(routes, 'POST /api/v1/register', '201')
        fields['secret'] = String(fields['token'])
        delete fields['token']
      }),
    ).toEqual(['POST /api/v1/register 201 no longer gives token'])
    expect(change((routes) => (answer(routes, 'GET /api/v1/me')['referrals.paying'] = 'integer?'))).toEqual([
      'GET /api/v1/me 200 gives referrals.paying as integer? in place of integer',
    ])
  })

  // holds: contract.change_policy.anything_that_removes_a_route_or
  it('sees a changed type and a status that is gone', () => {
    expect(change((routes) => (answer(routes, 'GET /api/v1/feed')['count'] = 'string'))).toEqual([
      'GET /api/v1/feed 200 gives count as string in place of integer',
    ])
    expect(change((routes) => delete routes['POST /api/v1/work/submit']?.responses['202'])).toContain(
      'POST /api/v1/work/submit no longer answers 202',
    )
  })

  it('sees a request that must say or show more than before', () => {
    expect(
      change(
        (routes) => ((routes['POST /api/v1/post'] as Shape['routes'][string]).request['topic'] = 'string'),
      ),
    ).toEqual(['POST /api/v1/post now requires topic'])
    expect(
      change(
        (routes) => ((routes['POST /api/v1/post'] as Shape['routes'][string]).request['language'] = 'string'),
      ),
    ).toEqual(['POST /api/v1/post now requires language'])
    expect(
      change((routes) => ((routes['GET /api/v1/feed'] as Shape['routes'][string]).needs = 'pass')),
    ).toEqual(['GET /api/v1/feed asks for "pass" in place of "open"'])
  })
})
