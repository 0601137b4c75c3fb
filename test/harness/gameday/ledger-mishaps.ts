import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import type { Part } from '../testbed/part.ts'
import { fileIn, type Gameday } from './network.ts'
import { queuesOf } from './process-mishaps.ts'
import type { Mishap } from './play.ts'

const BACKUP = path.join(os.tmpdir(), `agent-network-gameday-${process.pid}`)
let copied: Part | undefined

/** The settings in which a process on the restored copy (database `copy`) differs from the network's. */
const copyEnv = ({ testbed }: Gameday): Record<string, string> => {
  const url = new URL(testbed.env['MONGODB_URL'] ?? '')
  url.pathname = '/copy'
  return { MONGODB_URL: url.href, QUEUE_PREFIX: 'copy', BASE_URL: testbed.urls[0] ?? '' }
}

export const LEDGER_MISHAPS: readonly Mishap[] = [
  {
    name: 'the witness is gone',
    kinds: ['log_unwitnessed'],
    async cause(network) {
      network.witness.setAway(true)
      await network.post()
    },
    remedy: {
      act: ({ witness }) => witness.setAway(false),
      group: 'more',
      after: ({ witness }) => witness.setAway(false),
    },
    cleanUp: (network) => network.kill('more'),
  },
  {
    name: 'the last backup is too old',
    kinds: ['backup_old'],
    cause: ({ ctx }) =>
      ctx.operation.watch.noteBackup({ at: Math.floor(Date.now() / 1000) - 200_000, by: 'operator backup' }),
    remedy: { placeholders: { DIR: BACKUP } },
    cleanUp: () => fs.rmSync(BACKUP, { recursive: true }),
  },
  {
    name: 'a restored copy runs beside the network, with its keys',
    kinds: ['copy_not_promoted'],
    async cause(network) {
      const folder = fileIn(network, 'copied')
      fs.rmSync(folder, { recursive: true, force: true })
      const env = copyEnv(network)
      for (const argv of [
        ['backup', folder],
        ['restore', folder, '--to', env['MONGODB_URL'] ?? ''],
      ]) {
        const { exitCode, json } = await network.operator(argv)
        if (exitCode !== 0) throw new Error(JSON.stringify(json))
      }
      const queues = [queuesOf('ledger'), queuesOf('signer'), queuesOf('sweep')].join(',')
      copied = network.testbed.start('copied', 'workers/main.ts', ['--queues', queues], env)
      // The network goes on, and signs what the copy will never have.
      const before = (await network.ctx.seals.lastSigned())?._id ?? 0
      await network.post()
      await waitFor(
        'a seal that the copy lacks',
        async () => (((await network.ctx.seals.lastSigned())?._id ?? 0) > before ? true : undefined),
        { limitMs: 60_000 },
      )
    },
    statusEnv: copyEnv,
    remedy: { mustBeRefused: true },
    async cleanUp(network) {
      await copied?.child.stop()
      await network.ctx.database.connection.getClient().db('copy').dropDatabase()
    },
  },
]
