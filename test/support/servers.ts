import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import type { AccessName } from '../../scripts/embedded/access.ts'
import { startServers as startTemporary, type TemporaryServers } from '../../scripts/embedded/temporary.ts'
import { serverFolder } from './server-folder.ts'

export type { TemporaryServers } from '../../scripts/embedded/temporary.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    mongodbUrl: string
    redisUrl: string
  }
}

/**
 * Settings of an API under test: the tests burden a machine beyond what a service would bear, and few are
 * about a slow database.
 */
export const PATIENT = { REQUEST_SECONDS: '10' }

/** A MongoDB and a Redis of a test's own. */
export const startServers = (
  report?: (line: string) => void,
  options: { users?: readonly AccessName[]; queuePrefix?: string; cacheGb?: number } = {},
): Promise<TemporaryServers> => startTemporary(report, { under: serverFolder(), ...options })

/** A database and a queue prefix that no other test file uses, on the servers of this run. */
export function isolate(): { mongodbUrl: string; redisUrl: string; queuePrefix: string } {
  const name = `test-${randomBytes(6).toString('hex')}`
  const mongodbUrl = new URL(inject('mongodbUrl'))
  mongodbUrl.pathname = `/${name}`
  return { mongodbUrl: mongodbUrl.href, redisUrl: inject('redisUrl'), queuePrefix: name }
}
