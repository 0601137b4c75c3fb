import path from 'node:path'
import type { AccessName } from './access.ts'
import type { ChildTracker } from './children.ts'
import { ensureSecret } from './data-dir.ts'
import { supervise, whenUp, type ChildSpec, type SupervisedChild } from './supervise.ts'

export const HOST = '127.0.0.1'
export const REPLICA_SET = 'agent-network'
/** A large journal or append-only file is replayed before the first answer. */
const READY_LIMIT_MS = 120_000

/** What the starts of MongoDB and of Redis take alike. */
export interface ServerOptions {
  /** The server's program. */
  binary: string
  /** Data goes to a folder of the server's in here, its log to `logs`; passwords lie beside them. */
  dataDir: string
  /** Who may connect, besides the administrator. */
  users?: readonly AccessName[]
  children: ChildTracker
  report: (line: string) => void
  /** Gets the child before it answers, so that a stop in the meantime can reach it. */
  onStarted?: (child: SupervisedChild) => void
  /** Ends the wait for the first answer. */
  signal?: AbortSignal | undefined
  /** Who talks to the server; this process if absent. */
  setup?: ServerSetup
}

/** See server-setup.ts. */
export type ServerSetup = typeof import('./server-setup.ts')

/** Loads the libraries of the servers' clients only if this process talks to them itself. */
export const setupOf = async ({ setup }: ServerOptions): Promise<ServerSetup> =>
  setup ?? import('./server-setup.ts')

/** A server that runs as our child. URLs with a login hold its password. */
export interface EmbeddedServer {
  /** For the administrator. */
  readonly url: string
  /** For each of the users that were asked for. */
  readonly urls: Readonly<Record<string, string>>
  readonly port: number
  readonly child: SupervisedChild
}

export interface UserPassword {
  name: AccessName
  password: string
}

/** Reads the password of each user from the data folder; makes those that are missing. */
export const ensurePasswords = (
  server: 'mongo' | 'redis',
  { dataDir, users = [] }: ServerOptions,
): UserPassword[] =>
  users.map((name) => ({
    name,
    password: ensureSecret(path.join(dataDir, `${server}-password-${name}`)),
  }))

/**
 * Runs a server's program under supervision and waits until `isUp` gives true. If that fails, the program is
 * stopped again.
 *
 * @param title the server at the beginning of a sentence
 * @throws StartError if it ends time and again, TimeoutError after two minutes, and what `isUp` throws
 */
export async function superviseServer(
  spec: Omit<ChildSpec, 'command' | 'env'>,
  { binary, children, report, onStarted, signal }: ServerOptions,
  title: string,
  isUp: () => Promise<true | undefined>,
  everyMs?: number,
): Promise<SupervisedChild> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, TZ: process.env.TZ }
  const child = supervise({ ...spec, command: binary, env }, report, children)
  try {
    onStarted?.(child)
    await whenUp(child, title, isUp, { limitMs: READY_LIMIT_MS, everyMs, signal })
    return child
  } catch (error) {
    await child.stop()
    throw error
  }
}
