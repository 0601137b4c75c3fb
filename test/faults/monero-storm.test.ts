import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import type { PayoutRecord } from '../../shared/money/payout.ts'
import { expectConfirmed } from '../support/monero-crashes.ts'
import { checkMoney } from '../support/money.ts'
import {
  DAY_PICO,
  MONERO_QUEUES,
  openMoneroVenue,
  XMR,
  type Invoiced,
  type MoneroPayee,
  type MoneroVenue,
} from '../support/monero-venue.ts'
import { startWorkersProcess, type RunningProcess } from '../support/processes.ts'

vi.setConfig({ testTimeout: 600_000 })

const ROUNDS = 8
const INVOICES = 4
const PAYOUTS = 3
/** A look and a transaction of ours take a few hundred ms; the blows fall anywhere in that time. */
const BLOW_WITHIN_MS = 1_500
const WAIT = { limitMs: 120_000, everyMs: 500 }

let venue: MoneroVenue
let payee: MoneroPayee
let workers: RunningProcess[]
const startWorkers = () => startWorkersProcess(venue.env, ['--queues', MONERO_QUEUES.join(',')])
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

beforeAll(async () => {
  venue = await openMoneroVenue({ queues: [] })
  payee = await venue.openPayee()
  await venue.fund(12, XMR)
  workers = await Promise.all([startWorkers(), startWorkers()])
}, 180_000)
afterAll(async () => {
  await Promise.all((workers ?? []).map((worker) => worker.stop()))
  await venue?.stop()
})

describe('real workers that are killed at any moment', () => {
  it('credit each payment once, pay each sum once, and forget nothing', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const invoices: Invoiced[] = []
      for (let count = 0; count < INVOICES; count++) invoices.push(await venue.invoice(1))
      const addresses: string[] = []
      for (let count = 0; count < PAYOUTS; count++) addresses.push(await payee.address())
      const owed: PayoutRecord[] = []
      await venue.regtest.payer.pay(invoices.map(({ address }) => ({ address, amountPico: DAY_PICO })))
      for (const address of addresses) owed.push(await venue.owe(XMR / 50n, address))
      await venue.regtest.generate(2)
      await Promise.all(
        [0, 1].map(async (place) => {
          await pause(Math.random() * BLOW_WITHIN_MS)
          workers[place]?.kill('SIGKILL')
          await workers[place]?.ended
          workers[place] = await startWorkers()
        }),
      )
      const isDone = async (): Promise<true | undefined> => {
        await venue.regtest.generate(1)
        const states = await Promise.all(owed.map(async ({ _id }) => (await venue.payout(_id)).state))
        const read = await Promise.all(invoices.map(({ id }) => venue.ctx.invoices.find(id)))
        return states.every((state) => state === 'confirmed') &&
          read.every((invoice) => invoice?.credited_days === 1)
          ? true
          : undefined
      }
      await waitFor('everything that was paid and owed', isDone, WAIT)
      for (const [place, payout] of owed.entries()) {
        await expectConfirmed(venue, payout)
        expect(await payee.arrived(addresses[place] as string)).toEqual([XMR / 50n])
      }
      await checkMoney(venue.ctx)
    }
  })
})
