import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { tryCanaries } from '../harness/auditor/canaries.ts'
import { audit, NETWORK_CHECK_NAMES } from '../harness/auditor/checks.ts'
import { waitUntilDone } from '../harness/auditor/rest.ts'
import { gather, type Seen } from '../harness/auditor/seen.ts'
import { numbersFor } from '../harness/world/numbers.ts'
import { startCoins, TREASURY_SEED } from '../harness/testbed/coins.ts'
import { ALL_ACTIONS } from '../harness/world/actions.ts'
import { newAgent, newWorld, registerWithPass } from '../harness/world/agent.ts'
import { createClient } from '../harness/world/client.ts'
import { startHistory } from '../harness/world/history.ts'
import { operate } from '../harness/world/operate.ts'
import { isolate } from '../support/servers.ts'
import { startService } from '../support/service.ts'

const LIMIT_MS = 300_000
const AGENTS = 2
const ROUNDS = 2

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-auditor-'))
let seen: Seen

/** Lets a few agents do everything on a service that nobody breaks, and reads what the auditor sees of it. */
beforeAll(async () => {
  const coins = await startCoins()
  const { mongodbUrl, redisUrl, queuePrefix } = isolate()
  const fileIn = (name: string): string => path.join(folder, name)
  ensureSealKey(fileIn('seal-key'))
  fs.writeFileSync(fileIn('nano-seed'), `${TREASURY_SEED}\n`, { mode: 0o600 })
  const env = {
    ...{ MONGODB_URL: mongodbUrl, REDIS_URL: redisUrl, QUEUE_PREFIX: queuePrefix, ...coins.env },
    ...{ SEAL_KEY_FILE: fileIn('seal-key'), SEAL_MEMORY_FILE: fileIn('seal-memory') },
    ...{ NANO_SEED_FILE: fileIn('nano-seed'), CHALLENGE_SECRET: 'c0'.repeat(32), FREE_UNTIL: 'none' },
    ...{ REGISTER_BITS: '4', SHARE_BITS: '6', SHARES_PER_DAY: '3', SEAL_INTERVAL_SECONDS: '1' },
  }
  const service = await startService({ env })
  try {
    const history = startHistory()
    const world = newWorld({ client: createClient([service.url], history), history, apis: 1, coins })
    for (let index = 0; index < AGENTS; index++) {
      const agent = newAgent(`a${index}`, numbersFor(1, `agent/${index}`))
      await registerWithPass(world, agent, world.agents[0]?.id, 2)
      world.agents.push(agent)
    }
    for (let round = 0; round < ROUNDS; round++) {
      for (const agent of world.agents) for (const action of ALL_ACTIONS) await action.run(world, agent)
      if (round === ROUNDS - 2) await operate(history, env, ['backup', fileIn('backup')])
    }
    const place = { url: service.url, mongoUrl: mongodbUrl, redisUrl, env, folder, coins }
    const done = await waitUntilDone(world, place, () => undefined)
    seen = {
      ...{ ...(await gather(world, place)), ...done },
      ...{ logs: [], members: [], stops: [], recoveries: [], levels: [], isOverload: true },
    }
    const { connection } = service.ctx.database
    await connection.getClient().db(`${connection.name}-copy`).dropDatabase()
  } finally {
    await service.stop()
    await coins.close()
  }
}, LIMIT_MS)

afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

describe('the auditor of a service that nobody breaks', () => {
  it('finds nothing', () => {
    expect(audit(seen, NETWORK_CHECK_NAMES)).toEqual([])
  })

  it('finds by each of its checks the fault that is put into what it sees', () => {
    // A busy machine may answer late, and after no fault writes can't come back late.
    const tried = tryCanaries({ ...seen, isOverload: false }, NETWORK_CHECK_NAMES)
    expect(tried.filter(({ findings }) => findings === 0)).toEqual([])
  })
})
