import type { Connection } from 'mongoose'
import type { Session } from '../platform/database.ts'
import { PENDING_INDEX, pendingField } from '../ledger/pending.ts'
import { only, schemaOf, some } from '../platform/fields.ts'
import { recordsOf } from '../platform/records.ts'
import type { Coin } from './coin.ts'
import { heldRaw, liabilitiesOf, lineFields, OUTSIDE, OWN_KINDS, storedLine } from './journal.ts'
import type { Account, AccountKind, Balances, JournalLine, LineIds, StoredLine } from './journal.ts'
import { createReconciliationStore } from './reconciliation-store.ts'
import { sumBy } from './sum-raw.ts'

const journalSchema = schemaOf<StoredLine>('journal', { ...lineFields, ...pendingField })
journalSchema.index(...PENDING_INDEX)
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
  const journal = recordsOf(connection.model<StoredLine>('JournalLine', journalSchema))
  /** Sums, for each account, the lines to it less those from it; `matchOf` chooses the lines of each side. */
  const sumUp = async (coin: Coin, matchOf: (side: 'from' | 'to') => object, session?: Session) => {
    const sums = new Map<Account, bigint>()
    for (const side of ['from', 'to'] as const) {
      const match = { coin, ...matchOf(side) }
      const found = await sumBy<Account, StoredLine>(journal.model, match, 'amount_raw', `$${side}`, session)
      for (const { key, sum } of found) sums.set(key, (sums.get(key) ?? 0n) + (side === 'to' ? sum : -sum))
    }
    return sums
  }
  /** Sums all moves by the kinds of their two accounts. */
  const flows = async (coin: Coin, session?: Session): Promise<Flow[]> => {
    const kindOf = (side: string) => ({ $first: { $split: [side, ':'] } })
    const key = { from: kindOf('$from'), to: kindOf('$to') }
    const found = await sumBy<Omit<Flow, 'sum'>, StoredLine>(
      journal.model,
      { coin },
      'amount_raw',
      key,
      session,
    )
    return found.map(({ key: way, sum }) => ({ ...way, sum }))
  }
  /** What each kind of account holds. */
  const totals = async (coin: Coin, session?: Session): Promise<Map<AccountKind, bigint>> => {
    const totals = new Map<AccountKind, bigint>()
    const add = (kind: AccountKind, sum: bigint) => totals.set(kind, (totals.get(kind) ?? 0n) + sum)
    for (const { from, to, sum } of await flows(coin, session)) {
      add(from, -sum)
      add(to, sum)
    }
    return totals
  }
  return {
    models: { journal: journal.model },
    reconciliations: createReconciliationStore(connection),
    /**
     * Writes moves, with their entries in the ledger, in the transaction that makes them.
     *
     * @throws a duplicate-key error for one written before
     */
    write: (lines: readonly JournalLine[], session: Session) =>
      journal.insert(lines.map(storedLine), session),
    list: ({ account, ...filter }: LineFilter, limit: number, session?: Session): Promise<JournalLine[]> =>
      journal.all<JournalLine>(
        { ...filter, ...(account === undefined ? {} : { $or: [{ from: account }, { to: account }] }) },
        { fields: { pending: 0 }, session, sort: { at: -1, _id: -1 }, limit },
      ),
    balances: (coin: Coin, { account, ...filter }: LineFilter = {}, session?: Session): Promise<Balances> =>
      sumUp(coin, (side) => ({ ...filter, ...(account === undefined ? {} : { [side]: account }) }), session),
    flows,
    totals,
    /** What isn't the venue's own, as closing entries state it from the ledger's entries. */
    liabilities: async (coin: Coin, session?: Session) => liabilitiesOf(await totals(coin, session)),
    /** What each wallet held before the books saw it: see books.ts. */
    listOpenings: (coin: Coin): Promise<JournalLine[]> =>
      journal.all<JournalLine>(
        { _id: { $regex: `^opening/${coin}/` } },
        { fields: { pending: 0 }, sort: { at: 1 } },
      ),
    /**
     * What is the venue's own by the books, in the smallest unit; below 0 if what it holds doesn't cover what isn't its
     * own.
     */
    async own(coin: Coin, session?: Session): Promise<bigint> {
      const sums = await sumUp(coin, (side) => ({ [side]: { $in: OWN_KINDS } }), session)
      return OWN_KINDS.reduce((sum, account) => sum + (sums.get(account) ?? 0n), 0n)
    },
    /** What the venue holds by the books, in the smallest unit. */
    async held(coin: Coin, session?: Session): Promise<bigint> {
      return heldRaw(await sumUp(coin, (side) => ({ [side]: { $in: OUTSIDE } }), session))
    },
  }
}

export type JournalStore = ReturnType<typeof createJournalStore>
