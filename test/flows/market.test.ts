import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAgent } from '../../client/command/run.ts'
import type { Order } from '../../client/client.ts'
import { pay } from '../support/coins.ts'
import { ADDRESSES, checkMarket, MARKET_QUEUES, startMarket, type TestMarket } from '../support/market.ts'
import { checkBooksAfterEach } from '../support/money.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-market-'))
let market: TestMarket

beforeAll(async () => {
  // The command asks for receipts, which wait until entries have their numbers.
  market = await startMarket({ queues: [...MARKET_QUEUES, 'sequence'] })
  await agent('seller', 'register')
  await agent('buyer', 'register')
})
checkBooksAfterEach(() => market.ctx)
afterAll(async () => {
  await checkMarket(market.ctx)
  await market.stop()
  fs.rmSync(folder, { recursive: true })
})

/** One command of an agent with a home of its own. */
async function run(
  who: string,
  argv: readonly string[],
  stdin = '',
): Promise<{ exitCode: number; out: string; err: string }> {
  let [out, err] = ['', '']
  const exitCode = await runAgent({
    argv: [...argv, '--url', market.url],
    env: { AGENT_HOME: path.join(folder, who) },
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: { write: (text: string) => (out += text) },
    stderr: { write: (text: string) => (err += text), isTTY: false },
    signal: new AbortController().signal,
  })
  return { exitCode, out, err }
}

async function agent(who: string, ...argv: string[]): Promise<Record<string, unknown>> {
  const { exitCode, out, err } = await run(who, [...argv, '--json'])
  expect([exitCode, argv[0]], out + err).toEqual([0, argv[0]])
  return JSON.parse(out) as Record<string, unknown>
}

const orderOf = async (who: string, id: string, ...options: string[]) =>
  (await agent(who, 'orders', id, ...options)) as unknown as { order: Order; opened?: { text?: string } }

async function paidOrder(): Promise<string> {
  const { offer_id: offerId } = await agent(
    'seller',
    'offer',
    'A poem',
    'Fourteen lines.',
    '--price',
    '3',
    '--hours',
    '1',
    '--xno',
    ADDRESSES.xno,
  )
  const placed = await agent('buyer', 'order', String(offerId), '--refund-address', ADDRESSES.xno)
  await pay(market.ctx, (placed['invoice'] as { invoice_id: string }).invoice_id, { amount: '1.5' })
  return String(placed['order_id'])
}

describe('two agents with nothing but their command', () => {
  it('trade: offer, order, payment, a delivery that the buyer alone can read, acceptance', async () => {
    const id = await paidOrder()
    expect((await run('buyer', ['offers'])).out).toContain('A poem')
    expect((await run('seller', ['orders'])).out).toContain(
      `${id}  seller  1.500000 xno  paid, then refunded by the service at `,
    )
    const poem = 'Of fourteen lines\nthis is the second.'
    expect((await run('seller', ['deliver', id, '-', '--unsealed-key'], poem)).out).toMatch(
      /^Delivered; the buyer has until /,
    )
    const stored = await market.ctx.orders.find(id)
    expect(stored?.delivery).toBeDefined()
    expect(stored?.delivery).not.toContain('fourteen')
    expect((await orderOf('buyer', id)).opened).toEqual({ text: poem, sender_key: 'unsealed' })
    const note = '  (sealed with a key that no signed seal bears out yet)\n'
    expect((await run('buyer', ['orders', id])).out).toContain(
      `Delivered:\n${note}  Of fourteen lines\n  this is the second.`,
    )
    expect((await orderOf('buyer', id, '--unsealed-key')).opened).toEqual({
      text: poem,
      sender_key: 'pinned',
    })
    expect((await orderOf('seller', id)).opened).toBeUndefined()
    expect((await run('buyer', ['accept', id])).out).toBe(`Accepted; ${id} is released.\n`)
    expect((await orderOf('seller', id)).order.payouts).toMatchObject([
      { amount: '1.2', state: 'owed', address: ADDRESSES.xno },
    ])
    expect((await run('seller', ['solvency'])).out).toContain('xno: owed ')
  })

  it('see in me and orders whose turn it is, how long they have, and what they are owed', async () => {
    const waiting = await paidOrder()
    const { offer_id: offerId } = await agent(
      'buyer',
      ...'offer t d --price 2 --xno'.split(' '),
      ADDRESSES.xno,
    )
    const { order_id: unpaid } = await agent('seller', 'order', String(offerId))
    const orders = (await run('seller', ['orders'])).out
    expect(orders).toMatch(
      new RegExp(`^Your turn:\\n(  .*\\n)*  ${waiting}  seller .* paid, .* (min|h|s) left`),
    )
    expect(orders).toMatch(new RegExp(`Your turn:\\n(  .*\\n)*  ${String(unpaid)}  buyer `))
    const buyers = (await run('buyer', ['orders'])).out
    expect(buyers).toMatch(new RegExp(`The turn of others:\\n(  .*\\n)*  ${waiting}  buyer `))
    const me = (await run('seller', ['me'])).out
    expect(me).toMatch(new RegExp(`your turn: +\\d+ orders?\\n(.*\\n)*  ${waiting}  deliver it: .* left`))
    await agent('seller', 'deliver', waiting, 'x', '--plain')
    expect((await run('buyer', ['me'])).out).toMatch(new RegExp(`  ${waiting}  accept it: .* left`))
    await agent('buyer', 'accept', waiting)
    expect((await run('buyer', ['me'])).out).not.toContain(waiting)
    expect((await run('seller', ['me'])).out).toMatch(/owed to you: +\d+(\.\d+)? xno/)
  })

  it('are told of --plain if nothing can be sealed for the buyer', async () => {
    const id = await paidOrder()
    const buyer = String((await agent('buyer', 'whoami'))['agent_id'])
    const cards = market.ctx.agents.models.agents
    const { profile } = (await cards.findById(buyer).lean()) ?? {}
    await cards.updateOne({ _id: buyer }, { $unset: { 'profile.dm_key': 1 } })
    const refused = await run('seller', ['deliver', id, 'x'])
    expect([refused.exitCode, refused.err]).toEqual([
      1,
      expect.stringContaining('"market deliver --plain" delivers it as it is'),
    ])
    await cards.updateOne({ _id: buyer }, { $set: { profile } })
    await agent('seller', 'deliver', id, 'x', '--plain')
  })

  it('publish their key with an order, if registering could not', async () => {
    const buyer = String((await agent('buyer', 'whoami'))['agent_id'])
    await market.ctx.agents.models.agents.updateOne({ _id: buyer }, { $unset: { 'profile.dm_key': 1 } })
    await paidOrder()
    const { profile } = (await agent('seller', 'card', buyer)) as {
      profile: { dm_key: string | null }
    }
    expect(profile.dm_key).toMatch(/^[0-9a-f]{64}$/)
  })

  it('may deliver in the open, and dispute', async () => {
    const id = await paidOrder()
    await agent('seller', 'deliver', id, 'In the open.', '--plain')
    expect((await orderOf('buyer', id)).order.delivery).toBe('In the open.')
    expect((await run('buyer', ['orders', id])).out).toContain('Delivered:\n  In the open.')
    expect((await run('buyer', ['dispute', id, 'It does not rhyme.'])).out).toBe(
      `Disputed; the operator decides ${id}.\n`,
    )
    expect((await run('seller', ['orders', id])).out).toContain('It does not rhyme.')
  })

  it('are told what they did wrong', async () => {
    const { exitCode, err } = await run('seller', ['offer', 'x', 'y', '--xno', ADDRESSES.xno])
    expect([exitCode, err]).toEqual([2, expect.stringContaining('--price expected a number')])
    const offer = (price: string, address: string) =>
      run('seller', ['offer', 'x', 'y', '--price', price, '--xno', address])
    expect((await offer('0.99', ADDRESSES.xno)).err).toContain('from 1 to 5000')
    expect((await offer('1', ADDRESSES.xmr)).err).toContain('a Nano address')
    expect((await run('buyer', ['accept', 'mkt_none'])).err).toContain('no market order')
  })
})
