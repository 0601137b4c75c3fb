import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededNumbers } from '../../../shared/crypto/puzzle/seeded-numbers.ts'
import { findWrongInPass } from '../auditor/outside.ts'
import { PAYMENT_NAMES, PAYMENTS, PAYS_ALL } from './sale.ts'
import { readInvoice } from './views.ts'
import { checkNone, count, addInvoice, pay, until, type Market } from './world.ts'

/**
 * Lets an agent buy days of pass and pay for them, all as `numbers` choose, and checks the invoice at its
 * end. Does nothing if the agent is buying already: it has one open invoice at a time.
 *
 * @param busy the names of the agents that are buying
 */
export async function buyPass(world: Market, busy: Set<string>, numbers: SeededNumbers): Promise<void> {
  const agent = numbers.pick(world.agents)
  const days = numbers.between(1, 7)
  const payment = numbers.pick(PAYMENT_NAMES)
  if (busy.has(agent.name)) return
  busy.add(agent.name)
  try {
    const { status, json } = await world.ask(agent, 'buy-pass', 'POST', '/invoice', { currency: 'xno', days })
    if (status !== 201 && status !== 200) return
    const invoice = addInvoice(world, agent, json)
    for (const raw of PAYMENTS[payment][1](invoice.amountRaw)) pay(world, agent, invoice.address, raw)
    await sleep(PAYS_ALL.includes(payment) ? 0 : world.mode.payBySeconds * 1_000)
    const view = await until(
      world,
      `invoice ${invoice.id}, paid ${payment}, is neither settled nor expired`,
      async () => {
        const read = await readInvoice(world, invoice)
        if (read === undefined) return 'forgotten'
        return read.status === 'settled' || read.status === 'expired' ? read : undefined
      },
    )
    if (view === undefined || view === 'forgotten') return
    checkNone(world, findWrongInPass(view))
    count(world, 'passes')
    if (payment === 'late') pay(world, agent, invoice.address, invoice.amountRaw)
  } finally {
    busy.delete(agent.name)
  }
}
