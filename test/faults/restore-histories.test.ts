import fs from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requestPassInvoice } from '../../shared/passes/pass-purchase.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import type { DisputeOutcome } from '../../shared/market/dispute-rules.ts'
import { decideDispute } from '../../shared/market/dispute-service.ts'
import { makeOffer } from '../../shared/market/offer-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { placeOrder } from '../../shared/market/order-placing.ts'
import { acceptDelivery, deliverOrder, disputeOrder } from '../../shared/market/order-service.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { nowSeconds } from '../../shared/platform/time.ts'
import { createLog } from '../../shared/platform/log.ts'
import { closeContext, openContext, type Context } from '../../shared/context.ts'
import { newAddressGiver } from '../../shared/money/address-store.ts'
import { fillStocks } from '../../shared/money/address-pool.ts'
import { nanoDriver } from '../../shared/money/coins/nano/nano-driver.ts'
import { markPaidByHand, oweAgain } from '../../shared/money/payout-service.ts'
import { accountForSend } from '../../shared/money/reconcile.ts'
import { listUndecided } from '../../shared/money/unexplained-sends.ts'
import { setRate } from '../support/coins.ts'
import { takeBackup } from '../support/ledger.ts'
import { checkMarket } from '../support/market.ts'
import { checkBooks } from '../support/money.ts'
import {
  XNO,
  nanoChain,
  openNanoVenue,
  signAndPublish,
  strangerAddress,
  type NanoVenue,
} from '../support/nano-venue.ts'
import { reconcileNano, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'

/*
 * Random histories of a venue: addresses are given out and paid, orders are delivered, accepted, disputed and
 * paid out, the operator takes fees, backups are taken and restored, and he then takes the steps that he is told
 * to take, in any order. Beside them stands what the sides of each order really got, past every restore: as the
 * chain has it, and as it was once decided.
 */

const COUNT = Number(process.env['HISTORIES'] ?? 200)
const FIRST_SEED = Number(process.env['HISTORY_SEED'] ?? 1)
const STEPS = 16
const PRICE_RAW = 10n * XNO
const SHARE_RAW = 8n * XNO

let venue: NanoVenue
let api: Context

beforeAll(async () => {
  venue = await openNanoVenue()
})
afterAll(async () => {
  await closeContext(api)
  await venue.stop()
})

/** Mulberry32: a seed gives the same numbers everywhere. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const silent = createLog('test', 'fatal', { write: () => undefined })
async function startApi(): Promise<void> {
  if (api !== undefined) await closeContext(api)
  api = openContext(readConfig(venue.env, 'workers'), silent, {
    now: () => venue.ctx.now(),
    databaseTimeoutMs: 30_000,
    addressGiver: newAddressGiver(),
  })
  await api.database.whenReady()
}
const arrived = (address: string) => venue.holds(address).receivableRaw
/** Takes a step that may be refused. @returns whether it was taken */
const isTaken = async (step: Promise<unknown>): Promise<boolean> =>
  step.then(
    (result) => result !== false,
    (error: unknown) => {
      if (error instanceof Refusal) return false
      throw error
    },
  )
const decide = (id: string, outcome: DisputeOutcome) => isTaken(decideDispute(venue.ctx, id, outcome))

/** An order as the world knows it, whatever the database does. */
interface Deal {
  id: string
  seller: string
  buyer: string
  payTo: string
  refundTo: string
  /** Once decided it stays decided. */
  decided?: 'release' | 'refund'
}
interface Backup {
  database(): Promise<void>
  index: Buffer
}

/** One history. @throws Error if anything does not hold */
async function play(seed: number): Promise<void> {
  const random = randomOf(seed)
  const pick = <T>(items: readonly T[]): T | undefined => items[Math.floor(random() * items.length)]
  const shuffled = <T>(items: readonly T[]): T[] =>
    items
      .map((item) => ({ item, at: random() }))
      .sort((one, other) => one.at - other.at)
      .map(({ item }) => item)
  const told: string[] = []
  const given: string[] = []
  const deals: Deal[] = []
  const fees: string[] = []
  let backup: Backup | undefined

  const work = async () => {
    await setRate(venue.ctx, 'xno', '1')
    await watchNano(venue.ctx)
    await fillStocks(venue.ctx, nanoDriver(venue.ctx), api.coins.addresses.stock('xno'))
    await sweepNano(venue.ctx)
    await sendNano(venue.ctx)
  }
  const orderOf = async ({ id }: Deal): Promise<OrderRecord | undefined> => venue.ctx.orders.find(id)
  const those = async (status: string) => {
    const found = await Promise.all(deals.map(async (deal) => ({ deal, order: await orderOf(deal) })))
    return found.flatMap(({ deal, order }) => (order?.status === status ? [deal] : []))
  }
  const giveOut = (address: string) => {
    expect(given, `seed ${seed}: ${told.join(', ')}`).not.toContain(address)
    given.push(address)
  }
  /** Everything the operator is told to do after a restore, in whatever order, until nothing is left. */
  const reconcile = async () => {
    for (let round = 0; round < 12; round++) {
      await work()
      const coin = await venue.ctx.coins.findCoin('xno')
      if (coin?.halted !== undefined) await reconcileNano(venue.ctx)
      const sends = await venue.ctx.payouts.transfers.listUnexplained('xno')
      const undecided = await Promise.all(
        sends.map(async (send) => ({ tx: send.tx, ...(await listUndecided(venue.ctx, send)) })),
      )
      const held = await venue.ctx.payouts.listUnsendable('xno', 'held', nowSeconds(venue.ctx), 200)
      if (undecided.length === 0 && held.length === 0) return
      const steps: (() => Promise<unknown>)[] = []
      for (const { tx, orderIds } of undecided) {
        steps.push(() => accountForSend(venue.ctx, 'xno', tx))
        for (const id of orderIds) {
          const deal = deals.find((one) => one.id === id)
          // What was not decided before is decided now.
          const outcome = deal?.decided ?? pick(['release', 'refund'] as const) ?? 'refund'
          steps.push(async () => {
            if ((await decide(id, outcome)) && deal !== undefined) deal.decided = outcome
          })
        }
      }
      for (const payout of held) steps.push(() => decidePayout(payout._id))
      for (const { payouts } of undecided) for (const { _id } of payouts) steps.push(() => decidePayout(_id))
      for (const step of shuffled(steps)) {
        await step()
        if (random() < 0.3) await work()
      }
    }
    throw new Error('the steps after the restore come to no end')
  }
  /** As the chain has it: the side's sum has come, and by a transaction that is recorded for nothing else. */
  const decidePayout = async (id: string) => {
    const payout = await venue.ctx.payouts.find(id)
    const deal = deals.find((one) => one.id === payout?.order_id)
    if (payout === undefined || deal === undefined) return
    const address = payout.address ?? ''
    if (arrived(address) === 0n) return void (await oweAgain(venue.ctx, id))
    const sends = await venue.ctx.payouts.transfers.listUnknownSends('xno')
    const send = sends.find(({ unexplained_to: to }) => to.includes(address))
    if (send === undefined) return
    await isTaken(markPaidByHand(venue.ctx, id, send.tx, { sentRaw: BigInt(send.amount_raw) }))
  }

  const checkSides = () => {
    for (const { id, payTo, refundTo } of deals) {
      const [seller, buyer] = [arrived(payTo), arrived(refundTo)]
      const isOnce = [0n, SHARE_RAW].includes(seller) && [0n, PRICE_RAW].includes(buyer)
      if (!isOnce || (seller > 0n && buyer > 0n))
        throw new Error(`${id}: the seller got ${seller}, and the buyer ${buyer}`)
    }
  }

  const acts: Record<string, () => Promise<unknown>> = {
    async invoice() {
      const { invoice } = await requestPassInvoice(api, await venue.addAgent(), 'xno', 1)
      giveOut(invoice.address)
      if (random() < 0.5) venue.pay(invoice, XNO)
    },
    async order() {
      const [seller, buyer] = [await venue.addAgent(), await venue.addAgent()]
      const [payTo, refundTo] = [strangerAddress(), strangerAddress()]
      const terms = {
        title: 'A translation',
        description: 'Into Esperanto',
        price_usd: 10,
        delivery_hours: 1,
      }
      const offer = await makeOffer(api, seller, { ...terms, payout_addresses: { xno: payTo } })
      const { order, invoice } = await placeOrder(api, buyer, {
        offer_id: offer._id,
        refund_address: refundTo,
      })
      giveOut(invoice.address)
      deals.push({ id: order._id, seller, buyer, payTo, refundTo })
      venue.pay(invoice, PRICE_RAW)
      await watchNano(venue.ctx)
    },
    async deliver() {
      const deal = pick(await those('paid'))
      if (deal !== undefined) await deliverOrder(api, deal.seller, { order_id: deal.id, delivery: 'Saluton' })
    },
    async accept() {
      const deal = pick((await those('delivered')).filter(({ decided }) => decided !== 'refund'))
      if (deal === undefined) return
      await acceptDelivery(api, deal.buyer, { order_id: deal.id })
      deal.decided = 'release'
    },
    /** What a backup from before it will have forgotten. */
    async 'pay out'() {
      await acts['deliver']?.()
      await acts['accept']?.()
      await work()
    },
    async dispute() {
      const deal = pick(await those('delivered'))
      if (deal !== undefined)
        await disputeOrder(api, deal.buyer, { order_id: deal.id, reason: 'It is empty.' })
    },
    async decide() {
      const deal = pick(await those('disputed'))
      const outcome = deal?.decided ?? pick(['release', 'refund'] as const) ?? 'refund'
      if (deal !== undefined && (await decide(deal.id, outcome))) deal.decided = outcome
    },
    async 'take fees'() {
      const held = venue.holds(venue.wallet.treasury.address).balanceRaw
      if (held < 40n * XNO) return
      const own = strangerAddress()
      fees.push(await signAndPublish(venue, 0, { sendTo: own, amountRaw: XNO / 10n }))
      await reconcile()
    },
    async 'back up'() {
      backup = {
        database: await takeBackup(venue.ctx),
        index: fs.readFileSync(venue.wallet.indexFile),
      }
    },
    async restore() {
      if (backup === undefined) return
      await backup.database()
      if (random() < 0.5) fs.writeFileSync(venue.wallet.indexFile, backup.index)
      // The workers begin anew, and perhaps the API.
      venue.setPatience()
      if (random() < 0.7) await startApi()
      await reconcile()
    },
    'start workers': async () => venue.setPatience(),
    'start API': startApi,
    work,
  }
  const names = [
    ...['invoice', 'order', 'order', 'order', 'deliver', 'deliver', 'deliver', 'accept', 'accept'],
    ...['pay out', 'pay out', 'pay out', 'pay out', 'dispute', 'decide', 'decide', 'take fees'],
    ...['back up', 'back up', 'restore', 'restore', 'restore'],
    ...['start workers', 'start API', 'work', 'work', 'work'],
  ]

  try {
    await venue.reset()
    await startApi()
    venue.pay(venue.wallet.treasury, 50n * XNO)
    await work()
    for (let step = 0; step < STEPS; step++) {
      const name = pick(names) ?? 'work'
      told.push(name)
      if (name === 'invoice' || name === 'order') await work()
      await acts[name]?.()
      checkSides()
    }
    told.push('the end')
    await reconcile()
    // What is still open is ended, so that whatever could be paid twice would be.
    for (let round = 0; round < deals.length; round++)
      for (const name of ['deliver', 'accept', 'decide']) await acts[name]?.()
    await reconcile()
    for (let round = 0; round < 3; round++) await work()
    checkSides()
    await checkMarket(venue.ctx)
    await checkBooks(venue.ctx, [nanoChain(venue)])
    expect((await venue.ctx.coins.findCoin('xno'))?.halted).toBeUndefined()
    for (const deal of deals) {
      const order = await orderOf(deal)
      if (order?.status === 'paid_out') expect(arrived(deal.payTo)).toBe(SHARE_RAW)
      if (order?.status === 'refunded') expect(arrived(deal.refundTo)).toBe(PRICE_RAW)
    }
  } catch (error) {
    throw new Error(`seed ${seed}, after ${told.join(', ')}: ${String(error)}`, { cause: error })
  }
}

describe('random histories of backup, restore, give out, pay, dispute and explain', () => {
  it(
    'give no address twice, pay no side twice, and the books equal the chain',
    async () => {
      for (let seed = FIRST_SEED; seed < FIRST_SEED + COUNT; seed++) {
        await play(seed)
        console.log(`seed ${seed} holds`)
      }
    },
    COUNT * 60_000,
  )
})
