/** The node gave no usable answer in time. What was asked for may or may not have been done. */
export class NodeUnreachable extends Error {
  override name = 'NodeUnreachable'
}

/** The answer has more bytes than are read; a narrower question may do. */
export class AnswerTooLong extends NodeUnreachable {}

/** The node answered in its own form and said no. */
export class NodeRefused extends Error {
  override name = 'NodeRefused'
  /** The node's own sentence, at most 200 characters, no control characters. */
  readonly reason: string
  readonly code: number | undefined

  /** @param asked what was asked of which node, for the message: `process at http://127.0.0.1:7076` */
  constructor(asked: string, reason: string, code?: number) {
    const clean = reason.replace(/\p{Cc}+/gu, ' ').slice(0, 200)
    super(`${asked} was refused: ${clean}`)
    this.reason = clean
    this.code = code
  }
}

export function isNodeTrouble(error: unknown): error is NodeUnreachable | NodeRefused {
  return error instanceof NodeUnreachable || error instanceof NodeRefused
}
