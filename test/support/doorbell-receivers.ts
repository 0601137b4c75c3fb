import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import net, { type AddressInfo } from 'node:net'
import tls from 'node:tls'

/** Certificates of `bell.example` and all below it, with their keys, which protect nothing; valid until 2126. */
export const BELL_CERTIFICATE = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIcM4CgTIzKfs+bFo
vmSyrVCzlaYccFKsQRgjvi5x/2ShRANCAASDlpyoNBM7THbGIFSvFhs2+4e/FtqP
nehIC4/BSGweGYoVQnabEBtAP4KF/dEC3BEZ4L/gmVLWosNtcarZHqRK
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBrzCCAVSgAwIBAgIUIRqIz7E2kezOiqvZM/SpslCDaXUwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMYmVsbC5leGFtcGxlMCAXDTI2MTEyODE1NDgzOFoYDzIxMjYx
MTA0MTU0ODM4WjAXMRUwEwYDVQQDDAxiZWxsLmV4YW1wbGUwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAASDlpyoNBM7THbGIFSvFhs2+4e/FtqPnehIC4/BSGweGYoV
QnabEBtAP4KF/dEC3BEZ4L/gmVLWosNtcarZHqRKo3wwejAdBgNVHQ4EFgQUFjwe
mlPNGhQrcrvpqkdBF6cFIzUwHwYDVR0jBBgwFoAUFjwemlPNGhQrcrvpqkdBF6cF
IzUwDwYDVR0TAQH/BAUwAwEB/zAnBgNVHREEIDAeggxiZWxsLmV4YW1wbGWCDiou
YmVsbC5leGFtcGxlMAoGCCqGSM49BAMCA0kAMEYCIQCtf6hScfGuYWt8NLVNPoWI
0ggE1m6zU+2adQL76I06AQIhAPZ3hsEo+XvaFMtcgUPA4heLC3YqIwkM7PR0jCbZ
mxh6
-----END CERTIFICATE-----`,
}

/** The same names, expired, by the authority above. */
export const EXPIRED_CERTIFICATE = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgt+jDwfyJBcHFEIqI
n7VoXdsI7gdW1oMjat0maNCcAqChRANCAAQ11EsGkESwhn6paVI3f8S14NNeaC7I
M/rAbUgRSikaYT4vpbjV3QAMVheX5r3db8fWZI46bgJUi5NflzQyuSIo
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUaKySVDSVV6HQfq+JGzY9XNSq2eswCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMYmVsbC5leGFtcGxlMB4XDTI2MTEyODE1NDgzOFoXDTI2MTEy
NzE1NDgzOFowFzEVMBMGA1UEAwwMYmVsbC5leGFtcGxlMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAENdRLBpBEsIZ+qWlSN3/EteDTXmguyDP6wG1IEUopGmE+L6W4
1d0ADFYXl+a93W/H1mSOOm4CVIuTX5c0MrkiKKNrMGkwJwYDVR0RBCAwHoIMYmVs
bC5leGFtcGxlgg4qLmJlbGwuZXhhbXBsZTAdBgNVHQ4EFgQULz/bGBVIVMSOnHBv
sRmzz9BO1SEwHwYDVR0jBBgwFoAUFjwemlPNGhQrcrvpqkdBF6cFIzUwCgYIKoZI
zj0EAwIDSAAwRQIgVQHP9DeGiciqLadliUhotQ2C9g2rmUtt4s4z4dnZ/IICIQDC
0rSLi0iUfZQm7JjTDWll8ozozPhNrEdeGhkINohAYQ==
-----END CERTIFICATE-----`,
}

/** Of `other.example`. */
export const OTHER_CERTIFICATE = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgdski4B3Lk9JlftVQ
CMwtmWZwbOu4W83libx95ntz7FKhRANCAAQT+xujdi+oyqEZtUMJA4FvRN2rV8pP
4L8m4Lvqst9fVC+ty1zcfWdx9EZXltFAcoFbQ/M1g9WYW9KZ5/BHup+b
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBojCCAUegAwIBAgIUWN20HP5zHK05Kt/EeII9abqKRGkwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTAgFw0yNjExMjgxNTQ4MzhaGA8yMTI2
MTEwNDE1NDgzOFowGDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABBP7G6N2L6jKoRm1QwkDgW9E3atXyk/gvybgu+qy319U
L63LXNx9Z3H0RleW0UBygVtD8zWD1Zhb0pnn8Ee6n5ujbTBrMB0GA1UdDgQWBBRD
s6tX//ERLy6j5ch6e1Kb5aocbjAfBgNVHSMEGDAWgBRDs6tX//ERLy6j5ch6e1Kb
5aocbjAPBgNVHRMBAf8EBTADAQH/MBgGA1UdEQQRMA+CDW90aGVyLmV4YW1wbGUw
CgYIKoZIzj0EAwIDSQAwRgIhALq/Ff8L+sr+MGKSmos0EUDU8MM6OLUHWta/AeWp
/KvdAiEAxWt1q9RhP7lGiSvSeHFEgxYDLeDe97R7AHxtPKWB2Fg=
-----END CERTIFICATE-----`,
}

export interface Receiver {
  port: number
  close(): void
}

/** Starts a server on a free loopback port; `close` also cuts what is open. */
export async function serveOn(server: net.Server, address = '127.0.0.1'): Promise<Receiver> {
  const sockets = new Set<net.Socket>()
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => undefined)
  server.listen(0, address)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** A receiver that speaks TLS, and does with each connection what it is told. */
export const serveTls = (
  onSocket: (socket: tls.TLSSocket) => void,
  options: tls.TlsOptions = BELL_CERTIFICATE,
): Promise<Receiver> =>
  serveOn(
    tls.createServer(options, (socket) => {
      socket.on('error', () => undefined)
      onSocket(socket)
    }),
  )

/** A receiver that speaks no TLS. */
export const serveTcp = (onSocket: (socket: net.Socket) => void): Promise<Receiver> =>
  serveOn(net.createServer(onSocket))

/** One post that a receiver got. */
export interface Got {
  atMs: number
  headers: http.IncomingHttpHeaders
  body: string
}

/** A receiver that answers posts as it should: it keeps them, and answers what `answer` gives. */
export async function serveBell(
  answer: (
    got: Got,
    path: string,
  ) => { status: number; text?: string } | Promise<{ status: number; text?: string }>,
): Promise<Receiver & { got: Got[] }> {
  const got: Got[] = []
  const server = https.createServer(BELL_CERTIFICATE, (req, res) => {
    const atMs = Date.now()
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const one = { atMs, headers: req.headers, body: Buffer.concat(chunks).toString() }
      got.push(one)
      void Promise.resolve(answer(one, req.url ?? '/')).then(({ status, text = '' }) => {
        res.writeHead(status)
        res.end(text)
      })
    })
    req.on('error', () => undefined)
  })
  return { ...(await serveOn(server)), got }
}
