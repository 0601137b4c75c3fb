import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export interface LoadJob {
  port: number
  connections: number
  durationMs: number
  /** Ends after so many requests, if not before. */
  count?: number
  /** So many requests a second whatever becomes of them; as fast as the answers come if absent. */
  ratePerSecond?: number
  /**
   * The text of each request as it goes over the wire: one list that all connections share, or one for each.
   */
  lanes: string[][]
  /** Whether a list begins anew at its end. */
  repeat: boolean
  /** What every answer has to contain. */
  expect?: string
  /**
   * The part of the answers that may be refusals, so that a long run is not lost for a few; none if absent.
   */
  mayFail?: number
}

export interface LoadResult {
  answers: number
  perSecond: number
  p50Ms: number
  p99Ms: number
  /** Answers that were no 2xx, or not as expected. */
  failed: number
  firstFailure?: string
}

export interface Load {
  /** @throws Error if more answers were refusals than may be */
  run(job: LoadJob): Promise<LoadResult>
  stop(): void
}

/** Starts a load generator; its jobs may overlap, and a generator of their own keeps them apart. */
export function startLoad(): Load {
  const child = fork(fileURLToPath(new URL('load-child.ts', import.meta.url)), { serialization: 'advanced' })
  let last: Promise<unknown> = Promise.resolve()
  const run = (job: LoadJob): Promise<LoadResult> =>
    new Promise((resolve, reject) => {
      const fail = (code: number | null): void => reject(new Error(`the load generator ended with ${code}`))
      child.once('exit', fail)
      child.once('message', (result: LoadResult) => {
        child.off('exit', fail)
        if (result.failed <= result.answers * (job.mayFail ?? 0)) resolve(result)
        else
          reject(
            new Error(`${result.failed} of ${result.answers} answers failed: ${result.firstFailure ?? ''}`),
          )
      })
      child.send(job)
    })
  return {
    run(job) {
      const mine = last.then(() => run(job))
      last = mine.catch(() => {})
      return mine
    },
    stop: () => child.disconnect(),
  }
}

/** A request as text. */
export function requestText(
  method: 'GET' | 'POST',
  path: string,
  options: { token?: string; body?: object } = {},
): string {
  const { token, body } = options
  const text = body === undefined ? '' : JSON.stringify(body)
  return [
    `${method} ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ...(body === undefined
      ? []
      : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(text)}`]),
    '',
    text,
  ].join('\r\n')
}
