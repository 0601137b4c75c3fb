import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { inject } from 'vitest';
import { trackChildren } from '../../scripts/embedded/children.ts';
import { startMongod, type Mongod } from '../../scripts/embedded/mongod.ts';
import { startRedis, type EmbeddedRedis } from '../../scripts/embedded/redis.ts';
import { findMongod, findRedis } from '../../scripts/prepare.mjs';

declare module 'vitest' {
  export interface ProvidedContext {
    mongodbUrl: string;
    redisUrl: string;
  }
}

export interface TestServers {
  mongod: Mongod;
  redis: EmbeddedRedis;
  /** The folder that holds their data; removed by stop. */
  folder: string;
  stop(): Promise<void>;
}

/**
 * A real MongoDB replica set and a real Redis in a fresh folder, journaled and synced as in service. One pair serves a
 * whole run; a test that kills its servers starts a pair of its own.
 */
export async function startServers(report: (line: string) => void = console.error): Promise<TestServers> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-test-'));
  const children = trackChildren(undefined, report, folder);
  const options = { dataDir: folder, children, report };
  const running: { stop(): Promise<void> }[] = [];
  const onStarted = (child: { stop(): Promise<void> }) => void running.push(child);
  const stop = async () => {
    for (const child of running.splice(0).reverse()) await child.stop();
    children.close();
    fs.rmSync(folder, { recursive: true, force: true });
  };
  try {
    const mongod = await startMongod({ ...options, binary: required('mongod', findMongod(process.env)), cacheGb: 0.25, onStarted });
    const redis = await startRedis({ ...options, binary: required('redis-server', findRedis(process.env)), onStarted });
    return { mongod, redis, folder, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A database and a queue prefix that no other test file uses, on the servers of this run. */
export function isolate(): { mongodbUrl: string; redisUrl: string; queuePrefix: string } {
  const name = `test-${randomBytes(6).toString('hex')}`;
  const mongodbUrl = new URL(inject('mongodbUrl'));
  mongodbUrl.pathname = `/${name}`;
  return { mongodbUrl: mongodbUrl.href, redisUrl: inject('redisUrl'), queuePrefix: name };
}

function required(name: string, program: string | undefined): string {
  if (program === undefined) throw new Error(`There is no ${name} here: run "node scripts/prepare.mjs --test" first.`);
  return program;
}
