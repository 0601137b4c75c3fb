import { orIfLate, waitFor } from '../embedded/wait.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { SECOND_MS, nowSeconds } from '../../shared/platform/time.ts'
import type { ArrivalRecord } from '../../shared/money/arrival.ts'
import { COINS, formatAmount, parseAmount, type Coin } from '../../shared/money/coin.ts'
import { topUp, undoTopUp, type OwnMoney } from '../../shared/money/own-money.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { undoWithdrawal, withdrawOwn } from '../../shared/money/withdrawal.ts'
import { usageError } from '../../client/command/command-error.ts'
import { flagOption } from '../../client/command/verb.ts'
import { rehearseIf } from './rehearse.ts'
import { formatAmountOf, showDone } from './output.ts'
import { defineOperatorVerb, parseCoin, wrongState, type OperatorVerb, type VerbOutput } from './verb.ts'

const RESULT_WAIT_MS = 45 * SECOND_MS

export const solvencyVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'withdraw',
    words: ['COIN|PAYOUT_ID', '[AMOUNT]', '[ADDRESS]'],
    options: { undo: flagOption('with PAYOUT_ID alone, while nothing of it is signed: take that back') },
    help: "Send what is the venue's own, as fees and sales, to ADDRESS, like a payout; refused beyond that",
    changes: true,
    async run({ ctx, words: [first, amount, address], options: { undo }, dryRun }) {
      const target = rehearseIf(dryRun, ctx)
      if (undo && amount === undefined) return showWithdrawal(await undoWithdrawal(target, first), dryRun)
      if (undo || amount === undefined || address === undefined)
        throw usageError('"withdraw" takes COIN AMOUNT ADDRESS, or PAYOUT_ID --undo.')
      const coin = parseCoin('COIN', first)
      return showWithdrawal(await withdrawOwn(target, coin, parseAmountWord(amount, coin), address), dryRun)
    },
  }),
  defineOperatorVerb({
    name: 'top-up',
    words: ['[COIN]', '[AMOUNT|TX]'],
    options: { undo: flagOption('take that back') },
    help: "Say what you put in, before or after it comes: it is the venue's own then. AMOUNT of what comes to the treasury, or all that TX brings; without words, what is announced and has not come",
    changes: true,
    async run({ ctx, words: [name, word], options: { undo }, dryRun }) {
      if (name === undefined && !undo) return listAnnounced(ctx)
      if (name === undefined || word === undefined)
        throw usageError('"top-up" takes COIN AMOUNT, COIN TX, or no word.')
      const target = rehearseIf(dryRun, ctx)
      const coin = parseCoin('COIN', name)
      const money: OwnMoney = /^[0-9a-f]{64}$/i.test(word)
        ? { tx: word }
        : { amountRaw: parseAmountWord(word, coin) }
      const moved = undo
        ? [await undoTopUp(target, coin, money)].filter((one) => one !== undefined)
        : await topUp(target, coin, money)
      return showOwn(coin, word, moved, undo, dryRun)
    },
  }),
  defineOperatorVerb({
    name: 'prove-control',
    words: ['[COIN]'],
    options: {},
    help: 'Have the wallets sign now that they control what the newest signed seal states (daily by itself); GET /solvency shows it',
    changes: true,
    async run({ ctx, words: [name], dryRun }) {
      const known = (await ctx.coins.listCoins()).filter(({ configured }) => configured)
      const coins = name === undefined ? known.map(({ _id }) => _id) : [parseCoin('COIN', name)]
      if (coins.length === 0 || !coins.every((coin) => known.some(({ _id }) => _id === coin)))
        throw wrongState(`No worker has set ${name ?? COINS.join(' or ')} up.`)
      const seal = await ctx.seals.lastSigned()
      if (dryRun) return showProven(coins, seal?._id, {}, true)
      if (seal === undefined) throw wrongState('No seal is signed yet, so there is nothing to sign for.')
      const made: Partial<Record<Coin, number>> = {}
      for (const coin of coins) made[coin] = await prove(ctx, coin)
      return showProven(coins, seal._id, made, false)
    },
  }),
]

/** @throws a usage error for text that is no amount of the coin */
function parseAmountWord(text: string, coin: Coin): bigint {
  try {
    return parseAmount(text, coin)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw usageError(`AMOUNT expected an amount of ${coin}, such as 1.5, got ${JSON.stringify(text)}.`)
  }
}

/** Lists what is announced and has not come. */
async function listAnnounced(ctx: Context): Promise<VerbOutput> {
  const announced = (await ctx.coins.listCoins()).flatMap(({ _id: coin, announced: words = [] }) =>
    words.map((word) => ({ currency: coin, ...sayAnnounced(coin, word) })),
  )
  const lines = announced.map(({ currency, amount, tx_hash: tx }) => `${currency}  ${tx ?? amount}`)
  return {
    answer: { ok: true, announced, count: announced.length },
    text: lines.length === 0 ? 'Nothing is announced that has not come.' : lines.join('\n'),
  }
}

const sayAnnounced = (coin: Coin, word: string) =>
  word.length === 64
    ? { tx_hash: word, amount: null }
    : { tx_hash: null, amount: formatAmount(BigInt(word), coin) }

/** Shows what is the venue's own now, or no more; or what was announced. */
const showOwn = (
  coin: Coin,
  word: string,
  moved: readonly ArrivalRecord[],
  isUndone: boolean,
  dryRun: boolean,
): VerbOutput => {
  const amountRaw = moved.reduce((sum, { amount_raw: raw }) => sum + BigInt(raw), 0n)
  return showDone(
    {
      currency: coin,
      top_up: word,
      state: moved.length > 0 ? 'come' : isUndone ? 'not announced' : 'announced',
      amount: moved.length > 0 ? formatAmount(amountRaw, coin) : null,
      account: moved[0]?.came_to ?? null,
      ledger_entry: moved.length > 0 ? 'money_move' : null,
    },
    dryRun,
    moved.length > 0 || isUndone
      ? undefined
      : 'It is the venue\'s own within a round after the chain shows it; "top-up" lists what has not come.',
  )
}

/** Shows the payout that takes something out, or was to. */
const showWithdrawal = (payout: PayoutRecord, dryRun: boolean): VerbOutput =>
  showDone(
    {
      payout_id: payout._id,
      currency: payout.coin,
      amount: formatAmountOf(payout),
      address: payout.address ?? null,
      state: payout.state,
      ledger_entry: payout.state === 'withdrawn' ? null : 'money_move',
    },
    dryRun,
    payout.state === 'withdrawn'
      ? undefined
      : `It goes out like any payout, and is in the ledger once the chain has it; "withdraw ${payout._id} --undo" takes it back until it is signed.`,
  )

const showProven = (
  coins: readonly Coin[],
  seq: number | undefined,
  made: Partial<Record<Coin, number>>,
  dryRun: boolean,
): VerbOutput =>
  showDone(
    {
      ...Object.fromEntries(coins.map((coin) => [`${coin}_proofs`, made[coin] ?? null])),
      seal: seq ?? null,
      ledger_entry: null,
    },
    dryRun,
    'GET /solvency/proofs has all of them.',
  )

/**
 * Asks the worker with the coin's wallet for proofs, which its next round makes, and waits up to 45 s.
 *
 * @returns how many proofs there are of the seal that they are about
 * @throws Refusal `unavailable` if none has been made in time
 */
async function prove(ctx: Context, coin: Coin): Promise<number> {
  const askedAt = nowSeconds(ctx)
  await ctx.coins.askForProofs(coin, askedAt)
  const last = await waitFor(
    'the proofs',
    async () => {
      const newest = await ctx.coins.controls.last(coin)
      return newest !== undefined && newest.at >= askedAt ? newest : undefined
    },
    { limitMs: RESULT_WAIT_MS, everyMs: 250 },
  ).catch(orIfLate(undefined))
  if (last === undefined)
    throw new Refusal(
      'unavailable',
      `No worker has proven the control of ${coin} yet. Either none with its seed or wallet runs, the newest signed seal states nothing of it or has its proofs, or the wallet can't; the workers' log says which.`,
    )
  return (await ctx.coins.controls.listOfSeal(coin, last.seal_seq, 1_000)).length
}
