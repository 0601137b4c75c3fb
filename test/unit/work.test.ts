import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_BATCH_NONCES } from '../../shared/platform/limits.ts'
import { createCountedNonceCache, setLastPage } from '../../shared/passes/counted-nonces.ts'
import { applyBatches, partitionNonces, verifyBatches } from '../../shared/passes/work-steps.ts'
import {
  decodeOutcomes,
  encodeOutcomes,
  REJECTIONS,
  submissionView,
  submitBody,
  viewWorkOrder,
  workOrderTtlDays,
  workStatusAt,
  workOrderView,
  type BatchRecord,
  type SharePage,
  type WorkOrderRecord,
} from '../../shared/passes/work.ts'

describe('shares on an order', () => {
  it('complete each day once and never more than was ordered, in whatever batches they come', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 20 }),
        (perDay, days, batches) => {
          let order: WorkOrderRecord = {
            ...{ _id: 'wrk_1', agent_id: 'agt_1', at: 0, difficulty_bits: 8, prefix: '', expires_at: 0 },
            ...{ days, shares_per_day: perDay, shares_required: perDay * days },
            ...{ shares_accepted: 0, credited_days: 0 },
          }
          const counted = new Set<string>()
          for (const [index, fresh] of batches.entries()) {
            const nonces = Array.from({ length: fresh }, (_, place) => `${index}x${place}`)
            const batch: BatchRecord = {
              ...{ _id: `bat_${index}`, order_id: 'wrk_1', agent_id: 'agt_1', at_ms: 0, state: 'waiting' },
              ...{ nonces, count: fresh },
            }
            const { update } = verifyBatches(order, [batch], [nonces], counted)
            const counting = Math.min(fresh, order.shares_required - order.shares_accepted)
            expect(update?.page.nonces ?? []).toHaveLength(counting)
            if (update === undefined) continue
            expect(update.set.shares_accepted).toBe(order.shares_accepted + counting)
            expect(update.completedDays).toBe(update.set.credited_days - order.credited_days)
            expect(update.completedDays).toBeGreaterThanOrEqual(0)
            order = { ...order, ...update.set }
            expect(order.credited_days).toBe(Math.floor(order.shares_accepted / perDay))
          }
          const all = batches.reduce((sum, fresh) => sum + fresh, 0)
          expect(order.shares_accepted).toBe(Math.min(all, perDay * days))
          expect(order.credited_days === days).toBe(all >= perDay * days)
        },
      ),
    )
  })

  it('make the order credited when its last day is, and expired when its time is over before that', () => {
    const order = { credited_days: 0, days: 2, expires_at: 100 }
    expect([
      workStatusAt(order, 99),
      workStatusAt(order, 100),
      workStatusAt({ ...order, credited_days: 2 }, 101),
      workStatusAt({ ...order, credited_days: 1 }, 101),
    ]).toEqual(['open', 'expired', 'credited', 'expired'])
    expect([workOrderTtlDays(1), workOrderTtlDays(365)]).toEqual([31, 395])
  })
})

describe('batches of one order, verified together', () => {
  const order = (required: number, accepted = 0) => ({
    shares_accepted: accepted,
    shares_required: required,
    shares_per_day: 2,
    credited_days: Math.floor(accepted / 2),
  })
  const batch = (...nonces: string[]) => ({ nonces })
  it('count each share once, whichever batch brings it, and never more than the order needs', () => {
    const nonce = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'weak', 'worse')
    const distinct = fc.uniqueArray(nonce, { maxLength: 8 })
    fc.assert(
      fc.property(
        fc.array(distinct, { maxLength: 6 }),
        fc.uniqueArray(fc.constantFrom('a', 'b', 'c')),
        fc.nat(6),
        (lists, counted, room) => {
          const known = new Set<string>(counted)
          const shares = new Set<string>(['a', 'b', 'c', 'd', 'e', 'f'])
          const { outcomes, newlyCounted } = applyBatches(
            order(counted.length + room, counted.length),
            lists.map((list) => batch(...list)),
            lists.map((list) => list.filter((one) => shares.has(one))),
            new Set(counted),
          )
          const good = new Set<string>(lists.flat().filter((one) => shares.has(one) && !known.has(one)))
          expect(newlyCounted).toHaveLength(Math.min(room, good.size))
          expect(new Set(newlyCounted).size).toBe(newlyCounted.length)
          for (const one of newlyCounted) expect(good.has(one)).toBe(true)
          expect(outcomes.flat().filter((outcome) => outcome === undefined)).toHaveLength(newlyCounted.length)
          expect(outcomes.map(({ length }) => length)).toEqual(lists.map(({ length }) => length))
        },
      ),
    )
  })

  it('tell weak, repeated and superfluous nonces apart', () => {
    const { outcomes, newlyCounted } = applyBatches(
      order(4, 1),
      [batch('a', 'weak', 'old'), batch('a', 'b', 'c', 'd')],
      [
        ['a', 'old'],
        ['a', 'b', 'c', 'd'],
      ],
      new Set(['old']),
    )
    expect(outcomes).toEqual([
      [undefined, 'insufficient_work', 'duplicate'],
      ['duplicate', undefined, undefined, 'order_full'],
    ])
    expect(newlyCounted).toEqual(['a', 'b', 'c'])
    // An order that is full tells what it has counted before from what came too late.
    const { outcomes: later } = applyBatches(
      order(2, 2),
      [batch('old', 'new')],
      [['old', 'new']],
      new Set(['old']),
    )
    expect(later).toEqual([['duplicate', 'order_full']])
  })

  it('that count make the next page of the order, which names those of them with a share that counts', () => {
    const before: WorkOrderRecord = {
      ...order(4, 1),
      _id: 'wrk_1',
      agent_id: 'agt_1',
      at: 0,
      days: 2,
      difficulty_bits: 8,
      prefix: '',
      expires_at: 0,
      share_pages: 3,
    }
    const waiting = (_id: string, ...nonces: string[]): BatchRecord => ({
      _id,
      order_id: 'wrk_1',
      agent_id: 'agt_1',
      at_ms: 0,
      state: 'waiting',
      nonces,
      count: nonces.length,
    })
    const batches = [waiting('bat_1', 'old'), waiting('bat_2', 'new', 'weak')]
    const verified = verifyBatches(before, batches, [['old'], ['new']], new Set(['old']))
    expect(verified).toEqual({
      batches: [
        { _id: 'bat_1', count: 1, outcomes: 'd' },
        { _id: 'bat_2', count: 2, outcomes: 'ai' },
      ],
      update: {
        before,
        set: { shares_accepted: 2, credited_days: 1, share_pages: 4, last_batch: 'bat_2' },
        page: { order_id: 'wrk_1', number: 4, batch_ids: ['bat_2'], nonces: ['new'] },
        completedDays: 1,
      },
    })
    const nothing = verifyBatches(before, [waiting('bat_3', 'old')], [['old']], new Set(['old']))
    expect(nothing).toEqual({ batches: [{ _id: 'bat_3', count: 1, outcomes: 'd' }] })
  })
})

describe('nonces that counted', () => {
  const ALL = ['a', 'b', 'c', 'd', 'p', 'q', 'r', 's', 'x', 'y']
  const page = (number: number, ...nonces: string[]): SharePage => ({
    order_id: 'wrk_a',
    number,
    batch_ids: [`bat_${number}${nonces[0]}`],
    nonces,
  })
  const orderWith = (pages: readonly SharePage[]) => ({
    _id: 'wrk_a',
    ...(pages.length === 0
      ? {}
      : { share_pages: pages.length, last_batch: pages.at(-1)?.batch_ids.at(-1) ?? '' }),
  })
  /** Pages as a database holds them, and how many were read each time. */
  const open = (...pages: SharePage[]) => {
    const reads: number[] = []
    const counted = createCountedNonceCache({
      listPages: async (_, from, to) => {
        const found = pages.filter(({ number }) => number >= from && number <= to)
        reads.push(found.length)
        return found
      },
    })
    /** What a verification would go by, which stores nothing. */
    const look = async () => {
      const known = await counted.takeOut(orderWith(pages))
      if (known !== undefined) counted.putBack('wrk_a', known)
      return known && ALL.filter((nonce) => known.nonces.has(nonce))
    }
    return { pages, reads, counted, look }
  }

  it('are read once and then only what was added', async () => {
    const { pages, reads, counted, look } = open()
    expect(await look()).toEqual([])
    pages.push(page(1, 'a', 'b'))
    expect(await look()).toEqual(['a', 'b'])
    expect(await look()).toEqual(['a', 'b'])
    const known = await counted.takeOut(orderWith(pages))
    known?.nonces.add('c')
    pages.push(page(2, 'c'))
    if (known !== undefined) {
      setLastPage(known, page(2, 'c'))
      counted.putBack('wrk_a', known)
    }
    expect(await look()).toEqual(['a', 'b', 'c'])
    pages.push(page(3, 'd'))
    expect(await look()).toEqual(['a', 'b', 'c', 'd'])
    // The last page that is known is read with those that follow, because it shows whether they follow it.
    expect(reads).toEqual([1, 2])
  })

  it('are not seen by others while a verification that may fail has added to them', async () => {
    const { pages, counted, look } = open(page(1, 'a'))
    const failing = await counted.takeOut(orderWith(pages))
    failing?.nonces.add('b')
    expect(await look()).toEqual(['a'])
  })

  it('of a database that was set back are read anew', async () => {
    const { pages, look } = open(page(1, 'a'), page(2, 'b'))
    expect(await look()).toEqual(['a', 'b'])
    pages.pop()
    expect(await look()).toEqual(['a'])
    pages.push(page(2, 'x'), page(3, 'y'))
    expect(await look()).toEqual(['a', 'x', 'y'])
    pages.splice(0, 3, page(1, 'p'), page(2, 'q'), page(3, 'r'))
    expect(await look()).toEqual(['p', 'q', 'r'])
    pages.splice(0, 3, page(1, 'a'), page(2, 'b'), page(3, 'c'), page(4, 'd'))
    expect(await look()).toEqual(['a', 'b', 'c', 'd'])
  })

  it('are none at all while pages that the order speaks of are missing', async () => {
    const { pages, counted, look } = open(page(1, 'a'))
    expect(await counted.takeOut({ _id: 'wrk_a', share_pages: 2, last_batch: 'bat_2b' })).toBeUndefined()
    pages.push(page(2, 'b'))
    expect(await look()).toEqual(['a', 'b'])
  })
})

describe('the nonces of a batch', () => {
  it('are sorted into each canonical one once and what cannot count, with nothing lost', () => {
    const nonce = fc.oneof(
      fc.stringMatching(/^[0-9a-z]{1,20}$/),
      fc.nat(),
      fc.string({ maxLength: 25 }),
      fc.double(),
      fc.constantFrom('7', 7, '07', -1, 1.5, 2 ** 53),
    )
    fc.assert(
      fc.property(fc.array(nonce, { maxLength: 60 }), (sent) => {
        const { nonces, rejected } = partitionNonces(sent)
        expect(nonces.length + rejected.length).toBe(sent.length)
        expect(new Set(nonces).size).toBe(nonces.length)
        for (const one of nonces) expect(one).toMatch(/^[0-9a-z]{1,20}$/)
        const isGood = (value: string | number) =>
          typeof value === 'string'
            ? /^[0-9a-z]{1,20}$/.test(value)
            : Number.isSafeInteger(value) && value >= 0
        for (const { nonce: value, reason } of rejected)
          expect(isGood(value) ? 'duplicate' : 'invalid_nonce').toBe(reason)
        expect(new Set(sent.filter(isGood).map(String))).toEqual(new Set(nonces))
      }),
    )
  })

  it('take a number as its decimal text and tell 7 from 07', () => {
    expect(partitionNonces([7, '7', '07', 0, '0'])).toEqual({
      nonces: ['7', '07', '0'],
      rejected: [
        { nonce: '7', reason: 'duplicate' },
        { nonce: '0', reason: 'duplicate' },
      ],
    })
  })

  it('may be up to 10,000 in one request, as text or as numbers', () => {
    const takes = (nonces: unknown): boolean => submitBody.safeParse({ order_id: 'wrk_1', nonces }).success
    expect([takes(['a', 7]), takes(Array.from({ length: MAX_BATCH_NONCES }, () => 'a'))]).toEqual([
      true,
      true,
    ])
    for (const nonces of [
      undefined,
      'a',
      [],
      [null],
      ['a'.repeat(65)],
      Array(MAX_BATCH_NONCES + 1).fill('a'),
    ])
      expect(takes(nonces)).toBe(false)
  })
})

describe('the outcomes of a batch', () => {
  it('are kept as a letter for each nonce, and read again as they were', () => {
    const outcomes = [undefined, 'duplicate', 'order_full', 'insufficient_work', undefined] as const
    expect(encodeOutcomes(outcomes)).toBe('adfia')
    expect(decodeOutcomes('adfia')).toEqual(outcomes)
    expect(decodeOutcomes(encodeOutcomes([]))).toEqual([])
  })
})

describe('the answer to shares', () => {
  it('tells each nonce that does not count with its reason, and is checked later if it says verifying', () => {
    const answer = {
      ...{ order_id: 'wrk_1', status: 'verifying', accepted: 0, shares_accepted: 3, shares_required: 20 },
      ...{ credited_days: 0, pass_until: null },
      rejected: [...REJECTIONS.map((reason) => ({ nonce: 'a', reason })), { nonce: 7, reason: 'duplicate' }],
    }
    submissionView.strict().parse(answer)
    expect(submissionView.safeParse({ ...answer, rejected: [{}] }).success).toBe(false)
  })
})

describe('a work order', () => {
  const order: WorkOrderRecord = {
    ...{ _id: 'wrk_1', agent_id: 'agt_1', at: 5, days: 2, shares_per_day: 10, shares_required: 20 },
    ...{
      difficulty_bits: 16,
      prefix: 'ab'.repeat(16),
      expires_at: 100,
      shares_accepted: 13,
      credited_days: 1,
    },
  }

  it('is shown with what is asked, what has counted and its status at the time', () => {
    const view = viewWorkOrder(order, 50)
    expect(view).toEqual({
      ...{ order_id: 'wrk_1', currency: 'pow', days: 2, shares_required: 20, difficulty_bits: 16 },
      ...{ prefix: order.prefix, preimage: 'prefix:nonce', status: 'open', shares_accepted: 13 },
      ...{ credited_days: 1, expires_at: 100 },
    })
    workOrderView.strict().parse(view)
    expect(viewWorkOrder(order, 100).status).toBe('expired')
  })
})
