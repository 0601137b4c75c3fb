import { describe, expect, it } from 'vitest'
import { findShares } from '../../shared/crypto/pow.ts'
import {
  decideRepeat,
  decideShares,
  mayBeRepeat,
  partitionNonces,
  takesShares,
  verifyBatches,
  WORK_STEPS,
} from '../../shared/passes/work-steps.ts'
import {
  WORK_STATUSES,
  workStatusAt,
  type WorkOrderRecord,
  type WorkStatus,
} from '../../shared/passes/work.ts'
import {
  orderIn,
  OVER_AT,
  SENT,
  SENT_NAMES,
  SITUATIONS,
  SUBMISSION_CASES,
  VERIFIED_CASES,
  type SentName,
  type SituationName,
} from '../support/work-cases.ts'

const sharesAmong = ({ prefix, difficulty_bits: bits }: WorkOrderRecord, nonces: readonly string[]) =>
  findShares(prefix, nonces, bits)

function submit(situation: SituationName, name: SentName): string {
  const { order, page } = orderIn(situation)
  const status = workStatusAt(order, OVER_AT)
  const sent = partitionNonces(SENT[name])
  const decision = takesShares(status)
    ? decideShares(sent, sharesAmong(order, sent.nonces))
    : decideRepeat(sent, new Set(page.nonces))
  if (decision.kind === 'refused')
    return decision.because === 'status' ? `wrong_state ${status}` : 'insufficient_work'
  const reasons = decision.rejected.map(({ reason }) => reason).join(' ')
  return `takes ${decision.shares.length}${reasons === '' ? '' : `: ${reasons}`}`
}

/** What the verification of a batch makes of an order. */
function verify(situation: SituationName, name: SentName) {
  const { order, page } = orderIn(situation)
  const nonces = [...SENT[name]]
  const batch = {
    _id: 'bat_2',
    order_id: order._id,
    agent_id: 'agt_1',
    at_ms: 0,
    state: 'waiting',
    nonces,
    count: nonces.length,
  } as const
  const shares = sharesAmong(order, nonces)
  const { batches, update } = verifyBatches(order, [batch], [shares], new Set(page.nonces))
  const after: WorkOrderRecord = { ...order, ...update?.set }
  const status = workStatusAt(after, OVER_AT)
  const [verified] = batches
  const said = `${verified?.outcomes}, ${status} ${after.shares_accepted}, ${after.credited_days} days`
  return { said, from: workStatusAt(order, OVER_AT), to: status, update }
}

const inAll = (tell: (situation: SituationName) => string) =>
  Object.fromEntries(SITUATIONS.map((situation) => [situation, tell(situation)]))
const VERIFIED_NAMES = Object.keys(VERIFIED_CASES) as (keyof typeof VERIFIED_CASES)[]

describe('a work order', () => {
  it.each(SENT_NAMES)('takes of %s what the table says', (name) => {
    expect(inAll((situation) => submit(situation, name))).toEqual(SUBMISSION_CASES[name])
  })

  it.each(VERIFIED_NAMES)('that has taken %s counts what the table says', (name) => {
    expect(inAll((situation) => verify(situation, name).said)).toEqual(VERIFIED_CASES[name])
  })

  it('takes shares or repeats in each status, by one step or the other', () => {
    const { handed_in: handedIn, repeated } = WORK_STEPS
    expect([...handedIn.from, ...repeated.from].toSorted()).toEqual(WORK_STATUSES.toSorted())
    expect(WORK_STATUSES.filter(takesShares)).toEqual(handedIn.from)
  })

  it('goes by verification from and to the statuses that the row names, and never back', () => {
    const [from, to] = [new Set<WorkStatus>(), new Set<WorkStatus>()]
    for (const name of VERIFIED_NAMES)
      for (const situation of SITUATIONS) {
        const verified = verify(situation, name)
        from.add(verified.from)
        to.add(verified.to)
        expect([verified.from, 'credited']).toContain(verified.to)
      }
    expect({ from, to }).toEqual({
      from: new Set(WORK_STEPS.verified.from),
      to: new Set(WORK_STEPS.verified.to),
    })
  })

  it('gets its first page, and then the next', () => {
    expect(verify('open 0', 'two new shares').update?.set).toMatchObject({
      share_pages: 1,
      last_batch: 'bat_2',
    })
    expect(verify('open 4', 'two new shares').update?.set).toMatchObject({
      share_pages: 2,
      last_batch: 'bat_2',
    })
  })
})

describe('what is sent for an order that takes no more', () => {
  it('is compared with what counts only if it may be a repeat', () => {
    const asked = SENT_NAMES.filter((name) => mayBeRepeat(partitionNonces(SENT[name])))
    expect(SENT_NAMES.filter((name) => !asked.includes(name))).toEqual([
      'what is no nonce',
      'the first share and what is no nonce',
    ])
    expect(mayBeRepeat({ nonces: [], rejected: [] })).toBe(false)
  })
})
