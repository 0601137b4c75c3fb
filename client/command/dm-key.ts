import type { MessagingIdentity } from '../messages.ts'
import { newDmKeyPair } from '../sealed-box.ts'
import type { Identity } from '../token-file.ts'
import type { Session } from './session.ts'

/** This agent's identity with its pair of message keys, which is made and kept first where there is none. */
export function keepDmKeys(session: Session): MessagingIdentity {
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

function hasDmKeys(identity: Identity): identity is Identity & MessagingIdentity {
  return identity.dm_secret_key !== undefined && identity.dm_public_key !== undefined
}
