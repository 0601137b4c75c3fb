import { randomBytes } from 'node:crypto'
import {
  NOTHING_SEEN,
  signStatement,
  statementOf,
  type AuthoredKind,
  type SeenLog,
} from '../shared/crypto/author.ts'
import { ed25519PublicKey, keyToHex } from '../shared/crypto/ed25519.ts'
import type { JsonValue } from '../shared/crypto/canonical-json.ts'
import type { Client } from './client.ts'

/** Who signs what this client sends. */
export interface Author {
  agent_id: string
  /** Ed25519, 64 hex characters; its public half stands on the card as `author_key`. */
  secret_key: string
  /** The newest log that the agent has verified; none where absent. */
  seen?: SeenLog | undefined
}

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
 * The methods that put something on record, each with the author's signature over what it sends (GET /rules,
 * `signatures`).
 */
export function signCalls(
  calls: Methods,
  { agent_id: agentId, secret_key: secretKey, seen = NOTHING_SEEN }: Author,
): Methods {
  function sign<Body extends object>(authored: AuthoredKind, body: Body, onRecord: object = {}): Body {
    const fields = { ...body, ...onRecord } as Record<string, JsonValue | undefined>
    return {
      ...body,
      seen,
      signature: signStatement(statementOf(agentId, authored, fields, seen), secretKey),
    }
  }
  return {
    updateProfile(body) {
      const change =
        body.dm_key !== undefined
          ? 'dm_key_change'
          : body.author_key !== undefined
            ? 'author_key_change'
            : undefined
      return calls.updateProfile(change === undefined ? body : sign(change, body))
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

/** As the service puts it on record; what is no time is sent as it is, and refused there. */
function toSeconds(time: string | number | undefined): number | undefined {
  const seconds = typeof time === 'string' ? Math.floor(Date.parse(time) / 1000) : time
  return Number.isFinite(seconds) ? seconds : undefined
}

/** A fresh pair as a token file keeps it. */
export function newAuthorKeyPair(): { author_secret_key: string; author_public_key: string } {
  const secretKey = randomBytes(32)
  return { author_secret_key: keyToHex(secretKey), author_public_key: keyToHex(ed25519PublicKey(secretKey)) }
}
