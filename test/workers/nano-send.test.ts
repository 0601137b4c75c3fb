import { describe, expect, it } from 'vitest'
import { runVerb } from '../support/run-verb.ts'
import { newId } from '../../shared/platform/ids.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { moveTransfer } from '../../shared/money/transfer-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import type { NanoContext } from '../../shared/money/coins/nano/nano-gateway.ts'
import { XNO, signAndPublish, strangerAddress, useNanoVenue, type NanoVenue } from '../support/nano-venue.ts'
import { sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { FULL, sampled } from '../support/full.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

const transfers = () =>
  venue.ctx.payouts.transfers.models.transfers
    .find({ kind: 'payout' })
    .sort({ _id: 1 })
    .lean<TransferRecord[]>()
const states = async (...payouts: PayoutRecord[]) =>
  Promise.all(payouts.map(async ({ _id }) => (await venue.payout(_id)).state))
const coin = () => venue.ctx.coins.findCoin('xno')
const fill = async (amountRaw: bigint) => {
  venue.pay(venue.wallet.treasury, amountRaw)
  await sweepNano(venue.ctx)
}
const pay = (...argv: string[]) => runVerb(venue.env, ['pay', ...argv])
/** What a payee has been sent. */
const arrived = (address: string) => venue.holds(address).receivableRaw

describe('payouts', () => {
  it.runIf(FULL)('is not sent for dust, though its payee is owed enough elsewhere', async () => {
    await fill(10n * XNO)
    const agent = await venue.addAgent()
    const [main, ...others] = Array.from({ length: 5 }, strangerAddress)
    const owed = await venue.owe(XNO / 100n, main ?? '', agent)
    const dust: PayoutRecord[] = []
    for (const address of others) dust.push(await venue.owe(XNO / 1_000_000n, address, agent))
    await sendNano(venue.ctx)
    expect((await venue.payout(owed._id)).state).toBe('confirmed')
    for (const { _id } of dust) expect(await venue.payout(_id)).toMatchObject({ state: 'owed' })
    // It goes out with more, or if the operator asks for it.
    await venue.owe(XNO / 100n, others[0] ?? '', agent)
    await venue.ctx.payouts.mark([dust[1]?._id ?? ''], 'asked_at', 1)
    await sendNano(venue.ctx)
    const states = await Promise.all(dust.map(async ({ _id }) => (await venue.payout(_id)).state))
    expect(states).toEqual(['confirmed', 'confirmed', 'owed', 'owed'])
  })

  // holds: rules.ledger.entry_kinds.payout
  it('go out to the last raw, those to one payee in one block, and end confirmed with their steps in the ledger', async () => {
    await fill(10n * XNO)
    const [alice, bob] = [strangerAddress(), strangerAddress()]
    const owed = [
      await venue.owe(3n * XNO, alice),
      await venue.owe(1n, alice),
      await venue.owe(2n * XNO, bob),
    ]
    await sendNano(venue.ctx)
    expect([arrived(alice), arrived(bob)]).toEqual([3n * XNO + 1n, 2n * XNO])
    expect(await states(...owed)).toEqual(['confirmed', 'confirmed', 'confirmed'])
    expect(
      (await transfers()).map(({ payout_ids: ids, state, amount_raw: raw }) => [ids.length, state, raw]),
    ).toEqual([
      [2, 'confirmed', String(3n * XNO + 1n)],
      [1, 'confirmed', String(2n * XNO)],
    ])
    const [first] = owed
    const { pending = [], tx } = await venue.payout(first?._id ?? '')
    expect(pending.map(({ data }) => data['step'])).toEqual(['owed', 'signed', 'sent', 'confirmed'])
    expect((await transfers()).map((transfer) => transfer.tx)).toContain(tx)
    expect(JSON.stringify(pending)).not.toContain(tx)
    venue.node.resetCalls()
    await sendNano(venue.ctx)
    expect(venue.node.calls('process')).toBe(0)
  })

  it.runIf(FULL)(
    'leave a line of the log for each of their steps, as payments, sweeps and entries do, with ids and no address',
    async () => {
      const invoice = await venue.invoice()
      const tx = venue.pay(invoice, XNO)
      await watchNano(venue.ctx)
      await sweepNano(venue.ctx)
      await fill(5n * XNO)
      const payee = strangerAddress()
      const owed = await venue.owe(3n * XNO, payee)
      await sendNano(venue.ctx)
      await sequencePending(venue.ctx)
      const lines = venue
        .logged()
        .split('\n')
        .filter((line) => line.includes('"money":'))
        .map((line) => JSON.parse(line) as Record<string, unknown>)
      const about = (field: string, id: string) =>
        lines
          .filter((line) => line[field] === id || (Array.isArray(line[field]) && line[field].includes(id)))
          .map(({ money, kind, state, step }) => [money, kind, state, step].filter(Boolean).join(' '))
      const [payment] = await venue.ctx.invoices.arrivals.models.payments
        .find({ invoice_id: invoice._id })
        .lean()
      expect(about('invoice_id', invoice._id)).toEqual(
        expect.arrayContaining(['invoice', 'payment seen', `payment ${payment?._id}/payment`]),
      )
      expect(about('payment_ids', payment?._id ?? '').toSorted()).toEqual(
        ['receive', 'sweep'].flatMap((kind) =>
          ['confirmed', 'sent', 'signed'].map((state) => `transfer ${kind} ${state}`),
        ),
      )
      expect(about('payout_ids', owed._id)).toEqual(
        ['signed', 'sent', 'confirmed'].map((state) => `transfer payout ${state}`),
      )
      const steps = about('payout_id', owed._id)
      for (const step of ['owed', 'signed', 'sent', 'confirmed'])
        expect(
          steps.filter((line) => line.startsWith('payout ') && line.includes(step)),
          step,
        ).toHaveLength(1)
      for (const line of lines) expect(line['level']).toBe(30)
      for (const secret of [payee, invoice.address, tx]) expect(JSON.stringify(lines)).not.toContain(secret)
    },
  )

  it('go out before the treasury takes in the next that was sent to it', async () => {
    await fill(3n * XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(2n * XNO, payee)
    for (let count = 0; count < 3; count++) venue.pay(venue.wallet.treasury, XNO)
    await sweepNano(venue.ctx)
    expect(await states(owed)).toEqual(['confirmed'])
    const all = await venue.ctx.payouts.transfers.models.transfers
      .find({})
      .sort({ _id: 1 })
      .lean<TransferRecord[]>()
    expect(all.map(({ kind }) => kind)).toEqual(['receive', 'payout', 'receive', 'receive', 'receive'])
  })

  it.runIf(FULL)(
    'go out in the same round where the node was asked just before another process had moved the treasury on',
    async () => {
      await fill(3n * XNO)
      const before = await venue.ctx.nano.rpc.accountInfo(venue.wallet.treasury.address)
      await fill(2n * XNO)
      const owed = await venue.owe(5n * XNO, strangerAddress())
      const { rpc } = venue.ctx.nano
      let asked = 0
      const accountInfo: typeof rpc.accountInfo = (address) =>
        asked++ === 0 ? Promise.resolve(before) : rpc.accountInfo(address)
      await sendNano({ ...venue.ctx, nano: { rpc: { ...rpc, accountInfo }, wallet: () => venue.wallet } })
      expect(await states(owed)).toEqual(['confirmed'])
      expect(venue.logged()).not.toContain('lacks blocks of ours')
    },
  )

  // holds: limits.smallest_payout, rules.market.statements.sums_owed_to_one_payee_in
  it('wait below the least sum, and go out together once they reach it', async () => {
    await fill(XNO)
    const payee = strangerAddress()
    const first = await venue.owe(XNO / 200n, payee)
    await sendNano(venue.ctx)
    expect(await states(first)).toEqual(['owed'])
    const second = await venue.owe(XNO / 200n, payee)
    await sendNano(venue.ctx)
    expect(await states(first, second)).toEqual(['confirmed', 'confirmed'])
    expect(arrived(payee)).toBe(XNO / 100n)
  })

  // holds: rules.market.statements.sums_owed_to_one_payee_in
  it.runIf(FULL)('of one payee reach the least sum together, however many blocks they take', async () => {
    await fill(XNO)
    const payee = strangerAddress()
    const amountRaw = XNO / 10_000n - 1n
    const owed = []
    for (let count = 0; count < 101; count++) owed.push(await venue.owe(amountRaw, payee))
    const other = await venue.owe(XNO / 200n, strangerAddress())
    await sendNano(venue.ctx)
    expect(new Set(await states(...owed))).toEqual(new Set(['confirmed']))
    expect([arrived(payee), await states(other)]).toEqual([101n * amountRaw, ['owed']])
  })

  // holds: contract.non_guarantees.no_code_forces_a_payout_the, limits.market_custody
  // holds: rules.market.statements.the_venue_holds_the_buyer_s
  it('that the treasury cannot pay wait and say so, while others go out; then they go too', async () => {
    await fill(2n * XNO)
    const [large, small] = [strangerAddress(), strangerAddress()]
    const [much, little] = [await venue.owe(5n * XNO, large), await venue.owe(XNO, small)]
    await sendNano(venue.ctx)
    await sendNano(venue.ctx)
    expect(await states(much, little)).toEqual(['owed', 'confirmed'])
    expect(await coin()).toMatchObject({ treasury_raw: String(XNO), treasury_short_raw: String(4n * XNO) })
    expect(venue.logged().split('the treasury cannot send the payouts that are due').length).toBe(2)
    await fill(4n * XNO)
    await sendNano(venue.ctx)
    expect(await states(much)).toEqual(['confirmed'])
    expect(arrived(large)).toBe(5n * XNO)
    expect(await coin()).toMatchObject({ treasury_raw: '0', treasury_short_raw: '0' })
  })

  it.runIf(FULL)(
    'that sum up to more than there is for one payee are paid as far as it goes, the oldest first',
    async () => {
      await fill(2n * XNO)
      const payee = strangerAddress()
      const owed = [await venue.owe(XNO, payee), await venue.owe(XNO, payee), await venue.owe(XNO, payee)]
      await sendNano(venue.ctx)
      expect([await states(...owed), arrived(payee)]).toEqual([['confirmed', 'confirmed', 'owed'], 2n * XNO])
      await fill(XNO)
      await sendNano(venue.ctx)
      expect([await states(...owed), arrived(payee)]).toEqual([
        ['confirmed', 'confirmed', 'confirmed'],
        3n * XNO,
      ])
    },
  )

  it('to several payees go out as one run of blocks, each built on the one before, that waits for the network once', async () => {
    await fill(10n * XNO)
    const payees = Array.from({ length: 10 }, strangerAddress)
    for (const payee of payees) await venue.owe(XNO, payee)
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    const run = await transfers()
    expect(run.map(({ state }) => state)).toEqual(Array.from({ length: 8 }, () => 'sent'))
    expect(run.slice(1).map(({ previous }) => previous)).toEqual(run.slice(0, -1).map(({ tx }) => tx))
    // The network has all of the run but its last.
    venue.node.confirm((run[6]?.tx ?? '').toUpperCase())
    await sendNano(venue.ctx)
    expect((await transfers()).map(({ state }) => state)).toEqual([
      ...Array.from({ length: 7 }, () => 'confirmed'),
      'sent',
    ])
    venue.node.setAutoConfirm(1)
    venue.node.confirm((run[7]?.tx ?? '').toUpperCase())
    await sendNano(venue.ctx)
    expect((await transfers()).map(({ state }) => state)).toEqual(
      Array.from({ length: 10 }, () => 'confirmed'),
    )
    expect(payees.map(arrived)).toEqual(payees.map(() => XNO))
  })

  it.runIf(FULL)(
    'of a run go out as far as there is work for them, and the others as soon as there is',
    async () => {
      await fill(10n * XNO)
      const payees = Array.from({ length: 4 }, strangerAddress)
      for (const payee of payees) await venue.owe(XNO, payee)
      let searches = 0
      venue.node.lie(({ action }) =>
        action === 'work_generate' && ++searches > 2 ? '{"error": "Work generation failure"}' : undefined,
      )
      await expect(sendNano(venue.ctx)).resolves.toBeUndefined()
      expect(payees.map(arrived).filter((raw) => raw === XNO)).toHaveLength(2)
      venue.node.lie(null)
      await sendNano(venue.ctx)
      expect(payees.map(arrived)).toEqual(payees.map(() => XNO))
    },
  )

  it.runIf(FULL)(
    'of a run that the network loses from its middle on are published once more, each the same block',
    async () => {
      await fill(10n * XNO)
      const payees = Array.from({ length: 4 }, strangerAddress)
      for (const payee of payees) await venue.owe(XNO, payee)
      venue.node.setAutoConfirm(null)
      await sendNano(venue.ctx)
      const run = await transfers()
      venue.node.confirm((run[0]?.tx ?? '').toUpperCase())
      expect(venue.node.rollback((run[1]?.tx ?? '').toUpperCase())).toHaveLength(3)
      venue.node.setAutoConfirm(1)
      await sendNano(venue.ctx)
      expect(payees.map(arrived)).toEqual(payees.map(() => XNO))
      expect((await transfers()).map(({ tx, state }) => [tx, state])).toEqual(
        run.map(({ tx }) => [tx, 'confirmed']),
      )
    },
  )

  it.runIf(FULL)('to a treasury that has no block yet wait', async () => {
    const owed = await venue.owe(XNO, strangerAddress())
    await sendNano(venue.ctx)
    expect([await states(owed), (await coin())?.treasury_short_raw]).toEqual([['owed'], String(XNO)])
  })

  it('that name no address, or are frozen, stay; so does one that names no account', async () => {
    await fill(XNO)
    const [frozen, nameless, rubbish] = [
      await venue.owe(XNO / 10n, strangerAddress()),
      await venue.owe(XNO / 10n, strangerAddress()),
      await venue.owe(XNO / 10n, 'nano_1rubbish'),
    ]
    const { payouts } = venue.ctx.payouts.models
    await payouts.updateOne({ _id: frozen._id }, { $set: { frozen: true } })
    await payouts.updateOne({ _id: nameless._id }, { $unset: { address: 1 } })
    await sendNano(venue.ctx)
    expect(await states(frozen, nameless, rubbish)).toEqual(['owed', 'owed', 'owed'])
    expect(await transfers()).toEqual([])
  })

  it('that are frozen while their block is being made are not in it: the block is dropped, and a later one goes out', async () => {
    await fill(XNO)
    const payee = strangerAddress()
    const [one, two] = [await venue.owe(XNO / 10n, payee), await venue.owe(XNO / 10n, payee)]
    const freeze = () =>
      venue.ctx.payouts.models.payouts.updateOne({ _id: one._id }, { $set: { frozen: true } }).exec()
    await sendNano(beforeStoring(venue.ctx, freeze))
    expect(await states(one, two)).toEqual(['owed', 'owed'])
    expect(await transfers()).toEqual([])
    await sendNano(venue.ctx)
    expect(await states(one, two)).toEqual(['owed', 'confirmed'])
    expect(arrived(payee)).toBe(XNO / 10n)
  })

  it('that are paid by hand while their block is being made are not in it: the block is dropped, and nothing is sent', async () => {
    await fill(XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(XNO / 10n, payee)
    await sendNano(beforeStoring(venue.ctx, () => markPaidByHand(venue.ctx, owed._id, 'ab'.repeat(32))))
    await sendNano(venue.ctx)
    expect([await states(owed), await transfers(), arrived(payee)]).toEqual([['manual'], [], 0n])
  })

  it.each(
    sampled([
      ['is taken back', undefined],
      ['is another one', strangerAddress()],
    ]),
  )(
    'whose address %s while their block is being made are not in it: nothing is sent to the one before',
    async (_, address) => {
      await fill(XNO)
      const before = strangerAddress()
      const owed = await venue.owe(XNO / 10n, before)
      const { payouts } = venue.ctx.payouts.models
      const change = address === undefined ? { $unset: { address: 1 } } : { $set: { address } }
      await sendNano(beforeStoring(venue.ctx, () => payouts.updateOne({ _id: owed._id }, change).exec()))
      await sendNano(venue.ctx)
      expect(arrived(before)).toBe(0n)
      expect(await states(owed)).toEqual([address === undefined ? 'owed' : 'confirmed'])
      if (address !== undefined) expect(arrived(address)).toBe(XNO / 10n)
    },
  )

  // holds: contract.non_guarantees.no_code_forces_a_payout_the, limits.market_custody
  // holds: rules.market.statements.the_venue_holds_the_buyer_s
  it('are not signed with PAYOUTS=manual; one under way is seen to its end', async () => {
    await fill(XNO)
    const owed = await venue.owe(XNO / 10n, strangerAddress())
    const manual: NanoContext = { ...venue.ctx, config: { ...venue.ctx.config, payouts: 'manual' } }
    await sendNano(manual)
    expect(await states(owed)).toEqual(['owed'])
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    expect(await states(owed)).toEqual(['sent'])
    const [transfer] = await transfers()
    venue.node.confirm((transfer?.tx ?? '').toUpperCase())
    await sendNano(manual)
    expect(await states(owed)).toEqual(['confirmed'])
  })

  it('with PAYOUTS=manual go out by the same round once the operator asked for them, with "pay", and no others do', async () => {
    await fill(10n * XNO)
    const manual = { ...venue.ctx, config: { ...venue.ctx.config, payouts: 'manual' as const } }
    const [alice, bob] = [strangerAddress(), strangerAddress()]
    const [small, other, large] = [
      await venue.owe(1n, alice),
      await venue.owe(2n * XNO, bob),
      await venue.owe(XNO, alice),
    ]
    await sendNano(manual)
    expect(await states(small, other, large)).toEqual(['owed', 'owed', 'owed'])
    expect((await pay(alice.replace('nano_', 'xrb_'), '--dry-run')).json).toMatchObject({
      payouts: 2,
      xno: '1.000000000000000000000000000001',
    })
    await sendNano(manual)
    expect((await pay(alice)).exitCode).toBe(0)
    await sendNano(manual)
    expect([arrived(alice), arrived(bob)]).toEqual([XNO + 1n, 0n])
    expect(await states(small, other, large)).toEqual(['confirmed', 'owed', 'confirmed'])
    expect((await pay(alice)).json).toMatchObject({ error: 'no_such_record' })
    expect((await pay(other.agent_id)).exitCode).toBe(0)
    const late = await venue.owe(XNO, strangerAddress())
    expect((await pay('--all')).json).toMatchObject({ payouts: 2 })
    await sendNano(manual)
    expect(await states(other, late)).toEqual(['confirmed', 'confirmed'])
  })

  it.runIf(FULL)(
    'of one agent reach the least sum together over all of its addresses, each address in a block of its own',
    async () => {
      await fill(XNO)
      const [one, two] = [strangerAddress(), strangerAddress()]
      const agent = newId('agent')
      const owed = [await venue.owe(XNO / 125n, one, agent)]
      await sendNano(venue.ctx)
      expect(arrived(one)).toBe(0n)
      owed.push(await venue.owe(XNO / 125n, two, agent))
      await sendNano(venue.ctx)
      expect([arrived(one), arrived(two)]).toEqual([XNO / 125n, XNO / 125n])
      expect(await states(...owed)).toEqual(['confirmed', 'confirmed'])
    },
  )

  it.runIf(FULL)(
    'that were due together all go out, and a rest that is below the least sum is not left behind',
    async () => {
      await fill(2n * XNO)
      const payee = strangerAddress()
      const owed = [await venue.owe(2n * XNO, payee), await venue.owe(1n, payee)]
      await sendNano(venue.ctx)
      expect(await states(...owed)).toEqual(['confirmed', 'owed'])
      await fill(XNO)
      await sendNano(venue.ctx)
      expect(await states(...owed)).toEqual(['confirmed', 'confirmed'])
    },
  )

  it("to an address of the venue's own, as it may be on record, stay owed, which is said once, and hold up no other", async () => {
    await fill(10n * XNO)
    const own = (await venue.invoice()).address
    const stranger = strangerAddress()
    const owed = [
      await venue.owe(XNO, own),
      await venue.owe(XNO, own.replace('nano_', 'xrb_')),
      await venue.owe(XNO, venue.wallet.treasury.address),
    ]
    const other = await venue.owe(XNO, stranger)
    for (let round = 0; round < 3; round++) await sendNano(venue.ctx)
    expect(await states(...owed, other)).toEqual(['owed', 'owed', 'owed', 'confirmed'])
    expect(venue.logged().match(/name an address of the venue's own/g)).toHaveLength(3)
    expect((await venue.payout(owed[0]?._id ?? '')).to_self).toBe(true)
    expect(await venue.ctx.payouts.countKeptBack('xno', [])).toEqual({
      waitsForChain: 0,
      toSelf: owed.length,
    })
    expect(await venue.read(await venue.invoice())).toMatchObject({ received_raw: '0' })
  })

  it.runIf(FULL)('go out while sweeps come in, one block of the treasury at a time', async () => {
    await fill(XNO)
    const payees = Array.from({ length: 5 }, strangerAddress)
    for (const payee of payees) await venue.owe(XNO / 10n, payee)
    for (let count = 0; count < 5; count++) venue.pay(venue.wallet.treasury, XNO)
    await Promise.all([sendNano(venue.ctx), sweepNano(venue.ctx), sendNano(venue.ctx), sweepNano(venue.ctx)])
    expect(payees.map(arrived)).toEqual(payees.map(() => XNO / 10n))
    expect(venue.holds(venue.wallet.treasury.address)).toEqual({
      balanceRaw: 6n * XNO - XNO / 2n,
      receivableRaw: 0n,
    })
  })
})

/** A context in which something happens between the signing of a block and its storing. */
function beforeStoring(ctx: NanoContext, happens: () => Promise<unknown>): NanoContext {
  return {
    ...ctx,
    database: {
      ...ctx.database,
      async transaction(work) {
        await happens()
        return ctx.database.transaction(work)
      },
    },
  }
}

describe('an outcome that is not known', () => {
  it.each(
    sampled([
      [
        'the answer was lost',
        () => venue.node.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 5 } : undefined)),
      ],
      [
        'the answer is another hash',
        () =>
          venue.node.lie(({ action }) =>
            action === 'process' ? `{"hash": "${'AB'.repeat(32)}"}` : undefined,
          ),
      ],
      [
        'the answer is the one to a second publication',
        () =>
          venue.node.lie(({ action }) =>
            action === 'process' ? '{"error": "Invalid block balance for given subtype"}' : undefined,
          ),
      ],
      [
        'the node fell silent',
        () => venue.node.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 0 } : undefined)),
      ],
    ]),
  )('because %s: one transfer, and the payee has its money once', async (_, begin) => {
    await fill(XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(XNO / 2n, payee)
    begin()
    for (let round = 0; round < 3; round++) await sendNano(venue.ctx)
    venue.node.lie(null)
    for (let round = 0; round < 2; round++) await sendNano(venue.ctx)
    expect(arrived(payee)).toBe(XNO / 2n)
    expect(await states(owed)).toEqual(['confirmed'])
    expect(await transfers()).toHaveLength(1)
  })

  it.runIf(FULL)('for as long as it lasts stays sent, and nothing else is signed', async () => {
    await fill(XNO)
    const [payee, other] = [strangerAddress(), strangerAddress()]
    const owed = await venue.owe(XNO / 2n, payee)
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    const later = await venue.owe(XNO / 4n, other)
    const [transfer] = await transfers()
    // Each waits 5 s for the network.
    for (let round = 0; round < (FULL ? 2 : 1); round++) {
      venue.node.rollback((transfer?.tx ?? '').toUpperCase())
      await sendNano(venue.ctx)
      expect(await states(owed, later)).toEqual(['sent', 'owed'])
    }
    venue.node.setAutoConfirm(1)
    venue.node.confirm((transfer?.tx ?? '').toUpperCase())
    await sendNano(venue.ctx)
    expect(await states(owed, later)).toEqual(['confirmed', 'confirmed'])
    expect([arrived(payee), arrived(other)]).toEqual([XNO / 2n, XNO / 4n])
  })

  it.runIf(FULL)('that is held is offered again, and is sent as soon as the node takes it', async () => {
    await fill(XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(XNO / 2n, payee)
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    const [transfer] = await transfers()
    if (transfer === undefined) throw new Error('no transfer was stored')
    venue.node.rollback(transfer.tx.toUpperCase())
    await moveTransfer(venue.ctx, transfer, 'held', 'for this test')
    await sendNano(venue.ctx)
    expect(await states(owed)).toEqual(['sent'])
    venue.node.confirm(transfer.tx.toUpperCase())
    await sendNano(venue.ctx)
    expect(await states(owed)).toEqual(['confirmed'])
    expect(arrived(payee)).toBe(XNO / 2n)
  })
})

describe('a treasury whose chain the database does not know', () => {
  it('pays nobody', async () => {
    await fill(XNO)
    await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: XNO / 10n })
    const payee = strangerAddress()
    const owed = await venue.owe(XNO / 2n, payee)
    await sendNano(venue.ctx)
    expect([await states(owed), arrived(payee)]).toEqual([['owed'], 0n])
    expect((await coin())?.halted?.reason).toContain('the last block of the treasury')
  })
})
