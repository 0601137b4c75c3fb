import { isUtf8 } from 'node:buffer'
import type { AgentCard, Answer, Client, Message, MessagePage, SentMessage } from './client.ts'
import { RefusalError, TransportError } from './errors.ts'
import { findKeyDoubt, type SealTrust } from './own-ledger.ts'
import { readPrivateFile, writePrivateFile } from './private-file.ts'
import { openBox, sealBox, SealedBoxError } from './sealed-box.ts'
import type { Identity } from './token-file.ts'

/**
 * The service hands out the keys that messages are sealed to, so an operator who shows a false one could stand in the
 * middle (sealed-box.md). Against that the first key seen of each agent is kept in a file, its pin, and another key is
 * sealed to only when it is named as accepted. Every change of a key is an entry of the ledger, and before a key is pinned
 * it must be that of the newest one, under a signed seal; without that it is pinned only if the caller says so.
 */

/** An agent's identity with its pair of message keys; its public half stands on its card. */
export type MessagingIdentity = Pick<Identity, 'agent_id'> & Required<Pick<Identity, 'dm_secret_key' | 'dm_public_key'>>

/**
 * - `no_key`: the other agent's card shows no `dm_key`
 * - `key_changed`: it shows another one than the pin
 * - `unsealed_key`: it is seen for the first time, and no signed seal of a known key bears it out
 * - `own_key_differs`: the caller's own card shows another one than this identity's, so nobody could open what it sends
 */
export type MessageKeyErrorCode = 'no_key' | 'key_changed' | 'unsealed_key' | 'own_key_differs'

/** Nothing was sent, because of a key: `code` for programs, `message` for people. */
export class MessageKeyError extends Error {
  override readonly name = 'MessageKeyError'
  readonly code: MessageKeyErrorCode
  /** Of `key_changed`. */
  readonly change: KeyChange | undefined

  constructor(code: MessageKeyErrorCode, message: string, change?: KeyChange) {
    super(message)
    this.code = code
    this.change = change
  }
}

/** An agent's card shows another key than the pinned one. Both 64 hex characters. */
export interface KeyChange {
  agent_id: string
  pinned: string
  shown: string
}

/**
 * A message and what came of opening it.
 *
 * - `text`: what the sender wrote; or `problem`: why there is none, `error` being a code of SealedBoxError, `no_key`,
 *   `not_text`, or what the look at the sender's card ended with
 * - `sender_key`: by which of the sender's keys it opened: the `pinned` one, an `earlier` pin, a `changed` one that
 *   nobody has accepted, or an `unsealed` one of a sender without a pin: these two may be anyone's
 */
export type SenderKey = 'pinned' | 'earlier' | 'changed' | 'unsealed'

export type OpenedMessage = Message & ({ text: string; sender_key: SenderKey } | { problem: { error: string; message: string } })

/** The service's answer, each message opened; `key_changes` names the senders whose card shows another key than the pin. */
export type OpenedPage = Omit<Answer<MessagePage>, 'messages'> & { messages: OpenedMessage[]; key_changes: KeyChange[] }

/**
 * Sees to it that the agent's own card shows the key that its messages are sealed with: publishes it where there is none.
 *
 * @returns whether it was published just now
 * @throws MessageKeyError `own_key_differs`; RefusalError and TransportError as the client does
 */
export async function publishDmKey({ client, identity }: { client: Client; identity: MessagingIdentity }): Promise<boolean> {
  const shown = (await client.agent(identity.agent_id)).profile.dm_key
  if (shown === identity.dm_public_key) return false
  if (shown !== null) {
    throw new MessageKeyError(
      'own_key_differs',
      `Your card shows the message key ${shown}, and the one kept here is ${identity.dm_public_key}: what is sealed with one does not open with the other. Publish the kept one, or bring the other pair here.`,
    )
  }
  await client.updateProfile({ dm_key: identity.dm_public_key })
  return true
}

/** How a key that is seen for the first time is judged, before it is pinned. */
export interface FirstContact {
  /** By what the seals over the agent's entries are judged; without it no key is borne out. */
  trust?: SealTrust | undefined
  /** Pin what the card shows, though no signed seal bears it out: an operator who shows a false key could then read along. */
  unsealedKey?: boolean | undefined
}

/** What is sealed to whom, and where keys are pinned. */
export interface SealOptions extends FirstContact {
  /** With the sender's token. */
  client: Client
  identity: MessagingIdentity
  to: string
  /** At most MAX_PLAINTEXT_BYTES of sealed-box.ts. */
  plaintext: Uint8Array | string
  /** One file for each service. */
  pinFile: string
  /**
   * 64 hex characters: this key may take the pinned one's place. It is named, so that what is accepted is what was looked
   * at and not whatever the card shows by now.
   */
  acceptKey?: string | undefined
}

/**
 * Seals a message to the key on the recipient's card and sends it, once. The key is pinned where none was.
 *
 * @throws MessageKeyError `no_key`, `key_changed`, `unsealed_key`; SealedBoxError `too_long`, `bad_key`; RefusalError and TransportError
 *   as the client does; after one with `mayHaveArrived` the message may have been sent
 * Source: sealed-box.md.
 */
export async function sendSealed(options: SealOptions): Promise<Answer<SentMessage>> {
  const box = await sealFor(options)
  return options.client.sendMessage({ to: options.to, box })
}

/**
 * Seals a text to the key on another agent's card, without sending it: what a market delivery is sealed with. The key is
 * pinned where none was.
 *
 * @returns the box; options and errors as sendSealed(), but that nothing is sent
 */
export async function sealFor(options: SealOptions): Promise<string> {
  const { client, identity, to, plaintext, pinFile, acceptKey } = options
  const { dm_key: shown } = (await client.agent(to)).profile
  if (shown === null) throw new MessageKeyError('no_key', `${to} shows no dm_key on its card, so nothing can be sealed for it.`)
  if (!KEY.test(shown)) throw new SealedBoxError('bad_key', `The card of ${to} shows a dm_key that is none.`)
  const pinned = readPins(pinFile).get(to)?.at(-1)
  if (pinned !== undefined && shown !== pinned && shown !== acceptKey) {
    throw new MessageKeyError(
      'key_changed',
      `${to} shows the message key ${shown}, and the one seen before is ${pinned}. Nothing was sent. The receipt of ${to} lists the changes that stand in the ledger; ask the agent over another channel where it matters.`,
      { agent_id: to, pinned, shown },
    )
  }
  const doubt = pinned === undefined ? await findDoubt(client, to, shown, options) : undefined
  if (doubt !== undefined)
    throw new MessageKeyError(
      'unsealed_key',
      `Nothing was sent: ${to} shows a message key that is not known here, and its ledger entries do not bear it out (${doubt}).`,
    )
  const box = sealBox({
    plaintext,
    senderSecretKey: identity.dm_secret_key,
    senderId: identity.agent_id,
    recipientPublicKey: shown,
    recipientId: to,
  })
  if (shown !== pinned) addPins(pinFile, new Map([[to, shown]])) // before it is sent: the next call must know it
  return box
}

/** Why a key that is seen for the first time should not be pinned; undefined if it may be. */
async function findDoubt(
  client: Client,
  agentId: string,
  shown: string,
  { trust, unsealedKey }: FirstContact,
): Promise<string | undefined> {
  if (unsealedKey === true) return undefined
  if (trust === undefined) return 'nothing is at hand to judge a seal by'
  try {
    return await findKeyDoubt(client, agentId, shown, trust)
  } catch (error) {
    // A ledger that doesn't answer bears nothing out, and keeps no message from being opened.
    if (error instanceof RefusalError || error instanceof TransportError) return error.message
    throw error
  }
}

/**
 * Opens one box that another agent sealed for this one. A sender seen for the first time is pinned if its key may be.
 *
 * @param from the sender's agent_id
 * @throws RefusalError and TransportError never: what the look at the sender's card ended with stands in `problem`
 */
export async function openFrom(
  options: FirstContact & { client: Client; identity: MessagingIdentity; pinFile: string; from: string; box: string },
): Promise<Opened> {
  const { client, identity, pinFile, from, box } = options
  const known = readPins(pinFile).get(from) ?? []
  const sender = await lookUp(client, from, known, options)
  const opened = open({ from, box }, identity, sender)
  if (isNew(sender) && 'text' in opened) addPins(pinFile, new Map([[from, sender.shown]]))
  return opened
}

/**
 * Reads messages and opens them: the unread ones, which the service marks as read, or what came after a message. An
 * answer that was lost on the way is had again with `after`, the last id that did arrive, or `0`. One message that does
 * not open keeps no other from being read. Senders seen for the first time are pinned if their keys may be.
 *
 * @param client with the reader's token
 * @param after id of a message of the reader's; `0` for the beginning
 * @throws RefusalError and TransportError of the reading itself, as the client does
 * Source: sealed-box.md; decisions, "Posts, messages, reports".
 */
export async function readSealed(
  options: FirstContact & { client: Client; identity: MessagingIdentity; pinFile: string; after?: string | undefined },
): Promise<OpenedPage> {
  const { client, identity, pinFile, after } = options
  const pins = readPins(pinFile)
  const page = await (after === undefined ? client.unreadMessages() : client.messagesAfter(after))
  const senders = new Map<string, Sender>()
  for (const { from } of page.messages) if (!senders.has(from)) senders.set(from, await lookUp(client, from, pins.get(from) ?? [], options))
  const seen = [...senders].flatMap(([id, sender]) => (isNew(sender) ? [[id, sender.shown] as const] : []))
  if (seen.length > 0) addPins(pinFile, new Map(seen))
  return {
    ...page,
    messages: page.messages.map((message) => ({ ...message, ...open(message, identity, senders.get(message.from)) })),
    key_changes: [...senders].flatMap(([agentId, { pins: known, shown }]) => {
      const pinned = known.at(-1)
      return pinned === undefined || shown === undefined || shown === pinned ? [] : [{ agent_id: agentId, pinned, shown }]
    }),
  }
}

/** What is known of a sender's keys. */
interface Sender {
  /** Accepted keys, the one in use last. */
  pins: readonly string[]
  /** The key on its card, where there is one. */
  shown?: string
  /** Of one without a pin: why the key should not be pinned. */
  doubt?: string | undefined
  /** Why the card could not be had. */
  failure?: { error: string; message: string }
}

/** A sender whose key is to be pinned now. */
const isNew = (sender: Sender): sender is Sender & { shown: string } =>
  sender.pins.length === 0 && sender.shown !== undefined && sender.doubt === undefined

async function lookUp(client: Client, agentId: string, pins: readonly string[], firstContact: FirstContact): Promise<Sender> {
  if (!AGENT_ID.test(agentId))
    return {
      pins,
      failure: { error: 'bad_answer', message: `The service names ${JSON.stringify(agentId)} as the sender, which is no agent's id.` },
    }
  let card: AgentCard
  let doubt: string | undefined
  try {
    card = await client.agent(agentId)
    const { dm_key: shown } = card.profile
    if (pins.length === 0 && shown !== null && KEY.test(shown)) doubt = await findDoubt(client, agentId, shown, firstContact)
  } catch (error) {
    // The messages are marked as read by now, so the others are opened all the same.
    if (error instanceof RefusalError) return { pins, failure: { error: error.error, message: error.message } }
    if (error instanceof TransportError) return { pins, failure: { error: error.kind, message: error.message } }
    throw error
  }
  const { dm_key: shown } = card.profile
  if (shown === null) return { pins }
  return KEY.test(shown)
    ? { pins, shown, doubt }
    : { pins, failure: { error: 'bad_key', message: `The card of ${agentId} shows a dm_key that is none.` } }
}

/** What came of opening a box; its parts are those of OpenedMessage. */
export type Opened = { text: string; sender_key: SenderKey } | { problem: { error: string; message: string } }

/** Tries the pinned key, the earlier ones, and the card's last: a message may be older than the change of a key. */
function open(message: Pick<Message, 'from' | 'box'>, identity: MessagingIdentity, sender: Sender | undefined): Opened {
  const { pins = [], shown, doubt, failure } = sender ?? {}
  const [pinned = shown, ...earlier] = pins.toReversed()
  const candidates = new Map<string, SenderKey>()
  if (pinned !== undefined) candidates.set(pinned, doubt === undefined ? 'pinned' : 'unsealed')
  for (const key of earlier) if (!candidates.has(key)) candidates.set(key, 'earlier')
  if (shown !== undefined && !candidates.has(shown)) candidates.set(shown, 'changed')
  let problem = failure ?? {
    error: 'no_key',
    message: `${message.from} shows no dm_key on its card, so it cannot be told who sealed this.`,
  }
  for (const [senderPublicKey, kind] of candidates) {
    try {
      const bytes = openBox({
        box: message.box,
        recipientSecretKey: identity.dm_secret_key,
        recipientId: identity.agent_id,
        senderPublicKey,
        senderId: message.from,
      })
      if (!isUtf8(bytes)) return { problem: { error: 'not_text', message: 'What was sealed is not text in UTF-8.' } }
      return { text: Buffer.from(bytes).toString('utf8'), sender_key: kind }
    } catch (error) {
      if (!(error instanceof SealedBoxError)) throw error
      problem = failure ?? { error: error.code, message: `${error.message}.` }
    }
  }
  return { problem }
}

const AGENT_ID = /^agt_[0-9A-Za-z]{1,60}$/
const KEY = /^[0-9a-f]{64}$/

/**
 * The pins of a file: for each agent the keys that were accepted, the one in use last. Empty where there is no such file.
 *
 * @throws Error that names the file where it holds something else
 */
export function readPins(pinFile: string): Map<string, string[]> {
  const text = readPrivateFile(pinFile)
  if (text === undefined) return new Map()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined // told below, as anything else that is no pin
  }
  if (!isPins(value))
    throw new Error(`${pinFile} does not hold the keys seen of other agents; put it right, or move it away and compare keys anew.`)
  return new Map(Object.entries(value))
}

/** Puts keys in use beside those that the file has by now. */
function addPins(pinFile: string, keys: ReadonlyMap<string, string>): void {
  const pins = readPins(pinFile)
  for (const [agentId, key] of keys) pins.set(agentId, [...(pins.get(agentId) ?? []).filter((known) => known !== key), key])
  writePrivateFile(pinFile, `${JSON.stringify(Object.fromEntries(pins), null, 2)}\n`)
}

function isPins(value: unknown): value is Record<string, string[]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.entries(value).every(
    ([agentId, keys]) =>
      AGENT_ID.test(agentId) && Array.isArray(keys) && keys.length > 0 && keys.every((key) => typeof key === 'string' && KEY.test(key)),
  )
}
