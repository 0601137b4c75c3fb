/** MCP over stdin and stdout: a message of JSON-RPC a line. Source: specification 2026-07-28, "stdio". */
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import {
  errorOf,
  idOf,
  PARSE_ERROR,
  readMessage,
  RpcError,
  type RpcMessage,
  type RpcRequest,
} from '../../shared/rpc/json-rpc.ts'
import { completeResult, eraOf, readRequest, type Tool, type ToolServer } from '../../shared/rpc/mcp.ts'
import { findProblem, type Schema } from '../answer-check.ts'

/** JSON Schema of a tool's arguments. */
export interface ToolArguments {
  type: 'object'
  properties: Record<string, Schema & { description: string }>
  required?: readonly string[]
  additionalProperties: false
}

/** A tool whose arguments are checked here. */
export interface CheckedTool extends Tool {
  inputSchema: ToolArguments
}

export interface ToolResult {
  text: string
  /** The answer that the text says. */
  structured?: object
  isError?: boolean
}

export interface CalledServer extends ToolServer {
  tools: readonly CheckedTool[]
  /** Rejects only on a defect; what a tool refuses is a result with `isError`. */
  call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ToolResult>
}

/**
 * Serves until stdin ends or the signal comes, and resolves once the calls under way are answered. Calls run
 * concurrently.
 */
export async function serveTools(
  server: CalledServer,
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
  async function answer(request: RpcRequest): Promise<void> {
    const { id } = request
    const stop = new AbortController()
    running.set(id, stop)
    try {
      const result = await handle(server, request, AbortSignal.any([signal, stop.signal]))
      if (!stop.signal.aborted) send({ id, result })
    } catch (error) {
      // A call that was cancelled gets no answer.
      if (!stop.signal.aborted) send({ id, error: errorOf(error) })
    } finally {
      running.delete(id)
    }
  }

  const lines = createInterface({ input: stdin, crlfDelay: Infinity, signal })
  for await (const line of lines) {
    if (line.trim() === '') continue
    const message = parseLine(line)
    if (message.kind === 'broken') send({ id: message.id ?? null, error: errorOf(message.error) })
    if (message.kind === 'notification' && message.method === 'notifications/cancelled')
      running.get(message.params['requestId'])?.abort()
    if (message.kind === 'request') {
      const call = answer(message).finally(() => calls.delete(call))
      calls.add(call)
    }
  }
  await Promise.all(calls)
}

/** Handles one request. @returns its result. @throws RpcError for a method or a tool that doesn't exist */
async function handle(server: CalledServer, request: RpcRequest, signal: AbortSignal): Promise<object> {
  const asked = readRequest(server, request)
  if (asked.kind === 'result') return asked.result
  const tool = server.tools.find(({ name }) => name === asked.tool)
  const problem = tool === undefined ? undefined : findWrongArgument(tool.inputSchema, asked.args)
  const {
    text,
    structured,
    isError = false,
  } = problem === undefined
    ? await server.call(asked.tool, asked.args, signal)
    : { text: problem, isError: true }
  return completeResult(server, eraOf(request), {
    content: [{ type: 'text', text }],
    ...(structured === undefined ? {} : { structuredContent: structured }),
    isError,
  })
}

/** What is wrong with the arguments of a call, a sentence for the model; undefined if nothing is. */
function findWrongArgument(
  { properties, required = [] }: ToolArguments,
  args: Record<string, unknown>,
): string | undefined {
  const unknown = Object.keys(args).find((name) => !Object.hasOwn(properties, name))
  if (unknown !== undefined)
    return `There is no argument "${unknown}"; there are ${Object.keys(properties).join(', ') || 'none'}.`
  const missing = required.find((name) => args[name] === undefined)
  if (missing !== undefined) return `"${missing}" is missing.`
  const [problem] = Object.entries(properties).flatMap(([name, schema]) =>
    args[name] === undefined ? [] : (findProblem(schema, args[name], `"${name}"`) ?? []),
  )
  return problem && `${problem.replace(':', '')}.`
}

/** Reads a line as a message. A line that holds no message is broken; its answer has the line's id if it has one. */
function parseLine(line: string): RpcMessage | { kind: 'broken'; id?: string | number; error: unknown } {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return { kind: 'broken', error: new RpcError(PARSE_ERROR, 'What came is not JSON.') }
  }
  try {
    return readMessage(value)
  } catch (error) {
    const id = idOf(value)
    return { kind: 'broken', error, ...(id === undefined ? {} : { id }) }
  }
}
