import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { UnrecoverableError, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runOperator } from '../../scripts/operator/run.ts'
import { recordUnassigned } from '../../shared/money/record-arrival.ts'
import { OPERATOR_VERBS } from '../../scripts/operator/verbs.ts'
import { trackChildren } from '../../scripts/embedded/children.ts'
import { requireRedis } from '../../scripts/embedded/programs.ts'
import { startRedis } from '../../scripts/embedded/redis.ts'
import { noteRunning } from '../../scripts/embedded/running.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { openGate } from '../harness/testbed/gate.ts'
import { startPool, type Pool } from '../../workers/pool.ts'
import { decideDispute } from '../../shared/market/dispute-service.ts'
import { readConfig } from '../../shared/platform/config.ts'
import { closeContext, openContext } from '../../shared/context.ts'
import { keepHeartbeat } from '../../shared/operation/heartbeat.ts'
import { commit } from '../../shared/crypto/commitment.ts'
import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { ed25519PublicKey, keyFromHex, keyToHex, signatureFromBase64 } from '../../shared/crypto/ed25519.ts'
import { ed25519Verify } from '../../shared/crypto/ed25519-verify.ts'
import { encodeNanoAddress } from '../../shared/crypto/nano-address.ts'
import { queuePrefix, type QueueName } from '../../shared/platform/queue-table.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { readSealKey } from '../../shared/ledger/seal-key.ts'
import { NO_PAYLOAD_HASH, sealFields } from '../../shared/ledger/seal.ts'
import { REQUEST_BUCKETS } from '../../shared/platform/metrics.ts'
import type { Receipt } from '../../shared/crypto/receipt.ts'
import { move } from '../../shared/money/journal.ts'
import { makeCoinReady, newTx } from '../support/coins.ts'
import { FULL, sampled } from '../support/full.ts'
import { openMarket, type TestMarket } from '../support/market.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { operatorEnv, runCommand, type Ran } from '../support/run-verb.ts'
import { PATIENT } from '../support/servers.ts'
import { startService, whenServed, type TestService } from '../support/service.ts'
import { dumpStored, listPending } from '../support/stored.ts'
import { withSigning } from '../support/signing.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'operator-verbs-'))
const keyFile = path.join(folder, 'seal-key')
let service: TestService
/** Workers with the seal key, started where a test wants them to be there. */
let stopSigner: () => Promise<void> = () => Promise.resolve()

beforeAll(async () => {
  // Nothing is numbered or signed behind a test's back: the ledger's queues are served by the signer alone.
  service = await startService({ queues: ['verify-shares'] })
})

afterAll(async () => {
  await stopSigner()
  await service.stop()
  fs.rmSync(folder, { recursive: true })
})

const operator = (...argv: string[]): Promise<Ran> => operatorOn({}, ...argv)

const operatorOn = (env: Record<string, string>, ...argv: string[]): Promise<Ran> =>
  runCommand({ ...operatorEnv(service.ctx.config), ...env }, argv)

/**
 * A process's worth of workers on the same servers, which has the seal key and begins to work once it is told
 * to.
 */
async function openSigner(): Promise<{ start(): void; stop(): Promise<void> }> {
  const { mongodbUrl, redisUrl, queuePrefix } = service.ctx.config
  const env = {
    ...PATIENT,
    MONGODB_URL: mongodbUrl,
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: queuePrefix,
    SEAL_KEY_FILE: keyFile,
    SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
    SWEEP_SECONDS: '1',
  }
  const ctx = openContext(readConfig(env, 'workers'), service.ctx.log)
  await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
  let pool: Pool | undefined
  return {
    start() {
      pool = startPool(withSigning(ctx), [
        'sequence',
        'make-seal',
        'sign-seals',
        'sign-announcement',
        'sweep',
      ])
    },
    async stop() {
      await pool?.close()
      await closeContext(ctx)
    },
  }
}

async function done(...argv: string[]): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await operator(...argv, '--json')
  expect([exitCode, stderr], stdout).toEqual([0, ''])
  return JSON.parse(stdout) as Record<string, unknown>
}

/** A busy machine takes longer than the second that an operator waits. */
const PATIENTLY = ['--wait', '20']

async function statusOf() {
  const { exitCode, stdout } = await operator('status', '--json', ...PATIENTLY)
  const answer = JSON.parse(stdout) as {
    verdict: string
    findings: { kind: string; severity: string; about?: string; what: string; command: string }[]
    coins: unknown[]
  }
  return { ...answer, exitCode }
}
const statusText = async () => (await operator('status', ...PATIENTLY)).stdout

async function backUp(): Promise<string> {
  const to = fs.mkdtempSync(path.join(folder, 'backup-'))
  await done('backup', to)
  return to
}

async function post(body: string): Promise<{ id: string; author: string }> {
  const agent = await service.registerWithPass()
  const { json } = await service.call('POST', '/post', { token: agent.token, body: { body, topic: 'news' } })
  return { id: String(json['id']), author: agent.id }
}

async function propose(): Promise<{ id: string; author: string }> {
  const agent = await service.register()
  const { json } = await service.call('POST', '/claim', {
    token: agent.token,
    body: { statement: 'Be faster.', kind: 'proposal' },
  })
  return { id: String(json['id']), author: agent.id }
}

async function invoice(): Promise<string> {
  await makeCoinReady(service.ctx, 'xno')
  const { token } = await service.register()
  return String(
    (await service.call('POST', '/invoice', { token, body: { currency: 'xno' } })).json['invoice_id'],
  )
}

let trading: Promise<TestMarket> | undefined
const market = () => (trading ??= openMarket(service))

/** The transaction of a raw that came to the treasury. */
async function nobodysMoney(): Promise<string> {
  const found = { coin: 'xno', tx: newTx(), addressIndex: 0, amountRaw: 1n } as const
  await recordUnassigned(service.ctx, found)
  return found.tx
}

const strangerAddress = (): string => encodeNanoAddress('A7'.repeat(32))

async function owedPayout(): Promise<string> {
  const order = await (await market()).delivered()
  await (await market()).step('accept', order)
  const [payout] = await service.ctx.payouts.listByOrder(order.id)
  return String(payout?._id)
}

async function disputedOrder(): Promise<string> {
  const order = await (await market()).delivered()
  await (await market()).step('dispute', order)
  return order.id
}

/** The id of an order whose dispute is decided. */
async function decidedOrder(): Promise<string> {
  const id = await disputedOrder()
  await decideDispute(service.ctx, id, 'refund')
  return id
}

/**
 * All that is stored, but what the running service keeps saying of itself: that it serves, and that the coins
 * are watched.
 */
const dumpRecords = async () =>
  (await dumpStored(service.ctx.database.connection))
    .split('\n')
    .filter((line) => !line.startsWith('serving '))
    .map((line) => (line.startsWith('coins ') ? line.replace(/,?"(alive_at|pool_at)":\d+/g, '') : line))
    .join('\n')

async function openWorker(name: QueueName): Promise<{ worker: Worker; close(): Promise<void> }> {
  const { redisUrl = '', queuePrefix: prefix } = service.ctx.config
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null })
  const worker = new Worker(name, null, { connection, prefix: queuePrefix(prefix, name) })
  await worker.waitUntilReady()
  return {
    worker,
    async close() {
      await worker.close(true)
      connection.disconnect()
    },
  }
}

/** A job that a worker took and gave up. */
/** A job that was given up. @returns its id */
async function failJob(name: QueueName): Promise<string> {
  const { worker, close } = await openWorker(name)
  // It may not be the only one that waits.
  await service.ctx.queues.get(name).add(name, {}, { attempts: 1, lifo: true })
  const job = await worker.getNextJob('lock')
  await job?.moveToFailed(new Error('a bug'), 'lock', false)
  await close()
  return job?.id ?? ''
}

/** A worker that counts as one and takes nothing. @returns what ends it */
async function startIdle(name: QueueName): Promise<() => Promise<void>> {
  const { worker, close } = await openWorker(name)
  // What BullMQ names a worker's connection, by which it is counted.
  const waiting = worker.getNextJob('lock', { block: true })
  waiting.catch(() => undefined) // it is closed meanwhile
  return close
}

const kindsPending = async (collection: string, id: string) =>
  (await listPending(service.ctx.database.connection, collection, id)).map(({ kind }) => kind)

describe('what the operator is shown as JSON', () => {
  it('has no character that changes what a terminal shows, and parses to the same text', async () => {
    const text = 'a\u009b\u202eb'
    const { id, token } = await service.registerWithPass({ handle: 'odd' })
    const { json } = await service.call('POST', '/post', { token, body: { body: text } })
    for (const words of [['show', String(json['id'])], ['show', id], [text]]) {
      const { stdout, stderr } = await operator(...words, '--json')
      expect(`${stdout}${stderr}`, words.join(' ')).not.toMatch(/[\u0080-\u009f\u202a-\u202e]/u)
      if (words[1] === json['id']) expect(JSON.stringify(JSON.parse(stdout))).toContain('a\u009b\u202eb')
    }
  })
})

describe('npm run operator', () => {
  it('lists every verb, and each verb says what it takes', async () => {
    const { exitCode, stdout } = await operator('help')
    expect(exitCode).toBe(0)
    for (const { name } of OPERATOR_VERBS) expect(stdout).toContain(`  ${name} `)
    for (const verb of OPERATOR_VERBS) {
      const own = await operator(verb.name, '--help')
      expect([own.exitCode, own.stderr]).toEqual([0, ''])
      expect(own.stdout.startsWith(`Usage: ${verb.name}`)).toBe(true)
      expect(own.stdout.includes('--dry-run')).toBe(verb.changes)
      expect(own.stdout).toContain('--json')
    }
  })

  it.each([
    [['frobnicate'], 'There is no verb "frobnicate"'],
    [[], 'No verb was given'],
    [['ban'], '"ban" needs AGENT_ID'],
    [['ban', 'one', 'two'], 'one too many'],
    [['reports', '--dry-run'], 'takes no --dry-run'],
    [['accept-proposal', 'clm_x', 'many'], 'DAYS expected a whole number'],
    [['seal', '7'], '--adopt SEQ HASH'],
    [['dispute', 'mkt_x', 'halve'], 'OUTCOME expected release, refund or split PERCENT'],
    [['dispute', 'mkt_x', 'release', '40'], 'OUTCOME expected release, refund or split PERCENT'],
    [['dispute', 'mkt_x', 'split'], 'PERCENT expected a whole number from 1 to 99'],
    [['dispute', 'mkt_x', 'split', '100'], 'PERCENT expected a whole number from 1 to 99'],
    [['dispute', 'mkt_x', 'split', '1.5'], 'PERCENT expected a whole number from 1 to 99'],
    [['dispute', 'mkt_x', 'release', '--undo'], 'ORDER_ID OUTCOME, or ORDER_ID --undo'],
    [['payout-paid', 'out_x', 'beef'], '64 hex characters'],
    [['seal', '--adopt', '7', 'beef'], '64 lower-case hex'],
  ])('refuses %j as not understood, with exit code 2 and nothing on stdout', async (argv, sentence) => {
    const { exitCode, stdout, stderr } = await operator(...argv)
    expect([exitCode, stdout]).toEqual([2, ''])
    expect(stderr).toContain(sentence)
    const asJson = await operator(...argv, '--json')
    expect(asJson.exitCode).toBe(2)
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      ok: false,
      error: 'usage',
      message: expect.stringContaining(sentence),
    })
  })

  it.each([
    [['ban', 'agt_none'], 'no_such_agent'],
    [['hide', 'pst_none'], 'no_such_post'],
    [['accept-proposal', 'clm_none', '3'], 'no_such_claim'],
    [['announce', 'x', '--kind', 'Not A Kind'], 'invalid_field'],
    [['announce', ''], 'invalid_field'],
    [['seal', '--adopt', '7', 'ab'.repeat(32)], 'wrong_state'],
  ])('refuses %j, with and without a dry run', async (argv, code) => {
    for (const dry of [[], ['--dry-run']]) {
      const { exitCode, stdout } = await operator(...argv, ...dry, '--json')
      expect([exitCode, JSON.parse(stdout)]).toEqual([
        1,
        { ok: false, error: code, message: expect.any(String) as string },
      ])
    }
  })

  it('says in a dry run of each changing verb what would change, and changes nothing', async () => {
    const written = await post('to hide')
    const proposal = await propose()
    const newKey = path.join(folder, 'dry-key')
    const own = { coin: 'xno', at: 1 } as const
    const lines = move('opening/xno/here/1', 'chain', 'operator', 10n ** 30n, own)
    await service.ctx.database.transaction((session) => service.ctx.journal.write(lines, session))
    const runs: string[][] = [
      ['ban', written.author],
      ['unban', written.author],
      ['hide', written.id],
      ['unhide', written.id],
      ['accept-proposal', proposal.id, '7'],
      ['announce', 'Something changes.'],
      ['announce-verifiers'],
      ['seal'],
      ['export-log', path.join(folder, 'dry-log')],
      ['seal', '--adopt', '0', '00'.repeat(32)],
      ['keygen', newKey],
      ['settle-invoice', await invoice(), '1', 'ab'.repeat(32)],
      ['unassigned', 'keep', await nobodysMoney()],
      ['payout-paid', await owedPayout(), 'ab'.repeat(32)],
      ['payout-hold', await owedPayout()],
      ['prove-control', 'xno'],
      ['withdraw', 'xno', '0.5', strangerAddress()],
      ['top-up', 'xno', '0.5'],
      ['top-up', 'xno', await nobodysMoney()],
      ['pay', (await market()).seller.id],
      ['dispute', await disputedOrder(), 'release'],
      ['dispute', await disputedOrder(), 'split', '40'],
      ['dispute', await decidedOrder(), '--undo'],
      ['reconcile', 'xno'],
      ['resume', '--all'],
      ['retry', 'make-seal'],
      ['remove-job', 'make-seal', await failJob('make-seal')],
      ['sweep'],
      ['backup', path.join(folder, 'dry-backup')],
      ['restore', await backUp(), '--to', path.join(folder, 'dry-data')],
      ['promote'],
    ]
    expect(new Set(runs.map(([name]) => name))).toEqual(
      new Set(OPERATOR_VERBS.filter(({ changes }) => changes).map(({ name }) => name)),
    )
    const before = await dumpRecords()
    const jobs = async () => (await service.ctx.queues.get('make-seal').getJobCounts('waiting'))['waiting']
    const jobsBefore = await jobs()
    for (const argv of runs)
      expect(await done(...argv, '--dry-run')).toMatchObject({ ok: true, dry_run: true })
    expect(await done('ban', written.author, '--dry-run')).toMatchObject({
      changed: true,
      ledger_entry: 'ban',
    })
    expect(await done('unban', written.author, '--dry-run')).toMatchObject({
      changed: false,
      ledger_entry: null,
    })
    expect(await done('accept-proposal', proposal.id, '7', '--dry-run')).toMatchObject({
      status: 'accepted',
      days: 7,
    })
    expect((await operator('hide', written.id, '--dry-run')).stdout).toMatch(
      /^Dry run: nothing was changed\./,
    )
    expect(await dumpRecords()).toBe(before)
    expect(await jobs()).toBe(jobsBefore)
    await service.ctx.queues.get('make-seal').clean(0, 0, 'failed')
    expect([newKey, path.join(folder, 'dry-log')].filter(fs.existsSync)).toEqual([])
  })

  // holds: rules.ledger.entry_kinds.ban, rules.ledger.entry_kinds.unban
  it('bans and unbans an agent, each once and with its ledger entry', async () => {
    const agent = await service.register()
    expect(await done('ban', agent.id)).toEqual({
      ok: true,
      agent_id: agent.id,
      banned: true,
      changed: true,
      ledger_entry: 'ban',
    })
    expect((await service.call('GET', '/me', { token: agent.token })).json.error).toBe('banned')
    expect(await done('ban', agent.id)).toMatchObject({ changed: false, ledger_entry: null })
    expect(await done('unban', agent.id)).toMatchObject({
      banned: false,
      changed: true,
      ledger_entry: 'unban',
    })
    expect((await service.call('GET', '/me', { token: agent.token })).status).toBe(200)
    expect(await kindsPending('agents', agent.id)).toEqual(['registration', 'ban', 'unban'])
  })

  it('keeps the reason of a ban or of hiding for the operators alone', async () => {
    const { id, author } = await post('of which somebody complained')
    await done('ban', author, '--note', 'told three times', '--dry-run')
    await done('ban', author, '--note', 'told three times')
    await done('hide', id, '--note', 'a complaint by letter')
    await done('unhide', id, '--note', 'it was another one')
    const notesOf = async (word: string) =>
      ((await done('show', word)) as unknown as { records: { collection: string; record: object }[] }).records
        .filter(({ collection }) => collection === 'operator_notes')
        .map(({ record }) => record as { about: string; act: string; note: string })
        .map(({ about, act, note }) => [about, act, note])
    expect((await notesOf(author)).filter(([about]) => about === author)).toEqual([
      [author, 'ban', 'told three times'],
    ])
    expect((await notesOf(id)).toSorted()).toEqual([
      [id, 'hide', 'a complaint by letter'],
      [id, 'unhide', 'it was another one'],
    ])
    const { text } = await service
      .call('GET', `/ledger?agent=${author}`)
      .then(({ json }) => ({ text: JSON.stringify(json) }))
    expect(text).not.toContain('told three times')
    const empty = await operator('ban', author, '--note', ' ')
    expect([empty.exitCode, empty.stderr]).toEqual([2, expect.stringContaining('1 to 1000 characters')])
    await done('unban', author)
  })

  it('asks a person at a terminal before it announces, which cannot be taken back, and no program', async () => {
    const asked: string[] = []
    const announceWith = async (answer: boolean, ...more: string[]) => {
      const { exitCode, stderr } = await runCommand(
        operatorEnv(service.ctx.config),
        ['announce', 'Not yet.', ...more],
        { confirm: (question) => Promise.resolve(asked.push(question) > 0 && answer) },
      )
      return [exitCode, stderr.trim()]
    }
    const count = () => service.ctx.announcements.models.announcements.countDocuments()
    const before = await count()
    expect(await announceWith(false)).toEqual([1, 'Nothing was done.'])
    expect(asked).toEqual([
      'An announcement is public and signed, and cannot be taken back; --dry-run shows it. Go on? [y/N] ',
    ])
    expect(await announceWith(false, '--dry-run')).toEqual([0, ''])
    expect([asked.length, await count()]).toEqual([1, before])
  })

  it('hides a post and shows it again, each with its ledger entry', async () => {
    const { id } = await post('seen, hidden, seen')
    const isInFeed = async () =>
      ((await service.call('GET', '/feed?limit=200')).json['posts'] as { id: string }[]).some(
        (one) => one.id === id,
      )
    await done('hide', id)
    expect(await isInFeed()).toBe(false)
    await done('unhide', id)
    expect(await isInFeed()).toBe(true)
    expect(await kindsPending('posts', id)).toEqual(['post', 'hide', 'unhide'])
  })

  it('lists reports newest first with the posts, and lets nothing in them reach the terminal as a command', async () => {
    const reporter = await service.registerWithPass()
    const first = await post('an \u001b[31mugly\u001b[0m post')
    const second = await post('x'.repeat(1_000))
    for (const { id } of [first, second])
      await service.call('POST', '/report', { token: reporter.token, body: { post_id: id, rule: 'spam' } })
    await done('hide', first.id)
    const { reports, count } = (await done('reports', '--limit', '2')) as {
      reports: { post_id: string; post: object }[]
      count: number
    }
    expect([count, ...reports.map(({ post_id }) => post_id)]).toEqual([2, second.id, first.id])
    expect(reports[1]).toMatchObject({
      rule: 'spam',
      agent_id: reporter.id,
      post: { agent_id: first.author, hidden: true, topic: 'news' },
    })
    const { stdout } = await operator('reports')
    expect(stdout).toContain('an \\u{1b}[31mugly')
    expect(stdout).not.toContain('\u001b')
    expect(stdout).toContain('1000 characters')
  })

  // holds: rules.ledger.entry_kinds.proposal_accepted
  it('accepts a proposal once, credits its author and leaves two entries', async () => {
    const { id, author } = await propose()
    expect(await done('accept-proposal', id, '7')).toMatchObject({
      claim_id: id,
      agent_id: author,
      status: 'accepted',
      days: 7,
    })
    expect(await kindsPending('claims', id)).toEqual(['claim', 'proposal_accepted', 'pass_credit'])
    const again = await operator('accept-proposal', id, '7', '--json')
    expect([again.exitCode, (JSON.parse(again.stdout) as { error: string }).error]).toEqual([
      1,
      'wrong_state',
    ])
  })

  it('makes a seal key that only its owner can read, and never replaces one', async () => {
    const made = await done('keygen', keyFile)
    const key = readSealKey(keyFile)
    expect(key).toBeDefined()
    expect(made).toEqual({
      ok: true,
      seal_key_file: keyFile,
      mode: '600',
      pubkey: keyToHex(ed25519PublicKey(key ?? new Uint8Array())),
    })
    expect(fs.statSync(keyFile).mode & 0o777).toBe(0o600)
    const before = fs.readFileSync(keyFile, 'utf8')
    expect(JSON.stringify(made)).not.toContain(before.trim())
    const again = await operator('keygen', keyFile, '--json')
    expect([again.exitCode, (JSON.parse(again.stdout) as { error: string }).error]).toEqual([1, 'exists'])
    expect(fs.readFileSync(keyFile, 'utf8')).toBe(before)
    expect((await operator('keygen', path.join(folder, 'none', 'key'))).exitCode).toBe(1)
  })

  it('adopts the last signed seal by a file beside the seal memory, and by nothing that another host could read', async () => {
    const last = await service.ctx.seals.lastSigned()
    const words =
      last === undefined ? ['0', NO_PAYLOAD_HASH] : [String(last._id), sealPayloadHash(sealFields(last))]
    const adopt = async (SEAL_MEMORY_FILE: string) => {
      const { exitCode, stdout } = await operatorOn(
        { SEAL_MEMORY_FILE },
        ...['seal', '--adopt', ...words, '--json'],
      )
      return { exitCode, answer: JSON.parse(stdout) as Record<string, unknown> }
    }
    const memory = path.join(folder, 'memory-of-the-host')
    const { exitCode, answer } = await adopt(memory)
    expect([exitCode, answer]).toEqual([
      0,
      {
        ok: true,
        adoption_file: `${memory}.adoption`,
        remembered_seq: null,
        seq: Number(words[0]),
        payload_hash: words[1],
        ledger_entry: 'seal_adoption',
      },
    ])
    expect(JSON.parse(fs.readFileSync(`${memory}.adoption`, 'utf8'))).toMatchObject({
      seq: Number(words[0]),
      payload_hash: words[1],
    })
    expect(await service.ctx.seals.models.adoptions.countDocuments()).toBe(0)
    const elsewhere = await adopt(path.join(folder, 'nowhere', 'memory'))
    expect([elsewhere.exitCode, elsewhere.answer['error']]).toEqual([1, 'not_adopted'])
    expect(elsewhere.answer['message']).toContain('an adoption is written on the signing host')
    expect((await operator('seal', '--adopt', ...words)).exitCode).toBe(1)
  })

  // holds: contract.change_policy.anything_that_removes_a_route_or
  // holds: contract.events.changes_to_the_protocol_are_announced, rules.ledger.entry_kinds.announcement
  it('announces with a signature of the seal key: listed once signed, in the ledger, and opened by its receipt', async () => {
    const text = 'From May on, a post may be 16 KiB. Grüße.'
    // Open before the verb is asked, which waits for 10 s.
    const signer = await openSigner()
    stopSigner = signer.stop
    const waiting = operator('announce', text, '--kind', 'limits', '--json')
    const { announcements } = service.ctx
    const [id = ''] = await waitFor(
      'the announcement',
      async () => {
        const ids = await announcements.listUnsigned(1)
        return ids.length === 0 ? undefined : ids
      },
      { limitMs: PATIENCE_MS },
    )
    expect((await service.call('GET', '/verify')).json['announcements']).toEqual([])
    signer.start()
    const { exitCode, stdout } = await waiting
    expect([exitCode, JSON.parse(stdout)]).toEqual([
      0,
      expect.objectContaining({
        ok: true,
        announcement_id: id,
        kind: 'limits',
        text,
        signed: true,
        ledger_entry: 'announcement',
      }),
    ])

    const { announcements: listed } = (await service.call('GET', '/verify')).json as unknown as {
      announcements: Record<string, string>[]
    }
    const { at, signature = '', pubkey = '' } = listed[0] ?? {}
    expect(pubkey).toBe(keyToHex(ed25519PublicKey(readSealKey(keyFile) ?? new Uint8Array())))
    const payload = Buffer.from(canonicalJson({ at: Number(at), id, kind: 'limits', text }))
    expect(ed25519Verify(signatureFromBase64(signature), payload, keyFromHex(pubkey))).toBe(true)

    // Its entry may take longer to be numbered than a request waits for that.
    const receipt = (await whenServed(() => service.call('GET', `/receipt/${id}`))).json as unknown as Receipt
    const [opening] = receipt.openings ?? []
    expect(receipt.entries.map(({ entry }) => entry.kind)).toEqual(['announcement'])
    expect(opening?.content).toEqual({ id, kind: 'limits', text })
    expect(commit(Buffer.from(opening?.salt ?? '', 'hex'), opening?.content ?? null)).toBe(
      receipt.entries[0]?.entry.data['content_hash'],
    )
    expect(JSON.stringify(receipt.entries)).not.toContain('Grüße')
  })

  it('announces the SHA-256 of the verifiers, signed and under a commitment in the ledger', async () => {
    const {
      text,
      signed,
      announcement_id: id,
    } = (await done('announce-verifiers')) as Record<string, string | boolean>
    const list = fs.readFileSync(new URL('../../client/seal-verify.sha256', import.meta.url), 'utf8').trim()
    expect([text, signed]).toEqual([list, true])
    const { verifiers } = (await service.call('GET', '/rules')).json['ledger'] as {
      verifiers: { file: string; sha256: string }[]
    }
    expect(verifiers.map(({ file, sha256 }) => `${sha256}  ${file}`).join('\n')).toBe(list)
    const { announcements } = (await service.call('GET', '/verify')).json as unknown as {
      announcements: Record<string, string>[]
    }
    expect(announcements.find((one) => one['id'] === id)).toMatchObject({ kind: 'verifiers', text: list })
    const receipt = (await whenServed(() => service.call('GET', `/receipt/${String(id)}`)))
      .json as unknown as Receipt
    expect(receipt.openings?.[0]?.content).toEqual({ id, kind: 'verifiers', text: list })
  })

  it('says how much more the network can take, once there are samples of an hour', async () => {
    expect(await done('capacity')).toMatchObject({ ok: true, capacity: null })
    const { samples } = service.ctx.operation
    const now = Math.floor(service.ctx.database.now() / 1_000)
    for (let minute = 0; minute <= 120; minute++) {
      const requests = [60 * minute, ...REQUEST_BUCKETS.map(() => 0)]
      const totals = { requests, failures: 0, jobs: {}, cpu_seconds: { api: 6 * minute } }
      const levels = {
        'processes/api': 1,
        database_bytes: 1e6 * minute,
        disk_free_bytes: 1e9,
        entries: minute,
      }
      const counted = { at: now - 60 * (120 - minute), totals, processes: {} }
      await samples.store(counted, levels, await samples.readCounted())
    }
    const { capacity } = (await done('capacity')) as unknown as {
      capacity: { roles: object[]; disk: { days_left: number }; requests: { per_second: number } }
    }
    expect(capacity.requests.per_second).toBeCloseTo(1, 6)
    expect(capacity.roles).toMatchObject([{ role: 'api', processes: 1, a_second_process_helps: true }])
    expect(capacity.disk.days_left).toBeCloseTo(1_000 / 1_440, 3)
  })

  it('seals now, and shows on one screen what an operator asks first', async () => {
    expect(await done('seal')).toMatchObject({
      enqueued: 'make-seal',
      new_entries: true,
      ledger_entry: 'solvency',
    })
    const sealed = await waitFor('a signed seal', () => service.ctx.seals.lastSigned(), {
      limitMs: PATIENCE_MS,
    })
    const status = (await statusOf()) as unknown as {
      queues: { name: string; workers: number; waiting: number; no_worker: boolean }[]
      ledger: { last_seal: object; chain_intact: boolean; last_settlement: { kind: string } }
      passes: { with_active_pass: number; registered: number }
      coins: unknown[]
      payouts: object
    }
    expect(status.queues.find(({ name }) => name === 'make-seal')).toMatchObject({
      workers: 1,
      no_worker: false,
    })
    expect(status.ledger).toMatchObject({ last_seal: { seq: sealed._id, signed: true }, chain_intact: true })
    expect(status.ledger.last_settlement.kind).toBe('pass_credit')
    expect(status.passes.with_active_pass).toBeGreaterThanOrEqual(4)
    expect(status.passes.registered).toBeGreaterThan(status.passes.with_active_pass)
    const { stdout } = await operator('status', '--all', ...PATIENTLY)
    for (const title of ['Queues', 'Ledger', 'Agents and passes', 'Coins', 'Payouts'])
      expect(stdout).toContain(`${title}\n`)
    expect(stdout.split('\n').length).toBeLessThan(100)
    // What is fine is left out unless it is asked for.
    expect(await statusText()).not.toContain('Queues\n')
    expect(stdout).not.toContain('cannot be read')
    await makeCoinReady(service.ctx, 'xno', { addresses: 0 })
    await service.ctx.coins.noteTreasury('xno', {
      treasury_address: 'nano_1',
      treasury_raw: '0',
      treasury_short_raw: `25${'0'.repeat(29)}`,
    })
    const short = await statusOf()
    expect(short.coins).toContainEqual(
      expect.objectContaining({ currency: 'xno', treasury_short_raw: `25${'0'.repeat(29)}` }),
    )
    expect(short.findings).toContainEqual(
      expect.objectContaining({ kind: 'treasury_short', severity: 'act', command: 'send 2.5 XNO to nano_1' }),
    )
    await service.ctx.coins.noteTreasury('xno', { treasury_short_raw: '0' })
    expect((await statusOf()).findings.map(({ kind }) => kind)).not.toContain('treasury_short')
  })

  it('says first whether it is fine, and beside each thing that is not since when, why, and what to run', async () => {
    const { queues, coins } = service.ctx
    const old = Math.floor(Date.now() / 1000) - 3_600
    await queues.get('sweep').pause()
    await queues.get('verify-shares').setGlobalRateLimit(1, 3_600_000)
    await coins.saveRate({ _id: 'xno', usd: '1', source: 'a test', at: old })
    const { verdict, findings, exitCode } = await statusOf()
    const text = await statusText()
    expect([verdict, exitCode]).toEqual(['act', 2])
    expect(text).toMatch(/^ACT: \d+ things? needs? you/)
    expect(findings.find(({ about }) => about === 'sweep')).toMatchObject({
      kind: 'queue_paused',
      severity: 'act',
      command: 'npm run operator -- resume sweep',
    })
    expect(findings.find(({ kind }) => kind === 'queue_limited')).toMatchObject({
      about: 'verify-shares',
      what: 'The queue verify-shares is limited to 1 jobs in 3600 s',
    })
    expect(findings.find(({ kind }) => kind === 'rate_stale')).toMatchObject({ about: 'xno', since: old })
    for (const { severity, what, command } of findings) {
      expect(text).toContain(`${severity.toUpperCase().padEnd(4)}  ${what}.`)
      expect(text).toContain(`> ${command}`)
    }
    await coins.saveRate({ _id: 'xno', usd: '1', source: 'a test', at: old + 3_600 })
    // Its own command mends it.
    expect(await done('resume', '--all', '--dry-run')).toMatchObject({ resumed: 'sweep, verify-shares' })
    expect(await done('resume', 'sweep')).toMatchObject({ resumed: 'sweep', changed: true })
    expect(await done('resume', '--all')).toMatchObject({ resumed: 'verify-shares' })
    expect(await done('resume', '--all')).toMatchObject({ changed: false })
    expect((await statusOf()).findings.filter(({ kind }) => /^queue_(paused|limited)/.test(kind))).toEqual([])
  })

  it('names a clock that is off, a forgotten process of another version, a Redis that lost its data, and a secret for all', async () => {
    const { ctx } = service
    const [started_at, queues] = [Math.floor(Date.now() / 1000), [] as string[]]
    const build = { host: 'host-1', part: 'workers', queues, version: '1.0.0', started_at }
    const one = { ...build, _id: 'one', pid: 71, commit: 'a'.repeat(12), clock_ahead_ms: 0 }
    await ctx.operation.processes.note(one)
    await ctx.operation.processes.note({ ...one, _id: 'two', pid: 72 })
    await ctx.operation.processes.note({ ...one, _id: 'old', pid: 73, commit: 'b'.repeat(12) })
    await ctx.operation.processes.note({
      ...one,
      _id: 'late',
      pid: 74,
      host: 'host-2',
      clock_ahead_ms: -90_000,
    })
    await ctx.operation.watch.noteRedis({ mark: 'not there' }, await ctx.operation.watch.readRedis())
    const token = path.join(folder, 'token')
    fs.writeFileSync(token, 'a-token-for-all-to-read', { mode: 0o644 })
    const look = async () => {
      const { stdout } = await operatorOn({ OPERATOR_TOKEN_FILE: token }, 'status', '--json', ...PATIENTLY)
      const { findings } = JSON.parse(stdout) as {
        findings: { kind: string; command: string; what: string }[]
      }
      return new Map(findings.map((finding) => [finding.kind, finding]))
    }
    // A finding whose server doesn't answer in time is left out.
    const found = await waitFor(
      'all findings',
      async () => {
        const all = await look()
        return all.has('redis_emptied') && all.has('clock_off') ? all : undefined
      },
      { limitMs: PATIENCE_MS },
    )
    expect(found.get('programs_mixed')?.command).toBe('kill 73   # on host-1')
    expect(found.get('clock_off')?.what).toBe("The clock of host-2 is 90 s behind the database's")
    expect(found.get('redis_emptied')?.command).toBe('npm run operator -- sweep')
    expect(found.get('secret_readable')?.command).toContain(`openssl rand -hex 32 > '${token}'`)
    for (const id of ['old', 'late']) await ctx.operation.processes.forget(id)
    await done('sweep')
    fs.chmodSync(token, 0o600)
    const after = await look()
    for (const kind of ['programs_mixed', 'clock_off', 'redis_emptied', 'secret_readable'])
      expect(after.get(kind), kind).toBeUndefined()
  })

  it('says of a MongoDB that nobody listens at that it is away, and of one that is silent while the API serves that it is slow', async () => {
    const direct = new URL(service.ctx.config.mongodbUrl ?? '')
    const refused = new URL(direct)
    refused.port = '1'
    const away = await operatorOn({ MONGODB_URL: refused.href }, 'status', '--json')
    const [finding] = (JSON.parse(away.stdout) as { findings: { kind: string; why: string }[] }).findings
    expect([away.exitCode, finding?.kind, finding?.why]).toEqual([
      2,
      'mongodb_away',
      expect.stringContaining('ECONNREFUSED'),
    ])
    const gate = await openGate(Number(direct.port))
    try {
      gate.hang()
      const through = new URL(direct)
      through.port = String(gate.port)
      const env = { MONGODB_URL: through.href, PORT: new URL(service.url).port }
      const silent = await operatorOn(env, 'status', '--json')
      const { findings } = JSON.parse(silent.stdout) as { findings: { kind: string; severity: string }[] }
      const kinds = findings.map(({ kind }) => kind)
      expect(kinds.filter((kind) => kind === 'mongodb_slow' || kind === 'host_busy')).toHaveLength(1)
      expect(kinds).not.toContain('mongodb_away')
    } finally {
      await gate.close()
    }
  })

  it.runIf(FULL)(
    'names processes on its database that use another Redis, and settings in which the same work differs',
    async () => {
      const dataDir = fs.mkdtempSync(path.join(folder, 'redis-'))
      const children = trackChildren(dataDir, () => undefined)
      const redis = await startRedis({ binary: requireRedis(), dataDir, children, report: () => undefined })
      const { mongodbUrl, queuePrefix: prefix } = service.ctx.config
      const openApi = async (more: Record<string, string>) => {
        const env = { ...PATIENT, MONGODB_URL: mongodbUrl, QUEUE_PREFIX: prefix, ...more }
        const ctx = openContext(
          readConfig(
            { CHALLENGE_SECRET: 'ab'.repeat(32), REDIS_URL: service.ctx.config.redisUrl, ...env },
            'api',
          ),
          service.ctx.log,
        )
        await Promise.all([ctx.database.whenReady(), ctx.queues.whenReady()])
        const leave = keepHeartbeat(ctx, 'api')
        return async () => {
          await leave()
          await closeContext(ctx)
        }
      }
      const look = async (kind: string) =>
        (await statusOf()).findings.find((finding) => finding.kind === kind)?.what
      const all = [await openApi({}), await openApi({})]
      try {
        expect(await look('two_networks')).toBeUndefined()
        expect(await look('settings_differ')).toBeUndefined()
        all.push(await openApi({ REDIS_URL: redis.url }), await openApi({ REGISTER_BITS: '9' }))
        await expect.poll(() => look('two_networks'), { timeout: PATIENCE_MS }).toContain('another Redis')
        await expect.poll(() => look('settings_differ'), { timeout: PATIENCE_MS }).toContain('REGISTER_BITS')
      } finally {
        for (const end of all) await end()
        await redis.child.stop()
        children.close()
      }
    },
  )

  it('tries again what was given up, once its cause is mended', async () => {
    const queue = service.ctx.queues.get('check-chain')
    const job = await queue.add('check-chain', {}, { attempts: 1, jobId: 'given-up' })
    const connection = new Redis(service.ctx.config.redisUrl ?? '', { maxRetriesPerRequest: null })
    const worker = new Worker('check-chain', () => Promise.reject(new Error('a bug')), {
      connection,
      prefix: queuePrefix(service.ctx.config.queuePrefix, 'check-chain'),
    })
    await waitFor('its failure', async () => ((await job.isFailed()) ? true : undefined), {
      limitMs: PATIENCE_MS,
    })
    await worker.close()
    connection.disconnect()
    const { findings } = await statusOf()
    expect(findings.find(({ kind }) => kind === 'jobs_given_up')?.command).toBe(
      'npm run operator -- retry check-chain   # what failed: npm run operator -- show given-up',
    )
    expect(await done('retry', 'check-chain')).toMatchObject({ retried: 1, changed: true })
    expect(await job.isWaiting()).toBe(true)
    expect(await done('retry', 'check-chain')).toMatchObject({ retried: 0, changed: false })
    await job.remove()
  })

  it('says to remove a job that no other try can help, with its whole reason, and removes it', async () => {
    const queue = service.ctx.queues.get('check-chain')
    const job = await queue.add('check-chain', {}, { attempts: 3, jobId: 'hopeless' })
    const connection = new Redis(service.ctx.config.redisUrl ?? '', { maxRetriesPerRequest: null })
    const reason =
      'the payload of job hopeless is not one of check-chain: [\n  {\n    "code": "invalid_type"\n  }\n]'
    const worker = new Worker('check-chain', () => Promise.reject(new UnrecoverableError(reason)), {
      connection,
      prefix: queuePrefix(service.ctx.config.queuePrefix, 'check-chain'),
    })
    const limit = { limitMs: PATIENCE_MS }
    await waitFor('its failure', async () => ((await job.isFailed()) ? true : undefined), limit)
    await worker.close()
    connection.disconnect()
    const found = (await statusOf()).findings.find(({ kind }) => kind === 'jobs_given_up')
    expect(found?.command).toMatch(/^npm run operator -- remove-job check-chain \w+ /)
    expect((found as { why?: string } | undefined)?.why).toContain('[ { "code": "invalid_type" } ]')
    expect(await done('remove-job', 'check-chain', 'hopeless')).toMatchObject({ removed: 'hopeless' })
    expect(await queue.getJob('hopeless')).toBeUndefined()
    const again = await operator('remove-job', 'check-chain', 'hopeless')
    expect([again.exitCode, again.stderr]).toEqual([2, expect.stringContaining('There is no job hopeless')])
    await queue.clean(0, 0, 'failed')
  })

  it('lists no regular job among what was given up, since its next turn does the work', async () => {
    // Nobody serves them here.
    for (const [name, count] of [
      ['refresh-rates', 0],
      ['check-chain', 1],
    ] as const) {
      await failJob(name)
      const { findings } = await statusOf()
      const found = findings.filter(({ kind, about }) => kind === 'jobs_given_up' && about === name)
      expect(found.length, name).toBe(count)
      await service.ctx.queues.get(name).clean(0, 0, 'failed')
    }
  })

  it('says to add workers to a queue that they can serve beside each other, and to no other', async () => {
    const { queues } = service.ctx
    const old = { timestamp: Date.now() - 600_000 }
    for (const [name, payload, command] of [
      ['check-chain', {}, 'npm run operator -- status --all'],
      ['order-deadlines', { due_at: 1 }, 'npm run workers -- --queues order-deadlines'],
    ] as const) {
      const endWorker = await startIdle(name)
      const job = await queues.get(name).add(name, payload, old)
      const { findings } = await statusOf()
      expect(
        findings.find(({ kind, about }) => kind === 'queue_behind' && about === name)?.command,
        name,
      ).toBe(command)
      await job.remove()
      await endWorker()
    }
  })

  it.runIf(FULL)('names a Redis that is nearly full, before it takes no more jobs', async () => {
    const dataDir = fs.mkdtempSync(path.join(folder, 'redis-'))
    const children = trackChildren(dataDir, () => undefined)
    const redis = await startRedis({ binary: requireRedis(), dataDir, children, report: () => undefined })
    const onRedis = new Redis(redis.url)
    const look = async () => {
      const { stdout } = await operatorOn({ REDIS_URL: redis.url }, 'status', '--json', ...PATIENTLY)
      const { findings } = JSON.parse(stdout) as { findings: { kind: string; what: string }[] }
      return findings.find(({ kind }) => kind === 'redis_filling')?.what
    }
    try {
      expect(await look()).toBeUndefined()
      const used = Number(/^used_memory:(\d+)/m.exec(await onRedis.info('memory'))?.[1])
      await onRedis.config('SET', 'maxmemory', 10 * used)
      expect(await look()).toBeUndefined()
      await onRedis.config('SET', 'maxmemory', used)
      expect(await look()).toMatch(/^Redis holds \d+ MB of the \d+ MB that it may$/)
    } finally {
      onRedis.disconnect()
      await redis.child.stop()
      children.close()
    }
  })

  it('shows where each treasury is and what it holds, also while nothing is short', async () => {
    await makeCoinReady(service.ctx, 'xno', { addresses: 0 })
    await service.ctx.coins.noteTreasury('xno', {
      treasury_address: 'nano_1of_the_treasury',
      treasury_raw: `35${'0'.repeat(29)}`,
      treasury_short_raw: '0',
    })
    const text = await statusText()
    expect(text).toMatch(/^treasury {2}xno: 3\.5 held, [\d.]+ owed, -?[\d.]+ own, at nano_1of_the_treasury$/m)
    expect(text).toMatch(/^rate {6}xno: 1 USD, .* ago$/m)
  })

  it('gives the whole trail of a record, by its id, address, transaction, handle or number', async () => {
    const { ctx } = service
    const payout = await owedPayout()
    const orderId = (await ctx.payouts.find(payout))?.order_id ?? ''
    const order = await ctx.orders.find(orderId)
    const invoice = await ctx.invoices.models.invoices.findOne({ order_id: orderId }).lean()
    const payment = await ctx.invoices.arrivals.models.payments.findOne({ order_id: orderId }).lean()
    const job = await ctx.queues.get('order-deadlines').add('order-deadlines', { due_at: 1, about: orderId })
    const words = [payout, orderId, invoice?.address ?? '', payment?.tx ?? '', job.id ?? '']
    for (const word of words.slice(0, 4)) {
      const { records, events } = (await done('show', word)) as unknown as {
        records: { collection: string; record: { _id: string } }[]
        events: { by: string; what: string }[]
      }
      const ids = records.map(({ record }) => record._id)
      for (const id of [payout, orderId, invoice?._id, payment?._id]) expect(ids, word).toContain(id)
      const bys = events.map(({ by }) => by).join()
      for (const by of [/books/, /entry \d|waits for its number/, /job of order-deadlines/])
        expect(bys, word).toMatch(by)
    }
    // What no entry says of money is a line of the log.
    const said = service
      .logged()
      .split('\n')
      .filter((line) => line.includes(invoice?._id ?? 'none'))
    const payments = await ctx.invoices.arrivals.models.payments.find({ order_id: orderId }).lean()
    const logged = (money: string, field: string) => {
      const lines = said.filter((line) => line.includes(`"money":"${money}"`))
      return [...new Set(lines.map((line) => (JSON.parse(line) as Record<string, unknown>)[field]))]
    }
    expect(logged('invoice', 'invoice_id')).toEqual([invoice?._id])
    expect(logged('payment', 'payment_id')).toEqual(payments.map(({ _id }) => _id))
    for (const secret of [invoice?.address, payment?.tx]) expect(said.join()).not.toContain(String(secret))
    const { stdout } = await operator('show', payout)
    expect(stdout).toContain(`orders ${orderId}`)
    expect(stdout).toMatch(/books: \d+ XNO from order:/)
    for (const secret of [order?.delivery, order?.payout_salt]) expect(stdout).not.toContain(String(secret))
    expect((await operator('show', job.id ?? '')).stdout).toContain('job of order-deadlines')
    await job.remove()

    const agent = await service.register({ handle: 'shown-by-name' })
    const { stdout: shown } = await operator('show', 'shown-by-name')
    expect(shown).toContain(`agents ${agent.id}`)
    expect(shown).toMatch(/(entry \d+|waits for its number): registration/)
    expect(shown).not.toContain('token')
    const unknown = await operator('show', 'nothing-of-ours')
    expect([unknown.exitCode, unknown.stderr]).toEqual([1, expect.stringContaining('Nothing is known of')])
  })

  it('draws the status anew until it is told to stop', async () => {
    const ending = new AbortController()
    let stdout = ''
    const ran = runOperator({
      argv: ['status', '--watch', ...PATIENTLY],
      env: operatorEnv(service.ctx.config),
      stdout: {
        write(text) {
          stdout += text
          ending.abort()
        },
      },
      stderr: { write: () => true },
      signal: ending.signal,
    })
    expect([0, 1, 2]).toContain(await ran)
    expect(stdout).toContain('\x1b[H\x1b[2J')
  })

  it('prints one object for --watch with --json', async () => {
    const { stdout } = await operator('status', '--watch', '--json', ...PATIENTLY)
    expect(JSON.parse(stdout)).toMatchObject({ ok: true })
  })

  it('makes nothing by looking, and says that there is nothing', async () => {
    const mongodbUrl = new URL(service.ctx.config.mongodbUrl ?? '')
    const name = `${mongodbUrl.pathname.slice(1)}-typo`
    mongodbUrl.pathname = `/${name}`
    const ran = await operatorOn({ MONGODB_URL: mongodbUrl.href }, 'status', ...PATIENTLY)
    expect([ran.exitCode, ran.stdout]).toEqual([
      2,
      expect.stringContaining(`There is no network in the database "${name}"`),
    ])
    const ban = await operatorOn({ MONGODB_URL: mongodbUrl.href }, 'ban', 'agt_1')
    expect([ban.exitCode, ban.stderr]).toEqual([1, expect.stringContaining('There is no network')])
    const { databases } = await service.ctx.database.connection.getClient().db().admin().listDatabases()
    expect(databases.map((one) => one.name)).not.toContain(name)
  })

  it('shows the rest where Redis is away, and refuses what needs it in good time', async () => {
    const { exitCode, stdout } = await operatorOn(
      { REDIS_URL: 'redis://127.0.0.1:1' },
      ...['status', '--all', '--wait', '5'],
    )
    expect(exitCode).toBe(2)
    expect(stdout).toContain('Redis is away')
    expect(stdout).toContain('cannot be read: Redis did not answer')
    expect(stdout).toContain('registered ')
    const startedMs = performance.now()
    for (const verb of sampled([['seal'], ['resume', '--all'], ['retry', 'make-seal'], ['sweep']])) {
      const refused = await operatorOn({ REDIS_URL: 'redis://127.0.0.1:1' }, ...verb, '--json')
      expect([refused.exitCode, JSON.parse(refused.stdout)]).toEqual([
        1,
        expect.objectContaining({
          error: 'unavailable',
          message: 'Redis did not answer within 5 s; `operator status` says what is away.',
        }),
      ])
    }
    // Not the minute that a verb may wait for a worker.
    expect(performance.now() - startedMs).toBeLessThan(60_000)
  })

  it('lists every wrong setting in one sentence each, with exit code 1', async () => {
    const env = { MONGODB_URL: 'http://nowhere', REDIS_URL: 'nowhere', DATA_DIR: path.join(folder, 'none') }
    const { exitCode, stderr } = await runCommand(env, ['status'])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('MONGODB_URL')
    expect(stderr).toContain('REDIS_URL')
  })

  it('takes the servers and settings of the network that runs from the data folder, where it has none of its own', async () => {
    const { mongodbUrl = '', redisUrl = '', queuePrefix } = service.ctx.config
    const payout = await owedPayout()
    const dataDir = path.join(folder, 'running')
    fs.mkdirSync(dataDir)
    const given = {
      QUEUE_PREFIX: queuePrefix,
      MIN_PAYOUT_XNO: '900000',
      OPERATOR_TOKEN: 'not for the file: token',
      CHALLENGE_SECRET: 'not for the file: secret',
      NANO_SEED_FILE: '/not for the file',
      RATE_SOURCES: 'xno=https://user:password@rates.example#usd',
    }
    noteRunning(dataDir, { mongodbUrl, redisUrl }, given)
    const file = path.join(dataDir, 'running.json')
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
    expect(JSON.parse(fs.readFileSync(file, 'utf8'))).toEqual({
      mongodbUrl,
      redisUrl,
      settings: { QUEUE_PREFIX: queuePrefix, MIN_PAYOUT_XNO: '900000' },
      sum: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    })
    const isDue = async (env: Record<string, string>) => {
      const { exitCode, stdout } = await runCommand({ DATA_DIR: dataDir, ...env }, ['payouts', '--json'])
      expect(exitCode, stdout).toBe(0)
      const { payees } = JSON.parse(stdout) as {
        payees: { due: boolean; payouts: { payout_id: string }[] }[]
      }
      return payees.find(({ payouts }) => payouts.some(({ payout_id: id }) => id === payout))?.due
    }
    expect(await isDue({ MIN_PAYOUT_XNO: '' })).toBe(false)
    expect(await isDue({ MIN_PAYOUT_XNO: '0.01' })).toBe(true)
    // Of another network, as the address of its server is another one, the settings are not known.
    expect(
      await isDue({ MONGODB_URL: `${mongodbUrl}${mongodbUrl.includes('?') ? '&' : '?'}appName=other` }),
    ).toBe(true)
  })
})
