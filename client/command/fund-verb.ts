import { CommandError, usageError } from './command-error.ts'
import { defineVerb, type Verb } from './verb.ts'

interface Given {
  ok: boolean
  tx_hash?: string
  message?: string
}

export const fundVerb: Verb = defineVerb({
  name: 'fund',
  words: ['TO', '[AMOUNT]'],
  options: {},
  help: 'In a sandbox: have its faucet pay an invoice or an order, or AMOUNT of XNO to an address',
  async run({ words: [to, amount], session }) {
    const { faucet } = await session.client.currencies()
    if (faucet === undefined)
      throw new CommandError(
        'no_sandbox',
        `${session.baseUrl} is no sandbox: its coins are real, and nobody gives them away.`,
      )
    const payment = to.startsWith('nano_') ? { address: to, amount } : await whatIsOwed(to)
    if (payment.amount === undefined) throw usageError('An address needs an AMOUNT of XNO.')
    const response = await fetch(faucet, {
      method: 'POST',
      body: JSON.stringify(payment),
      signal: AbortSignal.any([session.signal, AbortSignal.timeout(30_000)]),
    })
    const given = (await response.json()) as Given
    if (!given.ok) throw new CommandError('refused', String(given.message))
    return {
      answer: given,
      text: `The faucet sent ${payment.amount} XNO of play money to ${payment.address} (${given.tx_hash}).`,
    }

    async function whatIsOwed(id: string): Promise<{ address: string; amount: string | undefined }> {
      const { client } = await session.own()
      const invoiceId = id.startsWith('mkt_') ? (await client.order(id)).order.invoice?.invoice_id : id
      if (invoiceId === undefined) throw new CommandError('no_invoice', `${id} has no invoice of yours.`)
      const { address, remaining } = await client.checkInvoice({ invoice_id: invoiceId })
      return { address, amount: amount ?? remaining }
    }
  },
})
