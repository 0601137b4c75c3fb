import { decodeUrlPart } from '../../foundation/http.ts'

export interface NodeUrl {
  /** Without user and password; fetch and WebSocket refuse or drop them. */
  readonly href: string
  /** The node's name in messages: scheme, host and port. Path or query may hold a provider's key. */
  readonly origin: string
  readonly headers: Readonly<Record<string, string>>
}

/** User and password go into a header (Basic, RFC 7617). @throws TypeError; the text isn't repeated */
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
