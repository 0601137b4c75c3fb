import { registerHooks } from 'node:module'
import { applyCodeChange, type CodeChange } from '../planted/code-change.ts'

/** One condition of the service that a scenario must notice the lack of. */
export interface Break extends CodeChange {
  scenario: string
  name: string
}

const SEQUENCER = 'shared/ledger/sequencer.ts'
const PAYOUT_STORE = 'shared/payments/payout-store.ts'
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
    file: 'shared/payments/payout-service.ts',
    text: "await followTransfer(ctx, before, 'replaced', session)",
    instead: "await followTransfer(ctx, transfer, 'replaced', session)",
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
