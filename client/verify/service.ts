import { once } from 'node:events'
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import zlib from 'node:zlib'
import type { Source } from './chain.ts'
import { Unchecked, unchecked, type Findings } from './findings.ts'
import { readConsistency, type Consistency } from './light.ts'
import {
  isObject,
  isWhole,
  MAX_ANSWER_BYTES,
  MAX_CLOCK_SKEW_SECONDS,
  nowSeconds,
  parseJson,
} from './values.ts'

/*
 * Reading a service, which may mean ill: every answer has a size, a deadline and an encoding that was asked
 * for, and is redirected within its origin alone.
 */

const SEALS_PER_PAGE = 1_000
const ENTRIES_PER_PAGE = 10_000 // the most that the service gives
const MIN_PER_PAGE = 100
const MAX_REDIRECTS = 3
const RETRY_PAUSES_MS = [500, 1_500]
const MAX_RETRY_AFTER_SECONDS = 60

/** How long a service is waited for, and what its clock says. */
export interface Patience {
  /** For each answer as a whole. */
  readonly timeoutMs: number
  /** For all answers together. */
  readonly deadlineMs: number
  /** By the monotonic clock. */
  readonly endsAt: number
  /** By how many seconds its clock was ahead of this machine's, at the most; undefined while no answer had a Date. */
  ahead: number | undefined
}

export const beginPatience = (timeoutMs: number, deadlineMs: number): Patience => ({
  timeoutMs,
  deadlineMs,
  endsAt: performance.now() + deadlineMs,
  ahead: undefined,
})

/** Seals and entries as a service gives them, page by page. */
export function serviceSource(base: string, patience: Patience): Source {
  const limits = { seals: SEALS_PER_PAGE, entries: ENTRIES_PER_PAGE }
  async function list(route: string, name: 'seals' | 'entries'): Promise<unknown[]> {
    const url = () => `${base}${route}&limit=${limits[name]}`
    /** Asks a service that is overloaded for half as much from now on. */
    const ease = () => {
      if (limits[name] <= MIN_PER_PAGE) return undefined
      limits[name] = Math.floor(limits[name] / 2)
      return url()
    }
    const answer = await getJson(url(), patience, ease)
    const items = isObject(answer) ? answer[name] : undefined
    if (!Array.isArray(items)) throw unchecked('unreachable.list', url(), name)
    if (items.length > limits[name]) throw unchecked('unreachable.more', url(), name)
    return items
  }
  return {
    async *seals(start) {
      for (let after = start; ;) {
        const seals = await list(`/seal?after_seq=${after}`, 'seals')
        yield* seals
        const last = seals.at(-1)
        const seq = isObject(last) ? last['seq'] : undefined
        // The walk has said what is wrong with these; asking on would go in a circle.
        if (!isWhole(seq) || seq <= after) return
        after = seq
      }
    },
    async *entries(from) {
      for (let next = from; ;) {
        const entries = await list(`/api/v1/ledger?from_id=${next}`, 'entries')
        if (entries.length === 0) return
        yield* entries
        next += entries.length
      }
    },
  }
}

/**
 * Fetches the newest checkpoint, with the lines of these witnesses.
 *
 * @returns undefined if the service has none
 * @throws Unchecked
 */
export async function fetchCheckpoint(
  base: string,
  patience: Patience,
  witnesses: readonly string[],
): Promise<Uint8Array | undefined> {
  const url = `${base}/api/v1/checkpoint`
  const query = witnesses.map((vkey) => `witness=${encodeURIComponent(vkey)}`).join('&')
  // A service of an older version knows no such question, and one that is older still no checkpoint.
  const asked =
    query === ''
      ? undefined
      : await askAgain(`${url}?${query}`, patience, (one) => getBody(one, patience, [400, 404]))
  return asked ?? (await askAgain(url, patience, (one) => getBody(one, patience, [404])))
}

/** Fetches the proof between the logs of two sizes. @throws Unchecked */
export const fetchConsistency = async (
  base: string,
  patience: Patience,
  from: number,
  to: number,
): Promise<Consistency> =>
  readConsistency(await getJson(`${base}/api/v1/ledger/consistency?from=${from}&to=${to}`, patience))

/**
 * If seals are dated after now, says whether the service's own clock agrees with them.
 *
 * @throws Unchecked `wrong_clock` if it does and nothing else is wrong
 */
export function judgeClock(findings: Findings, { ahead }: Patience): void {
  const { future } = findings
  if (future === undefined || ahead === undefined) return
  if (future.at > future.now + ahead + MAX_CLOCK_SKEW_SECONDS)
    findings.future = { ...future, serviceNow: future.now + ahead }
  else if (findings.total === 1) {
    const behind = ahead < 120 ? `${ahead} s` : `${Math.floor(ahead / 60)} min`
    throw unchecked('wrong_clock', future.at, future.now, behind)
  }
}

const tooSlow = ({ deadlineMs }: Patience) => unchecked('deadline', deadlineMs / 1000)

/** A failure of the connection, or one that the service calls passing: worth asking again. */
class Passing extends Error {
  /** The service says that it is overloaded. */
  readonly isBusy: boolean
  /** When it says to come again; undefined: it doesn't. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, isBusy = false, retryAfterMs?: number) {
    super(message)
    this.isBusy = isBusy
    this.retryAfterMs = retryAfterMs
  }
}

/** Fetches JSON, as askAgain() asks. @throws Unchecked */
const getJson = (url: string, patience: Patience, ease?: () => string | undefined): Promise<unknown> =>
  askAgain(
    url,
    patience,
    async (asked) => {
      const body = await getBody(asked, patience)
      try {
        return parseJson(body ?? '')
      } catch (error) {
        throw unchecked('unreachable.json', asked, (error as Error).message.slice(0, 200))
      }
    },
    ease,
  )

/**
 * Asks, and again after a failure that may pass: twice, and each time that `ease` gives the URL of a smaller
 * question to a service that is overloaded.
 *
 * @throws Unchecked `unreachable` or `deadline`
 */
async function askAgain<T>(
  url: string,
  patience: Patience,
  ask: (url: string) => Promise<T>,
  ease: () => string | undefined = () => undefined,
): Promise<T> {
  let asked = url
  for (let repeats = 0; ;) {
    try {
      return await ask(asked)
    } catch (error) {
      if (!(error instanceof Passing)) throw error
      const smaller = error.isBusy ? ease() : undefined
      const pause = RETRY_PAUSES_MS[smaller === undefined ? repeats++ : 0]
      if (pause === undefined) throw unchecked('unreachable.again', asked, error.message)
      asked = smaller ?? asked
      const pauseMs = error.retryAfterMs ?? pause
      if (performance.now() + pauseMs > patience.endsAt) throw tooSlow(patience)
      await sleep(pauseMs)
    }
  }
}

/**
 * Fetches the bytes of a good answer, decompressed.
 *
 * @returns undefined for a status that says that there is none, one of `absent`
 * @throws Passing or Unchecked
 */
async function getBody(
  url: string,
  patience: Patience,
  absent: readonly number[] = [],
): Promise<Uint8Array | undefined> {
  const { origin } = new URL(url)
  let address = url
  for (let redirects = 0; ; redirects++) {
    const { status, headers, body } = await getOnce(address, patience)
    compareClocks(patience, headers.date)
    if (absent.includes(status)) return undefined
    if (status === 200) return decompress(url, headers['content-encoding'], body)
    if (status >= 500 || status === 429)
      throw new Passing(
        `answered ${status}`,
        status === 503 || status === 429,
        readRetryAfter(headers['retry-after']),
      )
    if (![301, 302, 303, 307, 308].includes(status)) throw unchecked('unreachable.status', url, status)
    const { location = '' } = headers
    const route = location.startsWith(`${origin}/`) ? location.slice(origin.length) : location
    if (!/^\/(?!\/)[!-~]*$/.test(route)) throw unchecked('unreachable.origin', url)
    if (redirects === MAX_REDIRECTS) throw unchecked('unreachable.redirects', url)
    address = origin + route
  }
}

/** The milliseconds of a Retry-After in seconds, at most a minute; undefined for none. */
const readRetryAfter = (text = ''): number | undefined =>
  /^[0-9]{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_AFTER_SECONDS) * 1000 : undefined

/** A Date as RFC 9110 has it. */
const HTTP_DATE = /^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [1-9][0-9]{3} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$/

function compareClocks(patience: Patience, date = ''): void {
  const at = HTTP_DATE.test(date) ? Date.parse(date) / 1000 : Number.NaN
  if (!Number.isNaN(at)) patience.ahead = Math.max(at - nowSeconds(), patience.ahead ?? -Infinity)
}

function decompress(url: string, encoding = 'identity', body: Buffer): Uint8Array {
  if (encoding === 'identity') return body
  if (encoding !== 'gzip') throw unchecked('unreachable.encoding', url)
  try {
    return gunzip(body)
  } catch {
    throw unchecked('unreachable.gzip', url, MAX_ANSWER_BYTES)
  }
}

/** Decompresses gzip of one member without optional fields (RFC 1952), as servers send it. @throws Error */
function gunzip(body: Buffer): Buffer {
  if (body.length < 18 || body.readUInt32BE(0) !== 0x1f8b0800) throw new Error('no gzip')
  const plain = zlib.gunzipSync(body, { maxOutputLength: MAX_ANSWER_BYTES })
  // Of two members the last one states its own length alone, and what stands behind one states none.
  if (body.readUInt32LE(body.length - 4) !== plain.length) throw new Error('no end')
  return plain
}

const agents = { http: new http.Agent({ keepAlive: true }), https: new https.Agent({ keepAlive: true }) }

/** Makes one request and reads its whole answer, within a deadline and a size. @throws Passing or Unchecked */
async function getOnce(
  url: string,
  patience: Patience,
): Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }> {
  const leftMs = patience.endsAt - performance.now()
  if (leftMs <= 0) throw tooSlow(patience)
  const timeoutMs = Math.min(patience.timeoutMs, leftMs)
  const signal = AbortSignal.timeout(Math.ceil(timeoutMs))
  const headers = { accept: 'application/json', 'accept-encoding': 'gzip' }
  const request = url.startsWith('https:')
    ? https.get(url, { agent: agents.https, headers, signal })
    : http.get(url, { agent: agents.http, headers, signal })
  request.on('error', () => undefined) // whoever waits is told below
  try {
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const parts: Buffer[] = []
    let bytes = 0
    for await (const part of response as AsyncIterable<Buffer>) {
      bytes += part.length
      if (bytes > MAX_ANSWER_BYTES) throw unchecked('unreachable.large', url, MAX_ANSWER_BYTES)
      parts.push(part)
    }
    return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(parts) }
  } catch (error) {
    request.destroy()
    if (error instanceof Unchecked) throw error
    if (!signal.aborted) throw new Passing((error as Error).message || 'no connection')
    if (leftMs < patience.timeoutMs) throw tooSlow(patience)
    throw unchecked('unreachable.slow', url, timeoutMs / 1000)
  }
}
