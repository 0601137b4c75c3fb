import type { TestProject } from 'vitest/node'
import { canRunPythonVerifier } from './run-verifier.ts'
import { startServers } from './servers.ts'

/** One MongoDB and one Redis for the whole run; `isolate` gives a test file its share of them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (!canRunPythonVerifier()) console.error('The tests of the Python verifier are skipped: there is no python3 of 3.9 or newer here.')
  const servers = await startServers()
  project.provide('mongodbUrl', servers.mongod.url)
  project.provide('redisUrl', servers.redis.url)
  return () => servers.stop()
}
