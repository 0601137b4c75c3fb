import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export interface LoadJob {
  port: number
  connections: number
  durationMs: number
  /** The most requests to send. */
  count?: number
  /** Requests a second, sent at fixed times; if absent, each connection sends as soon as its answer comes. */
  ratePerSecond?: number
  /** Lists of requests as HTTP text: one that all connections share, or one for each connection. */
  lanes: string[][]
  /** Whether a list begins anew at its end. */
  repeat: boolean
  /** What every answer has to contain. */
  expect?: string
  /** The share of answers that may be failures; 0 if absent. */
  mayFail?: number
}

export interface LoadResult {
  answers: number
  perSecond: number
  p50Ms: number
  p99Ms: number
  /** How many answers were not 2xx, or not as expected. */
  failed: number
  firstFailure?: string
}

export interface Load {
  /** Runs a job after those before it. @throws Error if more answers failed than `mayFail` allows */
  run(job: LoadJob): Promise<LoadResult>
  stop(): void
}

/** Starts a load generator. It runs its jobs one after the other; for two at once, start two generators. */
export function startLoad(): Load {
  const child = fork(fileURLToPath(new URL('load-child.ts', import.meta.url)), { serialization: 'advanced' })
  let last: Promise<unknown> = Promise.resolve()
  const runNow = (job: LoadJob): Promise<LoadResult> =>
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
      const result = last.then(() => runNow(job))
      last = result.catch(() => {}) // told to whoever ran it
      return result
    },
    stop: () => child.disconnect(),
  }
}

/** An HTTP request as text, over a connection that is kept alive. */
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
