import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../shared/crypto/puzzle/seeded-numbers.ts'
import { checkPassInvoice, readInvoice } from './books.ts'
import { choose } from './sale.ts'
import { count, DUST_RAW, noteInvoice, pay, until, type World } from './world.ts'

const PAYMENTS = { exact: 4, parts: 2, over: 2, twice: 1, 'short-by-1': 2, dust: 1, 'too-little': 1, late: 1, never: 1 } as const

/** Days of pass bought by one agent, as the seed has chosen it. One agent buys one pass at a time: it has one open invoice. */
export async function buyPass(world: World, busy: Set<string>, numbers: SeededNumbers): Promise<void> {
  const chosen = { agent: numbers.pick(world.agents), days: numbers.between(1, 7), payment: choose(numbers, PAYMENTS) }
  const { agent, days, payment } = chosen
  if (busy.has(agent.name)) return
  busy.add(agent.name)
  try {
    const answered = await world.ask(agent, 'buy-pass', 'POST', '/invoice', { currency: 'xno', days })
    if (answered.status !== 201 && answered.status !== 200) return
    const invoice = noteInvoice(world, agent, answered.json)
    const { address, amountRaw: price } = invoice
    const send = (raw: bigint): void => void pay(world, agent, address, raw)
    if (payment === 'exact' || payment === 'twice') send(price)
    if (payment === 'twice') send(price)
    if (payment === 'over') send((price * BigInt(numbers.between(101, 250))) / 100n)
    if (payment === 'short-by-1') send(price - 1n)
    if (payment === 'dust') send(DUST_RAW)
    if (payment === 'too-little') send(DUST_RAW - 1n)
    if (payment === 'parts') {
      send(price / 3n)
      await sleep(numbers.between(0, 1_000))
      send(price - price / 3n)
    }
    const ended = async () => {
      const view = await readInvoice(world, invoice)
      if (view === undefined) {
        invoice.isForgotten = true
        return 'forgotten' as const
      }
      return view.status === 'settled' || view.status === 'expired' ? view : undefined
    }
    const isPaid = ['exact', 'twice', 'over', 'parts'].includes(payment)
    await sleep(isPaid ? 0 : world.mode.payBySeconds * 1_000)
    const view = await until(world, () => `invoice ${invoice.id}, paid ${payment}, is neither settled nor expired`, [invoice.id], ended)
    if (view === undefined || view === 'forgotten') return
    checkPassInvoice(world, invoice, view)
    count(world, 'passes')
    if (payment === 'late') send(price)
  } finally {
    busy.delete(agent.name)
  }
}
