import type { Context } from '../context.ts'
import { describeBuild } from '../foundation/build.ts'
import { SECOND_MS } from '../foundation/time.ts'
import type { ProcessRecord } from '../servers/process-store.ts'
import type { Finding, FindingReader } from './finding.ts'

/** What NTP keeps easily, and neither a seal nor a job minds. */
const CLOCK_SLACK_MS = 10 * SECOND_MS

export const processFindings: FindingReader = {
  name: 'processes',
  needs: 'mongodb',
  async read(ctx: Context) {
    const processes = await ctx.processes.list()
    return [...findClocks(processes), ...findPrograms(processes)]
  },
}

function findClocks(processes: readonly ProcessRecord[]): Finding[] {
  const off = processes.filter(({ clock_ahead_ms: ms }) => Math.abs(ms) > CLOCK_SLACK_MS)
  return [...Map.groupBy(off, ({ host }) => host)].map(
    ([host, [{ clock_ahead_ms: ms } = { clock_ahead_ms: 0 }]]) => ({
      kind: 'clock_off',
      about: host,
      what: `The clock of ${host} is ${Math.round(Math.abs(ms) / SECOND_MS)} s ${ms > 0 ? 'ahead of' : 'behind'} the database's`,
      why: 'seals would have wrong dates, so the signer refuses from five minutes on; tries again come too early or too late',
      command: `chronyc makestep   # on ${host}, or set its clock by other means`,
    }),
  )
}

/** During an upgrade it is as it should be; otherwise somebody forgot a process. */
function findPrograms(processes: readonly ProcessRecord[]): Finding[] {
  const groups = [...Map.groupBy(processes, (one) => describeBuild(one)).values()]
  if (groups.length < 2) return []
  const newest = (group: readonly ProcessRecord[]): number => Math.max(...group.map((one) => one.started_at))
  const [most = [], ...others] = groups.toSorted((a, b) => b.length - a.length || newest(b) - newest(a))
  const strays = others.flat()
  const list = strays
    .slice(0, 5)
    .map(({ part, host, pid, ...build }) => `${part} ${pid} on ${host}: ${describeBuild(build)}`)
  return [
    {
      kind: 'programs_mixed',
      since: Math.min(...strays.map((one) => one.started_at)),
      what: `${strays.length} of ${processes.length} processes run another program than the others, ${describeBuild(most[0])}`,
      why: `${list.join('; ')}; in a rolling upgrade that is as it should be`,
      command: `kill ${strays.map(({ pid }) => pid).join(' ')}   # on ${[...new Set(strays.map(({ host }) => host))].join(', ')}`,
    },
  ]
}
