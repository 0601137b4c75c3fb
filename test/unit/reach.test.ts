import { describe, expect, it } from 'vitest'
import { checkMembers } from '../../shared/operation/member-findings.ts'
import { findDifferentSettings, findTwoNetworks, hashSettings } from '../../shared/operation/agreement.ts'
import { severityOf } from '../../shared/operation/finding.ts'
import { checkMemory } from '../../shared/operation/queue-findings.ts'
import { findStalledJobs, findUnreached } from '../../shared/operation/process-findings.ts'
import { judgeReach, type Evidence, type Reach } from '../../shared/operation/reach.ts'
import { readConfig } from '../../shared/platform/config.ts'

const QUIET = { load: 0.5, cores: 2, timerLateMs: 3 }
const BUSY = { load: 40, cores: 2, timerLateMs: 900 }
const silent: Reach = { kind: 'silent', why: 'it does not answer within 1.0 s' }

describe('a server that does not answer', () => {
  it.each<[string, Reach, Evidence, string[]]>([
    ['answers', { kind: 'answers' }, { apiServes: undefined, host: BUSY }, []],
    ['refuses', { kind: 'refused', why: 'ECONNREFUSED' }, { apiServes: true, host: BUSY }, ['mongodb_away']],
    ['is late on a busy host', { kind: 'late' }, { apiServes: undefined, host: BUSY }, ['host_busy']],
    ['is late', { kind: 'late' }, { apiServes: undefined, host: QUIET }, ['mongodb_slow']],
    ['is silent on a busy host', silent, { apiServes: undefined, host: BUSY }, ['host_busy']],
    ['is silent there, and the API refuses', silent, { apiServes: false, host: BUSY }, ['mongodb_away']],
    ['is silent while the API serves', silent, { apiServes: true, host: QUIET }, ['mongodb_slow']],
    ['is silent, and so is the API', silent, { apiServes: undefined, host: QUIET }, ['mongodb_away']],
    ['is silent, and the API refuses', silent, { apiServes: false, host: QUIET }, ['mongodb_away']],
  ])('%s: no time-out alone says that it is away', (_, reach, evidence, kinds) => {
    expect(judgeReach('mongodb', reach, evidence).map(({ kind }) => kind)).toEqual(kinds)
  })

  it('of Redis is not excused by an API that serves without it', () => {
    const [finding] = judgeReach('redis', silent, { apiServes: true, host: QUIET })
    expect(finding?.kind).toBe('redis_away')
  })
})

describe('a member of the set', () => {
  const well = { name: 'a:27017', state: 'PRIMARY', isUp: true, lagSeconds: 0 }

  it('is named if it is away, out of service or far behind, and not if it is well', () => {
    const findings = checkMembers([
      well,
      { name: 'b:27017', state: 'SECONDARY', isUp: true, lagSeconds: 90 },
      { name: 'c:27017', state: '(not reachable/healthy)', isUp: false, message: 'Connection refused' },
      { name: 'd:27017', state: 'RECOVERING', isUp: true },
      { name: 'e:27017', state: 'ARBITER', isUp: true },
    ])
    expect(findings.map(({ kind, about, what }) => [kind, about, what])).toEqual([
      ['mongodb_degraded', 'b:27017', 'The MongoDB member b:27017 is 90 s behind the primary'],
      ['mongodb_degraded', 'c:27017', 'The MongoDB member c:27017 does not answer the primary'],
      [
        'mongodb_degraded',
        'd:27017',
        'The MongoDB member d:27017 is in the state RECOVERING, and so takes no part',
      ],
    ])
    expect(findings[1]?.why).toContain('Connection refused')
    expect(findings[1]?.why).toContain('4 of 5 members are up')
  })
})

describe('the memory of Redis', () => {
  it('is a finding if it is nearly used up, and if keys are thrown away for want of it', () => {
    const kinds = (usedBytes: number, maxBytes: number, policy: string) =>
      checkMemory({ usedBytes, maxBytes, policy }).map(({ kind }) => kind)
    expect(kinds(50, 100, 'noeviction')).toEqual([])
    expect(kinds(90, 0, 'allkeys-lru')).toEqual([])
    expect(kinds(90, 100, 'noeviction')).toEqual(['redis_filling'])
    expect(kinds(50, 100, 'allkeys-lru')).toEqual(['redis_evicts'])
  })
})

describe('jobs that were taken from silent workers', () => {
  it('are a finding for an hour', () => {
    const processes = [{ stalled_jobs: 3, stalled_at: 10_000 }, { stalled_jobs: 4, stalled_at: 100 }, {}]
    expect(findStalledJobs(processes, 10_000)?.what).toMatch(/^3 jobs /)
    expect(findStalledJobs(processes, 13_700)).toBeUndefined()
  })
})

describe('a peer or witness that does not answer', () => {
  it('is a thing to look at, named once', () => {
    const url = 'https://agents.example'
    const findings = findUnreached([{ host: 'h', unreached: [url] }, { host: 'h' }])
    expect(findings.map((finding) => [finding.kind, finding.about, severityOf(finding)])).toEqual([
      ['peer_away', url, 'look'],
    ])
  })
})

describe('processes on one database', () => {
  const settings = hashSettings(readConfig({ REGISTER_BITS: '22' }, 'start'))
  const api = (pid: number, more: object = {}) => ({
    ...{
      host: 'h',
      pid,
      part: 'api',
      queues: [],
      queue_prefix: 'agent-network',
      redis_run_id: 'r1',
      settings,
    },
    ...more,
  })

  it('that use one Redis, with one prefix and the same settings, are fine', () => {
    const all = [api(1), api(2), { ...api(3), part: 'workers', queues: ['sweep'] }]
    expect([findTwoNetworks(all), findDifferentSettings(all)]).toEqual([undefined, []])
  })

  it('are two networks if they use two Redis or two prefixes', () => {
    for (const more of [{ redis_run_id: 'r2' }, { queue_prefix: 'other' }]) {
      const finding = findTwoNetworks([api(1), api(2), api(3, more)])
      expect([finding?.kind, finding?.why]).toEqual(['two_networks', 'api 3 on h'])
    }
  })

  it('are named with the settings in which they differ, if they do the same work', () => {
    const other = hashSettings(
      readConfig({ REGISTER_BITS: '20', CHALLENGE_SECRET: 'ab'.repeat(32) }, 'start'),
    )
    const [finding, ...rest] = findDifferentSettings([api(1), api(2), api(3, { settings: other })])
    expect(rest).toEqual([])
    expect([finding?.kind, finding?.about, finding?.what, finding?.why]).toEqual([
      'settings_differ',
      'api',
      'Processes that do the same work have different settings: CHALLENGE_SECRET, REGISTER_BITS',
      'those unlike the most: api 3 on h',
    ])
    const wallet = (pid: number, MAX_FEE_XMR: string) => ({
      ...api(pid, { settings: hashSettings(readConfig({ MAX_FEE_XMR }, 'start')) }),
      ...{ part: 'workers', queues: ['send-monero'] },
    })
    expect(findDifferentSettings([wallet(1, '0.01'), wallet(2, '0.02')])[0]?.what).toContain('MAX_FEE_XMR')
    const pools = [
      { ...api(1), part: 'workers', queues: ['sweep'] },
      { ...api(2, { settings: other }), part: 'workers', queues: ['verify-shares'] },
    ]
    expect(findDifferentSettings(pools)).toEqual([])
  })

  it('show no setting itself, only the beginning of a hash', () => {
    const secret = 'cd'.repeat(32)
    const said = JSON.stringify(hashSettings(readConfig({ CHALLENGE_SECRET: secret }, 'start')))
    expect(said).not.toContain(secret.slice(0, 8))
  })
})
