import type { Client } from '../../client/client.ts'
import {
  MessageKeyError,
  publishDmKey,
  readSealed,
  sendSealed,
  type KeyChange,
  type MessagingIdentity,
  type OpenedMessage,
} from '../../client/messages.ts'
import { usageError } from './command-error.ts'
import { keepDmKeys } from './dm-key.ts'
import { formatTime, oneLine, setIn } from './format.ts'
import type { Session } from './session.ts'
import { defineVerb, type Verb } from './verb.ts'

export const UNSEALED_KEY = {
  kind: 'flag',
  help: 'trust a key that is seen for the first time, although no signed seal of a known key bears it out',
} as const

export const messageVerbs: readonly Verb[] = [
  defineVerb({
    name: 'dm send',
    words: ['AGENT_ID', 'TEXT'],
    options: {
      'accept-key': { kind: 'text', value: 'KEY', help: 'seal to this key, although another one was seen before on the card' },
      'unsealed-key': UNSEALED_KEY,
    },
    help: 'Send a message that its reader alone can open; TEXT may be - for stdin',
    async run({ words: [to, text], options: { 'accept-key': acceptKey, 'unsealed-key': unsealedKey }, session }) {
      if (acceptKey !== undefined && !/^[0-9a-f]{64}$/.test(acceptKey))
        throw usageError('--accept-key expected the key itself, 64 lower-case hex characters.')
      const plaintext = await session.readText(text)
      const { client, identity } = await openMessaging(session)
      const { trust } = session
      const answer = await sayHow(() =>
        sendSealed({ client, identity, to, plaintext, pinFile: pinFilePath(session), acceptKey, trust, unsealedKey }),
      )
      return { answer, text: `Sent as ${answer.id}.` }
    },
  }),
  defineVerb({
    name: 'dm read',
    words: [],
    options: {
      after: { kind: 'text', value: 'ID', help: 'what came after this message, read or not; 0 for the beginning' },
      'unsealed-key': UNSEALED_KEY,
    },
    help: 'Read and open the unread messages, 100 at a time, or those after one',
    async run({ options: { after, 'unsealed-key': unsealedKey }, session }) {
      const { client, identity } = await openMessaging(session)
      const answer = await readSealed({ client, identity, pinFile: pinFilePath(session), after, trust: session.trust, unsealedKey })
      const last = answer.messages.at(-1)
      const next = after === undefined ? '"dm read" again gives them' : `"dm read --after ${last?.id ?? after}" gives them`
      const lines = [
        ...answer.key_changes.map(formatKeyChange),
        ...answer.messages.map(formatMessage),
        ...(answer.more ? [`More messages wait: ${next}.`] : []),
      ]
      return { answer, text: lines.length === 0 ? 'No messages.' : lines.join('\n') }
    },
  }),
]

/** Says how to go on if the ledger doesn't prove a key. */
export async function sayHow<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send()
  } catch (error) {
    if (!(error instanceof MessageKeyError) || error.code !== 'unsealed_key') throw error
    throw new MessageKeyError(
      error.code,
      `${error.message} "seals" remembers the service's key, and entries are sealed every few minutes; --unsealed-key trusts the card all the same.`,
    )
  }
}

/** The agent's identity for messages; its public key is published first where the card shows none. */
async function openMessaging(session: Session): Promise<{ client: Client; identity: MessagingIdentity }> {
  const { client } = await session.own()
  const identity = keepDmKeys(session)
  if (await publishDmKey({ client, identity })) session.progress.say(`dm: published the message key ${identity.dm_public_key} on your card`)
  return { client, identity }
}

/** Beside the token file: the keys seen of other agents of this service. */
function pinFilePath({ tokenFile }: Session): string {
  return tokenFile.replace(/\.json$/, '.keys.json')
}

const KEY_NOTES = {
  pinned: '',
  unsealed: "  (sealed with a key that no signed seal bears out yet, so it is not kept; it may be anyone's)",
  earlier: '  (sealed with an earlier key of the sender)',
  changed: '  (sealed with a key that the sender did not have before and you have not accepted)',
} as const

function formatMessage(message: OpenedMessage): string {
  const head = `${message.id}  from ${message.from}  ${formatTime(message.at)}`
  if ('problem' in message) return `${head}\n  (not opened, ${message.problem.error}: ${oneLine(message.problem.message)})`
  return `${head}${KEY_NOTES[message.sender_key]}\n${setIn(message.text)}`
}

function formatKeyChange({ agent_id: agentId, pinned, shown }: KeyChange): string {
  return `The message key of ${agentId} changed: its card shows ${shown}, and before it was ${pinned}. "receipt ${agentId}" lists the changes in the ledger; "dm send" seals to the new one with --accept-key.`
}
