import { createHash } from 'node:crypto'
import { linkSync } from 'node:fs'
import path from 'node:path'
import { parseBaseUrl } from './http.ts'
import { createPrivateFile, readPrivateFile, writePrivateFile } from './private-file.ts'
import { isObject, type Fields } from './verify/values.ts'

/**
 * What an agent must keep to stay who it is. It is the only copy: the service has a hash of the token and
 * never sees the secret key.
 */
export interface Identity {
  /** The service that gave the token; it is sent nowhere else. */
  url: string
  agent_id: string
  token: string
  /**
   * A token made for a rotation whose answer was never seen: one of the two is good. It is kept until it is
   * known to be the good one, because the call that brings it may still be under way.
   */
  next_token?: string
  /** X25519, 64 hex characters each. */
  dm_secret_key?: string
  dm_public_key?: string
  /** Ed25519, 64 hex characters each: what the agent signs what it writes with. */
  author_secret_key?: string
  author_public_key?: string
  /** A pair made for a rotation whose answer was never seen: the card shows which of the two is good. */
  next_author_secret_key?: string
  next_author_public_key?: string
  /** Pairs before it, the newest first; one without its secret half was forgotten. */
  old_dm_keys?: readonly MessageKeys[]
}

interface MessageKeys {
  dm_public_key: string
  dm_secret_key?: string
}

const TOKEN = /^sk_[0-9a-f]{48}$/
const KEY = /^[0-9a-f]{64}$/
const AGENT_ID = /^agt_[0-9A-Za-z]{1,60}$/
const HASH_LENGTH = 8

/**
 * The path of the token file for a service, in the folder `home`. Its name is the URL in readable form, with
 * a hash that tells apart what reads the same: `http://127.0.0.1:3000` → `127.0.0.1_3000-d6a2ff4f.json`.
 *
 * @throws Error if the URL can't be used
 */
export function tokenFilePath(home: string, baseUrl: string): string {
  const url = parseBaseUrl(baseUrl)
  const readable = url
    .replace(/^https?:\/\//, '')
    .replace(/[^0-9A-Za-z.-]+/g, '_')
    .replace(/^[._-]+|[._-]+$/g, '')
    .slice(0, 80)
  return path.join(
    home,
    `${readable}-${createHash('sha256').update(url).digest('hex').slice(0, HASH_LENGTH)}.json`,
  )
}

/**
 * Reads the identity in a token file; undefined if there is no such file.
 *
 * @throws Error that names the file if it holds something else; it doesn't quote the content, which may be a
 *   secret
 */
export function readTokenFile(filePath: string): Identity | undefined {
  return readPrivateFile(filePath, (value) => {
    const problem = value === undefined ? 'it is not JSON' : findProblem(value)
    if (problem !== undefined)
      throw new Error(`${filePath} is no token file: ${problem}; put it right, or move it away.`)
    return value as Identity
  })
}

/**
 * Replaces a token file's content, atomically.
 *
 * @throws Error for an identity that readTokenFile() would refuse
 */
export function writeTokenFile(filePath: string, identity: Identity): void {
  requireWellFormed(identity)
  writePrivateFile(filePath, identity, 2)
}

/**
 * Creates a token file, atomically.
 *
 * @throws Error for an identity that readTokenFile() would refuse; the platform's EEXIST if the file exists
 */
export function createTokenFile(filePath: string, identity: Identity): void {
  requireWellFormed(identity)
  createPrivateFile(filePath, identity, 2)
}

/**
 * Backs a token file up, by a second name for it, which stays when the file is replaced: `X.json` →
 * `X.TIME.backup.json`.
 *
 * @returns the backup's path
 */
export function backUpTokenFile(filePath: string, now: Date): string {
  const stem = filePath.replace(/\.json$/, '')
  const time = now.toISOString().replace(/[-:.]/g, '')
  for (let copy = 0; ; copy++) {
    const backup = `${stem}.${time}${copy === 0 ? '' : `-${copy}`}.backup.json`
    try {
      linkSync(filePath, backup) // never replaces an older backup
      return backup
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** @throws Error if the identity has not the right form */
function requireWellFormed(identity: Identity): void {
  const problem = findProblem(identity)
  if (problem !== undefined) throw new Error(`"identity" cannot be kept: ${problem}`)
}

const KEY_FIELD = [KEY, 'a key of 64 hex characters'] as const
/** What each field is if it is there. */
const FIELDS: Readonly<
  Record<Exclude<keyof Identity, 'old_dm_keys'>, readonly [form: RegExp, what: string]>
> = {
  url: [/^https?:\/\//, 'a URL'],
  agent_id: [AGENT_ID, 'an agent id'],
  token: [TOKEN, 'a token'],
  next_token: [TOKEN, 'a token'],
  dm_secret_key: KEY_FIELD,
  dm_public_key: KEY_FIELD,
  author_secret_key: KEY_FIELD,
  author_public_key: KEY_FIELD,
  next_author_secret_key: KEY_FIELD,
  next_author_public_key: KEY_FIELD,
}
const NEEDED = ['url', 'agent_id', 'token']

/** What is wrong with an identity, without quoting it; undefined if nothing is. */
function findProblem(identity: unknown): string | undefined {
  if (!isObject(identity)) return 'expected a JSON object'
  for (const [name, [form, what]] of Object.entries(FIELDS)) {
    const value = identity[name]
    const isRight =
      value === undefined ? !NEEDED.includes(name) : typeof value === 'string' && form.test(value)
    if (!isRight) return `"${name}" is not ${what}`
  }
  const { old_dm_keys: pairs = [] } = identity
  const isKey = (key: unknown): boolean => typeof key === 'string' && KEY.test(key)
  const isPair = ({ dm_public_key: key, dm_secret_key: secret }: Fields): boolean =>
    isKey(key) && (secret === undefined || isKey(secret))
  return Array.isArray(pairs) && pairs.every((pair) => isObject(pair) && isPair(pair))
    ? undefined
    : '"old_dm_keys" is not a list of pairs of keys'
}
