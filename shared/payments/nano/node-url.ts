/** Where a node is, apart from who may ask it. */
export interface NodeUrl {
  /** Without user and password; fetch and WebSocket refuse or drop them. */
  readonly href: string
  /** What messages and logs call the node: scheme, host and port. A path or a query may hold a provider's key. */
  readonly origin: string
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Takes the user and password of a URL out of it and into an `Authorization` header (Basic, RFC 7617).
 *
 * @param scheme `http` or `ws`, each with its form over TLS
 * @throws TypeError for text that is no such URL; the text isn't repeated, it may hold a password
 */
export function readNodeUrl(text: string, scheme: 'http' | 'ws'): NodeUrl {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== `${scheme}:` && url.protocol !== `${scheme}s:`)) {
    throw new TypeError(`"url" expected a URL that begins with ${scheme}:// or ${scheme}s://`)
  }
  const { username, password } = url
  url.username = ''
  url.password = ''
  const headers: Record<string, string> = {}
  if (username !== '' || password !== '') {
    const credentials = `${decode(username)}:${decode(password)}`
    headers['authorization'] = `Basic ${Buffer.from(credentials, 'utf8').toString('base64')}`
  }
  return { href: url.href, origin: `${url.protocol}//${url.host}`, headers }
}

/** A part of a URL as it was meant; a stray percent sign stands for itself. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
