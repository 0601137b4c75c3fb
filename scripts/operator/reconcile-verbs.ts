import { formatTime } from '../../client/command/format.ts'
import { flagOption, textOption } from '../../client/command/verb.ts'
import { usageError } from '../../client/command/command-error.ts'
import { orIfLate, waitFor } from '../embedded/wait.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { newId } from '../../shared/platform/ids.ts'
import type { Coin } from '../../shared/money/coin.ts'
import { COIN_FACTS } from '../../shared/money/coin-facts.ts'
import { ANYWHERE } from '../../shared/money/transfer.ts'
import type { ReconciliationRecord } from '../../shared/money/reconciliation-store.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { listMayHavePaid, oweAgain } from '../../shared/money/payout-service.ts'
import { accountForSend } from '../../shared/money/reconcile.ts'
import { listUndecided, wentTo } from '../../shared/money/unexplained-sends.ts'
import { SECOND_MS, nowSeconds } from '../../shared/platform/time.ts'
import { KEY_LEASES } from '../../shared/platform/lease-store.ts'
import { enqueueJob } from './job.ts'
import { findWhatPaid } from './look-up.ts'
import { rehearseIf } from './rehearse.ts'
import { formatAmountOf, showDone } from './output.ts'
import { defineOperatorVerb, parseCoin, wrongState, type OperatorVerb, type VerbOutput } from './verb.ts'

/** Long chains take longer; the operator then looks again. */
const RESULT_WAIT_MS = 45 * SECOND_MS

export const reconcileVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'reconcile',
    words: ['COIN'],
    options: {
      explained: textOption(
        'TX',
        'a transaction that was found is accounted for, and all that it may have paid is decided: the orders that it held up go on',
      ),
      owed: textOption(
        'PAYOUT_ID',
        'a payout that such a transaction may have paid was not paid by it: it is owed again',
      ),
      forgotten: flagOption(
        'with --owed: say so although such a transaction sent enough there; it paid what the database has forgotten',
      ),
      'take-over': textOption(
        'ADDRESS',
        'go on with the seed or wallet that has this treasury, in the place of the one in use',
      ),
    },
    help: "Accept a wallet's chain that the database does not know, after a restore or a send by hand, and go on",
    changes: true,
    async run({
      ctx,
      words: [name],
      options: { explained, owed, forgotten, 'take-over': takeOver },
      dryRun,
    }) {
      const coin = parseCoin('COIN', name)
      if ([explained, owed, takeOver].filter((option) => option !== undefined).length > 1)
        throw usageError('"reconcile" takes one of --explained, --owed and --take-over.')
      if (explained !== undefined) return explain(ctx, coin, explained, dryRun)
      if (owed !== undefined) return oweHeld(ctx, owed, { forgotten, dryRun })
      return reconcile(ctx, coin, takeOver, dryRun)
    },
  }),
]

/**
 * Asks the worker with the coin's wallet to reconcile, and waits up to 45 s for the result. A dry run shows
 * what is open.
 *
 * @param takeOver the treasury of another seed or wallet, to go on with that
 * @throws Refusal `wrong_state` if no worker can do it, `unavailable` if none has finished in time
 */
async function reconcile(
  ctx: Context,
  coin: Coin,
  takeOver: string | undefined,
  dryRun: boolean,
): Promise<VerbOutput> {
  const record = await ctx.coins.findCoin(coin)
  if (record?.configured !== true) throw wrongState(`No worker has set ${coin} up.`)
  const halted =
    record.halted === undefined ? null : `since ${formatTime(record.halted.at)}: ${record.halted.reason}`
  const known = record.treasury_address
  const isTakeOver = takeOver !== undefined && takeOver !== known
  await requireWallet(ctx, coin, known, isTakeOver ? takeOver : undefined)
  if (dryRun) {
    const treasuries = { treasury_before: known ?? null, treasury: takeOver ?? known ?? null }
    const fields = { coin, halted, ...treasuries, ledger_entry: 'reconcile' }
    const shown = showDone(fields, true, await listOpen(ctx, coin))
    const unexplained = await ctx.payouts.transfers.listUnexplained(coin)
    const sends = unexplained.map(({ tx, unexplained_to: to, amount_raw }) => ({ tx, to, amount_raw }))
    return { ...shown, answer: { ...shown.answer, sends, undecided: await readUndecided(ctx, coin) } }
  }
  if (isTakeOver) await handOver(ctx, coin, takeOver)
  const id = newId('reconciliation')
  await enqueueJob(ctx, COIN_FACTS[coin].queues.reconcile, {
    reconciliation_id: id,
    ...(isTakeOver ? { take_over: takeOver } : {}),
  })
  const result = await waitFor('the reconciliation', () => ctx.journal.reconciliations.find(id), {
    limitMs: RESULT_WAIT_MS,
    everyMs: 250,
  }).catch(orIfLate(undefined))
  if (result === undefined)
    throw new Refusal(
      'unavailable',
      `No worker has finished it yet, and ${coin} stays halted until one has. Either none with the wallet runs, or its node gives no news (see the workers' log), or it needs longer: "reconcile ${coin} --dry-run" shows where it stands.`,
    )
  return showReconciliation(ctx, result)
}

/**
 * Checks that a worker runs whose wallet has the treasury to be taken over, or else that no worker runs with
 * another wallet in the place of the one in use. A treasury that no worker has may be mistyped.
 *
 * @param known the treasury in use
 * @throws Refusal `wrong_state`
 */
async function requireWallet(
  ctx: Context,
  coin: Coin,
  known: string | undefined,
  takeOver: string | undefined,
): Promise<void> {
  const hosts = (await ctx.leases.listHosts()).filter(({ lease }) => lease === KEY_LEASES[coin])
  const refused = hosts.filter(({ state }) => state === 'refused')
  if (takeOver !== undefined) {
    if (refused.some(({ publicName }) => publicName === takeOver)) return
    const others = refused.map(({ publicName = '', host }) => `${publicName} on ${host}`).join(', ')
    throw wrongState(
      `No worker that runs now has the treasury ${takeOver} and was refused for it${others === '' ? '' : `; refused is ${others}`}. Start the workers with its seed or wallet first.`,
    )
  }
  const [other] = refused
  if (hosts.some(({ state }) => state !== 'refused') || other?.publicName === undefined) return
  throw wrongState(
    `No worker that runs now has the treasury ${known ?? 'in use'}. The one on ${other.host} has ${other.publicName}, and "reconcile ${coin} --take-over ${other.publicName}" goes on with that.`,
  )
}

/**
 * Halts the coin until the new wallet is reconciled, and gives that wallet the key lease of the one in use.
 */
async function handOver(ctx: Context, coin: Coin, treasury: string): Promise<void> {
  const at = nowSeconds(ctx)
  await ctx.database.transaction(async (session) => {
    await ctx.coins.halt(coin, at, `the operator takes over the treasury ${treasury}`, session)
    await ctx.leases.bind(KEY_LEASES[coin], treasury, session)
  })
}

/** What a reconciliation found, and what waits for the operator now. */
async function showReconciliation(ctx: Context, record: ReconciliationRecord): Promise<VerbOutput> {
  const { _id, coin, reason, transactions, payments, sends, stray, held_payout_ids: held } = record
  const fields = {
    reconciliation_id: _id,
    coin,
    treasury_before: record.treasury_before ?? null,
    treasury: record.treasury ?? null,
    halted_because: reason,
    transactions_found: transactions,
    payments_counted: payments,
    payouts_held: held.length,
  }
  const shown = showDone(
    { ...fields, ledger_entry: 'reconcile' },
    false,
    [
      ...stray.map(
        ({ address, amount_raw, gone, senders = [] }) =>
          `money of an invoice that is forgotten: ${formatAmountOf({ amount_raw, coin })} ${coin} ${gone === true ? 'that came to' : 'at'} ${address}${senders.length === 0 ? '' : `, from ${senders.join(', ')}`}`,
      ),
      await listOpen(ctx, coin),
    ].join('\n'),
  )
  const undecided = await readUndecided(ctx, coin)
  return { ...shown, answer: { ...shown.answer, sends, stray, held_payout_ids: held, undecided } }
}

/** What each transaction that is not accounted for may have paid and nobody has decided, as `--json` shows it. */
async function readUndecided(ctx: Context, coin: Coin) {
  const sends = await ctx.payouts.transfers.listUnexplained(coin)
  return Promise.all(
    sends.map(async (send) => {
      const { payouts, orderIds } = await listUndecided(ctx, send)
      return { tx: send.tx, order_ids: orderIds, payout_ids: payouts.map(({ _id }) => _id) }
    }),
  )
}

/**
 * Lists what waits for the operator, a line each: transactions that are not accounted for, and held payouts.
 */
async function listOpen(ctx: Context, coin: Coin): Promise<string> {
  const [sends, again, held] = await Promise.all([
    ctx.payouts.transfers.listUnexplained(coin),
    ctx.payouts.transfers.listPaidAgain(coin),
    ctx.payouts.listUnsendable(coin, 'held', nowSeconds(ctx), 200),
  ])
  const twice = again.map(
    ({ tx, paid_again: ids = [] }) =>
      `paid again: ${ids.join(', ')} by ${tx}; "reconcile ${coin} --explained ${tx}" once that is accounted for`,
  )
  if (sends.length === 0 && held.length === 0)
    return twice.length === 0 ? 'nothing waits for you' : twice.join('\n')
  const lines = [...twice]
  for (const send of sends) {
    const { tx, amount_raw, unexplained_to: to } = send
    lines.push(
      `not accounted for: ${tx} sent ${formatAmountOf({ amount_raw, coin })} ${coin} to ${to.join(', ')}`,
    )
    const { payouts, orderIds } = await listUndecided(ctx, send)
    for (const id of orderIds)
      lines.push(
        `  it may have paid a side of the order ${id}, which waits for "dispute ${id} release" or "refund"`,
      )
    for (const { _id } of payouts) lines.push(`  it may have paid ${_id}: ${stepsFor(coin, _id, tx)}`)
    for (const { _id, address } of await ctx.payouts.listPaidByHand(coin, tx))
      if (address !== undefined && !to.includes(address) && !to.includes(ANYWHERE))
        lines.push(`  it is recorded for ${_id}, and did not pay it: "payout-paid --undo ${_id}"`)
  }
  for (const { _id, amount_raw, address = 'no address', transfer_id: transferId } of held)
    lines.push(
      `held: ${_id}, ${formatAmountOf({ amount_raw, coin })} ${coin} to ${address}${transferId === undefined ? '' : ', with a transaction of its own'}`,
    )
  lines.push(
    'First dispute for each order that is named here, as it was decided before; then payout-paid for each payout that one of these transactions paid, and reconcile --owed for each other one that is held; then reconcile --explained for each transaction.',
  )
  return lines.join('\n')
}

/** Records that a transaction that a reconciliation found is accounted for. */
async function explain(ctx: Context, coin: Coin, text: string, dryRun: boolean): Promise<VerbOutput> {
  const tx = text.toLowerCase()
  const explained = await accountForSend(rehearseIf(dryRun, ctx), coin, tx)
  if (explained.kind === 'unknown')
    throw wrongState(
      `${text} is no transaction in ${coin} that waits to be accounted for (reconcile ${coin} --dry-run lists them), or ${coin} was never reconciled to the end.`,
    )
  if (explained.kind === 'undecided') {
    const { payoutIds, orderIds } = explained
    const what = [
      ...orderIds.map((id) => `the order ${id} ("dispute ${id} release" or "refund")`),
      ...payoutIds.map((id) => `the payout ${id} (${stepsFor(coin, id, tx)})`),
    ]
    throw wrongState(`It may have paid what is not decided yet; decide first about ${what.join(', ')}.`)
  }
  const { resumedOrderIds } = explained
  const fields = { tx, explained: true, orders_resumed: resumedOrderIds.length, ledger_entry: 'reconcile' }
  const resumed = resumedOrderIds.map((id) => `the order ${id} is disputed no more, and goes on`)
  const shown = showDone(fields, dryRun, [...resumed, await listOpen(ctx, coin)].join('\n'))
  return { ...shown, answer: { ...shown.answer, resumed_order_ids: resumedOrderIds } }
}

/** How to decide about a payout that a transaction may have paid. */
const stepsFor = (coin: Coin, payoutId: string, tx: string): string =>
  `"payout-paid ${payoutId} ${tx}" if it was paid by that, else "reconcile ${coin} --owed ${payoutId}"`

/** @throws Refusal `wrong_state` if a transaction may have paid it, by what that sent to its address */
async function requireUnpaid(ctx: Context, payout: PayoutRecord): Promise<void> {
  for (const tx of await listMayHavePaid(ctx, payout))
    if ((await findWhatPaid(ctx, payout, tx)) === 'paid')
      throw wrongState(
        `The chain shows that ${tx} sent enough to its address: "payout-paid ${payout._id} ${tx}" records that. If it paid something else that the database knows, record that first; if it paid what the database has forgotten, say --forgotten.`,
      )
}

/**
 * Records that a held payout was not paid by an unexplained transaction, so that it is owed again.
 *
 * @param forgotten whether a transaction that sent enough to its address may have paid what the database has
 *   forgotten, as the order of a payment that a restore took away
 * @throws Refusal `wrong_state` if nothing may have paid it; or if one may have, by what it sent, and that was not
 *   said to be forgotten
 */
async function oweHeld(
  ctx: Context,
  payoutId: string,
  { forgotten, dryRun }: { forgotten: boolean; dryRun: boolean },
): Promise<VerbOutput> {
  const payout = await ctx.payouts.find(payoutId)
  if (payout !== undefined && !forgotten) await requireUnpaid(ctx, payout)
  if (!(await oweAgain(rehearseIf(dryRun, ctx), payoutId)))
    throw wrongState(
      `${payoutId} is no payout that is held, or that a transaction not accounted for may have paid.`,
    )
  const sends = payout === undefined ? [] : await ctx.payouts.transfers.listUnexplained(payout.coin)
  const waitsFor = sends.find((send) => wentTo(send, payout?.address))
  return showDone(
    { payout_id: payoutId, state: 'owed', ledger_entry: 'payout' },
    dryRun,
    waitsFor && `It is sent once ${waitsFor.tx} is accounted for, with reconcile --explained.`,
  )
}
