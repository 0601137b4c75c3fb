/* The frame of every run on a network in real processes; a profile gives what differs. */
import fs from 'node:fs'
import path from 'node:path'
import { tryCanaries, type Sung } from './auditor/canaries.ts'
import { audit, type Audited, type CheckName } from './auditor/checks.ts'
import type { Finding } from './auditor/finding.ts'
import { dumpMoney } from './auditor/money.ts'
import { measureRecoveries } from './auditor/recoveries.ts'
import type { Gathered, Place, Seen } from './auditor/seen.ts'
import { readLostDocuments } from './auditor/service.ts'
import { openChain } from './testbed/chain.ts'
import { startCoins, type Coins } from './testbed/coins.ts'
import { startMonero, type Monero } from './testbed/monero.ts'
import { measurePace, type Pace } from './testbed/pace.ts'
import { startTestbed, type Testbed, type TestbedOptions } from './testbed/testbed.ts'
import { createClient, type Client } from './world/client.ts'
import { startHistory, type History } from './world/history.ts'
import { PROBER } from './world/prober.ts'

/** A network in real processes, and what all parts of a run on it share. */
export interface Network {
  readonly testbed: Testbed
  readonly coins: Coins
  readonly monero: Monero | undefined
  readonly client: Client
  readonly history: History
  /** Findings of the run itself, such as an answer that cannot be. */
  readonly wrongAnswers: Finding[]
  readonly pace: Pace
  /** Where the auditor reads. */
  readonly place: Place
  say(line: string): void
}

export interface RunOptions {
  testbed: Omit<TestbedOptions, 'coins' | 'monero' | 'report'>
  /** Whether there is a real Monero chain beside the stand-in of Nano. */
  hasMonero?: boolean
  /** What is checked in the end. */
  checks: readonly CheckName[]
  /** The checks that are tried with a fault in what they see, if nothing was found. */
  canaries?: readonly CheckName[]
  /** Where the history is written if something is found; the money, the chain and the logs go beside it. */
  historyFile?: string | undefined
  say(line: string): void
}

export interface RunResult {
  history: History
  /** What was seen in the end; undefined if the run was ended before. */
  seen: Seen | undefined
  /** Of the first MOST_EXPLAINED, with the calls and faults that they are about. */
  findings: (Audited & { history: string })[]
  /** What became of the canaries. */
  canaries: Sung[]
}

const MOST_EXPLAINED = 20

/**
 * Starts a network, lets a profile play on it, audits what was seen in the end, and stops the network.
 *
 * @param play lets agents work under faults, waits until everything is done, and gathers what there is to see;
 *   undefined if it ended the run before that
 */
export async function run(
  { testbed: bed, hasMonero = false, checks, canaries = [], historyFile, say }: RunOptions,
  play: (network: Network) => Promise<Gathered | undefined>,
): Promise<RunResult> {
  const history = startHistory()
  const coins = await startCoins()
  const toStop: (() => Promise<unknown> | void)[] = [() => coins.close()]
  try {
    const monero = hasMonero ? await startMonero(history) : undefined
    if (monero !== undefined) toStop.push(() => monero.close())
    const report = (line: string): void => (process.env['TORTURE_VERBOSE'] === '1' ? say(line) : undefined)
    const testbed = await startTestbed({ ...bed, coins, monero, report })
    toStop.push(() => testbed.stop())
    const pace = measurePace()
    toStop.push(() => pace.close())
    const network: Network = {
      ...{ testbed, coins, monero, history, pace, say, wrongAnswers: [] },
      client: createClient(testbed.urls, history),
      place: {
        url: testbed.urls[0] ?? '',
        mongoUrl: testbed.mongo.url,
        redisUrl: testbed.redis.url,
        ...{ env: testbed.env, folder: testbed.folder, coins, monero, pace },
      },
    }
    const gathered = await play(network)
    const seen: Seen | undefined = gathered && {
      ...gathered,
      logs: [...testbed.apis, ...testbed.workers].map(({ name, errors }) => ({ name, errors: [...errors] })),
      members: readLostDocuments(testbed),
      recoveries: measureRecoveries(history.calls, history.faults, PROBER),
      stops: await testbed.stopParts(),
    }
    const found: Audited[] =
      seen === undefined
        ? network.wrongAnswers.map((finding) => ({
            check: 'an agent is not told what cannot be',
            ...finding,
          }))
        : audit(seen, checks)
    if (found.length > 0 && historyFile !== undefined) await writeRecords(network, historyFile)
    const findings = found.map((finding, index) => ({
      ...finding,
      history:
        index < MOST_EXPLAINED && finding.words.length > 0 ? history.describeCallsWith(finding.words) : '',
    }))
    const isInOrder = seen !== undefined && found.length === 0
    return { history, seen, findings, canaries: isInOrder ? tryCanaries(seen, canaries) : [] }
  } finally {
    for (const stopOne of toStop.toReversed()) await stopOne()
  }
}

/** Writes every call and fault into `file`, and the money, the chain and the processes' logs beside it. */
async function writeRecords({ history, testbed, coins }: Network, file: string): Promise<void> {
  const blocks = openChain(coins)
    .allBlocks()
    .map((block) => JSON.stringify({ ...block, amountRaw: String(block.amountRaw) }))
  history.write(file)
  fs.writeFileSync(`${file}.money`, await dumpMoney(testbed.mongo.url), { mode: 0o600 })
  fs.writeFileSync(`${file}.chain`, `${blocks.join('\n')}\n`, { mode: 0o600 })
  for (const name of fs.readdirSync(testbed.folder).filter((one) => one.endsWith('.log')))
    fs.copyFileSync(path.join(testbed.folder, name), `${file}.${name}`)
}
