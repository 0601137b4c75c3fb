interface HostPort {
  host: string
  port: number
}

/** A parsed REDIS_URL. */
export type RedisTarget = {
  nodes: readonly [HostPort, ...HostPort[]]
  username?: string
  password?: string
  tls: boolean
} & ({ kind: 'single'; db: number } | { kind: 'cluster' } | { kind: 'sentinel'; name: string; db: number })

/** The forms of REDIS_URL, for error messages. */
export const REDIS_URL_FORM =
  'expected redis://HOST:PORT, redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,HOST:PORT/NAME, with rediss for TLS'

const URL_FORM = /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^/@\s]*)@)?([^/@\s]+)((?:\/[^/\s?#]*)*)$/
const DEFAULT_PORTS = { single: 6_379, cluster: 6_379, sentinel: 26_379 } as const

/**
 * Parses `redis://user:password@host:port/db`, `redis+cluster://user:password@host:port,host:port` or
 * `redis+sentinel://user:password@host:port,host:port/name/db`; `rediss` for TLS. Of a cluster, some nodes
 * are enough: the client learns the others from them. `user:password` is that of Redis, also with sentinels.
 *
 * @returns undefined for a text of another form
 */
export function parseRedisUrl(text: string): RedisTarget | undefined {
  const [, scheme, kind = 'single', credentials = '', hosts = '', path = ''] = URL_FORM.exec(text) ?? []
  if (scheme === undefined) return undefined
  const [first, ...others] = hosts.split(',').map((host) => parseHost(host, DEFAULT_PORTS[kind as 'single']))
  if (first === undefined || others.includes(undefined)) return undefined
  if (kind === 'single' && others.length > 0) return undefined
  const login = parseLogin(credentials)
  if (login === undefined) return undefined
  const base = { nodes: [first, ...(others as HostPort[])] as const, ...login, tls: scheme === 'rediss' }
  const parts = path.split('/').slice(1)
  if (kind === 'cluster') return parts.join('') === '' ? { ...base, kind } : undefined
  const name = kind === 'sentinel' ? parts.shift() : undefined
  const db = parseDb(parts)
  if (db === undefined) return undefined
  if (kind === 'single') return { ...base, kind, db }
  return name === undefined || name === '' ? undefined : { ...base, kind: 'sentinel', name, db }
}

/** Parses `host`, `host:port` or `[IPv6]:port`; undefined for another form. */
function parseHost(text: string, defaultPort: number): HostPort | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = bracketed ?? plain
  const port = digits === undefined ? defaultPort : Number(digits)
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port }
}

/**
 * Parses `user:password`, percent-encoded, either of which may be empty; undefined if it can't be decoded.
 */
function parseLogin(text: string): { username?: string; password?: string } | undefined {
  const colon = text.indexOf(':')
  const [user, password] = colon === -1 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)]
  try {
    return {
      ...(user === '' ? {} : { username: decodeURIComponent(user) }),
      ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    }
  } catch {
    return undefined // a % that two hex digits do not follow
  }
}

/** The number of the database by the segments of the path, 0 if there is none; undefined for another form. */
function parseDb(parts: readonly string[]): number | undefined {
  const [text = ''] = parts
  if (parts.length > 1 || !/^\d{0,5}$/.test(text)) return undefined
  return Number(text)
}
