import { describe, expect, it, vi } from 'vitest'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { recordPayment } from '../../shared/money/record-arrival.ts'
import { MINUTE_MS } from '../../shared/platform/time.ts'
import { FULL, sampled } from '../support/full.ts'
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
import { sweepNano, watchNano } from '../support/nano-jobs.ts'

const LIMIT = { timeout: 60_000 }

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened))

const transfers = (): Promise<TransferRecord[]> =>
  venue.ctx.payouts.transfers.models.transfers.find({}).sort({ _id: 1 }).lean<TransferRecord[]>()
const unswept = () => venue.ctx.invoices.arrivals.listUnswept('xno', '', 100)
const halted = async () => (await venue.ctx.coins.findCoin('xno'))?.halted
const treasury = () => venue.holds(venue.wallet.treasury.address)
const paid = async (amountRaw: bigint = DAY_RAW) => {
  const invoice = await venue.invoice(1)
  venue.pay(invoice, amountRaw)
  await watchNano(venue.ctx)
  return invoice
}

describe('sweeping', () => {
  it('brings every raw of every payment into the treasury, in the least number of blocks', async () => {
    const amounts = [DAY_RAW, 3n * DAY_RAW + 7n, 10n ** 26n]
    const invoices = []
    for (const amountRaw of amounts) invoices.push(await paid(amountRaw))
    const [twice] = invoices
    if (twice !== undefined) venue.pay(twice, 5n * DAY_RAW)
    await watchNano(venue.ctx)
    await sweepNano(venue.ctx)
    const total = amounts.reduce((sum, amountRaw) => sum + amountRaw, 5n * DAY_RAW)
    expect(treasury()).toEqual({ balanceRaw: total, receivableRaw: 0n })
    for (const invoice of invoices)
      expect(venue.holds(invoice.address)).toEqual({ balanceRaw: 0n, receivableRaw: 0n })
    expect(await unswept()).toEqual([])
    const kinds = (await transfers()).map(
      ({ kind, account_index: index, state }) => `${index === 0 ? 'treasury' : 'invoice'} ${kind} ${state}`,
    )
    expect(kinds.toSorted()).toEqual([
      ...Array.from({ length: 4 }, () => 'invoice receive confirmed'),
      ...Array.from({ length: 3 }, () => 'invoice sweep confirmed'),
      ...Array.from({ length: 3 }, () => 'treasury receive confirmed'),
    ])
    expect(await venue.ctx.coins.findCoin('xno')).toMatchObject({
      treasury_address: venue.wallet.treasury.address,
      treasury_raw: String(total),
    })
    venue.node.resetCalls()
    await sweepNano(venue.ctx)
    expect([venue.node.calls('process'), await halted()]).toEqual([0, undefined])
  })

  it.runIf(FULL)(
    'leaves what is worth less than its blocks where it is, until more has come there',
    async () => {
      const invoice = await venue.invoice(1)
      const millionth = 10n ** 24n
      venue.pay(invoice, millionth)
      venue.pay(venue.wallet.treasury, millionth)
      await watchNano(venue.ctx)
      expect(await unswept()).toHaveLength(1)
      venue.node.resetCalls()
      await sweepNano(venue.ctx)
      expect([venue.node.calls('process'), venue.node.calls('work_generate')]).toEqual([0, 0])
      venue.pay(invoice, DAY_RAW)
      await watchNano(venue.ctx)
      await sweepNano(venue.ctx)
      expect([await unswept(), treasury().balanceRaw]).toEqual([[], DAY_RAW + millionth])
    },
  )

  it.runIf(FULL)(
    'asks the database for next to nothing while the node has lost the treasury’s chain, however long that is',
    async () => {
      for (let count = 0; count < 12; count++) venue.pay(venue.wallet.treasury, DAY_RAW)
      await sweepNano(venue.ctx)
      expect((await transfers()).length).toBeGreaterThanOrEqual(12)
      venue.node.lie(({ action }) => {
        if (action === 'account_info') return '{"error": "Account not found"}'
        if (action === 'process') return '{"error": "Gap source block"}'
        return action === 'blocks_info' ? '{"blocks": {}, "blocks_not_found": []}' : undefined
      })
      let asked = 0
      const { payouts } = venue.ctx
      const { transfers: store } = payouts
      const findSuccessor: typeof store.findSuccessor = (...place) => {
        asked++
        return store.findSuccessor(...place)
      }
      await sweepNano({
        ...venue.ctx,
        payouts: { ...payouts, transfers: { ...store, findSuccessor } },
      })
      expect(asked).toBeLessThan(12)
      venue.node.lie(null)
      await sweepNano(venue.ctx)
      expect(await halted()).toBeUndefined()
    },
  )

  it.runIf(FULL)('goes on with money that comes after an account was emptied', async () => {
    const invoice = await paid()
    await sweepNano(venue.ctx)
    venue.pay(invoice, 2n * DAY_RAW)
    await watchNano(venue.ctx)
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: 3n * DAY_RAW, receivableRaw: 0n })
    expect((await transfers()).every(({ state }) => state === 'confirmed')).toBe(true)
  })

  it.runIf(FULL)(
    'leaves alone what was not counted yet: nothing leaves the list that the watcher reads',
    async () => {
      const [counted, uncounted] = [await paid(), await venue.invoice(1)]
      venue.pay(uncounted, DAY_RAW)
      venue.pay(counted, 3n * DAY_RAW)
      await sweepNano(venue.ctx)
      expect(venue.holds(uncounted.address)).toEqual({ balanceRaw: 0n, receivableRaw: DAY_RAW })
      expect(venue.holds(counted.address)).toEqual({ balanceRaw: 0n, receivableRaw: 3n * DAY_RAW })
      await watchNano(venue.ctx)
      expect((await venue.read(counted)).received_raw).toBe(String(4n * DAY_RAW))
      await sweepNano(venue.ctx)
      expect(treasury()).toEqual({ balanceRaw: 5n * DAY_RAW, receivableRaw: 0n })
    },
  )

  it.runIf(FULL)('does not find its own sweeps as payments', async () => {
    await paid()
    await sweepNano(venue.ctx)
    await watchNano(venue.ctx)
    expect(await venue.ctx.invoices.arrivals.models.payments.countDocuments()).toBe(1)
  })

  it('takes in what the operator sends to the treasury, and no dust', async () => {
    venue.pay(venue.wallet.treasury, XNO)
    venue.pay(venue.wallet.treasury, 10n ** 24n - 1n)
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: XNO, receivableRaw: 10n ** 24n - 1n })
  })

  it.runIf(FULL)(
    'takes in what is sent to the treasury behind any number of larger sends that it cannot prove, and says those once',
    async () => {
      const { address } = venue.wallet.treasury
      // More than are looked at in one round.
      venue.node.fundMany(Array.from({ length: 200 }, () => ({ address, amountRaw: 2n * XNO })))
      venue.pay(venue.wallet.treasury, XNO)
      for (let round = 0; round < 3; round++) await sweepNano(venue.ctx)
      expect(treasury()).toEqual({ balanceRaw: XNO, receivableRaw: 400n * XNO })
      expect(venue.logged().split('lists a send that its blocks do not prove')).toHaveLength(201)
    },
  )

  it.runIf(FULL)('votes with the representative that is set, and without one with the treasury', async () => {
    await paid()
    await sweepNano(venue.ctx)
    const [first] = await transfers()
    expect(JSON.parse(first?.signed ?? '')).toMatchObject({ representative: venue.wallet.treasury.address })
  })

  it.runIf(FULL)('skips a payment that the operator recorded with a transaction that is none', async () => {
    const invoice = await venue.invoice(1)
    const recorded = {
      coin: 'xno',
      tx: 'ab'.repeat(32),
      addressIndex: invoice.address_index,
      amountRaw: DAY_RAW,
      confirmations: 1,
      isConfirmed: true,
    } as const
    await recordPayment(venue.ctx, recorded, 'operator')
    await paid()
    await sweepNano(venue.ctx)
    expect((await unswept()).map(({ invoice_id }) => invoice_id)).toEqual([invoice._id])
    expect(treasury().balanceRaw).toBe(DAY_RAW)
  })

  it.runIf(FULL)(
    'finds what it can sweep behind any number of payments of the same account that it cannot',
    async () => {
      const invoice = await venue.invoice(1)
      const recorded = {
        coin: 'xno',
        addressIndex: invoice.address_index,
        amountRaw: DAY_RAW,
        confirmations: 1,
        isConfirmed: true,
      } as const
      for (let count = 0; count < 101; count++)
        await recordPayment(venue.ctx, { ...recorded, tx: String(count).padStart(64, 'a') }, 'operator')
      for (let count = 0; count < 2; count++) venue.pay(invoice, DAY_RAW)
      await watchNano(venue.ctx)
      await sweepNano(venue.ctx)
      expect(treasury().balanceRaw).toBe(2n * DAY_RAW)
      expect((await transfers()).map(({ kind }) => kind)).toEqual(['receive', 'receive', 'sweep', 'receive'])
      expect(
        await venue.ctx.invoices.arrivals.listUnsweptAt('xno', invoice.address_index, '', 200),
      ).toHaveLength(101)
    },
  )

  it.runIf(FULL)(
    'takes in what lies at the treasury also where the accounts of invoices use all of their time up',
    async () => {
      await paid()
      venue.pay(venue.wallet.treasury, XNO)
      let shiftMs = 0
      const now = performance.now.bind(performance)
      vi.spyOn(performance, 'now').mockImplementation(() => now() + shiftMs)
      // The accounts are listed, and a minute has gone.
      venue.node.lie(({ action }) => void (action === 'blocks_info' && (shiftMs = 61_000)))
      try {
        await sweepNano(venue.ctx)
      } finally {
        vi.restoreAllMocks()
      }
      expect((await transfers()).map(({ kind, account_index: index }) => `${index} ${kind}`)).toEqual([
        '0 receive',
      ])
      expect(treasury().balanceRaw).toBe(XNO)
    },
  )
})

describe('a block of ours', () => {
  /**
   * Rounds one after the other, as in service: each waits 5 s for the network, however slow what is done
   * meanwhile. @returns what ends them
   */
  function keepSweeping(): () => Promise<void> {
    let isEnding = false
    const rounds = (async () => {
      do await sweepNano(venue.ctx)
      while (!isEnding)
    })()
    rounds.catch(() => undefined) // it is awaited at their end
    return () => {
      isEnding = true
      return rounds
    }
  }

  it('stands in one run at a time: the next is signed when all of the one before is confirmed', async () => {
    venue.node.setAutoConfirm(null)
    const invoice = await paid()
    venue.pay(invoice, XNO)
    await watchNano(venue.ctx)
    const more = venue.pay(invoice, XNO)
    // They wait for confirmations that do not come; meanwhile what they do is looked at.
    const endRounds = keepSweeping()
    const run = async () => (await transfers()).map(({ kind, state }) => `${kind} ${state}`)
    await expect.poll(run, LIMIT).toEqual(['receive sent', 'receive sent', 'sweep sent'])
    const [receive] = await transfers()
    await watchNano(venue.ctx)
    expect(await unswept()).toMatchObject({ length: 3, 2: { tx: more } })
    venue.node.confirm((receive?.tx ?? '').toUpperCase())
    await expect.poll(run, LIMIT).toEqual(['receive confirmed', 'receive sent', 'sweep sent'])
    venue.node.setAutoConfirm(1)
    venue.node.confirm(((await transfers()).at(-1)?.tx ?? '').toUpperCase())
    await expect.poll(treasury, LIMIT).toEqual({ balanceRaw: DAY_RAW + 2n * XNO, receivableRaw: 0n })
    await endRounds()
    expect(
      (await transfers()).filter(({ account_index: index }) => index !== 0).map(({ kind }) => kind),
    ).toEqual([...['receive', 'receive', 'sweep'], ...['receive', 'sweep']])
    expect(treasury()).toEqual({ balanceRaw: DAY_RAW + 2n * XNO, receivableRaw: 0n })
  })

  it('is published again, the same one, after the answer to it was lost', async () => {
    await paid()
    venue.node.lie(({ action }) => (action === 'process' ? { cutAfterBytes: 3 } : undefined))
    for (let round = 0; round < 4; round++) await sweepNano(venue.ctx)
    venue.node.lie(null)
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
    const chain = await transfers()
    expect(new Set(chain.map(({ account_index, previous }) => `${account_index} ${previous}`)).size).toBe(
      chain.length,
    )
    expect(chain.map(({ kind }) => kind)).toEqual(['receive', 'sweep', 'receive'])
  })

  it.runIf(FULL)(
    'is not believed refused where the node has it: a send that is sent again is not an error',
    async () => {
      await paid()
      let refusals = 0
      // The block is taken, and the answer is the one to a second publication.
      venue.node.lie(({ action }) => {
        if (action !== 'process') return undefined
        refusals++
        return '{"error": "Invalid block balance for given subtype"}'
      })
      await sweepNano(venue.ctx)
      expect(treasury()).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
      expect(refusals).toBe(3)
      expect(venue.logged()).not.toContain('does not take a block of ours')
    },
  )

  it.runIf(FULL)('that the network rolled back is published again', async () => {
    venue.node.setAutoConfirm(null)
    await paid()
    const round = sweepNano(venue.ctx)
    await expect
      .poll(async () => (await transfers()).map(({ state }) => state), LIMIT)
      .toEqual(['sent', 'sent'])
    const [receive] = await transfers()
    const hash = (receive?.tx ?? '').toUpperCase()
    venue.node.rollback(hash)
    await expect.poll(() => venue.node.state.ledger.blocks.has(hash), LIMIT).toBe(false)
    await round
    venue.node.setAutoConfirm(1)
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
    expect(await transfers()).toHaveLength(3)
  })

  it.runIf(FULL)(
    'that the node refuses for long is held, said, and offered again until the node takes it',
    async () => {
      await paid()
      venue.node.setAutoConfirm(null)
      // The stand-in carries a request out before it lies about it, so what it took is taken out again.
      const { ledger } = venue.node.state
      venue.node.lie(({ action, answerText }) => {
        if (action !== 'process') return undefined
        const { hash } = JSON.parse(answerText) as { hash?: string }
        if (hash !== undefined) venue.node.rollback(hash)
        return '{"error": "Balance and amount delta do not match"}'
      })
      await sweepNano(venue.ctx)
      expect(await transfers()).toMatchObject([{ state: 'signed' }, { state: 'signed' }])
      venue.advance(11 * MINUTE_MS)
      await sweepNano(venue.ctx)
      expect(await transfers()).toMatchObject([
        { state: 'held', reason: 'it is refused: Balance and amount delta do not match' },
        { state: 'signed' },
      ])
      expect(venue.logged()).toContain('has been refused for long')
      venue.node.lie(null)
      const [held] = await transfers()
      venue.advance(6 * MINUTE_MS)
      venue.node.setAutoConfirm(1)
      await sweepNano(venue.ctx)
      expect(ledger.blocks.get((held?.tx ?? '').toUpperCase())?.confirmed).toBe(true)
      expect(treasury()).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
    },
  )

  it.runIf(FULL)('whose work the node finds too weak gets new work and stays the same block', async () => {
    await paid()
    let offers = 0
    venue.node.lie(({ action }) => {
      if (action !== 'process' || ++offers > 1) return undefined
      return '{"error": "Block work is less than threshold"}'
    })
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
    expect(await transfers()).toHaveLength(3)
  })
})

describe('a chain that the database does not know', () => {
  it('of the treasury halts everything', async () => {
    await signAndPublish(venue, 0, { receive: venue.pay(venue.wallet.treasury, XNO), amountRaw: XNO })
    await paid()
    await sweepNano(venue.ctx)
    expect((await halted())?.reason).toContain('the last block of the treasury')
    expect(venue.logged()).toContain('Nano is halted')
    const before = await transfers()
    await sweepNano(venue.ctx)
    expect(await transfers()).toEqual(before)
    await expect(venue.invoice(1)).rejects.toMatchObject({ code: 'currency_not_configured' })
  })

  it("of an invoice's account halts everything", async () => {
    const invoice = await paid()
    const [payment] = await unswept()
    await signAndPublish(venue, invoice.address_index, { receive: payment?.tx ?? '', amountRaw: DAY_RAW })
    await signAndPublish(venue, invoice.address_index, { sendTo: strangerAddress(), amountRaw: DAY_RAW })
    await sweepNano(venue.ctx)
    expect((await halted())?.reason).toContain(`the last block of account ${invoice.address_index}`)
  })

  it.runIf(FULL)(
    'that receives in the place of a block of ours replaces it, and the money is swept on top of it',
    async () => {
      venue.node.setAutoConfirm(null)
      const invoice = await paid()
      const [payment] = await unswept()
      const round = sweepNano(venue.ctx)
      await expect
        .poll(async () => (await transfers()).map(({ state }) => state), LIMIT)
        .toEqual(['sent', 'sent'])
      const [ours] = await transfers()
      venue.node.rollback((ours?.tx ?? '').toUpperCase())
      const rival = { ...venue, wallet: { ...venue.wallet, treasury: venue.wallet.keys.deriveAccount(7) } }
      await signAndPublish(rival, invoice.address_index, { receive: payment?.tx ?? '', amountRaw: DAY_RAW })
      await round
      await sweepNano(venue.ctx)
      expect(await halted()).toBeUndefined()
      expect((await transfers()).filter(({ state }) => state === 'replaced')).toHaveLength(2)
    },
  )

  it.runIf(FULL)(
    'may end in a block by which the network raised its version: that moves nothing and is not unknown',
    async () => {
      const old = await openNanoVenue({ node: { genesisEpoch: 1 } })
      try {
        const invoice = await old.invoice(1)
        old.pay(invoice, DAY_RAW)
        await watchNano(old.ctx)
        await sweepNano(old.ctx)
        for (const address of [old.wallet.treasury.address, invoice.address]) raiseVersion(old.node, address)
        old.pay(invoice, 2n * DAY_RAW)
        await watchNano(old.ctx)
        await sweepNano(old.ctx)
        expect((await old.ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
        expect(old.holds(old.wallet.treasury.address)).toEqual({
          balanceRaw: 3n * DAY_RAW,
          receivableRaw: 0n,
        })
      } finally {
        await old.stop()
      }
    },
  )

  it.runIf(FULL)('is waited for where the node is behind it', async () => {
    const invoice = await paid()
    await sweepNano(venue.ctx)
    venue.pay(invoice, DAY_RAW)
    await watchNano(venue.ctx)
    const blocks = (await transfers()).length
    // It has neither the account nor any block of it.
    venue.node.lie(({ action, requestText, answerText }) => {
      if (action === 'account_info' && requestText.includes(invoice.address))
        return '{"error": "Account not found"}'
      if (action !== 'blocks_info') return undefined
      const answer = JSON.parse(answerText) as {
        blocks: Record<string, { block_account: string }>
        blocks_not_found?: string[]
      }
      const lacking = Object.keys(answer.blocks).filter(
        (hash) => answer.blocks[hash]?.block_account === invoice.address,
      )
      for (const hash of lacking) delete answer.blocks[hash]
      return JSON.stringify({ ...answer, blocks_not_found: [...(answer.blocks_not_found || []), ...lacking] })
    })
    await sweepNano(venue.ctx)
    expect([(await transfers()).length, await halted()]).toEqual([blocks, undefined])
    expect(venue.logged()).toContain('it is published again')
    venue.node.lie(null)
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: 2n * DAY_RAW, receivableRaw: 0n })
  })
})

describe('a node in trouble', () => {
  it.each(
    sampled([
      ['down', () => venue.node.setDown(true), () => venue.node.setDown(false)],
      [
        'hanging',
        () => {
          venue.setPatience(500)
          venue.node.setHanging(true)
        },
        () => {
          venue.node.setHanging(false)
          venue.setPatience()
        },
      ],
      [
        'without work',
        () =>
          venue.node.lie(({ action }) =>
            action === 'work_generate' ? '{"error": "Local work generation is disabled"}' : undefined,
          ),
        () => venue.node.lie(null),
      ],
      [
        'giving weak work',
        () =>
          venue.node.lie(({ action }) =>
            action === 'work_generate' ? '{"work": "0000000000000001"}' : undefined,
          ),
        () => venue.node.lie(null),
      ],
    ]),
  )('that is %s loses nothing and fails nothing for good', async (_, begin, end) => {
    await paid()
    await begin()
    await sweepNano(venue.ctx)
    await sweepNano(venue.ctx)
    await end()
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: DAY_RAW, receivableRaw: 0n })
    expect((await transfers()).map(({ state }) => state)).toEqual(['confirmed', 'confirmed', 'confirmed'])
  })

  it.runIf(FULL)(
    "that refuses or misleads is told of, and one that is away is the watcher's to tell of",
    async () => {
      const warnings = () =>
        venue
          .logged()
          .split('\n')
          .filter((line) => line.includes('ended early') && line.includes('"level":40'))
      await paid()
      await venue.node.setDown(true)
      await watchNano(venue.ctx)
      await sweepNano(venue.ctx)
      await venue.node.setDown(false)
      await watchNano(venue.ctx)
      expect(warnings()).toEqual([])
      venue.node.lie(({ action }) =>
        action === 'blocks_info' ? '{"error": "RPC control is disabled"}' : undefined,
      )
      await sweepNano(venue.ctx)
      expect(warnings()).toHaveLength(1)
      // The watcher has its news, so nobody else tells of what a sweep alone is not told.
      venue.node.lie(({ action }) => (action === 'account_info' ? '{"frontier": 7}' : undefined))
      await sweepNano(venue.ctx)
      expect(warnings()).toHaveLength(2)
    },
  )

  it.runIf(FULL)('about one account holds no other account up', async () => {
    const [bad] = [await paid(), await paid(), await paid()]
    venue.node.lie(({ action, requestText }) =>
      action === 'account_info' && requestText.includes(bad.address) ? '{"frontier": 7}' : undefined,
    )
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: 2n * DAY_RAW, receivableRaw: 0n })
    venue.node.lie(null)
    await sweepNano(venue.ctx)
    expect(treasury()).toEqual({ balanceRaw: 3n * DAY_RAW, receivableRaw: 0n })
  })
})
