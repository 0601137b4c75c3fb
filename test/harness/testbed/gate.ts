import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A TCP proxy to a server's port that can be cut, stopped or slowed down. */
export interface Gate {
  readonly port: number
  /** Resets all connections, open and new ones, as if no service listened. */
  cut(): void
  /** Accepts connections and bytes but lets nothing through, like a network that drops packets. */
  hang(): void
  /** Delays every chunk, in both directions. */
  delay(delayMs: number): void
  /** Ends any of these. */
  heal(): void
  /**
   * Lets nothing through of the connections that some of the clients have, or make meanwhile; `answers` alone
   * if only what the server sends is to be lost. Besides whatever else is wrong.
   *
   * @param listPorts the ports of these clients' ends, asked at the beginning and for each new connection
   * @returns ends it: the connections go on, or are reset
   */
  divide(listPorts: () => ReadonlySet<number>, what: Held): (end: 'go-on' | 'reset') => void
  /** Resets all connections and stops listening. */
  close(): Promise<void>
}

/** What is not read of a connection: what either side sends, or what the server does. */
export type Held = 'both' | 'answers'
interface Division {
  listPorts(): ReadonlySet<number>
  what: Held
}

type State = { kind: 'open'; delayMs: number } | { kind: 'cut' } | { kind: 'hung' }

/** Listens on a free port of this machine and passes all on to `targetPort`. */
export async function openGate(targetPort: number): Promise<Gate> {
  let state: State = { kind: 'open', delayMs: 0 }
  const pairs = new Set<Pair>()
  /** With the connections that each holds. */
  const divisions = new Map<Division, Set<Pair>>()
  /** Holds of a connection what the gate's state and the divisions say. */
  const update = (pair: Pair): void => {
    const held = [...divisions].flatMap(([{ what }, divided]) => (divided.has(pair) ? what : []))
    if (state.kind === 'hung') held.push('both')
    pair.hold(held.includes('both') ? 'both' : held[0])
  }
  const server = net.createServer((inward) => {
    if (state.kind === 'cut') return void inward.resetAndDestroy()
    const pair = connectPair(inward, targetPort, () => (state.kind === 'open' ? state.delayMs : 0))
    pairs.add(pair)
    for (const [{ listPorts }, divided] of divisions) if (listPorts().has(pair.clientPort)) divided.add(pair)
    pair.onGone(() => {
      pairs.delete(pair)
      for (const divided of divisions.values()) divided.delete(pair)
    })
    update(pair)
  })
  const port = await new Promise<number>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => resolve((server.address() as net.AddressInfo).port))
  })
  const resetAll = (): void => {
    for (const pair of pairs) pair.reset()
  }
  return {
    port,
    cut() {
      state = { kind: 'cut' }
      resetAll()
    },
    hang() {
      state = { kind: 'hung' }
      for (const pair of pairs) update(pair)
    },
    delay(delayMs) {
      state = { kind: 'open', delayMs }
    },
    heal() {
      state = { kind: 'open', delayMs: 0 }
      for (const pair of pairs) update(pair)
    },
    divide(listPorts, what) {
      const division: Division = { listPorts, what }
      const ports = listPorts()
      divisions.set(division, new Set([...pairs].filter(({ clientPort }) => ports.has(clientPort))))
      for (const pair of pairs) update(pair)
      return (end) => {
        const divided = divisions.get(division) ?? []
        divisions.delete(division)
        for (const pair of divided)
          if (end === 'reset') pair.reset()
          else update(pair)
      }
    },
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      resetAll()
      await closed
    },
  }
}

/** A client's connection and the one to the server that it is passed on to. */
interface Pair {
  /** Of the client's end. */
  readonly clientPort: number
  /** Reads no more of this, and goes on with the rest; with all if it is undefined. */
  hold(what: Held | undefined): void
  /** Resets both connections. */
  reset(): void
  onGone(listener: () => void): void
}

/** Passes a client's connection on to a new one to the server. @param delayMs asked for each chunk */
function connectPair(inward: net.Socket, targetPort: number, delayMs: () => number): Pair {
  const outward = net.connect(targetPort, '127.0.0.1')
  const sockets = [inward, outward] as const
  const held = new Set<net.Socket>()
  let isGone = false
  const listeners: (() => void)[] = []
  const reset = (): void => {
    if (isGone) return
    isGone = true
    for (const socket of sockets) socket.resetAndDestroy()
    for (const listener of listeners) listener()
  }
  for (const [from, to] of [sockets, sockets.toReversed()] as [net.Socket, net.Socket][]) {
    from.setNoDelay(true)
    from.on('error', reset)
    from.on('close', reset)
    let lastArrival = Promise.resolve()
    let underWay = 0
    /** Acts after the present delay, but never before what came earlier has been acted on. */
    const deliver = (act: () => void): void => {
      const lateMs = delayMs()
      if (underWay === 0 && lateMs === 0) return act()
      const arrivesAt = performance.now() + lateMs
      underWay++
      lastArrival = lastArrival.then(async () => {
        await sleep(Math.max(0, arrivesAt - performance.now()))
        underWay--
        act()
      })
    }
    from.on('data', (chunk) =>
      deliver(() => {
        if (isGone || to.write(chunk)) return
        from.pause()
        to.once('drain', () => {
          if (!held.has(from)) from.resume()
        })
      }),
    )
    from.on('end', () =>
      deliver(() => {
        if (!isGone) to.end()
      }),
    )
  }
  return {
    clientPort: inward.remotePort ?? 0,
    hold(what) {
      for (const socket of sockets) {
        const isHeld = what === 'both' || (what === 'answers' && socket === outward)
        if (isHeld === held.has(socket)) continue
        if (isHeld) held.add(socket)
        else held.delete(socket)
        if (isHeld) socket.pause()
        else socket.resume()
      }
    },
    reset,
    onGone: (listener) => void listeners.push(listener),
  }
}
