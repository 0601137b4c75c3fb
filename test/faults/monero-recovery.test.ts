import { Writable } from 'node:stream'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { createLog } from '../../shared/platform/log.ts'
import { REORG_BLOCKS } from '../../shared/money/coins/monero/monero-chain.ts'
import type { MoneroContext } from '../../shared/money/coins/monero/monero-gateway.ts'
import { createMoneroWallet } from '../../shared/money/coins/monero/monero-wallet.ts'
import { AnswerTooLong, NodeRefused } from '../../shared/money/node-errors.ts'
import { markPaidByHand, oweAgain } from '../../shared/money/payout-service.ts'
import { moveTransfer } from '../../shared/money/transfer-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { fillMonero, reconcileMonero, sendMonero, watchMonero } from '../support/monero-jobs.ts'
import { confirmPayouts } from '../support/monero-crashes.ts'
import type { RegtestWallet } from '../../devnet/monero-regtest/regtest.ts'
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

const MINUTE_MS = 60_000

const payouts = openMoneroPayouts(30)
const { coin, send, stateOf, transferOf, withWallet, withoutRelay } = payouts
let venue: MoneroVenue
let payee: MoneroPayee
beforeAll(() => {
  venue = payouts.venue
  payee = payouts.payee
})

const refusing = (count: () => void = () => undefined) =>
  withWallet({
    relay: () => (count(), Promise.reject(new NodeRefused('relay_tx', 'the daemon is busy', -4))),
  })

/** Signed and stored, and never published: the worker's process ends where it would be. */
async function signOnly(owed: PayoutRecord): Promise<TransferRecord> {
  await expect(sendMonero(withoutRelay())).rejects.toThrow('the process ended here')
  expect(await stateOf(owed)).toBe('signed')
  return transferOf(owed)
}

/** What the wallet relays. */
const metadataOf = ({ signed }: TransferRecord) => ({
  hex: (JSON.parse(signed) as { txMetadata: string }).txMetadata,
})
const keyImagesOf = ({ signed }: TransferRecord) => (JSON.parse(signed) as { keyImages: string[] }).keyImages

/**
 * The venue's wallet in a program of its own, as the operator's at home, with an address of the payee's that
 * it pays.
 */
async function openCopy(): Promise<RegtestWallet> {
  const { key: seed } = await venue.wallet.call('query_key', { key_type: 'mnemonic' })
  const copy = await venue.regtest.openWallet('copy', seed as string)
  await copy.call('refresh')
  return copy
}

describe('a refusal', () => {
  it('after a daemon outage of eleven minutes keeps nobody from being paid', async () => {
    const [one, other] = [await payee.address(), await payee.address()]
    const first = await venue.owe(XMR / 20n, one)
    await signOnly(first)
    await venue.regtest.setDown(true)
    await send()
    await venue.advance(11 * MINUTE_MS)
    await venue.regtest.setDown(false)
    await sendMonero(refusing())
    expect(await stateOf(first)).toBe('signed')
    const second = await venue.owe(XMR / 21n, other)
    await venue.advance(MINUTE_MS)
    await confirmPayouts(venue, [first, second])
    expect([await payee.arrived(one), await payee.arrived(other)]).toEqual([[XMR / 20n], [XMR / 21n]])
  })

  it('that lasts is an alarm after ten minutes, the transaction is offered again with pauses, and it goes out once the daemon takes it', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 22n, address)
    const before = await signOnly(owed)
    let offers = 0
    const logged: string[] = []
    const log = createLog(
      'test',
      'error',
      new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) }),
    )
    const busy = { ...refusing(() => offers++), log }
    for (let minute = 0; minute < 10; minute++) {
      await sendMonero(busy)
      await sendMonero(busy)
      expect(await stateOf(owed)).toBe('signed')
      await venue.advance(MINUTE_MS)
    }
    expect(offers).toBeGreaterThan(3)
    expect(offers).toBeLessThan(11)
    await venue.advance(5 * MINUTE_MS)
    await sendMonero(busy)
    expect(await stateOf(owed)).toBe('held')
    expect(logged.join('')).toContain(before._id)
    // Nobody waits for it.
    const other = await payee.address()
    const next = await venue.owe(XMR / 23n, other)
    await send()
    expect(await stateOf(next)).toBe('sent')
    // It may have spent what the held one spends, which then ends by that.
    for (let round = 0; round < 4; round++) {
      await venue.advance(5 * MINUTE_MS)
      await confirmPayouts(venue, [next, owed])
    }
    expect([await payee.arrived(address), await payee.arrived(other)]).toEqual([[XMR / 22n], [XMR / 23n]])
  })
})

describe('a transaction in the pool', () => {
  it('is sent once for each block that comes without it, so that none takes it in while it is sent again', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 24n, address)
    const { wallet } = venue.ctx.monero
    let relays = 0
    const counting = withWallet({ relay: (prepared) => (relays++, wallet.relay(prepared)) })
    for (let round = 0; round < 4; round++) await sendMonero(counting)
    expect([await stateOf(owed), relays]).toEqual(['sent', 1])
    await venue.regtest.flushTxpool()
    await venue.generate(1)
    for (let round = 0; round < 4; round++) await sendMonero(counting)
    expect(relays).toBe(2)
    await confirmPayouts(venue, [owed])
    expect(await payee.arrived(address)).toEqual([XMR / 24n])
  })
})

describe('a transaction whose inputs another one has spent', () => {
  it('in its own wallet, said to be paid by hand, is replaced without a reconciliation, and its payout is made by another one', async () => {
    const [address, byHand] = [await payee.address(), await payee.address()]
    const owed = await venue.owe(XMR / 30n, address)
    const before = await signOnly(owed)
    const manual = await venue.owe(XMR / 31n, byHand)
    const tx = await spend(venue.wallet, before, byHand, XMR / 31n)
    expect(await markPaidByHand(venue.ctx, manual._id, tx)).toBe(true)
    await venue.generate(UNLOCK_BLOCKS)
    await venue.advance(MINUTE_MS)
    await send()
    expect((await venue.ctx.payouts.transfers.find(before._id))?.state).toBe('replaced')
    await confirmPayouts(venue, [owed])
    expect([(await coin())?.halted, await payee.arrived(address), await payee.arrived(byHand)]).toEqual([
      undefined,
      [XMR / 30n],
      [XMR / 31n],
    ])
    expect((await transferOf(owed)).tx).not.toBe(before.tx)
  })

  it('elsewhere, while its own wallet takes it for sent, is replaced once it was refused for long', async () => {
    const [address, byHand] = [await payee.address(), await payee.address()]
    const owed = await venue.owe(XMR / 32n, address)
    const copy = await openCopy()
    await send()
    const before = await transferOf(owed)
    await venue.regtest.flushTxpool()
    const manual = await venue.owe(XMR / 33n, byHand)
    const tx = await spend(copy, before, byHand, XMR / 33n)
    expect(await markPaidByHand(venue.ctx, manual._id, tx)).toBe(true)
    await venue.generate(UNLOCK_BLOCKS)
    for (let round = 0; round < 4; round++) {
      await send()
      await venue.advance(6 * MINUTE_MS)
    }
    expect((await venue.ctx.payouts.transfers.find(before._id))?.state).toBe('replaced')
    await confirmPayouts(venue, [owed])
    expect([(await coin())?.halted, await payee.arrived(address), await payee.arrived(byHand)]).toEqual([
      undefined,
      [XMR / 32n],
      [XMR / 33n],
    ])
  })

  /**
   * Sends from a wallet of the same seed, with all the inputs of that transaction frozen but one: that one is
   * used.
   */
  async function spend(
    wallet: RegtestWallet,
    rival: TransferRecord,
    address: string,
    amountPico: bigint,
  ): Promise<string> {
    await wallet.call('refresh')
    const { transfers } = (await wallet.call('incoming_transfers', {
      transfer_type: 'available',
      verbose: true,
    })) as {
      transfers: { key_image: string; unlocked: boolean }[]
    }
    const [mine] = keyImagesOf(rival)
    const others = transfers.filter(({ key_image: image }) => image !== mine)
    for (const { key_image: image } of others) await wallet.call('freeze', { key_image: image })
    const { tx_hash: tx } = await wallet.call('transfer', {
      destinations: [{ address, amount: Number(amountPico) }],
    })
    for (const { key_image: image } of others) await wallet.call('thaw', { key_image: image })
    return tx as string
  }
})

describe('a chain that turns back', () => {
  it('over a payout that was called confirmed makes it be published again, the same one', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 40n, address)
    await confirmPayouts(venue, [owed])
    const before = await transferOf(owed)
    expect(before.state).toBe('confirmed')
    const height = await venue.regtest.height()
    const { transfer } = (await venue.wallet.call('get_transfer_by_txid', { txid: before.tx })) as {
      transfer: { height: number }
    }
    await venue.regtest.popBlocks(height - transfer.height)
    await venue.regtest.flushTxpool()
    await venue.generate(height - transfer.height + 1)
    expect(await payee.arrived(address)).toEqual([])
    await send()
    await venue.generate(1)
    expect(await payee.arrived(address)).toEqual([XMR / 40n])
    await send()
    expect([(await transferOf(owed)).tx, await stateOf(owed)]).toEqual([before.tx, 'confirmed'])
  })

  it('and has a replaced transaction after all gives it its payout back, which is not made again', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 41n, address)
    const before = await signOnly(owed)
    expect(await moveTransfer(venue.ctx, before, 'replaced', 'a daemon has lied')).toBe(true)
    await venue.wallet.call('relay_tx', metadataOf(before))
    await venue.generate(UNLOCK_BLOCKS)
    expect(await stateOf(owed)).toBe('owed')
    await send()
    expect([await stateOf(owed), (await transferOf(owed)).tx]).toEqual(['confirmed', before.tx])
    expect(await payee.arrived(address)).toEqual([XMR / 41n])
  })

  it('and has a replaced transaction whose payout was made otherwise meanwhile says so, and keeps both on record', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 42n, address)
    const before = await signOnly(owed)
    expect(await moveTransfer(venue.ctx, before, 'replaced', 'a daemon has lied')).toBe(true)
    for (const image of keyImagesOf(before)) await venue.wallet.call('freeze', { key_image: image })
    await confirmPayouts(venue, [owed])
    for (const image of keyImagesOf(before)) await venue.wallet.call('thaw', { key_image: image })
    await venue.wallet.call('relay_tx', metadataOf(before))
    await venue.generate(UNLOCK_BLOCKS)
    const logged: string[] = []
    const log = createLog(
      'test',
      'error',
      new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) }),
    )
    await sendMonero({ ...venue.ctx, log })
    expect(logged.join('')).toContain('it may have been paid twice')
    const transfers = await venue.ctx.payouts.transfers.models.transfers.find({ payout_ids: owed._id }).lean()
    expect(transfers.map(({ state }) => state)).toEqual(['confirmed', 'confirmed'])
    expect(await payee.arrived(address)).toEqual([XMR / 42n, XMR / 42n])
  })
})

describe('a transaction that the operator sent by hand', () => {
  const sendByHand = async (to: readonly { address: string; pico: bigint }[]) =>
    (
      await venue.wallet.call('transfer', {
        destinations: to.map(({ address, pico }) => ({ address, amount: Number(pico) })),
      })
    )['tx_hash'] as string
  const work = async () => {
    await watchMonero(venue.ctx)
    await fillMonero(venue.ctx)
    await send()
  }

  it('and has recorded stops nothing, and is on record once it is confirmed', async () => {
    const [one, other] = [await payee.address(), await payee.address()]
    const [first, second] = [await venue.owe(XMR / 50n, one), await venue.owe(XMR / 51n, other)]
    const tx = await sendByHand([
      { address: one, pico: XMR / 50n },
      { address: other, pico: XMR / 51n },
    ])
    for (const payout of [first, second]) expect(await markPaidByHand(venue.ctx, payout._id, tx)).toBe(true)
    await work()
    expect((await coin())?.halted).toBeUndefined()
    await venue.generate(UNLOCK_BLOCKS)
    await work()
    expect((await coin())?.halted).toBeUndefined()
    expect(await venue.ctx.payouts.transfers.findByTx('xmr', tx)).toMatchObject({ state: 'confirmed' })
    expect(await venue.ctx.payouts.transfers.listUnexplained('xmr')).toEqual([])
  })

  it('and has recorded afterwards is no reason for a reconciliation to wait for its confirmations', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 52n, address)
    await venue.ctx.payouts.models.payouts.updateOne({ _id: owed._id }, { $set: { frozen: true } })
    const tx = await sendByHand([{ address, pico: XMR / 52n }])
    await work()
    expect((await coin())?.halted?.reason).toContain(tx)
    await venue.ctx.payouts.models.payouts.updateOne({ _id: owed._id }, { $unset: { frozen: 1 } })
    expect(await markPaidByHand(venue.ctx, owed._id, tx)).toBe(true)
    await reconcileMonero(venue.ctx)
    await work()
    expect((await coin())?.halted).toBeUndefined()
    await venue.generate(UNLOCK_BLOCKS)
    await work()
    expect(await venue.ctx.payouts.transfers.findByTx('xmr', tx)).toMatchObject({ state: 'confirmed' })
  })

  it('and has recorded in part, or for somebody else, stops the coin', async () => {
    const [one, other] = [await payee.address(), await payee.address()]
    const owed = await venue.owe(XMR / 53n, one)
    const tx = await sendByHand([
      { address: one, pico: XMR / 53n },
      { address: other, pico: XMR / 54n },
    ])
    expect(await markPaidByHand(venue.ctx, owed._id, tx)).toBe(true)
    await work()
    expect((await coin())?.halted?.reason).toContain(tx)
    await venue.generate(UNLOCK_BLOCKS)
    await reconcileMonero(venue.ctx)
    // What went to the first is accounted for.
    expect(await venue.ctx.payouts.transfers.listUnexplained('xmr')).toMatchObject([
      { tx, unexplained_to: [other] },
    ])
    await venue.ctx.payouts.transfers.setExplained('xmr', tx)
  })
})

describe('another wallet that is taken over', () => {
  let program: RegtestWallet
  let ctx: MoneroContext
  beforeAll(async () => {
    program = await venue.regtest.openWallet('next')
    ctx = withWallet(createMoneroWallet({ url: program.url, log: venue.ctx.log, timeoutMs: 30_000 }))
  })

  it('while a transfer of the old one is under way pays others; what the old one was to pay is held, and ends by the operator', async () => {
    const addresses = [await payee.address(), await payee.address(), await payee.address()] as const
    const [byHand, again, other] = addresses
    const owed = [await venue.owe(XMR / 60n, byHand), await venue.owe(XMR / 61n, again)]
    const before = await signOnly(owed[0] as PayoutRecord)
    await venue.regtest.payer.pay(
      Array.from({ length: 4 }, () => ({ address: program.address, amountPico: XMR })),
    )
    await venue.generate(UNLOCK_BLOCKS)
    await watchMonero(ctx)
    await reconcileMonero(ctx)
    expect(await Promise.all(owed.map(stateOf))).toEqual(['held', 'held'])
    const pays = async (payout: PayoutRecord) => {
      for (let blocks = 0; blocks < 2 * UNLOCK_BLOCKS && (await stateOf(payout)) !== 'confirmed'; blocks++) {
        await sendMonero(ctx)
        await venue.generate(1)
      }
    }
    const next = await venue.owe(XMR / 62n, other)
    await pays(next)
    expect(await payee.arrived(other)).toEqual([XMR / 62n])
    expect(await markPaidByHand(venue.ctx, (owed[0] as PayoutRecord)._id, 'ab'.repeat(32))).toBe(true)
    expect(await oweAgain(venue.ctx, (owed[1] as PayoutRecord)._id)).toBe(true)
    await pays(owed[1] as PayoutRecord)
    expect([await payee.arrived(again), await payee.arrived(byHand)]).toEqual([[XMR / 61n], []])
    expect((await venue.ctx.payouts.transfers.find(before._id))?.state).toBe('replaced')
    await reconcileMonero(venue.ctx)
  })

  it('gives way to the old one, and what that has in the chain by then is confirmed', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 63n, address)
    const before = await signOnly(owed)
    await reconcileMonero(ctx)
    expect(await stateOf(owed)).toBe('held')
    await venue.wallet.call('relay_tx', metadataOf(before))
    await venue.generate(UNLOCK_BLOCKS)
    await sendMonero(ctx)
    expect(await stateOf(owed)).toBe('held')
    await reconcileMonero(venue.ctx)
    await send()
    expect([await stateOf(owed), (await transferOf(owed)).tx]).toEqual(['confirmed', before.tx])
    expect(await payee.arrived(address)).toEqual([XMR / 63n])
  })

  it('gives way to the old one, which does not send what was paid by hand meanwhile', async () => {
    const address = await payee.address()
    const owed = await venue.owe(XMR / 64n, address)
    const before = await signOnly(owed)
    await reconcileMonero(ctx)
    expect(await markPaidByHand(venue.ctx, owed._id, 'cd'.repeat(32))).toBe(true)
    await reconcileMonero(venue.ctx)
    await send()
    await venue.generate(UNLOCK_BLOCKS)
    await send()
    expect(await payee.arrived(address)).toEqual([])
    expect((await venue.ctx.payouts.transfers.find(before._id))?.state).toBe('held')
  })

  it('credits nobody with what had come to it before', async () => {
    const invoice = await venue.invoice(1)
    const [record] = await venue.ctx.coins.addresses.listByAddress('xmr', [invoice.address])
    const index = record?.index as number
    for (let made = 0; made < index; made += 64)
      await program.call('create_address', { account_index: 0, count: 64 })
    const { addresses } = (await program.call('get_address', {
      account_index: 0,
      address_index: [index],
    })) as {
      addresses: { address: string }[]
    }
    await venue.regtest.payer.pay([{ address: addresses[0]?.address as string, amountPico: DAY_PICO }])
    await venue.generate(UNLOCK_BLOCKS)
    await reconcileMonero(ctx)
    await watchMonero(ctx)
    expect(await venue.check(invoice)).toMatchObject({ status: 'awaiting_payment', payments: [] })
    const { stray } = (await venue.ctx.journal.reconciliations.last('xmr')) ?? {}
    expect(stray).toContainEqual({
      address: addresses[0]?.address,
      address_index: index,
      amount_raw: String(DAY_PICO),
    })
    await reconcileMonero(venue.ctx)
    await fillMonero(venue.ctx)
  })
})

describe('a look', () => {
  it('at money whose long lock has ended asks for its block, and not for all that came since', async () => {
    const invoice = await venue.invoice(1)
    const unlockTime = (await venue.regtest.height()) + REORG_BLOCKS + 10
    await venue.pay(invoice, DAY_PICO, { unlockTime })
    await venue.mineUntil(invoice, 'its money in a block', ({ payments }) =>
      payments.some(({ confirmations }) => confirmations > 0),
    )
    const [locked] = await venue.ctx.invoices.arrivals.listPayments(invoice.id)
    expect(locked).toMatchObject({ state: 'locked', height: expect.any(Number) as number })
    await venue.generate(unlockTime - (await venue.regtest.height()) + 1)
    await watchMonero(venue.ctx)
    const { wallet } = venue.ctx.monero
    const asked: number[] = []
    await watchMonero(
      withWallet({
        listIncoming: (options) => (asked.push(options.sinceHeight), wallet.listIncoming(options)),
      }),
    )
    expect(await venue.check(invoice)).toMatchObject({ status: 'settled', credited_days: 1 })
    for (const height of asked) expect(height).toBeGreaterThan(locked?.height as number)
  })

  it('at a pool with more crumbs than an answer holds settles what is in blocks, and nothing expires by it', async () => {
    const [paid, unpaid] = [await venue.invoice(1), await venue.invoice(1)]
    await venue.pay(paid, DAY_PICO)
    await venue.generate(CONFIRMATIONS + 1)
    await venue.advance(2 * 60 * MINUTE_MS)
    const { wallet } = venue.ctx.monero
    await watchMonero(
      withWallet({
        listIncoming: (options) =>
          options.withoutPool === true
            ? wallet.listIncoming(options)
            : Promise.reject(new AnswerTooLong('too many bytes')),
      }),
    )
    expect([(await venue.check(paid)).status, (await venue.check(unpaid)).status]).toEqual([
      'settled',
      'awaiting_payment',
    ])
    await watchMonero(venue.ctx)
    expect((await venue.check(unpaid)).status).toBe('expired')
  })
})
