import { findProblem, schemaOf } from './answer-check.ts'
import { CodedError, RefusalError, TransportError, isPassing, type RefusalBody } from './errors.ts'
import { isObject, MAX_ANSWER_BYTES, measureJson } from './verify/values.ts'

export interface HttpOptions {
  /** Where the service is, such as `https://example.org` or `http://127.0.0.1:3000`; the API base path is added. */
  baseUrl: string
  /**
   * Takes `http://` to another machine than this one: everybody between reads the token and can change every
   * answer.
   */
  insecure?: boolean
  /** Sent with the calls that need one, and with no other. */
  token?: string | undefined
  /** In place of the platform's, for a proxy for example. */
  fetch?: typeof globalThis.fetch
  /** The longest that a call waits for its whole answer; 30 000 if absent. */
  timeoutMs?: number
  /** Ends every call under way; they reject with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** A good answer, unchanged. */
export type Answer<View extends object> = { ok: true } & View

/** The query of a URL; undefined values are left out, and a list is one parameter for each of its texts. */
export type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>

/** The calls of one kind: with the token, or without it. An answer must be of its form in schemas.ts, if one is named. */
export interface Calls {
  /** A GET, which is tried again after a 503 that says when, at most twice and 10 s each. */
  get<View extends object>(form: string | undefined, path: string, query?: Query): Promise<Answer<View>>
  /** A GET that changes something, so that it is sent once. */
  getOnce<View extends object>(form: string | undefined, path: string, query?: Query): Promise<Answer<View>>
  /** Sent once, whatever happens. */
  post<View extends object>(form: string | undefined, path: string, body?: object): Promise<Answer<View>>
  /** A DELETE, sent once. */
  remove<View extends object>(form: string | undefined, path: string): Promise<Answer<View>>
}

const API_BASE = '/api/v1'
const TIMEOUT_MS = 30_000
const MAX_ANSWER_DEPTH = 100
const MAX_REPEATS = 2
const MAX_RETRY_AFTER_SECONDS = 10
/** A connection that was never made carries no request. */
const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/**
 * The base URL without a slash at its end and without the API base path.
 *
 * @throws Error with a sentence for whoever typed it
 * @internal
 */
export function parseBaseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  // The message leaves the text out if it holds a password.
  if (url !== null && (url.username !== '' || url.password !== ''))
    throw new Error('"baseUrl" expected a URL without a user name and password')
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    throw new Error(`"baseUrl" expected a URL such as http://127.0.0.1:3000, got ${JSON.stringify(text)}`)
  }
  return url.origin + url.pathname.replace(/\/+$/, '').replace(/\/api\/v1$/, '')
}

/** The URL is plain HTTP to another machine, and nobody has said that this is meant. */
export class InsecureUrlError extends CodedError<'insecure_url'> {
  override readonly name = 'InsecureUrlError'
}

/** Whether a URL leads to this machine's loopback address. @internal */
export const isLoopback = ({ hostname }: URL): boolean =>
  /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)

/** Whether nobody in between can read or change what is sent: TLS, or this machine's loopback address. */
function isSafeFromListeners(baseUrl: string): boolean {
  const url = new URL(baseUrl)
  return url.protocol === 'https:' || isLoopback(url)
}

/** An id as one element of a path, escaped. @throws Error for text that can't be one, such as `..` @internal */
export function pathSegment(text: string): string {
  if (text === '' || text === '.' || text === '..' || !text.isWellFormed())
    throw new Error(`${JSON.stringify(text)} cannot be an id`)
  return encodeURIComponent(text)
}

/**
 * Makes the calls on the service: without the token and with it, and those for routes that answer with a document in
 * JSON or a text, which stand in `document` of what they resolve with. They reject with RefusalError, TransportError, or
 * the reason of `options.signal`.
 *
 * @throws Error if the base URL can't be used, InsecureUrlError
 * @internal
 */
export function createCalls(
  options: HttpOptions,
): Readonly<Record<'open' | 'authed' | 'documents' | 'texts', Calls>> {
  const baseUrl = parseBaseUrl(options.baseUrl)
  if (options.insecure !== true && !isSafeFromListeners(baseUrl))
    throw new InsecureUrlError(
      'insecure_url',
      `${baseUrl} is plain HTTP to another machine: everybody between could read the token and change every answer. Use https://, or say "insecure" (the command: --insecure, or AGENT_INSECURE=1) on a network of your own.`,
    )
  const base = baseUrl + API_BASE
  const { signal } = options

  /** Sends a GET, and again after a 503 that says when: at most twice, and only if that is within 10 s. */
  async function getRepeating<View extends object>(sent: Sent): Promise<Answer<View>> {
    for (let repeats = 0; ; repeats++) {
      try {
        return await sendOnce<View>(options, sent)
      } catch (error) {
        const seconds = isPassing(error) && error.status === 503 ? error.retryAfterSeconds : undefined
        if (seconds === undefined || seconds > MAX_RETRY_AFTER_SECONDS || repeats === MAX_REPEATS) throw error
        await pause(seconds * 1000, signal)
      }
    }
  }

  const callsWith = (token: string | undefined, gives: Sent['gives'] = 'answer'): Calls => {
    const sent = { token, gives }
    const toGet = (form: string | undefined, path: string, query?: Query): Sent => ({
      ...sent,
      method: 'GET',
      url: base + path + formatQuery(query),
      form,
    })
    return {
      get: (...asked) => getRepeating(toGet(...asked)),
      getOnce: (...asked) => sendOnce(options, toGet(...asked)),
      post: (form, path, body = {}) =>
        sendOnce(options, { ...sent, method: 'POST', url: base + path, body, form }),
      remove: (form, path) => sendOnce(options, { ...sent, method: 'DELETE', url: base + path, form }),
    }
  }
  return {
    open: callsWith(undefined),
    authed: callsWith(options.token),
    documents: callsWith(undefined, 'document'),
    texts: callsWith(undefined, 'text'),
  }
}

/** One request. @internal */
export interface Sent {
  method: 'GET' | 'POST' | 'DELETE'
  /** Whole. */
  url: string
  token?: string | undefined
  body?: object | undefined
  /** Of its answer; any object if absent. */
  form?: string | undefined
  /** What a good answer is: the service's, if absent, or a document or text, which becomes its `document`. */
  gives?: 'answer' | 'document' | 'text'
}

/**
 * Sends one request, to wherever its URL leads, and reads its answer, which has to be one of this service's form
 * and no longer than its answers may be. It rejects with RefusalError, TransportError, or the reason of
 * `options.signal`.
 * @internal
 */
export async function sendOnce<View extends object>(
  options: Pick<HttpOptions, 'fetch' | 'timeoutMs' | 'signal'>,
  sent: Sent,
): Promise<Answer<View>> {
  const { method, url, token, body } = sent
  const { fetch: send = globalThis.fetch, timeoutMs = TIMEOUT_MS, signal } = options
  signal?.throwIfAborted()
  const timeout = AbortSignal.timeout(timeoutMs)
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (token !== undefined) headers['Authorization'] = `Bearer ${token}`
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  let response: Response | undefined
  let text: string
  try {
    response = await send(url, {
      method,
      headers,
      redirect: 'manual', // a token is for the service it was made for
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    text = await readText(response, signal === undefined ? [timeout] : [signal, timeout])
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof AnswerTooLongError) throw toBadAnswer(response, method, url, error.message)
    throw toTransportError(error, {
      method,
      url,
      status: response?.status,
      timedOut: timeout.aborted,
      timeoutMs,
    })
  }
  return readAnswer<View>(response, text, sent)
}

/** Waits. Rejects with the signal's own reason when it is aborted. @internal */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

function formatQuery(query: Query = {}): string {
  const text = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    for (const part of value === undefined ? [] : [value].flat()) text.append(name, String(part))
  return text.size === 0 ? '' : `?${text}`
}

/**
 * Reads an answer of the service: an object with `ok: true` and a good status.
 *
 * @throws RefusalError if the service refused; TransportError `bad_answer` for anything else
 */
function readAnswer<View extends object>(
  response: Response,
  text: string,
  { method, url, form, gives = 'answer' }: Sent,
): Answer<View> {
  const { status } = response
  const retryAfterSeconds = readRetryAfter(response.headers.get('Retry-After'))
  const value = response.ok && gives === 'text' ? text : parseJson(text)
  if (isRefusal(value) && status >= 400) throw new RefusalError(status, value, retryAfterSeconds)
  if (response.ok && gives !== 'answer' && value !== undefined)
    return { ok: true, document: value } as unknown as Answer<View>
  if (response.ok && isObject(value) && value['ok'] === true) {
    const problem = form === undefined ? undefined : findProblem(schemaOf(form), value)
    if (problem === undefined) return value as Answer<View>
    throw toBadAnswer(response, method, url, `was not answered as this service does: ${problem}`)
  }
  const location = response.headers.get('Location')
  const what =
    status >= 300 && status < 400
      ? `leads to ${location ?? 'another address'}; use the address of the service itself`
      : `was answered with ${describeText(text)}`
  throw toBadAnswer(response, method, url, what)
}

/** @param what follows "GET https://…" in the error's sentence */
function toBadAnswer(
  response: Response | undefined,
  method: string,
  url: string,
  what: string,
): TransportError {
  const { status = 0, ok = false } = response ?? {}
  return new TransportError('bad_answer', `${method} ${url} ${what} (HTTP ${status}).`, {
    status,
    retryAfterSeconds: readRetryAfter(response?.headers.get('Retry-After') ?? null),
    mayHaveArrived: method !== 'GET' && (ok || status >= 500),
  })
}

class AnswerTooLongError extends Error {}

/**
 * Reads the body as UTF-8. It is counted as it comes out of the decompression, so a longer one is never held.
 *
 * @throws AnswerTooLongError; the reason of the first signal that is aborted
 */
async function readText({ body }: Response, signals: readonly AbortSignal[]): Promise<string> {
  if (body === null) return ''
  const decoder = new TextDecoder()
  const reader = body.getReader() // not every browser can iterate over a stream
  // Node 20 loses the signal that the request was sent with, once garbage is collected.
  const stop = (): void => void reader.cancel().catch(() => undefined)
  const throwIfAborted = (): void => signals.forEach((signal) => signal.throwIfAborted())
  throwIfAborted()
  for (const signal of signals) signal.addEventListener('abort', stop, { once: true })
  let text = ''
  let bytes = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      throwIfAborted()
      if (done) return text + decoder.decode()
      bytes += value.length
      if (bytes > MAX_ANSWER_BYTES) {
        await reader.cancel()
        throw new AnswerTooLongError(
          `was answered with more than ${MAX_ANSWER_BYTES / 2 ** 20} MiB, which no answer of this service has`,
        )
      }
      text += decoder.decode(value, { stream: true })
    }
  } finally {
    for (const signal of signals) signal.removeEventListener('abort', stop)
  }
}

/** Parses JSON. @returns undefined for other text, and for a value nested too deep to be written out again */
function parseJson(text: string): unknown {
  if (measureJson(text).depth > MAX_ANSWER_DEPTH) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined // readAnswer says what came instead
  }
}

function isRefusal(value: unknown): value is RefusalBody {
  return (
    isObject(value) &&
    value['ok'] === false &&
    typeof value['error'] === 'string' &&
    typeof value['message'] === 'string'
  )
}

/** Names what came instead of an answer. */
function describeText(text: string): string {
  if (text === '') return 'nothing'
  const start = text.slice(0, 60).replace(/\s+/g, ' ').trim()
  return `something that is not this service's answer: ${JSON.stringify(start)}`
}

/** Parses Retry-After (RFC 9110 section 10.2.3). @returns seconds from now; undefined without the header */
function readRetryAfter(text: string | null): number | undefined {
  if (text === null) return undefined
  if (/^\d{1,9}$/.test(text)) return Number(text)
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) ? undefined : Math.max(0, (atMs - Date.now()) / 1000)
}

/** Says why no answer came. @param call.status of an answer that broke off */
function toTransportError(
  error: unknown,
  call: { method: string; url: string; status: number | undefined; timedOut: boolean; timeoutMs: number },
): TransportError {
  const { method, url, status, timedOut, timeoutMs } = call
  const reason = findReason(error)
  const options = {
    mayHaveArrived: method !== 'GET' && (timedOut || !NEVER_SENT.has(reason.code ?? '')),
    cause: error,
    ...(status === undefined ? {} : { status }),
  }
  const asked = `${method} ${url}`
  const late = `${asked} was not answered within ${timeoutMs / 1000} s.`
  if (timedOut) return new TransportError('timeout', late, options)
  if (status === undefined)
    return new TransportError('unreachable', `${asked} could not be reached (${reason.text}).`, options)
  return new TransportError('cut_off', `The answer to ${asked} broke off (${reason.text}).`, options)
}

/** What went wrong in a fetch: its error only says "fetch failed", `cause` says why, and may be a list of tries. */
function findReason(error: unknown): { text: string; code: string | undefined } {
  if (!(error instanceof Error)) return { text: String(error), code: undefined }
  if (error instanceof AggregateError && error.errors.length > 0) return findReason(error.errors[0])
  if (error.cause instanceof Error) return findReason(error.cause)
  const { code } = error as { code?: string }
  return { text: error.message || (code ?? error.name), code }
}
