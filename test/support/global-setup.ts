import type { TestProject } from 'vitest/node';
import { startServers } from './servers.ts';

/** One MongoDB and one Redis for the whole run; `isolate` gives a test file its share of them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const servers = await startServers();
  project.provide('mongodbUrl', servers.mongod.url);
  project.provide('redisUrl', servers.redis.url);
  return () => servers.stop();
}
