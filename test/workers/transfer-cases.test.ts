import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { accountForSend } from '../../shared/money/reconcile.ts'
import { recordUnassigned } from '../../shared/money/record-arrival.ts'
import {
  moveTransfer,
  reinstateTransfer,
  replaceTransfer,
  storeTransfers,
} from '../../shared/money/transfer-service.ts'
import { TRANSFER_STATES, TREASURY_INDEX, type TransferRecord } from '../../shared/money/transfer.ts'
import { newId } from '../../shared/platform/ids.ts'
import { newTx, owe } from '../support/coins.ts'
import { startService, type TestService } from '../support/service.ts'
import { TRANSFER_CASES, describeTransfer, transferIn } from '../support/transfer-cases.ts'

let service: TestService
let ctx: Context
beforeAll(async () => {
  service = await startService({ queues: [] })
  ctx = service.ctx
})
afterAll(() => service.stop())

type Step = keyof typeof TRANSFER_CASES

const PLACE = { account_index: 7, previous: newTx() }
const TAKE: Record<Step, (transfer: TransferRecord) => Promise<boolean>> = {
  taken: (transfer) => moveTransfer(ctx, transfer, 'taken'),
  held: (transfer) => moveTransfer(ctx, transfer, 'held'),
  confirmed: (transfer) => moveTransfer(ctx, transfer, 'confirmed'),
  replaced: (transfer) => replaceTransfer(ctx, transfer, 'another one is in its place'),
  given_up: (transfer) => moveTransfer(ctx, transfer, 'given_up'),
  reinstated: (transfer) => reinstateTransfer(ctx, transfer, PLACE),
}

describe('a stored transfer', () => {
  it.each(Object.keys(TAKE) as Step[])(
    'comes to where the table says when it is %s, and stays in all other states',
    async (step) => {
      const found: Record<string, string> = {}
      const { transfers } = ctx.payouts.transfers.models
      for (const state of TRANSFER_STATES) {
        const transfer = transferIn(state, { _id: newId('transfer'), tx: newTx() })
        await ctx.payouts.transfers.insert([transfer])
        const isTaken = await TAKE[step](transfer)
        const stored = await ctx.payouts.transfers.find(transfer._id)
        const to = describeTransfer(stored ?? transfer)
        if (isTaken) found[state] = to
        else expect(to).toBe(describeTransfer(transfer))
        // Another one may be in flight, and have its place.
        await transfers.deleteOne({ _id: transfer._id })
      }
      expect(found).toEqual(TRANSFER_CASES[step])
    },
  )
})

describe('a transfer', () => {
  it('that is replaced leaves what it moved on at its address, in the same transaction', async () => {
    const { arrivals } = ctx.invoices
    const sweptAt = async () => (await arrivals.find('xno', tx, addressIndex))?.swept_at
    const [tx, addressIndex] = [newTx(), 0]
    await recordUnassigned(ctx, { coin: 'xno', tx, addressIndex, amountRaw: 10n ** 30n })
    const { _id = '' } = (await arrivals.find('xno', tx, addressIndex)) ?? {}
    const transfer = transferIn('signed', {
      ...{ _id: newId('transfer'), tx: newTx(), kind: 'receive', account_index: TREASURY_INDEX },
      payment_ids: [_id],
    })
    await ctx.payouts.transfers.insert([transfer])
    expect(await moveTransfer(ctx, transfer, 'confirmed')).toBe(true)
    expect(await sweptAt()).toBeGreaterThan(0)
    expect(await replaceTransfer(ctx, transfer, 'another one is in its place')).toBe(true)
    expect(await sweptAt()).toBeUndefined()
  })

  it('that pays what was paid by hand meanwhile is named to the operator until it is accounted for', async () => {
    const payout = await owe(ctx, 'xno', 10n ** 30n, 'nano_1payee')
    const ids = { _id: newId('transfer'), tx: newTx(), previous: newTx() }
    const fields = { amount_raw: payout.amount_raw, payout_ids: [payout._id] }
    const transfer = transferIn('signed', { ...ids, ...fields })
    await storeTransfers(ctx, [transfer])
    expect(await moveTransfer(ctx, transfer, 'held')).toBe(true)
    await ctx.payouts.transfers.setForeign(transfer._id)
    expect(await markPaidByHand(ctx, payout._id, newTx())).toBe(true)
    const { listPaidAgain } = ctx.payouts.transfers
    expect(await listPaidAgain('xno')).toEqual([])
    expect(await moveTransfer(ctx, transfer, 'confirmed')).toBe(true)
    expect(await listPaidAgain('xno')).toMatchObject([{ tx: transfer.tx, paid_again: [payout._id] }])
    expect(await accountForSend(ctx, 'xno', transfer.tx)).toEqual({ kind: 'explained', resumedOrderIds: [] })
    expect(await listPaidAgain('xno')).toEqual([])
    expect(await accountForSend(ctx, 'xno', transfer.tx)).toEqual({ kind: 'unknown' })
  })

  it('that paid something again is not named any more once another one has its place', async () => {
    const ids = { _id: newId('transfer'), tx: newTx(), previous: newTx() }
    const transfer = transferIn('confirmed', { ...ids, paid_again: ['out_1'] })
    await ctx.payouts.transfers.insert([transfer])
    const named = async () => (await ctx.payouts.transfers.listPaidAgain('xno')).map(({ tx }) => tx)
    expect(await named()).toEqual([transfer.tx])
    expect(await replaceTransfer(ctx, transfer, 'another one is in its place')).toBe(true)
    expect(await named()).toEqual([])
  })
})
