/** JSON-RPC 2.0 (jsonrpc.org/specification): what a message says, and the errors that it may get. */

export const PARSE_ERROR = -32_700
export const INVALID_REQUEST = -32_600
export const NO_SUCH_METHOD = -32_601
export const INVALID_PARAMS = -32_602
export const INTERNAL_ERROR = -32_603

export type RpcId = string | number

export interface RpcRequest {
  kind: 'request'
  id: RpcId
  method: string
  params: Record<string, unknown>
}

/** A message: a request, a notification, which gets no answer, or a response, to which there was no request. */
export type RpcMessage =
  | RpcRequest
  | { kind: 'notification'; method: string; params: Record<string, unknown> }
  | { kind: 'response' }

/** An error as the answer to a request says it. */
export class RpcError extends Error {
  readonly code: number
  /** More than the message says, in the form that the code has. */
  readonly data: object | undefined

  constructor(code: number, message: string, data?: object) {
    super(message)
    this.code = code
    this.data = data
  }
}

/**
 * Reads a message.
 *
 * @param value a JSON value
 * @throws RpcError INVALID_REQUEST if it is no message
 */
export function readMessage(value: unknown): RpcMessage {
  const { jsonrpc, id, method, params } = toObject(value)
  if (jsonrpc === '2.0' && typeof method === 'string') {
    if (id === undefined) return { kind: 'notification', method, params: toObject(params) }
    if (isRpcId(id)) return { kind: 'request', id, method, params: toObject(params) }
  }
  if (jsonrpc === '2.0' && method === undefined && id !== undefined) return { kind: 'response' }
  throw new RpcError(INVALID_REQUEST, 'What came is no JSON-RPC 2.0 request.')
}

/** Returns the id of what may not be a message; undefined if it has none. */
export function idOf(value: unknown): RpcId | undefined {
  const { id } = toObject(value)
  return isRpcId(id) ? id : undefined
}

/** Returns the error of an answer. What is no RpcError is told by its message alone. */
export function errorOf(error: unknown): { code: number; message: string; data?: object } {
  const message = error instanceof Error ? error.message : String(error)
  if (!(error instanceof RpcError)) return { code: INTERNAL_ERROR, message }
  return { code: error.code, message, ...(error.data === undefined ? {} : { data: error.data }) }
}

/** The value if it is an object, else an empty one. */
export const toObject = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}

const isRpcId = (id: unknown): id is RpcId => typeof id === 'string' || Number.isSafeInteger(id)
