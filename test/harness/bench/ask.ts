import http from 'node:http'

/** A request below `/api/v1`; with a body it is sent as JSON. */
export interface Question {
  method: 'GET' | 'POST'
  path: string
  token?: string
  body?: object | undefined
}

/**
 * Sends one request to the API, over one of the agent's connections.
 *
 * @throws Error if no whole answer of JSON comes
 */
export function ask(
  port: number,
  agent: http.Agent,
  { method, path, token, body }: Question,
): Promise<{ status: number; json: Record<string, unknown> }> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(text === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  }
  return new Promise((resolve, reject) => {
    const request = http.request(
      { port, host: '127.0.0.1', method, path: `/api/v1${path}`, headers, agent },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => void chunks.push(chunk))
        answer.once('end', () => {
          const json = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
          resolve({ status: answer.statusCode ?? 0, json })
        })
      },
    )
    request.once('error', reject)
    request.end(text)
  })
}
