import fs from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { announce, signAnnouncement } from '../../shared/announcements/announcement-service.ts'
import { commit } from '../../shared/crypto/commitment.ts'
import { EMPTY_KEY_ROOT } from '../../shared/crypto/key-tree.ts'
import { EMPTY_LOG_ROOT } from '../../shared/crypto/log-tree.ts'
import { sealPayloadHash, type Seal } from '../../shared/crypto/seal-payload.ts'
import { newId } from '../../shared/platform/ids.ts'
import { writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { verifyWholeChain } from '../../shared/ledger/chain-check.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { NO_PAYLOAD_HASH, sealFields } from '../../shared/ledger/seal.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { openSealMemory } from '../../shared/ledger/seal-memory.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { signSeals } from '../../shared/ledger/signing.ts'
import { noteOutcome } from '../../shared/ledger/signing-state.ts'
import { QUEUE_NAMES } from '../../shared/platform/queue-table.ts'
import { unixSeconds } from '../../shared/platform/time.ts'
import { keepHeartbeat } from '../../shared/operation/heartbeat.ts'
import { ledgerFindings } from '../../shared/operation/ledger-findings.ts'
import { startPool } from '../../workers/pool.ts'
import {
  openLedger,
  openWorkerContext,
  readLedger,
  takeBackup,
  verifyWholeLedger,
  type SignerContext,
  type TestLedger,
} from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { FULL, sampled } from '../support/full.ts'
import { closeContext } from '../../shared/context.ts'

let ledger: TestLedger
const cleanUp: (() => Promise<unknown> | void)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0)) await step()
  await ledger.stop()
})

const collection = (name: string) => ledger.ctx.database.connection.collection<{ _id: string | number }>(name)
const signedSeqs = async () => (await ledger.ctx.seals.listSigned(1, 1_000, 1_000)).map(({ _id }) => _id)
const memorySeq = () => (JSON.parse(fs.readFileSync(ledger.memoryFile, 'utf8')) as { seq: number }).seq
const ENTRY_AT = 1_700_000_000

const numberAndSeal = async (ctx = ledger.ctx) => {
  await sequencePending(ctx)
  await makeSeal(ctx)
}

/** Three signed seals. */
async function makeChain(): Promise<string[]> {
  const written: string[] = []
  for (let round = 0; round < 3; round++) {
    written.push(...(await ledger.write(2)))
    await ledger.seal()
  }
  return written
}

/** A process of the signing host that starts anew: it has asked nobody yet. */
async function restart(env: Record<string, string> = {}): Promise<SignerContext> {
  const ctx = await openWorkerContext({ ...ledger.env, ...env })
  cleanUp.push(() => closeContext(ctx))
  return ctx
}

/** Answers every GET with the seals that it was last given. */
async function openMirror(): Promise<{ url: string; seals: Seal[]; asked: number; server: Server }> {
  const server = createServer((_, response) => {
    mirror.asked++
    response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify({ ok: true, seals: mirror.seals }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanUp.push(() => new Promise((resolve) => server.close(resolve)))
  const mirror = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seals: [] as Seal[],
    asked: 0,
    server,
  }
  return mirror
}

describe('an adoption', () => {
  // holds: rules.ledger.statements.sealing_prevents_rewriting_not_withholding_profiles
  it('cannot be made by documents and jobs: a history that was rewritten in the database is not signed', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    await makeChain()
    const { entries } = await readLedger(ctx)
    // What the holder of both URLs did: an older history, altered, and the decision to go on from it.
    for (const name of ['seals', 'ledger_status']) await collection(name).deleteMany({})
    await collection('entries').deleteMany({ _id: { $gt: entries.length - 1 } })
    await collection('entries').updateOne({ _id: 1 }, { $set: { 'data.agent_id': 'agt_invented' } })
    await collection('seal_adoptions').insertOne({
      _id: 'an-act',
      seq: 0,
      payload_hash: NO_PAYLOAD_HASH,
      at: ENTRY_AT,
    } as never)
    await ledger.write(1)
    await numberAndSeal()
    await expect(signSeals(ctx)).rejects.toThrow('seal 3 was signed before')
    expect(QUEUE_NAMES).not.toContain('adopt-seal')
    await expect(signSeals(await restart())).rejects.toThrow('seal 3 was signed before')
    expect(await signedSeqs()).toEqual([])
  })

  // holds: rules.ledger.entry_kinds.seal_adoption
  it('is taken once by the signer, from the file beside its memory, and is on record', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(1)
    await ledger.seal()
    const restore = await takeBackup(ctx)
    await makeChain()
    await restore()
    written.push(...(await ledger.write(1)))
    await expect(ledger.seal()).rejects.toThrow('operator seal --adopt SEQ HASH')
    const first = await ctx.seals.lastSigned()
    if (first === undefined) throw new Error('there is no seal')
    const hash = sealPayloadHash(sealFields(first))
    const { file, remembered } = await writeAdoption(ctx, 1, hash)
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
    expect(remembered?.seq).toBe(4)
    await ledger.seal()
    expect(fs.existsSync(file)).toBe(false)
    await ledger.seal()
    const { entries } = await verifyWholeLedger(ctx, written)
    expect(entries.filter(({ kind }) => kind === 'seal_adoption').map(({ data }) => data)).toEqual([
      { seal: 'seal_1', payload_hash: hash },
    ])
  })

  it.runIf(FULL)(
    'is asked for by status with the very command that mends it, while the signer refuses',
    async () => {
      ledger = await openLedger()
      const { ctx } = ledger
      const written = await ledger.write(1)
      await ledger.seal()
      const restore = await takeBackup(ctx)
      await makeChain()
      await restore()
      written.push(...(await ledger.write(1)))
      await numberAndSeal()
      const pool = startPool(ctx, ['sign-seals'])
      cleanUp.push(() => pool.close())
      await ctx.queues.enqueue('sign-seals', {})
      const found = await waitFor(
        'the reason',
        async () => {
          const findings = await ledgerFindings.read(ctx)
          return findings.find(
            (finding) => finding?.kind === 'seals_unsigned' && finding.why?.includes('was signed before'),
          )
        },
        { limitMs: PATIENCE_MS },
      )
      const [, seq = '', hash = ''] =
        /^npm run operator -- seal --adopt (\d+) ([0-9a-f]{64}) {3}# on the signing host, /.exec(
          found.command,
        ) ?? []
      // Its next try would hold the memory while the test signs.
      await pool.close()
      await writeAdoption(ctx, Number(seq), hash)
      await ledger.seal()
      await ledger.seal()
      await verifyWholeLedger(ctx, written)
      expect((await ledgerFindings.read(ctx)).map((finding) => finding?.kind)).not.toContain('seals_unsigned')
    },
  )

  it.runIf(FULL)(
    'is refused and put aside if signing has gone on since it was decided, and signing goes on',
    async () => {
      ledger = await openLedger()
      const { ctx } = ledger
      const written = await ledger.write(1)
      await ledger.seal()
      const first = await ctx.seals.lastSigned()
      if (first === undefined) throw new Error('there is no seal')
      const { file } = await writeAdoption(ctx, 1, sealPayloadHash(sealFields(first)))
      const adoption = fs.readFileSync(file)
      fs.rmSync(file)
      written.push(...(await ledger.write(1)))
      await ledger.seal()
      fs.writeFileSync(file, adoption, { mode: 0o600 })
      written.push(...(await ledger.write(1)))
      await ledger.seal()
      expect(fs.existsSync(file)).toBe(false)
      expect(fs.existsSync(`${file}.refused`)).toBe(true)
      const { entries } = await verifyWholeLedger(ctx, written)
      expect(entries.filter(({ kind }) => kind === 'seal_adoption')).toEqual([])
    },
  )
})

describe('the seal memory', () => {
  it('is made with the key, and a key without one signs nothing, also over an empty database', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    expect(memorySeq()).toBe(0)
    await ledger.write(1)
    await ledger.seal()
    const names = Object.values(ctx.database.connection.models).map(
      ({ collection: { collectionName } }) => collectionName,
    )
    for (const name of names) await collection(name).deleteMany({})
    fs.rmSync(ledger.memoryFile)
    const written = await ledger.write(1)
    await expect(ledger.seal()).rejects.toThrow(`there is no seal memory at ${ledger.memoryFile}`)
    expect(await signedSeqs()).toEqual([])
    // The key is there, so nothing makes another memory.
    ensureSealKey(ledger.keyFile, ledger.memoryFile)
    expect(fs.existsSync(ledger.memoryFile)).toBe(false)
    await writeAdoption(ctx, 0, NO_PAYLOAD_HASH)
    await ledger.seal()
    await ledger.seal()
    await verifyWholeLedger(ctx, written)
  })
})

describe('the numbers of entries', () => {
  it('are not given out again if the ledger ends before its last seal does', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    await ledger.write(3)
    await ledger.seal()
    const { entries, seals } = await readLedger(ctx)
    await collection('entries').deleteMany({ _id: { $gt: 2 } })
    await ledger.write(2)
    await expect(sequencePending(ctx)).rejects.toThrow(
      'The ledger ends at entry 2, and seal 1 covers the entries up to 4',
    )
    const after = await readLedger(ctx)
    expect(after.entries).toEqual(entries.slice(0, 2))
    expect(after.seals).toEqual(seals)
    expect(after.waiting).toHaveLength(2)
  })
})

describe('before it signs, the signer recomputes the closing entry, and refuses', () => {
  const insertPayment = () =>
    collection('entries').insertOne({
      _id: 1,
      source: 'pay_1/payment',
      record: 'pay_1',
      at: ENTRY_AT,
      kind: 'payment',
      data: { payment_id: 'pay_1', order_id: 'ord_1', coin: 'xno', amount_raw: '1000' },
    } as never)
  /** What lies before the first seal: an empty log, and no keys. */
  const nothingBefore = {
    prev_seal: null,
    log: { size: 0, root: EMPTY_LOG_ROOT.toString('hex') },
    keys: { root: EMPTY_KEY_ROOT.toString('hex'), count: 0 },
  }
  const insertClosing = (id: number, data: object, at = ENTRY_AT) =>
    collection('entries').insertOne({
      _id: id,
      source: 'seal_1/solvency',
      record: 'seal_1',
      at,
      kind: 'solvency',
      data,
    } as never)

  it('sums that are not those of the entries', async () => {
    ledger = await openLedger()
    await insertPayment()
    await insertClosing(2, { seal: 'seal_1', owed: { xno: '0', xmr: '0' }, ...nothingBefore })
    await makeSeal(ledger.ctx)
    await expect(signSeals(ledger.ctx)).rejects.toThrow(
      /the entries give .*"owed":\{"xmr":"0","xno":"1000"\},"prev_seal":null,"seal":"seal_1"\}/,
    )
    expect(await signedSeqs()).toEqual([])
    expect(memorySeq()).toBe(0)
  })

  it.each([
    ['another seal before it', { prev_seal: 'ab'.repeat(32) }],
    ['another log', { log: { size: 1, root: 'ab'.repeat(32) } }],
    ['another tree of keys', { keys: { root: 'ab'.repeat(32), count: 1 } }],
    ['no log', { log: undefined }],
    ['a field that it cannot recompute', { more: 1 }],
  ])('%s', async (_, more) => {
    ledger = await openLedger()
    await insertPayment()
    await insertClosing(2, { seal: 'seal_1', owed: { xno: '1000', xmr: '0' }, ...nothingBefore, ...more })
    await makeSeal(ledger.ctx)
    await expect(signSeals(ledger.ctx)).rejects.toThrow('and the entries give')
    expect(await signedSeqs()).toEqual([])
  })

  it.runIf(FULL)('sums that begin at a closing entry other than the one under the seal before', async () => {
    ledger = await openLedger()
    await insertPayment()
    await ledger.seal()
    await collection('entries').updateOne({ _id: 2 }, { $set: { 'data.owed.xno': '0' } })
    await ledger.write(1)
    await numberAndSeal()
    await expect(signSeals(ledger.ctx)).rejects.toThrow('entry 2 does not stand under seal 1')
    expect(await signedSeqs()).toEqual([1])
  })

  // holds: rules.ledger.statements.the_last_entry_of_a_seal
  it('a closing entry that names no seal before it, once one has', async () => {
    ledger = await openLedger()
    await ledger.write(1)
    await ledger.seal()
    const at = unixSeconds(Date.now())
    const data = { seal: 'seal_2', owed: { xno: '0', xmr: '0' } }
    await collection('entries').insertOne({
      _id: 3,
      source: 'seal_2/solvency',
      record: 'seal_2',
      at,
      kind: 'solvency',
      data,
    } as never)
    await makeSeal(ledger.ctx)
    await expect(signSeals(ledger.ctx)).rejects.toThrow('and the entries give')
  })

  it('a date that is more than 5 minutes ahead of the clocks', async () => {
    ledger = await openLedger()
    await insertPayment()
    await insertClosing(
      2,
      { seal: 'seal_1', owed: { xno: '1000', xmr: '0' }, ...nothingBefore },
      unixSeconds(Date.now()) + 310,
    )
    await makeSeal(ledger.ctx)
    await expect(signSeals(ledger.ctx)).rejects.toMatchObject({
      because: 'date_ahead',
      message: expect.stringContaining("is ahead of the database's clock") as string,
    })
    expect(await signedSeqs()).toEqual([])
  })
})

describe('a seal', () => {
  // holds: rules.ledger.entry_kinds.solvency, rules.ledger.statements.the_last_entry_of_a_seal
  it('names the payload of the seal before it in its closing entry, so that its root covers all of history', async () => {
    ledger = await openLedger()
    await makeChain()
    const { entries, seals } = await readLedger(ledger.ctx)
    const named = entries.filter(({ kind }) => kind === 'solvency').map(({ data }) => data['prev_seal'])
    expect(named).toEqual([null, ...seals.slice(0, 2).map(sealPayloadHash)])
  })

  it.runIf(FULL)(
    'is dated by the clock that is behind, so that one clock that is ahead dates no later seal',
    async () => {
      ledger = await openLedger()
      const ahead = { ...ledger.ctx, now: () => Date.now() + 10 * 365 * 86_400_000 }
      const written = await ledger.write(1)
      await sequencePending(ahead)
      await makeSeal(ahead)
      expect(await signSeals(ahead)).toEqual({ signed: 1, because: 'all_signed' })
      const { seals } = await verifyWholeLedger(ledger.ctx, written)
      expect(seals[0]?.at).toBeLessThanOrEqual(unixSeconds(Date.now()))
      expect(seals[0]?.signed_at).toBeLessThanOrEqual(unixSeconds(Date.now()) + 300)
    },
  )

  it('is not signed while the chain does not hold, and is once it holds again', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await makeChain()
    await collection('entries').updateOne({ _id: 2 }, { $set: { kind: 'ban' } })
    expect((await verifyWholeChain(ctx)).intact).toBe(false)
    written.push(...(await ledger.write(1)))
    await numberAndSeal()
    expect(await signSeals(ctx)).toMatchObject({
      signed: 0,
      because: 'chain_does_not_hold',
      sentence: expect.stringContaining('the chain of seals does not hold: ') as string,
    })
    expect(await signedSeqs()).toEqual([1, 2, 3])
    await collection('entries').updateOne({ _id: 2 }, { $set: { kind: 'post' } })
    expect((await verifyWholeChain(ctx)).intact).toBe(true)
    await ledger.seal()
    await verifyWholeLedger(ctx, written)
  })
})

describe('a run of the signer says why it signed nothing', () => {
  it('without a key, while the memory is locked, by a clock that is behind, and if all is signed', async () => {
    ledger = await openLedger({ withKey: false })
    const { ctx } = ledger
    const written = await ledger.write(1)
    await numberAndSeal()
    expect(await signSeals(ctx)).toMatchObject({ signed: 0, because: 'no_key' })
    ensureSealKey(ledger.keyFile, ledger.memoryFile)
    const memory = openSealMemory(ledger.memoryFile)
    expect(await signSeals(ctx)).toMatchObject({ signed: 0, because: 'locked' })
    memory?.close()
    expect(await signSeals({ ...ctx, now: () => Date.now() - 400_000 })).toMatchObject({
      signed: 0,
      because: 'clock_behind',
      sentence: expect.stringContaining("s behind the database's") as string,
    })
    expect(await signedSeqs()).toEqual([])
    expect(memorySeq()).toBe(0)
    expect(await signSeals(ctx)).toEqual({ signed: 1, because: 'all_signed' })
    expect(await signSeals(ctx)).toEqual({ signed: 0, because: 'all_signed' })
    await verifyWholeLedger(ctx, written)
  })
})

describe('while the signer waits', () => {
  it('status says for what, and the log says it once', async () => {
    ledger = await openLedger()
    await ledger.write(1)
    await numberAndSeal()
    const lines: string[] = []
    const log = { warn: (...words: unknown[]) => void lines.push(String(words[1])) }
    const ctx = { ...ledger.ctx, now: () => Date.now() - 400_000 }
    for (let run = 0; run < 2; run++) await noteOutcome(ctx.signing, log, () => signSeals(ctx))
    expect(lines).toEqual([
      expect.stringMatching(/^seals wait for a signature: this machine's clock is [.\d]+ s behind/),
    ])
    cleanUp.push(keepHeartbeat(ctx, 'workers', ['sign-seals']))
    await waitFor('the record', async () => (await ctx.operation.processes.list())[0], {
      limitMs: PATIENCE_MS,
    })
    ledger.advance(200_000)
    const findings = await ledgerFindings.read(ledger.ctx)
    expect(findings.find((finding) => finding?.kind === 'seals_unsigned')?.why).toMatch(
      /^this machine's clock is [.\d]+ s behind the database's. Set it right.$/,
    )
    // A run that throws has nothing to wait for.
    fs.rmSync(ledger.memoryFile)
    await expect(noteOutcome(ctx.signing, log, () => signSeals(ctx))).rejects.toThrow('no seal memory')
    expect(ctx.signing.outcome).toBeUndefined()
  })
})

describe('an entry that says nothing is counted and stops nothing', () => {
  const anomalies = async (kind: string) =>
    Number(
      new RegExp(`ledger_anomalies_total\\{kind="${kind}"\\} (\\d+)`).exec(
        await ledger.ctx.metrics.registry.metrics(),
      )?.[1] ?? 0,
    )
  const base = { record: 'pay_1', at: ENTRY_AT, kind: 'payment' }

  it.each(
    sampled(
      [
        ['without an amount', { ...base, data: { payment_id: 'pay_1', order_id: 'ord_1', coin: 'xno' } }],
        [
          'of an unknown coin',
          { ...base, data: { payment_id: 'pay_1', order_id: 'ord_1', coin: 'doge', amount_raw: '1' } },
        ],
        ['with data that no JSON holds', { ...base, kind: 'post', data: { at: new Date(0) } }],
        ['with a number that no JSON holds', { ...base, kind: 'post', data: { amount: Number.NaN } }],
        ['with data that is no object', { ...base, data: ['x'] }],
        ['with nothing but a number', {}],
        ['whose time is not whole', { ...base, at: 1.5, data: {} }],
      ],
      2,
    ),
  )('an entry %s', async (_, document) => {
    ledger = await openLedger()
    const { ctx } = ledger
    await collection('entries').insertOne({ _id: 1, source: 'pay_1/payment', ...document } as never)
    await ledger.write(1)
    await ledger.seal()
    expect(await signedSeqs()).toEqual([1])
    expect(await anomalies('entry')).toBe(1)
    await ledger.write(1)
    await ledger.seal()
    expect(await signedSeqs()).toEqual([1, 2])
    expect(await verifyWholeChain(ctx)).toMatchObject({ intact: true, seq: 2 })
  })

  it.each(
    sampled([
      ['in another form', { seal: 'seal_1' }],
      ['of another seal', { seal: 'seal_9', owed: { xno: '0', xmr: '0' }, prev_seal: null }],
      ['with sums that cannot be read', { seal: 'seal_1', owed: { xno: 'much', xmr: '0' }, prev_seal: null }],
    ]),
  )('a closing entry %s', async (_, data) => {
    ledger = await openLedger()
    const document = {
      _id: 1,
      source: 'seal_1/solvency',
      record: 'seal_1',
      at: ENTRY_AT,
      kind: 'solvency',
      data,
    }
    await collection('entries').insertOne(document)
    await ledger.write(1)
    await ledger.seal()
    expect(await signedSeqs()).toEqual([1])
    const { sources } = await readLedger(ledger.ctx)
    expect(sources.at(-1)).toBe('seal_1/solvency/2')
    await ledger.write(1)
    await ledger.seal()
    expect(await signedSeqs()).toEqual([1, 2])
  })

  it.each(
    sampled(
      [
        ['no list', { source: 'pst_x/post', at: 1, kind: 'post', data: {} }],
        ['a source without a record', [{ source: 'nothing', at: 1, kind: 'post', data: {} }]],
        ['nothing beside a mark', ['x', null, { source: 'pst_x/y', at: 1, kind: 'unheard-of', data: {} }]],
        [
          'data that no JSON holds',
          [{ source: 'pst_x/post', at: 1, kind: 'post', data: { at: new Date(0) } }],
        ],
        [
          'a closing entry',
          [
            {
              source: 'seal_1/solvency',
              at: 1,
              kind: 'solvency',
              data: { seal: 'seal_1', owed: { xno: '0', xmr: '0' } },
            },
          ],
        ],
        ['the source of a closing entry', [{ source: 'seal_1/solvency', at: 1, kind: 'post', data: {} }]],
        ['an adoption', [{ source: 'seal_0/adoption/x', at: 1, kind: 'seal_adoption', data: {} }]],
        ['an announcement', [{ source: 'ann_x/announcement', at: 1, kind: 'announcement', data: {} }]],
      ],
      2,
    ),
  )('a post whose pending entries are %s', async (_, pending) => {
    ledger = await openLedger()
    await collection('posts').insertOne({
      _id: 'pst_x',
      agent_id: 'agt_x',
      at: 1,
      body: '',
      salt: '',
      pending,
    } as never)
    const written = await ledger.write(2)
    await sequencePending(ledger.ctx, { batchSize: 1 })
    await ledger.seal()
    expect(await anomalies('mark')).toBeGreaterThan(0)
    const sources = (await collection('entries').find().toArray()).map(
      (entry) => (entry as unknown as { source: string }).source,
    )
    expect(sources.sort()).toEqual([...written.map((id) => `${id}/post`), 'seal_1/solvency'].sort())
    expect(await signedSeqs()).toEqual([1])
  })
})

describe('a host that was restored as a whole, memory and database from one copy', () => {
  /** Three seals that a mirror has seen, and the host as it was after the first. */
  async function restoreHost() {
    ledger = await openLedger()
    const { ctx } = ledger
    const mirror = await openMirror()
    const written = await ledger.write(1)
    await ledger.seal()
    const restore = await takeBackup(ctx)
    const memory = fs.readFileSync(ledger.memoryFile)
    await makeChain()
    mirror.seals = (await readLedger(ctx)).seals
    await restore()
    fs.writeFileSync(ledger.memoryFile, memory, { mode: 0o600 })
    written.push(...(await ledger.write(1)))
    await numberAndSeal()
    return { mirror, written }
  }

  it.each(sampled(['SEAL_PEERS', 'BASE_URL']))(
    'signs no second payload for a seq that %s remembers, until the operator adopts',
    async (setting) => {
      const { mirror, written } = await restoreHost()
      const ctx = await restart({ [setting]: mirror.url })
      await expect(signSeals(ctx)).rejects.toThrow(`${mirror.url} has a seal 4 by this key`)
      await expect(signSeals(ctx)).rejects.toThrow(/pause|has a seal 4 by this key/)
      expect(await signedSeqs()).toEqual([1])
      expect(memorySeq()).toBe(1)
      const [first] = mirror.seals
      if (first === undefined) throw new Error('there is no seal')
      await writeAdoption(ctx, 1, sealPayloadHash(first))
      // What was given up is remembered, also after a start.
      for (const again of [
        await restart({ [setting]: mirror.url }),
        await restart({ [setting]: mirror.url }),
      ]) {
        await signSeals(again)
        await numberAndSeal()
      }
      await ledger.seal()
      await verifyWholeLedger(ledger.ctx, written)
    },
  )

  it('signs nothing if a peer has another seal for a seq of the database', async () => {
    const { mirror } = await restoreHost()
    // Signed here while nobody was asked: a fork that the mirror can tell.
    await signSeals(ledger.ctx)
    mirror.seals = mirror.seals.slice(0, 2)
    await ledger.write(1)
    await numberAndSeal()
    await expect(signSeals(await restart({ SEAL_PEERS: mirror.url }))).rejects.toThrow(
      `${mirror.url} has a seal 2 by this key`,
    )
    expect(await signedSeqs()).toEqual([1, 2])
  })

  it.runIf(FULL)(
    'asks once after a start, and takes no notice of seals that this key has not signed',
    async () => {
      const { mirror, written } = await restoreHost()
      mirror.seals = mirror.seals.map((seal) => (seal.seq === 1 ? seal : { ...seal, root: 'ab'.repeat(32) }))
      const ctx = await restart({ SEAL_PEERS: mirror.url })
      expect(await signSeals(ctx)).toEqual({ signed: 1, because: 'all_signed' })
      written.push(...(await ledger.write(1)))
      await numberAndSeal()
      expect(await signSeals(ctx)).toEqual({ signed: 1, because: 'all_signed' })
      expect(mirror.asked).toBe(1)
      await verifyWholeLedger(ctx, written)
    },
  )

  it.runIf(FULL)(
    'waits for a peer of SEAL_PEERS that does not answer, with pauses, and not for its own BASE_URL',
    async () => {
      const { mirror } = await restoreHost()
      const { seals } = mirror
      const own = await restart({ BASE_URL: 'http://127.0.0.1:9' })
      const named = await restart({ SEAL_PEERS: `${mirror.url}/,http://127.0.0.1:9` })
      mirror.seals = seals.slice(0, 1)
      await expect(signSeals(named)).rejects.toThrow('http://127.0.0.1:9 of SEAL_PEERS does not answer')
      // During the pause nobody is asked, and nothing is signed.
      expect(await signSeals(named)).toMatchObject({ signed: 0, because: 'waits_for_outsider' })
      expect(mirror.asked).toBe(1)
      expect(
        await waitFor(
          'the next try',
          () =>
            signSeals(named)
              .then(() => undefined)
              .catch(String),
          { limitMs: PATIENCE_MS },
        ),
      ).toContain('does not answer')
      expect(await signedSeqs()).toEqual([1])
      expect(await signSeals(own)).toEqual({ signed: 1, because: 'all_signed' })
    },
  )
})

describe('an announcement', () => {
  const stored = (id: string) => ledger.ctx.announcements.find(id)
  const insert = (fields: object) => collection('announcements').insertOne(fields as never)
  const salt = 'ab'.repeat(32)

  it('is signed once its numbered entry commits to it', async () => {
    ledger = await openLedger()
    const { _id: id } = await announce(ledger.ctx, { kind: 'news', text: 'said' })
    await expect(signAnnouncement(ledger.ctx, id)).rejects.toThrow('has no number')
    await sequencePending(ledger.ctx)
    expect(await signAnnouncement(ledger.ctx, id)).toBe(true)
    expect((await stored(id))?.signature).toBeDefined()
  })

  it('that was written into the database is not signed: nothing on record commits to it', async () => {
    ledger = await openLedger()
    const id = newId('announcement')
    await insert({ _id: id, at: unixSeconds(Date.now()), kind: 'news', text: 'invented', salt })
    await expect(signAnnouncement(ledger.ctx, id)).rejects.toThrow('has no number')
    const data = {
      announcement_id: id,
      content_hash: commit(Buffer.from(salt, 'hex'), { kind: 'news', text: 'something else' }),
    }
    const entry = {
      source: `${id}/announcement`,
      record: id,
      at: unixSeconds(Date.now()),
      kind: 'announcement',
      data,
    }
    await collection('entries').insertOne({ _id: 1, ...entry })
    expect(await signAnnouncement(ledger.ctx, id)).toBe(false)
    expect((await stored(id))?.signature).toBeUndefined()
  })

  it.each([
    ['long ago', 1],
    ['ahead', 4_000_000_000],
  ])('that is dated %s is not signed', async (_, at) => {
    ledger = await openLedger()
    const { _id: id } = await announce(
      { ...ledger.ctx, now: () => at * 1_000 },
      { kind: 'news', text: 'said' },
    )
    await sequencePending(ledger.ctx)
    expect(await signAnnouncement(ledger.ctx, id)).toBe(false)
  })

  it('is signed for one text, whatever stands in the database later', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const { _id: id } = await announce(ctx, { kind: 'news', text: 'said' })
    await sequencePending(ctx)
    expect(await signAnnouncement(ctx, id)).toBe(true)
    const { signature } = (await stored(id)) ?? {}
    const forget = { $unset: { signature: 1, pubkey: 1 } }
    await collection('announcements').updateOne({ _id: id }, forget as never)
    expect(await signAnnouncement(ctx, id)).toBe(true)
    expect((await stored(id))?.signature).toBe(signature)
    // Another text, with an entry that commits to it.
    await collection('announcements').updateOne({ _id: id }, {
      ...forget,
      $set: { text: 'another', salt },
    } as never)
    const { entries } = await readLedger(ctx)
    const content_hash = commit(Buffer.from(salt, 'hex'), { id, kind: 'news', text: 'another' })
    await collection('entries').updateOne(
      { _id: entries[0]?.id ?? 0 },
      { $set: { 'data.content_hash': content_hash } },
    )
    expect(await signAnnouncement(await restart(), id)).toBe(false)
    expect((await stored(id))?.signature).toBeUndefined()
  })
})
