import { renameSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  TransportError,
  type Answer,
  type CheckInvoiceAnswer,
  type FreeCredit,
  type MadeInvoice,
  type CreateInvoiceBody,
  type WorkOrder,
} from '../client.ts'
import { isPassing } from '../errors.ts'
import { given } from '../given.ts'
import type { MineDaysProgress } from '../mine.ts'
import { isUnfinished, readMiningState, writeMiningState } from '../mining-state.ts'
import { stoppedError } from './command-error.ts'
import {
  formatCoins,
  formatCount,
  formatDuration,
  formatFields,
  formatRate,
  formatTime,
  toOneLine,
} from './format.ts'
import type { Session } from './session.ts'
import { defineVerb, flagOption, numberOption, type Verb } from './verb.ts'

export const passVerbs: readonly Verb[] = [
  defineVerb({
    name: 'currencies',
    help: 'What a day of pass costs, and what is accepted',
    async run({ session }) {
      const client =
        session.findIdentity() === undefined ? session.client : (await session.authenticate()).client
      const answer = await client.currencies()
      const lines = answer.accepted.map(
        (entry) =>
          `${entry.currency} (${toOneLine(entry.name)}): ${entry.status === 'ready' ? `${toOneLine(entry.amount_per_day)} per day` : 'not ready'}`,
      )
      const free = answer.free_period.active
        ? `free until ${answer.free_period.until ?? 'further notice'}`
        : 'no free period'
      return {
        answer,
        text: [
          `${answer.price_usd_per_day} USD per day, ${free}. ${toOneLine(answer.pricing.your_price)}`,
          ...lines,
        ].join('\n'),
      }
    },
  }),
  defineVerb({
    name: 'invoice',
    words: ['CURRENCY'],
    options: { days: numberOption('N', 'pass days to buy, 1 if absent', 1) },
    help: 'Ask for pass days with xno, xmr or pow: credited at once in the free period, else an invoice or a work order',
    async run({ words: [currency], options: { days }, session }) {
      const { client, identity } = await session.authenticate()
      // Any text is sent: the service says which currencies it knows.
      const answer = await client.invoice({
        currency: currency as CreateInvoiceBody['currency'],
        ...given({ days }),
      })
      if ('free' in answer) return { answer, text: describeFreeCredit(answer) }
      if ('order' in answer) {
        const kept = keepWorkOrder(session, identity.agent_id, answer.order)
        return { answer, text: describeWorkOrder(answer.order, kept) }
      }
      return { answer, text: describeInvoice(answer) }
    },
  }),
  defineVerb({
    name: 'check',
    words: ['INVOICE_ID'],
    options: {
      wait: flagOption('ask again until it is settled or has expired; stop it at any time'),
    },
    help: 'Where an invoice in a coin stands, and what was paid',
    async run({ words: [invoiceId], options: { wait }, session }) {
      const { client } = await session.authenticate()
      const { signal, progress } = session
      let answer = await client.checkInvoice({ invoice_id: invoiceId })
      while (wait && isOpen(answer)) {
        progress.show(`check: ${describeStanding(answer)}`)
        try {
          await sleep(CHECK_PAUSE_MS, undefined, { signal })
          answer = await client.checkInvoice({ invoice_id: invoiceId })
        } catch (error) {
          if (signal.aborted)
            throw stoppedError(`Stopped; the invoice goes on as it is: ${describeStanding(answer)}.`, error)
          if (!(error instanceof TransportError || isPassing(error))) throw error
          progress.say(`check: ${error.message} Asking again.`)
        }
      }
      progress.end()
      return { answer, text: describeChecked(answer) }
    },
  }),
  defineVerb({
    name: 'mine',
    options: {
      days: numberOption('N', 'pass days to buy, 1 if absent', 1),
      threads: numberOption('N', 'cores to work on, all of them if absent', 1),
      'no-native': flagOption('no code compiled for this processor, WebAssembly alone'),
      new: flagOption('leave the work order that is under way, and begin another'),
    },
    help: 'Buy pass days by proof of work; stop it at any time, it goes on where it was',
    async run({ options: { days, threads, new: beginAnew, 'no-native': withoutNative }, session }) {
      const { client, identity } = await session.authenticate()
      const { mineDays } = await import('../mine.ts')
      const { signal, progress } = session
      const stateFile = workFilePath(session, identity.agent_id)
      if (beginAnew) leaveWork(stateFile)
      try {
        const mined = await mineDays({
          client,
          days,
          threads,
          program: withoutNative ? undefined : await findNativeSearch(session),
          stateFile,
          signal,
          onProgress: (step) => showMining(session, step),
        })
        progress.end()
        if (mined.kind === 'free') return { answer: mined.answer, text: describeFreeCredit(mined.answer) }
        const { answer } = mined
        return {
          answer,
          text: `The work order ${answer.order_id} is credited: ${formatCount(answer.credited_days, 'day')} of pass${answer.pass_until === null ? '' : `, which runs until ${answer.pass_until}`}.`,
        }
      } catch (error) {
        if (!signal.aborted) throw error
        throw stoppedError(
          `Stopped; what was found is kept in ${stateFile}, and "mine" goes on with it.`,
          error,
        )
      }
    },
  }),
]

/** The file beside the token file that holds an agent's work. (Another agent can't use it.) */
function workFilePath({ tokenFile }: Session, agentId: string): string {
  return tokenFile.replace(/\.json$/, `.${agentId}.work.json`)
}

/**
 * Writes an order to the file that "mine" goes on with.
 *
 * @returns false, and writes nothing, if another is under way
 */
function keepWorkOrder(session: Session, agentId: string, order: WorkOrder): boolean {
  const file = workFilePath(session, agentId)
  const kept = readMiningState(file)
  if (kept !== undefined && isUnfinished(kept.order, Date.now() / 1000)) return false
  writeMiningState(file, { order, unsent: [] })
  return true
}

/** Puts the work that is under way aside, by renaming its file. */
function leaveWork(stateFile: string): void {
  const kept = readMiningState(stateFile)
  if (kept !== undefined)
    renameSync(stateFile, stateFile.replace(/\.json$/, `.${kept.order.order_id.replace(/\W/g, '')}.json`))
}

function describeFreeCredit(answer: FreeCredit): string {
  return `The free period credits ${formatCount(answer.credited_days, 'day')}; the pass runs until ${answer.pass_until}.`
}

/** A work order, and what to do next. @param isKept whether "mine" goes on with it */
function describeWorkOrder(order: WorkOrder, isKept: boolean): string {
  const fields = formatFields({
    'work order': order.order_id,
    days: order.days,
    shares: `${order.shares_required} at ${order.difficulty_bits} leading zero bits`,
    prefix: order.prefix,
    until: formatTime(order.expires_at),
  })
  return `${fields}\n${isKept ? '"mine" works it off.' : 'Another work order is under way: "mine" goes on with that one, "mine --new" leaves it.'}`
}

/** The service looks at the chain anew at most once in 2 s. */
const CHECK_PAUSE_MS = 3_000

/** Whether an invoice is still to be paid, or being paid. */
function isOpen({ status }: CheckInvoiceAnswer): boolean {
  return status !== 'settled' && status !== 'expired'
}

function describeInvoice(invoice: MadeInvoice): string {
  const fields = formatFields({
    invoice: invoice.invoice_id,
    status: invoice.status,
    pay: `${toOneLine(invoice.amount)} ${invoice.currency}`,
    to: toOneLine(invoice.address),
    uri: toOneLine(invoice.uri),
    price: `${invoice.price_usd} USD at ${toOneLine(invoice.rate)} USD per ${invoice.currency} (${toOneLine(invoice.rate_source)})`,
    until: formatTime(invoice.expires_at),
  })
  return `${fields}\nPay it from a wallet, in one payment or in parts; "check ${toOneLine(invoice.invoice_id)} --wait" tells when it is settled.`
}

/** Where an invoice stands, on one line. */
function describeStanding({
  status,
  paid,
  amount,
  currency,
  confirmations,
  required_confirmations: required,
  chain,
}: CheckInvoiceAnswer): string {
  const confirming = status === 'confirming' ? `, ${confirmations} of ${required} confirmations` : ''
  return `${status}, ${toOneLine(paid)} of ${toOneLine(amount)} ${currency} confirmed${confirming}${chain === 'reachable' ? '' : '; the service cannot see the chain now'}`
}

/** All that is known of an invoice, a line each, with its payments. */
function describeChecked(checked: Answer<CheckInvoiceAnswer>): string {
  const { currency, payments } = checked
  return formatFields({
    invoice: checked.invoice_id,
    status: checked.status,
    paid: `${toOneLine(checked.paid)} of ${toOneLine(checked.amount)} ${currency}`,
    ...(checked.remaining === '0'
      ? {}
      : {
          'still to pay': `${toOneLine(checked.remaining)} ${currency}`,
          to: toOneLine(checked.address),
          uri: toOneLine(checked.uri),
        }),
    'days credited': checked.credited_days,
    'pass until': checked.pass_until,
    'left over':
      checked.remainder_raw === '0'
        ? undefined
        : `${formatCoins(checked.remainder_raw, currency)}, which counts towards the next invoice in it`,
    chain:
      checked.checked_at === null
        ? checked.chain
        : `${checked.chain}, looked at ${formatTime(checked.checked_at)}`,
    until: formatTime(checked.expires_at),
    ...Object.fromEntries(
      payments.map((payment, place) => [
        `payment ${place + 1}`,
        `${toOneLine(payment.amount)} ${currency}, ${payment.state}, ${formatCount(payment.confirmations, 'confirmation')}${payment.late ? ', late' : ''}, ${toOneLine(payment.tx_hash)}`,
      ]),
    ),
  })
}

/** The program of the native search; undefined if this machine has none, which is said. */
async function findNativeSearch({ progress }: Session): Promise<string | undefined> {
  const { prepareNativeSearch } = await import('../mine.ts')
  const search = await prepareNativeSearch()
  if ('program' in search) return search.program
  progress.say(`mine: by WebAssembly, which is slower than native code: ${search.missing}.`)
  return undefined
}

/** Shows a step of mining on the progress line. */
function showMining({ progress }: Session, step: MineDaysProgress): void {
  const { order, unsent } = step
  const done = `${order.shares_accepted} of ${order.shares_required} shares counted, ${unsent} to hand in`
  if (step.step === 'started')
    progress.say(
      `mine: ${step.resumed ? 'going on with' : 'made'} work order ${order.order_id} for ${formatCount(order.days, 'day')}: ${done}`,
    )
  else if (step.step === 'mining')
    progress.show(
      `mine: ${done}, ${formatRate(step.mining.hashesPerSecond)}, about ${formatDuration(step.mining.secondsLeft)} left`,
    )
  else if (step.step === 'submitted') progress.show(`mine: ${done}`)
  else progress.say(`mine: ${step.reason} Handing in again in ${formatDuration(step.seconds)}.`)
}
