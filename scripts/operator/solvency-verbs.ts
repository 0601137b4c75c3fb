import { orIfLate, waitFor } from '../embedded/wait.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { SECOND_MS, nowSeconds } from '../../shared/platform/time.ts'
import { COINS, type Coin } from '../../shared/money/coin.ts'
import { showDone } from './output.ts'
import { defineOperatorVerb, parseCoin, wrongState, type OperatorVerb, type VerbOutput } from './verb.ts'

const RESULT_WAIT_MS = 45 * SECOND_MS

export const solvencyVerbs: readonly OperatorVerb[] = [
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
