import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { newSalt } from '../../shared/ledger/pending.ts'
import {
  holdPayouts,
  markPaidByHand,
  oweAgain,
  undoPaidByHand,
  withdrawPayout,
} from '../../shared/money/payout-service.ts'
import { reinstateTransfer, replaceTransfer, storeTransfers } from '../../shared/money/transfer-service.ts'
import type { StoredPayout } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { newId } from '../../shared/platform/ids.ts'
import { newTx } from '../support/coins.ts'
import {
  CASES,
  EVENTS,
  IDS,
  SITUATIONS,
  nameOf,
  situation,
  type PayoutEventName,
} from '../support/payout-cases.ts'
import { startService, type TestService } from '../support/service.ts'

let service: TestService
let ctx: Context
beforeAll(async () => {
  service = await startService({ queues: [] })
  ctx = service.ctx
})
afterAll(() => service.stop())

type Ids = Record<keyof typeof IDS, string>
interface Stored {
  payout: StoredPayout
  ids: Ids
}

const newTransfer = (payoutId: string, fields: Partial<TransferRecord>): TransferRecord => ({
  ...{ _id: newId('transfer'), coin: 'xno', kind: 'payout', tx: newTx(), signed: '{}', amount_raw: '5' },
  ...{ payment_ids: [], payout_ids: [payoutId], state: 'signed', at: 1, changed_at: 1 },
  ...fields,
})

/** Stores a payout in a situation, with ids of its own. */
async function storePayout(name: string): Promise<Stored> {
  const ids = Object.fromEntries(Object.keys(IDS).map((one) => [one, newId('transfer')])) as Ids
  const own = new Map<string, string>(Object.entries(IDS).map(([one, id]) => [id, ids[one as keyof Ids]]))
  const { transfer_id: transferId, held_by: heldBy, ...fields } = situation(name)
  const payout: StoredPayout = {
    ...{ _id: newId('payout'), source: newId('payout'), coin: 'xno', agent_id: newId('agent') },
    ...{ amount_raw: '5', salt: newSalt(), at: 1, changed_at: 1, ...fields },
    ...(transferId === undefined ? {} : { transfer_id: String(own.get(transferId)) }),
    ...(heldBy === undefined ? {} : { held_by: String(own.get(heldBy)) }),
  }
  await ctx.payouts.models.payouts.create([payout])
  if (payout.transfer_id === ids.foreign)
    await ctx.payouts.transfers.insert([newTransfer(payout._id, { _id: ids.foreign, foreign: true })])
  return { payout, ids }
}

const BRING_ABOUT: Record<PayoutEventName, (stored: Stored) => Promise<unknown>> = {
  'a transfer is signed for it': ({ payout, ids }) =>
    storeTransfers(ctx, [newTransfer(payout._id, { _id: ids.own })]),
  'a send may have paid it': ({ payout, ids }) => holdPayouts(ctx, [payout._id], ids.send),
  'the operator says that no send has paid it': ({ payout }) => oweAgain(ctx, payout._id),
  'its replaced transfer is in the chain after all': async ({ payout, ids }) => {
    const transfer = newTransfer(payout._id, { _id: ids.own, state: 'replaced' })
    await ctx.payouts.transfers.insert([transfer])
    await reinstateTransfer(ctx, transfer)
  },
  'its transfer is replaced': async ({ payout, ids }) => {
    const transfer = newTransfer(payout._id, { _id: ids.own })
    await ctx.payouts.transfers.insert([transfer])
    await replaceTransfer(ctx, transfer, 'another one is in its place')
  },
  'it is paid by hand': ({ payout }) => markPaidByHand(ctx, payout._id, newTx()),
  'paid by hand is undone': ({ payout }) => undoPaidByHand(ctx, payout._id),
  'paid by hand is undone, and may stand': ({ payout, ids }) => undoPaidByHand(ctx, payout._id, ids.send),
  'its money goes elsewhere': ({ payout }) =>
    ctx.database.transaction((session) => withdrawPayout(ctx, payout._id, session)),
}

/** What is thrown for a payout to which the event cannot happen. */
const REFUSED = /so it can't be (signed|withdrawn)/

describe('a stored payout', () => {
  it.each(EVENTS)(
    'comes to where the table says when %s, and stays in all other situations',
    async (event) => {
      const found: Record<string, string> = {}
      for (const name of SITUATIONS) {
        const stored = await storePayout(name)
        await BRING_ABOUT[event](stored).catch((error: unknown) => {
          if (!REFUSED.test(String(error))) throw error
        })
        const [payout] = await ctx.payouts.findStored([stored.payout._id])
        const to = nameOf(payout ?? stored.payout, stored.ids)
        if (payout?.changed_at !== 1) found[name] = to
        else expect(to).toBe(name)
      }
      expect(found).toEqual(CASES[event])
    },
  )
})
