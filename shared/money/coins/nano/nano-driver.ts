import { randomInt } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { noteProblem } from '../../coin-state.ts'
import {
  AGREES,
  NOT_COMPARED,
  type AddressSource,
  type CoinDriver,
  type ControlledSeal,
  type MadeProof,
} from '../../driver.ts'
import { reconcileAccounts } from './nano-reconcile.ts'
import { nanoHoldings } from './nano-holdings.ts'
import type { NanoContext } from './nano-gateway.ts'
import { TREASURY_INDEX, type NanoAccount } from './nano-keys.ts'
import { MAX_RUN, maySign } from './nano-sender.ts'
import { recoverOrDiffer } from './nano-recovery.ts'
import { tryWork } from './nano-work.ts'
import { scanInvoice, scanRound } from './nano-scan.ts'
import { findSend } from './nano-proof.ts'
import { sweep } from './nano-sweep.ts'
import { payFromTreasury } from './nano-treasury.ts'

/** Payouts that one block pays; the others of the same payee are in the next. */
const MAX_PAYOUTS_IN_BLOCK = 100

/** The driver of Nano, over the node and the seed of this process. */
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
    scan: (startedAt) => scanRound(ctx, startedAt),
    scanInvoice: (invoice) => scanInvoice(ctx, invoice),
    findTransaction: (tx) => findSend(ctx, tx),
    async checkAgreement() {
      const { treasury } = ctx.nano.wallet()
      await noteProblem(ctx, 'xno', 'wallet', undefined)
      if (!(await maySign(ctx))) return NOT_COMPARED
      const recovered = await recoverOrDiffer(ctx, treasury)
      if (recovered.kind === 'differs') return recovered
      await tryWork(ctx)
      return AGREES
    },
    bounds: { maxPayouts: MAX_PAYOUTS_IN_BLOCK, maxGroups: MAX_RUN },
    async isUnderWay() {
      const open = await ctx.payouts.transfers.listOpen('xno', TREASURY_INDEX)
      return open.some(({ kind }) => kind === 'payout')
    },
    pay: (next) => payFromTreasury(ctx, next),
    sweep: (round) => sweep(ctx, round),
    holdings: () => nanoHoldings(ctx),
    proveControl: (seal) => signControl(ctx, seal),
    reconcile: (_before, findings) => reconcileAccounts(ctx, findings),
  }
}

/** Indexes have 32 bits; those below this are used, so that the end of a run stays below it, too. */
const INDEXES = 2 ** 31 - 2 ** 20
/** A run begins so far at most above all that is known; this, of which no backup knows, is chosen at random. */
const SPREAD = 2 ** 30
/** Deriving one takes a millisecond: after this many, the worker's other jobs get their turn. */
const DERIVED_AT_ONCE = 20

/** The source of invoices' addresses: accounts of the seed after the treasury's. */
function nanoAddresses(ctx: NanoContext): AddressSource {
  const { keys, indexFile, treasury } = ctx.nano.wallet()
  const derive = async (from: number, count: number): Promise<NanoAccount[]> => {
    const accounts: NanoAccount[] = []
    while (accounts.length < count) {
      accounts.push(keys.deriveAccount(from + accounts.length))
      if (accounts.length % DERIVED_AT_ONCE === 0) await setImmediate()
    }
    return accounts
  }
  return {
    coin: 'xno',
    indexFile,
    treasury: () => Promise.resolve(treasury.address),
    session: keys,
    beginRun: ({ highest }) =>
      Promise.resolve(TREASURY_INDEX + 1 + ((Math.max(0, highest) + randomInt(SPREAD)) % INDEXES)),
    derive,
  }
}

/** Signs for each account of a seal that is one of this seed's. */
async function signControl(ctx: NanoContext, { seq, hash, assets }: ControlledSeal): Promise<MadeProof[]> {
  const accounts = (assets.xno ?? []).map(({ account }) => account)
  const { keys, treasury } = ctx.nano.wallet()
  const records = await ctx.coins.addresses.listByAddress('xno', accounts)
  const indexes = new Map(records.map(({ address, index }) => [address, index]))
  indexes.set(treasury.address, treasury.index)
  const made: MadeProof[] = []
  for (const account of accounts) {
    const index = indexes.get(account)
    if (index === undefined || keys.deriveAccount(index).address !== account) continue
    made.push({ account, ...keys.signControl(index, seq, hash) })
    if (made.length % DERIVED_AT_ONCE === 0) await setImmediate()
  }
  return made
}
