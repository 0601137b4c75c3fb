/** An error of this client: `code` for programs, `message` for people. */
export class CodedError<Code extends string = string> extends Error {
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The body of a refusal, as the service sent it. */
export type RefusalBody = { ok: false; error: string; message: string; field?: string }

/** Codes of status 503 that waiting does not change: the operator would have to. */
const SETTLED_CODES = new Set(['currency_not_configured'])

/**
 * The service answered, and said no.
 *
 * - `status`: the HTTP status; `error`: the code (`GET /api/v1/rules` lists them); `message`: the service's
 *   sentence
 * - `field`: the field at fault, if it is one
 * - `retryAfterSeconds`: how long the service asked to wait, if it did
 * - `body`: the whole answer, unchanged
 * - `mayPass`: the same call may succeed later
 */
export class RefusalError extends CodedError {
  override readonly name = 'RefusalError'
  readonly status: number
  readonly error: string
  readonly field: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly body: RefusalBody
  readonly mayPass: boolean

  constructor(status: number, body: RefusalBody, retryAfterSeconds?: number) {
    super(body.error, body.message)
    this.status = status
    this.error = body.error
    this.field = body.field
    this.retryAfterSeconds = retryAfterSeconds
    this.body = body
    this.mayPass = status === 429 || (status >= 500 && !SETTLED_CODES.has(body.error))
  }
}

/**
 * - `unreachable`: no connection, or one that broke before an answer began
 * - `timeout`: no whole answer within the client's time
 * - `cut_off`: an answer that broke off
 * - `bad_answer`: an answer that is not this service's: not JSON, not an object with `ok`, or a redirection
 */
export type TransportErrorKind = 'unreachable' | 'timeout' | 'cut_off' | 'bad_answer'

/**
 * No answer of the service came.
 *
 * - `mayHaveArrived`: the call was a POST, and the service may have done what it asked for
 * - `status`: the HTTP status, if one came
 * - `mayPass`: the same call may succeed later
 */
export class TransportError extends CodedError<TransportErrorKind> {
  override readonly name = 'TransportError'
  readonly kind: TransportErrorKind
  readonly status: number | undefined
  readonly retryAfterSeconds: number | undefined
  readonly mayHaveArrived: boolean
  readonly mayPass: boolean

  constructor(
    kind: TransportErrorKind,
    message: string,
    options: {
      status?: number
      retryAfterSeconds?: number | undefined
      mayHaveArrived: boolean
      cause?: unknown
    },
  ) {
    const note = options.mayHaveArrived ? ' What it asked for may have been done all the same.' : ''
    super(kind, message + note, options)
    this.kind = kind
    this.status = options.status
    this.retryAfterSeconds = options.retryAfterSeconds
    this.mayHaveArrived = options.mayHaveArrived
    this.mayPass = kind !== 'bad_answer' || options.status === undefined || options.status >= 500
  }
}

/** Whether this is an error of a client's call. @internal */
export const isFailedCall = (error: unknown): error is RefusalError | TransportError =>
  error instanceof RefusalError || error instanceof TransportError

/** Whether this is an error of a client's call that may succeed if it is made again later. */
export const isPassing = (error: unknown): error is RefusalError | TransportError =>
  isFailedCall(error) && error.mayPass
