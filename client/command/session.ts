import { addAbortSignal, type Readable } from 'node:stream'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { createClient, RefusalError, type Author, type Client } from '../client.ts'
import { parseBaseUrl } from '../http.ts'
import { withFileLock } from '../private-file.ts'
import { readTokenFile, tokenFilePath, writeTokenFile, type Identity } from '../token-file.ts'
import { recall } from '../verify/state.ts'
import { CommandError, usageError } from './command-error.ts'
import { describeForeignChanges } from './own-entries.ts'
import type { ProgressLine } from './progress-line.ts'
import type { SealTrust } from '../verify/verification.ts'

const DEFAULT_URL = 'http://127.0.0.1:3000'

/** How old the log may be that proves an agent's keys: a day, since a quiet service makes no seals. */
const KEY_MAX_AGE_SECONDS = 86_400

/** Where a session is, and what it reads and writes. */
interface SessionOptions {
  /** The service; AGENT_URL, or this machine's port 3000, if absent. */
  url: string | undefined
  /** The name of one of several agents. */
  as?: string | undefined
  insecure: boolean
  env: NodeJS.ProcessEnv
  /** What the text `-` stands for; for itself if absent. */
  stdin?: Readable | undefined
  stdout: { write(text: string): unknown }
  signal: AbortSignal
  progress: ProgressLine
}

/** What a verb works with: one service, and this agent's identity there. */
export class Session {
  readonly baseUrl: string
  /** The folder of this agent's files: AGENT_HOME, or the folder of `--as` in it. */
  readonly home: string
  readonly tokenFile: string
  /** Plain HTTP to another machine was allowed. */
  readonly insecure: boolean
  readonly signal: AbortSignal
  readonly progress: ProgressLine
  /** Without a token. */
  readonly client: Client
  /** Where a check of the ledger remembers the keys and the log of this service. */
  readonly trust: SealTrust
  /** Whom this agent asks about the chains: NANO_RPC, a Nano node, and MONERO_RPC, a monero-wallet-rpc. */
  readonly nodes: { readonly nanoRpc: string | undefined; readonly moneroRpc: string | undefined }
  readonly #options: SessionOptions
  #isIdentityUsed = false

  /** @throws CommandError `usage` if the URL or the name can't be used; InsecureUrlError */
  constructor(options: SessionOptions) {
    const { env, signal, progress } = options
    this.#options = options
    this.signal = signal
    this.progress = progress
    const asked = parseUrl(options.url ?? (env['AGENT_URL'] || DEFAULT_URL))
    this.home = homeOf(env, options.as)
    this.tokenFile = findTokenFile(this.home, asked)
    // The URL as the identity was made with it is the one under which everything is remembered.
    const kept = readTokenUrl(this.tokenFile)
    this.baseUrl = kept !== undefined && isSameService(kept, asked) ? kept : asked
    this.insecure = options.insecure || env['AGENT_INSECURE'] === '1'
    this.client = createClient({ baseUrl: this.baseUrl, signal, insecure: this.insecure })
    this.trust = {
      stateFile: this.tokenFile.replace(/\.json$/, '.seals.json'),
      policyFile: env['WITNESS_POLICY'] || undefined,
      maxAgeSeconds: KEY_MAX_AGE_SECONDS,
    }
    this.nodes = { nanoRpc: env['NANO_RPC'] || undefined, moneroRpc: env['MONERO_RPC'] || undefined }
  }

  /** This agent's identity here, if it has one. */
  findIdentity(): Identity | undefined {
    const { tokenFile, baseUrl } = this
    const identity = readTokenFile(tokenFile)
    if (identity !== undefined && identity.url !== baseUrl)
      throw new CommandError(
        'wrong_token_file',
        `${tokenFile} holds the token of ${identity.url}, which is not sent to ${baseUrl}.`,
      )
    return identity
  }

  /** @throws CommandError `not_registered` */
  requireIdentity(): Identity {
    const identity = this.findIdentity()
    if (identity !== undefined) return identity
    throw new CommandError(
      'not_registered',
      `No agent is registered with ${this.baseUrl} here (there is no ${this.tokenFile}); "register" makes one.`,
    )
  }

  /** Changes the identity in the token file, under its lock. @returns the changed one */
  changeIdentity(change: (identity: Identity) => Identity): Identity {
    return withFileLock(this.tokenFile, () => {
      const changed = change(this.requireIdentity())
      writeTokenFile(this.tokenFile, changed)
      return changed
    })
  }

  /**
   * This agent's identity, and a client with its token. If a rotation of the token was begun and its answer
   * lost, it finds out which token is good, and keeps that.
   *
   * @throws CommandError `not_registered`
   */
  async authenticate(): Promise<{ client: Client; identity: Identity }> {
    let identity = this.requireIdentity()
    const { next_token: nextToken } = identity
    if (nextToken !== undefined && (await isTokenValid(this.client.with({ token: nextToken }))))
      identity = this.changeIdentity((current) => promoteToken(current, nextToken))
    this.#isIdentityUsed = true
    return {
      identity,
      client: this.client.with({ token: identity.token, author: await this.#authorOf(identity) }),
    }
  }

  /** By what this agent signs what it writes, if it has an author key. */
  async #authorOf({ agent_id, author_secret_key: secret }: Identity): Promise<Author | undefined> {
    if (secret === undefined) return undefined
    const seen = (await recall(this.trust.stateFile, this.baseUrl))?.log
    return { agent_id, secret_key: secret, seen }
  }

  /**
   * Returns a warning for each change that the ledger newly shows of this agent and that it did not make; a
   * next call does not repeat it. None unless authenticate() was called, or if the service is slow to answer.
   */
  async takeForeignChangeWarnings(): Promise<string[]> {
    return this.#isIdentityUsed
      ? describeForeignChanges(this.client, this.requireIdentity(), this.tokenFile)
      : []
  }

  /** Writes a line to stdout at once, before the verb's output. */
  print(line: string): void {
    this.#options.stdout.write(`${line}\n`)
  }

  /** Gives `text`, or the content of stdin if `text` is `-`. */
  async readText(text: string): Promise<string> {
    const { stdin } = this.#options
    if (text !== '-' || stdin === undefined) return text
    const chunks: Buffer[] = []
    for await (const chunk of addAbortSignal(this.signal, stdin))
      chunks.push(Buffer.from(chunk as Uint8Array))
    if (chunks.every(({ length }) => length === 0))
      throw usageError('Nothing came on stdin, which - stands for.')
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
        .decode(Buffer.concat(chunks))
        .replace(/\r?\n$/, '')
    } catch (cause) {
      throw new CommandError('not_text', 'What came on stdin is not text in UTF-8.', { cause })
    }
  }
}

/** The identity with a token that is known to be good; `next_token` goes if it is that one. */
export function promoteToken({ next_token: nextToken, ...identity }: Identity, token: string): Identity {
  return {
    ...identity,
    token,
    ...(nextToken === undefined || nextToken === token ? {} : { next_token: nextToken }),
  }
}

/**
 * Whether the service knows the client's token: it is asked.
 *
 * @throws what the client throws, except a refusal of the token
 */
async function isTokenValid(client: Client): Promise<boolean> {
  try {
    await client.me()
    return true
  } catch (error) {
    if (error instanceof RefusalError && error.error === 'invalid_token') return false
    throw error
  }
}

/**
 * The folder of an agent's files. Each name of `--as` has a folder of its own in it.
 *
 * @throws CommandError `usage`
 */
export function homeOf(env: NodeJS.ProcessEnv, as: string | undefined): string {
  const home = env['AGENT_HOME'] || path.join(homedir(), '.agent-network')
  if (as === undefined) return home
  if (!/^[0-9A-Za-z][0-9A-Za-z_-]{0,31}$/.test(as))
    throw usageError('--as expected a name of up to 32 letters, digits, _ and -.')
  return path.join(home, as)
}

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]']

/** The URLs that reach the same service: a URL of this machine's loopback under each of its names, else itself. */
function spellingsOf(baseUrl: string): string[] {
  const [, scheme = '', host = '', rest = ''] = /^(https?:\/\/)(\[[^\]]*\]|[^/:]+)(.*)$/.exec(baseUrl) ?? []
  return LOOPBACK.includes(host) ? LOOPBACK.map((name) => scheme + name + rest) : [baseUrl]
}

/** Whether two URLs reach the same service, as far as their spelling tells. */
export const isSameService = (a: string, b: string): boolean => spellingsOf(a).includes(b)

/** The token file for a service: the one that exists for any spelling of its URL, else the one for this spelling. */
export function findTokenFile(home: string, baseUrl: string): string {
  const files = spellingsOf(baseUrl).map((spelling) => tokenFilePath(home, spelling))
  return files.find((file) => existsSync(file)) ?? tokenFilePath(home, baseUrl)
}

/** The URL in a token file; undefined for a missing or unreadable file: the verb that needs the file reports the error. */
function readTokenUrl(tokenFile: string): string | undefined {
  try {
    return readTokenFile(tokenFile)?.url
  } catch {
    return undefined
  }
}

/** A service's URL in the form that parseBaseUrl() gives. @throws CommandError `usage` */
export function parseUrl(text: string): string {
  try {
    return parseBaseUrl(text)
  } catch (error) {
    throw usageError(
      `The service's address cannot be used: ${error instanceof Error ? error.message : String(error)}.`,
    )
  }
}
