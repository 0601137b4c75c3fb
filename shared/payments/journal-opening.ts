import type { Connection } from 'mongoose'
import { isDuplicateKey, type Session } from '../servers/database.ts'
import { flag, number, some, textOf, type RecordOf } from '../servers/fields.ts'
import type { Log } from '../foundation/log.ts'
import type { Coin } from './coin.ts'
import { isPaid, remainderRaw, type InvoiceRecord, type PaymentRecord } from './invoice.ts'
import {
  broughtBy,
  move,
  payoutLine,
  paymentLine,
  sourceOf,
  transferLines,
  type JournalLine,
} from './journal.ts'
import type { StoredPayout, TransferRecord } from './payout.ts'

/*
 * Opens the books of a database that has none, from its records, before a process is ready. Every line has
 * the name that its move would have given it, and each batch is a transaction that writes the opening's mark,
 * so an interrupted one goes on. No process of older code may run beside it.
 */

export const openingFields = { _id: textOf<'journal'>(), done: flag, batches: number, from_records: flag }
export type Opening = RecordOf<typeof openingFields>

const BATCH = 200

export const isOpenedFromRecords = async (connection: Connection): Promise<boolean> =>
  (await connection.collection<Opening>('openings').findOne({ _id: 'journal' }))?.from_records === true

/** Unless that was done; turns what an older version stored of payouts into what this one knows. */
export async function openJournal(connection: Connection, log: Log): Promise<void> {
  const openings = connection.collection<Opening>('openings')
  if ((await openings.findOne({ _id: 'journal' }))?.done === true) return
  const hasRecords = (
    await Promise.all(SOURCES.map(({ name }) => connection.collection(name).findOne({})))
  ).some((one) => one !== null)
  // After the look: whoever made records since then has found this mark, or made it.
  const mark = { done: !hasRecords, batches: 0, from_records: hasRecords }
  try {
    await openings.updateOne({ _id: 'journal' }, { $setOnInsert: mark }, { upsert: true })
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
  }
  if ((await openings.findOne({ _id: 'journal' }))?.done === true) return
  await renameStates(connection)
  let lines = 0
  for (const { name, linesOf } of SOURCES) {
    for (let after = ''; ;) {
      const batch = await openBatch(connection, name, after, linesOf)
      if (batch === undefined) break
      after = batch.last
      lines += batch.lines
    }
  }
  await openings.updateOne({ _id: 'journal' }, { $set: { done: true } })
  log.warn({ lines }, 'the journal of money was opened from the records of an older version')
}

type LinesOf = (
  records: Stored[],
  connection: Connection,
  session: Session,
) => Promise<JournalLine[]> | JournalLine[]
type Stored = { _id: string }

/** @returns undefined if there are no more records, or another process has opened them */
async function openBatch(connection: Connection, name: string, after: string, linesOf: LinesOf) {
  return connection.getClient().withSession((session) =>
    session.withTransaction(async () => {
      const filter = { _id: 'journal' as const, done: false }
      const mark = await connection
        .collection<Opening>('openings')
        .updateOne(filter, { $inc: { batches: 1 } }, { session })
      const records = await connection
        .collection<Stored>(name)
        .find({ _id: { $gt: after } }, { session })
        .sort({ _id: 1 })
        .limit(BATCH)
        .toArray()
      const last = records.at(-1)?._id
      if (mark.matchedCount === 0 || last === undefined) return undefined
      const journal = connection.collection<JournalLine>('journal')
      const lines = await linesOf(records, connection, session)
      const ids = lines.map(({ _id }) => _id)
      const there = await journal.find({ _id: { $in: ids } }, { session, projection: { _id: 1 } }).toArray()
      const known = new Set(there.map(({ _id }) => _id))
      const fresh = lines.filter(({ _id }) => !known.has(_id))
      if (fresh.length > 0) await journal.insertMany(fresh, { session })
      return { last, lines: fresh.length }
    }),
  )
}

/** How far a payout in a transfer is, only the transfer says. */
async function renameStates(connection: Connection): Promise<void> {
  const payouts = connection.collection<StoredPayout>('payouts')
  const older = ['signed', 'sent', 'confirmed', 'held'] as unknown as StoredPayout['state'][]
  const carried = { state: { $in: older }, transfer_id: some }
  await payouts.updateMany(carried, { $set: { state: 'in_transfer' }, $unset: { tx: '' } })
  await payouts.updateMany({ state: 'manual', transfer_id: some }, { $unset: { transfer_id: '' } })
  const transfers = connection.collection<TransferRecord>('transfers')
  for await (const { _id, coin, address } of payouts.find({ state: { $in: older } })) {
    const suspects = await transfers.find({ coin, unexplained_to: some }, { sort: { _id: -1 } }).toArray()
    const suspect = suspects.find(({ unexplained_to: to }) => to?.includes(address ?? '')) ?? suspects[0]
    await payouts.updateOne({ _id }, { $set: { state: 'owed', held_by: suspect?._id ?? 'unknown' } })
  }
}

interface Order {
  _id: string
  coin: Coin
  at: number
  fee_raw: string
  fee_taken?: true
  written_off_raw: string
}

const SOURCES: readonly { name: string; linesOf: LinesOf }[] = [
  {
    name: 'payments',
    linesOf: (records) =>
      (records as PaymentRecord[]).flatMap((payment) => {
        const { state, settled_at: at = payment.first_seen_at, reversed_at: lostAt } = payment
        if (state !== 'settled') return []
        return [
          ...paymentLine(payment, 'received', at),
          ...(lostAt === undefined ? [] : paymentLine(payment, 'lost/opening', lostAt)),
        ]
      }),
  },
  { name: 'invoices', linesOf: (records) => (records as InvoiceRecord[]).flatMap(invoiceLines) },
  {
    name: 'orders',
    linesOf: (records) =>
      (records as Order[]).flatMap(
        ({ _id, coin, at, fee_raw: fee, fee_taken: isTaken, written_off_raw: writtenOff }) => {
          const about = { coin, at, ids: { order_id: _id } }
          return [
            ...(isTaken === true
              ? move(`${_id}/fee/opening`, `order:${_id}`, 'fee', BigInt(fee), about)
              : []),
            ...move(`${_id}/written_off/opening`, `order:${_id}`, 'lost', BigInt(writtenOff), about),
          ]
        },
      ),
  },
  {
    name: 'payouts',
    linesOf: (records) =>
      (records as StoredPayout[]).flatMap((payout) => [
        ...(payout.state === 'withdrawn' ? [] : payoutLine(payout, 'owed', payout.at)),
        ...(payout.state === 'manual' ? payoutLine(payout, 'manual/opening', payout.changed_at) : []),
      ]),
  },
  {
    name: 'transfers',
    linesOf: (records, connection, session) =>
      linesOfTransfers(records as TransferRecord[], connection, session),
  },
]

function invoiceLines(invoice: InvoiceRecord): JournalLine[] {
  const { _id, agent_id, coin, at, days } = invoice
  if (days === undefined) return []
  const { received_raw, carried_raw, moved_raw } = invoice
  const [received = 0n, carried = 0n, moved = 0n] = [received_raw, carried_raw, moved_raw].map(BigInt)
  const left = remainderRaw(invoice)
  const isOver = isPaid(invoice) || invoice.lapsed

  const own = `invoice:${_id}` as const
  const remainder = `remainder:${agent_id}` as const
  const about = { coin, at, ids: { agent_id, invoice_id: _id } }
  return [
    ...move(`${_id}/carried`, remainder, own, carried, about),
    ...move(`${_id}/opening/sold`, own, 'sold', received + carried - moved - left, about),
    ...move(`${_id}/opening/left`, own, remainder, moved + (isOver ? left : 0n), about),
  ]
}

async function linesOfTransfers(records: TransferRecord[], connection: Connection, session: Session) {
  const confirmed = records.filter(({ state }) => state === 'confirmed')
  const ids = confirmed.flatMap(({ payout_ids: payouts }) => payouts)
  const carried = await connection
    .collection<StoredPayout>('payouts')
    .find({ _id: { $in: ids }, state: 'in_transfer' }, { session })
    .toArray()
  const sources = confirmed.flatMap((transfer) => sourceOf(transfer) ?? [])
  const transfers = connection.collection<TransferRecord>('transfers')
  const found = transfers.find({ tx: { $in: sources } }, { session, projection: { tx: 1 } })
  const own = new Set((await found.toArray()).map(({ tx }) => tx))
  return confirmed.flatMap((transfer) => {
    const payouts = carried.filter(({ transfer_id: id }) => id === transfer._id)
    return transferLines({ ...transfer, ...broughtBy(transfer, own) }, payouts, transfer.changed_at)
  })
}
