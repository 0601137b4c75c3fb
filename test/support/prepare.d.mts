import type { MoneroPrograms } from '../../devnet/monero-regtest/regtest.ts'
import type { Screen } from '../../scripts/prepare.mjs'

/** A program that only tests use: how it is called, the Debian package with its file in there, and what to say without it. */
export interface TestProgram {
  title: string
  names: string[]
  cachedName: string
  package: string
  member: string
  /** Makes it say its version; `--version` if absent. */
  versionWord?: string
  missing: string
}

/** Makes the programs findable, or throws with the reason. */
export interface PackageSource {
  name: string
  fetch(programs: TestProgram[], env: NodeJS.ProcessEnv, screen: Screen): Promise<void>
}

export const TEST_PROGRAMS: Record<
  'monerod' | 'walletRpc' | 'chromium' | 'haproxy' | 'caddy' | 'faketime',
  TestProgram
>
export const PACKAGE_SOURCES: PackageSource[]
export function prepareTestPrograms(
  programs: TestProgram[],
  env: NodeJS.ProcessEnv,
  screen: Screen,
  sources: PackageSource[],
): Promise<void>
/** Debian's packages by apt-get, into the system. @throws where `isRoot` is false, and where apt-get fails */
export function installPackages(
  programs: TestProgram[],
  env: NodeJS.ProcessEnv,
  screen: Screen,
  isRoot?: boolean,
): Promise<void>
/** Debian's packages with the libraries that the system lacks, into the cache, without root. */
export function unpackPackages(programs: TestProgram[], env: NodeJS.ProcessEnv, screen: Screen): Promise<void>

/** Paths of monerod and monero-wallet-rpc: on the PATH, else in the cache. @throws with the sentence that says what to install */
export function findMonero(env: NodeJS.ProcessEnv): MoneroPrograms
/** On the PATH, else in the cache. @throws with the sentence that says what to install */
export function findHaproxy(env: NodeJS.ProcessEnv): string
export function findCaddy(env: NodeJS.ProcessEnv): string
/** Path of a Chromium or Chrome: on the PATH, else in the cache. @throws with the sentence that says what to install */
export function findChromium(env: NodeJS.ProcessEnv): string
