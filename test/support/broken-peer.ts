import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  method: string
  path: string
  token: string | undefined
  body: unknown
}

/** What the peer does with a request; `index` counts all of them from 0. */
export type Behaviour = (res: ServerResponse, received: Received, index: number) => void

/**
 * An HTTP peer that refuses or breaks. It stands in for bad networks and proxies, never for the service's own
 * work.
 */
export async function startBrokenPeer(
  behave: Behaviour,
): Promise<{ url: string; received: Received[]; close(): Promise<void> }> {
  const received: Received[] = []
  const server = createServer((req, res) => void answer(req, res))
  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const request = {
      method: req.method ?? '',
      path: req.url ?? '',
      token: req.headers.authorization,
      body: text === '' ? undefined : (JSON.parse(text) as unknown),
    }
    received.push(request)
    behave(res, request, received.length - 1)
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export function refuse(
  res: ServerResponse,
  status: number,
  error: string,
  headers: Record<string, string> = {},
): void {
  sendJson(res, status, { ok: false, error, message: `Refused as ${error}.` }, headers)
}

export function sendJson(
  res: ServerResponse,
  status: number,
  value: unknown,
  headers: Record<string, string> = {},
): void {
  res.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(value))
}
