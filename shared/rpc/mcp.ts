/**
 * The part of the Model Context Protocol that a server of tools needs, of both eras. A modern request says its
 * version and what its client can do in its own `_meta`, so no request depends on an earlier one; a legacy client
 * begins with `initialize`. A server answers both, and remembers neither.
 *
 * Source: modelcontextprotocol.io, specification 2026-07-28, "Overview", "Versioning and Compatibility",
 * "Discovery", "Caching", "Tools"; 2025-11-25, "Lifecycle", "Tools".
 */
import { INVALID_PARAMS, NO_SUCH_METHOD, RpcError, toObject, type RpcRequest } from './json-rpc.ts'

export const MODERN_VERSION = '2026-07-28'
/** The newest first: it is what a client is offered that asks for a version that is not known. */
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']
export const UNSUPPORTED_VERSION = -32_022

/** Keys of `_meta`. */
const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'

/** How long a client may keep what a server says of itself: no longer than a new version of it goes unseen. */
const KEEP_MS = 300_000

/** A tool as it is listed. */
export interface Tool {
  name: string
  title: string
  description: string
  /** JSON Schema. */
  inputSchema: { type: 'object'; properties: Record<string, object>; required?: readonly string[] }
  /** JSON Schema of `structuredContent`; absent if the tool answers with text alone. */
  outputSchema?: { type: 'object' }
  annotations: { readOnlyHint: boolean; destructiveHint?: boolean; openWorldHint: true }
}

export interface ToolServer {
  name: string
  version: string
  instructions: string
  tools: readonly Tool[]
}

/** The era of a request: whether it says its version by itself. */
export type Era = 'modern' | 'legacy'

/** What a request asks for: a result that is known at once, or the call of a tool. */
export type Asked =
  { kind: 'result'; result: object } | { kind: 'call'; tool: string; args: Record<string, unknown> }

/** Returns the version that a request says itself; undefined if it says none. */
export const versionOf = ({ params }: RpcRequest): unknown => toObject(params['_meta'])[VERSION]

/** Returns the era of a request: `server/discover` is of the modern one alone, and `initialize` of the legacy one. */
export function eraOf(request: RpcRequest): Era {
  if (request.method === 'initialize') return 'legacy'
  return request.method === 'server/discover' || versionOf(request) !== undefined ? 'modern' : 'legacy'
}

/**
 * Reads what a request asks of a server.
 *
 * @throws RpcError for a version, a method or a tool that doesn't exist, and for a modern request whose `_meta`
 *   lacks a field
 */
export function readRequest(server: ToolServer, request: RpcRequest, era = eraOf(request)): Asked {
  const { method, params } = request
  if (era === 'modern') requireMeta(request)
  const { name, version, instructions, tools } = server
  if (method === 'tools/call') {
    const { name: tool } = params
    if (typeof tool !== 'string' || !tools.some((known) => known.name === tool))
      throw new RpcError(INVALID_PARAMS, `There is no tool ${String(tool)}.`)
    return { kind: 'call', tool, args: toObject(params['arguments']) }
  }
  const about = { capabilities: { tools: {} }, instructions }
  const kept = { ttlMs: KEEP_MS, cacheScope: 'public' }
  if (era === 'modern' && method === 'server/discover')
    return asked(server, era, { supportedVersions: [MODERN_VERSION], ...about, ...kept })
  if (era === 'modern' && method === 'tools/list') return asked(server, era, { tools, ...kept })
  if (era === 'legacy' && method === 'initialize') {
    const { protocolVersion: wanted } = params
    const protocolVersion = LEGACY_VERSIONS.find((known) => known === wanted) ?? LEGACY_VERSIONS[0]
    return asked(server, era, { protocolVersion, serverInfo: { name, version }, ...about })
  }
  if (era === 'legacy' && method === 'tools/list') return asked(server, era, { tools })
  if (era === 'legacy' && method === 'ping') return asked(server, era, {})
  throw new RpcError(NO_SUCH_METHOD, `There is no method ${method} here.`)
}

const asked = (server: ToolServer, era: Era, result: object): Asked => ({
  kind: 'result',
  result: completeResult(server, era, result),
})

/** Adds what every modern result says to a result. */
export const completeResult = ({ name, version }: ToolServer, era: Era, result: object): object =>
  era === 'legacy'
    ? result
    : { resultType: 'complete', ...result, _meta: { [SERVER_INFO]: { name, version } } }

/** @throws RpcError unless a request says the modern version, and what its client can do */
function requireMeta(request: RpcRequest): void {
  const requested = versionOf(request)
  if (typeof requested === 'string' && requested !== MODERN_VERSION)
    throw new RpcError(UNSUPPORTED_VERSION, 'Unsupported protocol version', {
      // A client that knows no modern version of these begins with `initialize` then.
      supported: [MODERN_VERSION, ...LEGACY_VERSIONS],
      requested,
    })
  const { [CLIENT_CAPABILITIES]: capabilities } = toObject(request.params['_meta'])
  if (requested !== MODERN_VERSION || typeof capabilities !== 'object' || capabilities === null)
    throw new RpcError(INVALID_PARAMS, `"_meta" expected ${VERSION} and ${CLIENT_CAPABILITIES}.`)
}
