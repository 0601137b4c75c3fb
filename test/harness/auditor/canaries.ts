/*
 * One fault for each check, in what the auditor saw of a network that was in order: the alarm must go off.
 */
import { DAY_MS } from '../../../shared/platform/time.ts'
import { CHECKS, type CheckName } from './checks.ts'
import type { SeenMarket } from './outside.ts'
import type { Seen } from './seen.ts'

/** Returns the item that a fault changes. @throws Error if the run has no such item */
function one<T>(what: string, item: T | undefined): T {
  if (item === undefined) throw new Error(`the run has no ${what}`)
  return item
}

/** Takes the item out of its list. @throws Error if the list has no such item */
function hide<T>(what: string, items: T[], isIt: (item: T) => boolean): void {
  const place = items.findIndex(isIt)
  if (place === -1) throw new Error(`the run has no ${what}`)
  items.splice(place, 1)
}

/** Changes the first item of a list. @throws Error if the list is empty */
function change<T>(what: string, items: T[], to: (item: T) => T): void {
  items.splice(0, 1, to(one(what, items[0])))
}

const backupOf = ({ backup }: Seen) => one('backup', typeof backup === 'object' ? backup : undefined)
const NAME = 'canary'

/** Changes what was seen of the market. */
const inMarket =
  (tamper: (market: SeenMarket) => void) =>
  ({ market }: Seen): void =>
    tamper(one('market', market))

/** For each check, what is changed in what was seen. A check without one does not compile. */
const CANARIES: Record<CheckName, { does: string; tamper(seen: Seen): void }> = {
  'a request is answered in time, and by the table of errors': {
    does: 'an answer comes after a minute',
    tamper: ({ calls }) => {
      one(
        'answer',
        calls.find(({ api, status }) => api !== undefined && status === 200),
      ).tookMs = 60_000
    },
  },
  'answers about one thing do not contradict each other': {
    does: 'a pass ends before 1970',
    tamper: ({ calls }) => {
      const told = calls.flatMap((call) => call.seen ?? []).find(({ object }) => object.startsWith('pass '))
      one('pass that was read', told).value = -1
    },
  },
  'an agent is not told what cannot be': {
    does: 'an agent notices something',
    tamper: ({ noticed }) => void noticed.push({ what: 'a canary', words: [] }),
  },
  'what was acknowledged is stored once, and nothing else is': {
    does: 'a stored post is hidden',
    tamper: ({ stored }) => hide('post', stored.posts, () => true),
  },
  'what is stored is what was sent': {
    does: 'a message is stored with a letter more',
    tamper: ({ stored }) => void (one('message', stored.messages[0]).box += '!'),
  },
  'a claim is what its verdicts make it': {
    does: 'a claim counts a verdict more',
    tamper: ({ stored }) => void one('claim', stored.claims[0]).standing.true++,
  },
  'a profile is the last one that was acknowledged': {
    does: 'a profile has another name',
    tamper: ({ stored, calls, agents }) => {
      const { who } = one(
        'profile',
        calls.find(({ did, status }) => did === 'profile' && status === 200),
      )
      const id = agents.find(({ name }) => name === who)?.id
      one(
        'agent',
        stored.agents.find(({ _id }) => _id === id),
      ).profile = { name: 'a canary' }
    },
  },
  'a share that was taken counts': {
    does: 'an order of work is hidden',
    tamper: ({ stored, calls }) => {
      const taken = calls.find(({ did, status }) => did === 'order-work' && status === 201)
      hide('order of work', stored.orders, ({ _id }) => _id === taken?.answer?.['order_id'])
    },
  },
  'a pass lasts as long as the ledger credits it': {
    does: 'a pass ends a day later',
    tamper: ({ stored }) => {
      const agent = one(
        'pass',
        stored.agents.find(({ pass_until_ms: until }) => until !== undefined),
      )
      agent.pass_until_ms = (agent.pass_until_ms ?? 0) + DAY_MS
    },
  },
  'one token of an agent works, and tells what the ledger tells': {
    does: 'an agent is told of one referral more',
    tamper: ({ agents }) => {
      const me = agents.flatMap(({ self }) => self?.me ?? []).find(({ status }) => status === 200)
      ;(one('agent', me).json['referrals'] as { registered: number }).registered++
    },
  },
  'a mailbox holds what was sent to it': {
    does: 'a mailbox lacks a message',
    tamper: ({ agents }) => {
      const box = agents
        .flatMap(({ self }) => (self?.mailbox instanceof Map ? self.mailbox : []))
        .find(({ size }) => size > 0)
      const [id] = one('message that was read', box).keys()
      box?.delete(id ?? '')
    },
  },
  'an agent is told of each event once': {
    does: 'an event comes twice',
    tamper: ({ agents }) => {
      const events = agents.flatMap((agent) => (agent.events === undefined ? [] : [agent.events]))
      const told = one(
        'message among events',
        events.find((list) => list.some(({ kind }) => kind === 'message')),
      )
      told.push(...told.filter(({ kind }) => kind === 'message').slice(0, 1))
    },
  },
  'a record has one entry, which is published as it is stored': {
    does: 'a published entry has another time',
    tamper: ({ ledger: { entries } }) =>
      change('entry', entries, (entry) => ({ ...entry, at: entry.at + 1 })),
  },
  'an entry commits to its record': {
    does: 'a post has another salt',
    tamper: ({ stored }) => void (one('post', stored.posts[0]).salt = '00'.repeat(32)),
  },
  'seals are signed and cover all entries': {
    does: 'a seal has no signature',
    tamper: ({ stored }) => void (one('seal', stored.seals[0]).signed = false),
  },
  'a receipt leads to its seal': {
    does: 'a receipt has another leaf',
    tamper: ({ ledger }) =>
      change('receipt', ledger.receipts, (read) => ({
        ...read,
        receipt: {
          ...read.receipt,
          entries: read.receipt.entries.map((item) => ({ ...item, leaf: '00'.repeat(32) })),
        },
      })),
  },
  'strangers verify the chain and its receipts': {
    does: 'the service says that the chain is not intact',
    tamper: ({ ledger }) => void (ledger.isIntact = false),
  },
  'a payment on the chain is counted once, for its invoice': {
    does: 'a payment is hidden',
    tamper: ({ money, calls }) => {
      const paid = new Set(calls.filter(({ did }) => did === 'pay').map(({ marker }) => marker))
      // One whose invoice need not be looked at any more is not missed.
      const invoices = new Map(money.invoices.map((invoice) => [invoice._id, invoice]))
      hide(
        'payment',
        money.payments,
        ({ tx, invoice_id: id = '' }) => paid.has(tx) && invoices.get(id)?.lapsed !== true,
      )
    },
  },
  'an address receives its payouts, each once': {
    does: 'an address received one raw more',
    tamper: ({ agents }) =>
      void one('address', agents.find(({ paid }) => paid !== undefined)?.paid).arrivedRaw++,
  },
  'Monero is counted while the chain has it, and paid out once': {
    does: 'a payment in a block is known to nobody',
    tamper: (seen) => {
      const { made = [], survey, unlockedAtMs = new Map(), troubles = [] } = seen.monero ?? {}
      const canary = { who: 'canary', address: 'none', amountPico: 1n, invoiceId: 'inv_canary' }
      seen.monero = {
        made: [...made, { ...canary, tx: 'canary', unlockHeight: 0 }],
        survey: {
          height: survey?.height ?? 100,
          places: new Map([...(survey?.places ?? []), ['canary', 10] as const]),
        },
        ...{ unlockedAtMs, troubles },
      }
    },
  },
  'the books add up': {
    does: 'a line of the journal is hidden',
    tamper: ({ money }) => hide('line of the journal', money.lines, () => true),
  },
  'the stated solvency is what the ledger adds up to': {
    does: 'the last statement says one raw more',
    tamper: ({ ledger }) => {
      const stated = one(
        'statement of solvency',
        ledger.entries.findLast(({ kind }) => kind === 'solvency'),
      )
      const owed = stated.data['owed'] as Record<string, string>
      owed['xno'] = String(BigInt(owed['xno'] ?? 0) + 1n)
    },
  },
  'a step of an order is in the ledger once': {
    does: 'a step comes twice',
    tamper: ({ ledger }) =>
      void ledger.entries.push(
        one(
          'step of an order',
          ledger.entries.find(({ kind, data }) => kind === 'order' && data['order_id'] !== undefined),
        ),
      ),
  },
  'no coin is halted': {
    does: 'a coin is halted',
    tamper: ({ money }) => void money.halted.push('xno: a canary'),
  },
  'all that was begun gets done': {
    does: 'something is left to do',
    tamper: ({ left }) => void left.push('a canary'),
  },
  'no job is given up': {
    does: 'a job is given up by a defect',
    tamper: ({ givenUp }) => void givenUp.push({ queue: 'sweep', reason: 'TypeError: a canary', stack: '' }),
  },
  'a process logs no error but of what was broken': {
    does: 'a process logs a defect',
    tamper: ({ logs }) => void logs.push({ name: NAME, errors: ['TypeError: a canary'] }),
  },
  'a process ends in time, without an error': {
    does: 'a process takes a minute to end',
    tamper: ({ stops }) => void stops.push({ name: NAME, tookMs: 60_000, errors: [] }),
  },
  'a member of MongoDB loses no document': {
    does: 'a member lacks a document',
    tamper: ({ members }) => void members.push({ name: NAME, errors: ['a canary'] }),
  },
  'writes are taken again soon after a fault': {
    does: 'writes are refused for a minute after a fault',
    tamper: ({ recoveries }) =>
      void recoveries.push({
        fault: { kind: 'canary', target: '', fromMs: 0, toMs: 1 },
        ...{ outageMs: 60_000, afterMs: 60_000 },
      }),
  },
  'memory, handles, disk and queues do not grow': {
    does: 'a process holds twice the memory in the end',
    tamper: ({ levels }) =>
      void levels.push({ name: 'memory of canary', unit: 'MiB', earlier: 100, later: 200, samples: 100 }),
  },
  'a backup can be restored': {
    does: 'no backup succeeded',
    tamper: (seen) => void (seen.backup = 'no backup of the run succeeded'),
  },
  'a restored backup holds what was acknowledged before it': {
    does: 'a post that was acknowledged before the backup is hidden from the copy',
    tamper: (seen) => {
      const { call, copy } = backupOf(seen)
      const before = new Set(
        seen.calls
          .filter(
            ({ did, atMs, tookMs, status }) => did === 'post' && status === 201 && atMs + tookMs < call.atMs,
          )
          .map(({ answer }) => answer?.['id']),
      )
      hide('post before the backup', copy.stored.posts, ({ _id }) => before.has(_id))
    },
  },
  "a restored ledger is the beginning of the network's": {
    does: 'an entry of the copy has another time',
    tamper: (seen) =>
      change('entry in the backup', backupOf(seen).copy.entries, (entry) => ({ ...entry, at: entry.at + 1 })),
  },
  'the operator finds nothing wrong with a restored backup': {
    does: 'the operator finds something',
    tamper: (seen) => void backupOf(seen).faults.push('a canary'),
  },
  'nothing is left over in the market': {
    does: 'an order is disputed for ever',
    tamper: inMarket(({ orders }) => void (one('order', orders[0]).book.order.status = 'disputed')),
  },
  "an order's money is its seller's, its buyer's, the fee or held": {
    does: 'a payout to a seller is a raw larger',
    tamper: inMarket(({ orders }) => {
      const paid = orders.find(({ book }) => book.toSeller.some(({ state }) => state !== 'withdrawn'))
      const payout = one(
        'payout',
        paid?.book.toSeller.find(({ state }) => state !== 'withdrawn'),
      )
      payout.amount_raw = String(BigInt(payout.amount_raw) + 1n)
    }),
  },
  'an invoice of days is worth what was paid': {
    does: 'an invoice was paid twice as much',
    tamper: inMarket(({ passes, orders }) => {
      const invoice = one('invoice', [...passes, ...orders.map(({ book }) => book)][0]).invoice
      passes.push({
        known: { id: invoice.invoice_id, address: '', by: '', isForgotten: false },
        invoice: {
          ...invoice,
          days: 1,
          paid_raw: String(BigInt(invoice.amount_raw) * 9n),
          status: 'settled',
        },
      })
    }),
  },
  'an invoice counts what the chain has at its address, once': {
    does: 'a send to an invoice is hidden',
    tamper: inMarket(({ blocks, orders }) => {
      const counted = new Set(
        orders.flatMap(({ book }) => book.invoice.payments).map(({ tx_hash: tx }) => tx),
      )
      hide('send to an invoice', blocks, ({ hash }) => counted.has(hash))
    }),
  },
  'what the treasury sends is the sum of its payouts': {
    does: 'the treasury sent a raw more',
    tamper: inMarket(({ blocks, treasury }) => {
      const place = blocks.findIndex(
        ({ kind, account, isConfirmed }) => kind === 'send' && account === treasury && isConfirmed,
      )
      const block = one('send of the treasury', blocks[place])
      blocks.splice(place, 1, { ...block, amountRaw: block.amountRaw + 1n })
    }),
  },
  'an agent is told the sums of its orders and invoices': {
    does: 'an agent has a pass that it never bought',
    tamper: inMarket(
      ({ agents }) => void (one('agent', agents[0]).me['pass_until'] = '2001-01-01T00:00:00.000Z'),
    ),
  },
  'the ledger tells of money what the orders tell': {
    does: 'an entry of a payment for an order is hidden',
    tamper: inMarket(({ ledger }) =>
      hide('entry', ledger, ({ kind, data }) => kind === 'payment' && data['order_id'] !== undefined),
    ),
  },
  'the venue states what its orders give': {
    does: 'the venue says that it owes nine raw more',
    tamper: inMarket(({ stated }) => void (stated.owed = String(BigInt(stated.owed) + 9n))),
  },
  'every raw that came in is accounted for': {
    does: 'a send to the venue is a raw smaller',
    tamper: inMarket(({ blocks, given }) => {
      const addresses = new Set(given.map(({ address }) => address))
      const place = blocks.findIndex(({ kind, to }) => kind === 'send' && addresses.has(to))
      const block = one('send to the venue', blocks[place])
      blocks.splice(place, 1, { ...block, amountRaw: block.amountRaw - 1n })
    }),
  },
}

/** What became of a check's canary. */
export interface Sung {
  check: string
  does: string
  /** How many findings there were; 0 if the check is blind. */
  findings: number
  /** Why the canary could not be tried. */
  untried?: string
}

/**
 * Runs checks on what was seen with the canary of each in it. A check that found something before is not judged
 * by that: what was seen has to be in order by itself.
 */
export const tryCanaries = (seen: Seen, names: readonly CheckName[]): Sung[] =>
  names.map((check) => {
    const { does, tamper } = CANARIES[check]
    const changed = structuredClone(seen)
    try {
      tamper(changed)
    } catch (error) {
      return { check, does, findings: 0, untried: error instanceof Error ? error.message : String(error) }
    }
    return { check, does, findings: CHECKS[check](changed).length }
  })
