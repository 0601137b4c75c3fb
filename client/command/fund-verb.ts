import { TransportError } from '../errors.ts'
import { isLoopback, sendOnce } from '../http.ts'
import { CommandError, usageError } from './command-error.ts'
import { toOneLine } from './format.ts'
import type { Session } from './session.ts'
import { defineVerb, type Verb } from './verb.ts'

const FAUCET_MS = 30_000

/** A faucet's good answer. */
interface Funded {
  tx_hash: string
}

export const fundVerb: Verb = defineVerb({
  name: 'fund',
  words: ['TO', '[AMOUNT]'],
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
    const answer = await askFaucet(session, faucet, payment)
    return {
      answer,
      text: `The faucet sent ${payment.amount} XNO of play money to ${payment.address} (${answer.tx_hash}).`,
    }

    /** The address of an invoice or of an order's invoice, and AMOUNT or else what is still to be paid there. */
    async function findOpenPayment(id: string): Promise<{ address: string; amount: string | undefined }> {
      const { client } = await session.authenticate()
      const invoiceId = id.startsWith('mkt_') ? (await client.order(id)).order.invoice?.invoice_id : id
      if (invoiceId === undefined) throw new CommandError('no_invoice', `${id} has no invoice of yours.`)
      const { address, remaining } = await client.checkInvoice({ invoice_id: invoiceId })
      return { address, amount: amount ?? remaining }
    }
  },
})

/**
 * Asks a sandbox's faucet for a payment. Where the faucet is, is the service's word: so it is asked only at the
 * service's own host, and on this machine only if the service runs here too.
 *
 * @throws CommandError `faucet_elsewhere`, `faucet_away`; RefusalError
 */
async function askFaucet(session: Session, faucet: string, payment: object): Promise<Funded> {
  const { baseUrl, signal } = session
  if (!isOwnFaucet(faucet, baseUrl))
    throw new CommandError(
      'faucet_elsewhere',
      `${baseUrl} names a faucet at ${toOneLine(faucet)}, which is not on its own host, so nothing was asked of it.`,
    )
  const options = { timeoutMs: FAUCET_MS, signal }
  const request = { method: 'POST', url: faucet, body: payment } as const
  const answer = await sendOnce<Funded>(options, request).catch((cause: unknown) => {
    if (!(cause instanceof TransportError)) throw cause
    throw new CommandError('faucet_away', `The faucet at ${toOneLine(faucet)} did not answer.`, { cause })
  })
  if (typeof answer.tx_hash === 'string' && /^[0-9A-F]{64}$/i.test(answer.tx_hash)) return answer
  throw new CommandError(
    'faucet_away',
    `The faucet at ${toOneLine(faucet)} named no transaction, so it may have sent nothing.`,
  )
}

/** Whether a faucet stands on the host of its service, or both on this machine. */
export function isOwnFaucet(faucet: string, baseUrl: string): boolean {
  if (!URL.canParse(faucet)) return false
  const url = new URL(faucet)
  const service = new URL(baseUrl)
  if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return false
  if (service.protocol === 'https:' && url.protocol !== 'https:') return false
  return url.hostname === service.hostname || (isLoopback(url) && isLoopback(service))
}
