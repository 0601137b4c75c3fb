import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { AccessName } from './access.ts'
import { trackChildren } from './children.ts'
import { startMongod } from './mongod.ts'
import { requireMongod, requireRedis } from './programs.ts'
import { startRedis } from './redis.ts'
import type { EmbeddedServer } from './server.ts'
import type { SupervisedChild } from './supervise.ts'

export interface TemporaryServers {
  mongod: EmbeddedServer
  redis: EmbeddedServer
  /** The folder that holds their data; removed by stop. */
  folder: string
  stop(): Promise<void>
}

/**
 * Starts a MongoDB replica set and a Redis in a fresh folder, journaled and synced as in service, for tests
 * or a benchmark. One pair serves a whole run of tests; a test that kills its servers starts a pair of its
 * own.
 *
 * @param under the folder in which the fresh one is made
 */
export async function startServers(
  report: (line: string) => void = console.error,
  {
    cacheGb = 0.25,
    under = os.tmpdir(),
    users = [],
    queuePrefix = '',
  }: { cacheGb?: number; under?: string; users?: readonly AccessName[]; queuePrefix?: string } = {},
): Promise<TemporaryServers> {
  const folder = fs.mkdtempSync(path.join(under, 'agent-network-'))
  const children = trackChildren(folder, report, true)
  const options = { dataDir: folder, users, children, report }
  const started: SupervisedChild[] = []
  const onStarted = (child: SupervisedChild) => void started.push(child)
  const stop = async () => {
    for (const child of started.splice(0).reverse()) await child.stop()
    children.close()
    fs.rmSync(folder, { recursive: true, force: true })
  }
  try {
    const mongod = await startMongod({ ...options, binary: requireMongod(), cacheGb, onStarted })
    const redis = await startRedis({ ...options, queuePrefix, binary: requireRedis(), onStarted })
    return { mongod, redis, folder, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
