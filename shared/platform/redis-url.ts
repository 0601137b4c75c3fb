import { omitUndefined } from './omit-undefined.ts'

interface HostPort {
  host: string
  port: number
}

interface Login {
  username?: string
  password?: string
}

/** Paths of PEM files, named as in MongoDB's URL. */
interface TlsFiles {
  /** The authority that has signed the servers' certificates; those that Node knows if absent. */
  tlsCAFile?: string
  /** The client's certificate and its key, for servers that ask for one. */
  tlsCertificateKeyFile?: string
}

/** A parsed REDIS_URL. */
export type RedisTarget = Login & {
  nodes: readonly [HostPort, ...HostPort[]]
  /** Undefined without TLS. */
  tls?: TlsFiles
} & (
    | { kind: 'single'; db: number }
    | { kind: 'cluster'; natMap: NatMap }
    | { kind: 'sentinel'; name: string; db: number; natMap: NatMap; sentinelLogin: Login }
  )

/** Where to reach a server that a cluster or a sentinel names by an address of its own network, `HOST:PORT`. */
type NatMap = Record<string, HostPort>

/** The forms of REDIS_URL, for error messages. */
export const REDIS_URL_FORM =
  'expected redis://HOST:PORT, redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,HOST:PORT/NAME, with rediss for TLS, and after ? its parameters: tlsCAFile and tlsCertificateKeyFile with TLS, natMap with cluster and sentinel, sentinelUser and sentinelPassword'

const URL_FORM =
  /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^/@\s]*)@)?([^/@?\s]+)((?:\/[^/\s?#]*)*)(?:\?([^\s#]*))?$/
const DEFAULT_PORTS = { single: 6_379, cluster: 6_379, sentinel: 26_379 } as const

/**
 * Parses `redis://user:password@host:port/db`, `redis+cluster://user:password@host:port,host:port` or
 * `redis+sentinel://user:password@host:port,host:port/name/db`; `rediss` for TLS. Of a cluster, some nodes
 * are enough: the client learns the others from them. `user:password` is that of Redis, also with sentinels.
 * Parameters may follow a `?`: paths of PEM files `tlsCAFile` and `tlsCertificateKeyFile`, as in MongoDB's URL;
 * `sentinelUser` and `sentinelPassword` of sentinels that ask for their own; and
 * `natMap=HOST:PORT>HOST:PORT,…`, for servers that name each other by addresses which can't be reached from here.
 *
 * @returns undefined for a text of another form
 */
export function parseRedisUrl(text: string): RedisTarget | undefined {
  const [, scheme, kind = 'single', credentials = '', hosts = '', path = '', query = ''] =
    URL_FORM.exec(text) ?? []
  if (scheme === undefined) return undefined
  const [first, ...others] = hosts.split(',').map((host) => parseHost(host, DEFAULT_PORTS[kind as 'single']))
  if (first === undefined || others.includes(undefined)) return undefined
  if (kind === 'single' && others.length > 0) return undefined
  const login = parseLogin(credentials)
  const given = parseParameters(query, kind, scheme)
  if (login === undefined || given === undefined) return undefined
  const { tls, natMap, sentinelLogin } = given
  const nodes = [first, ...(others as HostPort[])] as const
  const base = { nodes, ...login, ...(tls === undefined ? {} : { tls }) }
  const parts = path.split('/').slice(1)
  if (kind === 'cluster') return parts.join('') === '' ? { ...base, kind, natMap } : undefined
  const name = kind === 'sentinel' ? parts.shift() : undefined
  const db = parseDb(parts)
  if (db === undefined) return undefined
  if (kind === 'single') return { ...base, kind, db }
  return name === undefined || name === ''
    ? undefined
    : { ...base, kind: 'sentinel', name, db, natMap, sentinelLogin }
}

/** The parameters that a URL may have, besides those of TLS. */
const PARAMETERS: Record<string, readonly string[]> = {
  single: [],
  cluster: ['natMap'],
  sentinel: ['natMap', 'sentinelUser', 'sentinelPassword'],
}

/** Parses what follows the `?`; undefined for a parameter that this kind of URL doesn't have, or that comes twice. */
function parseParameters(query: string, kind: string, scheme: string) {
  const isTls = scheme === 'rediss'
  const known = [...(PARAMETERS[kind] ?? []), ...(isTls ? ['tlsCAFile', 'tlsCertificateKeyFile'] : [])]
  const given = [...new URLSearchParams(query)]
  const values = new Map(given)
  if (values.size < given.length || given.some(([name, value]) => !known.includes(name) || value === ''))
    return undefined
  const natMap = parseNatMap(values.get('natMap'))
  if (natMap === undefined) return undefined
  const [tlsCAFile, tlsCertificateKeyFile] = [values.get('tlsCAFile'), values.get('tlsCertificateKeyFile')]
  const [username, password] = [values.get('sentinelUser'), values.get('sentinelPassword')]
  return {
    natMap,
    ...(isTls ? { tls: omitUndefined({ tlsCAFile, tlsCertificateKeyFile }) } : {}),
    sentinelLogin: omitUndefined({ username, password }),
  }
}

/** Parses `HOST:PORT>HOST:PORT,…`; undefined for another form. */
function parseNatMap(text: string | undefined): NatMap | undefined {
  const map: NatMap = {}
  for (const pair of text?.split(',') ?? []) {
    const [named = '', at = ''] = pair.split('>')
    const [from, to] = [parseHost(named, 0), parseHost(at, 0)]
    if (from === undefined || to === undefined) return undefined
    map[`${from.host}:${from.port}`] = to
  }
  return map
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
function parseLogin(text: string): Login | undefined {
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
