import http from 'node:http'
import type net from 'node:net'
import { INSIDE } from '../auditor/checks.ts'
import { gatherRecords } from '../auditor/seen.ts'
import { run, type RunResult } from '../run.ts'
import { startWitness } from '../testbed/witness.ts'
import { openGameday, ORIGIN, queuesByPool } from './network.ts'
import { play, type Mishap, type Played } from './play.ts'
import { closeContext } from '../../../shared/context.ts'

/**
 * Causes one mishap after another on a network of real processes, and audits it in the end. A mishap that fails,
 * or by which something was lost, is a finding.
 */
export async function runGameday(
  mishaps: readonly Mishap[],
  say: (line: string) => void,
): Promise<{ played: Played[]; findings: RunResult['findings'] }> {
  const played: Played[] = []
  const rates = { isBroken: false }
  const exchange = http.createServer((_, response) =>
    response.writeHead(rates.isBroken ? 500 : 200).end(JSON.stringify({ price: '1.00' })),
  )
  await new Promise<void>((resolve) => exchange.listen(0, '127.0.0.1', resolve))
  const { port } = exchange.address() as net.AddressInfo
  const witness = await startWitness('gameday.example/w1')
  const env = {
    XNO_USD: '',
    RATE_SOURCES: ['127.0.0.1', 'localhost'].map((host) => `xno=http://${host}:${port}/#price`).join(','),
    WITNESSES: witness.setting,
    WITNESS_QUORUM: '1',
    LEDGER_ORIGIN: ORIGIN,
    MIN_FREE_DISK_GB: '0.02',
    ACCEPT_HOURS: '1',
    PAY_BY_MINUTES: '60',
  }
  const testbed = { members: 1, each: 1, groups: queuesByPool(), mongoDiskSize: '1200m', env }
  try {
    const { findings } = await run({ testbed, checks: INSIDE, say }, async (plain) => {
      const network = await openGameday(plain, witness, rates)
      const fail = (what: string): void => {
        plain.wrongAnswers.push({ what, words: [] })
        say(what)
      }
      try {
        for (const mishap of mishaps)
          await play(network, mishap).then(
            (result) => {
              const { name, namedSeconds, fineSeconds, lost } = result
              played.push(result)
              say(`${name}: named after ${namedSeconds.toFixed(1)} s, fine after ${fineSeconds.toFixed(1)} s`)
              if (lost.length > 0) fail(`${name}: ${lost.join('; ')}`)
            },
            (error: unknown) =>
              fail(`${mishap.name}: ${error instanceof Error ? error.message : String(error)}`),
          )
      } finally {
        await closeContext(network.ctx)
      }
      return gatherRecords(plain, plain.place)
    })
    return { played, findings }
  } finally {
    exchange.close()
    await witness.stop()
  }
}
