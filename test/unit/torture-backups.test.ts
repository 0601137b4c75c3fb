import { describe, expect, it } from 'vitest'
import { newToken, toStoredToken } from '../../shared/agents/token.ts'
import { newAgent } from '../harness/world/agent.ts'
import {
  compareLedgers,
  compareWithAnswers,
  type Copy,
  type StoredLedger,
} from '../harness/auditor/backups.ts'
import type { Call } from '../harness/world/history.ts'
import { nameToken } from '../harness/world/observe.ts'
import { numbersFor } from '../harness/world/numbers.ts'
import type { StoredAgent, StoredPost } from '../harness/auditor/stored.ts'

const BACKUP = { atMs: 100, tookMs: 50 }
const agent = { ...newAgent('a0', numbersFor(1, 'backups')), id: 'agt_1' }
const [firstToken, secondToken] = [newToken(), newToken()]

const did = (name: string, atMs: number, call: Partial<Call>): Call => ({
  ...{ n: 0, atMs, tookMs: 10, who: 'a0', did: name, method: 'POST', path: `/${name}`, status: 200 },
  ...call,
})
const registered = did('register', 0, {
  status: 201,
  marker: 'a0-1.',
  answer: { agent_id: 'agt_1', token: firstToken },
})
const post = (marker: string, atMs: number, call: Partial<Call> = {}): Call =>
  did('post', atMs, { status: 201, marker, body: { body: marker }, answer: { id: `pst_${marker}` }, ...call })
const storedPost = (marker: string): StoredPost => ({
  ...{ _id: `pst_${marker}`, agent_id: 'agt_1', body: marker, salt: '' },
})

const storedAgent = (fields: Partial<StoredAgent> & { token?: string } = {}): StoredAgent => {
  const { token = firstToken, ...rest } = fields
  return {
    ...{ _id: 'agt_1', handle: 'a0-1.', salt: '', challenge: '', referrals: { paying: 0 } },
    record: { claims: {}, verdicts: { true: 0, false: 0, void: 0 } },
    ...toStoredToken(token),
    ...rest,
  }
}
const copyOf = (posts: StoredPost[], own: StoredAgent = storedAgent()): Copy => ({
  ...{ entries: [], pending: [], seals: [], waiting: new Map() },
  money: {
    invoices: [],
    payments: [],
    payouts: [],
    orders: [],
    halted: [],
    transfers: [],
    lines: [],
    entries: [],
  },
  stored: {
    ...{ agents: [own], posts, claims: [], verdicts: [], messages: [], reports: [], orders: [] },
    ...{ counted: new Map(), waitingBatches: 0, pending: [], entries: [], seals: [] },
    unsignedAnnouncements: 0,
  },
})
const judge = (calls: Call[], copy: Copy): string =>
  compareWithAnswers([registered, ...calls], [agent], copy, BACKUP)
    .map(({ what }) => what)
    .join('; ')

describe('a restored backup', () => {
  it('has what was acknowledged before the backup began', () => {
    expect(judge([post('a0-2.', 50)], copyOf([storedPost('a0-2.')]))).toBe('')
    expect(judge([post('a0-2.', 50)], copyOf([]))).toBe('post a0-2. was acknowledged and is lost')
  })

  it('may have what was answered since it began, or what got no answer, or not', () => {
    const calls = [post('a0-2.', 95), post('a0-3.', 140), post('a0-4.', 20, { status: 503 })]
    expect(judge(calls, copyOf([]))).toBe('')
    expect(judge(calls, copyOf(['a0-2.', 'a0-3.', 'a0-4.'].map(storedPost)))).toBe('')
  })

  it('has nothing that was asked for after its end, or refused', () => {
    const calls = [post('a0-2.', 151), post('a0-3.', 20, { status: 403 })]
    expect(judge(calls, copyOf([storedPost('a0-2.')]))).toContain('is stored and nobody wrote it')
    expect(judge(calls, copyOf([storedPost('a0-3.')]))).toBe('post a0-3. was refused and is stored')
  })

  it('has the profile, the token and the pass that agents were told of', () => {
    const calls = [
      did('profile', 20, { body: { name: 'old' } }),
      did('profile', 40, { body: { name: 'new' } }),
      did('rotate', 60, { body: { new_token: secondToken }, token: nameToken(firstToken) }),
      did('me', 80, { seen: [{ object: 'pass a0', value: 5_000 }] }),
    ]
    const told = { profile: { name: 'new' }, token: secondToken, pass_until_ms: 5_000 }
    const withPass = (fields: Parameters<typeof storedAgent>[0]): Copy => ({
      ...copyOf([], storedAgent(fields)),
      entries: [
        {
          ...{ id: 1, source: 'wrk_1/credit/1', at: 5, kind: 'pass_credit' },
          data: { agent_id: 'agt_1', means: 'work', days: 0, pass_until: new Date(5_000).toISOString() },
        },
      ],
    })
    expect(judge(calls, withPass(told))).toBe('')
    expect(judge(calls, withPass({ ...told, profile: { name: 'old' } }))).toContain('profile')
    expect(judge(calls, withPass({ ...told, token: firstToken }))).toContain('answers about token a0')
    expect(judge(calls, withPass({ ...told, pass_until_ms: 4_000 }))).toContain('answers about pass a0')
  })

  it('has the shares that were taken, counted or waiting', () => {
    const prefix = 'p'
    const worker = { ...agent, orders: [{ id: 'wrk_1', prefix, bits: 0, days: 1, shares: [] }] }
    const calls = [did('submit-work', 20, { status: 202, body: { order_id: 'wrk_1', nonces: ['1', '2'] } })]
    const order = {
      ...{ _id: 'wrk_1', agent_id: 'agt_1', days: 1, shares_per_day: 3, shares_required: 3, prefix },
      ...{ difficulty_bits: 0, shares_accepted: 1, credited_days: 0 },
    }
    const copy = copyOf([])
    copy.stored.orders.push(order)
    copy.stored.counted.set('wrk_1', ['1'])
    const judgeShares = (waiting: string[]): string[] =>
      compareWithAnswers(
        [registered, ...calls],
        [worker],
        { ...copy, waiting: new Map([['wrk_1', waiting]]) },
        BACKUP,
      ).map(({ what }) => what)
    expect(judgeShares(['2'])).toEqual([])
    expect(judgeShares([])).toEqual(['shares of order wrk_1 were taken and are lost'])
  })
})

describe("a restored backup's ledger", () => {
  const entry = (id: number, days = id) => ({
    ...{ id, source: `s${id}/post`, at: 1, kind: 'post', data: { days } },
  })
  const seal = {
    ...{ _id: 1, at: 1, count: 2, root: 'r', prev_root: null, from_id: 1, to_id: 2 },
    ...{ signed: true, signature: 's', pubkey: 'p', note: 'n' },
  }
  const { signature: _, pubkey: _pubkey, note: _note, ...bare } = seal
  const network: StoredLedger = { entries: [1, 2, 3].map((id) => entry(id)), pending: [], seals: [seal] }
  const judgeLedger = (copy: Partial<StoredLedger>): number =>
    compareLedgers({ entries: [], pending: [], seals: [], ...copy }, network).length

  it("is the beginning of the network's, with the same signatures", () => {
    const { id: _id, ...waiting } = entry(3)
    expect(judgeLedger({ entries: [entry(1), entry(2)], pending: [waiting], seals: [seal] })).toBe(0)
    expect(judgeLedger({ seals: [{ ...bare, signed: false }] })).toBe(0)
    expect(judgeLedger({ entries: [entry(1), entry(2, 7)] })).toBe(1)
    expect(judgeLedger({ entries: [entry(2)] })).toBe(1)
    expect(judgeLedger({ entries: [1, 2, 3, 4].map((id) => entry(id)) })).toBe(1)
    expect(judgeLedger({ pending: [{ ...waiting, source: 's9/post' }] })).toBe(1)
    expect(judgeLedger({ seals: [{ ...seal, signature: 't' }] })).toBe(1)
    expect(judgeLedger({ seals: [{ ...bare, signed: false, root: 'q' }] })).toBe(1)
  })
})
