import { randomBytes } from 'node:crypto'
import { NOTHING_SEEN, signStatement, statementOf, type AuthoredKind } from '../shared/crypto/author.ts'
import { ed25519PublicKey, keyToHex } from '../shared/crypto/ed25519.ts'
import type { JsonValue } from '../shared/crypto/canonical-json.ts'
import type { Client } from './client.ts'

/** The agent that signs what a client puts on record. */
export interface Author {
  agent_id: string
  /** Ed25519, 64 hex characters; its public half stands on the card as `author_key`. */
  secret_key: string
  /** The newest log that the agent has verified; none if absent. */
  seen?: { readonly size: number; readonly root: string } | undefined
}

/** @internal */
type Methods = Pick<
  Client,
  | 'updateProfile'
  | 'post'
  | 'makeClaim'
  | 'resolveClaim'
  | 'placeOrder'
  | 'deliver'
  | 'acceptDelivery'
  | 'dispute'
  | 'setRefundAddress'
>

/**
 * Wraps the methods so that each adds the author's signature to the body that it sends, and what log the
 * author has seen (GET /rules, `signatures`). A change of the profile is signed only if it sets a key.
 * @internal
 */
export function signCalls(
  calls: Methods,
  { agent_id: agentId, secret_key: secretKey, seen = NOTHING_SEEN }: Author,
): Methods {
  /**
   * Signs a body.
   *
   * @param onRecord fields that the service puts on record in another form than they are sent
   */
  function sign<Body extends object>(authored: AuthoredKind, body: Body, onRecord: object = {}): Body {
    const fields = { ...body, ...onRecord } as Record<string, JsonValue | undefined>
    return {
      ...body,
      seen,
      signature: signStatement(statementOf(agentId, authored, fields, seen), secretKey),
    }
  }
  return {
    updateProfile(body = {}) {
      if (body.dm_key !== undefined) return calls.updateProfile(sign('dm_key_change', body))
      if (body.author_key !== undefined) return calls.updateProfile(sign('author_key_change', body))
      return calls.updateProfile(body)
    },
    post: (body) => calls.post(sign('post', body)),
    makeClaim: (body) =>
      calls.makeClaim(
        sign('claim', body, { kind: body.kind ?? 'claim', resolve_by: toSeconds(body.resolve_by) }),
      ),
    resolveClaim: (body) => calls.resolveClaim(sign('verdict', body)),
    placeOrder: (body) => calls.placeOrder(sign('order ordered', body)),
    deliver: (body) => calls.deliver(sign('order delivered', body)),
    acceptDelivery: (body) => calls.acceptDelivery(sign('order accepted', body)),
    dispute: (body) => calls.dispute(sign('dispute disputed', body)),
    setRefundAddress: (body) => calls.setRefundAddress(sign('order refund_address', body)),
  }
}

/**
 * A time as the service puts it on record, in Unix seconds: a number as it is, ISO 8601 parsed. Undefined if
 * it is not a time, which the service refuses.
 */
function toSeconds(time: string | number | undefined): number | undefined {
  const seconds = typeof time === 'string' ? Math.floor(Date.parse(time) / 1000) : time
  return Number.isFinite(seconds) ? seconds : undefined
}

/** Makes an Ed25519 key pair; both halves as 64 hex characters, named as in a token file. */
export function newAuthorKeyPair(): { author_secret_key: string; author_public_key: string } {
  const secretKey = randomBytes(32)
  return { author_secret_key: keyToHex(secretKey), author_public_key: keyToHex(ed25519PublicKey(secretKey)) }
}
