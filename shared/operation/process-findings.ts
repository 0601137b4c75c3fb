import type { Context } from '../context.ts'
import { describeBuild } from '../platform/build.ts'
import { HOUR_MS, nowSeconds, SECOND_MS } from '../platform/time.ts'
import type { ProcessRecord } from '../platform/process-store.ts'
import { findDifferentSettings, findTwoNetworks } from './agreement.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'

type ProcessFindingsContext = Pick<Context, 'database' | 'operation'>

/** NTP keeps a clock closer than this, and so small a difference does no harm to a seal or a job. */
const CLOCK_SLACK_MS = 10 * SECOND_MS

/**
 * What is wrong with the running processes: clocks that are off, programs of different versions, and processes
 * that don't belong together.
 */
export const processFindings: FindingReader = {
  name: 'processes',
  needs: 'mongodb',
  async read(ctx: ProcessFindingsContext) {
    const processes = await ctx.operation.processes.list()
    return [
      ...findWrongClocks(processes),
      findOtherVersions(processes),
      findTwoNetworks(processes),
      ...findDifferentSettings(processes),
      findStalledJobs(processes, nowSeconds(ctx)),
      ...findUnreached(processes),
    ]
  },
}

/** Makes a finding for each peer and witness that did not answer who asked it last. */
export function findUnreached(processes: readonly Pick<ProcessRecord, 'host' | 'unreached'>[]): Finding[] {
  const hostOf = new Map(
    processes.flatMap(({ host, unreached = [] }) => unreached.map((name) => [name, host] as const)),
  )
  return [...hostOf].map(([name, host]) => ({
    kind: 'peer_away',
    about: name,
    what: `${name} does not answer, as seen from the signer on ${host}`,
    why: 'it remembers what was signed, and is asked again; what contradicts is another finding',
    command: `curl -v ${name.startsWith('http') ? name : `the URL of ${name} in WITNESSES`}   # on ${host}`,
  }))
}

/** Stalled jobs of longer ago are no finding. */
const STALLED_SECONDS = HOUR_MS / SECOND_MS

/** Finds that jobs were taken from workers that fell silent, in the last hour. @param now Unix seconds */
export function findStalledJobs(
  processes: readonly Pick<ProcessRecord, 'stalled_jobs' | 'stalled_at'>[],
  now: number,
): Finding | undefined {
  const recent = processes.filter(({ stalled_at: at = 0 }) => now - at <= STALLED_SECONDS)
  if (recent.length === 0) return undefined
  const count = recent.reduce((sum, { stalled_jobs: jobs = 0 }) => sum + jobs, 0)
  return {
    kind: 'jobs_stalled',
    what: `${count} jobs were taken from workers that fell silent and given to others`,
    why: 'a worker was killed, or its host is so busy that it could not keep the locks of its jobs; nothing is lost',
    command: `${OPERATOR} status --all   # which queue waits; then more processes for its pool, or a larger share of the processor`,
  }
}

/** Makes one finding for each host whose clock is far from the database's. */
function findWrongClocks(processes: readonly ProcessRecord[]): Finding[] {
  const off = processes.filter(({ clock_ahead_ms: ms }) => Math.abs(ms) > CLOCK_SLACK_MS)
  const onePerHost = new Map(off.map((record) => [record.host, record])).values()
  return [...onePerHost].map(({ host, clock_ahead_ms: ms }) => ({
    kind: 'clock_off',
    about: host,
    what: `The clock of ${host} is ${Math.round(Math.abs(ms) / SECOND_MS)} s ${ms > 0 ? 'ahead of' : 'behind'} the database's`,
    why: 'seals would have wrong dates, so the signer refuses from five minutes on; tries again come too early or too late',
    command: `chronyc makestep   # on ${host}, or set its clock by other means`,
  }))
}

/**
 * Finds processes of another version than most; of two versions with as many, the one started last counts as
 * most. Fine during an upgrade; else somebody forgot them.
 */
function findOtherVersions(processes: readonly ProcessRecord[]): Finding | undefined {
  const groups = [...Map.groupBy(processes, (record) => describeBuild(record)).values()]
  if (groups.length < 2) return undefined
  const lastStart = (group: readonly ProcessRecord[]): number =>
    Math.max(...group.map((record) => record.started_at))
  const [most = [], ...smaller] = groups.toSorted(
    (a, b) => b.length - a.length || lastStart(b) - lastStart(a),
  )
  const others = smaller.flat()
  const list = others
    .slice(0, 5)
    .map(({ part, host, pid, ...build }) => `${part} ${pid} on ${host}: ${describeBuild(build)}`)
  return {
    kind: 'programs_mixed',
    since: Math.min(...others.map((record) => record.started_at)),
    what: `${others.length} of ${processes.length} processes run another program than the others, ${describeBuild(most[0])}`,
    why: `${list.join('; ')}; in a rolling upgrade that is as it should be`,
    command: `kill ${others.map(({ pid }) => pid).join(' ')}   # on ${[...new Set(others.map(({ host }) => host))].join(', ')}`,
  }
}
