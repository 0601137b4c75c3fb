import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { viewEntry } from '../../shared/ledger/entry.ts'
import { viewSeal } from '../../shared/ledger/seal.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { giveOldLinesEntries } from '../../shared/money/journal-migration.ts'
import { move, type Account, type JournalLine, type LineIds } from '../../shared/money/journal.ts'
import { compareOwed, findOwedDifferences } from '../../shared/operation/owed-check.ts'
import { openLedger, type TestLedger } from '../support/ledger.ts'
import {
  NODE_VERIFIER,
  PYTHON_VERIFIER,
  canRunPythonVerifier,
  reportToKnower,
} from '../support/run-verifier.ts'

let ledger: TestLedger
beforeEach(async () => (ledger = await openLedger()))
afterEach(() => ledger.stop())

const line = (id: string, from: Account, to: Account, raw: bigint, ids: LineIds = {}) =>
  move(id, from, to, raw, { coin: 'xno', at: 5, ids })
const write = (...lines: JournalLine[][]) =>
  ledger.ctx.database.transaction((session) => ledger.ctx.journal.write(lines.flat(), session))
/** Money for a pass in each of its places, and some that belongs to nobody. */
const writeMoney = () =>
  write(
    line('pay_1/received', 'chain', 'invoice:inv_1', 10n, { payment_id: 'pay_1', invoice_id: 'inv_1' }),
    line('pay_1/sold', 'invoice:inv_1', 'sold', 4n, { invoice_id: 'inv_1' }),
    line('pay_1/left', 'invoice:inv_1', 'remainder:agt_1', 2n, { invoice_id: 'inv_1', agent_id: 'agt_1' }),
    line('pay_2/arrived', 'chain', 'unassigned', 7n, { payment_id: 'pay_2' }),
    line('trf_1/fee', 'operator', 'network_fee', 1n),
  )
const statedBy = async (seq: number) => {
  const seal = await ledger.ctx.seals.find(seq)
  return (await ledger.ctx.entries.find(seal?.to_id ?? 0))?.data['liabilities']
}
const XNO = { orders: '0', owed: '0', invoices: '4', remainders: '2', unassigned: '7' }
const NONE = { orders: '0', owed: '0', invoices: '0', remainders: '0', unassigned: '0' }

type Data = { [name: string]: unknown }
/** Seals what is numbered, with a closing entry that states something else. */
async function sealStating(change: (data: Data) => Data) {
  const { ctx } = ledger
  await sequencePending(ctx, { useLease: false })
  const append: typeof ctx.entries.append = (batch) =>
    ctx.entries.append(batch.map((one) => ({ ...one, data: change(one.data) as typeof one.data })))
  return makeSeal({ ...ctx, entries: { ...ctx.entries, append } }, { useLease: false })
}
/** As versions before this one stated it. */
const withoutLiabilities = (data: Data): Data =>
  Object.fromEntries(Object.entries(data).filter(([name]) => name !== 'liabilities' && name !== 'assets'))

/** What a verifier says of the whole ledger. */
async function verdicts() {
  const { entries, seals } = ledger.ctx
  const dump = {
    entries: (await entries.list(1, 10_000)).map(viewEntry),
    seals: (await seals.listAfter(0, 100)).map(viewSeal),
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-dump-'))
  fs.writeFileSync(path.join(folder, 'dump.json'), JSON.stringify(dump))
  const said = []
  for (const verifier of [NODE_VERIFIER, ...(canRunPythonVerifier() ? [PYTHON_VERIFIER] : [])])
    said.push(await reportToKnower(verifier, ['dump.json'], folder))
  fs.rmSync(folder, { recursive: true })
  return said.map(({ code, findings }) => ({ code, findings }))
}

it("each seal states all that isn't the venue's own, as the journal has it, and every verifier takes it", async () => {
  await ledger.write(2)
  await writeMoney()
  await ledger.seal()
  expect(await statedBy(1)).toEqual({ xno: XNO, xmr: NONE })
  expect(await findOwedDifferences(ledger.ctx)).toEqual({ xno: {}, xmr: {} })
  await write(
    line('inv_2/carried', 'remainder:agt_1', 'invoice:inv_2', 2n, { invoice_id: 'inv_2', agent_id: 'agt_1' }),
  )
  // Not numbered yet, and counted.
  expect(await findOwedDifferences(ledger.ctx)).toEqual({ xno: {}, xmr: {} })
  await ledger.seal()
  expect(await statedBy(2)).toEqual({ xno: { ...XNO, invoices: '6', remainders: '0' }, xmr: NONE })
  expect((await ledger.ctx.seals.lastSigned())?._id).toBe(2)
  await ledger.ctx.journal.models.journal.deleteMany({ _id: 'pay_2/arrived' })
  expect(await findOwedDifferences(ledger.ctx)).toEqual({ xno: { unassigned: 7n }, xmr: {} })
  for (const said of await verdicts()) expect(said).toEqual({ code: 0, findings: [] })
})

it('the first seal after an upgrade counts all entries, those that the old lines have got among them', async () => {
  const { ctx } = ledger
  await writeMoney()
  // As a version wrote them that knew no such entries.
  await ctx.journal.models.journal.updateMany({}, { $unset: { pending: 1 } })
  await ledger.write(1)
  await sealStating(withoutLiabilities)
  await signSeals(ctx)
  expect((await ctx.seals.lastSigned())?._id).toBe(1)
  expect(await statedBy(1)).toBeUndefined()
  expect((await findOwedDifferences(ctx)).xno).toEqual({ invoices: -4n, remainders: -2n, unassigned: -7n })

  await giveOldLinesEntries(ctx.database.connection)
  await giveOldLinesEntries(ctx.database.connection)
  await ledger.seal()
  // Run again by a process that died before it could say that it had.
  await giveOldLinesEntries(ctx.database.connection)
  await ledger.write(1)
  await ledger.seal()
  expect((await ctx.seals.lastSigned())?._id).toBe(3)
  expect([await statedBy(2), await statedBy(3)]).toEqual(Array(2).fill({ xno: XNO, xmr: NONE }))
  expect((await ctx.entries.search(1, 1_000, { kind: 'money_move' }, 100)).length).toBe(4)
  expect(await findOwedDifferences(ctx)).toEqual({ xno: {}, xmr: {} })
  for (const said of await verdicts()) expect(said).toEqual({ code: 0, findings: [] })
})

it('a line that an earlier version writes during the upgrade gets its entry with the next comparison, once', async () => {
  const { ctx } = ledger
  await writeMoney()
  await ledger.seal()
  await write(line('pay_9/arrived', 'chain', 'unassigned', 9n))
  await ctx.journal.models.journal.updateOne({ _id: 'pay_9/arrived' }, { $unset: { pending: 1 } })
  expect((await findOwedDifferences(ctx)).xno).toEqual({ unassigned: -9n })
  for (let times = 0; times < 2; times++) {
    await compareOwed(ctx)
    expect(await findOwedDifferences(ctx)).toEqual({ xno: {}, xmr: {} })
    await ledger.seal()
  }
  expect((await ctx.entries.search(1, 1_000, { kind: 'money_move' }, 100)).length).toBe(5)
  expect(await statedBy(2)).toMatchObject({ xno: { unassigned: String(BigInt(XNO.unassigned) + 9n) } })
})

it.each<[string, (data: Data) => Data]>([
  ['too little', (data) => ({ ...data, liabilities: { xno: { ...XNO, unassigned: '6' }, xmr: NONE } })],
  [
    'what is held as owed',
    (data) => ({ ...data, liabilities: { xno: { ...XNO, orders: '1', owed: '-1' }, xmr: NONE } }),
  ],
  ['nothing any more', withoutLiabilities],
])('the signer refuses a seal that states %s', async (_name, change) => {
  await writeMoney()
  await ledger.seal()
  await ledger.write(1)
  await sealStating(change)
  await expect(signSeals(ledger.ctx)).rejects.toThrow(/^Seal 2 is not signed: entry \d+ closes it /)
})
