import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import https from 'node:https'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { reservePort } from '../../scripts/embedded/ports.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { findCaddy, findHaproxy } from './prepare.mjs'

/** An API process as its proxy knows it. */
export interface ProxiedApi {
  port: number
  readyPort: number
}

export interface Proxied {
  status: number
  headers: NodeJS.Dict<string | string[]>
  text: string
}

export interface Proxy {
  readonly httpPort: number
  /** @param from the loopback address that the client has */
  send(
    method: string,
    path: string,
    options?: { token?: string; body?: string | Buffer; from?: string; agent?: https.Agent },
  ): Promise<Proxied>
  logged(): string
  stop(): Promise<void>
}

const fileOf = (name: string): string => fileURLToPath(new URL(`../../deploy/${name}`, import.meta.url))

/** HAProxy with the sample configuration as it is; `limits` are settings of it. */
export async function startHaproxy(
  apis: readonly [ProxiedApi, ProxiedApi],
  limits: Record<string, string> = {},
): Promise<Proxy> {
  const folder = makeFolder()
  const [key, certificate, both] = ['key.pem', 'chain.pem', 'both.pem'].map((name) => path.join(folder, name))
  const words = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost'
  execFileSync(
    'openssl',
    ['req', '-x509', ...words.split(' '), '-keyout', key ?? '', '-out', certificate ?? ''],
    {
      stdio: 'ignore',
    },
  )
  fs.writeFileSync(
    both ?? '',
    fs.readFileSync(certificate ?? '', 'utf8') + fs.readFileSync(key ?? '', 'utf8'),
  )
  const [httpsPort, httpPort] = [await reservePort(), await reservePort()]
  const [first, second] = apis
  return runProxy(findHaproxy(process.env), ['-db', '-f', fileOf('haproxy/haproxy.cfg')], {
    folder,
    httpsPort,
    httpPort,
    env: {
      HTTPS_BIND: `127.0.0.1:${httpsPort}`,
      HTTP_BIND: `127.0.0.1:${httpPort}`,
      CERTIFICATE: both ?? '',
      CONNECTIONS: '1000',
      API_1: `127.0.0.1:${first.port}`,
      API_1_READY: String(first.readyPort),
      API_2: `127.0.0.1:${second.port}`,
      API_2_READY: String(second.readyPort),
      ...limits,
    },
  })
}

/** Caddy with the sample configuration as it is, in front of one API. */
export async function startCaddy({ port, readyPort }: ProxiedApi): Promise<Proxy> {
  const folder = makeFolder()
  const [httpsPort, httpPort] = [await reservePort(), await reservePort()]
  const words = ['run', '--adapter', 'caddyfile', '--config', fileOf('caddy/Caddyfile')]
  return runProxy(findCaddy(process.env), words, {
    folder,
    httpsPort,
    httpPort,
    env: {
      SITE: `https://localhost:${httpsPort}`,
      HTTP_SITE: `http://localhost:${httpPort}`,
      ISSUER: 'internal',
      APIS: `127.0.0.1:${port}`,
      READY_PORT: String(readyPort),
      XDG_DATA_HOME: folder,
      XDG_CONFIG_HOME: folder,
    },
  })
}

const makeFolder = (): string => fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-proxy-'))

async function runProxy(
  program: string,
  words: readonly string[],
  given: { folder: string; env: Record<string, string>; httpsPort: number; httpPort: number },
): Promise<Proxy> {
  const { folder, env, httpsPort, httpPort } = given
  const child = spawn(program, words, {
    env: { PATH: process.env['PATH'], HOME: folder, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let logged = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (logged += String(text)))
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const proxy: Proxy = {
    httpPort,
    logged: () => logged,
    send: (method, pathOf, options = {}) => send(httpsPort, method, pathOf, options),
    async stop() {
      child.kill('SIGTERM')
      await ended
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
  await waitFor(
    `${path.basename(program)}, with an API behind it`,
    () => {
      if (child.exitCode !== null) throw new Error(`${program} ended:\n${logged}`)
      return proxy.send('GET', '/api/v1').then(
        ({ status }) => (status === 200 ? true : undefined),
        () => undefined, // it doesn't listen yet
      )
    },
    { limitMs: 200_000 },
  )
  return proxy
}

function send(
  port: number,
  method: string,
  pathOf: string,
  { token, body, from = '127.0.0.1', agent }: Parameters<Proxy['send']>[2] & object,
): Promise<Proxied> {
  return new Promise((resolve, reject) => {
    const request = https.request(
      {
        host: '127.0.0.1',
        port,
        method,
        path: pathOf,
        localAddress: from,
        servername: 'localhost',
        rejectUnauthorized: false,
        ...(agent === undefined ? { agent: false } : { agent }),
        headers: {
          Host: `localhost:${port}`,
          ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
          ...(body === undefined
            ? {}
            : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
        },
      },
      (answer) => {
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (chunk: string) => (text += chunk))
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }))
        answer.on('error', reject)
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}
