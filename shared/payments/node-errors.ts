/** Node and wallet programs of either coin fail in two ways, and what follows from them is opposite. */

/**
 * No news: the node was not reached, did not answer in time or in full, or its answer is not one. What was asked for may
 * or may not have been done, and nothing has become known about a payment.
 */
export class NodeUnreachable extends Error {
  override name = 'NodeUnreachable'
}

/** The answer has more bytes than are read: a narrower question may have one. */
export class AnswerTooLong extends NodeUnreachable {}

/** The node answered in its own form and said no. */
export class NodeRefused extends Error {
  override name = 'NodeRefused'
  /** The node's own sentence, at most 200 characters, no control characters. */
  readonly reason: string
  /** The node's own number for it, where it gives one (JSON-RPC). */
  readonly code: number | undefined

  /** @param asked what was asked of which node, for the message: `process at http://127.0.0.1:7076` */
  constructor(asked: string, reason: string, code?: number) {
    const clean = reason.replace(/\p{Cc}+/gu, ' ').slice(0, 200)
    super(`${asked} was refused: ${clean}`)
    this.reason = clean
    this.code = code
  }
}

/** Whether the error is about the node or wallet program, and not about this service or its database. */
export function isNodeTrouble(error: unknown): error is NodeUnreachable | NodeRefused {
  return error instanceof NodeUnreachable || error instanceof NodeRefused
}
