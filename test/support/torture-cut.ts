import http from 'node:http'

/**
 * Where a request's connection is cut: with the request sent and nothing awaited, or as soon as the answer
 * begins.
 */
export type CutAt = 'after the request' | 'at the answer'

/** Sends a request whose answer its caller never learns. Resolves when the connection is gone. */
export function sendAndCut(
  url: string,
  path: string,
  token: string | undefined,
  body: object,
  at: CutAt,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body)
    const request = http.request(`${url}/api/v1${path}`, {
      method: 'POST',
      agent: false,
      headers: {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(text),
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      },
    })
    request.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' ? resolve() : reject(error),
    )
    request.once('close', resolve)
    request.once('response', () => request.destroy())
    request.end(text, () => {
      if (at === 'after the request') request.destroy()
    })
  })
}
