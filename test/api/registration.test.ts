import { hash } from 'node:crypto'
import v8 from 'node:v8'
import vm from 'node:vm'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { solvePuzzle } from '../../client/puzzle-solver.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { isShare } from '../../shared/crypto/pow.ts'
import { createStandingReader } from '../../shared/about/standing-service.ts'
import { FULL } from '../support/full.ts'
import { countStored, listPending } from '../support/stored.ts'
import {
  findNonce,
  solveChallenge,
  startService,
  WITHOUT_LEDGER,
  type Answer,
  type TestService,
} from '../support/service.ts'

interface ChallengeAnswer {
  challenge_id: string
  puzzle: { kind: string; question: string; answer_format: string }
  pow: { prefix: string; difficulty_bits: number }
}

let service: TestService

beforeAll(async () => {
  // A line for each request, kept by this process, would be what the memory test measures.
  service = await startService({ queues: WITHOUT_LEDGER, env: { LOG_LEVEL: 'info' } })
})
afterAll(() => service.stop())

const solve = () => solveChallenge(service.call)
const register = (body: Record<string, unknown>) => service.call('POST', '/register', { body })
const outcome = ({ status, json }: Answer) =>
  [status, json.error, json.field].filter((part) => part !== undefined)
const countAgents = async () => (await countStored(service.ctx.database.connection))['agents'] ?? 0

describe('a registration', () => {
  // holds: contract.authentication.the_token_is_issued_once_by, rules.ledger.entry_kinds.registration
  it('gives an id, a token that works and the handle, and leaves one entry that shows no handle', async () => {
    const solved = await solve()
    const answer = await register({ ...solved, handle: 'Zoë 🜚' })
    expect(answer.status).toBe(201)
    const { agent_id: id, token, handle } = answer.json
    expect(id).toMatch(/^agt_[0-9a-z]{26}$/)
    expect(token).toMatch(/^sk_[0-9a-f]{48}$/)
    expect(handle).toBe('Zoë 🜚')
    const me = await service.call('GET', '/me', { token: String(token) })
    expect(me.json).toMatchObject({
      agent_id: id,
      handle: 'Zoë 🜚',
      pass_until: null,
      pass_active: false,
      referrals: { registered: 0, paying: 0, threshold: 50 },
    })
    const entries = await listPending(service.ctx.database.connection, 'agents', String(id))
    const work = { prefix: expect.stringMatching(/^[0-9a-f]{32}$/), nonce: solved.pow, bits: 4 } as object
    expect(entries.map(({ kind, source, data }) => ({ kind, source, data }))).toEqual([
      {
        kind: 'registration',
        source: `${String(id)}/registration`,
        data: { agent_id: id, handle_hash: expect.stringMatching(/^[0-9a-f]{64}$/), ref: null, ...work },
      },
    ])
    expect(JSON.stringify(entries)).not.toContain('Zoë')
    // Whoever reads the ledger can check the work.
    const { prefix, nonce, bits } = entries[0]?.data as { prefix: string; nonce: string; bits: number }
    expect(isShare(prefix, nonce, bits)).toBe(true)
  })

  // holds: rules.registration.statements.post_register_hands_in_challenge_id
  it('needs no handle, takes its nonce as a number too, and compares the answer trimmed and in lower case', async () => {
    const { pow, answer, ...rest } = await solve()
    const registered = await register({
      ...rest,
      answer: `  ${answer.toUpperCase()}\n`,
      pow: Number(pow),
      surprise: { $gt: '' },
    })
    expect([registered.status, registered.json['handle']]).toEqual([201, null])
  })

  // holds: limits.handle, rules.registration.statements.ref_names_the_agent_that_referred
  it('gives two agents of one handle two ids, and keeps the handle as it was written', async () => {
    const [first, second] = [
      await service.register({ handle: ' same ' }),
      await service.register({ handle: ' same ' }),
    ]
    expect(first.id < second.id).toBe(true)
    expect((await service.call('GET', `/agent/${first.id}`)).json['handle']).toBe(' same ')
  })
})

describe('a challenge', () => {
  // holds: contract.authentication.registration_requires_a_correct_puzzle_answer, limits.registration
  // holds: rules.errors.challenge_used, rules.errors.wrong_answer
  it('is burned by a wrong answer with valid work', async () => {
    const solved = await solve()
    expect(outcome(await register({ ...solved, answer: 'no such answer' }))).toEqual([
      422,
      'wrong_answer',
      'answer',
    ])
    expect(outcome(await register(solved))).toEqual([409, 'challenge_used', 'challenge_id'])
  })

  // holds: contract.authentication.registration_requires_a_correct_puzzle_answer, limits.registration
  // holds: rules.errors.insufficient_work
  it('is not burned by weak work, and a wrong answer with weak work tells nothing of the answer', async () => {
    const { challenge_id, puzzle, pow } = (await service.call('GET', '/challenge'))
      .json as unknown as ChallengeAnswer
    const right = {
      challenge_id,
      answer: solvePuzzle(puzzle),
      pow: findNonce(pow.prefix, pow.difficulty_bits),
    }
    let weak = 0
    while (hash('sha256', `${pow.prefix}:${weak}`, 'hex').startsWith('0')) weak++
    for (const answer of ['wrong', right.answer])
      expect(outcome(await register({ ...right, answer, pow: weak }))).toEqual([
        422,
        'insufficient_work',
        'pow',
      ])
    for (const nonce of ['not a nonce', '', -1, 1.5, 2 ** 53, '0'.repeat(21), 'A'])
      expect(outcome(await register({ ...right, pow: nonce })), String(nonce)).toEqual([
        400,
        'invalid_field',
        'pow',
      ])
    expect((await register(right)).status).toBe(201)
  })

  // holds: rules.errors.challenge_used, rules.proof_of_work.statements.a_registration_takes_one_share_a
  it('registers once, also when the same request comes again', async () => {
    const solved = await solve()
    expect((await register(solved)).status).toBe(201)
    expect(outcome(await register(solved))).toEqual([409, 'challenge_used', 'challenge_id'])
  })

  it('registers once, also when the mark that it was used is lost', async () => {
    const solved = await solve()
    expect((await register(solved)).status).toBe(201)
    const before = await countAgents()
    await service.ctx.agents.models.usedChallenges.deleteMany({})
    expect(outcome(await register(solved))).toEqual([409, 'challenge_used', 'challenge_id'])
    const { id } = await service.register()
    await service.ctx.agents.models.usedChallenges.deleteMany({})
    expect(outcome(await register({ ...solved, ref: id }))).toEqual([409, 'challenge_used', 'challenge_id'])
    expect(await countAgents()).toBe(before + 1)
  })

  it('registers with the same request again, if the first ended before its agent was stored', async () => {
    const solved = await solve()
    const first = await register(solved)
    await service.ctx.agents.models.agents.deleteOne({ _id: String(first.json['agent_id']) })
    expect(outcome(await register({ ...solved, answer: 'a second guess' }))).toEqual([
      409,
      'challenge_used',
      'challenge_id',
    ])
    expect((await register(solved)).status).toBe(201)
    expect(outcome(await register(solved))).toEqual([409, 'challenge_used', 'challenge_id'])
  })

  // holds: rules.registration.statements.get_challenge_gives_a_puzzle_in
  it('registers one agent of twenty that bring it at once', async () => {
    const before = await countAgents()
    const solved = await solve()
    const answers = await Promise.all(Array.from({ length: 20 }, () => register(solved)))
    expect(answers.map(({ status }) => status).sort()).toEqual([
      201,
      ...Array.from({ length: 19 }, () => 409),
    ])
    expect(answers.filter(({ json }) => json.error === 'challenge_used')).toHaveLength(19)
    expect(await countAgents()).toBe(before + 1)
  })

  it('gives one guess to twenty that come at once, of which one is right', async () => {
    for (let round = 0; round < 5; round++) {
      const before = await countAgents()
      const solved = await solve()
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          register({ ...solved, answer: i === 7 ? solved.answer : `guess ${i}` }),
        ),
      )
      const judged = answers.filter(({ json }) => json.error !== 'challenge_used')
      expect(judged).toHaveLength(1)
      expect(judged[0]?.status === 201 || judged[0]?.json.error === 'wrong_answer').toBe(true)
      expect(await countAgents()).toBe(before + (judged[0]?.status === 201 ? 1 : 0))
      expect(outcome(await register(solved))).toEqual([409, 'challenge_used', 'challenge_id'])
    }
  })

  // holds: limits.registration, rules.errors.challenge_expired
  // holds: rules.registration.statements.get_challenge_gives_a_puzzle_in
  it('holds for ten minutes of the service, to the second', async () => {
    const patient = await startService()
    const challenge = async () => solveChallenge(patient.call)
    const [early, late] = [await challenge(), await challenge()]
    const { expires_at: expiresAt } = (await patient.call('GET', '/challenge')).json
    expect(Number(expiresAt) - Math.floor(Date.now() / 1_000)).toBeGreaterThan(595)
    patient.advance(590_000)
    expect((await patient.call('POST', '/register', { body: early })).status).toBe(201)
    patient.advance(10_000)
    expect(outcome(await patient.call('POST', '/register', { body: late }))).toEqual([
      410,
      'challenge_expired',
    ])
    expect(outcome(await patient.call('POST', '/register', { body: early }))).toEqual([
      410,
      'challenge_expired',
    ])
    await patient.stop()
  })

  // holds: rules.registration.order_of_checks.*
  it('is checked in the order that GET /rules states', async () => {
    const told = (await service.call('GET', '/rules')).json['registration'] as {
      order_of_checks: { check: string; refusal: string }[]
    }
    const clock = await startService({ queues: [] })
    const ask = async (body: Record<string, unknown>) =>
      (await clock.call('POST', '/register', { body })).json.error ?? 'ok'
    const past = await solveChallenge(clock.call)
    clock.advance(600_000)
    const challenge = (await clock.call('GET', '/challenge')).json as unknown as ChallengeAnswer
    const { prefix, difficulty_bits: bits } = challenge.pow
    let weak = 0
    while (isShare(prefix, String(weak), bits)) weak++
    // Everything is wrong at first, and then one thing after the other is right.
    const wrong = { challenge_id: 'forged', answer: 'wrong', pow: 'no nonce', ref: 'agt_none' }
    const steps: Record<string, unknown>[] = [
      wrong,
      { ...wrong, challenge_id: past.challenge_id },
      { ...wrong, challenge_id: challenge.challenge_id },
      { ...wrong, challenge_id: challenge.challenge_id, pow: weak },
      { ...wrong, challenge_id: challenge.challenge_id, pow: findNonce(prefix, bits) },
    ]
    const { ref: _ref, ...noRef } = steps.at(-1) ?? {}
    const closed = await startService({ queues: [], env: { SIGNUPS: 'closed' } })
    const refusals = [String((await closed.call('POST', '/register', { body: wrong })).json.error)]
    for (const body of steps) refusals.push(await ask(body))
    const used = await solveChallenge(clock.call)
    expect(await ask(used)).toBe('ok')
    refusals.push(await ask({ ...used, answer: 'wrong' }), await ask(noRef))
    expect(refusals).toEqual(told.order_of_checks.map(({ refusal }) => refusal))
    await closed.stop()
    await clock.stop()
  })

  it('is refused when it was changed anywhere, and burns nothing', async () => {
    const before = await countStored(service.ctx.database.connection)
    const solved = await solve()
    const bytes = Buffer.from(solved.challenge_id, 'base64url')
    for (const index of bytes.keys()) {
      const forged = Buffer.from(bytes)
      forged[index] = (forged[index] ?? 0) ^ 0x10
      expect(
        outcome(await register({ ...solved, challenge_id: forged.toString('base64url') })),
        `byte ${index}`,
      ).toEqual([400, 'invalid_field', 'challenge_id'])
    }
    for (const challenge_id of [
      `${solved.challenge_id}A`,
      solved.challenge_id.slice(1),
      'x',
      'é',
      '../../etc',
    ]) {
      expect(outcome(await register({ ...solved, challenge_id }))).toEqual([
        400,
        'invalid_field',
        'challenge_id',
      ])
    }
    expect(await countStored(service.ctx.database.connection)).toEqual(before)
    expect((await register(solved)).status).toBe(201)
  })
})

describe('a referrer', () => {
  // holds: rules.registration.statements.ref_names_the_agent_that_referred
  it('is counted exactly when twenty agents name it at once', async () => {
    const { id, token } = await service.register()
    await Promise.all(Array.from({ length: 20 }, () => service.register({ ref: id })))
    expect((await service.call('GET', '/me', { token })).json['referrals']).toEqual({
      registered: 20,
      paying: 0,
      threshold: 50,
    })
  })

  // holds: rules.errors.no_such_agent
  it('that does not exist is refused before the challenge is burned', async () => {
    const solved = await solve()
    for (const ref of ['agt_00000000000000000000000000', 'nobody', `agt_${'0'.repeat(90)}`])
      expect(outcome(await register({ ...solved, ref }))).toEqual([404, 'no_such_agent', 'ref'])
    expect((await register(solved)).status).toBe(201)
  })

  it('may be banned: the agent it brings is registered and counted', async () => {
    const referrer = await service.register()
    await setBanned(service.ctx, referrer.id, true)
    const referred = await service.register({ ref: referrer.id })
    expect((await createStandingReader(service.ctx)(referrer.id)).referrals).toMatchObject({
      registered: 1,
      paying: 0,
    })
    expect(
      (await listPending(service.ctx.database.connection, 'agents', referred.id))[0]?.data,
    ).toMatchObject({ ref: referrer.id })
  })
})

describe('a handle', () => {
  // holds: limits.handle
  it('has 1 to 64 characters, counted as characters', async () => {
    for (const handle of ['x', 'é'.repeat(64), '🜚'.repeat(64)])
      expect((await service.register({ handle })).id).toMatch(/^agt_/)
    const solved = await solve()
    for (const handle of ['', 'x'.repeat(65), '🜚'.repeat(65)])
      expect(outcome(await register({ ...solved, handle }))).toEqual([400, 'invalid_field', 'handle'])
  })

  // holds: limits.handle
  it('is printable: no control, no line break, no direction mark, no invisible character', async () => {
    const solved = await solve()
    for (const bad of [
      '\0',
      '\n',
      '\t',
      '\u001b',
      '\u007f',
      '\u0085',
      '\u200b',
      '\u202e',
      '\u2028',
      '\ufeff',
      '\ud800',
      '\ue000',
      '\u{e0041}',
    ]) {
      expect(outcome(await register({ ...solved, handle: `a${bad}b` })), JSON.stringify(bad)).toEqual([
        400,
        'invalid_field',
        'handle',
      ])
    }
    expect((await register({ ...solved, handle: '<b>$where</b> .constructor' })).status).toBe(201)
  })
})

describe('closed signups', () => {
  // holds: rules.errors.signups_closed
  it('refuse new agents and leave the rest as it was', async () => {
    const closed = await startService({ env: { SIGNUPS: 'closed' } })
    expect(
      outcome(await closed.call('POST', '/register', { body: await solveChallenge(closed.call) })),
    ).toEqual([403, 'signups_closed'])
    expect((await closed.call('GET', '/feed')).status).toBe(200)
    expect(await countStored(closed.ctx.database.connection)).toMatchObject({ agents: 0, used_challenges: 0 })
    await closed.stop()
  })
})

describe('signups that are closed later', () => {
  // holds: contract.guarantees.a_paid_pass_is_honoured_for, rules.errors.signups_closed
  it('honour the passes that were bought before, and sell more days', async () => {
    const closing = await startService({ queues: [] })
    const { token } = await closing.registerWithPass()
    Object.assign(closing.ctx.config, { signupsOpen: false })
    expect(
      outcome(await closing.call('POST', '/register', { body: await solveChallenge(closing.call) })),
    ).toEqual([403, 'signups_closed'])
    const send = async (path: string, body: object) =>
      (await closing.call('POST', path, { token, body })).status
    expect(await send('/post', { body: 'still here' })).toBe(201)
    expect(await send('/invoice', { currency: 'pow' })).toBe(201)
    await closing.stop()
  })
})

describe('a flood of challenges', () => {
  const FLOOD = 10_000
  const ask = async (count: number) => {
    for (let i = 0; i < count; i += 50)
      await Promise.all(
        Array.from({ length: 50 }, async () =>
          (await fetch(`${service.url}/api/v1/challenge`)).arrayBuffer(),
        ),
      )
  }

  it('stores nothing', async () => {
    const stored = await countStored(service.ctx.database.connection)
    await ask(100)
    expect(await countStored(service.ctx.database.connection)).toEqual(stored)
  })

  it.runIf(FULL)('keeps no memory', async () => {
    v8.setFlagsFromString('--expose-gc')
    const collectGarbage = vm.runInNewContext('gc') as () => void
    const heapAfter = async (count: number) => {
      await ask(count)
      collectGarbage()
      return process.memoryUsage().heapUsed
    }
    const warm = await heapAfter(500)
    const once = await heapAfter(FLOOD)
    // What is remembered grows each time, the collector's noise does not.
    const grown = Math.min(once - warm, (await heapAfter(FLOOD)) - once)
    // A remembered challenge would be some hundred bytes; what is left is noise of the garbage collector.
    expect(grown).toBeLessThan(200 * FLOOD)
  })
})
