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
  /** Null: all. */
  readonly types: readonly string[] | null
  /** Public keys; null: all accounts. An empty set lets nothing through. */
  accounts: Set<string> | null
}

function readOptions(tree: Tree | undefined): ConfirmationOptions {
  const options = readTree(tree)
  // There is no wallet here, so no account passes the filter "all local accounts".
  const filters = options.has('accounts') || options.has('all_local_accounts')
  return {
    includeBlock: options.flag('include_block', true),
    includeElectionInfo: options.flag('include_election_info', false),
    includeSidebandInfo: options.flag('include_sideband_info', false),
    types: confirmationTypes[(options.optionalText('confirmation_type') ?? 'all').toLowerCase()] ?? null,
    accounts: filters ? new Set(readKeys(options.child('accounts'))) : null,
  }
}

function readKeys(list: Tree | undefined): string[] {
  return childTexts(list ?? '')
    .map(decodeAddress)
    .filter((publicKey) => publicKey !== null)
}

function updateOptions(current: ConfirmationOptions, tree: Tree): void {
  const options = readTree(tree)
  if (!options.has('accounts_add') && !options.has('accounts_del')) return
  const accounts = current.accounts ?? new Set<string>()
  for (const publicKey of readKeys(options.child('accounts_add'))) accounts.add(publicKey)
  for (const publicKey of readKeys(options.child('accounts_del'))) accounts.delete(publicKey)
  current.accounts = accounts
}

function passes(options: ConfirmationOptions, entry: LedgerBlock, result: ElectionResult): boolean {
  if (options.types !== null && !options.types.includes(result.type)) return false
  if (options.accounts === null) return true
  // The node matches the accounts of the block in the message, so without the block nothing passes.
  if (!options.includeBlock || entry.block.type !== 'state') return false
  return options.accounts.has(entry.account) || options.accounts.has(entry.block.link)
}

function blockWithSubtype(entry: LedgerBlock): Tree {
  return { ...blockContents(entry.block), ...(entry.kind === null ? {} : { subtype: entry.kind }) }
}

function confirmationMessage(entry: LedgerBlock, result: ElectionResult, options: ConfirmationOptions): Tree {
  const electionInfo = describeTally(result)
  return {
    account: encodeAddress(entry.account),
    amount: entry.amount.toString(),
    hash: entry.hash,
    confirmation_type: result.type,
    ...(options.includeElectionInfo ? { election_info: electionInfo } : {}),
    ...(options.includeBlock ? { block: blockWithSubtype(entry) } : {}),
    ...(options.includeSidebandInfo
      ? { sideband: { height: String(entry.height), local_timestamp: String(entry.timestampS) } }
      : {}),
  }
}

interface Session {
  readonly socket: WebSocket
  readonly subscriptions: Map<string, ConfirmationOptions>
}

/** The node's subscriptions; tests can drop and duplicate their messages. */
export class WebsocketHub {
  /** How many of the next topic messages to drop; answers to requests are never dropped. */
  dropNext = 0
  /** Sends every topic message twice. */
  duplicate = false
  sent = 0
  dropped = 0
  pings = 0
  private readonly sessions = new Set<Session>()

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
    let done = false
    if (action === 'subscribe' && topics.has(topic)) {
      session.subscriptions.set(topic, readOptions(topic === 'confirmation' ? options : undefined))
      done = true
    } else if (
      action === 'update' &&
      existing !== undefined &&
      options !== undefined &&
      topic === 'confirmation'
    ) {
      updateOptions(existing, options)
      done = true
    } else if (action === 'unsubscribe' && topics.has(topic)) {
      session.subscriptions.delete(topic)
      done = true
    }
    const isPing = action === 'ping'
    if (isPing) this.pings += 1
    if (!isPing && !(done && request.flag('ack', false))) return
    const id = request.optionalText('id') ?? ''
    session.socket.send(
      formatTree({ ack: isPing ? 'pong' : action, time: String(Date.now()), ...(id === '' ? {} : { id }) }),
    )
  }

  blockProcessed(entry: LedgerBlock): void {
    this.publish('new_unconfirmed_block', () => ({ hash: entry.hash, message: blockWithSubtype(entry) }))
  }

  blockConfirmed(entry: LedgerBlock, result: ElectionResult): void {
    this.publish('confirmation', (options) =>
      passes(options, entry, result) ? { message: confirmationMessage(entry, result, options) } : null,
    )
  }

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
      for (let copy = this.duplicate ? 2 : 1; copy > 0; copy -= 1) {
        socket.send(text)
        this.sent += 1
      }
    }
  }
}
