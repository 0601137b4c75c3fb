import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTokenFile, tokenFilePath } from '../../client/token-file.ts'
import { runAgent } from '../../client/command/run.ts'
import { commit } from '../../shared/crypto/commitment.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { expireInvoices } from '../../shared/money/invoice-expiry.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { ageRate, makeCoinReady, newTx, pay, setRate } from '../support/coins.ts'
import { checkBooksAfterEach, checkMoney } from '../support/money.ts'
import { operatorEnv, runCommand } from '../support/run-verb.ts'
import { WITHOUT_LEDGER, startService, type TestAgent, type TestService } from '../support/service.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pay-with-coin-'))
let service: TestService
beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  await makeCoinReady(service.ctx, 'xno')
  await makeCoinReady(service.ctx, 'xmr', { rate: '100' })
})
// A coin whose worker is silent for a minute is not ready, and a busy machine takes longer than that for all
// of it.
beforeEach(async () => {
  await makeCoinReady(service.ctx, 'xno', { addresses: 0 })
  await makeCoinReady(service.ctx, 'xmr', { rate: '100', addresses: 0 })
})
checkBooksAfterEach(() => service.ctx)
afterAll(async () => {
  await checkMoney(service.ctx)
  await service.stop()
  fs.rmSync(folder, { recursive: true })
})

const idIn = (text: string): string => /inv_[0-9a-z]{26}/.exec(text)?.[0] ?? ''

describe("an agent's command", () => {
  let home: string
  beforeAll(async () => {
    const { id, token } = await service.register()
    home = path.join(folder, 'home')
    createTokenFile(tokenFilePath(home, service.url), { url: service.url, agent_id: id, token })
  })

  async function agent(argv: string[], signal = new AbortController().signal) {
    let stdout = ''
    let stderr = ''
    const exitCode = await runAgent({
      argv: [...argv, '--url', service.url],
      env: { AGENT_HOME: home },
      stdin: Readable.from([]),
      stdout: { write: (text) => (stdout += text) },
      stderr: { isTTY: true, write: (text) => (stderr += text) },
      signal,
    })
    return { exitCode, stdout, stderr }
  }

  it('shows where to pay, waits until it is settled, and shows what it bought', async () => {
    const made = await agent(['invoice', 'xno', '--days', '2'])
    expect([made.exitCode, made.stderr]).toEqual([0, ''])
    const id = idIn(made.stdout)
    const invoice = await service.ctx.invoices.find(id)
    expect(made.stdout).toContain(`to:      ${invoice?.address}`)
    expect(made.stdout).toContain('pay:     2.000000 xno')
    expect(made.stdout).toContain(`uri:     nano:${invoice?.address}?amount=${invoice?.amount_raw}`)
    await pay(service.ctx, id, { amount: '0.5' })
    expect((await agent(['check', id])).stdout).toMatch(/status: +underpaid\n[^]*still to pay: +1\.5 xno/)
    const waiting = agent(['check', id, '--wait'])
    await pay(service.ctx, id, { amount: '1.75' })
    const { exitCode, stdout } = await waiting
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/status: +settled/)
    expect(stdout).toMatch(/days credited: +2\n/)
    expect(stdout).toMatch(/left over: +0\.25 xno,/)
    expect(stdout).not.toContain('still to pay')
    expect(JSON.parse((await agent(['check', id, '--json'])).stdout)).toMatchObject({
      ok: true,
      invoice_id: id,
      status: 'settled',
      payments: [{}, {}],
    })
    expect((await agent(['me'])).stdout).toContain('20')
  })

  it('stops waiting when it is told to, and says where the invoice stands', async () => {
    const id = idIn((await agent(['invoice', 'xmr'])).stdout)
    const controller = new AbortController()
    const waiting = agent(['check', id, '--wait', '--json'], controller.signal)
    controller.abort(new Error('stop'))
    const { exitCode, stdout } = await waiting
    expect(exitCode).not.toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ ok: false })
  })

  it('is refused an invoice that is not its own', async () => {
    const { exitCode, stdout } = await agent(['check', 'inv_none', '--wait', '--json'])
    expect([exitCode, (JSON.parse(stdout) as { error: string }).error]).toEqual([1, 'no_such_invoice'])
  })
})

describe('the receipt of a payment', () => {
  // holds: limits.privacy_of_payments, limits.privacy_of_payments.detail, rules.ledger.entry_kinds.payment
  it('proves payment and credit to anybody, and its transaction to whoever has the salt', async () => {
    const { token, id: agentId } = await service.register()
    const { json } = await service.call('POST', '/invoice', { token, body: { currency: 'xno', days: 3 } })
    const invoiceId = String(json['invoice_id'])
    const tx = await pay(service.ctx, invoiceId, { amount: '3' })
    const checked = (await service.call('POST', '/invoice/check', { token, body: { invoice_id: invoiceId } }))
      .json
    const [payment] = checked['payments'] as { payment_id: string; salt: string }[]
    await sequencePending(service.ctx, { useLease: false })
    await makeSeal(service.ctx, { useLease: false })
    const { json: receipt } = await service.call('GET', `/receipt/${payment?.payment_id}`)
    const entries = (
      receipt['entries'] as { sealed: boolean; entry: { kind: string; data: Record<string, unknown> } }[]
    ).map(({ entry }) => entry)
    expect(receipt['entries']).toMatchObject([{ sealed: true }, { sealed: true }])
    expect(entries.map(({ kind, data }) => [kind, data])).toEqual([
      [
        'payment',
        {
          payment_id: payment?.payment_id,
          invoice_id: invoiceId,
          coin: 'xno',
          amount_raw: String(3n * 10n ** 30n),
          settlement: 'automatic',
          tx_hash: commit(Buffer.from(payment?.salt ?? '', 'hex'), { id: payment?.payment_id ?? '', tx }),
        },
      ],
      [
        'pass_credit',
        {
          agent_id: agentId,
          means: 'coin',
          payment_id: payment?.payment_id,
          invoice_id: invoiceId,
          days: 3,
          pass_until: checked['pass_until'],
        },
      ],
    ])
    expect(JSON.stringify(receipt)).not.toContain(tx)
  })
})

describe("the operator's settle-invoice", () => {
  async function operator(...argv: string[]): Promise<{ exitCode: number; answer: Record<string, unknown> }> {
    const { exitCode, stdout } = await runCommand(operatorEnv(service.ctx.config), ['--json', ...argv])
    return { exitCode, answer: JSON.parse(stdout) as Record<string, unknown> }
  }
  async function invoiceOf(days: number, currency = 'xno'): Promise<{ agent: TestAgent; id: string }> {
    const agent = await service.register()
    const { json } = await service.call('POST', '/invoice', { token: agent.token, body: { currency, days } })
    return { agent, id: String(json['invoice_id']) }
  }
  const check = async (agent: TestAgent, id: string) =>
    (await service.call('POST', '/invoice/check', { token: agent.token, body: { invoice_id: id } })).json

  it('counts a payment by hand, once, though the node is away, and the chain finds it counted', async () => {
    const { agent, id } = await invoiceOf(2)
    await service.ctx.coins.report('xno', { reachable: false }, unixSeconds(service.ctx.now()))
    const tx = newTx()
    const rehearsed = await operator('settle-invoice', id, '2', tx, '--dry-run')
    expect(rehearsed.answer).toMatchObject({
      dry_run: true,
      changed: true,
      invoice_status: 'awaiting_payment',
      payment_id: null,
    })
    expect((await check(agent, id))['paid']).toBe('0')
    const done = await operator('settle-invoice', id, '2', tx.toUpperCase())
    expect(done).toMatchObject({
      exitCode: 0,
      answer: {
        invoice_id: id,
        agent_id: agent.id,
        amount: '2',
        tx_hash: tx,
        settlement: 'manual',
        invoice_status: 'settled',
        credited_days: 2,
        changed: true,
        ledger_entry: 'payment',
      },
    })
    expect((await operator('settle-invoice', id, '2.0', tx)).answer).toMatchObject({
      changed: false,
      ledger_entry: null,
      credited_days: 2,
    })
    await pay(service.ctx, id, { amount: '2', tx })
    expect(await check(agent, id)).toMatchObject({
      status: 'settled',
      credited_days: 2,
      paid: '2',
      chain: 'unreachable',
      payments: [{ tx_hash: tx, settlement: 'manual' }],
    })
    await makeCoinReady(service.ctx, 'xno', { addresses: 0 })
  })

  it('settles what the chain has seen and not confirmed, and says that this was done by hand', async () => {
    const { agent, id } = await invoiceOf(1, 'xmr')
    const tx = await pay(service.ctx, id, { amount: '0.01', confirmed: false, confirmations: 4 })
    expect((await operator('settle-invoice', id, '0.01', tx)).answer).toMatchObject({
      settlement: 'manual',
      changed: true,
    })
    expect(await check(agent, id)).toMatchObject({
      status: 'settled',
      payments: [{ settlement: 'manual', confirmations: 4 }],
    })
  })

  it('waits with late money for a rate, and says so', async () => {
    const { agent, id } = await invoiceOf(1)
    service.advance(61 * 60_000)
    await expireInvoices(service.ctx, 'xno', unixSeconds(service.ctx.now()))
    await ageRate(service.ctx, 'xno', 16 * 60_000)
    expect((await operator('settle-invoice', id, '1', newTx())).answer).toMatchObject({
      changed: true,
      ledger_entry: null,
      invoice_status: 'confirming',
      credited_days: 0,
    })
    await setRate(service.ctx, 'xno', '1')
    expect(await check(agent, id)).toMatchObject({
      credited_days: 0,
      payments: [{ state: 'seen', late: true }],
    })
    await makeCoinReady(service.ctx, 'xno', { addresses: 0 })
    await makeCoinReady(service.ctx, 'xmr', { rate: '100', addresses: 0 })
  })

  it('refuses what is no invoice, no amount, no transaction, or on record otherwise, and changes nothing', async () => {
    const { agent, id } = await invoiceOf(1)
    const other = await invoiceOf(1)
    const tx = await pay(service.ctx, other.id, { amount: '1' })
    const refusals: [argv: string[], error: string][] = [
      [['inv_none', '1', newTx()], 'no_such_invoice'],
      [[id, '1', 'not a hash'], 'usage'],
      [[id, '1', 'ab'.repeat(31)], 'usage'],
      [[id, '-1', newTx()], 'usage'],
      [[id, '1e3', newTx()], 'usage'],
      [[id, '0', newTx()], 'usage'],
      [[id, '0.0000001', newTx()], 'usage'],
      [[id, `0.${'1'.repeat(31)}`, newTx()], 'usage'],
      [[id, '1', tx], 'wrong_state'],
      [[other.id, '2', tx], 'wrong_state'],
    ]
    for (const [argv, error] of refusals) {
      const { exitCode, answer } = await operator('settle-invoice', '--', ...argv)
      expect([argv, exitCode === 0, answer['error']]).toEqual([argv, false, error])
    }
    expect(await check(agent, id)).toMatchObject({ paid: '0', payments: [] })
    expect(await check(other.agent, other.id)).toMatchObject({ paid: '1', credited_days: 1 })
  })
})
