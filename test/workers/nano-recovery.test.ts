import fs from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { moveTransfer, replaceTransfer } from '../../shared/money/transfer-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { MINUTE_MS } from '../../shared/platform/time.ts'
import { setRate } from '../support/coins.ts'
import { FULL, sampled } from '../support/full.ts'
import { takeBackup } from '../support/ledger.ts'
import { emptyCollections } from '../support/servers.ts'
import { checkMoney } from '../support/money.ts'
import {
  DAY_RAW,
  XNO,
  openNanoVenue,
  raiseVersion,
  signAndPublish,
  strangerAddress,
  useNanoVenue,
  type NanoVenue,
} from '../support/nano-venue.ts'
import { fillNanoPool, reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

const transfers = () =>
  venue.ctx.payouts.transfers.models.transfers.find({}).sort({ _id: 1 }).lean<TransferRecord[]>()
const transferOf = async ({ _id }: PayoutRecord) =>
  (await transfers()).find(({ payout_ids: ids }) => ids.includes(_id)) as TransferRecord
const halted = async () => (await venue.ctx.coins.findCoin('xno'))?.halted?.reason
const states = (...payouts: PayoutRecord[]) =>
  Promise.all(payouts.map(async ({ _id }) => (await venue.payout(_id)).state))
const arrived = (address: string) => venue.holds(address).receivableRaw
const fill = async (amountRaw: bigint) => {
  venue.pay(venue.wallet.treasury, amountRaw)
  await sweepNano(venue.ctx)
}
const work = async () => {
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
  await sweepNano(venue.ctx)
  await sendNano(venue.ctx)
}
const hashOf = ({ tx }: TransferRecord) => tx.toUpperCase()

/** The node refuses what is published, and does not keep it. */
const refuse = (reason: string) =>
  venue.node.lie(({ action, answerText }) => {
    const hash = action === 'process' ? /"hash": "([0-9A-F]{64})"/.exec(answerText)?.[1] : undefined
    if (hash !== undefined) venue.node.rollback(hash)
    return action === 'process' ? `{"error": "${reason}"}` : undefined
  })
/** The node calls everything confirmed, and the network has confirmed none of it. */
const callConfirmed = () => {
  venue.node.setAutoConfirm(null)
  venue.node.lie(({ action, answerText }) =>
    action === 'blocks_info'
      ? answerText.replaceAll('"confirmed": "false"', '"confirmed": "true"')
      : undefined,
  )
}
/** And so says account_info. */
function confirmAll({ action, answerText }: { action: string; answerText: string }): string | undefined {
  if (action === 'blocks_info') return answerText.replaceAll('"confirmed": "false"', '"confirmed": "true"')
  const frontier = /"frontier": "([0-9A-F]+)"/.exec(answerText)?.[1]
  return action === 'account_info'
    ? answerText.replace(/"confirmed_frontier": "[0-9A-F]+"/, `"confirmed_frontier": "${frontier}"`)
    : undefined
}
const callAllConfirmed = () => venue.node.lie(confirmAll)
const tellTheTruth = () => {
  venue.node.lie(null)
  venue.node.setAutoConfirm(1)
}

describe('the recovery rule', () => {
  it("a provider's hiccup of eleven minutes and one refusal do not stop the treasury for ever", async () => {
    await fill(10n * XNO)
    const [alice, bob] = [strangerAddress(), strangerAddress()]
    const one = await venue.owe(XNO, alice)
    venue.node.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 0 } : undefined))
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    venue.node.rollback(hashOf(await transferOf(one)))
    venue.advance(11 * MINUTE_MS)
    refuse('Too many requests')
    await sendNano(venue.ctx)
    expect(await states(one)).not.toContain('held')
    tellTheTruth()
    venue.advance(MINUTE_MS)
    const two = await venue.owe(XNO, bob)
    venue.pay(venue.wallet.treasury, XNO)
    await work()
    expect([await states(one, two), arrived(alice), arrived(bob)]).toEqual([
      ['confirmed', 'confirmed'],
      XNO,
      XNO,
    ])
    expect(venue.holds(venue.wallet.treasury.address)).toEqual({ balanceRaw: 9n * XNO, receivableRaw: 0n })
  })

  it('a transfer that is replaced after it was confirmed undoes that in the ledger, whatever its worker had read of it', async () => {
    await fill(10n * XNO)
    const owed = await venue.owe(XNO, strangerAddress())
    await sendNano(venue.ctx)
    const confirmed = await transferOf(owed)
    expect(confirmed.state).toBe('confirmed')
    const asRead = { ...confirmed, state: 'sent' as const }
    expect(await replaceTransfer(venue.ctx, asRead, 'another block stands in its place')).toBe(true)
    await work()
    const steps = (await venue.payout(owed._id)).pending?.map(({ data }) => [data['step'], data['undoes']])
    expect(steps?.slice(-3)).toEqual([
      ['confirmed', undefined],
      ['owed', 'confirmed'],
      ['confirmed', undefined],
    ])
  })

  it('a block that is refused for long is held, offered again with growing pauses, and ends by itself when the node takes it', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(XNO, payee)
    refuse('Daemon is busy')
    const offers: number[] = []
    for (let minute = 0; minute < 30; minute++) {
      venue.node.resetCalls()
      await sendNano(venue.ctx)
      offers.push(venue.node.calls('process'))
      venue.advance(MINUTE_MS)
    }
    const count = (from: number, to: number) => offers.slice(from, to).reduce((sum, calls) => sum + calls, 0)
    expect(await states(owed)).toEqual(['held'])
    expect(count(0, 3)).toBeGreaterThan(1)
    // At most five minutes lie between two.
    for (let from = 0; from + 6 <= offers.length; from++) expect(count(from, from + 6)).toBeGreaterThan(0)
    expect(count(20, 30)).toBeLessThan(5)
    tellTheTruth()
    venue.advance(6 * MINUTE_MS)
    await sendNano(venue.ctx)
    expect([await states(owed), arrived(payee)]).toEqual([['confirmed'], XNO])
    expect((await transferOf(owed)).refused).toBeUndefined()
  })

  it.runIf(FULL)('while one is held in the treasury, invoices are paid and swept', async () => {
    await fill(10n * XNO)
    const [owed, invoice] = [await venue.owe(XNO, strangerAddress()), await venue.invoice(1)]
    refuse('Daemon is busy')
    await sendNano(venue.ctx)
    venue.advance(11 * MINUTE_MS)
    await sendNano(venue.ctx)
    expect(await states(owed)).toEqual(['held'])
    const treasury = venue.wallet.treasury.address
    // Of the treasury alone the node takes nothing.
    venue.node.lie(({ action, requestText, answerText }) => {
      if (action !== 'process' || !requestText.includes(`"account":"${treasury}"`)) return undefined
      const hash = /"hash": "([0-9A-F]{64})"/.exec(answerText)?.[1]
      if (hash !== undefined) venue.node.rollback(hash)
      return '{"error": "Daemon is busy"}'
    })
    venue.pay(invoice, DAY_RAW)
    await watchNano(venue.ctx)
    await sweepNano(venue.ctx)
    expect((await venue.read(invoice)).credited_days).toBe(1)
    expect(venue.holds(treasury).receivableRaw).toBe(DAY_RAW)
    tellTheTruth()
    venue.advance(6 * MINUTE_MS)
    await work()
    expect([await states(owed), venue.holds(treasury)]).toEqual([
      ['confirmed'],
      { balanceRaw: 10n * XNO, receivableRaw: 0n },
    ])
  })

  // holds: rules.market.steps.payout_undone
  it.runIf(FULL)('what was once called confirmed and is lacking is published again', async () => {
    await fill(10n * XNO)
    const [alice, bob] = [strangerAddress(), strangerAddress()]
    const one = await venue.owe(XNO, alice)
    callConfirmed()
    await sendNano(venue.ctx)
    expect(await states(one)).toEqual(['confirmed'])
    venue.node.rollback(hashOf(await transferOf(one)))
    tellTheTruth()
    const two = await venue.owe(XNO, bob)
    await work()
    expect([await states(one, two), arrived(alice), arrived(bob)]).toEqual([
      ['confirmed', 'confirmed'],
      XNO,
      XNO,
    ])
    expect(await halted()).toBeUndefined()
  })

  /**
   * Has the treasury sign two receives of one payment, the second on top of the first: the node loses the first
   * just after it was seen, and has it again, unconfirmed, when it refuses the second.
   *
   * @returns the hash of the first
   */
  async function receiveTwice(): Promise<string> {
    venue.pay(venue.wallet.treasury, 10n * XNO)
    venue.node.setAutoConfirm(null)
    callAllConfirmed()
    await sweepNano(venue.ctx)
    const [first] = await transfers()
    const hash = hashOf(first as TransferRecord)
    let isLost = false
    venue.node.lie((call) => {
      if (!isLost && call.action === 'blocks_info' && call.answerText.includes(hash)) {
        isLost = true
        venue.node.rollback(hash)
      }
      if (call.answerText.includes('Unreceivable')) tellTheTruth()
      return confirmAll(call)
    })
    await sweepNano(venue.ctx)
    return hash
  }

  it.runIf(FULL)('a receive gives way to another one of its money only once that is confirmed', async () => {
    const hash = await receiveTwice()
    const second = async () => {
      const { state, refused } = (await transfers())[1] as TransferRecord
      return [state, refused?.reason]
    }
    expect(await second()).toEqual(['signed', 'Unreceivable'])
    venue.node.confirm(hash)
    venue.advance(MINUTE_MS)
    await sweepNano(venue.ctx)
    expect(await second()).toEqual(['replaced', undefined])
  })

  it.runIf(FULL)(
    'a receive of what another block of ours has received after all gives way, and stops nothing',
    async () => {
      venue.node.confirm(await receiveTwice())
      const payee = strangerAddress()
      const owed = await venue.owe(XNO, payee)
      for (let round = 0; round < 3; round++) {
        venue.advance(MINUTE_MS)
        await work()
      }
      expect([await states(owed), arrived(payee), await halted()]).toEqual([['confirmed'], XNO, undefined])
      expect((await transfers()).map(({ kind, state }) => [kind, state])).toEqual([
        ['receive', 'confirmed'],
        ['receive', 'replaced'],
        ['payout', 'confirmed'],
      ])
      expect(venue.holds(venue.wallet.treasury.address)).toEqual({ balanceRaw: 9n * XNO, receivableRaw: 0n })
    },
  )

  it.runIf(FULL)(
    'a sweep that was called confirmed and is lacking is published again, and what the treasury received of it',
    async () => {
      await fill(XNO)
      const invoice = await venue.invoice(1)
      venue.pay(invoice, DAY_RAW)
      await watchNano(venue.ctx)
      callConfirmed()
      await sweepNano(venue.ctx)
      await sweepNano(venue.ctx)
      const open = (await transfers()).slice(1)
      expect(open.map(({ kind, state }) => `${kind} ${state}`)).toEqual([
        'receive confirmed',
        'sweep confirmed',
      ])
      venue.node.rollback(hashOf(open[0] as TransferRecord))
      tellTheTruth()
      await fill(XNO)
      for (let round = 0; round < 2; round++) await work()
      expect(venue.holds(venue.wallet.treasury.address)).toEqual({
        balanceRaw: 2n * XNO + DAY_RAW,
        receivableRaw: 0n,
      })
    },
  )

  it.runIf(FULL)(
    'a sweep that is replaced after it was called confirmed leaves its money to another one',
    async () => {
      const usual = venue
      // Where the network can still put a block of its own into an account.
      venue = await openNanoVenue({ node: { genesisEpoch: 1 } })
      try {
        const { treasury } = venue.wallet
        const invoice = await venue.invoice(1)
        venue.pay(invoice, DAY_RAW)
        await watchNano(venue.ctx)
        venue.node.setAutoConfirm(null)
        venue.node.lie((call) =>
          call.action === 'accounts_receivable' && call.requestText.includes(treasury.address)
            ? '{"blocks": ""}'
            : confirmAll(call),
        )
        for (let round = 0; round < 2; round++) await sweepNano(venue.ctx)
        const [receive, sweep, ...others] = (await transfers()) as [TransferRecord, TransferRecord]
        expect([sweep.kind, sweep.state, others]).toEqual(['sweep', 'confirmed', []])
        expect(await venue.ctx.invoices.arrivals.sumUnswept('xno')).toBe(0n)
        venue.node.rollback(hashOf(sweep))
        tellTheTruth()
        venue.node.confirm(hashOf(receive))
        raiseVersion(venue.node, invoice.address)
        for (let round = 0; round < 2; round++) await work()
        expect(venue.holds(treasury.address)).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
      } finally {
        await venue.stop()
        venue = usual
      }
    },
  )

  /** Puts another block in the place of ours, which pays `owed`; the node calls the other one confirmed. */
  async function putRival() {
    await fill(10n * XNO)
    const [payee, thief] = [strangerAddress(), strangerAddress()]
    const owed = await venue.owe(XNO, payee)
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    const ours = await transferOf(owed)
    venue.node.rollback(hashOf(ours))
    callConfirmed()
    const rival = await signAndPublish({ ...venue, node: { ...venue.node, confirm: () => undefined } }, 0, {
      sendTo: thief,
      amountRaw: 2n * XNO,
    })
    return { payee, thief, owed, ours, rival }
  }

  /**
   * Has a block that pays `owed` replaced: for a while the node shows another block in its place, and calls it
   * confirmed. Then the node has ours there again, unconfirmed.
   */
  async function replaceForAWhile() {
    const { payee, thief, owed, ours, rival } = await putRival()
    await sendNano(venue.ctx)
    await reconcileNano(venue.ctx)
    expect((await transfers()).map(({ tx, state }) => [tx, state]).slice(1)).toEqual([
      [ours.tx, 'replaced'],
      [rival, 'confirmed'],
    ])
    expect(await states(owed)).toEqual(['owed'])
    venue.node.rollback(rival.toUpperCase())
    venue.node.lie(null)
    await venue.ctx.nano.rpc.process(JSON.parse(ours.signed), 'send')
    return { payee, thief, owed, ours, rival }
  }

  it.runIf(FULL)(
    'a replaced block that is in the chain again is not taken back before it is confirmed',
    async () => {
      const { owed, ours, payee } = await replaceForAWhile()
      const round = async () => {
        await sendNano(venue.ctx)
        return [(await transferOf(owed))?.state, ...(await states(owed))]
      }
      expect(await round()).toEqual(['replaced', 'owed'])
      venue.node.confirm(hashOf(ours))
      tellTheTruth()
      expect(await round()).toEqual(['confirmed', 'confirmed'])
      expect(arrived(payee)).toBe(XNO)
    },
  )

  it.runIf(FULL).each(['by the next round', 'by a reconciliation'])(
    'a replaced block that is in the chain after all is taken back %s',
    async (by) => {
      const { owed, ours, rival, payee, thief } = await replaceForAWhile()
      tellTheTruth()
      venue.node.confirm(hashOf(ours))
      if (by === 'by a reconciliation') await reconcileNano(venue.ctx)
      await work()
      expect([await states(owed), arrived(payee), arrived(thief)]).toEqual([['confirmed'], XNO, 0n])
      expect((await transfers()).map(({ tx, state }) => [tx, state]).slice(1)).toEqual([
        [ours.tx, 'confirmed'],
        [rival, 'replaced'],
      ])
      const later = await venue.owe(XNO, payee)
      await venue.ctx.payouts.transfers.setExplained('xno', rival)
      await work()
      expect([await states(later), arrived(payee), await halted()]).toEqual([
        ['confirmed'],
        2n * XNO,
        undefined,
      ])
    },
  )

  it.runIf(FULL)('what was paid anew on top of such a rival is paid once all the same', async () => {
    const { payee, thief, owed, ours, rival } = await putRival()
    await reconcileNano(venue.ctx)
    callAllConfirmed()
    await sendNano(venue.ctx)
    expect(await states(owed)).toEqual(['confirmed'])
    venue.node.rollback(rival.toUpperCase())
    tellTheTruth()
    await venue.ctx.nano.rpc.process(JSON.parse(ours.signed), 'send')
    venue.node.confirm(hashOf(ours))
    for (let round = 0; round < 2; round++) await work()
    expect([await states(owed), arrived(payee), arrived(thief), await halted()]).toEqual([
      ['confirmed'],
      XNO,
      0n,
      undefined,
    ])
  })

  it.runIf(FULL)(
    'a block whose predecessor is replaced while it is signed is dropped, and what it was to pay is paid',
    async () => {
      await fill(10n * XNO)
      const [alice, bob, thief] = [strangerAddress(), strangerAddress(), strangerAddress()]
      const one = await venue.owe(XNO, alice)
      venue.node.setAutoConfirm(null)
      await sendNano(venue.ctx)
      const ours = await transferOf(one)
      venue.node.rollback(hashOf(ours))
      callConfirmed()
      const rival = await signAndPublish({ ...venue, node: { ...venue.node, confirm: () => undefined } }, 0, {
        sendTo: thief,
        amountRaw: 2n * XNO,
      })
      await reconcileNano(venue.ctx)
      callAllConfirmed()
      await sendNano(venue.ctx)
      expect(await states(one)).toEqual(['confirmed'])
      const two = await venue.owe(XNO, bob)
      const { rpc } = venue.ctx.nano
      const { generateWork } = rpc
      const spy = vi.spyOn(rpc, 'generateWork').mockImplementationOnce(async (...asked) => {
        venue.node.rollback(rival.toUpperCase())
        tellTheTruth()
        await rpc.process(JSON.parse(ours.signed), 'send')
        venue.node.confirm(hashOf(ours))
        await reconcileNano(venue.ctx)
        return generateWork(...asked)
      })
      try {
        await sendNano(venue.ctx)
      } finally {
        spy.mockRestore()
      }
      expect((await transfers()).filter(({ state }) => state === 'signed')).toEqual([])
      await work()
      expect([await states(one, two), arrived(alice), arrived(bob), arrived(thief)]).toEqual([
        ['confirmed', 'confirmed'],
        XNO,
        XNO,
        0n,
      ])
      expect(await halted()).toBeUndefined()
    },
  )
})

describe('a payout', () => {
  const signOne = async () => {
    await fill(10n * XNO)
    const owed = await venue.owe(XNO, strangerAddress())
    venue.node.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 0 } : undefined))
    await sendNano(venue.ctx)
    return { owed, transfer: await transferOf(owed) }
  }

  it('whose transfer is replaced while it is read is shown as owed', async () => {
    const { owed, transfer } = await signOne()
    const { payouts } = venue.ctx.payouts.models
    const findOne = payouts.findOne.bind(payouts)
    const spy = vi.spyOn(payouts, 'findOne').mockImplementationOnce((...query) => {
      const reading = findOne(...query)
      const read = reading.exec.bind(reading)
      reading.exec = async () => {
        const found = await read()
        expect(await moveTransfer(venue.ctx, transfer, 'replaced')).toBe(true)
        return found
      }
      return reading
    })
    try {
      expect((await venue.ctx.payouts.find(owed._id))?.state).toBe('owed')
    } finally {
      spy.mockRestore()
    }
  })

  it.runIf(FULL)('in a transfer that is replaced and keeps it is told as a contradiction', async () => {
    const { owed, transfer } = await signOne()
    await venue.ctx.payouts.transfers.models.transfers.updateOne(
      { _id: transfer._id },
      { $set: { state: 'replaced' } },
    )
    await expect(venue.ctx.payouts.find(owed._id)).rejects.toThrow('carries it no more')
  })
})

describe('a send that the operator has made with the seed elsewhere', () => {
  it('and recorded is taken in without stopping the coin', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const byHand = await venue.owe(XNO, payee)
    const other = await venue.owe(2n * XNO, strangerAddress())
    const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO })
    expect(await markPaidByHand(venue.ctx, byHand._id, tx)).toBe(true)
    await work()
    expect([await halted(), await states(byHand, other), arrived(payee)]).toEqual([
      undefined,
      ['manual', 'confirmed'],
      XNO,
    ])
    expect(await venue.ctx.payouts.transfers.listUnexplained('xno')).toEqual([])
  })

  it.each(
    sampled([
      ['with another amount than it has recorded', XNO],
      ['and not recorded', undefined],
    ]),
  )('%s stops the coin', async (_, recordedRaw) => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO + 1n })
    if (recordedRaw !== undefined)
      await markPaidByHand(venue.ctx, (await venue.owe(recordedRaw, payee))._id, tx)
    await work()
    expect(await halted()).toContain('which the database does not know')
  })
})

describe('a payment that somebody else with the seed receives', () => {
  it.runIf(FULL)('at an open invoice is counted once, and swept', async () => {
    const invoice = await venue.invoice(1)
    const source = venue.pay(invoice, DAY_RAW)
    await signAndPublish(venue, invoice.address_index, { receive: source, amountRaw: DAY_RAW })
    for (let round = 0; round < 2; round++) await work()
    expect([(await venue.read(invoice)).credited_days, await halted()]).toEqual([1, undefined])
    expect(venue.holds(venue.wallet.treasury.address)).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
    await checkMoney(venue.ctx)
  })

  it('and sends elsewhere is counted, and stops the coin', async () => {
    const invoice = await venue.invoice(1)
    const source = venue.pay(invoice, DAY_RAW)
    await signAndPublish(venue, invoice.address_index, { receive: source, amountRaw: DAY_RAW })
    await signAndPublish(venue, invoice.address_index, { sendTo: strangerAddress(), amountRaw: DAY_RAW })
    await work()
    expect((await venue.read(invoice)).credited_days).toBe(1)
    expect(await halted()).toContain(`account ${invoice.address_index}`)
  })
})

describe('addresses', () => {
  const indexFile = () => venue.wallet.indexFile
  const empty = async () => {
    await emptyCollections(venue.ctx.database.connection)
    await setRate(venue.ctx, 'xno', '1')
  }
  const give = async () => (await venue.invoice(1)).address

  it.runIf(FULL).each([
    ['the database and the index file', ['database', 'index']],
    ['the index file and then the database', ['index', 'database']],
    ['the database alone', ['database']],
    ['the index file alone', ['index']],
    ['the database, and the index file is lost', ['database', 'lose']],
    ['the index file, and the database is lost', ['index', 'empty']],
    ['nothing, all but the seed is lost', ['empty', 'lose']],
  ] as const)('are not given twice after a restore of %s', async (_, steps) => {
    const first = await venue.invoice(1)
    venue.pay(first, DAY_RAW)
    const given = new Set([first.address])
    await work()
    const restoreDatabase = await takeBackup(venue.ctx)
    const index = fs.readFileSync(indexFile())
    for (let count = 0; count < 3; count++) given.add(await give())
    for (const step of steps) {
      if (step === 'database') await restoreDatabase()
      if (step === 'index') fs.writeFileSync(indexFile(), index)
      if (step === 'lose') fs.rmSync(indexFile())
      if (step === 'empty') await empty()
      // The process is started between any two.
      venue.setPatience()
      await work()
      if ((await halted()) !== undefined) await reconcileNano(venue.ctx).then(work)
      for (let count = 0; count < 2; count++) {
        const next = await give()
        expect(given).not.toContain(next)
        given.add(next)
      }
    }
  })

  it.runIf(FULL)('begin behind the last that the chain knows', async () => {
    await fill(XNO)
    const far = venue.wallet.keys.deriveAccount(900)
    venue.pay(far, XNO)
    fs.rmSync(indexFile())
    await venue.ctx.coins.addresses.models.addresses.deleteMany({})
    venue.setPatience()
    await fillNanoPool(venue.ctx)
    expect((await venue.invoice(1)).address_index).toBeGreaterThan(900)
  })
})
