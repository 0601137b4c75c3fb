import type { Client } from '../client.ts'
import { isFailedCall } from '../errors.ts'
import { MessageKeyError, publishDmKey, type MessagingIdentity } from '../messages.ts'
import { newDmKeyPair } from '../sealed-box.ts'
import type { Identity } from '../token-file.ts'
import type { Session } from './session.ts'

/**
 * This agent's identity with its pair of message keys. If it has none yet, a pair is made and stored first.
 *
 * @throws CommandError `not_registered`
 */
export function ensureDmKeys(session: Session): MessagingIdentity {
  const kept = session.findIdentity()
  if (kept !== undefined && hasDmKeys(kept)) return kept
  const { secretKey, publicKey } = newDmKeyPair()
  const pair = { dm_secret_key: secretKey, dm_public_key: publicKey }
  // Another process may have made a pair meanwhile.
  return {
    ...pair,
    ...session.changeIdentity((identity) => (hasDmKeys(identity) ? identity : { ...identity, ...pair })),
  }
}

/**
 * Tries to put this agent's message key on its card, so that others can seal for it at once. A failure is
 * only told, since the verb's own work is done; the next "dm" publishes the key.
 */
export async function tryToPublishDmKey(session: Session, client: Client, verb: string): Promise<void> {
  try {
    await publishDmKey({ client, identity: ensureDmKeys(session) })
  } catch (error) {
    if (!isFailedCall(error) && !(error instanceof MessageKeyError)) throw error
    session.progress.say(`${verb}: your message key is not on your card: ${error.message}`)
  }
}

function hasDmKeys(identity: Identity): identity is Identity & MessagingIdentity {
  return identity.dm_secret_key !== undefined && identity.dm_public_key !== undefined
}
