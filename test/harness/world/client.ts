import { nameToken, needsToken, observe } from './observe.ts'
import type { Call, History } from './history.ts'

/** Longer than any answer may take. */
export const PATIENCE_MS = 12_000

export interface CallOptions {
  /** Whom and what the history names: see Call. */
  who: string
  did: string
  /** Which API process is asked, counted on from 0 again after the last. */
  api: number
  token?: string | undefined
  body?: unknown
  marker?: string
  /** Whether the history gets a good answer's body too; true for POST by default. */
  keepsAnswer?: boolean
}

export interface Answered extends Call {
  /** The whole answer, even if it is not recorded. */
  json: Record<string, unknown>
}

/** Sends a request once and records what came of it; never throws. */
export type Client = (method: 'GET' | 'POST', path: string, options: CallOptions) => Promise<Answered>

/**
 * Makes a client that records each request and its outcome. Paths are below `/api/v1`; with two leading
 * slashes they are at the root.
 */
export function createClient(urls: readonly string[], history: History): Client {
  return async (method, path, { who, did, api, token, body, marker, keepsAnswer = method === 'POST' }) => {
    const index = api % urls.length
    const target = path.startsWith('//') ? `${urls[index]}${path.slice(1)}` : `${urls[index]}/api/v1${path}`
    const atMs = history.nowMs()
    const sent = {
      atMs,
      who,
      did,
      api: index,
      method,
      path,
      ...(body === undefined ? {} : { body }),
      ...(marker === undefined ? {} : { marker }),
      ...(token !== undefined && needsToken(method, path) ? { token: nameToken(token) } : {}),
    }
    try {
      const response = await fetch(target, {
        method,
        signal: AbortSignal.timeout(PATIENCE_MS),
        headers: {
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const json = (await response.json()) as Record<string, unknown>
      const error = json['error'] === undefined ? {} : { error: String(json['error']) }
      const kept = keepsAnswer || response.status >= 400 ? { answer: json } : {}
      const seen = response.ok ? observe(method, path, who, json) : []
      return {
        ...history.record({
          ...sent,
          tookMs: history.nowMs() - atMs,
          status: response.status,
          ...error,
          ...kept,
          ...(seen.length === 0 ? {} : { seen }),
        }),
        json,
      }
    } catch (error) {
      return {
        ...history.record({ ...sent, tookMs: history.nowMs() - atMs, lost: describeError(error) }),
        json: {},
      }
    }
  }
}

/** A network error's code, such as `ECONNRESET`, else its name and message. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error as { cause?: { code?: unknown } }
  return cause?.code === undefined ? `${error.name}: ${error.message}` : String(cause.code)
}
