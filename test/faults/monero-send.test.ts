import { beforeAll, describe, expect, it, vi } from 'vitest'
import { coinFindings } from '../../shared/operation/coin-findings.ts'
import { readIndexFile } from '../../shared/money/address-index.ts'
import { REORG_BLOCKS } from '../../shared/money/coins/monero/monero-chain.ts'
import {
  createMoneroWallet,
  MAX_AMOUNT_PICO,
  MAX_DESTINATIONS,
  MONERO_ERROR,
  type MoneroDestination,
} from '../../shared/money/coins/monero/monero-wallet.ts'
import { NodeRefused } from '../../shared/money/node-errors.ts'
import { markPaidByHand, oweAgain } from '../../shared/money/payout-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { disown } from '../support/coins.ts'
import { fillMonero, reconcileMonero, sendMonero, watchMonero } from '../support/monero-jobs.ts'
import { takeBackup } from '../support/ledger.ts'
import { confirmPayouts, crashAt, expectConfirmed, type CrashPoint } from '../support/monero-crashes.ts'
import { openMoneroPayouts } from '../support/monero-payouts.ts'
import {
  CONFIRMATIONS,
  DAY_PICO,
  UNLOCK_BLOCKS,
  XMR,
  type MoneroPayee,
  type MoneroVenue,
} from '../support/monero-venue.ts'

// Blocks are mined, and programs ended and started, by the dozen.
vi.setConfig({ testTimeout: 240_000 })

const payouts = openMoneroPayouts(15)
const { coin, send, stateOf, transferOf, withWallet, withoutRelay } = payouts
let venue: MoneroVenue
let payee: MoneroPayee
beforeAll(() => {
  venue = payouts.venue
  payee = payouts.payee
})
const openTransfers = () => venue.ctx.payouts.transfers.list('xmr', ['signed', 'sent', 'held'], 10)

describe('a payout', () => {
  it('arrives with the payee to the last piconero, once, and is confirmed with its block; the venue pays the fee', async () => {
    const address = await payee.address()
    const amountPico = XMR / 3n
    const { totalPico: before } = await venue.ctx.monero.wallet.balance()
    const owed = await venue.owe(amountPico, address)
    await send()
    expect(await stateOf(owed)).toBe('sent')
    expect(await payee.arrived(address)).toEqual([amountPico])
    await venue.generate(1)
    await send()
    expect(await stateOf(owed)).toBe('sent')
    await confirmPayouts(venue, [owed])
    await expectConfirmed(venue, owed)
    expect(await payee.arrived(address)).toEqual([amountPico])
    const { fee_raw: fee } = await transferOf(owed)
    expect((await venue.ctx.monero.wallet.balance()).totalPico).toBe(
      before - amountPico - BigInt(fee as string),
    )
  })

  it('is not sent for a fee above 2 % of it and above MAX_FEE_XMR: it stays owed, and the operator is told', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 500n, address)
    const { wallet } = venue.ctx.monero
    const dear = withWallet({
      prepareTransfer: async (destinations) => ({
        ...(await wallet.prepareTransfer(destinations)),
        feePico: XMR,
      }),
    })
    await sendMonero(dear)
    expect([await stateOf(owed), await openTransfers()]).toEqual(['owed', []])
    expect((await coin())?.fee_high).toMatchObject({ fee_raw: String(XMR), sum_raw: String(XMR / 500n) })
    const findings = await coinFindings.read(venue.ctx)
    expect(findings.flatMap((found) => found?.kind ?? [])).toContain('fee_high')
    await send()
    expect((await coin())?.fee_high).toBeUndefined()
    await confirmPayouts(venue, [owed])
    expect(await payee.arrived(address)).toEqual([XMR / 500n])
  })

  it('for which the wallet has no key makes the coin not ready and says why, until a wallet has one', async () => {
    const owed = await venue.owe(XMR / 50n, await payee.address())
    const refused = () =>
      Promise.reject(new NodeRefused('transfer', 'command not supported by watch-only wallet', -29))
    await sendMonero(withWallet({ prepareTransfer: refused }))
    expect(await stateOf(owed)).toBe('owed')
    expect((await coin())?.problems?.wallet).toContain('watch-only')
    await send()
    expect((await coin())?.problems?.wallet).toBeUndefined()
    await confirmPayouts(venue, [owed])
  })

  it('waits until the payee is owed MIN_PAYOUT_XMR, and then goes out with the others of the same payee', async () => {
    const address = await payee.address()
    const first = await venue.owe(400_000_000n, address)
    await send()
    expect(await stateOf(first)).toBe('owed')
    const second = await venue.owe(600_000_000n, address)
    await send()
    expect(await payee.arrived(address)).toEqual([1_000_000_000n])
    await confirmPayouts(venue, [first, second])
    await expectConfirmed(venue, first)
    await expectConfirmed(venue, second)
  })

  it('shares a transaction with 14 others; the next ones go out when that is confirmed', async () => {
    const addresses = await Promise.all(Array.from({ length: MAX_DESTINATIONS + 2 }, () => payee.address()))
    const owed: PayoutRecord[] = []
    for (const [place, address] of addresses.entries())
      owed.push(await venue.owe(XMR / 100n + BigInt(place), address))
    await send()
    const [under, ...more] = await openTransfers()
    expect([under?.payout_ids.length, more.length]).toEqual([MAX_DESTINATIONS, 0])
    // One at a time: nothing else is signed while it is under way.
    await send()
    expect(await openTransfers()).toHaveLength(1)
    await confirmPayouts(venue, owed)
    const arrived = await Promise.all(addresses.map((address) => payee.arrived(address)))
    expect(arrived).toEqual(addresses.map((_, place) => [XMR / 100n + BigInt(place)]))
    for (const payout of owed) await expectConfirmed(venue, payout)
  })

  it('is in one transaction although two processes send at once', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 50n, address)
    await Promise.all([send(), sendMonero(withWallet({})), sendMonero(withWallet({}))])
    expect(await openTransfers()).toHaveLength(1)
    await confirmPayouts(venue, [owed])
    await expectConfirmed(venue, owed)
    expect(await payee.arrived(address)).toEqual([XMR / 50n])
  })

  it('waits for the transaction of another process that pays somebody else', async () => {
    const [one, other] = [await payee.address(), await payee.address()]
    const { wallet } = venue.ctx.monero
    const { payouts } = venue.ctx.payouts.models
    const first = await venue.owe(XMR / 45n, one)
    const seconds: PayoutRecord[] = []
    await sendMonero(
      withWallet({
        async prepareTransfer(destinations) {
          const prepared = await wallet.prepareTransfer(destinations)
          await payouts.updateOne({ _id: first._id }, { $set: { frozen: true } })
          seconds.push(await venue.owe(XMR / 45n, other))
          await send()
          await payouts.updateOne({ _id: first._id }, { $unset: { frozen: 1 } })
          return prepared
        },
      }),
    )
    expect([await stateOf(first), ...(await Promise.all(seconds.map(stateOf)))]).toEqual(['owed', 'sent'])
    expect(await openTransfers()).toHaveLength(1)
    await confirmPayouts(venue, [first, ...seconds])
    expect([await payee.arrived(one), await payee.arrived(other)]).toEqual([[XMR / 45n], [XMR / 45n]])
  })

  it('for which the wallet holds too little, or only what is locked, waits and says so; those that fit go out', async () => {
    const { totalPico } = await venue.ctx.monero.wallet.balance()
    const [rich, poor] = [await payee.address(), await payee.address()]
    const tooMuch = await venue.owe(totalPico + XMR, rich)
    const small = await venue.owe(XMR / 100n, poor)
    await send()
    expect([await stateOf(tooMuch), await stateOf(small)]).toEqual(['owed', 'sent'])
    expect(BigInt((await coin())?.treasury_short_raw ?? '0')).toBeGreaterThan(XMR)
    await confirmPayouts(venue, [small])
    // In the wallet, and not to be spent yet.
    for (let part = 0; part < 3; part++)
      await venue.regtest.payer.pay([{ address: venue.wallet.address, amountPico: XMR }])
    await venue.generate(1)
    await send()
    expect(await stateOf(tooMuch)).toBe('owed')
    expect(BigInt((await coin())?.treasury_short_raw ?? '0')).toBeGreaterThan(0n)
    await venue.generate(UNLOCK_BLOCKS)
    await confirmPayouts(venue, [tooMuch])
    await expectConfirmed(venue, tooMuch)
    expect(await payee.arrived(rich)).toEqual([totalPico + XMR])
    await send()
    expect((await coin())?.treasury_short_raw).toBe('0')
    await venue.fund(30, 2n * XMR)
  })

  it('stays owed where it is frozen, its address is none, or payouts are manual', async () => {
    const address = await payee.address()
    const { payouts } = venue.ctx.payouts.models
    const frozen = await venue.owe(XMR, address)
    await payouts.updateOne({ _id: frozen._id }, { $set: { frozen: true } })
    const misdirected = await venue.owe(XMR, `${address.slice(0, -1)}${address.endsWith('1') ? '2' : '1'}`)
    await send()
    expect([await stateOf(frozen), await stateOf(misdirected)]).toEqual(['owed', 'owed'])
    await payouts.updateOne({ _id: frozen._id }, { $unset: { frozen: 1 } })
    await sendMonero({ ...venue.ctx, config: { ...venue.ctx.config, payouts: 'manual' } })
    expect([await stateOf(frozen), await openTransfers()]).toEqual(['owed', []])
    await disown(venue.ctx, frozen, misdirected)
  })

  it('that is frozen while its transaction is signed is not in it', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 10n, address)
    const { wallet } = venue.ctx.monero
    const { payouts } = venue.ctx.payouts.models
    await sendMonero(
      withWallet({
        async prepareTransfer(destinations) {
          await payouts.updateOne({ _id: owed._id }, { $set: { frozen: true } })
          return wallet.prepareTransfer(destinations)
        },
      }),
    )
    expect([await stateOf(owed), await openTransfers(), await payee.arrived(address)]).toEqual([
      'owed',
      [],
      [],
    ])
    await disown(venue.ctx, owed)
  })

  it('that is paid by hand while its transaction is signed is not in it', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 10n, address)
    const { wallet } = venue.ctx.monero
    await sendMonero(
      withWallet({
        async prepareTransfer(destinations) {
          expect(await markPaidByHand(venue.ctx, owed._id, 'ab'.repeat(32))).toBe(true)
          return wallet.prepareTransfer(destinations)
        },
      }),
    )
    expect([await stateOf(owed), await openTransfers(), await payee.arrived(address)]).toEqual([
      'manual',
      [],
      [],
    ])
  })

  it('to an integrated address goes alone, whether it waits longer than the others or not', async () => {
    const { integrated_address: integrated } = (await payee.program.call('make_integrated_address')) as {
      integrated_address: string
    }
    // An integrated address is that of the wallet itself, with a payment id in it.
    const arrived = async () => {
      await payee.wallet.getHeight()
      return (await payee.wallet.listIncoming({ sinceHeight: 0 }))
        .filter(({ minor }) => minor === 0)
        .map(({ amountPico }) => amountPico)
    }
    const [first, last] = [await payee.address(), await payee.address()]
    const owed = [
      await venue.owe(XMR / 70n, first),
      await venue.owe(XMR / 71n, integrated),
      await venue.owe(XMR / 72n, last),
    ]
    await send()
    expect(await Promise.all(owed.map(stateOf))).toEqual(['sent', 'owed', 'sent'])
    const later = await venue.owe(XMR / 73n, first)
    await confirmPayouts(venue, [...owed, later])
    expect((await transferOf(owed[1] as PayoutRecord)).payout_ids).toHaveLength(1)
    for (const payout of owed) await expectConfirmed(venue, payout)
    expect([await payee.arrived(first), await arrived(), await payee.arrived(last)]).toEqual([
      [XMR / 70n, XMR / 73n],
      [XMR / 71n],
      [XMR / 72n],
    ])
  })

  it('of more than the wallet takes in one destination goes out in several, to the one payee', async () => {
    const address = await payee.address()
    const owed = [
      await venue.owe(MAX_AMOUNT_PICO + 1n, address),
      await venue.owe(MAX_AMOUNT_PICO + 4n, address),
    ]
    const rich = { totalPico: 30_000n * XMR, unlockedPico: 30_000n * XMR, blocksToUnlock: 0 }
    const asked: MoneroDestination[] = []
    const signing = withWallet({
      balance: () => Promise.resolve(rich),
      prepareTransfer: (destinations) => (
        asked.push(...destinations),
        Promise.reject(new Error('this wallet has no such sum'))
      ),
    })
    await expect(sendMonero(signing)).rejects.toThrow('no such sum')
    expect(asked).toEqual(
      [MAX_AMOUNT_PICO, MAX_AMOUNT_PICO, 5n].map((amountPico) => ({ address, amountPico })),
    )
    await disown(venue.ctx, ...owed)
  })

  it('for which the wallet does not sign, whatever its reason, stops no other', async () => {
    const addresses = [await payee.address(), await payee.address(), await payee.address()]
    const owed: PayoutRecord[] = []
    for (const address of addresses) owed.push(await venue.owe(XMR / 83n, address))
    const { wallet } = venue.ctx.monero
    const choosy = withWallet({
      prepareTransfer: (destinations) =>
        destinations.some(({ address }) => address === addresses[0])
          ? Promise.reject(new NodeRefused('transfer', 'no', MONERO_ERROR.wrongAddress))
          : wallet.prepareTransfer(destinations),
    })
    await sendMonero(choosy)
    expect(await Promise.all(owed.map(stateOf))).toEqual(['owed', 'sent', 'sent'])
    await confirmPayouts(venue, owed)
    for (const address of addresses) expect(await payee.arrived(address)).toEqual([XMR / 83n])
  })

  it.each([
    [
      'beside others',
      '9yzRvjw478PXsu2Er8C4VxZP1g4kqVBJU59NVPS5SoagYbNQ59QjF88epDpKDQZeJ1TdrEBzzhAVWE5L82YoiWAnGFRirzV',
    ],
    [
      'alone',
      'A9h6wYkYiPuXsu2Er8C4VxZP1g4kqVBJU59NVPS5SoagYbNQ59QjF88epDpKDQZeJ1TdrEBzzhAVWE5L82YoiWAnPaiJvZGJTfrU2DjYbu',
    ],
  ])('to an address of another network stops no other: %s', async (_, otherNetworks) => {
    const [one, other] = [await payee.address(), await payee.address()]
    const refused = await venue.owe(XMR / 80n, otherNetworks)
    const owed = [await venue.owe(XMR / 81n, one), await venue.owe(XMR / 82n, other)]
    await send()
    expect(await Promise.all([refused, ...owed].map(stateOf))).toEqual(['owed', 'sent', 'sent'])
    expect(await openTransfers()).toHaveLength(1)
    await confirmPayouts(venue, owed)
    expect([await payee.arrived(one), await payee.arrived(other)]).toEqual([[XMR / 81n], [XMR / 82n]])
    await disown(venue.ctx, refused)
  })
})

describe('a transaction under way', () => {
  it('is the same one after the wallet, its daemon and the pool were lost', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 20n, address)
    await expect(sendMonero(withoutRelay())).rejects.toThrow('the process ended here')
    const before = await transferOf(owed)
    expect(before).toMatchObject({ state: 'signed', in_flight: true })
    await venue.wallet.setDown(true, 'SIGKILL')
    await send()
    await venue.wallet.setDown(false)
    await venue.regtest.setDown(true)
    await send()
    await venue.regtest.setDown(false)
    expect(await stateOf(owed)).toBe('signed')
    await send()
    expect(await stateOf(owed)).toBe('sent')
    await venue.regtest.flushTxpool()
    await venue.generate(1)
    expect(await payee.arrived(address)).toEqual([])
    await confirmPayouts(venue, [owed])
    expect((await transferOf(owed)).tx).toBe(before.tx)
    await expectConfirmed(venue, owed)
    expect(await payee.arrived(address)).toEqual([XMR / 20n])
  })

  // Every other point is in test/faults.
  const ONE: CrashPoint = { call: 'relay', phase: 'after', count: 1 }
  it('outlives its worker, killed after it was relayed', () => crashAt(venue, payee, ONE))

  it('whose money was spent by hand is not signed anew before that is certain, and paid once', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 25n, address)
    await expect(sendMonero(withoutRelay())).rejects.toThrow('the process ended here')
    const before = await transferOf(owed)
    const [image] = (JSON.parse(before.signed) as { keyImages: string[] }).keyImages
    await venue.wallet.call('sweep_single', { address: venue.wallet.address, key_image: image })
    await send()
    const { halted } = (await coin()) ?? {}
    expect(halted?.reason).toContain('which the database does not know')
    await venue.generate(1)
    await expect(reconcileMonero(venue.ctx)).rejects.toThrow(
      'is not confirmed yet; reconcile again once it is',
    )
    expect(await stateOf(owed)).toBe('signed')
    await venue.generate(UNLOCK_BLOCKS)
    await reconcileMonero(venue.ctx)
    expect([(await coin())?.halted, await stateOf(owed)]).toEqual([undefined, 'owed'])
    expect((await venue.ctx.payouts.transfers.find(before._id))?.state).toBe('replaced')
    expect(await venue.ctx.journal.reconciliations.last('xmr')).toMatchObject({
      sends: [],
      held_payout_ids: [],
    })
    await send()
    await confirmPayouts(venue, [owed])
    expect(await payee.arrived(address)).toEqual([XMR / 25n])
    expect((await transferOf(owed)).tx).not.toBe(before.tx)
  })

  it('that can still be confirmed is not given back by a reconciliation, and is published by it as it was signed', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 35n, address)
    await expect(sendMonero(withoutRelay())).rejects.toThrow('the process ended here')
    const before = await transferOf(owed)
    await reconcileMonero(venue.ctx)
    expect(await transferOf(owed)).toMatchObject({ state: 'sent', in_flight: true })
    await confirmPayouts(venue, [owed])
    expect((await transferOf(owed)).tx).toBe(before.tx)
    expect(await payee.arrived(address)).toEqual([XMR / 35n])
  })
})

describe('a database restored to before a payout', () => {
  it('pays nothing twice: the coin is halted, the operator decides, and everything goes on', async () => {
    const [address, other] = [await payee.address(), await payee.address()]
    const invoice = await venue.invoice(1)
    const owed = await venue.owe(XMR / 30n, address)
    await watchMonero(venue.ctx)
    const restore = await takeBackup(venue.ctx)
    const forgotten = await venue.invoice(1)
    await venue.pay(invoice, DAY_PICO)
    await venue.pay(forgotten, DAY_PICO)
    await send()
    await confirmPayouts(venue, [owed])
    await watchMonero(venue.ctx)
    expect(await venue.check(invoice)).toMatchObject({ status: 'settled' })
    expect(await payee.arrived(address)).toEqual([XMR / 30n])
    // Further than a look goes back.
    await venue.generate(REORG_BLOCKS)
    await watchMonero(venue.ctx)

    await restore()
    expect(await stateOf(owed)).toBe('owed')
    const work = async () => {
      await watchMonero(venue.ctx)
      await fillMonero(venue.ctx)
      await send()
    }
    await work()
    await work()
    expect((await coin())?.halted?.reason).toContain('which the database does not know')
    expect([await stateOf(owed), await payee.arrived(address)]).toEqual(['owed', [XMR / 30n]])
    expect(await venue.check(invoice)).toMatchObject({ status: 'settled', credited_days: 1 })

    await reconcileMonero(venue.ctx)
    expect((await coin())?.halted).toBeUndefined()
    const reconciled = await venue.ctx.journal.reconciliations.last('xmr')
    expect(reconciled).toMatchObject({
      transactions: 1,
      sends: [{ to: [address], amount_raw: String(XMR / 30n) }],
      held_payout_ids: [owed._id],
      stray: [{ address: forgotten.address, amount_raw: String(DAY_PICO) }],
    })
    // What the restored database comes to owe only now may have been paid too; somebody else's may not.
    const [later, unconcerned] = [await venue.owe(XMR / 60n, address), await venue.owe(XMR / 60n, other)]
    await work()
    await work()
    expect(await Promise.all([owed, later].map(stateOf))).toEqual(['held', 'held'])
    await confirmPayouts(venue, [unconcerned])
    expect([await payee.arrived(address), await payee.arrived(other)]).toEqual([[XMR / 30n], [XMR / 60n]])

    const [sent] = reconciled?.sends ?? []
    expect(await markPaidByHand(venue.ctx, owed._id, sent?.tx as string)).toBe(true)
    expect(await oweAgain(venue.ctx, later._id)).toBe(true)
    await venue.ctx.payouts.transfers.setExplained('xmr', sent?.tx as string)
    await work()
    await confirmPayouts(venue, [later])
    expect(await payee.arrived(address)).toEqual([XMR / 30n, XMR / 60n])
    // No address of those that were given out after the backup is given out again.
    const fresh = await venue.invoice(1)
    expect([invoice.address, forgotten.address]).not.toContain(fresh.address)
  })

  it('holds everything where the wallet does not know any more where its money went', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 30n, address)
    await watchMonero(venue.ctx)
    const restore = await takeBackup(venue.ctx)
    await send()
    await confirmPayouts(venue, [owed])
    await restore()
    const { wallet } = venue.ctx.monero
    const forgetful = withWallet({
      listOutgoing: async (options) =>
        (await wallet.listOutgoing(options)).map((sent) => ({ ...sent, destinations: [] })),
    })
    await watchMonero(forgetful)
    await reconcileMonero(forgetful)
    const later = await venue.owe(XMR / 30n, await payee.address())
    await venue.generate(UNLOCK_BLOCKS)
    await send()
    expect(await Promise.all([owed, later].map(stateOf))).toEqual(['held', 'held'])
    expect(await payee.arrived(address)).toEqual([XMR / 30n])
    const [found] = (await venue.ctx.journal.reconciliations.last('xmr'))?.sends ?? []
    await venue.ctx.payouts.transfers.setExplained('xmr', found?.tx as string)
  })
})

describe('a wallet', () => {
  it('other than the one that was in use is no news, and gives out no addresses, until the operator takes it over', async () => {
    const [before, highest] = [await coin(), await venue.ctx.coins.addresses.highestIndex('xmr')]
    const stranger = withWallet({ primaryAddress: () => payee.wallet.primaryAddress() })
    await watchMonero(stranger)
    expect(await coin()).toMatchObject({ reachable: false })
    await fillMonero(stranger)
    expect((await coin())?.pool_at).toBe(before?.pool_at)
    expect(await venue.ctx.coins.addresses.highestIndex('xmr')).toBe(highest)
    await watchMonero(venue.ctx)
    expect(await coin()).toMatchObject({ reachable: true })
    expect((await coin())?.halted).toBeUndefined()
  })

  it('that is taken over in the place of another takes nothing for lost that came to that one', async () => {
    const invoice = await venue.invoice()
    const payments = () => venue.ctx.invoices.arrivals.listPayments(invoice.id)
    await venue.pay(invoice, invoice.amountPico)
    for (let blocks = 0; blocks < 3 * CONFIRMATIONS && (await payments())[0]?.state !== 'settled'; blocks++) {
      await venue.generate(1)
      await venue.nextRound()
    }
    expect(await payments()).toMatchObject([{ state: 'settled' }])
    const { url } = await venue.regtest.openWallet('next')
    const wallet = createMoneroWallet({ url, log: venue.ctx.log, timeoutMs: 30_000 })
    const next = withWallet(wallet)
    await reconcileMonero(next)
    for (let blocks = 0; blocks < 7; blocks++) {
      await venue.generate(1)
      await watchMonero(next)
    }
    expect(await coin()).toMatchObject({ reachable: true, treasury_address: await wallet.primaryAddress() })
    expect((await payments())[0]?.missing_since).toBeGreaterThan(0)
    expect((await payments())[0]).not.toHaveProperty('reversed_at')
    await reconcileMonero(venue.ctx)
    await fillMonero(venue.ctx)
  })

  it('is believed about what it shows no more, also by workers that begin anew before each look', async () => {
    const invoice = await venue.invoice()
    const tx = await venue.pay(invoice, invoice.amountPico)
    await venue.generate(1)
    await watchMonero(venue.ctx)
    const payments = () => venue.ctx.invoices.arrivals.listPayments(invoice.id)
    const [{ height = 0 } = {}] = await payments()
    const blocks = (await venue.regtest.height()) - height
    await venue.regtest.popBlocks(blocks)
    await venue.regtest.withhold(tx)
    await venue.generate(blocks + 1)
    for (let count = 0; count < 7; count++) {
      await watchMonero(withWallet({}))
      await venue.generate(1)
    }
    expect(await payments()).toMatchObject([{ state: 'gone' }])
  })

  it('that lacks addresses which were given out, as after it was restored from its seed, is halted and makes them again', async () => {
    const { wallet } = venue.ctx.monero
    const made: number[] = []
    const restored = withWallet({
      hasAddress: () => Promise.resolve(false),
      subaddressCount: () => Promise.resolve(1),
      createSubaddresses: (count) => (made.push(count), Promise.resolve([])),
    })
    const { highest } = readIndexFile(venue.ctx.monero.indexFile)
    await fillMonero(restored)
    expect((await coin())?.halted?.reason).toContain('rescan')
    expect(made).toEqual([highest])
    expect(await wallet.hasAddress(highest)).toBe(true)
    await reconcileMonero(venue.ctx)
    expect((await coin())?.halted).toBeUndefined()
    await fillMonero(venue.ctx)
    expect((await venue.ctx.coins.addresses.countFree('xmr')).size).toBeGreaterThan(0)
  })

  it('gives indexes from 1 on, each once, and keeps the highest beside the data', async () => {
    const addresses = await venue.ctx.coins.addresses.models.addresses.find({}).sort({ index: 1 }).lean()
    expect(addresses[0]?.index).toBe(1)
    expect(new Set(addresses.map(({ index }) => index)).size).toBe(addresses.length)
    for (const { index, address } of [addresses[0], addresses.at(-1)].flatMap((one) => one ?? [])) {
      const { index: found } = (await venue.wallet.call('get_address_index', { address })) as {
        index: { major: number; minor: number }
      }
      expect(found).toEqual({ major: 0, minor: index })
    }
    expect(CONFIRMATIONS).toBeLessThan(UNLOCK_BLOCKS)
  })
})
