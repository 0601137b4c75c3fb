import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { moveTransfer, reinstateTransfer, replaceTransfer } from '../../shared/money/transfer-service.ts'
import { TRANSFER_STATES, type TransferRecord } from '../../shared/money/transfer.ts'
import { newId } from '../../shared/platform/ids.ts'
import { newTx } from '../support/coins.ts'
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
