import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { MoneroContext } from '../../shared/money/coins/monero/monero-gateway.ts'
import type { MoneroWallet } from '../../shared/money/coins/monero/monero-wallet.ts'
import type { PayoutRecord, TransferRecord } from '../../shared/money/payout.ts'
import { sendMonero } from './monero-jobs.ts'
import { moneroChain, openMoneroVenue, XMR, type MoneroPayee, type MoneroVenue } from './monero-venue.ts'
import { checkBooksAfterEach } from './money.ts'

export interface MoneroPayouts {
  /** A venue that serves nothing: each test calls what a job would, when it would. */
  readonly venue: MoneroVenue
  readonly payee: MoneroPayee
  send(): Promise<void>
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
 * Opens one venue and a payee for a test file, and checks the books after each test.
 *
 * @param parts how many parts of 2 XMR the wallet begins with: each test gets its change back only later
 */
export function openMoneroPayouts(parts: number): MoneroPayouts {
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
  const withWallet = (fields: Partial<MoneroWallet>): MoneroContext => ({
    ...venue.ctx,
    monero: { ...venue.ctx.monero, wallet: { ...venue.ctx.monero.wallet, ...fields } },
  })
  return {
    get venue() {
      return venue
    },
    get payee() {
      return payee
    },
    send: () => sendMonero(venue.ctx),
    coin: () => venue.ctx.coins.findCoin('xmr'),
    stateOf: async ({ _id }) => (await venue.payout(_id)).state,
    transferOf: async ({ _id }) =>
      (await venue.ctx.payouts.models.transfers
        .findOne({ payout_ids: _id })
        .sort({ _id: -1 })
        .lean<TransferRecord>()) ?? expect.fail(`no transfer carries ${_id}`),
    withWallet,
    withoutRelay: () => withWallet({ relay: () => Promise.reject(new Error('the process ended here')) }),
  }
}
