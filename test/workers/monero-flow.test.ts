import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { MONERO_ERROR } from '../../shared/money/coins/monero/monero-wallet.ts'
import { NodeRefused } from '../../shared/money/node-errors.ts'
import { FULL, sampled } from '../support/full.ts'
import { expectConfirmed } from '../support/monero-crashes.ts'
import { checkMonero, reconcileMonero, sendMonero } from '../support/monero-jobs.ts'
import { moneroPayouts } from '../support/monero-payouts.ts'
import { checkBooksAfterEach, checkMoney } from '../support/money.ts'
import {
  CONFIRMATIONS,
  DAY_PICO,
  MONERO_QUEUES,
  moneroChain,
  openMoneroVenue,
  UNLOCK_BLOCKS,
  XMR,
  type Invoiced,
  type InvoiceJson,
  type MoneroPayee,
  type MoneroVenue,
} from '../support/monero-venue.ts'
import { PATIENCE_MS } from '../support/patience.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

// Blocks are mined, and programs ended and started, by the dozen.
vi.setConfig({ testTimeout: 240_000 })

let venue: MoneroVenue
beforeAll(async () => {
  // Payouts are sent when a test says so.
  venue = await openMoneroVenue({ queues: MONERO_QUEUES.filter((name) => name !== 'send-monero') })
})
checkBooksAfterEach(
  () => venue?.ctx,
  () => moneroChain(venue),
)
afterAll(() => venue?.stop())
// Every piconero that arrived is accounted for after each of them.
afterEach(async () => void (await checkMoney(venue.ctx)))

const isSettled = ({ status }: InvoiceJson): boolean => status === 'settled'
const statesOf = ({ payments }: InvoiceJson): string[] => payments.map(({ state }) => state)

describe('an invoice in Monero', () => {
  // holds: limits.confirmations
  it('is seen in the pool, and settled with its confirmations: the pass runs a day', async () => {
    const invoice = await venue.invoice(1)
    expect(invoice.amountPico).toBe(DAY_PICO)
    const tx = await venue.pay(invoice, DAY_PICO)
    const seen = await venue.until(invoice, 'the payment', ({ payments }) => payments.length > 0)
    expect(seen).toMatchObject({
      status: 'confirming',
      chain: 'reachable',
      confirmations: 0,
      required_confirmations: CONFIRMATIONS,
      paid_raw: '0',
    })
    // One block: a look that began before it may note its older news after those of the block.
    await venue.mine(1)
    const mined = await venue.until(invoice, 'its block', ({ confirmations }) => confirmations > 0)
    expect(mined).toMatchObject({ status: 'confirming', confirmations: 1, credited_days: 0 })
    const settled = await venue.mineUntil(invoice, 'its settlement', isSettled)
    expect(settled).toMatchObject({
      credited_days: 1,
      paid_raw: String(DAY_PICO),
      payments: [{ tx_hash: tx, state: 'settled', late: false }],
    })
    expect(Date.parse(String(settled.pass_until))).toBeGreaterThan(venue.ctx.now() + DAY_MS - 60_000)
  })

  // holds: rules.pass.payment_states.gone
  it('whose payment the pool has lost stays open for five blocks, and awaits payment then', async () => {
    const invoice = await venue.invoice(1)
    await venue.pay(invoice, DAY_PICO)
    await venue.nextRound()
    expect(await venue.check(invoice)).toMatchObject({ status: 'confirming', payments: [{ state: 'seen' }] })
    await venue.regtest.flushTxpool()
    const isMissed = async () => {
      await venue.nextRound()
      return (await venue.ctx.invoices.arrivals.listPayments(invoice.id))[0]?.missing_since
    }
    await waitFor('a round that misses it', isMissed, { limitMs: PATIENCE_MS })
    await venue.generate(4)
    await venue.nextRound()
    expect(await venue.check(invoice)).toMatchObject({ status: 'confirming', payments: [{ state: 'seen' }] })
    await venue.generate(1)
    await venue.nextRound()
    expect(await venue.check(invoice)).toMatchObject({
      status: 'awaiting_payment',
      payments: [{ state: 'gone' }],
    })
  })

  it.runIf(FULL)('is paid in two parts, credited once the second is confirmed', async () => {
    const invoice = await venue.invoice(2)
    await venue.pay(invoice, DAY_PICO)
    const part = await venue.mineUntil(invoice, 'the first part', ({ paid_raw: paid }) => paid !== '0')
    expect(part).toMatchObject({ status: 'underpaid', credited_days: 0, paid_raw: String(DAY_PICO) })
    await venue.pay(invoice, DAY_PICO)
    expect(await venue.mineUntil(invoice, 'its settlement', isSettled)).toMatchObject({
      credited_days: 2,
      remainder_raw: '0',
    })
  })

  it.runIf(FULL)('is one of two that one transaction pays, one of them twice', async () => {
    const [one, other] = [await venue.invoice(3), await venue.invoice(1)]
    const tx = await venue.regtest.payer.pay([
      { address: one.address, amountPico: DAY_PICO },
      { address: other.address, amountPico: DAY_PICO },
      { address: one.address, amountPico: 2n * DAY_PICO },
    ])
    const payment = { tx_hash: tx, state: 'settled' }
    expect(await venue.mineUntil(one, 'its settlement', isSettled)).toMatchObject({
      credited_days: 3,
      payments: [{ ...payment, amount_raw: String(3n * DAY_PICO) }],
    })
    expect(await venue.until(other, 'its settlement', isSettled)).toMatchObject({
      credited_days: 1,
      payments: [payment],
    })
  })

  it.runIf(FULL)(
    'is paid twice, which buys twice the days; what is below a day counts towards the next',
    async () => {
      const invoice = await venue.invoice(1)
      await venue.pay(invoice, DAY_PICO)
      await venue.pay(invoice, DAY_PICO + DAY_PICO / 4n)
      const both = await venue.mineUntil(
        invoice,
        'both',
        ({ payments }) => payments.filter(({ state }) => state === 'settled').length === 2,
      )
      expect(both).toMatchObject({
        status: 'settled',
        credited_days: 2,
        remainder_raw: String(DAY_PICO / 4n),
      })
    },
  )

  it.runIf(FULL)('is settled once although 200 callers check it while the worker looks', async () => {
    const invoice = await venue.invoice(1)
    await venue.pay(invoice, DAY_PICO)
    await venue.regtest.generate(CONFIRMATIONS + 1)
    const answers = await Promise.all(Array.from({ length: 200 }, () => venue.check(invoice)))
    expect(answers).toHaveLength(200)
    expect(await venue.until(invoice, 'its settlement', isSettled)).toMatchObject({ credited_days: 1 })
    await venue.nextRound()
    expect(await venue.check(invoice)).toMatchObject({ credited_days: 1, payments: [{ state: 'settled' }] })
  })
})

describe('a payout in Monero', () => {
  const { send, coin, stateOf, transferOf, withWallet, withoutRelay } = moneroPayouts(() => venue)
  let payee: MoneroPayee
  beforeAll(async () => {
    payee = await venue.openPayee()
    await venue.fund(6, 2n * XMR)
  })
  /** Mines what makes the transaction under way final, though the first block may lack it; sends what waited. */
  const confirm = async () => {
    await venue.generate(UNLOCK_BLOCKS)
    await send()
  }

  it('stays owed while the wallet cannot sign, asks a fee above MAX_FEE_XMR, or has too little, and each is said', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 500n, address)
    const { wallet } = venue.ctx.monero
    const refusing = (reason: string, code: number) =>
      withWallet({ prepareTransfer: () => Promise.reject(new NodeRefused('transfer', reason, code)) })
    await sendMonero(refusing('command not supported by watch-only wallet', MONERO_ERROR.watchOnly))
    expect([await stateOf(owed), (await coin())?.problems?.wallet]).toEqual([
      'owed',
      expect.stringContaining('watch-only'),
    ])
    const dear = withWallet({
      prepareTransfer: async (to) => ({ ...(await wallet.prepareTransfer(to)), feePico: XMR }),
    })
    await sendMonero(dear)
    expect([await stateOf(owed), (await coin())?.fee_high]).toEqual([
      'owed',
      expect.objectContaining({ fee_raw: String(XMR), sum_raw: String(XMR / 500n) }),
    ])
    await sendMonero(refusing('not enough money', MONERO_ERROR.notEnoughMoney))
    expect([await stateOf(owed), (await coin())?.fee_high]).toEqual(['owed', undefined])
    // A payee for whom it does not sign stops nobody else.
    const other = await payee.address()
    const next = await venue.owe(XMR / 400n, other)
    await sendMonero(
      withWallet({
        prepareTransfer: (to) =>
          to.some((one) => one.address === address)
            ? Promise.reject(new NodeRefused('transfer', 'no', MONERO_ERROR.wrongAddress))
            : wallet.prepareTransfer(to),
      }),
    )
    expect([await stateOf(owed), await stateOf(next)]).toEqual(['owed', 'sent'])
    await confirm()
    expect((await coin())?.problems?.wallet).toBeUndefined()
    await expectConfirmed(venue, next)
    expect([await payee.arrived(address), await payee.arrived(other)]).toEqual([[XMR / 500n], [XMR / 400n]])
    await confirm()
    await expectConfirmed(venue, owed)
  })

  it.runIf(FULL)(
    'and whose money was spent by hand stops the coin until a reconciliation is certain of that, and is paid once',
    async () => {
      const address = await payee.address()
      const owed = await venue.owe(XMR / 25n, address)
      await expect(sendMonero(withoutRelay())).rejects.toThrow('the process ended here')
      const before = await transferOf(owed)
      const [image] = (JSON.parse(before.signed) as { keyImages: string[] }).keyImages
      await venue.wallet.call('sweep_single', { address: venue.wallet.address, key_image: image })
      await send()
      expect((await coin())?.halted?.reason).toContain('which the database does not know')
      await expect(reconcileMonero(venue.ctx)).rejects.toThrow('reconcile again once it is')
      expect(await stateOf(owed)).toBe('signed')
      await venue.generate(UNLOCK_BLOCKS)
      await reconcileMonero(venue.ctx)
      expect([(await coin())?.halted, await stateOf(owed)]).toEqual([undefined, 'owed'])
      expect((await venue.ctx.payouts.transfers.find(before._id))?.state).toBe('replaced')
      await send()
      await confirm()
      expect(await payee.arrived(address)).toEqual([XMR / 25n])
      expect((await transferOf(owed)).tx).not.toBe(before.tx)
    },
  )
})

describe('a look because somebody asked', () => {
  it.runIf(FULL)('is shared by those that ask at once', async () => {
    let looks = 0
    const { wallet } = venue.ctx.monero
    const counting = {
      ...wallet,
      listIncoming: (options: { sinceHeight: number }) => ((looks += 1), wallet.listIncoming(options)),
    }
    const ctx = { ...venue.ctx, monero: { ...venue.ctx.monero, wallet: counting } }
    const { id } = await venue.invoice(1)
    await Promise.all(Array.from({ length: 60 }, () => checkMonero(ctx, { invoice_id: id })))
    expect(looks).toBeGreaterThan(0)
    expect(looks).toBeLessThan(5)
  })
})

describe('money that its payer locked', () => {
  // holds: rules.pass.payment_states.locked
  it.runIf(FULL)(
    'counts for nothing and holds nothing open before the lock ends, and is counted then',
    async () => {
      const invoice = await venue.invoice(1)
      const unlockTime = (await venue.regtest.height()) + CONFIRMATIONS + 3
      const far = Number.MAX_SAFE_INTEGER
      await venue.pay(invoice, DAY_PICO, { unlockTime })
      await venue.pay(invoice, DAY_PICO, { unlockTime: far })
      const locked = await venue.until(invoice, 'both', ({ payments }) => payments.length === 2)
      expect(locked.payments.map(({ state, unlock_time }) => [state, unlock_time]).sort()).toEqual(
        [
          ['locked', unlockTime],
          ['locked', far],
        ].sort(),
      )
      expect(locked.status).toBe('awaiting_payment')
      await venue.generate(unlockTime - 1 - (await venue.regtest.height()))
      await venue.nextRound()
      expect(await venue.check(invoice)).toMatchObject({ status: 'awaiting_payment', paid_raw: '0' })
      await venue.regtest.generate(1)
      const settled = await venue.until(invoice, 'the end of the lock', isSettled)
      expect(statesOf(settled).sort()).toEqual(['locked', 'settled'])
      expect(settled).toMatchObject({ credited_days: 1, paid_raw: String(DAY_PICO) })
    },
  )
})

describe('a chain that turns back', () => {
  /**
   * Takes the block of an invoice's one payment away, and all after it, and mines one more than those without
   * it. @returns what puts it back
   */
  async function reorganise({ id }: Invoiced): Promise<() => Promise<void>> {
    const [payment] = await venue.ctx.invoices.arrivals.listPayments(id)
    const blocks = (await venue.regtest.height()) - (payment?.height as number)
    await venue.regtest.popBlocks(blocks)
    const putBack = await venue.regtest.withhold(payment?.tx as string)
    await venue.generate(blocks + 1)
    return putBack
  }

  /**
   * A block that the wallet has, and a round after it: whatever goes by the chain's height has been seen to
   * then.
   */
  async function mineLast(): Promise<void> {
    await venue.generate(1)
    await venue.nextRound()
  }

  it.runIf(FULL)(
    'and has an unconfirmed payment in a later block changes nothing but when it is settled',
    async () => {
      const invoice = await venue.invoice(1)
      const tx = await venue.pay(invoice, DAY_PICO)
      await venue.mine(1)
      const { payments } = await venue.until(invoice, 'its block', ({ confirmations }) => confirmations === 1)
      expect(payments).toMatchObject([{ state: 'seen' }])
      const before = await venue.ctx.invoices.arrivals.listPayments(invoice.id)
      const putBack = await reorganise(invoice)
      await venue.nextRound()
      // Nowhere to be found, and not given up yet.
      expect(await venue.check(invoice)).toMatchObject({
        status: 'confirming',
        payments: [{ state: 'seen' }],
      })
      await putBack()
      expect(await venue.mineUntil(invoice, 'its settlement', isSettled)).toMatchObject({
        credited_days: 1,
        payments: [{ tx_hash: tx }],
      })
      const [after] = await venue.ctx.invoices.arrivals.listPayments(invoice.id)
      expect(after?._id).toBe(before[0]?._id)
      expect(after?.height).toBeGreaterThan(before[0]?.height as number)
    },
  )

  // holds: rules.pass.payment_states.gone
  it.runIf(FULL)(
    'and does not have it any more: it is gone after five blocks, and counts if it comes back',
    async () => {
      const invoice = await venue.invoice(1)
      await venue.pay(invoice, DAY_PICO)
      await venue.mine(1)
      await venue.until(invoice, 'its block', ({ confirmations }) => confirmations === 1)
      const putBack = await reorganise(invoice)
      await venue.nextRound()
      await venue.mine(3)
      expect(statesOf(await venue.check(invoice))).toEqual(['seen'])
      await venue.mine(1)
      await mineLast()
      expect(await venue.check(invoice)).toMatchObject({
        status: 'awaiting_payment',
        payments: [{ state: 'gone' }],
      })
      await putBack()
      expect(await venue.mineUntil(invoice, 'its settlement', isSettled)).toMatchObject({ credited_days: 1 })
    },
  )

  it.runIf(FULL)(
    'and took back what was settled: the pass stands, it is on record as taken back, and as returned when it is',
    async () => {
      const invoice = await venue.invoice(1)
      await venue.pay(invoice, DAY_PICO)
      const { pass_until: passUntil } = await venue.mineUntil(invoice, 'its settlement', isSettled)
      const reversedAt = async () =>
        (await venue.ctx.invoices.arrivals.listPayments(invoice.id))[0]?.reversed_at
      const putBack = await reorganise(invoice)
      await venue.nextRound()
      expect(await reversedAt()).toBeUndefined()
      await venue.mine(4)
      await mineLast()
      expect(await reversedAt()).toBeTypeOf('number')
      expect(await venue.check(invoice)).toMatchObject({
        status: 'settled',
        credited_days: 1,
        pass_until: passUntil,
      })
      await putBack()
      await venue.mine(CONFIRMATIONS)
      await mineLast()
      expect(await reversedAt()).toBeUndefined()
      expect(await venue.check(invoice)).toMatchObject({
        status: 'settled',
        credited_days: 1,
        pass_until: passUntil,
      })
    },
  )

  it.runIf(FULL)('and has what was settled in another block is no loss', async () => {
    const invoice = await venue.invoice(1)
    await venue.pay(invoice, DAY_PICO)
    await venue.mineUntil(invoice, 'its settlement', isSettled)
    const [before] = await venue.ctx.invoices.arrivals.listPayments(invoice.id)
    const putBack = await reorganise(invoice)
    await putBack()
    await venue.mine(5)
    await mineLast()
    const [after] = await venue.ctx.invoices.arrivals.listPayments(invoice.id)
    expect(after?.height).toBeGreaterThan(before?.height as number)
    expect(after?.reversed_at).toBeUndefined()
    expect(venue.service.logged()).not.toContain(
      `"payment_id":"${after?._id}","coin":"xmr","msg":"the chain took back`,
    )
  })
})

describe('a wallet or daemon that is down', () => {
  it.each(sampled(['monerod', 'monero-wallet-rpc']))('makes nothing expire: %s', async (which) => {
    const program = which === 'monerod' ? venue.regtest : venue.wallet
    const invoice = await venue.invoice(1)
    await program.setDown(true)
    const { checked_at: checkedAt } = await venue.until(
      invoice,
      'no news',
      ({ chain }) => chain === 'unreachable',
    )
    expect(checkedAt).toBeTypeOf('number')
    const days = await countDays()
    await venue.advance(2 * HOUR_MS)
    await venue.nextRound()
    expect(await venue.check(invoice)).toMatchObject({ status: 'awaiting_payment', chain: 'unreachable' })
    const refused = await venue.service.call('POST', '/invoice', {
      token: (await venue.service.register()).token,
      body: { currency: 'xmr' },
    })
    expect(refused).toMatchObject({ status: 503, json: { error: 'currency_not_configured' } })
    await program.setDown(false)
    expect(await venue.until(invoice, 'its end', ({ status }) => status === 'expired')).toMatchObject({
      chain: 'reachable',
    })
    expect(await countDays()).toBe(days)
  })

  const countDays = async (): Promise<number> =>
    (await venue.ctx.invoices.models.invoices.find({}).lean()).reduce(
      (sum, { credited_days: days }) => sum + days,
      0,
    )

  it.runIf(FULL)('is back, and finds what was paid meanwhile, before anything expires', async () => {
    const invoice = await venue.invoice(1)
    await venue.wallet.setDown(true)
    await venue.until(invoice, 'no news', ({ chain }) => chain === 'unreachable')
    await venue.pay(invoice, DAY_PICO)
    await venue.regtest.generate(CONFIRMATIONS)
    await venue.advance(2 * HOUR_MS)
    await venue.wallet.setDown(false)
    expect(await venue.mineUntil(invoice, 'its settlement', isSettled)).toMatchObject({
      credited_days: 1,
      payments: [{ late: false }],
    })
  })
})

describe('an invoice whose time is over', () => {
  it.runIf(FULL)('expires, and what comes later is late, and buys days', async () => {
    const invoice = await venue.invoice(2)
    await venue.pay(invoice, DAY_PICO)
    await venue.mineUntil(invoice, 'the part', ({ paid_raw: paid }) => paid !== '0')
    await venue.advance(2 * HOUR_MS)
    expect(await venue.until(invoice, 'its end', ({ status }) => status === 'expired')).toMatchObject({
      credited_days: 1,
    })
    await venue.pay(invoice, DAY_PICO + 1n)
    const late = await venue.mineUntil(invoice, 'the rest', isSettled)
    expect(late).toMatchObject({
      credited_days: 2,
      payments: [{ late: false }, { late: true, state: 'settled' }],
    })
    // Below a day and above a piconero: days × received − credited × amount, in parts of the smallest unit.
    expect(BigInt(late.remainder_raw)).toBe(1n)
    expect(late.paid_raw).toBe(String(2n * DAY_PICO + 1n))
  })

  it.runIf(FULL)('takes no notice of dust', async () => {
    const invoice = await venue.invoice(1)
    await venue.regtest.payer.pay([
      { address: invoice.address, amountPico: 9_999n },
      { address: (await venue.invoice(1)).address, amountPico: XMR / 2n },
    ])
    await venue.regtest.generate(CONFIRMATIONS)
    await venue.nextRound()
    expect(await venue.check(invoice)).toMatchObject({ status: 'awaiting_payment', payments: [] })
  })
})
