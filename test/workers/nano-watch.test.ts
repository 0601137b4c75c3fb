import { randomBytes } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import type { PaymentRecord } from '../../shared/money/arrival.ts'
import { checkInvoice } from '../../shared/money/invoice-service.ts'
import { encodeNanoAddress } from '../../shared/crypto/nano-address.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, unixSeconds } from '../../shared/platform/time.ts'
import { createNanoHints, startNanoListener } from '../../workers/nano-listener.ts'
import { setRate } from '../support/coins.ts'
import { checkMoney } from '../support/money.ts'
import type { RpcExchange } from '../../devnet/nano-node/nano-node.ts'
import { DAY_RAW, XNO, signAndPublish, useNanoVenue, type NanoVenue } from '../support/nano-venue.ts'
import { checkNanoInvoice, fillNanoPool, watchNano } from '../support/nano-jobs.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { FULL, sampled } from '../support/full.ts'

const LIMIT = { limitMs: PATIENCE_MS }
let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

const payments = (): Promise<PaymentRecord[]> =>
  venue.ctx.invoices.arrivals.models.payments.find({}).sort({ _id: 1 }).lean<PaymentRecord[]>()
const coin = async () => {
  const record = await venue.ctx.coins.findCoin('xno')
  if (record === undefined) throw new Error('nothing is known of xno')
  return record
}
/** A JSON answer with something changed in it. */
const change = (text: string, edit: (answer: Record<string, unknown>) => void): string => {
  const answer = JSON.parse(text) as Record<string, unknown>
  edit(answer)
  return JSON.stringify(answer)
}

describe('a round over the open addresses', () => {
  it('settles what is confirmed, once, however often it is found', async () => {
    const [whole, part, none] = [await venue.invoice(2), await venue.invoice(2), await venue.invoice(1)]
    venue.pay(whole, 2n * DAY_RAW)
    venue.pay(part, DAY_RAW)
    for (let round = 0; round < 3; round++) await watchNano(venue.ctx)
    expect(await venue.read(whole)).toMatchObject({ credited_days: 2, received_raw: String(2n * DAY_RAW) })
    expect(await venue.read(part)).toMatchObject({ credited_days: 0, received_raw: String(DAY_RAW) })
    expect(await venue.read(none)).toMatchObject({ credited_days: 0, received_raw: '0' })
    expect(await checkMoney(venue.ctx)).toEqual({ invoices: 3, payments: 2, settled: 2 })
    const now = unixSeconds(venue.ctx.now())
    const { reachable, required_confirmations, checked_at = 0, round_at = 0, height = 0 } = await coin()
    expect({ reachable, required_confirmations }).toEqual({ reachable: true, required_confirmations: 1 })
    expect(now - checked_at).toBeLessThan(60)
    expect(now - round_at).toBeLessThan(60)
    expect(height).toBe(venue.node.state.ledger.cementedCount)
  })

  it('asks for confirmed sends above dust, and counts neither the others nor dust', async () => {
    const invoice = await venue.invoice(1)
    const asked: string[] = []
    venue.node.lie(({ action, requestText }) => {
      if (action === 'accounts_receivable') asked.push(requestText)
      return undefined
    })
    venue.node.setAutoConfirm(null)
    const unconfirmed = venue.node.fund(invoice.address, DAY_RAW)
    await watchNano(venue.ctx)
    expect(await payments()).toEqual([])
    expect(JSON.parse(asked[0] ?? '')).toMatchObject({
      include_only_confirmed: 'true',
      threshold: String(10n ** 24n),
      sorting: 'true',
    })
    venue.node.confirm(unconfirmed)
    venue.node.fund(invoice.address, 10n ** 24n - 1n, { confirmed: true })
    await watchNano(venue.ctx)
    expect((await payments()).map(({ amount_raw }) => amount_raw)).toEqual([String(DAY_RAW)])
  })

  it.runIf(FULL)('asks nothing about payments that are counted, but the one list', async () => {
    for (let count = 0; count < 5; count++) venue.pay(await venue.invoice(1), DAY_RAW)
    await watchNano(venue.ctx)
    venue.node.resetCalls()
    await watchNano(venue.ctx)
    expect([venue.node.calls('accounts_receivable'), venue.node.calls('blocks_info')]).toEqual([1, 0])
  })

  // holds: limits.late_money
  it('takes money that came late at the lower of the two rates, as late as a rate is there', async () => {
    const invoice = await venue.invoice(2)
    venue.advance(61 * MINUTE_MS)
    await watchNano(venue.ctx)
    expect(await venue.read(invoice)).toMatchObject({
      lapsed: true,
      look_after: expect.any(Number) as number,
    })
    venue.pay(invoice, 2n * DAY_RAW)
    venue.advance(HOUR_MS)
    await watchNano(venue.ctx)
    expect((await payments())[0]).toMatchObject({ state: 'seen', late: true, waits_for_rate: true })
    await setRate(venue.ctx, 'xno', '0.5')
    await watchNano(venue.ctx)
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 1, unspent: '0' })
    await checkMoney(venue.ctx)
  })

  it('finds what was paid before the time was over and is seen after it, and counts that in time', async () => {
    const invoice = await venue.invoice(1)
    venue.pay(invoice, DAY_RAW)
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    expect((await payments())[0]).toMatchObject({ late: false, state: 'settled', credited_days: 1 })
  })

  it.runIf(FULL)(
    'waits for what is under way when the time is over, and counts it once the network has confirmed it',
    async () => {
      const invoice = await venue.invoice(1)
      venue.node.setAutoConfirm(null)
      const send = venue.node.fund(invoice.address, DAY_RAW)
      venue.advance(2 * HOUR_MS)
      await watchNano(venue.ctx)
      expect(await payments()).toMatchObject([{ state: 'seen', confirmations: 0 }])
      expect(await venue.read(invoice)).toMatchObject({ credited_days: 0, lapsed: false })
      venue.node.confirm(send)
      await watchNano(venue.ctx)
      expect(await payments()).toMatchObject([{ state: 'settled', late: false, credited_days: 1 }])
    },
  )

  // holds: limits.late_money.detail
  it('looks at lapsed addresses hourly for 30 days, and then when asked', async () => {
    const invoice = await venue.invoice(1)
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    await setRate(venue.ctx, 'xno', '1')
    venue.pay(invoice, DAY_RAW)
    await watchNano(venue.ctx)
    expect(await payments()).toEqual([])
    venue.advance(HOUR_MS)
    await setRate(venue.ctx, 'xno', '1')
    await watchNano(venue.ctx)
    expect(await payments()).toHaveLength(1)
    venue.node.resetCalls()
    await watchNano(venue.ctx)
    expect(venue.node.calls('accounts_receivable')).toBe(0)
    venue.advance(29 * DAY_MS)
    await watchNano(venue.ctx)
    expect(await venue.read(invoice)).toHaveProperty('look_after')
    venue.advance(2 * DAY_MS)
    await watchNano(venue.ctx)
    expect(await venue.read(invoice)).not.toHaveProperty('look_after')
    venue.pay(invoice, DAY_RAW)
    await watchNano(venue.ctx)
    expect(await payments()).toHaveLength(1)
    await setRate(venue.ctx, 'xno', '1')
    await checkNanoInvoice(venue.ctx, invoice._id)
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 2 })
  })

  it.runIf(FULL)(
    'looks at a lapsed address again in the next round if it could not record what it found there',
    async () => {
      const invoice = await venue.invoice(1)
      venue.advance(2 * HOUR_MS)
      await watchNano(venue.ctx)
      venue.pay(invoice, DAY_RAW)
      venue.advance(HOUR_MS)
      await setRate(venue.ctx, 'xno', '1')
      const { ctx } = venue
      const insert = () => Promise.reject(new Error('not now'))
      await watchNano({
        ...ctx,
        invoices: { ...ctx.invoices, arrivals: { ...ctx.invoices.arrivals, insert } },
      })
      expect(await payments()).toEqual([])
      await watchNano(ctx)
      expect(await payments()).toHaveLength(1)
    },
  )

  it.runIf(FULL)("by this machine's clock ends no watch and puts none off", async () => {
    const invoice = await venue.invoice(1)
    venue.advance(4 * HOUR_MS)
    await watchNano(venue.ctx)
    const { look_after: lookAfter } = await venue.read(invoice)
    const present = Date.now()
    vi.useFakeTimers({ toFake: ['Date'], now: present + 31 * DAY_MS })
    try {
      await watchNano(venue.ctx)
    } finally {
      vi.useRealTimers()
    }
    expect(await venue.read(invoice)).toMatchObject({ lapsed: true, look_after: lookAfter })
  })

  it.each(
    sampled([
      ['that is looked at hourly', {}],
      ['that is looked at when asked', { $unset: { look_after: 1 } }],
    ]),
  )(
    'looks in the next round at one that its owner asked for while the node was away, %s',
    async (_, update) => {
      const invoice = await venue.invoice(1)
      venue.advance(2 * HOUR_MS)
      await watchNano(venue.ctx)
      await venue.ctx.invoices.models.invoices.updateOne({ _id: invoice._id }, update)
      await setRate(venue.ctx, 'xno', '1')
      venue.pay(invoice, DAY_RAW)
      await venue.node.setDown(true)
      // Redis may not take the job in its time; then nothing was asked for.
      const ask = async () =>
        (await checkInvoice(venue.ctx, invoice.agent_id, invoice._id)).isAsked || undefined
      await waitFor('a look that is asked for', ask, LIMIT)
      await checkNanoInvoice(venue.ctx, invoice._id)
      expect(await payments()).toEqual([])
      await venue.node.setDown(false)
      await watchNano(venue.ctx)
      expect(await payments()).toHaveLength(1)
    },
  )

  it.runIf(FULL)('finds the paid one among thousands that are not', async () => {
    const { paid, other } = await payTwoOfThousands()
    venue.node.resetCalls()
    await watchNano(venue.ctx)
    expect(venue.node.calls('accounts_receivable')).toBe(4)
    expect((await payments()).map(({ invoice_id }) => invoice_id).toSorted()).toEqual(
      [other._id, paid._id].toSorted(),
    )
  })

  it.runIf(FULL)('counts what the other pages show if one page is never answered', async () => {
    const { paid, other } = await payTwoOfThousands()
    venue.node.lie(({ action, requestText }) =>
      action === 'accounts_receivable' && requestText.includes(paid.address) ? { status: 500 } : undefined,
    )
    await watchNano(venue.ctx)
    expect((await payments()).map(({ invoice_id }) => invoice_id)).toEqual([other._id])
    expect((await coin()).reachable).toBe(false)
    venue.node.lie(null)
    await watchNano(venue.ctx)
    expect(await payments()).toHaveLength(2)
  })
})

/** Makes 3,001 open invoices, of which the first page of a round has one that is paid, and a later page another. */
async function payTwoOfThousands() {
  const paid = await venue.invoice(1)
  const { _id: _, ...rest } = paid
  const unpaid = Array.from({ length: 3_000 }, (_, place) => ({
    ...rest,
    _id: `inv_z${String(place).padStart(25, '0')}`,
    agent_id: `agt_${place}`,
    address: encodeNanoAddress(randomBytes(32).toString('hex').toUpperCase()),
    address_index: 10_000 + place,
  }))
  await venue.ctx.invoices.models.invoices.insertMany(unpaid, { lean: true })
  await venue.ctx.coins.addresses.add(
    unpaid.map(({ address, address_index: index }) => ({
      _id: `xno:${index}`,
      coin: 'xno',
      index,
      address,
      state: 'taken',
    })),
  )
  const other = unpaid[2_500]
  if (other === undefined) throw new Error('there are fewer invoices than were made')
  venue.pay(paid, DAY_RAW)
  venue.pay(other, DAY_RAW / 2n)
  return { paid, other }
}

describe('a node that gives no news', () => {
  const hang = (): void => {
    venue.setPatience(500)
    venue.node.setHanging(true)
  }
  const isStill = async (): Promise<void> => {
    const before = (await coin()).round_at
    const invoice = await venue.invoice(1)
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    expect(await venue.read(invoice)).toMatchObject({ lapsed: false })
    expect((await coin()).round_at).toBe(before)
  }

  // holds: rules.market.steps.expired, rules.pass.statements.post_invoice_with_a_coin_gives
  it.each(
    sampled(
      [
        ['is down', () => venue.node.setDown(true)],
        ['hangs', hang],
        ['answers with half a response', () => venue.node.lie(() => ({ cutAfterBytes: 10 }))],
        ['answers with status 500', () => venue.node.lie(() => ({ status: 500 }))],
        ['answers with rubbish', () => venue.node.lie(() => '{"blocks": {"nano_1": 7}}')],
        [
          'answers with huge numbers',
          () =>
            venue.node.lie(({ action }) =>
              action === 'block_count'
                ? `{"count":"1","unchecked":"0","cemented":"${'9'.repeat(400)}"}`
                : undefined,
            ),
        ],
        [
          'confirms more than it has',
          () =>
            venue.node.lie(({ action }) =>
              action === 'block_count' ? '{"count":"1","unchecked":"0","cemented":"900000"}' : undefined,
            ),
        ],
        ['refuses', () => venue.node.lie(() => '{"error": "RPC control is disabled"}')],
      ],
      2,
    ),
  )('makes nothing expire while it %s, is told of once, and all goes on after', async (_, begin) => {
    const paid = await venue.invoice(1)
    venue.pay(paid, DAY_RAW)
    await begin()
    await isStill()
    await watchNano(venue.ctx)
    expect((await coin()).reachable).toBe(false)
    expect(venue.logged().split('the Nano node gives no news')).toHaveLength(2)
    venue.node.lie(null)
    venue.node.setHanging(false)
    venue.setPatience()
    if (_ === 'is down') await venue.node.setDown(false)
    await watchNano(venue.ctx)
    expect((await coin()).reachable).toBe(true)
    expect(await venue.read(paid)).toMatchObject({ credited_days: 1, lapsed: true })
  })

  it('makes nothing expire while it catches up', async () => {
    await venue.ctx.coins.report('xno', { height: 1_000_000 }, unixSeconds(venue.ctx.now()))
    await isStill()
    expect(await coin()).toMatchObject({ reachable: false, height: 1_000_000 })
  })

  it.runIf(FULL)(
    'is not reached again by a look that somebody asked for, while it catches up; what it has is counted',
    async () => {
      const invoice = await venue.invoice(1)
      venue.pay(invoice, DAY_RAW)
      await venue.ctx.coins.report(
        'xno',
        { height: 1_000_000, reachable: false },
        unixSeconds(venue.ctx.now()),
      )
      const { checked_at: before } = await coin()
      venue.advance(MINUTE_MS)
      await checkNanoInvoice(venue.ctx, invoice._id)
      expect(await coin()).toMatchObject({ reachable: false, checked_at: before })
      expect(await venue.read(invoice)).toMatchObject({ credited_days: 1 })
    },
  )

  it.runIf(FULL)('makes nothing expire where one of the pages failed', async () => {
    const [one] = [await venue.invoice(1)]
    let asked = 0
    venue.node.lie(({ action }) =>
      action === 'accounts_receivable' && ++asked === 1 ? { status: 500 } : undefined,
    )
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    expect(await venue.read(one)).toMatchObject({ lapsed: false })
  })
})

describe('a node that lies', () => {
  const payBoth = async () => {
    const [lied, honest] = [await venue.invoice(1), await venue.invoice(1)]
    const tx = venue.pay(lied, DAY_RAW / 100n)
    venue.pay(honest, DAY_RAW)
    return { lied, honest, hash: tx.toUpperCase() }
  }
  const inflate = (lied: { address: string }, hash: string) => (text: string) =>
    change(text, (answer) => {
      const blocks = answer['blocks'] as Record<string, Record<string, string>>
      const entries = blocks[lied.address]
      if (entries !== undefined) entries[hash] = String(DAY_RAW)
    })

  it('about an amount in its list is found out; the others are counted, and nothing expires', async () => {
    const { lied, honest, hash } = await payBoth()
    const edit = inflate(lied, hash)
    venue.node.lie(({ action, answerText }) =>
      action === 'accounts_receivable' ? edit(answerText) : undefined,
    )
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    expect(await venue.read(lied)).toMatchObject({ received_raw: '0', lapsed: false })
    expect(await venue.read(honest)).toMatchObject({ credited_days: 1, lapsed: false })
    expect(venue.logged()).toContain('its blocks do not prove')
    venue.node.lie(null)
    await watchNano(venue.ctx)
    expect(await venue.read(lied)).toMatchObject({ received_raw: String(DAY_RAW / 100n) })
    await checkMoney(venue.ctx)
  })

  const liesAboutBlock = (
    edit: (block: Record<string, unknown>) => void,
    lied: { address: string },
    hash: string,
  ) => {
    const raise = inflate(lied, hash)
    return ({ action, answerText }: RpcExchange): string | undefined => {
      if (action === 'accounts_receivable') return raise(answerText)
      if (action !== 'blocks_info') return undefined
      return change(answerText, (answer) => {
        const block = (answer['blocks'] as Record<string, Record<string, unknown>>)[hash]
        if (block !== undefined) edit(block)
      })
    }
  }

  it('about the amount in both of its answers is found out by the balances that the hashes cover', async () => {
    const { lied, hash } = await payBoth()
    venue.node.lie(liesAboutBlock((block) => (block['amount'] = String(DAY_RAW)), lied, hash))
    await watchNano(venue.ctx)
    expect(await venue.read(lied)).toMatchObject({ received_raw: '0' })
    expect(venue.logged()).toContain('its blocks do not prove')
  })

  it.runIf(FULL)('about a balance, too, is no answer at all: the hash is over the balance', async () => {
    const { lied, hash } = await payBoth()
    venue.node.lie(
      liesAboutBlock(
        (block) => {
          block['amount'] = String(DAY_RAW)
          const contents = block['contents'] as Record<string, string>
          contents['balance'] = String(BigInt(contents['balance'] ?? 0) - DAY_RAW)
          block['balance'] = contents['balance']
        },
        lied,
        hash,
      ),
    )
    await watchNano(venue.ctx)
    expect(await payments()).toEqual([])
    expect((await coin()).reachable).toBe(false)
  })

  it("about whose a payment is is found out: another's block buys nothing", async () => {
    const { lied, honest, hash } = await payBoth()
    venue.node.lie(({ action, answerText }) =>
      action !== 'accounts_receivable'
        ? undefined
        : change(answerText, (answer) => {
            const blocks = answer['blocks'] as Record<string, Record<string, string>>
            blocks[lied.address] = { ...blocks[lied.address], ...blocks[honest.address] }
          }),
    )
    await watchNano(venue.ctx)
    expect(await venue.read(lied)).toMatchObject({ received_raw: String(DAY_RAW / 100n) })
    expect((await payments()).map(({ tx }) => tx)).toContain(hash.toLowerCase())
    expect(venue.logged()).toContain('it is no send to this account')
  })

  it('tells no lie about a send whose signature does not hold here: it buys nothing and keeps nothing from expiring', async () => {
    const { lied, honest } = await payBoth()
    await watchNano(venue.ctx)
    const [unpaid] = [await venue.invoice(1)]
    venue.node.fundMany([{ address: unpaid.address, amountRaw: DAY_RAW }])
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    expect(venue.logged()).toContain('its sender did not sign it')
    expect(await venue.read(unpaid)).toMatchObject({ received_raw: '0', lapsed: true })
    expect([(await venue.read(lied)).lapsed, (await venue.read(honest)).credited_days]).toEqual([true, 1])
  })

  it.runIf(FULL)('tells of such a send what pays no order and keeps none from expiring', async () => {
    const { order, invoice } = await venue.order()
    venue.node.fundMany([{ address: invoice.address, amountRaw: BigInt(invoice.amount_raw) }])
    await watchNano(venue.ctx)
    expect((await venue.ctx.orders.find(order._id))?.status).toBe('awaiting_payment')
    venue.advance(2 * HOUR_MS)
    await watchNano(venue.ctx)
    expect(await venue.ctx.orders.find(order._id)).toMatchObject({ status: 'expired' })
    expect(await venue.ctx.payouts.listByOrder(order._id)).toEqual([])
  })

  // holds: limits.confirmations
  it('about a block that it lists and does not confirm buys nothing', async () => {
    const { lied, hash } = await payBoth()
    venue.node.lie(({ action, answerText }) =>
      action !== 'blocks_info'
        ? undefined
        : change(answerText, (answer) => {
            const block = (answer['blocks'] as Record<string, Record<string, unknown>>)[hash]
            if (block !== undefined) block['confirmed'] = 'false'
          }),
    )
    await watchNano(venue.ctx)
    expect(await venue.read(lied)).toMatchObject({ received_raw: '0' })
  })
})

describe('a check', () => {
  it('looks at its invoice alone, and is no failure while the node is away', async () => {
    const [asked, other] = [await venue.invoice(1), await venue.invoice(1)]
    venue.pay(asked, DAY_RAW)
    venue.pay(other, DAY_RAW)
    await venue.node.setDown(true)
    await checkNanoInvoice(venue.ctx, asked._id)
    await venue.node.setDown(false)
    await checkNanoInvoice(venue.ctx, asked._id)
    expect((await payments()).map(({ invoice_id }) => invoice_id)).toEqual([asked._id])
  })

  it.runIf(FULL)('may come 100 times at once beside the round: one credit', async () => {
    const invoice = await venue.invoice(1)
    venue.pay(invoice, DAY_RAW)
    await Promise.all([
      ...Array.from({ length: 100 }, () => checkNanoInvoice(venue.ctx, invoice._id)),
      watchNano(venue.ctx),
      watchNano(venue.ctx),
    ])
    expect(await venue.read(invoice)).toMatchObject({ credited_days: 1 })
    expect(await checkMoney(venue.ctx)).toMatchObject({ payments: 1, settled: 1 })
  })
})

describe('the websocket', () => {
  const listen = async () => {
    const listener = startNanoListener(venue.ctx, ['watch-nano'])
    await waitFor(
      'the subscription',
      () => (venue.node.websocket.subscribers('confirmation') === 1 ? true : undefined),
      LIMIT,
    )
    return { [Symbol.dispose]: () => listener?.close() }
  }
  const settled = (id: string) =>
    waitFor(
      'the settlement',
      async () => ((await venue.ctx.invoices.find(id))?.credited_days === 1 ? true : undefined),
      LIMIT,
    )

  it('settles a payment with no round, also where the address is not in the rounds any more', async () => {
    const [open, old] = [await venue.invoice(1), await venue.invoice(1)]
    await venue.ctx.invoices.models.invoices.updateOne(
      { _id: old._id },
      { $set: { lapsed: true }, $unset: { look_after: 1 } },
    )
    using _listening = await listen()
    venue.pay(open, DAY_RAW)
    venue.pay(old, DAY_RAW)
    await Promise.all([settled(open._id), settled(old._id)])
  })

  it('may say everything twice, lose what it likes, and break: each payment counts once, the lost ones by the round', async () => {
    using _listening = await listen()
    venue.node.duplicateWebsocketMessages(true)
    const twice = await venue.invoice(1)
    venue.pay(twice, DAY_RAW)
    await settled(twice._id)
    venue.node.dropNextWebsocketMessages(1)
    const lost = await venue.invoice(1)
    venue.pay(lost, DAY_RAW)
    venue.node.disconnectWebsockets()
    const gap = await venue.invoice(1)
    venue.pay(gap, DAY_RAW)
    await watchNano(venue.ctx)
    expect((await venue.read(lost)).credited_days).toBe(1)
    expect((await venue.read(gap)).credited_days).toBe(1)
    expect(await checkMoney(venue.ctx)).toEqual({ invoices: 3, payments: 3, settled: 3 })
  })

  it('is a hint and no payment: what it says of amounts is not believed, and of strangers not followed', async () => {
    const invoice = await venue.invoice(1)
    venue.node.resetCalls()
    const follow = createNanoHints(venue.ctx)
    await Promise.all([
      follow(invoice.address),
      follow(venue.wallet.treasury.address),
      follow(venue.node.genesis.address),
    ])
    expect(venue.node.calls('accounts_receivable')).toBe(1)
    expect(await payments()).toEqual([])
  })
})

describe('the pool', () => {
  it('gives accounts of the seed one after the other, and none while the treasury has a block that is not on record', async () => {
    const [first, second] = [await venue.invoice(1), await venue.invoice(1)]
    expect([first, second].map(({ address, address_index }) => [address, address_index])).toEqual(
      [0, 1]
        .map((place) => first.address_index + place)
        .map((index) => [venue.wallet.keys.deriveAccount(index).address, index]),
    )
    expect(first.address_index).toBeGreaterThan(0)
    expect(
      (await venue.ctx.coins.addresses.models.addresses.findOne({ coin: 'xno', index: 0 }).lean()) ??
        undefined,
    ).toBeUndefined()
    await venue.ctx.coins.addresses.models.addresses.updateMany(
      { state: 'free' },
      { $set: { state: 'taken' } },
    )
    await signAndPublish(venue, 0, { receive: venue.pay(venue.wallet.treasury, XNO), amountRaw: XNO })
    await fillNanoPool(venue.ctx)
    expect((await venue.ctx.coins.addresses.countFree('xno')).size).toBe(0)
    expect((await coin()).halted?.reason).toContain('which the database does not know')
    await expect(venue.invoice(1)).rejects.toMatchObject({ code: 'currency_not_configured' })
  })
})
