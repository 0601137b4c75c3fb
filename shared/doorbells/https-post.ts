import { Resolver } from 'node:dns/promises'
import { constants } from 'node:crypto'
import https from 'node:https'
import type { IncomingMessage } from 'node:http'
import { createSecureContext, type SecureContext } from 'node:tls'
import { messageOf } from '../platform/errors.ts'
import { SECOND_MS } from '../platform/time.ts'
import { isPublicAddress } from './public-address.ts'

/*
 * The only way out of the service to a place that a stranger names. A name is resolved once, every address that it
 * has must be public, and the connection goes to an address that was checked; the name is only for TLS and `Host`.
 */

const CONNECT_LIMIT_MS = SECOND_MS
const LIMIT_MS = 3 * SECOND_MS
/** What of an answer's body is read if it is read at all. */
const READ_BYTES = 1024
/** A usual answer has less; of a longer head nothing is known. */
const MAX_HEAD_BYTES = 8 * 1024

export type Posted =
  | { kind: 'answered'; status: number; /** The first READ_BYTES of the body, if asked for. */ text: string }
  | { kind: 'failed'; why: string }

/** Looks up the addresses of a host that may be connected to. @throws Error that says why no address may be */
export type ResolveHost = (host: string, port: number) => Promise<readonly string[]>

/**
 * Returns the addresses if all are public.
 *
 * @throws Error that names no address: who set the URL needn't learn what a name means inside
 */
export function requirePublic(addresses: readonly string[]): readonly string[] {
  if (addresses.length === 0) throw new Error('the host has no address')
  if (!addresses.every(isPublicAddress)) throw new Error('the host has an address that is not public')
  return addresses
}

/**
 * Makes the resolver of this process: DNS alone, without /etc/hosts and search domains, so that a name means what
 * the world takes it to mean.
 *
 * @param testHosts `HOST:PORT` that a test lets through, each with its address
 */
export function createResolver(testHosts: ReadonlyMap<string, string>): ResolveHost {
  const resolver = new Resolver({ timeout: SECOND_MS, tries: 1 })
  return async (host, port) => {
    const forTest = testHosts.get(`${host}:${port}`)
    if (forTest !== undefined) return [forTest]
    const [v4, v6] = await Promise.all([
      resolver.resolve4(`${host}.`).catch(() => []),
      resolver.resolve6(`${host}.`).catch(() => []),
    ])
    // IPv4 first, since not every machine has IPv6; another try takes the next address.
    return requirePublic([...v4, ...v6])
  }
}

export interface PostOptions {
  resolve: ResolveHost
  secureContext: SecureContext
}

/**
 * What every connection's TLS has in common: to make it anew for each takes longer than the rest of a ring.
 *
 * @param ca certificates of authorities, in PEM; those that Node trusts if absent
 */
export const createTlsContext = (ca?: string): SecureContext =>
  createSecureContext({
    minVersion: 'TLSv1.2',
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    // A ring holds no secret: OpenSSL's first choice, a key against quantum computers, costs a third of a handshake.
    ecdhCurve: 'X25519:P-256:P-384',
    ...(ca === undefined ? {} : { ca }),
  })

/**
 * Posts to an https URL, within 3 s in all, of which the connection may take one. No redirect is followed, and
 * nothing is read beyond the status line, the head, and READ_BYTES of the body if `readsBody`.
 *
 * @param turn picks one of the host's addresses, so that another try may take another
 */
export async function postOnce(
  { resolve, secureContext }: PostOptions,
  sent: { url: string; body: string; headers: Readonly<Record<string, string>>; turn: number },
  readsBody: boolean,
): Promise<Posted> {
  const url = new URL(sent.url)
  const signal = AbortSignal.timeout(LIMIT_MS)
  const over = new Promise<never>((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(new Error('no answer within 3 s')), { once: true }),
  )
  over.catch(() => undefined) // whoever races it hears of it
  try {
    const addresses = await Promise.race([resolve(url.hostname, Number(url.port || 443)), over])
    const address = addresses[sent.turn % addresses.length]
    if (address === undefined) throw new Error('the host has no address')
    return await send(
      { url, address, secureContext, signal, body: sent.body, headers: sent.headers },
      readsBody,
    )
  } catch (error) {
    return { kind: 'failed', why: signal.aborted ? 'no answer within 3 s' : shorten(messageOf(error)) }
  }
}

/** What somebody else's server says is shown to the owner alone, and not at length. */
const shorten = (text: string): string => text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 100)

interface Sending {
  url: URL
  address: string
  secureContext: SecureContext
  signal: AbortSignal
  body: string
  headers: Readonly<Record<string, string>>
}

/** Sends one request to one address. @throws what the connection or TLS throws */
function send(
  { url, address, secureContext, signal, body, headers }: Sending,
  readsBody: boolean,
): Promise<Posted> {
  return new Promise((resolve, reject) => {
    const request = https.request({
      method: 'POST',
      host: address,
      port: Number(url.port || 443),
      path: `${url.pathname}${url.search}`,
      servername: url.hostname,
      // An agent of its own, of one connection: no proxy, no session and no socket is shared.
      agent: new https.Agent({ keepAlive: false, maxCachedSessions: 0, secureContext }),
      // An address is not looked up; if it ever were, it would not have been checked.
      lookup: (_host, _options, done) => done(new Error('no name is looked up here'), '', 4),
      headers: {
        Host: url.host,
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'User-Agent': 'agent-network-doorbell',
        Connection: 'close',
        ...headers,
      },
      maxHeaderSize: MAX_HEAD_BYTES,
      signal,
    })
    const tooSlow = setTimeout(() => request.destroy(new Error('no connection within 1 s')), CONNECT_LIMIT_MS)
    request.once('socket', (socket) => socket.once('connect', () => clearTimeout(tooSlow)))
    request.once('close', () => clearTimeout(tooSlow))
    request.once('error', reject)
    request.once('upgrade', (_response, socket) => {
      socket.destroy()
      reject(new Error('the answer was an upgrade'))
    })
    request.once('response', (response) => {
      readStart(response, readsBody)
        .then((text) => resolve({ kind: 'answered', status: response.statusCode ?? 0, text }), reject)
        .finally(() => request.destroy())
    })
    request.end(body)
  })
}

/** The first READ_BYTES of a body; '' if it isn't read. */
async function readStart(response: IncomingMessage, readsBody: boolean): Promise<string> {
  response.on('error', () => undefined) // cut off on purpose
  if (!readsBody) return ''
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= READ_BYTES) break
  }
  return Buffer.concat(chunks).subarray(0, READ_BYTES).toString('latin1')
}
