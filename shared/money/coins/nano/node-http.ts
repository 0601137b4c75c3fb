import { decodeUrlPart, readBounded } from '../../../platform/http.ts'
import { NodeUnreachable } from '../../node-errors.ts'

export interface NodeUrl {
  /** Without user and password; fetch and WebSocket refuse or drop them. */
  readonly href: string
  /** The node's name in messages: scheme, host and port. Path or query may hold a provider's key. */
  readonly origin: string
  readonly headers: Readonly<Record<string, string>>
}

/** Parses a node's URL; user and password go into a header (Basic, RFC 7617). @throws TypeError */
export function readNodeUrl(text: string, scheme: 'http' | 'ws'): NodeUrl {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== `${scheme}:` && url.protocol !== `${scheme}s:`))
    throw new TypeError(`"url" expected a URL that begins with ${scheme}:// or ${scheme}s://`)
  const { username, password } = url
  url.username = ''
  url.password = ''
  const headers: Record<string, string> = {}
  if (username !== '' || password !== '') {
    const credentials = `${decodeUrlPart(username)}:${decodeUrlPart(password)}`
    headers['authorization'] = `Basic ${Buffer.from(credentials, 'utf8').toString('base64')}`
  }
  return { href: url.href, origin: `${url.protocol}//${url.host}`, headers }
}

/**
 * Posts JSON to a node and reads its JSON answer. @param asked what is asked of which node, for messages
 * @throws NodeUnreachable unless a whole JSON text came in time, with status 200
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
    const tooLong = () =>
      new NodeUnreachable(`${asked} was answered with more than ${limits.maxAnswerBytes} bytes`)
    text = await readBounded(response, limits.maxAnswerBytes, tooLong)
    if (response.status !== 200)
      throw new NodeUnreachable(`${asked} was answered with HTTP status ${response.status}`)
  } catch (error) {
    if (error instanceof NodeUnreachable) throw error
    if (signal.aborted)
      throw new NodeUnreachable(`${asked} was not answered within ${limits.timeoutMs} ms`, { cause: error })
    throw new NodeUnreachable(`${asked} failed: ${describe(error)}`, { cause: error })
  }
  try {
    return JSON.parse(text) as unknown
  } catch {
    // Without the parser's own error: it repeats what the node sent.
    throw new NodeUnreachable(`${asked} was answered with something that is not JSON`)
  }
}

/** Says why a fetch failed: it wraps every cause in "fetch failed", and the socket's error code says more. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  const code = cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : undefined
  return code === undefined ? error.message : `${error.message} (${code})`
}
