import { readBounded } from '../../foundation/http.ts'
import { NodeUnreachable } from '../node-errors.ts'
import type { NodeUrl } from './node-url.ts'

/** The deadline covers the last byte, too. @throws NodeUnreachable unless whole JSON came with status 200 */
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

/** fetch wraps every cause in "fetch failed"; the code of the socket's error says more. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  const code = cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : undefined
  return code === undefined ? error.message : `${error.message} (${code})`
}
