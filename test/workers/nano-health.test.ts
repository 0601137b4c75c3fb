import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { isCoinReady } from '../../shared/money/invoice-service.ts'
import { MINUTE_MS } from '../../shared/platform/time.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { setRate } from '../support/coins.ts'
import { DAY_RAW, strangerAddress, useNanoVenue, XNO, type NanoVenue } from '../support/nano-venue.ts'
import { fillNanoPool, sendNano, sweepNano, watchNano } from '../support/nano-jobs.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { FULL } from '../support/full.ts'

let venue: NanoVenue
useNanoVenue((opened) => (venue = opened), { env: { INVOICE_MINUTES: '10' } })

const coin = async () => {
  const record = await venue.ctx.coins.findCoin('xno')
  if (record === undefined) throw new Error('the coin is not on record')
  return record
}
const isReady = async () => isCoinReady(venue.ctx, await coin())
const round = async () => {
  await setRate(venue.ctx, 'xno', '1')
  await watchNano(venue.ctx)
  await fillNanoPool(venue.ctx)
}
/** The stand-in says that it is of the live network, has so many peers, and what those have confirmed. */
const poseAsLive = ({ peers = 8, peersAhead = 0 }: { peers?: number; peersAhead?: number } = {}) =>
  venue.node.lie(({ action, answerText }) => {
    if (action === 'version') return answerText.replace('"network": "dev"', '"network": "live"')
    if (action === 'peers')
      return peers === 0
        ? undefined
        : JSON.stringify({
            peers: Object.fromEntries(Array.from({ length: peers }, (_, at) => [`[::1]:${at}`, '21'])),
          })
    if (action !== 'telemetry') return undefined
    return answerText.replace(
      /"cemented_count": "(\d+)"/,
      (_, count: string) => `"cemented_count": "${Number(count) + peersAhead}"`,
    )
  })

describe('a node of the live network that', () => {
  it.each([
    ['is connected to no other', { peers: 0 }, 'no other node'],
    ['is far behind its peers', { peersAhead: 5_000 }, 'its peers have'],
  ])('%s is out of reach, and nothing expires by it', async (_, pose, reason) => {
    const invoice = await venue.invoice(1)
    poseAsLive(pose)
    venue.advance(11 * MINUTE_MS)
    venue.pay(venue.wallet.treasury, XNO)
    await round()
    expect(await coin()).toMatchObject({
      reachable: false,
      unreachable: expect.stringContaining(reason) as string,
    })
    expect([(await venue.read(invoice)).lapsed, await isReady()]).toEqual([false, false])
  })

  it('stands still is out of reach, nothing expires by it, and what it has is taken in; it is well again once it moves', async () => {
    const [paid, unpaid] = [await venue.invoice(1), await venue.invoice(1)]
    poseAsLive()
    venue.pay(venue.wallet.treasury, XNO)
    await round()
    expect((await coin()).reachable).toBe(true)
    venue.advance(11 * MINUTE_MS)
    await round()
    expect(await coin()).toMatchObject({
      reachable: false,
      unreachable: expect.stringContaining('has confirmed no block for') as string,
    })
    expect((await venue.read(unpaid)).lapsed).toBe(false)
    venue.pay(paid, DAY_RAW)
    await round()
    expect((await coin()).reachable).toBe(true)
    expect([(await venue.read(paid)).credited_days, (await venue.read(unpaid)).lapsed]).toEqual([1, true])
  })

  it.runIf(FULL)(
    'has stood still for less than that makes nothing expire that was due since it last grew, and nothing late',
    async () => {
      const invoice = await venue.invoice(1)
      const { order, invoice: orders } = await venue.order()
      poseAsLive()
      await round()
      const leftMs = (await venue.read(invoice)).expires_at * 1_000 - venue.ctx.now()
      venue.advance(leftMs - 2_000)
      venue.pay(venue.wallet.treasury, XNO)
      await round()
      // The node stands still from here on, and lacks what is paid on the network.
      for (let step = 0; step < 3; step++) {
        venue.advance(20_000)
        await round()
        expect((await coin()).reachable).toBe(true)
      }
      expect((await venue.read(invoice)).lapsed).toBe(false)
      for (const { address, amount_raw: raw } of [invoice, orders]) venue.pay({ address }, BigInt(raw))
      await round()
      expect(await venue.ctx.invoices.arrivals.listPayments(invoice._id)).toMatchObject([{ late: false }])
      expect((await venue.read(invoice)).credited_days).toBe(1)
      expect((await venue.ctx.orders.find(order._id))?.status).toBe('paid')
      const unpaid = await venue.invoice(1)
      venue.advance(unpaid.expires_at * 1_000 - venue.ctx.now() + 5_000)
      for (let step = 0; step < 2; step++) {
        venue.pay(venue.wallet.treasury, XNO)
        await round()
        venue.advance(2_000)
      }
      expect((await venue.read(unpaid)).lapsed).toBe(true)
    },
  )

  it('grew just before it was cut off makes nothing expire that was due while it was', async () => {
    const paid = await venue.invoice(1)
    poseAsLive()
    venue.pay(venue.wallet.treasury, XNO)
    await round()
    venue.pay(venue.wallet.treasury, XNO)
    poseAsLive({ peers: 0 })
    venue.advance(11 * MINUTE_MS)
    await round()
    expect((await coin()).reachable).toBe(false)
    // Its peers are back, and what they confirmed meanwhile is still missing: also the payment.
    poseAsLive()
    await round()
    expect([(await coin()).reachable, (await venue.read(paid)).lapsed]).toEqual([true, false])
    venue.pay(paid, DAY_RAW)
    await round()
    expect(await venue.ctx.invoices.arrivals.listPayments(paid._id)).toMatchObject([{ late: false }])
    expect((await venue.read(paid)).credited_days).toBe(1)
  })

  it.runIf(FULL)('grows is in reach', async () => {
    poseAsLive()
    for (let minute = 0; minute < 3; minute++) {
      venue.advance(4 * MINUTE_MS)
      venue.pay(venue.wallet.treasury, XNO)
      await round()
      expect([(await coin()).reachable, await isReady()]).toEqual([true, true])
    }
  })
})

it('a private network may be quiet and have no peers', async () => {
  const invoice = await venue.invoice(1)
  venue.advance(60 * MINUTE_MS)
  await round()
  expect([(await coin()).reachable, (await venue.read(invoice)).lapsed]).toEqual([true, true])
})

describe('work', () => {
  const refuseWork = () =>
    venue.node.lie(({ action }) =>
      action === 'work_generate' ? '{"error": "RPC control is disabled"}' : undefined,
    )

  it('that cannot be had is found out at the start: the coin is not ready and says why, until it can be had', async () => {
    venue.setPatience()
    refuseWork()
    await round()
    expect((await coin()).problems?.work).toContain('RPC control is disabled')
    expect(await isReady()).toBe(false)
    await expect(venue.invoice(1)).rejects.toThrow('cannot be taken now')
    await round()
    expect(venue.logged().split('RPC control is disabled').length).toBeLessThan(20)
    venue.node.lie(null)
    await round()
    expect([(await coin()).problems?.work, await isReady()]).toEqual([undefined, true])
  })

  it.runIf(FULL)(
    'that fails for a payout keeps the coin from being ready, and money that waits to be swept is no shortage',
    async () => {
      const invoice = await venue.invoice(2)
      venue.pay(invoice, 2n * DAY_RAW)
      await watchNano(venue.ctx)
      await venue.owe(XNO, strangerAddress())
      refuseWork()
      await sweepNano(venue.ctx)
      await sendNano(venue.ctx)
      expect([(await coin()).treasury_short_raw, await isReady()]).toEqual(['0', false])
    },
  )

  it.runIf(FULL)('is found for payouts before it is found for sweeps', async () => {
    venue.pay(venue.wallet.treasury, 10n * XNO)
    await sweepNano(venue.ctx)
    const invoices = []
    for (let count = 0; count < 6; count++) invoices.push(await venue.invoice(1))
    for (const invoice of invoices) venue.pay(invoice, DAY_RAW)
    await watchNano(venue.ctx)
    const payee = strangerAddress()
    const roots: string[] = []
    const { rpc } = venue.ctx.nano
    const ctx = {
      ...venue.ctx,
      nano: {
        wallet: () => venue.wallet,
        rpc: {
          ...rpc,
          async generateWork(root: string, threshold: bigint) {
            roots.push(root)
            if (roots.length === 2) await venue.owe(XNO, payee)
            await new Promise((resolve) => setTimeout(resolve, 100))
            return rpc.generateWork(root, threshold)
          },
        },
      },
    }
    const sweeping = sweepNano(ctx)
    await waitFor('two searches', () => Promise.resolve(roots.length >= 2 ? true : undefined), {
      limitMs: PATIENCE_MS,
      everyMs: 10,
    })
    await sendNano(ctx)
    await sweeping
    const frontier = JSON.parse(
      (await venue.ctx.payouts.transfers.models.transfers.findOne({ kind: 'payout' }).lean())?.signed ?? '{}',
    ) as {
      previous: string
    }
    // The two under way, and perhaps one that took its turn while what is due was listed.
    expect(roots.indexOf(frontier.previous)).toBeLessThan(roots.length - 4)
  })
})

describe('a payment that is sent in time and confirmed late', () => {
  it('holds its invoice until it is confirmed, and is not late', async () => {
    const invoice = await venue.invoice(1)
    venue.node.setAutoConfirm(null)
    const hash = venue.node.fund(invoice.address, DAY_RAW)
    venue.advance(11 * MINUTE_MS)
    await round()
    expect((await venue.read(invoice)).lapsed).toBe(false)
    await round()
    expect((await venue.read(invoice)).lapsed).toBe(false)
    venue.node.confirm(hash)
    for (let count = 0; count < 2; count++) await round()
    expect((await venue.read(invoice)).credited_days).toBe(1)
    const [payment] = await venue.ctx.invoices.arrivals.listPayments(invoice._id)
    expect(payment).toMatchObject({ state: 'settled', late: false })
  })

  it.runIf(FULL)('holds its order as well, which it pays', async () => {
    const { order, invoice } = await venue.order()
    const status = async () => (await venue.ctx.orders.find(order._id))?.status
    venue.node.setAutoConfirm(null)
    const hash = venue.node.fund(invoice.address, BigInt(invoice.amount_raw))
    venue.advance(61 * MINUTE_MS)
    for (let count = 0; count < 2; count++) await round()
    expect(await status()).toBe('awaiting_payment')
    venue.node.confirm(hash)
    for (let count = 0; count < 2; count++) await round()
    expect(await status()).toBe('paid')
    expect(await venue.ctx.payouts.listByOrder(order._id)).toEqual([])
  })

  it.runIf(FULL)('holds it no more once it is gone', async () => {
    const invoice = await venue.invoice(1)
    venue.node.setAutoConfirm(null)
    const hash = venue.node.fund(invoice.address, DAY_RAW)
    venue.advance(11 * MINUTE_MS)
    await round()
    venue.node.rollback(hash)
    await round()
    expect([
      (await venue.read(invoice)).lapsed,
      (await venue.ctx.invoices.arrivals.listPayments(invoice._id))[0]?.state,
    ]).toEqual([true, 'gone'])
  })
})

describe('a pruned node', () => {
  const prune = (hash: string) =>
    venue.node.lie(({ action, answerText }) => {
      if (action === 'block_count') return answerText.replace('"cemented"', '"pruned": "5", "cemented"')
      if (action !== 'blocks_info') return undefined
      const answer = JSON.parse(answerText) as {
        blocks: Record<string, object> | ''
        blocks_not_found: string[] | ''
      }
      const blocks = answer.blocks === '' ? {} : answer.blocks
      const missing = Object.keys(blocks).filter((one) => one === hash)
      const kept = Object.entries(blocks).filter(([one]) => one !== hash)
      const bare = kept.map(([one, { ...fields }]) => [one, { ...fields, amount: undefined }])
      return JSON.stringify({
        blocks: kept.length === 0 ? '' : Object.fromEntries(bare),
        blocks_not_found: [...(answer.blocks_not_found === '' ? [] : answer.blocks_not_found), ...missing],
      })
    })

  it('keeps the coin from being ready and says why; what it cannot prove is said once and holds nothing open', async () => {
    const [paid, other] = [await venue.invoice(1), await venue.invoice(1)]
    const hash = venue.pay(paid, DAY_RAW)
    const previous = (await venue.ctx.nano.rpc.blockInfo(hash.toUpperCase()))?.block?.previous ?? ''
    prune(previous)
    await round()
    expect((await coin()).problems?.node).toContain('enable_pruning')
    expect(await isReady()).toBe(false)
    venue.advance(11 * MINUTE_MS)
    for (let count = 0; count < 3; count++) await round()
    expect((await venue.read(other)).lapsed).toBe(true)
    expect(venue.logged().split('belongs to nobody before an operator looks at it').length).toBe(2)
    venue.node.lie(null)
    await round()
    expect([(await coin()).problems?.node, await isReady()]).toEqual([undefined, true])
  })
})

describe('a setting that is wrong', () => {
  it('of the seed file keeps the coin from being ready and says why, until it is right', async () => {
    const file = venue.env['NANO_SEED_FILE'] ?? ''
    const seed = fs.readFileSync(file)
    for (const content of ['no seed', undefined]) {
      if (content === undefined) fs.rmSync(file)
      else fs.writeFileSync(file, content)
      venue.setPatience()
      await round()
      await sweepNano(venue.ctx)
      await sendNano(venue.ctx)
      expect((await coin()).problems?.wallet).toContain(
        content === undefined ? 'cannot be read' : 'does not hold a seed',
      )
      expect(await isReady()).toBe(false)
      fs.writeFileSync(file, seed, { mode: 0o600 })
      await round()
      expect([(await coin()).problems?.wallet, await isReady()]).toEqual([undefined, true])
    }
  })

  it.runIf(FULL)('of the node says why it is out of reach, once for each process', async () => {
    venue.setPatience(500)
    await venue.node.setDown(true)
    for (let count = 0; count < 2; count++) await watchNano(venue.ctx)
    expect((await coin()).unreachable).toContain('ECONNREFUSED')
    expect(venue.logged().split('gives no news').length).toBe(2)
    await venue.node.setDown(false)
    await round()
    expect((await coin()).reachable).toBe(true)
  })

  it.runIf(FULL)(
    'of the seed signs nothing and stops nothing, and all goes on once it is right',
    async () => {
      const file = venue.env['NANO_SEED_FILE'] ?? ''
      const seed = fs.readFileSync(file)
      venue.pay(venue.wallet.treasury, 10n * XNO)
      await sweepNano(venue.ctx)
      const owed = await venue.owe(XNO, strangerAddress())
      fs.writeFileSync(file, `${'5e'.repeat(32)}\n`)
      venue.setPatience()
      await sendNano(venue.ctx)
      await round()
      expect([(await coin()).halted, (await venue.payout(owed._id)).state]).toEqual([undefined, 'owed'])
      fs.writeFileSync(file, seed)
      venue.setPatience()
      await round()
      await sendNano(venue.ctx)
      expect([(await coin()).halted, await isReady()]).toEqual([undefined, true])
      expect((await venue.payout(owed._id)).state).not.toBe('owed')
    },
  )
})
