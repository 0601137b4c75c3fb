import type { Server } from 'node:http'
import type { WebSocket } from 'ws'
import { WebSocketServer } from 'ws'

import { blockContents } from './block.ts'
import { describeTally, type ElectionResult } from './elections.ts'
import { decodeAddress, encodeAddress } from './encoding.ts'
import type { Tree } from './json-tree.ts'
import { childTexts, formatTree, parseTree, readTree, UnreadableRequest } from './json-tree.ts'
import type { LedgerBlock } from './ledger.ts'

const topics = new Set([
  'confirmation',
  'started_election',
  'stopped_election',
  'vote',
  'ack',
  'work',
  'bootstrap',
  'telemetry',
  'new_unconfirmed_block',
])

/** Which results each value of the option `confirmation_type` lets through; any other value, all. */
const confirmationTypes: { readonly [name: string]: readonly string[] } = {
  active: ['active_quorum', 'active_confirmation_height'],
  active_quorum: ['active_quorum'],
  active_confirmation_height: ['active_confirmation_height'],
  inactive: ['inactive'],
}

interface ConfirmationOptions {
  readonly includeBlock: boolean
  readonly includeElectionInfo: boolean
  readonly includeSidebandInfo: boolean
  /** Of results; null: all. */
  readonly types: readonly string[] | null
  /** Public keys; null: all accounts. An empty set lets nothing through. */
  accounts: Set<string> | null
}

/** Reads the options of a subscription to `confirmation`; without any, the node's defaults. */
function readOptions(tree: Tree | undefined): ConfirmationOptions {
  const options = readTree(tree)
  // There is no wallet here, so no account passes the filter "all local accounts".
  const hasFilter = options.has('accounts') || options.has('all_local_accounts')
  return {
    includeBlock: options.flag('include_block', true),
    includeElectionInfo: options.flag('include_election_info', false),
    includeSidebandInfo: options.flag('include_sideband_info', false),
    types: confirmationTypes[(options.optionalText('confirmation_type') ?? 'all').toLowerCase()] ?? null,
    accounts: hasFilter ? new Set(readKeys(options.child('accounts'))) : null,
  }
}

/** The public keys of a list of addresses, without those that are invalid. */
function readKeys(list: Tree | undefined): string[] {
  return childTexts(list ?? '')
    .map(decodeAddress)
    .filter((publicKey) => publicKey !== null)
}

/** Adds accounts to a subscription's filter and takes others out, as the request's options say. */
function updateOptions(current: ConfirmationOptions, tree: Tree): void {
  const options = readTree(tree)
  if (!options.has('accounts_add') && !options.has('accounts_del')) return
  const accounts = current.accounts ?? new Set<string>()
  for (const publicKey of readKeys(options.child('accounts_add'))) accounts.add(publicKey)
  for (const publicKey of readKeys(options.child('accounts_del'))) accounts.delete(publicKey)
  current.accounts = accounts
}

/** Whether a subscription's options let the confirmation of a block through. */
function isWanted(options: ConfirmationOptions, entry: LedgerBlock, result: ElectionResult): boolean {
  if (options.types !== null && !options.types.includes(result.type)) return false
  if (options.accounts === null) return true
  // The node matches the accounts of the block in the message, so without the block nothing passes.
  if (!options.includeBlock || entry.block.type !== 'state') return false
  return options.accounts.has(entry.account) || options.accounts.has(entry.block.link)
}

/** A block's fields as the node shows them, with its subtype. */
function blockWithSubtype(entry: LedgerBlock): Tree {
  return { ...blockContents(entry.block), ...(entry.kind === null ? {} : { subtype: entry.kind }) }
}

/** The message of a confirmation, with the parts that the subscription's options ask for. */
function confirmationMessage(entry: LedgerBlock, result: ElectionResult, options: ConfirmationOptions): Tree {
  const message: { [name: string]: Tree } = {
    account: encodeAddress(entry.account),
    amount: entry.amount.toString(),
    hash: entry.hash,
    confirmation_type: result.type,
  }
  if (options.includeElectionInfo) message['election_info'] = describeTally(result)
  if (options.includeBlock) message['block'] = blockWithSubtype(entry)
  if (options.includeSidebandInfo)
    message['sideband'] = { height: String(entry.height), local_timestamp: String(entry.timestampS) }
  return message
}

interface Session {
  readonly socket: WebSocket
  readonly subscriptions: Map<string, ConfirmationOptions>
}

/** The node's websocket: connections and their subscriptions. Tests can drop and duplicate messages. */
export class WebsocketHub {
  /** How many of the next topic messages to drop; answers to requests are never dropped. */
  dropNext = 0
  /** Whether to send every topic message twice. */
  isDuplicating = false
  /** How many topic messages were sent, dropped, and how many pings were answered. */
  sent = 0
  dropped = 0
  pings = 0
  private readonly sessions = new Set<Session>()

  /** Takes the websocket connections that come to an HTTP server. */
  attach(httpServer: Server): void {
    const server = new WebSocketServer({ server: httpServer })
    server.on('connection', (socket) => {
      const session: Session = { socket, subscriptions: new Map() }
      this.sessions.add(session)
      socket.on('close', () => this.sessions.delete(session))
      // The peer has vanished; the event "close" follows and removes the session.
      socket.on('error', () => socket.terminate())
      socket.on('message', (data) => this.handle(session, data.toString()))
    })
  }

  get connectionCount(): number {
    return this.sessions.size
  }

  /** How many connections are subscribed to a topic. */
  subscriberCount(topic: string): number {
    return [...this.sessions].filter((session) => session.subscriptions.has(topic)).length
  }

  disconnectAll(): void {
    for (const session of this.sessions) session.socket.terminate()
  }

  /** Carries out a client's request; one that is not JSON cuts the connection. */
  private handle(session: Session, text: string): void {
    let request
    try {
      request = readTree(parseTree(text))
    } catch (error) {
      if (!(error instanceof UnreadableRequest)) throw error
      session.socket.terminate()
      return
    }
    const action = request.optionalText('action') ?? ''
    const topic = request.optionalText('topic') ?? ''
    const options = request.child('options')
    const existing = session.subscriptions.get(topic)
    let isDone = false
    if (action === 'subscribe' && topics.has(topic)) {
      session.subscriptions.set(topic, readOptions(topic === 'confirmation' ? options : undefined))
      isDone = true
    } else if (
      action === 'update' &&
      existing !== undefined &&
      options !== undefined &&
      topic === 'confirmation'
    ) {
      updateOptions(existing, options)
      isDone = true
    } else if (action === 'unsubscribe' && topics.has(topic)) {
      session.subscriptions.delete(topic)
      isDone = true
    }
    const isPing = action === 'ping'
    if (isPing) this.pings += 1
    if (!isPing && !(isDone && request.flag('ack', false))) return
    const answer: { [name: string]: Tree } = { ack: isPing ? 'pong' : action, time: String(Date.now()) }
    const id = request.optionalText('id') ?? ''
    if (id !== '') answer['id'] = id
    session.socket.send(formatTree(answer))
  }

  blockProcessed(entry: LedgerBlock): void {
    this.publish('new_unconfirmed_block', () => ({ hash: entry.hash, message: blockWithSubtype(entry) }))
  }

  blockConfirmed(entry: LedgerBlock, result: ElectionResult): void {
    this.publish('confirmation', (options) =>
      isWanted(options, entry, result) ? { message: confirmationMessage(entry, result, options) } : null,
    )
  }

  /**
   * Sends a message to all subscribers of a topic; drops or repeats it as tests have asked.
   *
   * @param compose makes the message's fields from the subscription's options; null to send nothing
   */
  private publish(
    topic: string,
    compose: (options: ConfirmationOptions) => { [name: string]: Tree } | null,
  ): void {
    for (const { socket, subscriptions } of this.sessions) {
      const options = subscriptions.get(topic)
      const fields = options === undefined ? null : compose(options)
      if (fields === null) continue
      if (this.dropNext > 0) {
        this.dropNext -= 1
        this.dropped += 1
        continue
      }
      const text = formatTree({ topic, time: String(Date.now()), ...fields })
      for (let copy = this.isDuplicating ? 2 : 1; copy > 0; copy -= 1) {
        socket.send(text)
        this.sent += 1
      }
    }
  }
}
