import { usageError } from '../../client/command/command-error.ts'
import { formatTime } from '../../client/command/format.ts'
import { flagOption } from '../../client/command/verb.ts'
import type { Context } from '../../shared/context.ts'
import {
  giveUnassigned,
  keepUnassigned,
  returnUnassigned,
  undoReturn,
} from '../../shared/money/unassigned-money.ts'
import type { ArrivalRecord } from '../../shared/money/arrival.ts'
import { TREASURY_INDEX } from '../../shared/money/transfer.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { formatAmountOf, showDone } from './output.ts'
import { rehearseIf } from './rehearse.ts'
import { defineOperatorVerb, limitOf, limitOption, type OperatorVerb, type VerbOutput } from './verb.ts'

export const unassignedVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'unassigned',
    words: ['[ACT]', '[TX]', '[TO]'],
    options: {
      undo: flagOption('with return, while nothing of it is signed, or keep: take that back'),
      ...limitOption(),
    },
    help: 'Money that came to an address of ours and belongs to no invoice; ACT is give (count what TX brought as a payment of the invoice TO), return (send it to the address TO) or keep (it is what you put in)',
    changes: true,
    async run({ ctx, words: [act, tx, to], options: { undo, ...options }, dryRun }) {
      if (act === undefined) return listUnassigned(ctx, limitOf(options))
      const target = rehearseIf(dryRun, ctx)
      if (act === 'give' && tx !== undefined && to !== undefined && !undo) return give(target, tx, to, dryRun)
      if (act === 'keep' && tx !== undefined && to === undefined)
        return showKept(await keepUnassigned(target, tx, !undo), dryRun)
      if (act === 'return' && tx !== undefined && (to === undefined) === undo)
        return showReturn(
          to === undefined ? await undoReturn(target, tx) : await returnUnassigned(target, tx, to),
          dryRun,
        )
      throw usageError(
        '"unassigned" takes give TX INVOICE_ID, return TX ADDRESS, keep TX, return or keep TX --undo, or no word.',
      )
    },
  }),
]

/** Lists what belongs to nobody, the oldest first. */
async function listUnassigned(ctx: Context, limit: number): Promise<VerbOutput> {
  const found = await ctx.invoices.arrivals.listUnassigned(limit + 1)
  const shown = await Promise.all(
    found.slice(0, limit).map(async (arrival) => ({ arrival, address: await addressOf(ctx, arrival) })),
  )
  const lines = shown.map(
    ({ arrival, address }) =>
      `${arrival.tx}  ${formatAmountOf(arrival)} ${arrival.coin}  at ${address ?? 'an address of a former wallet'}  since ${formatTime(arrival.first_seen_at)}`,
  )
  if (found.length > limit) lines.push('There is more; --limit shows it.')
  return {
    answer: {
      ok: true,
      unassigned: shown.map(({ arrival, address }) => ({
        payment_id: arrival._id,
        currency: arrival.coin,
        tx_hash: arrival.tx,
        amount: formatAmountOf(arrival),
        amount_raw: arrival.amount_raw,
        address: address ?? null,
        at: arrival.first_seen_at,
      })),
      count: shown.length,
      truncated: found.length > limit,
    },
    text: lines.length === 0 ? 'Nothing is unassigned.' : lines.join('\n'),
  }
}

/** The address that money came to; undefined if it isn't on record. */
async function addressOf(ctx: Context, { coin, address_index: index }: ArrivalRecord) {
  if (index === TREASURY_INDEX) return (await ctx.coins.findCoin(coin))?.treasury_address
  return (await ctx.coins.addresses.listAt(coin, [index]))[0]?.address
}

/** Counts money that belongs to nobody as a payment. @param ctx of a rehearsal if `dryRun` */
async function give(ctx: Context, tx: string, invoiceId: string, dryRun: boolean): Promise<VerbOutput> {
  const payment = await giveUnassigned(ctx, tx, invoiceId)
  return showDone(
    {
      payment_id: payment._id,
      invoice_id: payment.invoice_id,
      agent_id: payment.agent_id,
      order_id: payment.order_id ?? null,
      currency: payment.coin,
      amount: formatAmountOf(payment),
      tx_hash: payment.tx,
      ledger_entry: 'payment',
    },
    dryRun,
    `"settle-invoice --undo ${payment._id}" takes it back, while what it bought can be taken back.`,
  )
}

/** Shows the payout that sends money back, or was to. */
function showReturn(payout: PayoutRecord, dryRun: boolean): VerbOutput {
  const isUndone = payout.state === 'withdrawn'
  return showDone(
    {
      payout_id: payout._id,
      payment_id: payout.arrival_id ?? null,
      currency: payout.coin,
      amount: formatAmountOf(payout),
      address: payout.address ?? null,
      state: payout.state,
      ledger_entry: null,
    },
    dryRun,
    isUndone ? undefined : 'It goes out like any payout; "payouts" shows how far it is.',
  )
}

/** Shows money that the operator keeps, or keeps no more. */
const showKept = (arrival: ArrivalRecord, dryRun: boolean): VerbOutput =>
  showDone(
    {
      payment_id: arrival._id,
      currency: arrival.coin,
      amount: formatAmountOf(arrival),
      tx_hash: arrival.tx,
      account: arrival.came_to ?? null,
      ledger_entry: null,
    },
    dryRun,
  )
