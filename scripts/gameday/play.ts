import { spawnSync } from 'node:child_process'
import { SECOND_MS } from '../../shared/foundation/time.ts'
import type { FindingKind } from '../../shared/operation/finding.ts'
import { waitFor } from '../embedded/wait.ts'
import type { Found, Network } from './network.ts'

/** What an operator adds to the command that `status` prints; if it prints a sentence, what they do instead. */
export interface Hand {
  /** In place of a capital word of the command: `DIR`. */
  words?: Readonly<Record<string, string>>
  /** Settings of the host on which the command runs. */
  env?: Readonly<Record<string, string>>
  /** Which process a started worker replaces. */
  group?: string
  /** What the sentence asks for that is no command. */
  does?(network: Network): unknown
  /** What is to be done beside the command: to stop what is in its way, to start what it changed. */
  before?(network: Network): unknown
  after?(network: Network): unknown
  /** The command is to refuse, since going on would do harm. */
  isRefused?: true
}

export interface Mishap {
  name: string
  /** As one of which `status` names it. */
  kinds: readonly FindingKind[]
  /** A part of the day that every run of the tests plays. */
  isQuick?: true
  happens(network: Network): unknown
  /** Settings of the operator who looks, if he looks at another network than the one that runs. */
  looksWith?(network: Network): Readonly<Record<string, string>>
  hand?: Hand
  /** Takes away what the mishap needed and no operator would have. */
  tidy?(network: Network): unknown
}

export interface Played {
  name: string
  kind: string
  namedSeconds: number
  command: string
  fineSeconds: number
  /** Sentences; empty if nothing is. */
  lost: string[]
}

const NAMED_LIMIT_MS = 60 * SECOND_MS
const FINE_LIMIT_MS = 120 * SECOND_MS
const POLL_MS = 500

/** @throws TimeoutError if it isn't named, or isn't mended by the command that was named */
export async function play(network: Network, mishap: Mishap): Promise<Played> {
  await untilFine(network, 'a good beginning')
  const posts = [await network.post(), await network.post()]
  const looksWith = () => mishap.looksWith?.(network) ?? {}
  await mishap.happens(network)
  const startedAt = performance.now()
  const find = async (): Promise<Found | undefined> =>
    (await network.findings(looksWith())).find(({ kind }) => mishap.kinds.some((one) => one === kind))
  const { kind, command } = await waitFor(`status to name "${mishap.name}"`, find, {
    limitMs: NAMED_LIMIT_MS,
    everyMs: POLL_MS,
  })
  const namedSeconds = secondsSince(startedAt)
  const mendedAt = performance.now()
  await runCommand(network, command, mishap.hand ?? {}, looksWith())
  const fineMs = await untilFine(network, `"${mishap.name}" to be mended by ${command}`)
  const fineSeconds = Math.max(0, (fineMs - mendedAt) / SECOND_MS)
  await mishap.tidy?.(network)
  return { name: mishap.name, kind, namedSeconds, command, fineSeconds, lost: await findLost(network, posts) }
}

const secondsSince = (at: number): number => (performance.now() - at) / SECOND_MS

/** @returns when it was found so, by performance.now */
async function untilFine(network: Network, what: string): Promise<number> {
  let left: Found[] = []
  const look = async (): Promise<number | undefined> => {
    left = await network.findings()
    return left.length === 0 ? performance.now() : undefined
  }
  return waitFor(what, look, { limitMs: FINE_LIMIT_MS, everyMs: POLL_MS }).catch((error: unknown) => {
    throw new Error(`${String(error)}; status says: ${JSON.stringify(left)}`, { cause: error })
  })
}

async function findLost(network: Network, posts: readonly string[]): Promise<string[]> {
  const gone: string[] = []
  for (const id of posts) if (!(await network.isThere(id))) gone.push(`${id} is gone`)
  // What is under way at the moment of the look is no fault, and is over at the next.
  let faults: string[] = []
  const look = async (): Promise<true | undefined> => {
    const { json } = await network.operator(['check'])
    const checks = (json['checks'] ?? []) as { faults: { what: string }[] }[]
    faults = checks.flatMap((check) => check.faults.map(({ what }) => what))
    return json['checks'] !== undefined && faults.length === 0 ? true : undefined
  }
  await waitFor('a check without a fault', look, { limitMs: 30 * SECOND_MS, everyMs: SECOND_MS }).catch(() =>
    gone.push(...(faults.length === 0 ? ['"check" did not end'] : faults)),
  )
  return gone
}

/** Runs what `status` printed, as it stands, with what only the operator can add. */
async function runCommand(
  network: Network,
  printed: string,
  hand: Hand,
  looksWith: Readonly<Record<string, string>>,
): Promise<void> {
  await hand.before?.(network)
  const command = Object.entries(hand.words ?? {}).reduce(
    (text, [word, value]) => text.replace(word, value),
    printed.replace(/\s+# .*$/, ''),
  )
  const [, verb] = /^npm run operator -- (.+)$/.exec(command) ?? []
  const [, queues] = /^npm run workers -- --queues (\S+)$/.exec(command) ?? []
  const [, amount, address] = /^send ([\d.]+) XNO to (nano_\w+)$/.exec(command) ?? []
  if (verb !== undefined) {
    const { exitCode, json } = await network.operator(verb.split(' '), { ...looksWith, ...hand.env })
    if ((exitCode !== 0) !== (hand.isRefused ?? false))
      throw new Error(`"${command}" ended with ${exitCode}: ${JSON.stringify(json)}`)
  } else if (queues !== undefined) await network.startWorkers(hand.group ?? 'more', queues, { ...hand.env })
  else if (amount !== undefined && address !== undefined) network.coins.pay(address, toRaw(amount))
  else if (/^(kill \d|chmod |\()/.test(command)) {
    const { status, stderr } = spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`"${command}" ended with ${status}: ${stderr}`)
  } else if (hand.does === undefined) throw new Error(`nobody knows how to do "${command}"`)
  else await hand.does(network)
  await hand.after?.(network)
}

function toRaw(amount: string): bigint {
  const [whole = '0', part = ''] = amount.split('.')
  return BigInt(whole + part.padEnd(30, '0'))
}
