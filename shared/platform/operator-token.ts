import { createHash, timingSafeEqual } from 'node:crypto'

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/**
 * Whether an `Authorization` header holds one of these tokens: as Bearer for programs, as the password of
 * Basic with any user name for a browser, which asks for it by itself. Compared in constant time.
 */
export function holdsToken(authorization: string | undefined, tokens: readonly string[]): boolean {
  const given = digest(readAuthorization(authorization).credentials)
  return tokens.some((token) => timingSafeEqual(given, digest(token)))
}

/**
 * Parses an `Authorization` header: its scheme in lower case, and as `credentials` the token of Bearer or the
 * password of Basic; both are empty if there is none.
 */
export function readAuthorization(authorization: string | undefined): {
  scheme: string
  credentials: string
} {
  const [name = '', value = ''] = (authorization ?? '').split(' ', 2)
  const scheme = name.toLowerCase()
  if (scheme === 'basic')
    return {
      scheme,
      credentials: Buffer.from(value, 'base64')
        .toString('utf8')
        .replace(/^[^:]*:/, ''),
    }
  return { scheme, credentials: scheme === 'bearer' ? value : '' }
}
