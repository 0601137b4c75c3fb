import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { WebSocket as ServerSocket } from 'ws'
import { WebSocketServer } from 'ws'
import { createLog } from '../../shared/platform/log.ts'
import { createNanoKeys } from '../../shared/money/coins/nano/nano-keys.ts'
import type {
  NanoConfirmation,
  NanoWatch,
  NanoWatchOptions,
} from '../../shared/money/coins/nano/nano-websocket.ts'
import { watchNanoConfirmations } from '../../shared/money/coins/nano/nano-websocket.ts'
import type { NanoNode } from '../../devnet/nano-node/nano-node.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'
import { FULL } from '../support/full.ts'

const xno = 10n ** 30n
const keys = createNanoKeys(`${'0'.repeat(62)}2A`)
const [alice, bob] = [keys.deriveAccount(1).address, keys.deriveAccount(2).address]

/** A machine may stand still for seconds. */
const PATIENCE = { timeout: 20_000 }
/** A silence that a slow machine does not fall into between a question and its answer. */
const LONG_SILENCE_MS = 2_000

let node: NanoNode
let heard: NanoConfirmation[]
let states: string[]
const watches: NanoWatch[] = []
const peers: (() => Promise<void>)[] = []

function watch(options: Partial<NanoWatchOptions> = {}): NanoWatch {
  const started = watchNanoConfirmations({
    url: node.wsUrl,
    log: createLog('test', 'silent'),
    onConfirmation: (confirmation) => heard.push(confirmation),
    onState: (state) => states.push(state),
    retryMs: { min: 5, max: 40 },
    ...options,
  })
  watches.push(started)
  return started
}

async function listening(times = 1): Promise<void> {
  await vi.waitFor(
    () => expect(states.filter((state) => state === 'listening').length).toBeGreaterThanOrEqual(times),
    PATIENCE,
  )
}

async function heardAll(expected: readonly NanoConfirmation[]): Promise<void> {
  await vi.waitFor(() => expect(heard).toEqual(expected), PATIENCE)
}

function pay(address: string, amountRaw: bigint): NanoConfirmation {
  return { destination: address, amountRaw, hash: node.fund(address, amountRaw, { confirmed: true }) }
}

it('says once that nobody answers at the URL, and again after somebody has', async () => {
  const silences: string[] = []
  await node.setDown(true)
  watch({ onSilence: (reason) => silences.push(reason) })
  await vi.waitFor(() => expect(silences).toHaveLength(1), PATIENCE)
  await node.setDown(false)
  await listening()
  expect(silences).toHaveLength(1)
  await node.setDown(true)
  await vi.waitFor(() => expect(silences).toHaveLength(2), PATIENCE)
})

/** A websocket of no node: it does with each connection what the test says. */
async function startPeer(
  behave: (socket: ServerSocket, connection: number) => void,
): Promise<{ url: string; open(): number; total(): number }> {
  const server: Server = createServer()
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  let total = 0
  new WebSocketServer({ server, autoPong: false }).on('connection', (socket) => behave(socket, (total += 1)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  peers.push(async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of sockets) socket.destroy()
    await closed
  })
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open: () => sockets.size,
    total: () => total,
  }
}

/** Does what a node does with a subscription, and nothing else. */
function acknowledge(socket: ServerSocket): void {
  socket.on('message', (data: Buffer) => {
    const request = JSON.parse(data.toString()) as { action?: string; ack?: boolean }
    if (request.action === 'subscribe') socket.send(JSON.stringify({ ack: 'subscribe', time: '1' }))
  })
}

beforeEach(async () => {
  heard = []
  states = []
  node = await startNanoNode()
})

afterEach(async () => {
  for (const started of watches.splice(0)) started.close()
  for (const close of peers.splice(0)) await close()
  await node.close()
})

describe('confirmations', () => {
  it('of sends to anybody are told, with destination, hash and amount', async () => {
    watch()
    await listening()
    await heardAll([pay(alice, xno), pay(bob, 1n)])
  })

  it('of a block that waits are told when it is confirmed, not before', async () => {
    watch()
    await listening()
    const hash = node.fund(alice, xno)
    const other = pay(bob, xno) // confirms the block before it as well
    await heardAll([{ destination: alice, amountRaw: xno, hash }, other])
  })

  it('come twice where the node repeats itself, and are missing where it loses them', async () => {
    watch()
    await listening()
    node.dropNextWebsocketMessages(1)
    pay(alice, xno)
    node.duplicateWebsocketMessages(true)
    const second = pay(alice, 2n * xno)
    await heardAll([second, second])
  })

  it('go on after a listener has thrown', async () => {
    let isFirst = true
    watch({
      onConfirmation: (confirmation) => {
        heard.push(confirmation)
        if (isFirst) {
          isFirst = false
          throw new Error('the listener failed')
        }
      },
    })
    await listening()
    await heardAll([pay(alice, xno), pay(alice, xno)])
    expect(states).toEqual(['listening'])
  })

  it('of other kinds, malformed or incomplete are none', async () => {
    const block = { type: 'state', subtype: 'send', link_as_account: alice }
    const message = {
      account: bob,
      amount: '5',
      hash: 'AB'.repeat(32),
      confirmation_type: 'active_quorum',
      block,
    }
    const whole = { topic: 'confirmation', time: '1', message }
    const wrong: unknown[] = [
      'not json',
      [],
      null,
      { ...whole, topic: 'new_unconfirmed_block' },
      { ...whole, message: undefined },
      ...[
        { amount: '0' },
        { amount: 5 },
        { amount: '-1' },
        { amount: String(1n << 128n) },
        { amount: undefined },
      ].map((change) => ({
        ...whole,
        message: { ...message, ...change },
      })),
      ...[{ hash: 'AB' }, { hash: undefined }, { block: undefined }, { block: '{}' }].map((change) => ({
        ...whole,
        message: { ...message, ...change },
      })),
      ...[
        { subtype: 'receive' },
        { subtype: 'epoch' },
        { subtype: undefined },
        { type: 'send' },
        { link_as_account: `${alice.slice(0, -1)}1` },
      ].map((change) => ({ ...whole, message: { ...message, block: { ...block, ...change } } })),
      { ...whole, padding: 'x'.repeat(70_000) },
    ]
    const peer = await startPeer((socket) => {
      socket.on('message', () => {
        socket.send('{"ack": "subscribe", "time": "1"}')
        for (const one of wrong) socket.send(typeof one === 'string' ? one : JSON.stringify(one))
        socket.send(Buffer.from(JSON.stringify(whole)))
        socket.send(JSON.stringify(whole))
      })
    })
    watch({ url: peer.url })
    await heardAll([{ destination: alice, hash: 'AB'.repeat(32), amountRaw: 5n }])
    expect(states).toEqual(['listening'])
  })
})

describe('the connection', () => {
  it('is made again when the node cuts it, and says so', async () => {
    watch()
    await listening()
    const first = pay(alice, xno)
    await heardAll([first])
    node.disconnectWebsockets()
    await listening(2)
    expect(states).toEqual(['listening', 'disconnected', 'listening'])
    await heardAll([first, pay(alice, 2n * xno)])
    expect(node.websocket.connections).toBe(1)
  })

  it('waits out a node that is down, for as long as that takes', async () => {
    await node.setDown(true)
    watch()
    let attempts = 0
    const debug = vi.fn(() => (attempts += 1))
    watch({ log: { ...createLog('test', 'silent'), debug } as unknown as NanoWatchOptions['log'] })
    await vi.waitFor(() => expect(attempts).toBeGreaterThan(10), PATIENCE)
    expect(states).toEqual([])
    await node.setDown(false)
    await listening(2)
    await vi.waitFor(() => expect(node.websocket.subscribers('confirmation')).toBe(2), PATIENCE)
  })

  it.runIf(FULL)('is kept alive by asking the node for a sign of life', async () => {
    let pings = 0
    const peer = await startPeer((socket) => {
      acknowledge(socket)
      socket.on('message', (data: Buffer) => {
        if ((JSON.parse(data.toString()) as { action?: string }).action !== 'ping') return
        pings += 1
        socket.send('{"ack": "pong", "time": "1"}')
      })
    })
    watch({ url: peer.url, silenceMs: LONG_SILENCE_MS })
    // The third ping is asked for after three silences; the connection would have ended after two.
    await vi.waitFor(() => expect(pings).toBe(3), PATIENCE)
    expect(states).toEqual(['listening'])
    expect(peer.total()).toBe(1)
  })

  it('is not given up while the node answers its pings', async () => {
    watch({ silenceMs: LONG_SILENCE_MS })
    await listening()
    const sockets = node.websocket.connections
    await vi.waitFor(() => expect(node.websocket.pings).toBeGreaterThanOrEqual(3), PATIENCE)
    expect([sockets, node.websocket.connections, states]).toEqual([1, 1, ['listening']])
    await heardAll([pay(alice, xno)])
  })

  it('counts as dead when the node falls silent', async () => {
    const peer = await startPeer((socket) => acknowledge(socket))
    watch({ url: peer.url, silenceMs: 400 })
    await listening(2)
    expect(states.slice(0, 3)).toEqual(['listening', 'disconnected', 'listening'])
    expect(peer.total()).toBeGreaterThanOrEqual(2)
  })

  it('counts as dead when the subscription is not acknowledged', async () => {
    const peer = await startPeer((socket, connection) => {
      if (connection > 2) acknowledge(socket)
    })
    watch({ url: peer.url, silenceMs: 400 })
    await listening()
    expect(peer.total()).toBeGreaterThanOrEqual(3)
  })

  it('is not opened again and again to a peer that never closes one: four at the most', async () => {
    let connections = 0
    const peer = await startPeer((socket) => {
      acknowledge(socket)
      // Reads no more once it has acknowledged, and so never answers the closing frame.
      socket.once('message', () => {
        connections += 1
        socket.pause()
      })
    })
    const notes: unknown[] = []
    const debug = (fields: { reason?: unknown }): void => void notes.push(fields.reason)
    watch({
      url: peer.url,
      silenceMs: 200,
      log: { ...createLog('test', 'silent'), debug } as unknown as NanoWatchOptions['log'],
    })
    await vi.waitFor(
      () =>
        expect(
          notes.filter((reason) => String(reason).startsWith('too many connections')).length,
        ).toBeGreaterThan(3),
      PATIENCE,
    )
    expect(connections).toBe(4)
    expect(peer.open()).toBe(4)
  })

  it('is closed for good by close(), and nothing is told after that', async () => {
    const started = watch()
    await listening()
    started.close()
    pay(alice, xno)
    await vi.waitFor(() => expect(node.websocket.connections).toBe(0), PATIENCE)
    expect(heard).toEqual([])
    expect(states).toEqual(['listening'])
  })

  it('is not made again, and no silence counts, after close()', async () => {
    const silenceMs = 400
    const quiet = watch({
      silenceMs,
      onState: (state) => {
        states.push(state)
        quiet.close()
      },
    })
    await listening()
    await node.setDown(true)
    const attempts: unknown[] = []
    const log = {
      ...createLog('test', 'silent'),
      debug: (fields: unknown) => attempts.push(fields),
    } as unknown as NanoWatchOptions['log']
    const retrying = watch({ log })
    await vi.waitFor(() => expect(attempts.length).toBeGreaterThan(4), PATIENCE)
    retrying.close()
    await node.setDown(false)
    watch()
    await listening(2)
    // Three silences, in which either of the two that are closed would have shown.
    await sleep(3 * silenceMs)
    expect(states).toEqual(['listening', 'listening'])
    expect(node.websocket.connections).toBe(1)
  })

  it('is tried again sooner after it has worked than while it keeps failing', async () => {
    const delays: number[] = []
    const debug = (fields: { delayMs?: number }): void =>
      void (fields.delayMs !== undefined && delays.push(fields.delayMs))
    await node.setDown(true)
    watch({
      retryMs: { min: 8, max: 200 },
      log: { ...createLog('test', 'silent'), debug } as unknown as NanoWatchOptions['log'],
    })
    await vi.waitFor(() => expect(delays.at(-1)).toBeGreaterThanOrEqual(100), PATIENCE)
    expect(Math.max(...delays)).toBeLessThanOrEqual(200)
    expect(delays[0]).toBeLessThanOrEqual(8)
    await node.setDown(false)
    await listening()
    const before = delays.length
    node.disconnectWebsockets()
    await listening(2)
    expect(delays[before]).toBeLessThanOrEqual(8)
  })

  it('is not made at all once close() was called before it was there', async () => {
    const started = watch()
    started.close()
    watch()
    await listening()
    await vi.waitFor(() => expect(node.websocket.connections).toBe(1), PATIENCE)
    expect(states).toEqual(['listening'])
  })

  it('carries user and password in a header', async () => {
    const seen: (string | undefined)[] = []
    const server = createServer()
    new WebSocketServer({ server }).on('connection', (socket, request) => {
      seen.push(request.headers.authorization)
      acknowledge(socket)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    peers.push(async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    })
    const started = watch({ url: `ws://venue:p%40ss@127.0.0.1:${(server.address() as AddressInfo).port}` })
    await listening()
    started.close()
    expect(seen).toEqual([`Basic ${Buffer.from('venue:p@ss').toString('base64')}`])
  })

  it('needs a websocket URL, and does not repeat another', () => {
    expect(() => watch({ url: 'http://venue:secret@localhost' })).toThrow(
      /^"url" expected a URL that begins with ws:\/\/ or wss:\/\/$/,
    )
  })
})
