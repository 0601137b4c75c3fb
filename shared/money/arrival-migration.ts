import type { Collection, Connection } from 'mongoose'
import { newSalt } from '../ledger/pending.ts'
import { isDuplicateKey } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { newArrival } from './arrival-steps.ts'
import type { ArrivalRecord } from './arrival.ts'
import { arrivalLine, type JournalLine } from './journal.ts'
import { OPEN_TRANSFERS, TREASURY_INDEX, type TransferRecord } from './transfer.ts'

/** Schema 1: money of no invoice was booked by the transfer that took it in, or by a line named after it. */
type OldTransfer = TransferRecord & { brings: NonNullable<ArrivalRecord['came_to']>; brought_by: string }
type OldPayment = ArrivalRecord & { taken_from?: ArrivalRecord['came_to'] }

const insertOnce = (journal: Collection<JournalLine>, line: JournalLine) =>
  journal.insertOne(line).catch((error: unknown) => {
    if (!isDuplicateKey(error)) throw error
  })

/** Makes a record of all money that came in and that no invoice counts, for schema 2. It may be run again. */
export async function recordOldArrivals(connection: Connection): Promise<void> {
  const payments = connection.collection<OldPayment>('payments')
  const journal = connection.collection<JournalLine>('journal')
  // What an invoice counts of such money has a record: the payment.
  await payments.updateMany({ taken_from: { $exists: true } }, [
    { $set: { came_to: '$taken_from', shown_at: { $ifNull: ['$shown_at', '$settled_at'] } } },
    { $unset: 'taken_from' },
  ])
  /** @returns the record, unless a payment stands for this money */
  const record = async (arrival: ReturnType<typeof newArrival> & Pick<ArrivalRecord, 'swept_at'>) => {
    const { coin, tx, address_index, amount_raw } = arrival
    const given = { coin, tx, amount_raw, came_to: { $exists: true }, invoice_id: { $exists: true } }
    if ((await payments.findOne(given)) !== null) return undefined
    const ids = { _id: newId('payment'), salt: newSalt() }
    const place = { coin, tx, address_index }
    await payments.updateOne(place, { $setOnInsert: { ...ids, ...arrival } }, { upsert: true })
    return (await payments.findOne(place)) ?? undefined
  }
  const booking = ['confirmed', ...OPEN_TRANSFERS] as const
  const transfers = connection
    .collection<OldTransfer>('transfers')
    .find({ brings: { $exists: true }, state: { $in: [...booking] } })
  for await (const { coin, brought_by: tx, account_index = 0, brings, ...transfer } of transfers) {
    const { amount_raw, state, changed_at: at } = transfer
    const place = { coin, tx, address_index: account_index, amount_raw, came_to: brings }
    const isSwept = state === 'confirmed' && account_index === TREASURY_INDEX
    const arrival = await record({ ...newArrival(place, at), ...(isSwept ? { swept_at: at } : {}) })
    if (arrival === undefined || state === 'confirmed') continue
    // Before, it was booked once the transfer was confirmed.
    // Inserted, since whoever upgrades may change no line.
    for (const line of arrivalLine(arrival, 'arrived', at)) await insertOnce(journal, line)
  }
  const deposits = journal.find({ _id: /^xmr\//, from: 'chain', to: { $in: ['operator', 'unassigned'] } })
  for await (const { _id, coin, to, amount_raw, at } of deposits) {
    const [, tx = '', index] = _id.split('/')
    const came_to = to === 'operator' ? to : 'unassigned'
    await record(newArrival({ coin, tx, address_index: Number(index), amount_raw, came_to }, at))
  }
}
