import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newAuthorKeyPair } from '../../client/author-signatures.ts'
import { createClient, type Client } from '../../client/client.ts'
import { newId } from '../../shared/platform/ids.ts'
import { announce } from '../../shared/announcements/announcement-service.ts'
import { setBanned } from '../../shared/agents/agent-service.ts'
import { acceptProposal } from '../../shared/claims/claim-service.ts'
import { ed25519PublicKey } from '../../shared/crypto/ed25519.ts'
import { NOTE_KEY, formatVkey } from '../../shared/crypto/note.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { ENTRY_KINDS } from '../../shared/ledger/pending.ts'
import { makeReceipt } from '../../shared/about/receipt-service.ts'
import { sealFields } from '../../shared/ledger/seal.ts'
import { writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import type { Context } from '../../shared/context.ts'
import { decideDispute } from '../../shared/market/dispute-service.ts'
import { closeOffer } from '../../shared/market/offer-service.ts'
import { creditFreeDays } from '../../shared/passes/pass-service.ts'
import { explainTransfer } from '../../shared/money/transfer-service.ts'
import { markPaidByHand } from '../../shared/money/payout-service.ts'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { startNodeVerifier, startPythonVerifier } from '../support/both-verifiers.ts'
import { newTx, pay, setRate } from '../support/coins.ts'
import { confirm, expectStatus, startMarket, type TestMarket } from '../support/market.ts'
import { canRunPythonVerifier } from '../support/run-verifier.ts'
import { findNonces, untilCredited, type TestAgent } from '../support/service.ts'
import { withSigning } from '../support/signing.ts'
import type { Finding } from '../../client/verify/verification.ts'

let folder: string
let market: TestMarket

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-receipts-'))
  market = await startMarket({ queues: ['verify-shares'] })
})
afterAll(async () => {
  await market.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

const post = async (route: string, { token }: TestAgent, body: object) =>
  expectStatus(
    await market.call('POST', route, { token, body }),
    route === '/claim/resolve' || route === '/work/submit' ? 200 : 201,
  ).json

async function seal(): Promise<void> {
  await sequencePending(market.ctx, { useLease: false })
  await makeSeal(market.ctx, { useLease: false })
  await signSeals(withSigning(signing()))
}

/** The context of a process that has the key, which the API's is not. */
function signing(): Context {
  const secrets = {
    sealKeyFile: path.join(folder, 'seal-key'),
    sealMemoryFile: path.join(folder, 'seal-memory'),
  }
  ensureSealKey(secrets.sealKeyFile)
  return {
    ...market.ctx,
    config: { ...market.ctx.config, secrets: { ...market.ctx.config.secrets, ...secrets } },
  }
}

async function takeStepsOfAgents(): Promise<Client> {
  const { ctx } = market
  const agent = await market.register({ handle: 'alice' })
  await creditFreeDays(ctx, agent.id, 3, ctx.now() + 30 * 86_400_000)
  expectStatus(
    await market.call('POST', '/profile', { token: agent.token, body: { dm_key: '09'.repeat(32) } }),
    200,
  )
  const author = newAuthorKeyPair()
  expectStatus(
    await market.call('POST', '/profile', {
      token: agent.token,
      body: { author_key: author.author_public_key },
    }),
    200,
  )
  const signing = { agent_id: agent.id, secret_key: author.author_secret_key }
  const client = createClient({ baseUrl: market.url, token: agent.token, author: signing })
  await client.post({ body: 'signed', topic: 'a topic' })
  const signed = await client.makeClaim({ statement: 'it is signed', resolve_by: 4_102_444_800 })
  await client.resolveClaim({ claim_id: signed.id, outcome: 'void' })
  await client.updateProfile({ dm_key: '0a'.repeat(32) })
  await setBanned(ctx, agent.id, true)
  await setBanned(ctx, agent.id, false)
  const { id } = await post('/post', agent, { body: 'for the record' })
  await setHidden(ctx, String(id), true)
  await setHidden(ctx, String(id), false)
  const { id: claim } = await post('/claim', agent, { statement: 'it rains' })
  await post('/claim/resolve', agent, { claim_id: claim, outcome: 'true' })
  const { id: proposal } = await post('/claim', agent, { statement: 'let it rain', kind: 'proposal' })
  await acceptProposal(ctx, String(proposal), 7)
  await announce(ctx, { kind: 'notice', text: 'It rains.' })
  const { token } = await client.rotateToken()
  return client.with({ token })
}

/** Once there is a checkpoint: the key's name begins with that of the log. */
async function nameWitness(client: Client): Promise<void> {
  const [origin] = (await client.checkpoint()).split('\n')
  const name = `${origin}/w/${(await client.me()).agent_id}`
  await client.registerWitness({
    vkey: formatVkey({
      name,
      type: NOTE_KEY.cosigner,
      publicKey: ed25519PublicKey(new Uint8Array(32).fill(7)),
    }),
  })
}

async function buyDays(): Promise<void> {
  const { ctx } = market
  await setRate(ctx, 'xno', '1')
  const agent = await market.register()
  const buy = async (days: number) =>
    String((await post('/invoice', agent, { currency: 'xno', days }))['invoice_id'])
  await pay(ctx, await buy(1), { amount: '1.6' })
  const lapsing = await buy(3)
  await pay(ctx, lapsing, { amount: '0.6' })
  await market.letPass(61 * 60_000)
  await market.lapse()
  await setRate(ctx, 'xno', '0.1')
  await pay(ctx, lapsing, { amount: '5' })
  await setRate(ctx, 'xno', '1')
  await buy(1)

  const order = (await post('/invoice', agent, { currency: 'pow' })) as {
    order_id: string
    prefix: string
    difficulty_bits: number
  }
  await post('/work/submit', agent, {
    order_id: order.order_id,
    nonces: findNonces(order.prefix, order.difficulty_bits, 5),
  })
  await untilCredited(ctx, order.order_id, 1)
}

async function trade(): Promise<void> {
  const { ctx } = market
  await setRate(ctx, 'xno', '2')
  const accepted = await market.delivered()
  expectStatus(await market.step('accept', accepted), 200)
  const view = await market.read(accepted, market.seller)
  await markPaidByHand(ctx, String(view.payouts[0]?.payout_id), newTx())
  await closeOffer(ctx, market.seller.id, String(view['offer_id']))
  const lost = await market.order()
  const tx = await market.payPercent(lost, 100)
  expectStatus(await market.step('deliver', lost), 200)
  await market.lose(tx)
  await decideDispute(ctx, lost.id, 'refund')
  await confirm(ctx, lost, tx)
}

async function reconcile(): Promise<void> {
  const { ctx } = market
  const at = unixSeconds(ctx.now())
  const found = {
    coin: 'xno' as const,
    at,
    reason: 'a test',
    transactions: 1,
    payments: 0,
    sends: [],
    stray: [],
    held_payout_ids: [],
  }
  await ctx.journal.reconciliations.insert({ _id: newId('reconciliation'), ...found })
  const tx = newTx()
  const transfer = {
    _id: newId('transfer'),
    coin: 'xno' as const,
    kind: 'payout' as const,
    tx,
    signed: '{}',
    amount_raw: '1',
    payment_ids: [],
    payout_ids: [],
    state: 'confirmed' as const,
    at,
    changed_at: at,
    unexplained_to: ['somewhere'],
  }
  await ctx.database.transaction((session) => ctx.payouts.transfers.insert([transfer], session))
  expect(await explainTransfer(ctx, 'xno', tx)).toBe(true)
}

describe('the receipts of everything that the service puts on record', () => {
  // holds: rules.ledger.entry_kinds.*
  it('are taken by both verifiers, and none that is made of entries that only name the record', async () => {
    const { ctx } = market
    const client = await takeStepsOfAgents()
    await buyDays()
    await trade()
    await reconcile()
    await ctx.operation.acts.record({ by: 'ada', path: '/api/queues/pause', act: 'pause', queue: 'all' }, 1)
    await seal()
    await nameWitness(client)
    const last = await ctx.seals.lastSigned()
    if (last === undefined) throw new Error('there is no seal')
    await writeAdoption(signing(), last._id, sealPayloadHash(sealFields(last)))
    // The signer takes it at the end of one round, and its entry is sealed in the next.
    await seal()
    await seal()

    const all = await ctx.entries.list(1, 10_000)
    expect([...new Set(all.map(({ kind }) => kind))].sort()).toEqual([...ENTRY_KINDS].sort())
    // Moves of money are in no receipt.
    const entries = all.filter(({ kind }) => kind !== 'money_move')
    const met = entries.map(({ source, kind }) => {
      const [record = '', step] = source.split('/')
      return `${record.split('_')[0]} ${step === kind ? '' : `${step} `}${kind}`
    })
    // A source that is not here needs a record of its own above, and its kind a place in the verifiers'
    // tables.
    expect([...new Set(met)].sort()).toEqual([
      'agt author-key author_key_change',
      'agt ban',
      'agt dm-key dm_key_change',
      'agt pass pass_credit',
      'agt registration',
      'agt token token_rotation',
      'agt unban',
      'agt witness-key witness_key',
      'ann announcement',
      'clm accepted proposal_accepted',
      'clm claim',
      'clm credit pass_credit',
      'inv credit pass_credit',
      'inv lapse pass_credit',
      'mkt dispute',
      'mkt dispute_outcome',
      'mkt fee',
      'mkt order',
      'mkt payment_returned payment',
      'ofr closed offer_closed',
      'ofr offer',
      'opr operator_act',
      'out manual payout',
      'out owed payout',
      'pay credit pass_credit',
      'pay payment',
      'pst hide',
      'pst post',
      'pst unhide',
      'rcn explained reconcile',
      'rcn reconcile',
      'seal adoption seal_adoption',
      'seal solvency',
      'vrd verdict',
      'wrk credit pass_credit',
    ])
    const receipts = await Promise.all(
      [...new Set(entries.map(({ record }) => record))].map((record) => makeReceipt(ctx, record)),
    )
    for (const findings of await verify(receipts)) expect(findings.flat()).toEqual([])

    // No transfer has entries, and the tables don't have it.
    const isOther = (value: unknown, own: string): boolean =>
      /^(?!trf)[a-z]{3}_[0-9a-z]{26}$/.test(String(value)) && value !== own
    const posing = receipts.flatMap(({ id: own, entries: items }) =>
      items.flatMap((item) => {
        const named = Object.values(item.entry.data).filter((value) => isOther(value, own))
        return named.map((id) => ({ ok: true, id: String(id), sealed: item.sealed, entries: [item] }))
      }),
    )
    expect(posing.length).toBeGreaterThan(30)
    for (const findings of await verify(posing))
      expect(findings.filter(([first]) => first?.reason !== 'wrong_record')).toEqual([])
  })
})

/** What each verifier finds in each of them. */
async function verify(receipts: readonly object[]): Promise<Finding[][][]> {
  const python = canRunPythonVerifier() ? startPythonVerifier() : undefined
  const started = [startNodeVerifier(), ...(python === undefined ? [] : [python])]
  try {
    return await Promise.all(
      started.map(async ({ runVector }) =>
        Promise.all(
          receipts.map(async (receipt) => (await runVector({ kind: 'receipt', receipt })).findings),
        ),
      ),
    )
  } finally {
    python?.stop()
  }
}
