import { isUtf8 } from 'node:buffer'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { formatNote, parseNote } from '../shared/crypto/note.ts'
import type {
  GetAgentAnswer,
  Answer,
  Client,
  Message,
  ReadMessagesAnswer,
  SendMessageAnswer,
} from './client.ts'
import { CodedError, isFailedCall, TransportError } from './errors.ts'
import { judgeKey, type KeyJudgement } from './own-ledger.ts'
import { withFileLock, readPrivateFile, writePrivateFile } from './private-file.ts'
import { formOf, openBoxWithNote, sealBox, SealedBoxError, type Purpose } from './sealed-box.ts'
import type { Identity } from './token-file.ts'
import { findLogFork, type LogFork } from './verify-receipt.ts'
import { recall } from './verify/state.ts'
import { isObject, isWhole, type Fields } from './verify/values.ts'
import type { SealTrust } from './verify/verification.ts'

/**
 * The service hands out the keys that messages are sealed to, so an operator who shows a false one could
 * stand in the middle (sealed-box.md). Against that the first key seen of each agent is kept in a file, its
 * pin, and another key is sealed to only when it is named as accepted. Every change of a key is an entry of
 * the ledger, and before a key is pinned it must be that of the newest one, under a signed seal; without that
 * it is pinned only if the caller says so.
 */

/**
 * An agent's identity with its pair of message keys; its public half stands on its card. What was sealed to
 * an old pair still opens.
 */
export type MessagingIdentity = Pick<Identity, 'agent_id' | 'old_dm_keys'> &
  Required<Pick<Identity, 'dm_secret_key' | 'dm_public_key'>>

/**
 * - `no_key`: the other agent's card shows no `dm_key`
 * - `key_changed`: it shows another one than the pin
 * - `unsealed_key`: it is seen for the first time, and no signed seal of a known key bears it out
 * - `own_key_differs`: the caller's own card shows another one than this identity's, so nobody could open
 *   what it sends
 */
export type MessageKeyErrorCode = 'no_key' | 'key_changed' | 'unsealed_key' | 'own_key_differs'

/** Nothing was sent, because of a key. */
export class MessageKeyError extends CodedError<MessageKeyErrorCode> {
  override readonly name = 'MessageKeyError'
  /** Of `key_changed`. */
  readonly change: KeyChange | undefined

  constructor(code: MessageKeyErrorCode, message: string, change?: KeyChange) {
    super(code, message)
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
 * By which of the sender's keys a box opened: the `pinned` one, an `earlier` pin, a `changed` one that nobody
 * has accepted, or an `unsealed` one of a sender without a pin. The last two may be anyone's.
 */
export type SenderKey = 'pinned' | 'earlier' | 'changed' | 'unsealed'

export type OpenedMessage = Message & Opened

/**
 * `log_fork`: the sender was shown another log than this reader. `first_form`: the box does not say what it
 * is for, so it may be an older one that the service hands over as this.
 */
interface OpenedText {
  text: string
  log_fork?: LogFork
  sender_key: SenderKey
  first_form?: true
}

/**
 * The service's answer, each message opened; `key_changes` names the senders whose card shows another key
 * than the pin.
 */
export type OpenedPage = Omit<Answer<ReadMessagesAnswer>, 'messages'> & {
  messages: OpenedMessage[]
  key_changes: KeyChange[]
}

/**
 * Sees to it that the agent's own card shows the key that its messages are sealed with: publishes that key if
 * the card shows no key, or an old one of the agent's because the answer to its change was lost.
 *
 * @returns whether it was published just now
 * @throws MessageKeyError `own_key_differs`; RefusalError and TransportError as the client does
 */
export async function publishDmKey({
  client,
  identity,
}: {
  client: Client
  identity: MessagingIdentity
}): Promise<boolean> {
  const shown = (await client.agent(identity.agent_id)).profile.dm_key
  if (shown === identity.dm_public_key) return false
  if (shown !== null && !identity.old_dm_keys?.some(({ dm_public_key: old }) => old === shown)) {
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
  /**
   * Pin what the card shows, though no signed seal bears it out: an operator who shows a false key could then
   * read along.
   */
  unsealedKey?: boolean | undefined
}

/** What is sealed, to whom, and where keys are pinned. */
export interface SealOptions extends FirstContact {
  /** With the sender's token. */
  client: Client
  identity: MessagingIdentity
  to: string
  /** At most MAX_PLAINTEXT_BYTES of sealed-box.ts. */
  plaintext: Uint8Array | string
  /** Where pins are kept, a file for each agent; one folder for each service. */
  pinDir: string
  /**
   * 64 hex characters: this key may take the pinned one's place. It is named, so that what is accepted is
   * what was looked at and not whatever the card shows by now.
   */
  acceptKey?: string | undefined
  /** What is sealed is the delivery of this order, and opens as nothing else; a message if absent. */
  orderId?: string | undefined
}

/**
 * Seals a message to the key on the recipient's card and sends it. The key is pinned if none was. After a
 * lost answer the message is looked for among the sent ones; if it isn't there, the same box is sent once
 * more.
 *
 * @throws MessageKeyError `no_key`, `key_changed`, `unsealed_key`; SealedBoxError `too_long`, `bad_key`;
 *   RefusalError and TransportError as the client does; after one with `mayHaveArrived` the message may have
 *   been sent Source: sealed-box.md.
 */
export async function sendSealed(options: SealOptions): Promise<Answer<SendMessageAnswer>> {
  const { client, to } = options
  const box = await sealFor(options)
  try {
    return await client.sendMessage({ to, box })
  } catch (error) {
    if (!(error instanceof TransportError && error.mayHaveArrived)) throw error
    const { messages } = await client.sentMessages().catch(() => {
      throw error
    })
    const message = messages.find((sent) => sent.box === box)
    return message === undefined ? client.sendMessage({ to, box }) : { ok: true, id: message.id, message }
  }
}

/**
 * Seals a text to the key on another agent's card, without sending it: what a market delivery is sealed with.
 * The key is pinned if none was.
 *
 * @returns the box
 * @throws MessageKeyError if the card shows no key, an unknown one that the ledger doesn't bear out, or
 *   another one than is pinned and accepted; SealedBoxError `bad_key` if it can't be used
 */
export async function sealFor(options: SealOptions): Promise<string> {
  const { client, identity, to, plaintext, pinDir, acceptKey, orderId } = options
  const { dm_key: shown } = (await client.agent(to)).profile
  if (shown === null)
    throw new MessageKeyError('no_key', `${to} shows no dm_key on its card, so nothing can be sealed for it.`)
  if (!KEY.test(shown))
    throw new SealedBoxError('bad_key', `The card of ${to} shows a dm_key that is not a key.`)
  const pin = readPin(pinDir, to)
  const pinned = pin.keys.at(-1)
  if (pinned !== undefined && shown !== pinned && shown !== acceptKey)
    throw keyChangedError({ agent_id: to, pinned, shown })
  const { doubt, version } = pinned === shown ? {} : await judgeBeforePinning(client, to, shown, options, pin)
  if (doubt !== undefined)
    throw new MessageKeyError(
      'unsealed_key',
      `Nothing was sent: ${to} shows a message key that is not known here, and its ledger entries do not bear it out (${doubt}).`,
    )
  const box = sealBox({
    plaintext,
    note: await newestNote(client, options.trust),
    senderSecretKey: identity.dm_secret_key,
    senderId: identity.agent_id,
    recipientPublicKey: shown,
    recipientId: to,
    purpose: purposeOf(orderId),
  })
  // Before it is sent: the next call must know it. Another process may have pinned another key since.
  const inUse = shown === pinned ? shown : addPin(pinDir, to, { key: shown, version }, pinned)
  if (inUse !== shown) throw keyChangedError({ agent_id: to, pinned: inUse, shown })
  return box
}

/**
 * The newest checkpoint that this agent has verified, with the log's own signature and no witness's;
 * undefined if it has verified none.
 */
async function newestNote(client: Client, trust: SealTrust | undefined): Promise<string | undefined> {
  const note = trust === undefined ? undefined : (await recall(trust.stateFile, client.baseUrl))?.checkpoint
  if (note === undefined) return undefined
  const { text, signatures } = parseNote(note)
  const [origin] = text.split('\n')
  return formatNote(
    text,
    signatures.filter(({ name }) => name === origin).map(({ line }) => line),
  )
}

/** A delivery of an order if one is named, else a message. */
const purposeOf = (orderId: string | undefined): Purpose =>
  orderId === undefined ? { kind: 'message' } : { kind: 'delivery', orderId }

/** Makes the error for an agent that shows another key than the one seen before. */
function keyChangedError(change: KeyChange): MessageKeyError {
  const { agent_id: to, pinned, shown } = change
  return new MessageKeyError(
    'key_changed',
    `${to} shows the message key ${shown}, and the one seen before is ${pinned}. Nothing was sent. The receipt of ${to} lists the changes that stand in the ledger; ask the agent over another channel where it matters.`,
    change,
  )
}

/**
 * Asks the ledger about a key before it is pinned. A key that replaces a pin was accepted by name: the ledger
 * needn't know it, but must not prove it older than the pin.
 *
 * @param pin the one to be replaced, or none
 * @returns `doubt` if the key should not be pinned, saying why; `version` if the ledger proves it
 */
async function judgeBeforePinning(
  client: Client,
  agentId: string,
  shown: string,
  { trust, unsealedKey }: FirstContact,
  pin: Pin = NO_PIN,
): Promise<KeyJudgement> {
  if (unsealedKey === true) return {}
  const isFirst = pin.keys.length === 0
  if (trust === undefined) return isFirst ? { doubt: 'nothing is at hand to judge a seal by' } : {}
  try {
    const judgement = await judgeKey(client, agentId, shown, trust)
    const { version } = judgement
    if (version !== undefined && pin.version !== undefined && version <= pin.version)
      return {
        doubt: `the ledger proves it as version ${version}, and the pinned one was version ${pin.version}`,
      }
    if (isFirst) return judgement
    return version === undefined ? {} : { version }
  } catch (error) {
    // A ledger that doesn't answer bears nothing out, and keeps no message from being opened.
    if (isFailedCall(error)) return isFirst ? { doubt: error.message } : {}
    throw error
  }
}

/**
 * Opens one box that another agent sealed for this one. A sender seen for the first time is pinned if its key
 * may be and the box opened with it.
 *
 * @param from the sender's agent_id
 * @param orderId the order whose delivery the box is said to be; a message if absent
 * @returns the text, or in `problem` why it can't be read; a failed look at the sender's card stands there
 *   too, so neither RefusalError nor TransportError is thrown
 */
export async function openFrom(
  options: FirstContact & {
    client: Client
    identity: MessagingIdentity
    pinDir: string
    from: string
    box: string
    orderId?: string | undefined
  },
): Promise<Opened> {
  const { client, identity, pinDir, from, box, orderId } = options
  const sender = await lookUpSender(client, from, readPins(pinDir, from), options)
  const opened = await addLogFork(
    openByAnyKey({ from, box }, purposeOf(orderId), identity, sender),
    client,
    options.trust,
  )
  if (mayPin(sender) && 'text' in opened)
    addPin(pinDir, from, { key: sender.shown, version: sender.version }, undefined)
  return opened
}

/**
 * Reads messages and opens them: the unread ones, which the service marks as read, or what came after a
 * message. An answer that was lost on the way is had again with `after`, the last id that did arrive, or `0`.
 * One message that does not open keeps no other from being read. Senders seen for the first time are pinned
 * if their keys may be and a message opened with it.
 *
 * @param client with the reader's token
 * @param after id of a message of the reader's; `0` for the beginning
 * @param from one sender's alone
 * @throws RefusalError and TransportError of the reading itself, as the client does
 * Source: sealed-box.md.
 */
export async function readSealed(
  options: FirstContact & {
    client: Client
    identity: MessagingIdentity
    pinDir: string
    after?: string | undefined
    from?: string | undefined
  },
): Promise<OpenedPage> {
  const { client, identity, pinDir, after, from } = options
  // Before anything is marked as read: if a file of pins is broken, this throws.
  checkPins(pinDir)
  const page = await (after === undefined
    ? client.unreadMessages({ from })
    : client.messagesAfter(after, { from }))
  const senders = new Map<string, Sender>()
  for (const { from } of page.messages)
    if (!senders.has(from))
      senders.set(from, await lookUpSender(client, from, readPins(pinDir, from), options))
  const messages: OpenedMessage[] = []
  // Two equal boxes are one message, sent again: only the first is kept.
  const firstOf = new Map(page.messages.toReversed().map((message) => [message.from + message.box, message]))
  for (const message of page.messages) {
    if (firstOf.get(message.from + message.box) !== message) continue
    const opened = openByAnyKey(message, { kind: 'message' }, identity, senders.get(message.from))
    messages.push({ ...message, ...(await addLogFork(opened, client, options.trust)) })
  }
  for (const [id, sender] of senders)
    if (mayPin(sender) && messages.some((message) => message.from === id && 'text' in message))
      addPin(pinDir, id, { key: sender.shown, version: sender.version }, undefined)
  return {
    ...page,
    messages,
    count: messages.length,
    key_changes: [...senders].flatMap(([agentId, { pins: accepted, shown }]) => {
      const pinned = accepted.at(-1)
      return pinned === undefined || shown === undefined || shown === pinned
        ? []
        : [{ agent_id: agentId, pinned, shown }]
    }),
  }
}

/** What is known of a sender's keys. */
interface Sender {
  /** Accepted keys, the one in use last. */
  pins: readonly string[]
  /** The key on its card, if there is one. */
  shown?: string
  /** Of one without a pin: why the key should not be pinned. */
  doubt?: string | undefined
  version?: number | undefined
  /** Why the card could not be had. */
  failure?: { error: string; message: string }
}

/** Whether a sender has no pinned key yet, and its key may be pinned once a message has opened with it. */
const mayPin = (sender: Sender): sender is Sender & { shown: string } =>
  sender.pins.length === 0 && sender.shown !== undefined && sender.doubt === undefined

/**
 * Fetches a sender's card, and asks the ledger about its key if none is pinned yet. A request that fails is
 * told in `failure`.
 */
async function lookUpSender(
  client: Client,
  agentId: string,
  pins: readonly string[],
  firstContact: FirstContact,
): Promise<Sender> {
  if (!AGENT_ID.test(agentId))
    return {
      pins,
      failure: {
        error: 'bad_answer',
        message: `The service names ${JSON.stringify(agentId)} as the sender, which is no agent's id.`,
      },
    }
  let card: GetAgentAnswer
  let judgement: KeyJudgement = {}
  try {
    card = await client.agent(agentId)
    const { dm_key: shown } = card.profile
    if (pins.length === 0 && shown !== null && KEY.test(shown))
      judgement = await judgeBeforePinning(client, agentId, shown, firstContact)
  } catch (error) {
    // The messages are marked as read by now, so the others are opened all the same.
    if (isFailedCall(error)) return { pins, failure: { error: error.code, message: error.message } }
    throw error
  }
  const { dm_key: shown } = card.profile
  if (shown === null) return { pins }
  return KEY.test(shown)
    ? { pins, shown, ...judgement }
    : {
        pins,
        failure: { error: 'bad_key', message: `The card of ${agentId} shows a dm_key that is not a key.` },
      }
}

/**
 * The result of opening a box: the text, or why it could not be read. `error` is a code of SealedBoxError,
 * `no_key`, `not_text`, or how the request for the sender's card ended.
 */
export type Opened = OpenedText | { problem: { error: string; message: string } }

/** The result without the note that was in the box; with `log_fork` if the note is of another log than was seen. */
async function addLogFork(
  { note, ...opened }: Opened & { note?: string },
  client: Client,
  trust: SealTrust | undefined,
): Promise<Opened> {
  const fork = note === undefined || trust === undefined ? undefined : await findLogFork(client, note, trust)
  return fork === undefined || !('text' in opened) ? opened : { ...opened, log_fork: fork }
}

/**
 * Tries to open a box with each key that the sender may have sealed it with (the pinned one, earlier ones,
 * the card's) and each secret key of this agent: a message may be older than the change of a key.
 */
function openByAnyKey(
  { from, box }: Pick<Message, 'from' | 'box'>,
  purpose: Purpose,
  identity: MessagingIdentity,
  sender: Sender | undefined,
): Opened & { note?: string } {
  const { pins = [], shown, doubt, failure } = sender ?? {}
  const [pinned = shown, ...earlier] = pins.toReversed()
  const candidates = new Map<string, SenderKey>()
  if (pinned !== undefined) candidates.set(pinned, doubt === undefined ? 'pinned' : 'unsealed')
  for (const key of earlier) if (!candidates.has(key)) candidates.set(key, 'earlier')
  if (shown !== undefined && !candidates.has(shown)) candidates.set(shown, 'changed')
  let problem = failure ?? {
    error: 'no_key',
    message: `${from} shows no dm_key on its card, so it cannot be told who sealed this.`,
  }
  const ownSecrets = [
    identity.dm_secret_key,
    ...(identity.old_dm_keys ?? []).flatMap(({ dm_secret_key: secret }) => secret ?? []),
  ]
  for (const [senderPublicKey, kind] of candidates) {
    for (const recipientSecretKey of ownSecrets) {
      try {
        const { message: bytes, note } = openBoxWithNote({
          box,
          purpose,
          recipientSecretKey,
          recipientId: identity.agent_id,
          senderPublicKey,
          senderId: from,
        })
        if (!isUtf8(bytes))
          return { problem: { error: 'not_text', message: 'What was sealed is not text in UTF-8.' } }
        const text = Buffer.from(bytes).toString('utf8')
        return {
          text,
          sender_key: kind,
          ...(formOf(box) === 1 ? { first_form: true as const } : {}),
          ...(note === undefined ? {} : { note }),
        }
      } catch (error) {
        if (!(error instanceof SealedBoxError)) throw error
        problem = failure ?? { error: error.code, message: `${error.message}.` }
      }
    }
  }
  return { problem }
}

const AGENT_ID = /^agt_[0-9A-Za-z]{1,60}$/
const KEY = /^[0-9a-f]{64}$/

/** The keys of an agent that were accepted, the one in use last; and the version of that, if it was proven. */
interface Pin {
  readonly keys: readonly string[]
  readonly version?: number
}
const NO_PIN: Pin = { keys: [] }

/**
 * The keys of an agent that were accepted, the one in use last.
 *
 * @throws Error that names a file that holds something else
 */
export const readPins = (pinDir: string, agentId: string): readonly string[] => readPin(pinDir, agentId).keys

/** @throws Error that names the file if it holds something else, or is the one of all agents from before 1.0.0 */
function readPin(pinDir: string, agentId: string): Pin {
  if (!AGENT_ID.test(agentId)) return NO_PIN
  refuseOldPins(pinDir)
  const wrong =
    'does not hold keys seen of other agents; put it right, or move it away and compare keys anew.'
  return readPrivateFile(pinFileOf(pinDir, agentId), toPin, wrong) ?? NO_PIN
}

/** Reads every file of pins. @throws Error that names a file that holds something else */
function checkPins(pinDir: string): void {
  refuseOldPins(pinDir)
  for (const name of existsSync(pinDir) ? readdirSync(pinDir) : [])
    if (name.endsWith('.json')) readPins(pinDir, name.slice(0, -'.json'.length))
}

/** Passing over the one file of all agents would take another key of an agent for its first. @throws Error that names it */
function refuseOldPins(pinDir: string): void {
  if (!existsSync(`${pinDir}.json`)) return
  throw new Error(
    `${pinDir}.json holds keys seen of other agents in a form that is read no more; move it away and compare keys anew.`,
  )
}

const pinFileOf = (pinDir: string, agentId: string): string => path.join(pinDir, `${agentId}.json`)

/** Reads a pin; one without a version is a plain list of keys. */
function toPin(value: unknown): Pin | undefined {
  const { keys, version }: Fields = Array.isArray(value)
    ? { keys: value, version: 1 }
    : isObject(value)
      ? value
      : {}
  const isRight =
    Array.isArray(keys) && keys.length > 0 && keys.every((key) => typeof key === 'string' && KEY.test(key))
  if (!isRight || !isWhole(version) || version < 1) return undefined
  return Array.isArray(value) ? { keys } : { keys, version }
}

/**
 * Writes a key as the agent's pin, behind its earlier ones, unless another process has changed the pin since
 * it was read.
 *
 * @param replaces the pinned key that was read; undefined if there was none
 * @returns the key that is pinned now: this one, or the other process's
 */
function addPin(
  pinDir: string,
  agentId: string,
  { key, version }: { key: string; version: number | undefined },
  replaces: string | undefined,
): string {
  const file = pinFileOf(pinDir, agentId)
  return withFileLock(file, () => {
    const current = readPin(pinDir, agentId)
    const inUse = current.keys.at(-1)
    if (inUse !== undefined && inUse !== replaces) return inUse
    const keys = [...current.keys.filter((earlier) => earlier !== key), key]
    const newVersion = version ?? current.version
    writePrivateFile(file, newVersion === undefined ? keys : { keys, version: newVersion })
    return key
  })
}
