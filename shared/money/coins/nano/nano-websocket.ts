import { z } from 'zod'
import type { Log } from '../../../platform/log.ts'
import { SECOND_MS } from '../../../platform/time.ts'
import { address, hash, raw } from './nano-answers.ts'
import { readNodeUrl, type NodeUrl } from './node-http.ts'

export interface NanoConfirmation {
  readonly destination: string
  readonly hash: string
  readonly amountRaw: bigint
}

export interface NanoWatchOptions {
  /** User and password in it become a header and are in no message. */
  readonly url: string
  readonly log: Log
  readonly onConfirmation: (confirmation: NanoConfirmation) => void
  /** Polling finds what was confirmed before `listening`. `disconnected` follows only a `listening`. */
  readonly onState: (state: 'listening' | 'disconnected') => void
  /** Called once for each time that nobody listens at the URL: at the second attempt that came to nothing. */
  readonly onSilence?: (reason: string) => void
  /** A connection silent for this long is asked for a sign of life, and is dead after as long again. */
  readonly silenceMs?: number
  /** Between two attempts to connect: doubled from the first to the second. */
  readonly retryMs?: { readonly min: number; readonly max: number }
}

const SILENCE_MS = 20 * SECOND_MS
/** Attempts before it is said that nobody answers, counted from the last time that somebody did. */
const SILENT_ATTEMPTS = 1
const RETRY_MS = { min: 1 * SECOND_MS, max: 60 * SECOND_MS }
const MAX_MESSAGE_CHARACTERS = 64 * 1024
/** Closing may wait without end for a peer that is gone; beyond this many no connection is opened. */
const MAX_LINGERING = 4

const acknowledgement = z.object({ ack: z.literal('subscribe') })
/** `link_as_account` of a send is its destination; `message.account` would be the sender. */
const confirmation = z.object({
  topic: z.literal('confirmation'),
  message: z.object({
    amount: raw.refine((amountRaw) => amountRaw > 0n),
    hash,
    block: z.object({ type: z.literal('state'), subtype: z.literal('send'), link_as_account: address }),
  }),
})

export type NanoWatch = ReturnType<typeof watchNanoConfirmations>

/**
 * Listens to a node for confirmed sends of the whole network, and reconnects for ever. (A filter by
 * account is lost with the connection, and a node drops all of it in silence over one address it can't
 * read.) What arrives is a hint to scan, never a payment.
 *
 * @throws TypeError for a URL that is not ws:// or wss://
 */
export function watchNanoConfirmations(options: NanoWatchOptions) {
  const { log, onConfirmation, onState, silenceMs = SILENCE_MS, retryMs = RETRY_MS } = options
  const node = readNodeUrl(options.url, 'ws')
  let current: WebSocket | undefined
  /** Connections given up and not closed yet. */
  const lingering = new Set<WebSocket>()
  let isListening = false
  let attempts = 0
  let retryTimer: NodeJS.Timeout | undefined
  let silenceTimer: NodeJS.Timeout | undefined

  /** Opens a connection; too many that do not close put it off. */
  function connect(): void {
    if (lingering.size >= MAX_LINGERING) {
      retryLater('too many connections that the node does not close')
      return
    }
    const socket = openSubscribed(node, log)
    current = socket
    // No answer to the handshake or to the subscription is silence as well.
    expectSign(socket, false)
    socket.addEventListener('message', (event) => {
      if (socket !== current) return
      if (isListening) expectSign(socket, true)
      take(socket, readMessage(event.data))
    })
    socket.addEventListener('close', () => {
      lingering.delete(socket)
      if (socket === current) giveUp('the connection was closed')
    })
  }

  /** Gives the connection up if it stays silent; with `mayAsk` it is asked for a sign of life first. */
  function expectSign(socket: WebSocket, mayAsk: boolean): void {
    clearTimeout(silenceTimer)
    silenceTimer = setTimeout(() => {
      if (!mayAsk) {
        giveUp('the node is silent')
        return
      }
      socket.send(JSON.stringify({ action: 'ping' }))
      expectSign(socket, false)
    }, silenceMs)
  }

  /** Reports a confirmed send, or that the subscription is acknowledged. */
  function take(socket: WebSocket, message: Message): void {
    if (message.kind === 'confirmed') notify(() => onConfirmation(message.send))
    if (message.kind !== 'acknowledged' || isListening) return
    isListening = true
    attempts = 0
    expectSign(socket, true)
    notify(() => onState('listening'))
  }

  /** Drops the connection, and tries again later. */
  function giveUp(reason: string): void {
    clearTimeout(silenceTimer)
    const socket = current
    current = undefined
    if (socket !== undefined && socket.readyState !== WebSocket.CLOSED) {
      lingering.add(socket)
      socket.close()
    }
    const wasListening = isListening
    isListening = false
    retryLater(reason)
    if (wasListening) notify(() => onState('disconnected'))
  }

  /** Connects again after a pause that doubles each time. */
  function retryLater(reason: string): void {
    if (attempts === SILENT_ATTEMPTS) notify(() => options.onSilence?.(reason))
    const delayMs = pauseAfter(attempts, retryMs)
    attempts += 1
    log.debug({ node: node.origin, reason, delayMs }, 'Nano websocket: trying again')
    clearTimeout(retryTimer)
    retryTimer = setTimeout(connect, delayMs)
  }

  /** Calls a callback, and logs its error. */
  function notify(callback: () => void): void {
    try {
      callback()
    } catch (error) {
      log.error({ err: error }, 'a listener to the Nano websocket failed')
    }
  }

  connect()
  return {
    /** Closes the connection; no callback is called from here on. */
    close: () => {
      clearTimeout(retryTimer)
      clearTimeout(silenceTimer)
      const socket = current
      current = undefined
      socket?.close()
    },
  }
}

/** Opens a connection that subscribes to all confirmations once it is open. */
function openSubscribed(node: NodeUrl, log: Log): WebSocket {
  const socket = new WebSocket(node.href, { headers: node.headers })
  const subscription = JSON.stringify({ action: 'subscribe', topic: 'confirmation', ack: true })
  socket.addEventListener('open', () => socket.send(subscription))
  socket.addEventListener('error', (event) => log.debug({ reason: describe(event) }, 'Nano websocket'))
  return socket
}

/** How long to wait after so many attempts in vain: half of it is left to chance, so that not all come back at once. */
function pauseAfter(attempts: number, { min, max }: { readonly min: number; readonly max: number }): number {
  const ceilingMs = Math.min(max, min * 2 ** Math.min(attempts, 30))
  return Math.ceil(ceilingMs * (0.5 + Math.random() / 2))
}

type Message =
  /** The node has taken the subscription. */
  | { readonly kind: 'acknowledged' }
  | { readonly kind: 'confirmed'; readonly send: NanoConfirmation }
  /** A pong, a receive or a change, or nothing that a node says. */
  | { readonly kind: 'other' }

function readMessage(data: unknown): Message {
  if (typeof data !== 'string' || data.length > MAX_MESSAGE_CHARACTERS) return { kind: 'other' }
  const message = parseJson(data)
  if (acknowledgement.safeParse(message).success) return { kind: 'acknowledged' }
  const read = confirmation.safeParse(message)
  if (!read.success) return { kind: 'other' }
  const { amount: amountRaw, hash: sendHash, block } = read.data.message
  return { kind: 'confirmed', send: { destination: block.link_as_account, hash: sendHash, amountRaw } }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** undici's error event carries an error; the standard's has nothing. */
function describe(event: Event): string {
  const error: unknown = 'error' in event ? event.error : undefined
  return error instanceof Error ? error.message : 'failed'
}
