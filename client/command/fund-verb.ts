import { CommandError, usageError } from './command-error.ts'
import { oneLine } from './format.ts'
import { defineVerb, type Verb } from './verb.ts'

const FAUCET_MS = 30_000

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
    if (typeof faucet !== 'string')
      throw new CommandError(
        'no_sandbox',
        `${session.baseUrl} is no sandbox: its coins are real, and nobody gives them away.`,
      )
    const payment = to.startsWith('nano_') ? { address: to, amount } : await whatIsOwed(to)
    if (payment.amount === undefined) throw usageError('An address needs an AMOUNT of XNO.')
    const given = await askFaucet(faucet, payment, session.signal)
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

async function askFaucet(faucet: string, payment: object, signal: AbortSignal): Promise<Given> {
  try {
    const response = await fetch(faucet, {
      method: 'POST',
      body: JSON.stringify(payment),
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(FAUCET_MS)]),
    })
    return (await response.json()) as Given
  } catch (cause) {
    signal.throwIfAborted()
    throw new CommandError('faucet_away', `The faucet at ${oneLine(faucet)} did not answer.`, { cause })
  }
}
