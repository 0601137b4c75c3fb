import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { MoneroContext } from '../../shared/money/coins/monero/monero-gateway.ts'
import type { MoneroWallet } from '../../shared/money/coins/monero/monero-wallet.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import type { TransferRecord } from '../../shared/money/transfer.ts'
import { sendMonero } from './monero-jobs.ts'
import { XMR, moneroChain, openMoneroVenue, type MoneroPayee, type MoneroVenue } from './monero-venue.ts'
import { checkBooksAfterEach } from './money.ts'

export interface MoneroPayouts {
  send(): Promise<unknown>
  coin(): ReturnType<MoneroVenue['ctx']['coins']['findCoin']>
  stateOf(owed: PayoutRecord): Promise<string>
  /** The newest transfer that carries the payout. */
  transferOf(owed: PayoutRecord): Promise<TransferRecord>
  /** The venue as another process has it, with some functions of the wallet replaced. */
  withWallet(fields: Partial<MoneroWallet>): MoneroContext
  /** A process that ends before it relays. */
  withoutRelay(): MoneroContext
}

/**
 * Opens one venue, which serves nothing, and a payee for a test file, and checks the books after each test.
 *
 * @param parts how many parts of 2 XMR the wallet begins with: each test gets its change back only later
 */
export function openMoneroPayouts(
  parts: number,
): MoneroPayouts & { readonly venue: MoneroVenue; readonly payee: MoneroPayee } {
  let venue: MoneroVenue
  let payee: MoneroPayee
  beforeAll(async () => {
    venue = await openMoneroVenue({ queues: [] })
    payee = await venue.openPayee()
    await venue.fund(parts, 2n * XMR)
  })
  beforeEach(() => venue.unlock(8n * XMR))
  checkBooksAfterEach(
    () => venue?.ctx,
    () => moneroChain(venue),
  )
  afterAll(() => venue?.stop())
  return {
    ...moneroPayouts(() => venue),
    get venue() {
      return venue
    },
    get payee() {
      return payee
    },
  }
}

/** What a test of payouts does with a venue whose workers don't send: it calls what a job would, when it would. */
export function moneroPayouts(venueOf: () => MoneroVenue): MoneroPayouts {
  const withWallet = (fields: Partial<MoneroWallet>): MoneroContext => {
    const { ctx } = venueOf()
    return { ...ctx, monero: { ...ctx.monero, wallet: { ...ctx.monero.wallet, ...fields } } }
  }
  return {
    send: () => sendMonero(venueOf().ctx),
    coin: () => venueOf().ctx.coins.findCoin('xmr'),
    stateOf: async ({ _id }) => (await venueOf().payout(_id)).state,
    transferOf: async ({ _id }) =>
      (await venueOf()
        .ctx.payouts.transfers.models.transfers.findOne({ payout_ids: _id })
        .sort({ _id: -1 })
        .lean<TransferRecord>()) ?? expect.fail(`no transfer carries ${_id}`),
    withWallet,
    withoutRelay: () => withWallet({ relay: () => Promise.reject(new Error('the process ended here')) }),
  }
}
