import { noteProblem } from '../coin-round.ts'
import type { CoinDriver } from '../driver.ts'
import { reconcileAccounts } from './nano-accounts.ts'
import { nanoHoldings } from './nano-holdings.ts'
import { nanoAddresses } from './nano-addresses.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX } from './nano-keys.ts'
import { isSeedKnown, MAX_RUN, settleOrStop, tryWork } from './nano-sender.ts'
import { lookAtOne, lookAtRound } from './nano-look.ts'
import { findSend } from './nano-proof.ts'
import { runTreasury } from './nano-treasury.ts'

/** Payouts that one block pays; the others of the same payee are in the next. */
const MAX_PAYOUTS_IN_BLOCK = 100

export function nanoDriver(ctx: NanoContext): CoinDriver {
  return {
    coin: 'xno',
    confirmations: 1,
    get addresses() {
      return nanoAddresses(ctx)
    },
    addressesAt(indexes) {
      const { keys } = ctx.nano.wallet()
      return Promise.resolve(new Map(indexes.map((index) => [index, keys.deriveAccount(index).address])))
    },
    look: (startedAt) => lookAtRound(ctx, startedAt),
    lookAt: (invoice) => lookAtOne(ctx, invoice),
    findTransaction: (tx) => findSend(ctx, tx),
    async checkAgreement() {
      const { treasury } = ctx.nano.wallet()
      await noteProblem(ctx, 'xno', 'wallet', undefined)
      if (!(await isSeedKnown(ctx)) || (await settleOrStop(ctx, treasury)) === 'stopped') return false
      await tryWork(ctx)
      return true
    },
    bounds: { maxPayouts: MAX_PAYOUTS_IN_BLOCK, maxGroups: MAX_RUN },
    async isUnderWay() {
      return (await ctx.payouts.listOpenTransfers('xno', TREASURY_INDEX)).some(
        ({ kind }) => kind === 'payout',
      )
    },
    pay: (next) => runTreasury(ctx, next, { takesIn: false }),
    holdings: () => nanoHoldings(ctx),
    reconcile: (_before, findings) => reconcileAccounts(ctx, findings),
  }
}
