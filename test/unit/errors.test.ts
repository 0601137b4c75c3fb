import { describe, expect, it } from 'vitest'
import { ERRORS, isWorthRetrying, Refusal, statusOf, type ErrorCode } from '../../shared/platform/errors.ts'

/** The table of the wire format, status by status. */
const BY_STATUS: Record<number, string> = {
  400: 'invalid_json missing_field invalid_field',
  401: 'missing_token invalid_token',
  402: 'pass_required',
  403: 'banned not_yours signups_closed',
  404: 'no_such_route no_such_agent no_such_post no_such_claim no_such_invoice no_such_work_order no_such_offer no_such_order no_such_seal no_such_index no_such_record',
  405: 'method_not_allowed',
  409: 'challenge_used wrong_state own_offer',
  410: 'challenge_expired',
  413: 'body_too_large',
  415: 'unsupported_media_type',
  422: 'wrong_answer insufficient_work',
  429: 'try_later',
  500: 'internal',
  503: 'currency_not_configured rate_unavailable unavailable',
}
const codes = Object.keys(ERRORS) as ErrorCode[]

describe('the table of errors', () => {
  // holds: contract.non_guarantees.no_rate_limit_is_enforced_one, limits.request_rate
  it('has the codes and the statuses of the wire format, no more and no fewer', () => {
    const byStatus: Record<number, string[]> = {}
    for (const code of codes) (byStatus[statusOf(code)] ??= []).push(code)
    expect(
      Object.fromEntries(Object.entries(byStatus).map(([status, list]) => [status, list.sort()])),
    ).toEqual(
      Object.fromEntries(Object.entries(BY_STATUS).map(([status, list]) => [status, list.split(' ').sort()])),
    )
  })

  it('tries a job again after a defect or an outage and never after a refusal of its content', () => {
    expect(codes.filter(isWorthRetrying).map(statusOf).sort()).toEqual([500, 503, 503, 503])
    expect(codes.filter((code) => !isWorthRetrying(code)).every((code) => statusOf(code) < 500)).toBe(true)
  })

  it('gives each code a meaning that is a sentence', () => {
    for (const code of codes) expect(ERRORS[code].meaning).toMatch(/^[A-Z`].{10,}\.$/)
  })

  it('carries code, sentence, field, patience and cause in a refusal', () => {
    const cause = new Error('away')
    const refusal = new Refusal('unavailable', 'The service cannot answer now.', {
      field: 'to',
      retryAfterSeconds: 2,
      cause,
    })
    expect(refusal).toMatchObject({
      name: 'Refusal',
      code: 'unavailable',
      message: 'The service cannot answer now.',
      field: 'to',
      retryAfterSeconds: 2,
      cause,
    })
    expect('cause' in new Refusal('banned', 'x')).toBe(false)
  })
})
