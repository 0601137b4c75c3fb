import { NodeUnreachable } from '../node-errors.ts'
import type { NodeUrl } from './node-url.ts'

/**
 * The JSON that a node answers to a POST, whatever it says.
 *
 * @param limits the deadline covers the whole call, the body's last byte included; a longer body is given up where it
 *   crosses the bound
 * @throws NodeUnreachable where no whole JSON text came: refused, late, cut, too long, not status 200, not UTF-8, not JSON
 */
export async function postJson(
  node: NodeUrl,
  asked: string,
  body: string,
  limits: { readonly timeoutMs: number; readonly maxAnswerBytes: number },
): Promise<unknown> {
  const signal = AbortSignal.timeout(limits.timeoutMs)
  let text: string
  try {
    const response = await fetch(node.href, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...node.headers },
      body,
      redirect: 'error', // a node does not redirect, and elsewhere is not where the credentials are for
      signal,
    })
    text = await readText(response, asked, limits.maxAnswerBytes)
    if (response.status !== 200) throw new NodeUnreachable(`${asked} was answered with HTTP status ${response.status}`)
  } catch (error) {
    if (error instanceof NodeUnreachable) throw error
    if (signal.aborted) throw new NodeUnreachable(`${asked} was not answered within ${limits.timeoutMs} ms`, { cause: error })
    throw new NodeUnreachable(`${asked} failed: ${describe(error)}`, { cause: error })
  }
  try {
    return JSON.parse(text) as unknown
  } catch {
    // Without the parser's own error: it repeats what the node sent.
    throw new NodeUnreachable(`${asked} was answered with something that is not JSON`)
  }
}

async function readText(response: Response, asked: string, maxBytes: number): Promise<string> {
  if (response.body === null) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    // Leaving the loop by an error cancels the body, which closes the connection.
    if (bytes > maxBytes) throw new NodeUnreachable(`${asked} was answered with more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
}

/** fetch wraps every cause in "fetch failed"; the code of the socket's error says more. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  const code = cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : undefined
  return code === undefined ? error.message : `${error.message} (${code})`
}
