import type { TestProject } from 'vitest/node'
import { canRunPythonVerifier } from './run-verifier.ts'
import { startServers } from './servers.ts'

/** One MongoDB and one Redis for the whole run; `isolate` gives a test file its share of them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (!canRunPythonVerifier())
    console.error('The tests of the Python verifier are skipped: there is no python3 of 3.9 or newer here.')
  // With a smaller cache MongoDB searches the thousands of open files here for something to put out, without
  // end.
  const servers = await startServers(console.error, { cacheGb: 1 })
  project.provide('mongodbUrl', servers.mongod.url)
  project.provide('redisUrl', servers.redis.url)
  return () => servers.stop()
}
