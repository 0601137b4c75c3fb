/**
 * The part of the Model Context Protocol that a server of tools needs: JSON-RPC 2.0, a message a line, over
 * stdin and stdout. Source: modelcontextprotocol.io, specification 2025-11-25, "Lifecycle", "Tools", "stdio".
 */
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']
const PARSE_ERROR = -32_700
const INVALID_REQUEST = -32_600
const NO_SUCH_METHOD = -32_601
const INVALID_PARAMS = -32_602
const INTERNAL_ERROR = -32_603

/** JSON Schema of a tool's arguments: flat, each of a plain type or a list of texts. */
export interface ToolArguments {
  type: 'object'
  properties: Record<string, ArgumentSchema>
  required?: readonly string[]
  additionalProperties: false
}

interface ArgumentSchema {
  type: 'string' | 'integer' | 'number' | 'boolean' | 'array'
  description: string
  /** Of a list. */
  items?: { type: 'string' }
  enum?: readonly string[]
  pattern?: string
  minimum?: number
  maximum?: number
}

export interface Tool {
  name: string
  title: string
  description: string
  inputSchema: ToolArguments
  annotations: { readOnlyHint: boolean; destructiveHint?: boolean; openWorldHint: true }
}

export interface ToolResult {
  text: string
  isError?: boolean
}

export interface ToolServer {
  name: string
  version: string
  instructions: string
  tools: readonly Tool[]
  /** Rejects only on a defect; what a tool refuses is a result with `isError`. */
  call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ToolResult>
}

interface Message {
  jsonrpc?: unknown
  id?: unknown
  method?: unknown
  params?: unknown
}

class RpcError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Serves until stdin ends or the signal comes, and resolves once the calls under way are answered. Calls run
 * concurrently.
 */
export async function serveTools(
  server: ToolServer,
  {
    stdin,
    stdout,
    signal,
  }: { stdin: Readable; stdout: { write(text: string): unknown }; signal: AbortSignal },
): Promise<void> {
  const running = new Map<unknown, AbortController>()
  const calls = new Set<Promise<void>>()
  const send = (message: object): void =>
    void stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

  /** Handles one request and sends its result or error, unless it was cancelled meanwhile. */
  async function answer({ id, method, params }: Message): Promise<void> {
    const stop = new AbortController()
    running.set(id, stop)
    try {
      const result = await handle(
        server,
        String(method),
        toObject(params),
        AbortSignal.any([signal, stop.signal]),
      )
      if (!stop.signal.aborted) send({ id, result })
    } catch (error) {
      const code = error instanceof RpcError ? error.code : INTERNAL_ERROR
      // A call that was cancelled gets no answer.
      if (!stop.signal.aborted)
        send({ id, error: { code, message: error instanceof Error ? error.message : String(error) } })
    } finally {
      running.delete(id)
    }
  }

  const lines = createInterface({ input: stdin, crlfDelay: Infinity, signal })
  for await (const line of lines) {
    if (line.trim() === '') continue
    const message = parseMessage(line)
    if (message === undefined)
      send({ id: null, error: { code: PARSE_ERROR, message: 'What came is not JSON.' } })
    else if (typeof message.method !== 'string' || message.jsonrpc !== '2.0') {
      // An answer, to which there was no question, is ignored.
      if (message.method !== undefined || message.id === undefined)
        send({
          id: message.id ?? null,
          error: { code: INVALID_REQUEST, message: 'What came is no JSON-RPC 2.0 request.' },
        })
    } else if (message.id === undefined) {
      const { requestId } = toObject(message.params)
      if (message.method === 'notifications/cancelled') running.get(requestId)?.abort()
    } else {
      const call = answer(message).finally(() => calls.delete(call))
      calls.add(call)
    }
  }
  await Promise.all(calls)
}

/** Handles one request. @returns its result. @throws RpcError for a method or a tool that doesn't exist */
async function handle(
  server: ToolServer,
  method: string,
  params: Record<string, unknown>,
  signal: AbortSignal,
): Promise<object> {
  const { name, version, instructions, tools } = server
  if (method === 'ping') return {}
  if (method === 'initialize') {
    const { protocolVersion: asked } = params
    return {
      protocolVersion: VERSIONS.find((known) => known === asked) ?? VERSIONS[0],
      capabilities: { tools: {} },
      serverInfo: { name, version },
      instructions,
    }
  }
  if (method === 'tools/list') return { tools }
  if (method !== 'tools/call') throw new RpcError(NO_SUCH_METHOD, `There is no method ${method} here.`)
  const tool = tools.find((known) => known.name === params['name'])
  if (tool === undefined) throw new RpcError(INVALID_PARAMS, `There is no tool ${String(params['name'])}.`)
  const args = toObject(params['arguments'])
  const problem = findProblem(tool.inputSchema, args)
  const { text, isError = false } =
    problem === undefined ? await server.call(tool.name, args, signal) : { text: problem, isError: true }
  return { content: [{ type: 'text', text }], isError }
}

/** What is wrong with the arguments of a call, a sentence for the model; undefined if nothing is. */
function findProblem(
  { properties, required = [] }: ToolArguments,
  args: Record<string, unknown>,
): string | undefined {
  const unknown = Object.keys(args).find((name) => !Object.hasOwn(properties, name))
  if (unknown !== undefined)
    return `There is no argument "${unknown}"; there are ${Object.keys(properties).join(', ') || 'none'}.`
  const missing = required.find((name) => args[name] === undefined)
  if (missing !== undefined) return `"${missing}" is missing.`
  for (const [name, schema] of Object.entries(properties)) {
    const value = args[name]
    if (value === undefined) continue
    const { type, enum: values, minimum = -Infinity, maximum = Infinity, items, pattern } = schema
    if (type === 'array') {
      const isList = Array.isArray(value) && value.every((item) => typeof item === items?.type)
      if (!isList) return `"${name}" expected a list of values of type ${items?.type}.`
      continue
    }
    const isRight =
      type === 'integer' ? Number.isSafeInteger(value) : typeof value === type && !Number.isNaN(value)
    if (!isRight) return `"${name}" expected a value of type ${type}.`
    if (values !== undefined && !values.includes(String(value)))
      return `"${name}" expected one of ${values.join(', ')}.`
    if (pattern !== undefined && !new RegExp(pattern, 'u').test(String(value)))
      return `"${name}" expected ${schema.description}.`
    if (typeof value === 'number' && (value < minimum || value > maximum))
      return `"${name}" expected a number from ${minimum} to ${maximum}.`
  }
  return undefined
}

/** Undefined if the line is not JSON; an empty message if it is JSON but not an object. */
function parseMessage(line: string): Message | undefined {
  try {
    return toObject(JSON.parse(line))
  } catch {
    return undefined
  }
}

/** The value if it is an object, else an empty one. */
const toObject = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
