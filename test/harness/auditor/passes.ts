import { DAY_MS } from '../../../shared/platform/time.ts'
import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'
import { isShare } from '../world/agent.ts'
import { collectFindings, type Finding } from './finding.ts'
import type { SeenAgent } from './seen.ts'
import { fateOf, type Call } from '../world/history.ts'
import type { Stored } from './stored.ts'

interface Credit {
  at: number
  means: string
  days: number
  untilMs: number
  order: string | undefined
}

/** Pass time and referrals, worked out from the published ledger alone. */
export interface Account {
  untilMs: number | undefined
  credits: Credit[]
  /** Agents that it referred, and those of them that paid. */
  registered: number
  paying: number
}

const PAID = new Set(['work', 'coin'])

/**
 * Works out from the ledger's registrations and credits how long each agent's pass lasts and whom it
 * referred.
 *
 * @returns the account of each agent by its id, and credits that don't fit the pass before them
 */
export function readAccounts(ledger: readonly LedgerEntry[]): {
  accounts: Map<string, Account>
  findings: Finding[]
} {
  const { findings, addFinding } = collectFindings()
  const accounts = new Map<string, Account>()
  const refs = new Map<string, string>()
  /** The account of an agent, made if there is none. */
  const accountOf = (id: string): Account => {
    const account = accounts.get(id) ?? { untilMs: undefined, credits: [], registered: 0, paying: 0 }
    accounts.set(id, account)
    return account
  }
  for (const { kind, at: seconds, data } of ledger) {
    const id = String(data['agent_id'])
    if (kind === 'registration') {
      accountOf(id)
      if (typeof data['ref'] === 'string') refs.set(id, data['ref'])
    }
    if (kind === 'pass_credit')
      accountOf(id).credits.push({
        at: seconds,
        means: String(data['means']),
        days: Number(data['days']),
        untilMs: Date.parse(String(data['pass_until'])),
        order: data['order_id'] === undefined ? undefined : String(data['order_id']),
      })
  }
  for (const [id, account] of accounts) {
    const ref = refs.get(id)
    if (ref !== undefined) accountOf(ref).registered++
    if (ref !== undefined && account.credits.some(({ means }) => PAID.has(means))) accountOf(ref).paying++
    // Sorted by their ends, since each credit ends later than the one before, while clocks may have jumped.
    for (const credit of account.credits.sort((one, other) => one.untilMs - other.untilMs)) {
      const fromMs = credit.untilMs - credit.days * DAY_MS
      const continuesPass = account.untilMs !== undefined && Math.abs(fromMs - account.untilMs) < 1
      // `at` is in whole seconds, and the two clocks are not the same.
      const startsAnew =
        fromMs >= credit.at * 1_000 - 1_000 &&
        fromMs <= credit.at * 1_000 + 1_999 &&
        fromMs >= (account.untilMs ?? 0)
      if (!continuesPass && !startsAnew)
        addFinding(
          `a credit of ${credit.days} days to ${id} ends at ${new Date(credit.untilMs).toISOString()}, which neither continues the pass nor begins at its own time`,
          id,
          ...(credit.order === undefined ? [] : [credit.order]),
        )
      account.untilMs = credit.untilMs
    }
  }
  return { accounts, findings }
}

/** Compares the stored shares, days and passes with the ledger. */
export function checkPasses(stored: Stored, ledger: readonly LedgerEntry[]): Finding[] {
  const { accounts, findings: creditFindings } = readAccounts(ledger)
  const { findings, addFinding } = collectFindings()
  for (const { _id: id, pass_until_ms: untilMs, referrals } of stored.agents) {
    const account = accounts.get(id)
    if ((account?.untilMs ?? 0) !== (untilMs ?? 0))
      addFinding(
        `the pass of ${id} ends at ${untilMs}, and by the ledger at ${account?.untilMs}`,
        id,
        ...(account?.credits.flatMap(({ order }) => order ?? []) ?? []),
      )
    if (referrals.paying !== (account?.paying ?? 0))
      addFinding(
        `${id} is said to have ${referrals.paying} paying referrals, and by the ledger has ${account?.paying}`,
        id,
      )
  }
  const credited = new Map<string, number>()
  for (const { credits } of accounts.values())
    for (const { order, days } of credits)
      if (order !== undefined) credited.set(order, (credited.get(order) ?? 0) + days)
  for (const order of stored.orders) {
    const counted = stored.counted.get(order._id) ?? []
    const words = [order._id]
    if (new Set(counted).size !== counted.length)
      addFinding(`order ${order._id} counts a nonce twice`, ...words)
    if (counted.some((nonce) => !isShare(order.prefix, nonce, order.difficulty_bits)))
      addFinding(`order ${order._id} counts a nonce that is no share`, ...words)
    if (counted.length !== order.shares_accepted)
      addFinding(
        `order ${order._id} says ${order.shares_accepted} shares and has ${counted.length}`,
        ...words,
      )
    if (order.shares_accepted > order.shares_required)
      addFinding(`order ${order._id} has more shares than it asked for`, ...words)
    if (order.credited_days !== Math.floor(counted.length / order.shares_per_day))
      addFinding(
        `order ${order._id} credited ${order.credited_days} days for ${counted.length} shares`,
        ...words,
      )
    if (order.credited_days !== (credited.get(order._id) ?? 0))
      addFinding(
        `order ${order._id} credited ${order.credited_days} days, and by the ledger ${credited.get(order._id) ?? 0}`,
        ...words,
      )
  }
  return [...creditFindings, ...findings]
}

/**
 * Checks that every accepted share counts, and that no order has fewer days or shares than an agent was told.
 */
export function checkWorkAnswers(
  calls: readonly Call[],
  agents: readonly SeenAgent[],
  stored: Stored,
): Finding[] {
  const { findings, addFinding } = collectFindings()
  const orders = new Map(stored.orders.map((order) => [order._id, order]))
  const known = new Map(agents.flatMap((agent) => agent.orders.map((order) => [order.id, order] as const)))
  for (const call of calls) {
    const orderId = String(call.answer?.['order_id'])
    if (call.did === 'order-work' && call.status === 201 && !orders.has(orderId))
      addFinding(`order ${orderId} was acknowledged and is lost`, orderId)
    if (call.did !== 'submit-work' || fateOf(call) !== 'yes') continue
    const { order_id: id, nonces } = call.body as { order_id: string; nonces: string[] }
    const order = orders.get(id)
    const knownOrder = known.get(id)
    if (order === undefined || knownOrder === undefined) {
      addFinding(`order ${id} took nonces and is lost`, id)
      continue
    }
    const counted = new Set(stored.counted.get(id))
    const isFull = order.shares_accepted === order.shares_required
    const lost = nonces.filter(
      (nonce) => isShare(knownOrder.prefix, nonce, knownOrder.bits) && !counted.has(nonce),
    )
    if (lost.length > 0 && !isFull)
      addFinding(`shares ${lost.join(', ')} of order ${id} were taken and do not count`, id)
    if (
      Number(call.answer?.['credited_days']) > order.credited_days ||
      Number(call.answer?.['shares_accepted']) > order.shares_accepted
    )
      addFinding(
        `order ${id} told of ${String(call.answer?.['credited_days'])} days and ${String(call.answer?.['shares_accepted'])} shares, and has fewer`,
        id,
      )
  }
  return findings
}
