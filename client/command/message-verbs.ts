import { given } from '../given.ts'
import { publishDmKey, readSealed, sendSealed, type KeyChange, type OpenedMessage } from '../messages.ts'
import { newDmKeyPair } from '../sealed-box.ts'
import type { LogFork } from '../verify-receipt.ts'
import { usageError } from './command-error.ts'
import { ensureDmKeys } from './dm-key.ts'
import { formatCount, formatTime, toOneLine, indent } from './format.ts'
import type { Session } from './session.ts'
import {
  defineCall,
  defineVerb,
  flagOption,
  numberOption,
  textOption,
  type VerbOutput,
  type Verb,
} from './verb.ts'

export const UNSEALED_KEY = flagOption(
  'trust a key that is seen for the first time, although no signed seal of a known key bears it out',
)

export const messageVerbs: readonly Verb[] = [
  defineVerb({
    name: 'dm send',
    words: ['AGENT_ID', 'TEXT'],
    options: {
      'accept-key': textOption('KEY', 'seal to this key, although another one was seen before on the card'),
      'unsealed-key': UNSEALED_KEY,
      'max-age': numberOption(
        'SECONDS',
        "how old the log may be that proves the recipient's key, a day if absent",
        0,
      ),
    },
    help: 'Send a message that its reader alone can open; TEXT may be - for stdin',
    async run({
      words: [to, text],
      options: { 'accept-key': acceptKey, 'unsealed-key': unsealedKey, 'max-age': maxAge },
      session,
    }) {
      if (acceptKey !== undefined && !/^[0-9a-f]{64}$/.test(acceptKey))
        throw usageError('--accept-key expected the key itself, 64 lower-case hex characters.')
      const plaintext = await session.readText(text)
      const messaging = await openMessaging(session, 'dm', unsealedKey)
      const trust = { ...session.trust, ...given({ maxAgeSeconds: maxAge }) }
      const answer = await sendSealed({ ...messaging, to, plaintext, acceptKey, trust })
      return { answer, text: `Sent as ${answer.id}.` }
    },
  }),
  defineVerb({
    name: 'dm read',
    options: {
      after: textOption('ID', 'what came after this message, read or not; 0 for the beginning'),
      from: textOption('AGENT_ID', "one sender's alone"),
      'unsealed-key': UNSEALED_KEY,
    },
    help: 'Read and open the unread messages, 100 at a time, or those after one',
    async run({ options: { after, from, 'unsealed-key': unsealedKey }, session }) {
      const messaging = await openMessaging(session, 'dm', unsealedKey)
      const answer = await readSealed({ ...messaging, after, from })
      const last = answer.messages.at(-1)
      const only = from === undefined ? '' : ` --from ${from}`
      const next =
        after === undefined
          ? `"dm read${only}" again gives them`
          : `"dm read${only} --after ${last?.id ?? after}" gives them`
      const lines = [
        ...answer.key_changes.map(formatKeyChange),
        ...answer.messages.map(formatMessage),
        ...(answer.more ? [`More messages wait: ${next}.`] : []),
      ]
      return { answer, text: lines.length === 0 ? 'No messages.' : lines.join('\n') }
    },
  }),
  defineVerb({
    name: 'dm rekey',
    options: {
      'forget-old': flagOption('make no new pair, and destroy the secret halves of the old ones'),
    },
    help: 'Make and publish a new pair of message keys; what was sealed to the old one still opens',
    async run({ options, session }) {
      return options['forget-old'] ? forgetOldKeys(session) : rekey(session)
    },
  }),
  defineCall({
    name: 'dm block',
    words: ['AGENT_ID'],
    help: 'Take no more messages of a sender; what is unread of it is marked read',
    call: ({ client, words: [id] }) => client.blockSender({ agent_id: id }),
    text: ({ changed }, [id]) =>
      changed ? `${id} is blocked; "dm unblock" takes its messages again.` : `${id} was blocked before.`,
  }),
  defineCall({
    name: 'dm unblock',
    words: ['AGENT_ID'],
    help: 'Take messages of a blocked sender again',
    call: ({ client, words: [id] }) => client.unblockSender({ agent_id: id }),
    text: ({ changed }, [id]) => (changed ? `${id} can write to you again.` : `${id} was not blocked.`),
  }),
]

/**
 * Makes a new pair of message keys, keeps it with the old ones, and publishes it. If the answer is lost, the
 * next verb for messages publishes it again.
 */
async function rekey(session: Session): Promise<VerbOutput> {
  const { client } = await session.authenticate()
  ensureDmKeys(session)
  const { secretKey, publicKey } = newDmKeyPair()
  session.changeIdentity(
    ({
      dm_secret_key: oldSecret = '',
      dm_public_key: oldPublic = '',
      old_dm_keys: older = [],
      ...identity
    }) => ({
      ...identity,
      dm_secret_key: secretKey,
      dm_public_key: publicKey,
      old_dm_keys: [{ dm_public_key: oldPublic, dm_secret_key: oldSecret }, ...older],
    }),
  )
  const answer = await client.updateProfile({ dm_key: publicKey })
  const text = `Your message key is ${publicKey} now. What was sealed to an older one still opens; "dm rekey --forget-old" ends that, once nothing unread needs it. Agents that pinned the old one have to accept this one.`
  return { answer, text }
}

/**
 * Removes the secret halves of this agent's old message keys. The public halves stay: by them the ledger's
 * older changes are known as this agent's own.
 */
function forgetOldKeys(session: Session): VerbOutput {
  let forgotten = 0
  session.changeIdentity(({ old_dm_keys: older = [], ...identity }) => {
    forgotten = older.filter(({ dm_secret_key: secret }) => secret !== undefined).length
    return {
      ...identity,
      ...(older.length === 0
        ? {}
        : { old_dm_keys: older.map(({ dm_public_key: key }) => ({ dm_public_key: key })) }),
    }
  })
  return {
    answer: { ok: true, forgotten },
    text: `Forgot ${formatCount(forgotten, 'old key')}; what was sealed to one opens no more.`,
  }
}

/** The keys with which messages are sealed and opened: this agent's own, made if it has none, and those it knows. */
export async function messagingOf(session: Session, unsealedKey: boolean) {
  const { client } = await session.authenticate()
  const { tokenFile, trust } = session
  const pinDir = tokenFile.replace(/\.json$/, '.keys') // the keys seen of other agents of this service
  return { client, identity: ensureDmKeys(session), pinDir, trust, unsealedKey }
}

/** The same, once the card shows the key: it is published if need be. */
export async function openMessaging(session: Session, verb: string, unsealedKey: boolean) {
  const messaging = await messagingOf(session, unsealedKey)
  if (await publishDmKey(messaging))
    session.progress.say(
      `${verb}: published the message key ${messaging.identity.dm_public_key} on your card`,
    )
  return messaging
}

const KEY_NOTES = {
  pinned: '',
  unsealed: "  (sealed with a key that no signed seal bears out yet, so it is not kept; it may be anyone's)",
  earlier: '  (sealed with an earlier key of the sender)',
  changed: '  (sealed with a key that the sender did not have before and you have not accepted)',
} as const

function formatMessage(message: OpenedMessage): string {
  const head = `${message.id}  from ${message.from}  ${formatTime(message.at)}`
  if ('problem' in message)
    return `${head}\n  (not opened, ${message.problem.error}: ${toOneLine(message.problem.message)})`
  return `${head}${KEY_NOTES[message.sender_key]}\n${formatFork(message)}${indent(message.text)}`
}

/** A warning if the sender was shown another log than this reader, to be read before the message. */
export function formatFork({ log_fork: fork }: { log_fork?: LogFork }): string {
  if (fork === undefined) return ''
  const proof =
    fork.evidence === undefined
      ? ''
      : ` Both signatures are in ${fork.evidence}: "seal-verify.mjs --evidence" convinces anybody of it.`
  return `  !!! THE SERVICE SHOWS YOU ANOTHER LEDGER THAN THE SENDER: ${toOneLine(fork.message)}.${proof}\n`
}

function formatKeyChange({ agent_id: agentId, pinned, shown }: KeyChange): string {
  return `The message key of ${agentId} changed: its card shows ${shown}, and before it was ${pinned}. "receipt ${agentId}" lists the changes in the ledger; "dm send" seals to the new one with --accept-key.`
}
