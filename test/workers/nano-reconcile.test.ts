import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FULL } from '../support/full.ts'
import { runVerb } from '../support/run-verb.ts'
import { newId } from '../../shared/platform/ids.ts'
import { makeReceipt } from '../../shared/about/receipt-service.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { requestPassInvoice } from '../../shared/passes/pass-purchase.ts'
import { checkInvoice } from '../../shared/money/invoice-service.ts'
import { viewCheckedInvoice, viewInvoice } from '../../shared/money/invoice-views.ts'
import { giveUnassigned } from '../../shared/money/unassigned-money.ts'
import { undoPayment } from '../../shared/money/payment-undo.ts'
import { markPaidByHand, oweAgain } from '../../shared/money/payout-service.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { findObjections } from '../../shared/operation/promote.ts'
import type { CoinDriver } from '../../shared/money/driver.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { reconcileCoin } from '../../shared/money/reconcile.ts'
import { startPool } from '../../workers/pool.ts'
import { setRate } from '../support/coins.ts'
import { takeBackup } from '../support/ledger.ts'
import { checkBooksAfterEach, checkMoney } from '../support/money.ts'
import {
  NODE_VERIFIER,
  PYTHON_VERIFIER,
  canRunPythonVerifier,
  reportToKnower,
} from '../support/run-verifier.ts'
import { listPending } from '../support/stored.ts'
import {
  DAY_RAW,
  XNO,
  nanoChain,
  openNanoVenue,
  signAndPublish,
  strangerAddress,
  type NanoVenue,
} from '../support/nano-venue.ts'
import { fillNanoPool, reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { withSigning } from '../support/signing.ts'

let venue: NanoVenue
const seals = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-seal-'))

beforeAll(async () => {
  const [SEAL_KEY_FILE, SEAL_MEMORY_FILE] = [path.join(seals, 'seal-key'), path.join(seals, 'seal-memory')]
  ensureSealKey(SEAL_KEY_FILE)
  venue = await openNanoVenue({ env: { SEAL_KEY_FILE, SEAL_MEMORY_FILE } })
})
beforeEach(() => venue.reset())
checkBooksAfterEach(
  () => venue.ctx,
  () => nanoChain(venue),
)
afterAll(async () => {
  await venue.stop()
  fs.rmSync(seals, { recursive: true })
})

const transfers = () =>
  venue.ctx.payouts.transfers.models.transfers.find({}).sort({ _id: 1 }).lean<TransferRecord[]>()
const halted = async () => (await venue.ctx.coins.findCoin('xno'))?.halted
const state = async ({ _id }: PayoutRecord) => (await venue.payout(_id)).state
const arrived = (address: string) => venue.holds(address).receivableRaw
const last = async () => {
  const found = await venue.ctx.journal.reconciliations.last('xno')
  if (found === undefined) throw new Error('nothing was reconciled')
  return found
}
/** Everything that the workers do, some times over. */
const work = async () => {
  for (let round = 0; round < 2; round++) {
    await watchNano(venue.ctx)
    await fillNanoPool(venue.ctx)
    await sweepNano(venue.ctx)
    await sendNano(venue.ctx)
  }
}
const fill = async (amountRaw: bigint) => {
  venue.pay(venue.wallet.treasury, amountRaw)
  await sweepNano(venue.ctx)
}

describe('a database restored to before a payout', () => {
  it('pays nothing again by itself, before the reconciliation and after it', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(XNO, payee)
    const restore = await takeBackup(venue.ctx)
    await work()
    expect([arrived(payee), await state(owed)]).toEqual([XNO, 'confirmed'])
    await restore()
    expect(await state(owed)).toBe('owed')
    // Whoever promotes a copy asks the node itself, and is told, before any worker has looked.
    const copy = { _id: 'copy', restored_at: 0, backup_at: 0, cluster_time: '0.0' } as const
    const objections = (drivers: CoinDriver[]) => findObjections(venue.ctx, copy, drivers)
    expect(await objections([nanoDriver(venue.ctx)])).toContainEqual(
      expect.stringMatching(/^the chain of xno, asked now, holds 1 XNO less than the books of the copy/),
    )
    venue.node.lie(() => ({ status: 500 }))
    expect(await objections([nanoDriver(venue.ctx)])).toContainEqual(
      expect.stringContaining('the node of xno gave no answer'),
    )
    venue.node.lie(null)
    expect(await objections([])).toContainEqual(expect.stringContaining('the node of xno was not asked'))
    await work()
    expect([arrived(payee), await state(owed)]).toEqual([XNO, 'owed'])
    expect((await halted())?.reason).toContain('which the database does not know')
    await reconcileNano(venue.ctx)
    expect(await halted()).toBeUndefined()
    await work()
    expect([arrived(payee), await state(owed)]).toEqual([XNO, 'held'])
    expect(await last()).toMatchObject({
      transactions: 1,
      sends: [{ to: [payee], amount_raw: String(XNO) }],
      held_payout_ids: [owed._id],
      reason: expect.stringContaining('the treasury') as string,
    })
    const [send] = (await last()).sends
    expect(await markPaidByHand(venue.ctx, owed._id, send?.tx ?? '')).toBe(true)
    await venue.ctx.payouts.transfers.setExplained('xno', send?.tx ?? '')
    const next = await venue.owe(XNO, payee)
    await work()
    expect([arrived(payee), await state(owed), await state(next)]).toEqual([2n * XNO, 'manual', 'confirmed'])
  })

  it.runIf(FULL)(
    'holds also what becomes owed again only after the reconciliation, until the operator has accounted for the send',
    async () => {
      await fill(10n * XNO)
      const payee = strangerAddress()
      const restore = await takeBackup(venue.ctx)
      await venue.owe(XNO, payee)
      await work()
      await restore()
      await work()
      await reconcileNano(venue.ctx)
      const again = await venue.owe(XNO, payee)
      const other = await venue.owe(XNO, strangerAddress())
      await work()
      expect([arrived(payee), await state(again), await state(other)]).toEqual([XNO, 'held', 'confirmed'])
      expect(venue.logged()).toContain('payouts are held')
      expect(await oweAgain(venue.ctx, again._id)).toBe(true)
      await work()
      expect([arrived(payee), await state(again)]).toEqual([XNO, 'held'])
      await venue.ctx.payouts.transfers.setExplained('xno', (await last()).sends[0]?.tx ?? '')
      expect(await oweAgain(venue.ctx, again._id)).toBe(true)
      await work()
      expect([arrived(payee), await state(again)]).toEqual([2n * XNO, 'confirmed'])
      // Held twice for the same send: the ledger takes an entry for each only where their sources differ.
      const held = (await listPending(venue.ctx.database.connection, 'payouts', again._id)).filter(
        ({ data }) => data['step'] === 'held',
      )
      expect(new Set(held.map(({ source }) => source)).size).toBe(2)
    },
  )

  it.runIf(FULL)('holds what was paid together with sums that it has forgotten', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const remembered = await venue.owe(XNO, payee)
    const restore = await takeBackup(venue.ctx)
    await venue.owe(2n * XNO, payee)
    await work()
    expect(arrived(payee)).toBe(3n * XNO)
    await restore()
    await work()
    await reconcileNano(venue.ctx)
    await work()
    expect([arrived(payee), await state(remembered)]).toEqual([3n * XNO, 'held'])
  })

  it.runIf(FULL)('knows the send of a payout that the operator paid by hand and recorded', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const byHand = await venue.owe(XNO, payee)
    const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO })
    const next = await venue.owe(2n * XNO, strangerAddress())
    await work()
    expect(await state(next)).toBe('owed')
    expect(await markPaidByHand(venue.ctx, byHand._id, tx)).toBe(true)
    await reconcileNano(venue.ctx)
    expect(await last()).toMatchObject({ transactions: 1, sends: [], held_payout_ids: [] })
    await work()
    expect([arrived(payee), await state(byHand), await state(next)]).toEqual([XNO, 'manual', 'confirmed'])
  })

  it.runIf(FULL)('confirms a block of its own that was under way in the backup', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const owed = await venue.owe(XNO, payee)
    venue.node.setAutoConfirm(null)
    await sendNano(venue.ctx)
    const restore = await takeBackup(venue.ctx)
    const [, sent] = await transfers()
    venue.node.setAutoConfirm(1)
    venue.node.confirm((sent?.tx ?? '').toUpperCase())
    await work()
    const later = await venue.owe(XNO, strangerAddress())
    await work()
    await restore()
    await work()
    await reconcileNano(venue.ctx)
    await work()
    expect([arrived(payee), await state(owed)]).toEqual([XNO, 'confirmed'])
    expect((await last()).sends).toHaveLength(1)
    expect(await venue.ctx.payouts.find(later._id)).toBeUndefined()
  })
})

describe('a database restored to before payments', () => {
  it('counts them once more to their invoices, once, and every raw is accounted for', async () => {
    const [known, other] = [await venue.invoice(2), await venue.invoice(1)]
    venue.pay(other, DAY_RAW)
    await work()
    const restore = await takeBackup(venue.ctx)
    venue.pay(known, 2n * DAY_RAW)
    venue.pay(other, DAY_RAW)
    await work()
    expect(venue.holds(venue.wallet.treasury.address)).toEqual({
      balanceRaw: 4n * DAY_RAW,
      receivableRaw: 0n,
    })
    await restore()
    expect((await venue.read(known)).received_raw).toBe('0')
    await reconcileNano(venue.ctx)
    expect((await venue.read(known)).credited_days).toBe(2)
    expect(await last()).toMatchObject({ payments: 2, sends: [], stray: [], held_payout_ids: [] })
    await work()
    await checkMoney(venue.ctx)
    expect(await venue.ctx.invoices.arrivals.listUnswept('xno', '', 10)).toEqual([])
    expect(venue.holds(venue.wallet.treasury.address)).toEqual({
      balanceRaw: 4n * DAY_RAW,
      receivableRaw: 0n,
    })
    const [entry] = await listPending(venue.ctx.database.connection, 'reconciliations', (await last())._id)
    expect(entry).toMatchObject({ kind: 'reconcile', data: { coin: 'xno', payments: 2, payouts_held: 0 } })
  })

  it.runIf(FULL)(
    'tells of money at addresses that it has forgotten, and gives none of them out again',
    async () => {
      const restore = await takeBackup(venue.ctx)
      const forgotten = [await venue.invoice(1), await venue.invoice(1)]
      const paid = forgotten.map((invoice) => venue.pay(invoice, DAY_RAW))
      await work()
      venue.pay(forgotten[0] ?? { address: '' }, DAY_RAW)
      await restore()
      await work()
      expect(await halted()).toBeDefined()
      await reconcileNano(venue.ctx)
      expect((await last()).stray).toContainEqual(
        expect.objectContaining({
          address: forgotten[0]?.address,
          address_index: forgotten[0]?.address_index,
          amount_raw: String(DAY_RAW),
        }),
      )
      // Of the one that was swept before the restore its sender is all that is left; what lies there is swept
      // as well.
      expect((await last()).stray).toContainEqual({
        ...{
          address: forgotten[1]?.address,
          address_index: forgotten[1]?.address_index,
          amount_raw: String(DAY_RAW),
          gone: true,
        },
        senders: [venue.node.genesis.address],
      })
      await work()
      expect(venue.holds(venue.wallet.treasury.address)).toEqual({
        balanceRaw: 3n * DAY_RAW,
        receivableRaw: 0n,
      })
      // The operator gives the payer of the second one what it bought.
      const instead = await venue.invoice(1)
      const give = () => giveUnassigned(venue.ctx, paid[1] ?? '', instead._id)
      const unassigned = async () => (await venue.ctx.journal.balances('xno')).get('unassigned')
      const before = await unassigned()
      const { _id: id } = await give()
      expect(
        await venue.ctx.journal.list({ invoice_id: instead._id, account: 'unassigned' }, 10),
      ).toMatchObject([{ from: 'unassigned', to: `invoice:${instead._id}`, amount_raw: String(DAY_RAW) }])
      expect(await unassigned()).toBe((before ?? 0n) - DAY_RAW)
      await undoPayment(venue.ctx, id)
      expect(await unassigned()).toBe(before)
      await give()
      expect(await unassigned()).toBe((before ?? 0n) - DAY_RAW)
      await work()
      expect((await venue.read(instead)).credited_days).toBe(1)
      expect(await venue.ctx.invoices.arrivals.listUnswept('xno', '', 10)).toEqual([])
      const fresh = await venue.invoice(1)
      expect(forgotten.map(({ address }) => address)).not.toContain(fresh.address)
      expect(fresh.address_index).toBeGreaterThan(200)
    },
  )
})

describe('money that comes to a forgotten invoice after the reconciliation', () => {
  it.runIf(FULL)('is found within the hour, for a month, is swept, and belongs to nobody', async () => {
    const restore = await takeBackup(venue.ctx)
    const forgotten = [await venue.invoice(1), await venue.invoice(1), await venue.invoice(1)]
    await fill(XNO)
    await restore()
    venue.setPatience()
    await work()
    await reconcileNano(venue.ctx)
    await work()
    const unassigned = async () => (await venue.ctx.journal.balances('xno')).get('unassigned') ?? 0n
    const before = await unassigned()
    for (const [place, hours] of [1, 24, 29 * 24].entries()) {
      venue.pay(forgotten[place] ?? { address: '' }, DAY_RAW)
      venue.advance(hours * 3_600_000)
      await setRate(venue.ctx, 'xno', '1')
      await work()
      expect([place, (await unassigned()) - before]).toEqual([place, BigInt(place + 1) * DAY_RAW])
    }
    expect(venue.logged()).toContain('no invoice on record has')
    venue.advance(48 * 3_600_000)
    await work()
    expect(await venue.ctx.coins.addresses.listForgottenDue('xno', Number.MAX_SAFE_INTEGER, 10)).toEqual([])
  })
})

describe('a reconciliation', () => {
  it.runIf(FULL)(
    'replaces a block of ours whose place another one has, and what that was to pay is owed again',
    async () => {
      await fill(10n * XNO)
      const [payee, thief] = [strangerAddress(), strangerAddress()]
      const owed = await venue.owe(XNO, payee)
      venue.node.setAutoConfirm(null)
      await sendNano(venue.ctx)
      const ours = (await transfers()).at(-1)
      venue.node.rollback((ours?.tx ?? '').toUpperCase())
      venue.node.setAutoConfirm(1)
      await signAndPublish(venue, 0, { sendTo: thief, amountRaw: 2n * XNO })
      await work()
      expect(await halted()).toBeDefined()
      await reconcileNano(venue.ctx)
      expect(await last()).toMatchObject({ sends: [{ to: [thief], amount_raw: String(2n * XNO) }] })
      await work()
      expect([arrived(payee), await state(owed)]).toEqual([XNO, 'confirmed'])
      expect((await transfers()).map(({ state: now }) => now)).toContain('replaced')
    },
  )

  it.runIf(FULL)(
    'replaces with such a block the whole run that was built on it, and each sum is paid once',
    async () => {
      await fill(10n * XNO)
      const payees = [strangerAddress(), strangerAddress(), strangerAddress()]
      const thief = strangerAddress()
      for (const payee of payees) await venue.owe(XNO, payee)
      venue.node.setAutoConfirm(null)
      await sendNano(venue.ctx)
      const run = (await transfers()).filter(({ kind }) => kind === 'payout')
      expect(run.map(({ state: now }) => now)).toEqual(['sent', 'sent', 'sent'])
      venue.node.rollback((run[0]?.tx ?? '').toUpperCase())
      venue.node.setAutoConfirm(1)
      await signAndPublish(venue, 0, { sendTo: thief, amountRaw: 2n * XNO })
      await work()
      expect(await halted()).toBeDefined()
      await reconcileNano(venue.ctx)
      await work()
      expect(payees.map(arrived)).toEqual([XNO, XNO, XNO])
      expect((await transfers()).filter(({ state: now }) => now === 'replaced')).toHaveLength(3)
    },
  )

  // holds: rules.ledger.entry_kinds.reconcile
  it.runIf(FULL)('goes through where nothing is the matter, and changes nothing but the pool', async () => {
    await fill(XNO)
    const invoice = await venue.invoice(1)
    venue.pay(invoice, DAY_RAW)
    await work()
    const before = await transfers()
    await reconcileNano(venue.ctx)
    expect(await transfers()).toEqual(before)
    expect(await last()).toMatchObject({
      transactions: 0,
      payments: 0,
      sends: [],
      stray: [],
      held_payout_ids: [],
    })
    await work()
    expect(await halted()).toBeUndefined()
    await venue.invoice(1)
  })

  it.runIf(FULL)('that was asked for is done once, however often its job runs', async () => {
    await fill(XNO)
    const { address } = venue.wallet.treasury
    const id = newId('reconciliation')
    const run = () => reconcileCoin(venue.ctx, nanoDriver(venue.ctx), address, id)
    await run()
    await fillNanoPool(venue.ctx)
    const invoice = await venue.invoice(1)
    const free = await venue.ctx.coins.addresses.countFree('xno')
    await run()
    expect([(await last())._id, await halted()]).toEqual([id, undefined])
    expect(await venue.ctx.coins.addresses.countFree('xno')).toEqual(free)
    expect(await venue.ctx.journal.reconciliations.models.reconciliations.countDocuments()).toBe(1)
    expect(invoice.address).not.toBe((await venue.invoice(1)).address)
  })

  it('whose job runs twice at once leaves the coin running', async () => {
    const id = newId('reconciliation')
    const { address } = venue.wallet.treasury
    // The second begins as the first does, and halts the coin when that one is done.
    let first: Promise<void> | undefined
    const driver = nanoDriver(venue.ctx)
    const slow = {
      ...driver,
      addresses: {
        ...driver.addresses,
        treasury: async () => {
          first ??= reconcileCoin(venue.ctx, nanoDriver(venue.ctx), address, id)
          await first
          return address
        },
      },
    }
    await reconcileCoin(venue.ctx, slow, address, id)
    expect([(await last())._id, await halted()]).toEqual([id, undefined])
  })

  it.runIf(FULL)(
    'takes the height from the node anew, so that one that was none does not stand in the way for ever',
    async () => {
      venue.node.lie(({ action }) =>
        action === 'block_count' ? '{"count":"900000","unchecked":"0","cemented":"900000"}' : undefined,
      )
      await watchNano(venue.ctx)
      venue.node.lie(null)
      await watchNano(venue.ctx)
      expect(await venue.ctx.coins.findCoin('xno')).toMatchObject({ reachable: false, height: 900_000 })
      await reconcileNano(venue.ctx)
      await watchNano(venue.ctx)
      expect(await venue.ctx.coins.findCoin('xno')).toMatchObject({
        reachable: true,
        height: venue.node.state.ledger.cementedCount,
      })
    },
  )

  it('leaves the coin halted where the node does not tell all, and may be run again', async () => {
    await fill(XNO)
    const [payee] = [strangerAddress()]
    for (let count = 0; count < 3; count++)
      await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO / 10n })
    await sweepNano(venue.ctx)
    let answers = 0
    venue.node.lie(({ action }) =>
      action === 'blocks_info' && ++answers === 2 ? { cutAfterBytes: 1 } : undefined,
    )
    await expect(reconcileNano(venue.ctx)).rejects.toThrow('blocks_info')
    expect(await halted()).toBeDefined()
    venue.node.lie(null)
    await reconcileNano(venue.ctx)
    expect([await halted(), (await last()).sends.length]).toEqual([undefined, 3])
  })

  it.runIf(FULL)('waits for a block that is not confirmed', async () => {
    venue.node.setAutoConfirm(null)
    const source = venue.pay(venue.wallet.treasury, XNO)
    await signAndPublish({ ...venue, node: { ...venue.node, confirm: () => undefined } }, 0, {
      receive: source,
      amountRaw: XNO,
    })
    await expect(reconcileNano(venue.ctx)).rejects.toThrow('is not confirmed yet')
    expect(await halted()).toBeDefined()
  })

  it.runIf(FULL)('of a chain that a known block ends is of what came after it', async () => {
    await fill(XNO)
    await signAndPublish(venue, 0, { sendTo: strangerAddress(), amountRaw: 1n })
    await reconcileNano(venue.ctx)
    expect((await last()).sends.map(({ amount_raw: raw }) => raw)).toEqual(['1'])
    expect((await transfers()).map(({ kind, amount_raw: raw }) => `${kind} ${raw}`)).toEqual([
      `receive ${XNO}`,
      'payout 1',
    ])
  })
})

describe('another seed', () => {
  /**
   * Starts the workers with a new seed: in the file of the one before, with its index file, or in a file of
   * its own.
   */
  const changeSeed = (where: 'in its place' | 'in another file') => {
    const file = venue.env['NANO_SEED_FILE'] ?? ''
    fs.writeFileSync(file, `${randomBytes(32).toString('hex')}\n`)
    if (where === 'in another file') fs.rmSync(`${file}.index`)
    venue.setPatience()
    return venue.wallet
  }
  const addressesOf = async (state: 'free' | 'retired') =>
    (await venue.ctx.coins.addresses.models.addresses.find({ coin: 'xno', state }).lean()).map(
      ({ address }) => address,
    )

  it.runIf(FULL).each([
    ['in its place', 'received'],
    ['in its place', 'receivable'],
    ['in another file', 'received'],
    ['in another file', 'receivable'],
  ] as const)(
    '%s, its money %s, signs nothing and disturbs nobody until it is taken over, and then goes on',
    async (where, money) => {
      await fill(XNO)
      const before = venue.wallet
      const paidBefore = await venue.invoice(1)
      venue.pay(paidBefore, DAY_RAW)
      await work()
      const free = await addressesOf('free')
      expect(free.length).toBeGreaterThan(0)
      const amountRaw = 5n * XNO
      const { treasury, keys } = changeSeed(where)
      const source = venue.pay(treasury, amountRaw)
      if (money === 'received') await signAndPublish(venue, 0, { receive: source, amountRaw })
      await fillNanoPool(venue.ctx)
      await sweepNano(venue.ctx)
      const signed = (await transfers()).length
      await work()
      expect([await halted(), (await transfers()).length]).toEqual([undefined, signed])
      await expect(reconcileCoin(venue.ctx, nanoDriver(venue.ctx))).rejects.toThrow(
        `This wallet has the treasury ${treasury.address}, and not ${before.treasury.address}`,
      )
      await reconcileNano(venue.ctx)
      expect(await venue.ctx.coins.findCoin('xno')).toMatchObject({ treasury_address: treasury.address })
      const payee = strangerAddress()
      const owed = await venue.owe(2n * XNO, payee)
      await work()
      expect([await halted(), await state(owed), arrived(payee)]).toEqual([undefined, 'confirmed', 2n * XNO])
      const invoice = await venue.invoice(1)
      expect(invoice.address).toBe(keys.deriveAccount(invoice.address_index).address)
      expect(free.filter((address) => address === invoice.address)).toEqual([])
      expect(await addressesOf('retired')).toEqual(expect.arrayContaining(free))
      venue.pay(invoice, DAY_RAW)
      await work()
      expect((await venue.read(invoice)).credited_days).toBe(1)
      expect(venue.holds(treasury.address).balanceRaw).toBe(amountRaw - 2n * XNO + DAY_RAW)
      await reconcileNano(venue.ctx)
      expect(await last()).toMatchObject({ transactions: 0, held_payout_ids: [] })
    },
  )

  it.runIf(FULL)(
    'pays anew what a block of the one before can pay no more, and leaves to the operator what one still may',
    async () => {
      await fill(10n * XNO)
      const before = venue.wallet
      const [payee, other] = [strangerAddress(), strangerAddress()]
      const owed = await venue.owe(XNO, payee)
      const putUnderWay = async () => {
        venue.node.setAutoConfirm(null)
        await sendNano(venue.ctx)
        venue.node.rollback(((await transfers()).at(-1)?.tx ?? '').toUpperCase())
        venue.node.setAutoConfirm(1)
      }
      await putUnderWay()
      const next = changeSeed('in its place')
      // The operator moves the treasury by hand.
      await signAndPublish({ ...venue, wallet: before }, 0, {
        sendTo: next.treasury.address,
        amountRaw: 9n * XNO,
      })
      await reconcileNano(venue.ctx)
      expect((await last()).sends).toEqual([])
      await work()
      expect([await state(owed), arrived(payee), venue.holds(next.treasury.address).balanceRaw]).toEqual([
        'confirmed',
        XNO,
        8n * XNO,
      ])
      const unsure = await venue.owe(XNO, other)
      await putUnderWay()
      changeSeed('in its place')
      await reconcileNano(venue.ctx)
      const later = await venue.owe(XNO, strangerAddress())
      await fill(2n * XNO)
      await work()
      expect([await state(unsure), arrived(other), await state(later)]).toEqual(['held', 0n, 'confirmed'])
      expect(venue.logged()).toContain('a block of another seed is not in the chain')
    },
  )

  it.runIf(FULL)(
    'shows the open invoices of the one before as not payable, and money that still comes there is late',
    async () => {
      const old = await venue.invoice(1)
      const order = await venue.invoice(1)
      changeSeed('in its place')
      await reconcileNano(venue.ctx)
      await work()
      const { checked } = await checkInvoice(venue.ctx, old.agent_id, old._id)
      expect(viewCheckedInvoice(checked)).toMatchObject({
        status: 'awaiting_payment',
        not_payable: expect.stringContaining('pay nothing to it') as string,
      })
      const { invoice } = await requestPassInvoice(venue.ctx, old.agent_id, 'xno', 1)
      expect(viewInvoice(invoice)).not.toHaveProperty('not_payable')
      expect(invoice.address).toBe(venue.wallet.keys.deriveAccount(invoice.address_index).address)
      venue.pay(old, DAY_RAW)
      await watchNano(venue.ctx)
      expect(await venue.ctx.invoices.arrivals.listPayments(old._id)).toMatchObject([
        { state: 'seen', late: true },
      ])
      expect((await venue.read(order)).foreign).toBe(true)
      venue.advance(2 * 3_600_000)
      await work()
      expect(await venue.ctx.invoices.arrivals.listPayments(old._id)).toMatchObject([
        { state: 'settled', late: true },
      ])
    },
  )

  // holds: rules.market.steps.unpayable
  it.runIf(FULL)(
    'ends the orders that wait for a payment to the one before, and none whose payment is under way',
    async () => {
      const [{ order, invoice }, { order: paid, invoice: own }] = [await venue.order(), await venue.order()]
      venue.pay(own, BigInt(own.amount_raw))
      await watchNano(venue.ctx)
      changeSeed('in its place')
      await reconcileNano(venue.ctx)
      await work()
      const found = await venue.ctx.orders.find(order._id)
      expect([found?.status, found?.pending?.at(-1)?.data['step']]).toEqual(['expired', 'unpayable'])
      expect((await venue.ctx.orders.find(paid._id))?.status).toBe('paid')
      venue.pay(invoice, XNO)
      venue.advance(2 * 3_600_000)
      await watchNano(venue.ctx)
      expect(await venue.ctx.payouts.listByOrder(order._id)).toMatchObject([
        { amount_raw: String(XNO), agent_id: order.buyer_id },
      ])
    },
  )

  it.runIf(FULL)('may give way to the one before again', async () => {
    await fill(XNO)
    const file = venue.env['NANO_SEED_FILE'] ?? ''
    const first = fs.readFileSync(file, 'utf8')
    const open = await venue.invoice(1)
    changeSeed('in its place')
    await reconcileNano(venue.ctx)
    await fill(XNO)
    const foreign = async () => (await venue.read(open)).foreign
    expect(await foreign()).toBe(true)
    fs.writeFileSync(file, first)
    venue.setPatience()
    await work()
    expect(await foreign()).toBe(true)
    await reconcileNano(venue.ctx)
    expect(await foreign()).toBeUndefined()
    const owed = await venue.owe(XNO / 2n, strangerAddress())
    await work()
    expect([await halted(), await state(owed)]).toEqual([undefined, 'confirmed'])
  })
})

describe('the operator', () => {
  // holds: rules.ledger.entry_kinds.reconcile
  it.runIf(FULL)('reconciles, is shown what waits, decides about each, and everything goes on', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const [paid, unpaid] = [await venue.owe(XNO, payee), await venue.owe(2n * XNO, payee)]
    const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO })
    await work()
    const pool = startPool(withSigning(venue.ctx), ['reconcile-nano'])
    try {
      const dry = await operator('reconcile', 'xno', '--dry-run')
      expect(dry).toMatchObject({
        exitCode: 0,
        answer: { dry_run: true, halted: expect.stringContaining('the treasury') as string },
      })
      expect(await halted()).toBeDefined()
      const done = await operator('reconcile', 'xno')
      expect(done).toMatchObject({
        exitCode: 0,
        answer: {
          ...{ ok: true, transactions_found: 1, payouts_held: 2, sends: [{ tx, to: [payee] }] },
          ...{ treasury_before: venue.wallet.treasury.address, treasury: venue.wallet.treasury.address },
        },
      })
      expect(await halted()).toBeUndefined()
      // Whoever did not wait for the end asks what waits.
      expect(await operator('reconcile', 'xno', '--dry-run')).toMatchObject({
        answer: { halted: null, sends: [{ tx, to: [payee], amount_raw: String(XNO) }] },
      })
      expect(await operator('payout-paid', paid._id, tx)).toMatchObject({ exitCode: 0 })
      expect(await operator('reconcile', 'xno', '--explained', tx, '--dry-run')).toMatchObject({
        exitCode: 0,
        answer: { dry_run: true },
      })
      expect(await venue.ctx.payouts.transfers.listUnexplained('xno')).toHaveLength(1)
      expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({
        exitCode: 0,
        answer: { explained: true, ledger_entry: 'reconcile' },
      })
      const [{ _id: transferId } = { _id: '' }] = await venue.ctx.payouts.transfers.listByTx('xno', [tx])
      const { _id: reconciliationId } = await last()
      const entries = await listPending(venue.ctx.database.connection, 'reconciliations', reconciliationId)
      expect(entries.map(({ kind }) => kind)).toEqual(['reconcile', 'reconcile'])
      expect(entries[1]?.data).toEqual({
        reconciliation_id: reconciliationId,
        step: 'explained',
        coin: 'xno',
        transfer_id: transferId,
      })
      await sequencePending(venue.ctx, { useLease: false })
      await makeSeal(venue.ctx, { useLease: false })
      await signSeals(withSigning(venue.ctx))
      await expectReceiptToVerify(reconciliationId)
      expect(await operator('reconcile', 'xno', '--owed', unpaid._id, '--dry-run')).toMatchObject({
        exitCode: 0,
      })
      expect(await state(unpaid)).toBe('held')
      expect(await operator('reconcile', 'xno', '--owed', unpaid._id)).toMatchObject({
        exitCode: 0,
        answer: { state: 'owed' },
      })
      await work()
      expect([await state(paid), await state(unpaid), arrived(payee)]).toEqual([
        'manual',
        'confirmed',
        3n * XNO,
      ])
      expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({
        exitCode: 1,
        answer: { error: 'wrong_state' },
      })
      expect(await operator('reconcile', 'xno', '--owed', paid._id)).toMatchObject({
        exitCode: 1,
        answer: { error: 'wrong_state' },
      })
      expect(await operator('reconcile', 'btc')).toMatchObject({ exitCode: 2 })
      expect(await operator('reconcile', 'xmr')).toMatchObject({
        exitCode: 1,
        answer: { error: 'wrong_state' },
      })
    } finally {
      await pool.close()
    }
  })
})

describe('reconcile --owed', () => {
  it('is refused while a transaction that was found sent its address more than is recorded for it', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const [paid, unpaid] = [await venue.owe(XNO, payee), await venue.owe(XNO, payee)]
    const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: XNO })
    await work()
    await reconcileNano(venue.ctx)
    const refused = {
      exitCode: 1,
      answer: { error: 'wrong_state', message: expect.stringContaining(tx) as string },
    }
    for (const { _id } of [paid, unpaid])
      for (const flags of [['--dry-run'], []])
        expect(await operator('reconcile', 'xno', '--owed', _id, ...flags)).toMatchObject(refused)
    await work()
    expect([await state(paid), await state(unpaid), arrived(payee)]).toEqual(['held', 'held', XNO])
    await operator('payout-paid', paid._id, tx)
    expect(await operator('reconcile', 'xno', '--owed', unpaid._id)).toMatchObject({
      answer: { state: 'owed' },
    })
    expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({ exitCode: 0 })
    await work()
    expect([await state(paid), await state(unpaid), arrived(payee)]).toEqual([
      'manual',
      'confirmed',
      2n * XNO,
    ])
  })

  it('is taken of what the database has forgotten, with --forgotten', async () => {
    await fill(10n * XNO)
    const payee = strangerAddress()
    const tx = await signAndPublish(venue, 0, { sendTo: payee, amountRaw: 3n * XNO })
    const owed = await venue.owe(XNO, payee)
    await work()
    await reconcileNano(venue.ctx)
    expect(await operator('reconcile', 'xno', '--owed', owed._id)).toMatchObject({ exitCode: 1 })
    expect(await operator('reconcile', 'xno', '--owed', owed._id, '--forgotten')).toMatchObject({
      answer: { state: 'owed' },
    })
    expect(await operator('reconcile', 'xno', '--explained', tx)).toMatchObject({ exitCode: 0 })
    await work()
    expect([await state(owed), arrived(payee)]).toEqual(['confirmed', 4n * XNO])
  })
})

async function expectReceiptToVerify(id: string): Promise<void> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-receipt-'))
  const file = path.join(folder, 'receipt.json')
  fs.writeFileSync(file, JSON.stringify(await makeReceipt(venue.ctx, id)))
  for (const verifier of canRunPythonVerifier() ? [NODE_VERIFIER, PYTHON_VERIFIER] : [NODE_VERIFIER])
    expect(await reportToKnower(verifier, [file], folder)).toMatchObject({ ok: true, code: 0 })
  fs.rmSync(folder, { recursive: true })
}

async function operator(...argv: string[]) {
  const { exitCode, json: answer } = await runVerb(venue.env, argv)
  return { exitCode, answer }
}
