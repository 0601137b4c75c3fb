import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { requireMongod, requireRedis } from '../../scripts/embedded/programs.ts'
import { reservePorts } from '../../scripts/embedded/ports.ts'
import { provisionMongo, writeAccessFiles } from '../../scripts/embedded/provision.ts'

/**
 * Starts a MongoDB and a Redis as docker-compose.yml does, with the access files that `provision` makes.
 *
 * @param folder gets the access files; the servers' data lie in it
 * @returns a function that ends both servers
 */
export async function startProvisioned(folder: string): Promise<() => Promise<void>> {
  const [mongo, redis] = await reservePorts(2)
  writeAccessFiles(folder, 'agent-network', { mongo: `127.0.0.1:${mongo}`, redis: `127.0.0.1:${redis}` })
  const data = path.join(folder, 'data')
  fs.mkdirSync(data)
  const inFolder = (name: string): string => path.join(folder, name)
  const mongod = ['--dbpath', data, '--port', String(mongo), '--replSet=agents', '--nounixsocket']
  const children = [
    spawn(requireMongod(), [...mongod, `--keyFile=${inFolder('mongo_keyfile')}`], { stdio: 'ignore' }),
    spawn(requireRedis(), ['--port', String(redis), '--save', '', '--aclfile', inFolder('redis_acl')], {
      stdio: 'ignore',
      cwd: data,
    }),
  ]
  const stop = async (): Promise<void> => {
    for (const child of children) {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    }
  }
  try {
    await provisionMongo(folder)
  } catch (error) {
    await stop()
    throw error
  }
  return stop
}
