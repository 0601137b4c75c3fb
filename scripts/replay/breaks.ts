import { registerHooks } from 'node:module'
import { applyCodeChange, type CodeChange } from '../planted/code-change.ts'

/** One condition of the service that a scenario must notice the lack of. */
export interface Break extends CodeChange {
  scenario: string
  name: string
}

const SEQUENCER = 'shared/ledger/sequencer.ts'
const PAYOUT_STORE = 'shared/payments/payout-store.ts'
const PAYOUT_SERVICE = 'shared/payments/payout-service.ts'
const EVENT_STORE = 'shared/events/event-store.ts'
const ENTRY_STORE = 'shared/ledger/entry-store.ts'

export const BREAKS: readonly Break[] = [
  {
    scenario: 'log',
    name: 'a taken number counts as numbered',
    file: SEQUENCER,
    text: 'missing = stillMissing',
    instead: 'missing = []',
  },
  {
    scenario: 'log',
    name: 'pending entries are read that an election may take back',
    file: ENTRY_STORE,
    text: '{ ...MAJORITY, projection: { pending: 1 }, hint',
    instead: '{ projection: { pending: 1 }, hint',
  },
  {
    scenario: 'log',
    name: 'the highest number is read that an election may take back',
    file: ENTRY_STORE,
    text: '.find({}, { ...MAJORITY, ...within(session), projection: { _id: 1 } })',
    instead: '.find({}, { ...within(session), projection: { _id: 1 } })',
  },
  {
    scenario: 'log',
    name: 'numbered sources are read that an election may take back',
    file: ENTRY_STORE,
    text: '.find({ source: { $in: [...sources] } }, { ...MAJORITY, ',
    instead: '.find({ source: { $in: [...sources] } }, { ',
  },
  {
    scenario: 'log',
    name: 'entries are inserted in no order',
    file: ENTRY_STORE,
    text: 'insertMany(batch, { ordered: true })',
    instead: 'insertMany(batch, { ordered: false })',
  },
  {
    scenario: 'log',
    name: 'a source may have two numbers',
    file: ENTRY_STORE,
    text: 'entrySchema.index({ source: 1 }, { unique: true })',
    instead: 'entrySchema.index({ source: 1 })',
  },
  {
    scenario: 'log',
    name: 'a narrower tile of the log replaces a wider one',
    file: 'shared/ledger/log-store.ts',
    text: 'filter: { _id: tileId({ level, index }), width: { $lt: width } }',
    instead: 'filter: { _id: tileId({ level, index }) }',
  },
  {
    scenario: 'log',
    name: 'a seal is stored before its tiles',
    file: 'shared/ledger/sealer.ts',
    text: 'await Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())])',
    instead: 'void Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())]).catch(() => {})',
  },
  {
    scenario: 'events',
    name: 'marks are taken off outside of the transaction',
    file: EVENT_STORE,
    text: '{ $pull: { tells: { to: agentId } } },\n          { session },',
    instead: '{ $pull: { tells: { to: agentId } } },',
  },
  {
    scenario: 'events',
    name: 'the highest number is written outside of the transaction',
    file: EVENT_STORE,
    text: 'updateOne(asRead, { $set: set }, { session })',
    instead: 'updateOne(asRead, { $set: set })',
  },
  {
    scenario: 'events',
    name: 'marks are taken off records that were not read',
    file: EVENT_STORE,
    text: '{ _id: { $in: records.map(({ _id }) => _id) } },',
    instead: "{ 'tells.to': agentId },",
  },
  {
    scenario: 'events',
    name: 'events are read that an election may take back',
    file: EVENT_STORE,
    text: '{ ...MAJORITY, ...within(session), sort: { _id: 1 }, limit, batchSize: limit }',
    instead: '{ ...within(session), sort: { _id: 1 }, limit, batchSize: limit }',
  },
  {
    scenario: 'events',
    name: 'a page ends at the last number, not at its last event',
    file: 'shared/events/event-service.ts',
    text: 'const next = last === undefined ? Math.max(upTo, after) : seqOf(last)',
    instead: 'const next = seq',
  },
  {
    scenario: 'events',
    name: 'what a new primary does not know counts as expired',
    file: 'shared/events/event-service.ts',
    text: 'if (events.length >= Math.min(limit, seq - after)) return { events, upTo: seq }',
    instead: 'if (events.length >= 0) return { events, upTo: seq }',
  },
  {
    scenario: 'events',
    name: 'a cursor that a new primary does not know is refused',
    file: 'shared/events/event-service.ts',
    text: 'after > knownSeq ? await ctx.events.readSeqSurely(reader._id) : knownSeq',
    instead: 'knownSeq',
  },
  {
    scenario: 'money',
    name: 'an order changes although it is not as it was read',
    file: 'shared/market/order-store.ts',
    text: '{ _id: before._id, status: before.status, version: before.version }',
    instead: '{ _id: before._id }',
  },
  {
    scenario: 'money',
    name: 'a payment may be on record twice',
    file: 'shared/payments/invoice-store.ts',
    text: 'paymentSchema.index({ tx: 1, address_index: 1, coin: 1 }, { unique: true })',
    instead: 'paymentSchema.index({ tx: 1, address_index: 1, coin: 1 })',
  },
  {
    scenario: 'money',
    name: 'two blocks may have one place',
    file: PAYOUT_STORE,
    text: 'only({ account_index: some }, undefined, true)',
    instead: 'only({ account_index: some })',
  },
  {
    scenario: 'money',
    name: 'a payout goes into a transfer in whatever state it is',
    file: PAYOUT_STORE,
    text: '{ _id: payout._id, ...filterOf(from) }',
    instead: '{ _id: payout._id }',
  },
  {
    scenario: 'money',
    name: 'a transfer is replaced as the worker has read it',
    file: PAYOUT_SERVICE,
    text: "await followTransfer(ctx, before, 'replaced', session)",
    instead: "await followTransfer(ctx, transfer, 'replaced', session)",
  },
  {
    scenario: 'money',
    name: 'a transfer changes from whatever state it is in',
    file: PAYOUT_STORE,
    text: 'const filter = { _id: transferId, state: { $in: [...from] } }',
    instead: 'const filter = { _id: transferId }',
  },
  {
    scenario: 'money',
    name: 'transfers are published that an election may take back',
    file: PAYOUT_STORE,
    text: 'account_index: accountIndex }, LASTING)',
    instead: 'account_index: accountIndex }, { sort: { _id: 1 } })',
  },
  {
    scenario: 'money',
    name: 'a block is built on one that was replaced',
    file: PAYOUT_SERVICE,
    text: "if (before !== undefined && before.state !== 'confirmed')",
    instead: 'if (before === null)',
  },
  {
    scenario: 'money',
    name: 'a frozen payout is sent',
    file: PAYOUT_STORE,
    text: 'held_by: none, frozen: none, to_self: none',
    instead: 'held_by: none, to_self: none',
  },
  {
    scenario: 'money',
    name: 'what is owed at a deadline is stored without its order',
    file: 'shared/market/order-store.ts',
    text: '.matchedCount === changes.length',
    instead: '.matchedCount >= 0',
  },
  {
    scenario: 'money',
    name: 'what a step owes is stored without it',
    file: 'shared/market/order-updates.ts',
    text: 'if (!(await ctx.orders.change(before, change, session))) return false',
    instead: 'await ctx.orders.change(before, change, session)',
  },
  {
    scenario: 'money',
    name: 'a payment is noted without a change of its invoice',
    file: 'shared/payments/invoice-store.ts',
    text: 'return invoices.swap({ _id: invoiceId }, update, session)',
    instead: 'return update && invoices.one({ _id: invoiceId }, { session })',
  },
  {
    scenario: 'money',
    name: 'an invoice expires under a payment',
    file: 'shared/payments/settlement.ts',
    text: 'if (await ctx.invoices.isUnderWay(current._id, { inTime: true }, session)) return',
    instead: "if (await ctx.invoices.isUnderWay('', { inTime: true }, session)) return",
  },
  {
    scenario: 'money',
    name: 'the journal is written outside of the transaction',
    file: 'shared/payments/journal-store.ts',
    text: 'journal.insert(lines, session)',
    instead: 'journal.insert(lines, session && undefined)',
  },
  {
    scenario: 'money',
    name: 'what a transfer does is noted outside of its transaction',
    file: PAYOUT_STORE,
    text: 'payouts.model.bulkWrite(writes, { session })',
    instead: 'payouts.model.bulkWrite(writes, { ...(session && {}) })',
  },
  {
    scenario: 'money',
    name: 'a payment is lost twice',
    file: 'shared/payments/invoice-store.ts',
    text: "state: 'settled', reversed_at: { $exists: at === undefined } }",
    instead: "state: 'settled' }",
  },
]

/** Breaks the file when it is loaded; to be called before it is. */
export function plant(change: CodeChange): void {
  const { href } = new URL(`../../${change.file}`, import.meta.url)
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      if (url !== href) return loaded
      return { ...loaded, source: applyCodeChange(change, String(loaded.source)) }
    },
  })
}
