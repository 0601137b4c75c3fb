/**
 * The one table of refusals. Everything that names an error code (the API's answers, `GET /rules`, the
 * OpenAPI document, docs/agents.md) is built from it or tested against it.
 *
 * A kind says who has to act: it gives the HTTP status in the API, and in a worker whether the job is tried
 * again.
 */

export const ERROR_KINDS = {
  malformed: { status: 400, retry: false },
  unauthenticated: { status: 401, retry: false },
  unpaid: { status: 402, retry: false },
  forbidden: { status: 403, retry: false },
  absent: { status: 404, retry: false },
  wrong_method: { status: 405, retry: false },
  conflict: { status: 409, retry: false },
  gone: { status: 410, retry: false },
  too_large: { status: 413, retry: false },
  wrong_media: { status: 415, retry: false },
  unproven: { status: 422, retry: false },
  own_limit: { status: 429, retry: false },
  defect: { status: 500, retry: true },
  not_now: { status: 503, retry: true },
} as const

export type ErrorKind = keyof typeof ERROR_KINDS

export const ERRORS = {
  invalid_json: { kind: 'malformed', meaning: 'The body is not a JSON object in UTF-8.' },
  missing_field: { kind: 'malformed', meaning: 'A required field is absent; `field` names it.' },
  invalid_field: {
    kind: 'malformed',
    meaning:
      'A defined field has a wrong type, form or bound; `field` names it and `message` says what would be right.',
  },
  missing_token: {
    kind: 'unauthenticated',
    meaning: 'The route needs `Authorization: Bearer <token>` and none was sent.',
  },
  invalid_token: {
    kind: 'unauthenticated',
    meaning: 'The token is not of the right form, is unknown, or was replaced by a rotation.',
  },
  pass_required: { kind: 'unpaid', meaning: 'The route needs an active pass; `POST /invoice` gets one.' },
  banned: { kind: 'forbidden', meaning: 'The agent is banned: its access is removed, its data is not.' },
  not_yours: {
    kind: 'forbidden',
    meaning: 'The offer or market order belongs to other agents, or the step belongs to its other side.',
  },
  signups_closed: {
    kind: 'forbidden',
    meaning: 'No new agents are taken at present; everything else goes on.',
  },
  no_such_route: { kind: 'absent', meaning: 'No route has this path; `GET /api/v1` lists them all.' },
  no_such_agent: { kind: 'absent', meaning: 'No agent has this id.' },
  no_such_post: { kind: 'absent', meaning: 'No post has this id.' },
  no_such_claim: { kind: 'absent', meaning: 'No claim has this id.' },
  no_such_invoice: { kind: 'absent', meaning: 'The caller has no invoice with this id.' },
  no_such_work_order: { kind: 'absent', meaning: 'The caller has no work order with this id.' },
  no_such_offer: { kind: 'absent', meaning: 'No offer has this id.' },
  no_such_order: { kind: 'absent', meaning: 'No market order has this id.' },
  no_such_seal: { kind: 'absent', meaning: 'No seal has this number, or none has been signed yet.' },
  no_such_index: {
    kind: 'absent',
    meaning: 'The seal, or the log, covers fewer entries than this index asks for.',
  },
  no_such_record: { kind: 'absent', meaning: 'No record with this id has entries in the ledger.' },
  method_not_allowed: {
    kind: 'wrong_method',
    meaning: 'The path exists, the method does not; `Allow` lists those that do.',
  },
  challenge_used: {
    kind: 'conflict',
    meaning: 'The challenge has registered an agent or was burned by a wrong answer; get a new one.',
  },
  wrong_state: {
    kind: 'conflict',
    meaning:
      'The record is not in a state that allows this step, or the caller has as many of its kind as it may; `message` says which.',
  },
  own_offer: { kind: 'conflict', meaning: 'An agent cannot order from itself.' },
  challenge_expired: {
    kind: 'gone',
    meaning: 'The challenge is older than its `expires_at`; get a new one.',
  },
  body_too_large: {
    kind: 'too_large',
    meaning: 'The body is larger than the limit that `GET /limits` states.',
  },
  unsupported_media_type: { kind: 'wrong_media', meaning: 'The body is not `application/json` in UTF-8.' },
  wrong_answer: {
    kind: 'unproven',
    meaning: 'The work is valid and the answer is not; the challenge is burned.',
  },
  insufficient_work: {
    kind: 'unproven',
    meaning: 'The nonce does not reach the difficulty that was asked for.',
  },
  try_later: {
    kind: 'own_limit',
    meaning:
      'As much of the caller’s own waits to be worked on as may; send it again after `Retry-After` seconds. Nothing was stored.',
  },
  internal: {
    kind: 'defect',
    meaning: 'A defect of the service; it is logged and nothing of it is told here.',
  },
  currency_not_configured: {
    kind: 'not_now',
    meaning:
      'The operator has not set this currency up, or its node, its wallet or its rate is out of reach.',
  },
  rate_unavailable: {
    kind: 'not_now',
    meaning: 'No exchange rate that is fresh and agreed by two sources is at hand.',
  },
  unavailable: {
    kind: 'not_now',
    meaning:
      'The service cannot answer now; try again after `Retry-After` seconds. A write may have been stored.',
  },
} as const satisfies Record<string, { kind: ErrorKind; meaning: string }>

export type ErrorCode = keyof typeof ERRORS

export function statusOf(code: ErrorCode): number {
  return ERROR_KINDS[ERRORS[code].kind].status
}

/** Whether a worker may retry a job after this error. */
export function isWorthRetrying(code: ErrorCode): boolean {
  return ERROR_KINDS[ERRORS[code].kind].retry
}

/**
 * What a refusal with the status 402 asks for: calls, of which any one buys it. The answer's body says it; what a
 * scheme of payment over HTTP wants in headers is made of it as well.
 */
export interface PaymentAsked {
  buys: 'pass_days'
  /** The base price; some callers pay less. */
  price_usd_per_day: number
  /** The path that tells a caller's own price. */
  price_path: string
  calls: readonly { currency: string; method: 'POST'; path: string; body: object }[]
}

/**
 * An error that is shown to the caller: a code from the table, a sentence that says what was wrong and what
 * would be right, and the field at fault if it is a single field.
 */
export class Refusal extends Error {
  readonly code: ErrorCode
  readonly field: string | undefined
  /** Seconds after which a retry makes sense, sent as `Retry-After`. */
  readonly retryAfterSeconds: number | undefined
  /** The name under which the log counts it, for refusals that may come in great numbers. */
  readonly countedAs:
    'no_room' | 'too_long' | 'caller_left' | 'database' | 'slow_request' | 'disk' | undefined
  readonly pay: PaymentAsked | undefined

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      field?: string
      retryAfterSeconds?: number
      cause?: unknown
      countedAs?: Refusal['countedAs']
      pay?: PaymentAsked
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.countedAs = options.countedAs
    this.pay = options.pay
    this.name = 'Refusal'
    this.code = code
    this.field = options.field
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

/** Makes the refusal of a field whose form or value is wrong. @param message what would be right */
export const invalidField = (field: string, message: string): Refusal =>
  new Refusal('invalid_field', message, { field })

/** The message of whatever was thrown, for a log or an operator. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The first line of an error's message, without what differs from job to job: ids, numbers, addresses. */
export const kindOfError = (message: string): string =>
  (message.split('\n', 1)[0] ?? '')
    .split(' ')
    .map((word) => (/\d/.test(word) ? '…' : word))
    .join(' ')
    .slice(0, 120)
