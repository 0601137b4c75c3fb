import net from 'node:net'

/** What one attacker does until its process is killed. */
export interface Attack {
  port: number
  connections: number
  /** Each connection sends these one after the other, endlessly, each after the answer to the last. */
  requests: string[]
  /** Sends each request this many times at once. */
  pipelined?: number
  /** Never reads the answers, so only its first requests are sent. */
  isDeaf?: boolean
  /** Instead of requests, sends endless headers, a byte each this many ms. */
  trickleMs?: number
}

/**
 * Opens a connection of an attack, and again 50 ms after it was cut, for ever. `index`: its first request.
 */
function openConnection(attack: Attack, index: number): void {
  const { port, requests, pipelined = 1, isDeaf = false, trickleMs } = attack
  const socket = net.connect({ port, host: '127.0.0.1' })
  let next = index
  const send = (): void => {
    const request = requests[next++ % requests.length] ?? ''
    socket.write(pipelined === 1 ? request : request.repeat(pipelined), 'latin1')
  }
  let pace: NodeJS.Timeout | undefined
  socket.once('connect', () => {
    if (trickleMs === undefined) send()
    else {
      socket.write('GET /api/v1/feed HTTP/1.1\r\nX: ')
      pace = setInterval(() => socket.write('a'), trickleMs)
    }
  })
  if (isDeaf) socket.pause()
  /** Bytes of the answer that are still to come. */
  let missing: number | undefined
  socket.on('data', (chunk: Buffer) => {
    // An answer's head arrives in one piece here, and has Content-Length.
    if (missing === undefined) {
      const text = chunk.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      missing = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0) - (chunk.length - end - 4)
    } else missing -= chunk.length
    if (missing > 0) return
    missing = undefined
    send()
  })
  socket.on('error', () => undefined)
  socket.once('close', () => {
    clearInterval(pace)
    setTimeout(openConnection, 50, attack, index)
  })
}

process.once('message', (attack: Attack) => {
  for (let index = 0; index < attack.connections; index++) openConnection(attack, index)
})
