import http from 'node:http'

export interface Backend {
  url: string
  /** `http://…/readyz`. */
  readyUrl: string
}

export interface Answered {
  status: number
  json: Record<string, unknown>
}

/**
 * A load balancer as a client sees it: round robin over the backends that say they are ready, on connections
 * that are kept alive. A connection that is refused has sent nothing, so the next backend is asked; whatever
 * else goes wrong with a request is its end.
 */
export interface Balancer {
  add(backend: Backend): void
  send(method: string, path: string, options?: { token?: string; body?: unknown }): Promise<Answered>
  close(): void
}

const LOOK_EVERY_MS = 50

export function startBalancer(): Balancer {
  let backends: { backend: Backend; agent: http.Agent; isReady: boolean }[] = []
  let turn = 0
  const look = setInterval(() => {
    for (const one of backends)
      void fetch(one.backend.readyUrl)
        .then((answer) => {
          one.isReady = answer.ok
          return answer.body?.cancel()
        })
        .catch(() => {
          one.isReady = false
        })
  }, LOOK_EVERY_MS)
  return {
    add(backend) {
      // One that was replaced is not listened to any more.
      backends = [
        ...backends.filter(({ backend: other }) => other.readyUrl !== backend.readyUrl),
        { backend, agent: new http.Agent({ keepAlive: true }), isReady: true },
      ]
    },
    async send(method, path, options = {}) {
      for (let attempt = 0; attempt < 100; attempt++) {
        const ready = backends.filter(({ isReady }) => isReady)
        const chosen = ready[turn++ % Math.max(1, ready.length)]
        if (chosen !== undefined) {
          try {
            return await request(chosen.backend.url, chosen.agent, method, path, options)
          } catch (error) {
            if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error
          }
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
      }
      throw new Error('no backend took the request')
    },
    close() {
      clearInterval(look)
      for (const { agent } of backends) agent.destroy()
    },
  }
}

function request(
  url: string,
  agent: http.Agent,
  method: string,
  path: string,
  { token, body }: { token?: string; body?: unknown },
): Promise<Answered> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const sent = http.request(`${url}/api/v1${path}`, {
      method,
      agent,
      headers: {
        ...(text === undefined
          ? {}
          : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      },
    })
    sent.on('error', reject)
    sent.on('response', (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => void chunks.push(chunk))
      answer.on('error', reject)
      answer.on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          json: JSON.parse(Buffer.concat(chunks).toString('utf8')) as Record<string, unknown>,
        }),
      )
    })
    sent.end(text)
  })
}
