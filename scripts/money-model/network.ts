import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { trackChildren } from '../embedded/children.ts'
import { startMongod } from '../embedded/mongod.ts'
import { requireMongod, requireRedis } from '../embedded/programs.ts'
import { reservePort } from '../embedded/ports.ts'
import { startRedis } from '../embedded/redis.ts'
import type { EmbeddedServer } from '../embedded/server.ts'
import { waitFor } from '../embedded/wait.ts'
import { QUICK_RESTART } from '../torture/mongo-set.ts'
import { startPart, type Part } from '../torture/stack.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'

/** The treasury's seed: the model itself signs with it when it plays a wallet in use elsewhere. */
export const SEED = '7a'.repeat(32)

const UP_LIMIT_MS = 90_000

export type Network = Awaited<ReturnType<typeof startNetwork>>

const COIN_SETTINGS = ['NANO_RPC_URL', 'NANO_WS_URL', 'NANO_SEED_FILE']

/** A whole network of processes with a MongoDB and a Redis of its own. */
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
    for (const one of toStop.splice(0).reverse()) await one()
    await mongod?.child.stop()
    children.close()
    fs.rmSync(folder, { recursive: true, force: true })
  }
  try {
    mongod = await startDatabase()
    const redis = await startRedis({
      ...{ ...options, binary: requireRedis(), backOff: QUICK_RESTART },
      onStarted: (child) => void toStop.push(() => child.stop()),
    })
    ensureSealKey(path.join(folder, 'seal-key'))
    fs.writeFileSync(path.join(folder, 'nano-seed'), `${SEED}\n`, { mode: 0o600 })
    const port = await reservePort()
    const url = `http://127.0.0.1:${port}`
    const env = (): Record<string, string> => ({
      ...{
        MONGODB_URL: mongod?.url ?? '',
        REDIS_URL: redis.url,
        DATA_DIR: folder,
        CHALLENGE_SECRET: 'c0'.repeat(32),
      },
      ...{ SEAL_KEY_FILE: path.join(folder, 'seal-key'), SEAL_MEMORY_FILE: path.join(folder, 'seal-memory') },
      ...{
        FREE_UNTIL: 'none',
        REGISTER_BITS: '4',
        SWEEP_SECONDS: '2',
        OPERATOR_PORT: '0',
        PORT: String(port),
      },
      ...{ ...settings, NANO_SEED_FILE: path.join(folder, 'nano-seed') },
    })
    const start = (name: 'api' | 'workers', hasCoin = true): void => {
      const own = Object.fromEntries(
        Object.entries(env()).filter(([key]) => hasCoin || !COIN_SETTINGS.includes(key)),
      )
      parts.set(
        name,
        startPart({ name, script: `${name}/main.ts`, args: [], env: own, folder, children, report }),
      )
    }
    start('api')
    start('workers')
    const part = (name: 'api' | 'workers'): Part => {
      const found = parts.get(name)
      if (found === undefined) throw new Error(`${name} has not been started`)
      return found
    }
    const whenServing = async (): Promise<void> => {
      const answers = async (): Promise<true | undefined> => {
        const answer = await fetch(`${url}/api/v1/feed`, { signal: AbortSignal.timeout(3_000) }).catch(
          () => undefined,
        ) // not up yet
        await answer?.body?.cancel()
        return answer?.status === 200 && part('workers').upAtMs() !== undefined ? true : undefined
      }
      await waitFor('the network', answers, { limitMs: UP_LIMIT_MS, everyMs: 100 }).catch(
        (error: unknown) => {
          const words = [...parts.values()].flatMap(({ name, lastWords }) =>
            lastWords().map((line) => `${name}: ${line}`),
          )
          throw new Error(`the network did not come up\n${words.join('\n')}`, { cause: error })
        },
      )
    }
    const live = path.join(folder, 'mongo')
    const copy = path.join(folder, 'mongo-backup')
    await whenServing()
    return {
      /** `env`: settings that lead the operator's command to it. */
      ...{ url, folder, env, part, stop },
      /** Copies the database, which is stopped for as long. */
      async backUp(): Promise<void> {
        await mongod?.child.stop()
        fs.rmSync(copy, { recursive: true, force: true })
        fs.cpSync(live, copy, { recursive: true })
        mongod = await startDatabase()
      },
      /** Puts the last copy in the database's place, while everything is stopped. */
      async restore(onStopped: () => void): Promise<void> {
        await Promise.all([...parts.values()].map(({ child }) => child.stop()))
        onStopped()
        await mongod?.child.stop()
        fs.rmSync(live, { recursive: true })
        fs.cpSync(copy, live, { recursive: true })
        mongod = await startDatabase()
        start('api')
        start('workers')
        await whenServing()
      },
      /** Starts the workers again, with the coin or without it. */
      async setCoin(isOn: boolean): Promise<void> {
        await part('workers').child.stop()
        start('workers', isOn)
        await whenServing()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}
