import type { Connection } from 'mongoose'
import type { Session } from '../platform/database.ts'
import { only, schemaOf, some } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import type { Coin } from './coin.ts'
import { heldRaw, lineFields, OUTSIDE } from './journal.ts'
import type { Account, AccountKind, Balances, JournalLine, LineIds } from './journal.ts'
import { createReconciliationStore } from './reconciliation-store.ts'
import { sumBy } from './sum-raw.ts'

const journalSchema = schemaOf<JournalLine>('journal', lineFields)
// With the amount, so that a balance is read from the index alone.
journalSchema.index({ coin: 1, from: 1, to: 1, amount_raw: 1 })
journalSchema.index({ coin: 1, to: 1, amount_raw: 1 })
journalSchema.index({ agent_id: 1, at: 1 }, only({ agent_id: some }))
journalSchema.index({ order_id: 1, at: 1 }, only({ order_id: some }))
journalSchema.index({ transfer_id: 1 }, only({ transfer_id: some }))

export type LineFilter = Partial<LineIds> & { coin?: Coin; account?: Account }

/** The sum of all moves from accounts of one kind to those of another. */
export interface Flow {
  from: AccountKind
  to: AccountKind
  sum: bigint
}

/**
 * Creates the store of the journal, the lines that move money between accounts, and of what each comparison of
 * it with a chain has found.
 */
export function createJournalStore(connection: Connection) {
  const journal = recordsOf(connection.model<JournalLine>('JournalLine', journalSchema))
  /** Sums, for each account, the lines to it less those from it; `matchOf` chooses the lines of each side. */
  const sumUp = async (coin: Coin, matchOf: (side: 'from' | 'to') => object, session?: Session) => {
    const sums = new Map<Account, bigint>()
    for (const side of ['from', 'to'] as const) {
      const match = { coin, ...matchOf(side) }
      const found = await sumBy<Account, JournalLine>(journal.model, match, 'amount_raw', `$${side}`, session)
      for (const { key, sum } of found) sums.set(key, (sums.get(key) ?? 0n) + (side === 'to' ? sum : -sum))
    }
    return sums
  }
  return {
    models: { journal: journal.model },
    reconciliations: createReconciliationStore(connection),
    /**
     * Writes moves, in the transaction that makes them.
     *
     * @throws a duplicate-key error for one written before
     */
    write: (lines: readonly JournalLine[], session: Session) => journal.insert(lines, session),
    list: ({ account, ...filter }: LineFilter, limit: number, session?: Session) =>
      journal.all(
        { ...filter, ...(account === undefined ? {} : { $or: [{ from: account }, { to: account }] }) },
        { session, sort: { at: -1, _id: -1 }, limit },
      ),
    balances: (coin: Coin, { account, ...filter }: LineFilter = {}, session?: Session): Promise<Balances> =>
      sumUp(coin, (side) => ({ ...filter, ...(account === undefined ? {} : { [side]: account }) }), session),
    /** Sums all moves by the kinds of their two accounts. */
    async flows(coin: Coin): Promise<Flow[]> {
      const kindOf = (side: string) => ({ $first: { $split: [side, ':'] } })
      const key = { from: kindOf('$from'), to: kindOf('$to') }
      const found = await sumBy<Omit<Flow, 'sum'>, JournalLine>(journal.model, { coin }, 'amount_raw', key)
      return found.map(({ key: way, sum }) => ({ ...way, sum }))
    },
    /** What orders hold and what is owed for them, by the books. */
    async owedForOrders(coin: Coin, session?: Session): Promise<bigint> {
      const ofOrders = { coin, order_id: some }
      const sumOf = async (side: 'from' | 'to') => {
        const kind = { $first: { $split: [`$${side}`, ':'] } }
        const sums = await sumBy<AccountKind, JournalLine>(
          journal.model,
          ofOrders,
          'amount_raw',
          kind,
          session,
        )
        const counted = sums.filter(({ key }) => key === 'order' || key === 'owed')
        return counted.reduce((total, { sum }) => total + sum, 0n)
      }
      return (await sumOf('to')) - (await sumOf('from'))
    },
    /** What each wallet held before the books saw it: see books.ts. */
    listOpenings: (coin: Coin) => journal.all({ _id: { $regex: `^opening/${coin}/` } }, { sort: { at: 1 } }),
    /** What the venue holds by the books, in the smallest unit. */
    async held(coin: Coin, session?: Session): Promise<bigint> {
      return heldRaw(await sumUp(coin, (side) => ({ [side]: { $in: OUTSIDE } }), session))
    },
  }
}

export type JournalStore = ReturnType<typeof createJournalStore>
