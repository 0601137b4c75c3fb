import type { Connection } from 'mongoose'
import { isDuplicateKey, type Session } from '../platform/database.ts'
import { flag, number, some, textOf, type RecordOf } from '../platform/fields.ts'
import type { Log } from '../platform/log.ts'
import type { Coin } from './coin.ts'
import { isPaid, remainderRaw, type InvoiceRecord, type PaymentRecord } from './invoice.ts'
import { broughtBy, move, payoutLine, paymentLine, sourceOf, transferLines } from './journal.ts'
import type { JournalLine } from './journal.ts'
import type { StoredPayout, TransferRecord } from './payout.ts'

/*
 * Opens the books (journal.ts) of a database of an older version, which has none, from its records, before a
 * process is ready. Every line has the name that its move would have given it, and each batch is a
 * transaction that also changes the opening's mark, so an interrupted opening can go on. No process of older
 * code may run beside it.
 */

export const openingFields = { _id: textOf<'journal'>(), done: flag, batches: number, from_records: flag }
export type Opening = RecordOf<typeof openingFields>

const BATCH = 200

const readMark = (connection: Connection) =>
  connection.collection<Opening>('openings').findOne({ _id: 'journal' })

/** Whether the books were opened from the records of an older version. */
export const isOpenedFromRecords = async (connection: Connection): Promise<boolean> =>
  (await readMark(connection))?.from_records === true

/** Opens the books unless that was done, and turns the payouts' states of an older version into today's. */
export async function openJournal(connection: Connection, log: Log): Promise<void> {
  const openings = connection.collection<Opening>('openings')
  if ((await readMark(connection))?.done === true) return
  const names = Object.keys(LINES_OF)
  const found = await Promise.all(names.map((name) => connection.collection(name).findOne({})))
  const hasRecords = found.some((record) => record !== null)
  // After the look: whoever has made records since then has found this mark, or made it.
  const mark = { done: !hasRecords, batches: 0, from_records: hasRecords }
  try {
    await openings.updateOne({ _id: 'journal' }, { $setOnInsert: mark }, { upsert: true })
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
  }
  if ((await readMark(connection))?.done === true) return
  await renameStates(connection)
  let lines = 0
  for (const [name, linesOf] of Object.entries(LINES_OF)) {
    const next = (after: string) => writeBatch(connection, name, after, linesOf)
    for (let batch = await next(''); batch !== undefined; batch = await next(batch.last)) lines += batch.lines
  }
  await openings.updateOne({ _id: 'journal' }, { $set: { done: true } })
  log.warn({ lines }, 'the journal of money was opened from the records of an older version')
}

type Stored = { _id: string }
type Lines = Promise<JournalLine[]> | JournalLine[]
type LinesOf = (records: Stored[], connection: Connection, session: Session) => Lines

/**
 * Writes the lines of the next records after the id `after`.
 *
 * @returns the last record's id, and how many lines were written; undefined if there are none, or another
 *   process has finished
 */
async function writeBatch(connection: Connection, name: string, after: string, linesOf: LinesOf) {
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

/** Older versions stored how far a payout in a transfer is; today only the transfer says that. */
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

/** By collection: the lines of some of its records. */
const LINES_OF: Readonly<Record<string, LinesOf>> = {
  payments: (records) => (records as PaymentRecord[]).flatMap(linesOfPayment),
  invoices: (records) => (records as InvoiceRecord[]).flatMap(linesOfInvoice),
  orders: (records) => (records as Order[]).flatMap(linesOfOrder),
  payouts: (records) => (records as StoredPayout[]).flatMap(linesOfPayout),
  transfers: (records, connection, session) =>
    linesOfTransfers(records as TransferRecord[], connection, session),
}

/** The lines of a settled payment, and of its loss if the chain took it back; none of others. */
function linesOfPayment(payment: PaymentRecord): JournalLine[] {
  const { state, settled_at: at = payment.first_seen_at, reversed_at: lostAt } = payment
  if (state !== 'settled') return []
  const lost = lostAt === undefined ? [] : paymentLine(payment, 'lost/opening', lostAt)
  return [...paymentLine(payment, 'received', at), ...lost]
}

interface Order {
  _id: string
  coin: Coin
  at: number
  fee_raw: string
  fee_taken?: true
  written_off_raw: string
}

/** The lines of the fee that was taken from an order and of what was written off. */
function linesOfOrder({ _id, coin, at, fee_raw, fee_taken, written_off_raw }: Order): JournalLine[] {
  const about = { coin, at, ids: { order_id: _id } }
  const feeRaw = fee_taken === true ? BigInt(fee_raw) : 0n
  return [
    ...move(`${_id}/fee/opening`, `order:${_id}`, 'fee', feeRaw, about),
    ...move(`${_id}/written_off/opening`, `order:${_id}`, 'lost', BigInt(written_off_raw), about),
  ]
}

const linesOfPayout = (payout: StoredPayout): JournalLine[] => [
  ...(payout.state === 'withdrawn' ? [] : payoutLine(payout, 'owed', payout.at)),
  ...(payout.state === 'manual' ? payoutLine(payout, 'manual/opening', payout.changed_at) : []),
]

/** Makes the lines of a pass invoice: what was carried to it, sold, and left. */
function linesOfInvoice(invoice: InvoiceRecord): JournalLine[] {
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

/** Makes the lines of those transfers that are confirmed. */
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
