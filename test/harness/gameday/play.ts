import { spawnSync } from 'node:child_process'
import { SECOND_MS } from '../../../shared/platform/time.ts'
import { parseAmount } from '../../../shared/money/coin.ts'
import type { FindingKind } from '../../../shared/operation/finding.ts'
import { waitFor } from '../../../scripts/embedded/wait.ts'
import type { Gameday, ShownFinding } from './network.ts'

/**
 * What an operator adds to the command that `status` prints; if it prints a sentence, what it does instead.
 */
export interface Remedy {
  /** What stands for placeholders of the command, such as `DIR`. */
  placeholders?: Readonly<Record<string, string>>
  /** Settings of the host on which the command runs. */
  env?: Readonly<Record<string, string>>
  /** The group whose process is replaced by the worker that the command starts; `more` if absent. */
  group?: string
  /** Does what the sentence asks for, if it is not a command. */
  act?(network: Gameday): unknown
  /** What the operator does before and after the command, such as to stop what is in its way. */
  before?(network: Gameday): unknown
  after?(network: Gameday): unknown
  /** The command has to end with an error, since to go on would do harm. */
  mustBeRefused?: true
}

export interface Mishap {
  name: string
  /** The kinds of findings by which `status` may name it: one of them is enough. */
  kinds: readonly FindingKind[]
  /** Whether the fault tests play it; the command plays all. */
  isQuick?: true
  cause(network: Gameday): unknown
  /** Settings under which `status` and its command run, if they are about another network than this one. */
  statusEnv?(network: Gameday): Readonly<Record<string, string>>
  remedy?: Remedy
  /** Removes what only the play needed, after the mishap was mended. */
  cleanUp?(network: Gameday): unknown
}

export interface Played {
  name: string
  /** The kind of the finding that named it. */
  kind: string
  /** From the mishap's cause to its first appearance in `status`. */
  namedSeconds: number
  command: string
  /** From the command's start to the first `status` without a finding. */
  fineSeconds: number
  /** A sentence for each thing that was lost, and for each fault that `check` found. */
  lost: string[]
}

const NAMED_LIMIT_MS = 60 * SECOND_MS
const FINE_LIMIT_MS = 120 * SECOND_MS
const POLL_MS = 500

/**
 * Causes a mishap, waits until `status` names it, runs the command that `status` gives, and waits until all
 * is fine again.
 *
 * @throws Error if `status` doesn't name it within a minute, or finds anything two minutes after the command
 */
export async function play(network: Gameday, mishap: Mishap): Promise<Played> {
  await waitUntilFine(network, 'a good beginning')
  const posts = [await network.post(), await network.post()]
  const statusEnv = () => mishap.statusEnv?.(network) ?? {}
  await mishap.cause(network)
  const startedAt = performance.now()
  const findMishap = async (): Promise<ShownFinding | undefined> =>
    (await network.findings(statusEnv())).find(({ kind }) =>
      mishap.kinds.some((expected) => expected === kind),
    )
  const { kind, command } = await waitFor(`status to name "${mishap.name}"`, findMishap, {
    limitMs: NAMED_LIMIT_MS,
    everyMs: POLL_MS,
  })
  const namedSeconds = secondsSince(startedAt)
  const commandAt = performance.now()
  await runCommand(network, command, mishap.remedy ?? {}, statusEnv())
  const fineAt = await waitUntilFine(network, `"${mishap.name}" to be mended by ${command}`)
  const fineSeconds = Math.max(0, (fineAt - commandAt) / SECOND_MS)
  await mishap.cleanUp?.(network)
  return { name: mishap.name, kind, namedSeconds, command, fineSeconds, lost: await findLost(network, posts) }
}

const secondsSince = (at: number): number => (performance.now() - at) / SECOND_MS

/**
 * Waits until `status` has no finding.
 *
 * @param what is waited for, for the error
 * @returns when that was seen, by performance.now()
 * @throws Error with the findings that are left after two minutes
 */
async function waitUntilFine(network: Gameday, what: string): Promise<number> {
  let left: ShownFinding[] = []
  const look = async (): Promise<number | undefined> => {
    left = await network.findings()
    return left.length === 0 ? performance.now() : undefined
  }
  return waitFor(what, look, { limitMs: FINE_LIMIT_MS, everyMs: POLL_MS }).catch((error: unknown) => {
    throw new Error(`${String(error)}; status says: ${JSON.stringify(left)}`, { cause: error })
  })
}

/**
 * Looks for the posts, and runs `check` until it finds no fault.
 *
 * @returns a sentence for each loss or fault
 */
async function findLost(network: Gameday, posts: readonly string[]): Promise<string[]> {
  const lost: string[] = []
  for (const id of posts) if (!(await network.hasPost(id))) lost.push(`${id} is gone`)
  // What is under way while one check reads may look like a fault; the next check doesn't see it.
  let faults: string[] = []
  const look = async (): Promise<true | undefined> => {
    const { json } = await network.operator(['check'])
    const checks = (json['checks'] ?? []) as { faults: { what: string }[] }[]
    faults = checks.flatMap((check) => check.faults.map(({ what }) => what))
    return json['checks'] !== undefined && faults.length === 0 ? true : undefined
  }
  await waitFor('a check without a fault', look, { limitMs: 30 * SECOND_MS, everyMs: SECOND_MS }).catch(() =>
    lost.push(...(faults.length === 0 ? ['"check" did not end'] : faults)),
  )
  return lost
}

/**
 * Runs the command that `status` printed, or does what its sentence asks for, together with what the remedy
 * adds.
 *
 * @throws Error if the command ends otherwise than expected, or if nobody knows what to do
 */
async function runCommand(
  network: Gameday,
  printed: string,
  remedy: Remedy,
  statusEnv: Readonly<Record<string, string>>,
): Promise<void> {
  await remedy.before?.(network)
  let command = printed.replace(/\s+# .*$/, '')
  for (const [placeholder, value] of Object.entries(remedy.placeholders ?? {}))
    command = command.replace(placeholder, value)
  const [, verb] = /^npm run operator -- (.+)$/.exec(command) ?? []
  const [, queues] = /^npm run workers -- --queues (\S+)$/.exec(command) ?? []
  const [, amount, address] = /^send ([\d.]+) XNO to (nano_\w+)$/.exec(command) ?? []
  if (verb !== undefined) {
    const { exitCode, json } = await network.operator(verb.split(' '), { ...statusEnv, ...remedy.env })
    if ((exitCode !== 0) !== (remedy.mustBeRefused ?? false))
      throw new Error(`"${command}" ended with ${exitCode}: ${JSON.stringify(json)}`)
  } else if (queues !== undefined)
    await network.startWorkers(remedy.group ?? 'more', queues, { ...remedy.env })
  else if (amount !== undefined && address !== undefined)
    network.coins.pay(address, parseAmount(amount, 'xno'))
  else if (/^(kill \d|chmod |\()/.test(command)) {
    const { status, stderr } = spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`"${command}" ended with ${status}: ${stderr}`)
  } else if (remedy.act === undefined) throw new Error(`nobody knows how to do "${command}"`)
  else await remedy.act(network)
  await remedy.after?.(network)
}
