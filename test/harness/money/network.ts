import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { trackChildren } from '../../../scripts/embedded/children.ts'
import { startMongod } from '../../../scripts/embedded/mongod.ts'
import { requireMongod, requireRedis } from '../../../scripts/embedded/programs.ts'
import { reservePort } from '../../../scripts/embedded/ports.ts'
import { startRedis } from '../../../scripts/embedded/redis.ts'
import type { EmbeddedServer } from '../../../scripts/embedded/server.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import { QUICK_RESTART } from '../testbed/mongo-set.ts'
import { isServing, startPart, type Part } from '../testbed/testbed.ts'
import { ensureSealKey } from '../../../shared/ledger/seal-key.ts'

/** The treasury's seed; the model signs with it when it plays a wallet in use elsewhere. */
export const TREASURY_SEED = '7a'.repeat(32)

const UP_LIMIT_MS = 90_000

export type Network = Awaited<ReturnType<typeof startNetwork>>

const COIN_SETTINGS = ['NANO_RPC_URL', 'NANO_WS_URL', 'NANO_SEED_FILE']

/**
 * Starts a network of one API process and one worker process with a MongoDB and a Redis of its own, and waits
 * until it serves.
 *
 * @throws Error with the processes' last lines if it does not come up; then nothing is left running
 */
export async function startNetwork(settings: Readonly<Record<string, string>>) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-money-'))
  const report = (): void => undefined
  const children = trackChildren(folder, report, true)
  const options = { dataDir: folder, children, report }
  const toStop: (() => Promise<unknown>)[] = []
  const startDatabase = (): Promise<EmbeddedServer> =>
    startMongod({ ...options, binary: requireMongod(), cacheGb: 0.25 })
  let mongod: EmbeddedServer | undefined
  const parts = new Map<'api' | 'workers', Part>()
  const stop = async (): Promise<void> => {
    await Promise.all([...parts.values()].map(({ child }) => child.stop()))
    for (const stopOne of toStop.splice(0).reverse()) await stopOne()
    await mongod?.child.stop()
    children.close()
    fs.rmSync(folder, { recursive: true, force: true })
  }
  try {
    mongod = await startDatabase()
    const redis = await startRedis({
      ...options,
      binary: requireRedis(),
      backOff: QUICK_RESTART,
      onStarted: (child) => void toStop.push(() => child.stop()),
    })
    ensureSealKey(path.join(folder, 'seal-key'))
    fs.writeFileSync(path.join(folder, 'nano-seed'), `${TREASURY_SEED}\n`, { mode: 0o600 })
    const port = await reservePort()
    const url = `http://127.0.0.1:${port}`
    const env = (): Record<string, string> => ({
      MONGODB_URL: mongod?.url ?? '',
      REDIS_URL: redis.url,
      DATA_DIR: folder,
      CHALLENGE_SECRET: 'c0'.repeat(32),
      SEAL_KEY_FILE: path.join(folder, 'seal-key'),
      SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
      FREE_UNTIL: 'none',
      REGISTER_BITS: '4',
      SWEEP_SECONDS: '2',
      OPERATOR_PORT: '0',
      PORT: String(port),
      ...settings,
      NANO_SEED_FILE: path.join(folder, 'nano-seed'),
    })
    /** Starts the process of a part. @param hasCoin false: without Nano's settings */
    const start = (name: 'api' | 'workers', hasCoin = true): void => {
      const partEnv = env()
      if (!hasCoin) for (const key of COIN_SETTINGS) delete partEnv[key]
      parts.set(
        name,
        startPart({ name, script: `${name}/main.ts`, args: [], env: partEnv, folder, children, report }),
      )
    }
    start('api')
    start('workers')
    const part = (name: 'api' | 'workers'): Part => {
      const found = parts.get(name)
      if (found === undefined) throw new Error(`${name} has not been started`)
      return found
    }
    /** Waits until API and workers are up. @throws Error with their last lines if they don't come up */
    const waitUntilServing = async (): Promise<void> => {
      const look = async (): Promise<true | undefined> =>
        (await isServing(url)) && part('workers').upAtMs() !== undefined ? true : undefined
      await waitFor('the network', look, { limitMs: UP_LIMIT_MS, everyMs: 100 }).catch((error: unknown) => {
        const lines = [...parts.values()].flatMap(({ name, lastLines }) =>
          lastLines().map((line) => `${name}: ${line}`),
        )
        throw new Error(`the network did not come up\n${lines.join('\n')}`, { cause: error })
      })
    }
    const live = path.join(folder, 'mongo')
    const copy = path.join(folder, 'mongo-backup')
    await waitUntilServing()
    return {
      /** `env`: the settings of its processes now; `part`: a process by its name. */
      url,
      folder,
      env,
      part,
      stop,
      /** Copies the database, which is stopped meanwhile. */
      async backUp(): Promise<void> {
        await mongod?.child.stop()
        fs.rmSync(copy, { recursive: true, force: true })
        fs.cpSync(live, copy, { recursive: true })
        mongod = await startDatabase()
      },
      /**
       * Stops everything, calls `onStopped`, puts the last copy in the database's place, and starts
       * everything again.
       */
      async restore(onStopped: () => void): Promise<void> {
        await Promise.all([...parts.values()].map(({ child }) => child.stop()))
        onStopped()
        await mongod?.child.stop()
        fs.rmSync(live, { recursive: true })
        fs.cpSync(copy, live, { recursive: true })
        mongod = await startDatabase()
        start('api')
        start('workers')
        await waitUntilServing()
      },
      /** Restarts the workers with the coin or without it. */
      async setCoin(isOn: boolean): Promise<void> {
        await part('workers').child.stop()
        start('workers', isOn)
        await waitUntilServing()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}
