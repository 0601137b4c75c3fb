import { readFileSync } from 'node:fs'

import { parseTree, readTree } from '../../devnet/nano-node/json-tree.ts'
import type { NanoNode } from '../../devnet/nano-node/nano-node.ts'
import { startNanoNode } from '../../devnet/nano-node/nano-node.ts'

interface RecordedEvent {
  readonly title: string
  readonly text: string
}

export function readWebsocketTranscript(): RecordedEvent[] {
  const text = readFileSync(new URL('../vectors/nano/websocket-transcript.md', import.meta.url), 'utf8')
  return [...text.matchAll(/\*\*(.+?)\*\* \([\d.]+ s\)\n```json\n(.*?)\n```/gs)].map((match) => ({
    title: match[1] ?? '',
    text: match[2] ?? '',
  }))
}

/** A websocket that keeps what it gets until somebody asks for it. */
export class WebsocketClient {
  readonly socket: WebSocket
  private readonly messages: string[] = []
  private readonly waiting: ((text: string | null) => void)[] = []
  private isClosed = false

  private constructor(url: string) {
    this.socket = new WebSocket(url)
    this.socket.addEventListener('message', (event) => {
      const text = String(event.data)
      const next = this.waiting.shift()
      if (next === undefined) this.messages.push(text)
      else next(text)
    })
    this.socket.addEventListener('close', () => {
      this.isClosed = true
      for (const resolve of this.waiting.splice(0)) resolve(null)
    })
  }

  static async connect(url: string): Promise<WebsocketClient> {
    const client = new WebsocketClient(url)
    await new Promise<void>((resolve, reject) => {
      client.socket.addEventListener('open', () => resolve(), { once: true })
      client.socket.addEventListener('error', () => reject(new Error(`no websocket at ${url}`)), {
        once: true,
      })
    })
    return client
  }

  send(message: unknown): void {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message))
  }

  /** The next message as it was sent, or null once the connection is closed. */
  async next(): Promise<string | null> {
    const text = this.messages.shift()
    if (text !== undefined || this.isClosed) return text ?? null
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  async nextFields(): Promise<Record<string, unknown>> {
    const text = await this.next()
    if (text === null) throw new Error('the websocket closed instead of a message')
    return JSON.parse(text) as Record<string, unknown>
  }

  close(): void {
    this.socket.close()
  }
}

/**
 * Clocks, and the weight of the votes: the recorded node still counted what the account had before its send.
 */
const volatileFields = ['time', 'duration', 'tally', 'final']

export function maskWebsocketMessage(text: string): string {
  return text.trimEnd().replace(new RegExp(`("(?:${volatileFields.join('|')})": )"\\d+"`, 'g'), '$1"*"')
}

export interface ReplayedMessage {
  readonly recorded: string
  readonly received: string | null
}

async function process(node: NanoNode, message: string): Promise<void> {
  const block: unknown = (JSON.parse(message) as { message: unknown }).message
  await fetch(node.rpcUrl, {
    method: 'POST',
    body: JSON.stringify({ action: 'process', json_block: 'true', block }),
  })
}

/**
 * Sends what was sent and gives every message received beside the recorded one. Blocks are those of the
 * recording; they are processed and confirmed when a message or a callback says that they were.
 */
export async function replayWebsocket(events: readonly RecordedEvent[]): Promise<ReplayedMessage[]> {
  const node = await startNanoNode({ genesisEpoch: 0 })
  const replayed: ReplayedMessage[] = []
  let client: WebsocketClient | null = null
  const connected = (): WebsocketClient => {
    if (client === null) throw new Error('the transcript starts with a handshake')
    return client
  }
  try {
    for (const { title, text } of events) {
      if (title === 'websocket handshake answer') {
        client = await WebsocketClient.connect(node.wsUrl)
      } else if (title === 'websocket -> node') {
        connected().send(text)
      } else if (title === 'websocket closed') {
        replayed.push({ recorded: 'closed', received: (await connected().next()) ?? 'closed' })
      } else if (title === 'HTTP callback received') {
        node.confirm(readTree(parseTree(text.slice(text.indexOf('\n\n')))).text('hash'))
      } else if (title === 'websocket <- node') {
        const message = JSON.parse(text) as { topic?: string; message?: { hash?: string } }
        if (message.topic === 'new_unconfirmed_block') await process(node, text)
        if (message.topic === 'confirmation') node.confirm(message.message?.hash ?? '')
        replayed.push({ recorded: text, received: await connected().next() })
      }
    }
    connected().close()
  } finally {
    await node.close()
  }
  return replayed
}
