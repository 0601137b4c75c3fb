import type { AddressInfo } from 'node:net'
import tls from 'node:tls'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Context } from '../../shared/context.ts'
import { verifyWholeChain } from '../../shared/ledger/chain-check.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import type { CoinRecord } from '../../shared/money/coin-store.ts'
import { newTransfer } from '../../shared/money/transfer-service.ts'
import { coinFindings } from '../../shared/operation/coin-findings.ts'
import type { Finding, FindingReader } from '../../shared/operation/finding.ts'
import { hostFindings } from '../../shared/operation/host-findings.ts'
import { keyFindings } from '../../shared/operation/key-findings.ts'
import { SEAL_SLACK_SECONDS, ledgerFindings } from '../../shared/operation/ledger-findings.ts'
import { serviceFindings } from '../../shared/operation/service-findings.ts'
import { KEY_LEASES } from '../../shared/platform/lease-store.ts'
import { DAY_MS, HOUR_MS, SECOND_MS, nowSeconds, unixSeconds } from '../../shared/platform/time.ts'
import { CERTIFICATE } from '../support/certificate.ts'
import { makeCoinReady, newTx, owe } from '../support/coins.ts'
import { openLedger, type TestLedger } from '../support/ledger.ts'

let ledger: TestLedger
let ctx: Context
beforeAll(async () => {
  ledger = await openLedger({ env: { PAYOUTS: 'automatic' } })
  ctx = ledger.ctx
})
afterAll(() => ledger?.stop())

/** What a reader finds, by its kind. */
async function findingsOf({ read }: FindingReader, at: Context = ctx): Promise<Map<string, Finding>> {
  const found = await read(at)
  return new Map(found.flatMap((finding) => (finding === undefined ? [] : [[finding.kind, finding]])))
}
/** The same, by a clock that is so much ahead. */
const later = (ms: number): Context => ({
  ...ctx,
  now: () => ctx.now() + ms,
  database: { ...ctx.database, now: () => ctx.now() + ms },
})

const XMR = 10n ** 12n

/** What the operator is shown beside the sentence. */
type Shown = Pick<Finding, 'about' | 'why' | 'command'> & { what?: string }

describe('of a coin the operator is told', () => {
  const changeCoin = (fields: Partial<CoinRecord>) =>
    ctx.coins.models.coins.updateOne({ _id: 'xmr' }, { $set: fields })
  beforeAll(() => makeCoinReady(ctx, 'xmr', { addresses: 0 }))

  it.each<[string, (now: number) => Partial<CoinRecord>, Partial<Shown>]>([
    [
      'coin_unheard',
      (now) => ({ alive_at: now - 130 }),
      { about: 'xmr', command: expect.stringContaining('--queues watch-monero') as string },
    ],
    [
      'coin_away',
      () => ({ reachable: false, unreachable: 'get_height failed: ECONNREFUSED' }),
      { about: 'xmr', why: 'get_height failed: ECONNREFUSED' },
    ],
    [
      'coin_not_ready',
      () => ({ problems: { wallet: 'it is watch-only' } }),
      { about: 'xmr wallet', why: 'it is watch-only' },
    ],
    [
      'coin_halted',
      (now) => ({ halted: { at: now, reason: 'the wallet has sent something' } }),
      {
        why: 'the wallet has sent something',
        command: expect.stringContaining('npm run operator -- reconcile xmr') as string,
      },
    ],
    [
      'fee_high',
      (now) => ({ fee_high: { at: now, fee_raw: String(XMR / 4n), sum_raw: String(2n * XMR) } }),
      {
        what: expect.stringContaining('to send 2 XMR would take a fee of 0.25 XMR') as string,
        command: expect.stringContaining('MAX_FEE_XMR') as string,
      },
    ],
    [
      'books_gap',
      (now) => ({ gap_at: now, gap_raw: String((-5n * XMR) / 2n) }),
      {
        what: expect.stringContaining('holds 2.5 XMR less') as string,
        command: 'npm run operator -- books --coin xmr',
      },
    ],
    [
      'owed_differs',
      () => ({ ledger_gaps: { orders: String(XMR / 2n) } }),
      {
        what: 'Ledger and books differ about what is owed in xmr: 0.5 XMR more by the ledger in orders',
        command: 'npm run operator -- check --only money',
      },
    ],
    [
      'books_not_compared',
      (now) => ({ gap_at: now - 910 }),
      { about: 'xmr', command: 'npm run operator -- books --coin xmr' },
    ],
    [
      'treasury_short',
      () => ({
        treasury_address: '8treasury',
        treasury_raw: String(XMR),
        treasury_short_raw: String(XMR / 2n),
      }),
      { why: 'it holds 1 XMR', command: 'send 0.5 XMR to 8treasury' },
    ],
  ])(
    '%s alone, with why and what to run, when that is what its workers have stored',
    async (kind, fieldsAt, shown) => {
      const before = await ctx.coins.models.coins.findById('xmr').lean()
      expect(await findingsOf(coinFindings)).toEqual(new Map())
      onTestFinished(async () => void (await ctx.coins.models.coins.replaceOne({ _id: 'xmr' }, before ?? {})))
      await changeCoin(fieldsAt(nowSeconds(ctx)))
      const found = await findingsOf(coinFindings)
      expect([...found.keys()]).toEqual([kind])
      expect(found.get(kind)).toMatchObject(shown)
    },
  )

  it('which payouts are held, refused, due for an hour or more than the treasury has, and which sends nobody knows', async () => {
    await changeCoin({ treasury_address: '8treasury', treasury_raw: String(XMR) })
    const [held, due] = [await owe(ctx, 'xmr', XMR, '8held'), await owe(ctx, 'xmr', 2n * XMR, '8due')]
    const payout = { coin: 'xmr', kind: 'payout', signed: '{}', amount_raw: '1' } as const
    const fields = { ...payout, payment_ids: [], payout_ids: [] }
    const refused = newTransfer(ctx, { ...fields, tx: newTx(), state: 'held' })
    const unknown = newTransfer(ctx, {
      ...fields,
      tx: newTx(),
      state: 'confirmed',
      unexplained_to: ['8nobody'],
    })
    const again = newTransfer(ctx, { ...fields, tx: newTx(), state: 'confirmed', paid_again: ['out_twice'] })
    await ctx.payouts.transfers.models.transfers.insertMany([refused, unknown, again])
    await ctx.payouts.models.payouts.updateOne({ _id: held._id }, { $set: { held_by: unknown._id } })
    expect((await findingsOf(coinFindings)).get('payout_due')).toBeUndefined()
    const found = await findingsOf(coinFindings, later(HOUR_MS + 10 * SECOND_MS))
    expect(found.get('payout_held')?.what).toContain(held._id)
    expect(found.get('transfer_held')?.command).toBe(`npm run operator -- show ${refused._id}`)
    expect(found.get('send_unexplained')?.command).toBe('npm run operator -- reconcile xmr --dry-run')
    expect(found.get('payout_paid_again')).toMatchObject({
      about: again.tx,
      what: expect.stringContaining('out_twice') as string,
      command: expect.stringContaining(`reconcile xmr --explained ${again.tx}`) as string,
    })
    expect(found.get('treasury_low')?.command).toBe('send 2 XMR to 8treasury')
    expect(found.get('payout_due')).toMatchObject({
      since: due.at,
      what: expect.stringContaining(due._id) as string,
      command: 'npm run operator -- payouts',
    })
  })
})

describe('of the ledger the operator is told', () => {
  beforeAll(() => ledger.seal())

  it('which step is late: a number, a seal, a signature; and none of them once it is made', async () => {
    const ledgerKinds = async () => [...(await findingsOf(ledgerFindings)).keys()]
    const [postId] = await ledger.write(1)
    expect(await ledgerKinds()).toEqual([])
    ledger.advance(SEAL_SLACK_SECONDS * SECOND_MS)
    expect((await findingsOf(ledgerFindings)).get('entries_unnumbered')).toMatchObject({
      what: expect.stringContaining(`${postId} of posts`) as string,
      command: expect.stringContaining('--queues sequence') as string,
    })
    await sequencePending(ctx)
    ledger.advance(ctx.config.sealIntervalMs + SECOND_MS)
    expect((await findingsOf(ledgerFindings)).get('entries_unsealed')).toMatchObject({
      what: expect.stringMatching(/^No seal stands over the entries from \d+ on$/) as string,
      command: 'npm run operator -- seal',
    })
    await makeSeal(ctx)
    expect(await ledgerKinds()).toEqual([])
    ledger.advance(SEAL_SLACK_SECONDS * SECOND_MS)
    expect(await ledgerKinds()).toEqual(['seals_unsigned'])
    expect((await findingsOf(ledgerFindings)).get('seals_unsigned')).toMatchObject({
      why: 'no worker with SEAL_KEY_FILE has tried',
      command: expect.stringContaining('--queues sign-seals') as string,
    })
    await ledger.seal()
    expect(await ledgerKinds()).toEqual([])
  })

  it('what the last check of the chain found, if that was a fault', async () => {
    await ledger.write(1)
    await ledger.seal()
    const { seals } = ctx.seals.models
    const first = await ctx.seals.find(1)
    await seals.updateOne({ _id: 1 }, { $set: { root: '0'.repeat(64) } })
    await verifyWholeChain(ctx)
    expect((await findingsOf(ledgerFindings)).get('chain_broken')).toMatchObject({
      why: expect.stringContaining('seal 1') as string,
      command: 'npm run operator -- check',
    })
    await seals.updateOne({ _id: 1 }, { $set: { root: first?.root } })
    await verifyWholeChain(ctx)
    expect((await findingsOf(ledgerFindings)).get('chain_broken')).toBeUndefined()
  })
})

describe('of a key the operator is told', () => {
  it('which worker was refused, and the command that takes its key over if no worker has the right one', async () => {
    const session = ctx.database.openSession()
    onTestFinished(() => session.endSession())
    const candidate = (id: string) => ({
      lease: KEY_LEASES.xno,
      id,
      host: `host of ${id}`,
      publicName: id,
      session,
    })
    const [right, second, other] = [
      candidate('nano_right'),
      { ...candidate('nano_right'), id: 'b' },
      candidate('nano_other'),
    ]
    expect(await ctx.leases.claim(right)).toMatchObject({ state: 'held' })
    expect(await ctx.leases.claim(second)).toEqual({ state: 'waiting', holder: right.host })
    expect(await findingsOf(keyFindings)).toEqual(new Map())
    expect(await ctx.leases.claim(other)).toEqual({ state: 'refused', holder: right.host })
    expect((await findingsOf(keyFindings)).get('key_refused')).toMatchObject({
      about: `xno wallet, ${other.host}`,
      command: 'stop that worker, or give it the right key',
    })
    for (const one of [right, second]) await ctx.leases.leave(one)
    expect(await ctx.leases.claim(other)).toMatchObject({ state: 'refused' })
    expect((await findingsOf(keyFindings)).get('key_missing')?.command).toBe(
      'npm run operator -- reconcile xno --take-over nano_other',
    )
    await ctx.leases.bind(KEY_LEASES.xno, other.publicName)
    expect(await ctx.leases.claim(other)).toMatchObject({ state: 'held' })
    expect(await findingsOf(keyFindings)).toEqual(new Map())
  })
})

describe('of the service the operator is told', () => {
  it('that the disk is nearly full, or will be within a week at the pace of the last day', async () => {
    const gb = 1e9
    const withFree = (freeBytes: number): Context => ({
      ...ctx,
      config: { ...ctx.config, minFreeDiskBytes: gb },
      database: { ...ctx.database, freeDiskBytes: () => Promise.resolve(freeBytes) },
    })
    expect((await findingsOf(serviceFindings, withFree(3 * gb))).get('disk_low')?.what).toContain(
      '3.0 GB left',
    )
    await ctx.operation.watch.noteDisk({ at: unixSeconds(ctx.now() - DAY_MS), free: 50 * gb })
    const filling = async (freeBytes: number) =>
      (await findingsOf(serviceFindings, withFree(freeBytes))).get('disk_filling')?.what
    expect(await filling(49 * gb)).toBeUndefined()
    expect(await filling(41 * gb)).toContain('is full in 4.4 days')
    expect(await filling(30 * gb)).toContain('is full in 35 hours')
  })

  it('that there is no backup of the last day, until one is noted', async () => {
    expect((await findingsOf(serviceFindings)).get('backup_old')).toBeUndefined()
    const nextDay = later(27 * HOUR_MS)
    expect((await findingsOf(serviceFindings, nextDay)).get('backup_old')?.what).toBe('There is no backup')
    const at = unixSeconds(ctx.now())
    await ctx.operation.watch.noteBackup({ at, by: 'a test' })
    const { what, since } = (await findingsOf(serviceFindings, nextDay)).get('backup_old') ?? {}
    expect([what, since]).toEqual(['The last backup is more than a day old', at])
    await ctx.operation.watch.noteBackup({ at: unixSeconds(nextDay.now()), by: 'a test' })
    expect((await findingsOf(serviceFindings, nextDay)).get('backup_old')).toBeUndefined()
  })
})

describe('of the proxy before the API the operator is told', () => {
  /** What is found at an address of it, by a clock. */
  const findAt = async (publicUrl: string, nowMs: number) => {
    const found = await hostFindings.read({ ...ctx, config: { ...ctx.config, publicUrl }, now: () => nowMs })
    return found.filter((finding) => finding !== undefined)
  }

  it('a week before its certificate expires, once it has expired, and when nobody answers there', async () => {
    const proxy = tls.createServer(CERTIFICATE, (socket) => socket.on('error', () => undefined).end())
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const url = `https://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const kindsAt = async (nowMs: number) => (await findAt(url, nowMs)).map(({ kind }) => kind)
    expect(await kindsAt(CERTIFICATE.endsAt - 7 * DAY_MS - SECOND_MS)).toEqual([])
    expect(await kindsAt(CERTIFICATE.endsAt - 7 * DAY_MS)).toEqual(['certificate_ending'])
    expect(await findAt(url, CERTIFICATE.endsAt)).toMatchObject([
      { kind: 'certificate_ended', since: CERTIFICATE.endsAt / SECOND_MS },
    ])
    await new Promise((resolve) => proxy.close(resolve))
    expect(await findAt(url, Date.now())).toMatchObject([
      { kind: 'front_away', why: expect.stringContaining('ECONNREFUSED') as string },
    ])
  })
})
