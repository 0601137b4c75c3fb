import { idsByName } from '../world/agent.ts'
import { checkMailboxes, checkSelves } from './agents.ts'
import { compareLedgers, compareWithAnswers } from './backups.ts'
import { checkEvents } from './events.ts'
import { findingsOf, type Finding } from './finding.ts'
import { checkEntries, checkReceipts, checkSeals, checkVerifiers } from './ledger.ts'
import { checkLevels } from './levels.ts'
import { checkBooks, checkPaymentsIn, checkPayouts, checkSolvency, checkSteps, takenBackIn } from './money.ts'
import { checkMonero } from './monero.ts'
import { checkObjects } from './objects.ts'
import { checkPasses, checkWorkAnswers } from './passes.ts'
import { checkRecoveries } from './recoveries.ts'
import { checkClaims, checkCommitments, checkContents, checkProfiles, checkWrites } from './records.ts'
import {
  checkAgents,
  checkDays,
  checkLeftOver,
  checkLedger,
  checkOrders,
  checkPayments,
  checkSends,
  checkStated,
  checkTotals,
  type SeenMarket,
} from './outside.ts'
import type { Seen } from './seen.ts'
import { checkAnswers, checkGivenUp, checkLogs, checkMembers, checkStops } from './service.ts'
import { evidenceIn } from './stored.ts'

/** Says what is wrong. Pure: it depends on what was seen alone. */
export type Check = (seen: Seen) => Finding[]

/** What must hold of any network at rest, whatever was broken before, and the check of each. */
const NETWORK_CHECKS = {
  'a request is answered in time, and by the table of errors': (seen) =>
    checkAnswers(seen.calls, seen.faults, seen.isOverload, seen.slowdowns),
  'answers about one thing do not contradict each other': (seen) =>
    checkObjects(seen.calls, idsByName(seen.agents), takenBackIn(seen.money), evidenceIn(seen.stored)),
  'an agent is not told what cannot be': (seen) => seen.noticed,
  'what was acknowledged is stored once, and nothing else is': (seen) =>
    checkWrites(seen.calls, seen.agents, seen.stored),
  'what is stored is what was sent': (seen) => checkContents(seen.calls, seen.stored),
  'a claim is what its verdicts make it': (seen) => checkClaims(seen.stored, seen.now.seconds),
  'a profile is the last one that was acknowledged': (seen) =>
    checkProfiles(seen.calls, seen.agents, seen.stored),
  'a share that was taken counts': (seen) => checkWorkAnswers(seen.calls, seen.agents, seen.stored),
  'a pass lasts as long as the ledger credits it': (seen) => checkPasses(seen.stored, seen.ledger.entries),
  'one token of an agent works, and tells what the ledger tells': (seen) =>
    checkSelves(seen.agents, seen.stored, seen.ledger.entries),
  'a mailbox holds what was sent to it': (seen) => checkMailboxes(seen.agents, seen.stored),
  'an agent is told of each event once': (seen) =>
    checkEvents(seen.agents, seen.stored, seen.money.orders, seen.laterOrders),
  'a record has one entry, which is published as it is stored': (seen) =>
    checkEntries(seen.ledger.entries, seen.stored),
  'an entry commits to its record': (seen) => checkCommitments(seen.stored),
  // After a restore the signer remembers seals that are gone, and signs none of their numbers again by itself.
  'seals are signed and cover all entries': (seen) =>
    seen.faults.some(({ kind }) => kind === 'restore') ? [] : checkSeals(seen.stored),
  'a receipt leads to its seal': (seen) => checkReceipts(seen.ledger),
  'strangers verify the chain and its receipts': (seen) => checkVerifiers(seen.ledger),
  'a payment on the chain is counted once, for its invoice': (seen) =>
    checkPaymentsIn(seen.calls, seen.money, seen.now),
  'an address receives its payouts, each once': (seen) => checkPayouts(seen.agents, seen.money),
  'Monero is counted while the chain has it, and paid out once': (seen) =>
    seen.monero === undefined ? [] : checkMonero(seen.monero, seen.money, seen.agents, seen.faults, seen.now),
  'the books add up': (seen) => checkBooks(seen.money),
  'the stated solvency is what the ledger adds up to': (seen) => checkSolvency(seen.ledger.entries),
  'a step of an order is in the ledger once': (seen) =>
    checkSteps(seen.calls, seen.ledger.entries, seen.money),
  'no coin is halted': (seen) => findingsOf(seen.money.halted.map((reason) => `a coin is halted, ${reason}`)),
  'all that was begun gets done': (seen) => findingsOf(seen.left),
  'no job is given up': (seen) => checkGivenUp(seen.givenUp),
  'a process logs no error but of what was broken': (seen) => checkLogs(seen.logs, seen.faults),
  'a process ends in time, without an error': (seen) => checkStops(seen.stops),
  'a member of MongoDB loses no document': (seen) => checkMembers(seen.members),
  'writes are taken again soon after a fault': (seen) =>
    seen.isOverload ? [] : checkRecoveries(seen.recoveries),
  'memory, handles, disk and queues do not grow': (seen) => checkLevels(seen.levels),
  'a backup can be restored': ({ backup }) => findingsOf(typeof backup === 'string' ? [backup] : []),
  'a restored backup holds what was acknowledged before it': ({ backup, ...seen }) =>
    typeof backup !== 'object'
      ? []
      : compareWithAnswers(seen.calls, seen.agents, backup.copy, backup.call, {
          takenBack: takenBackIn(seen.money),
          evidence: evidenceIn(seen.stored),
        }),
  "a restored ledger is the beginning of the network's": ({ backup }) =>
    typeof backup !== 'object' ? [] : compareLedgers(backup.copy, backup.network),
  'the operator finds nothing wrong with a restored backup': ({ backup }) =>
    findingsOf(typeof backup !== 'object' ? [] : backup.faults),
} as const satisfies Record<string, Check>

const ofMarket =
  (check: (market: SeenMarket) => Finding[]): Check =>
  ({ market }) =>
    market === undefined ? [] : check(market)

/** What must hold of a market's money at rest, as anyone outside can see it. */
const MARKET_CHECKS = {
  'nothing is left over in the market': ofMarket(checkLeftOver),
  "an order's money is its seller's, its buyer's, the fee or held": ofMarket(checkOrders),
  'an invoice of days is worth what was paid': ofMarket(checkDays),
  'an invoice counts what the chain has at its address, once': ofMarket(checkPayments),
  'what the treasury sends is the sum of its payouts': ofMarket(checkSends),
  'an agent is told the sums of its orders and invoices': ofMarket(checkAgents),
  'the ledger tells of money what the orders tell': ofMarket(checkLedger),
  'the venue states what its orders give': ofMarket(checkStated),
  'every raw that came in is accounted for': ofMarket(checkTotals),
} as const satisfies Record<string, Check>

export const CHECKS = { ...NETWORK_CHECKS, ...MARKET_CHECKS }
export type CheckName = keyof typeof CHECKS
export const NETWORK_CHECK_NAMES = Object.keys(NETWORK_CHECKS) as CheckName[]
export const MARKET_CHECK_NAMES = Object.keys(MARKET_CHECKS) as CheckName[]

/** What must hold of any run's records and processes, whatever its agents do and remember. */
export const INSIDE: readonly CheckName[] = [
  'an agent is not told what cannot be',
  'the books add up',
  'the stated solvency is what the ledger adds up to',
  'a pass lasts as long as the ledger credits it',
  'a record has one entry, which is published as it is stored',
  'an entry commits to its record',
  'seals are signed and cover all entries',
  'no coin is halted',
  'a member of MongoDB loses no document',
  'a process ends in time, without an error',
]

/** A finding, with the check that made it. */
export interface Audited extends Finding {
  check: CheckName
}

/** Runs the checks on what was seen. */
export const audit = (seen: Seen, names: readonly CheckName[]): Audited[] =>
  names.flatMap((check) => CHECKS[check](seen).map((finding) => ({ check, ...finding })))
