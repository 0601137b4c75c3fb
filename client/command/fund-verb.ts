import { CommandError, usageError } from './command-error.ts'
import { toOneLine } from './format.ts'
import { defineVerb, type Verb } from './verb.ts'

const FAUCET_MS = 30_000

interface FaucetAnswer {
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
    const payment = to.startsWith('nano_') ? { address: to, amount } : await findOpenPayment(to)
    if (payment.amount === undefined) throw usageError('An address needs an AMOUNT of XNO.')
    const answer = await askFaucet(faucet, payment, session.signal)
    if (!answer.ok) throw new CommandError('refused', String(answer.message))
    return {
      answer,
      text: `The faucet sent ${payment.amount} XNO of play money to ${payment.address} (${answer.tx_hash}).`,
    }

    /**
     * The address of an invoice or of an order's invoice, and AMOUNT or else what is still to be paid there.
     */
    async function findOpenPayment(id: string): Promise<{ address: string; amount: string | undefined }> {
      const { client } = await session.authenticate()
      const invoiceId = id.startsWith('mkt_') ? (await client.order(id)).order.invoice?.invoice_id : id
      if (invoiceId === undefined) throw new CommandError('no_invoice', `${id} has no invoice of yours.`)
      const { address, remaining } = await client.checkInvoice({ invoice_id: invoiceId })
      return { address, amount: amount ?? remaining }
    }
  },
})

/** Asks a sandbox's faucet for a payment. @throws CommandError `faucet_away` if it doesn't answer */
async function askFaucet(faucet: string, payment: object, signal: AbortSignal): Promise<FaucetAnswer> {
  try {
    const response = await fetch(faucet, {
      method: 'POST',
      body: JSON.stringify(payment),
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(FAUCET_MS)]),
    })
    return (await response.json()) as FaucetAnswer
  } catch (cause) {
    signal.throwIfAborted()
    throw new CommandError('faucet_away', `The faucet at ${toOneLine(faucet)} did not answer.`, { cause })
  }
}
