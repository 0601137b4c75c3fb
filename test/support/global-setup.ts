import type { TestProject } from 'vitest/node'
import { CRYPTOGRAPHY, preparePythonProgram, whyNoPython } from './python.ts'
import { startServers } from './servers.ts'

/** One MongoDB and one Redis for the whole run; `isolate` gives a test file its share of them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const noPython = whyNoPython()
  if (noPython === undefined) await preparePythonProgram(...CRYPTOGRAPHY, 'python')
  else console.error(`The tests of the Python verifier are skipped: ${noPython}.`)
  const servers = await startServers()
  project.provide('mongodbUrl', servers.mongod.url)
  project.provide('redisUrl', servers.redis.url)
  return () => servers.stop()
}
