import fs from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { fillLedger } from '../harness/bench/hostile.ts'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { newId } from '../../shared/platform/ids.ts'
import { verifyNewSeals, findTailFault, verifyWholeChain } from '../../shared/ledger/chain-check.ts'
import { makeSeal } from '../../shared/ledger/sealer.ts'
import { sealFields } from '../../shared/ledger/seal.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { numberEntry } from '../../shared/ledger/entry.ts'
import { memoryText, openSealMemory, readMemory } from '../../shared/ledger/seal-memory.ts'
import { sequencePending } from '../../shared/ledger/sequencer.ts'
import { readSigningPosition, signSeals } from '../../shared/ledger/signing.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { HANDLERS } from '../../workers/handlers.ts'
import {
  openLedger,
  takeBackup,
  verifyLedger,
  verifyWholeLedger,
  type SignerContext,
  type TestLedger,
} from '../support/ledger.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { FULL, sampled } from '../support/full.ts'

let ledger: TestLedger
afterEach(() => ledger.stop())

const numberAndSeal = async () => {
  await sequencePending(ledger.ctx)
  await makeSeal(ledger.ctx)
}

/** Changes one stored document past the service. */
const tamper = (collection: string, filter: object, update: object) =>
  ledger.ctx.database.connection.collection(collection).updateOne(filter, update)

/**
 * The same context, in which the call number `place` and later ones of one write to the seals break, before
 * or after they were carried out.
 */
function failing(
  ctx: SignerContext,
  write: 'storeSignature' | 'insertAdoption',
  when: 'before' | 'after',
  place: number,
): SignerContext {
  let calls = 0
  const carryOut = ctx.seals[write] as (...args: unknown[]) => Promise<unknown>
  const broken = async (...args: unknown[]): Promise<unknown> => {
    if (calls++ < place) return carryOut(...args)
    if (when === 'after') await carryOut(...args)
    throw new Error('the connection broke')
  }
  return { ...ctx, seals: { ...ctx.seals, [write]: broken } }
}

describe('the sealer', () => {
  it.runIf(FULL)('stops within seconds where another seal ends at its last entry', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    await ledger.write(3)
    await ledger.seal()
    await ledger.write(2)
    await sequencePending(ctx)
    // The entry that closes the next seal.
    const to_id = (await ctx.entries.highestId()) + 1
    const { _id, ...first } = (await ctx.seals.find(1)) ?? {}
    expect(_id).toBe(1)
    await ctx.database.connection
      .collection<{ _id: number }>('seals')
      .insertOne({ ...first, _id: 0, to_id } as never)
    await expect(makeSeal(ctx)).rejects.toThrow(`another seal ends at entry ${to_id}`)
  })

  // holds: rules.ledger.entry_kinds.solvency, rules.ledger.statements.the_last_entry_of_a_seal
  it('seals all entries, ends each seal with what is owed, and makes none without a new entry', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(3)
    await ledger.seal()
    await verifyWholeLedger(ctx, written)
    written.push(...(await ledger.write(600)))
    await ledger.seal()
    await ledger.seal()
    const { seals, entries } = await verifyWholeLedger(ctx, written)
    expect(seals.map(({ seq, from_id, to_id, count }) => [seq, from_id, to_id, count])).toEqual([
      [1, 1, 4, 4],
      [2, 5, 605, 601],
    ])
    expect(entries[604]).toMatchObject({
      kind: 'solvency',
      at: seals[1]?.at,
      data: { seal: 'seal_2', owed: { xno: '0', xmr: '0' } },
    })
    expect(await ctx.seals.readStatus()).toMatchObject({ seq: 2, open: [], intact: true })
  })

  it.runIf(FULL)('seals the ledger that a benchmark fills beside what is already numbered', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    await ledger.write(1)
    await sequencePending(ctx)
    await fillLedger(ctx, { id: newId('agent') }, 4_000)
    await ledger.seal()
    expect(await ctx.seals.last()).toMatchObject({ from_id: 1, to_id: 4_002 })
  })

  it('writes each thing after what it vouches for: marks, seals and signatures come last', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    await ledger.write(3)
    const steps: string[] = []
    const watch = (write: string, phase: string) => void steps.push(`${phase} ${write}`)
    await sequencePending(ctx, { watch })
    await makeSeal(ctx, { watch })
    await signSeals(ctx, { watch })
    for (const [first, then] of [
      ['entries', 'marks'],
      ['closing', 'seal'],
      ['log-tiles', 'seal'],
      ['read-again', 'memory-file'],
      ['memory', 'sign'],
      ['verify', 'signature'],
    ]) {
      const [end, begin] = [steps.lastIndexOf(`after ${first}`), steps.indexOf(`before ${then}`)]
      expect([first, then, end >= 0 && end < begin]).toEqual([first, then, true])
    }
  })

  it('goes on where a tile of the log holds something else, however wide it is', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(3)
    await ledger.seal()
    for (const width of [1, 4, 200]) {
      await ctx.entries.tiles.models.tiles.updateOne(
        { _id: '0/0' },
        { $set: { width, hashes: Buffer.alloc(32 * width, 7) } },
      )
      written.push(...(await ledger.write(1)))
      await ledger.seal()
      expect(await ctx.seals.listUnsigned(1), String(width)).toEqual([])
    }
    await verifyWholeLedger(ctx, written)
  })

  it('signs no keys after a takeover that the signed entries do not give', async () => {
    ledger = await openLedger()
    const { ctx, memoryFile } = ledger
    await ctx.entries.append([
      numberEntry(
        {
          source: 'agt_1/dm-key/1',
          at: 1_700_000_000,
          kind: 'dm_key_change',
          data: { agent_id: 'agt_1', dm_key: '1'.repeat(64) },
        },
        1,
      ),
    ])
    await ledger.seal()
    // As a standby has it, which has read the seals alone.
    const { keys, ...rest } = readMemory(memoryFile) ?? {}
    expect(keys?.count).toBe(1)
    fs.writeFileSync(memoryFile, memoryText(rest as Parameters<typeof memoryText>[0]))
    await tamper('entries', { _id: 1 }, { $set: { 'data.dm_key': '2'.repeat(64) } })
    await ledger.write(1)
    await expect(ledger.seal()).rejects.toThrow('the chain does not hold')
    expect(await ctx.seals.listUnsigned(2)).toEqual([2])
  })

  it('never lets the time of a seal go back', async () => {
    ledger = await openLedger()
    const written = await ledger.write(1)
    await ledger.seal()
    ledger.advance(-86_400_000)
    written.push(...(await ledger.write(1)))
    await ledger.seal()
    const { seals } = await verifyWholeLedger(ledger.ctx, written)
    expect(seals[1]?.at).toBe(seals[0]?.at)
    expect(seals[1]?.signed_at).toBe(seals[0]?.at)
  })

  it('makes unsigned seals without a key, and signs them in order once there is one', async () => {
    ledger = await openLedger({ withKey: false })
    const { ctx } = ledger
    const written: string[] = []
    for (let round = 0; round < 3; round++) {
      written.push(...(await ledger.write(2)))
      await ledger.seal()
      const { seals } = await verifyLedger(ctx, written)
      expect(seals.map(({ signed }) => signed)).toEqual(seals.map(() => false))
    }
    expect(await ctx.seals.readStatus()).toMatchObject({ seq: 3, open: [1, 2, 3], intact: true })
    ensureSealKey(ledger.keyFile)
    ledger.advance(60_000)
    const order: number[] = []
    await signSeals(ctx, {
      watch: async (write, phase) => {
        if (write === 'signature' && phase === 'after') order.push((await ctx.seals.lastSigned())?._id ?? 0)
      },
    })
    expect(order).toEqual([1, 2, 3])
    const { seals } = await verifyWholeLedger(ctx, written)
    for (const { at, signed_at } of seals) expect(signed_at).toBeGreaterThanOrEqual(at + 59)
    expect(await ctx.seals.readStatus()).toMatchObject({ seq: 3, open: [], intact: true })
  })

  it.runIf(FULL)('makes one chain with four of them at work, the clock of one set back', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written: string[] = []
    let writing = true
    const sealers = Array.from({ length: 4 }, async (_, index) => {
      const own = index === 0 ? { ...ctx, now: () => Date.now() - 3_600_000 } : ctx
      do {
        await sequencePending(own, { useLease: false, batchSize: 20 })
        await makeSeal(own, { useLease: false })
        await signSeals(own)
      } while (writing)
    })
    const writers = Array.from({ length: 32 }, async () => {
      for (let round = 0; round < 5; round++) {
        written.push(...(await ledger.write(2)))
        await waitFor(
          'the next seal',
          async () => (((await ctx.seals.last())?._id ?? 0) > round ? true : undefined),
          { limitMs: PATIENCE_MS },
        )
      }
    })
    await Promise.all(writers)
    writing = false
    await Promise.all(sealers)
    await verifyLedger(ctx, written)
    await ledger.seal()
    const { seals } = await verifyWholeLedger(ctx, written)
    expect(seals.length).toBeGreaterThanOrEqual(5)
    expect(await verifyNewSeals(ctx)).toMatchObject({ seq: seals.length, open: [], intact: true })
  })

  it.runIf(FULL)('looks at one moment, whatever is sealed and signed meanwhile', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    let isDone = false
    let looks = 0
    const looking = (async () => {
      while (!isDone) {
        const { last, firstUnsigned, next } = await readSigningPosition(ctx)
        // Of two moments, the second could have a seal without a signature that the first did not yet have
        // before it.
        expect(firstUnsigned).toBe(next?._id)
        expect(next?._id ?? (last?._id ?? 0) + 1).toBe((last?._id ?? 0) + 1)
        looks++
      }
    })()
    for (let round = 0; round < 20; round++) {
      await ledger.write(1)
      await ledger.seal()
    }
    isDone = true
    await looking
    expect(looks).toBeGreaterThan(20)
    expect((await ctx.seals.lastSigned())?._id).toBe(20)
  })

  it.runIf(FULL)(
    'takes nothing for gone because a later read knew less: all that it reads of the chain is in one session',
    async () => {
      ledger = await openLedger()
      const { ctx } = ledger
      await ledger.write(3)
      await ledger.seal()
      await ledger.write(3)
      await ledger.seal()
      const { seals, entries } = ctx
      const reads = [
        ...[vi.spyOn(seals, 'readStatus'), vi.spyOn(seals, 'find'), vi.spyOn(seals, 'listAfter')],
        ...[vi.spyOn(seals, 'listSigned'), vi.spyOn(entries, 'pages')],
      ]
      const sessionsOf = (): Set<unknown> => {
        const given = new Set(reads.flatMap(({ mock }) => mock.calls.map((args: unknown[]) => args.at(-1))))
        for (const read of reads) read.mockClear()
        return given
      }
      await verifyNewSeals(ctx)
      const [extending, ...others] = sessionsOf()
      expect(others).toEqual([])
      expect(extending).toMatchObject({ supports: { causalConsistency: true } })
      await ctx.seals.models.status.updateOne({}, { $set: { seq: 1, open: [1] } })
      sessionsOf()
      await verifyNewSeals(ctx)
      expect(sessionsOf().size).toBe(1)
      expect(await findTailFault(ctx, 1, 10)).toBeUndefined()
      expect(sessionsOf().size).toBe(1)
      // The walk begins without the status, and stores what it found beside it.
      await verifyWholeChain(ctx)
      expect(
        reads[1]?.mock.calls
          .concat(reads[2]?.mock.calls ?? [])
          .every((args: unknown[]) => args.at(-1) instanceof Object),
      ).toBe(true)
      vi.restoreAllMocks()
    },
  )

  it.runIf(FULL)(
    'seals what is written by now when it is asked to, also while another is numbering',
    async () => {
      ledger = await openLedger()
      const { ctx } = ledger
      const other = await ctx.leases.take('sequencer')
      const written = await ledger.write(2)
      const sealing = HANDLERS['make-seal'](ctx, {})
      setTimeout(() => void other?.release(), 200)
      await sealing
      await signSeals(ctx)
      await verifyWholeLedger(ctx, written)
    },
  )

  it('refuses a key that others may read', async () => {
    ledger = await openLedger()
    fs.chmodSync(ledger.keyFile, 0o640)
    await ledger.write(1)
    await expect(ledger.seal()).rejects.toThrow(
      /can be read or written by others than its owner \(mode 640\)/,
    )
    expect((await verifyLedger(ledger.ctx)).seals.map(({ signed }) => signed)).toEqual([false])
  })

  it('leaves signing to the process that holds the seal memory', async () => {
    ledger = await openLedger()
    await ledger.write(1)
    const memory = openSealMemory(ledger.memoryFile)
    await ledger.seal()
    expect((await verifyLedger(ledger.ctx)).seals.map(({ signed }) => signed)).toEqual([false])
    memory?.close()
    expect(await signSeals(ledger.ctx)).toEqual({ signed: 1, because: 'all_signed' })
  })
})

describe('before it signs, the sealer', () => {
  /** A seal of 601 entries, not signed: 3 tiles of leaves in the log, and one above them. */
  const makeUnsigned = async () => {
    ledger = await openLedger()
    await ledger.write(600)
    await numberAndSeal()
  }
  const flip = async (level: number, index: number, byte: number) => {
    const [hashes] = await ledger.ctx.entries.tiles.find([{ level, index }])
    if (hashes === undefined) throw new Error('there is no such tile')
    hashes[byte] = (hashes[byte] ?? 0) ^ 1
    await tamper('log_tiles', { _id: `${level}/${index}` as never }, { $set: { hashes } })
  }

  it.each(
    sampled(
      [
        [
          'an entry',
          () => tamper('entries', { _id: 77 as never }, [{ $set: { at: { $add: ['$at', 1] } } }]),
          'entry 77 is not what it was when the seal was made',
        ],
        ['a leaf', () => flip(0, 1, 32 * 10 + 3), 'the stored leaf of entry 267 is not that of the entry'],
        [
          'a level',
          () => flip(1, 0, 32),
          "hash 1 of level 8 of the log's stored tiles is not that of the entries",
        ],
        [
          'the root',
          () => tamper('seals', { _id: 1 as never }, { $set: { root: 'ab'.repeat(32) } }),
          'is not that of its entries',
        ],
        [
          'the count',
          () => tamper('seals', { _id: 1 as never }, { $set: { count: 600 } }),
          'count is 600 for the entries 1 to 601',
        ],
        [
          'the time',
          () => tamper('seals', { _id: 1 as never }, [{ $set: { at: { $add: ['$at', 1] } } }]),
          'entry 601 is its last and does not close it',
        ],
        [
          'the number of an entry',
          () => ledger.ctx.database.connection.collection('entries').deleteOne({ _id: 300 as never }),
          'entry 300 is missing from the ledger',
        ],
      ],
      3,
    ),
  )('notices that %s was changed, refuses and says which', async (_, change, sentence) => {
    await makeUnsigned()
    await change()
    await expect(signSeals(ledger.ctx)).rejects.toThrow(sentence)
    expect(await ledger.ctx.seals.listUnsigned(10)).toEqual([1])
    expect(JSON.parse(fs.readFileSync(ledger.memoryFile, 'utf8'))).toMatchObject({ seq: 0 })
  })

  it('signs the same seal where nothing was changed', async () => {
    await makeUnsigned()
    expect(await signSeals(ledger.ctx)).toEqual({ signed: 1, because: 'all_signed' })
    await verifyLedger(ledger.ctx)
  })
})

describe('the seal memory', () => {
  /**
   * A database with one seal over `count` written entries, restored after two more were signed and
   * remembered.
   */
  async function goBackTwoSeals(count: number): Promise<{ ctx: TestLedger['ctx']; written: string[] }> {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(count)
    await ledger.seal()
    const restore = await takeBackup(ctx)
    for (let round = 0; round < 2; round++) {
      await ledger.write(1)
      await ledger.seal()
    }
    await restore()
    return { ctx, written }
  }

  it('stops the sealer where an older database was restored, until the operator adopts it', async () => {
    const { ctx, written: before } = await goBackTwoSeals(2)
    const after = await ledger.write(3)
    await expect(ledger.seal()).rejects.toThrow(
      'Seal 2 is not signed: seal 3 was signed before, and the database ends at signed seal 1: it looks like an older one that was restored',
    )
    await expect(ledger.seal()).rejects.toThrow('operator seal --adopt SEQ HASH')
    const { seals } = await verifyLedger(ctx, [...before, ...after])
    expect(seals.map(({ signed }) => signed)).toEqual([true, false])
    const [first] = seals
    if (first === undefined) throw new Error('there is no seal')

    await expect(writeAdoption(ctx, 1, 'ab'.repeat(32))).rejects.toThrow(
      `the last signed seal of the database is 1, with the payload hash ${sealPayloadHash(first)}`,
    )
    await expect(writeAdoption(ctx, 3, sealPayloadHash(first))).rejects.toThrow(
      'Seal 3 with the payload hash',
    )
    await writeAdoption(ctx, 1, sealPayloadHash(first))
    await ledger.seal()
    await ledger.seal()
    const { entries } = await verifyWholeLedger(ctx, [...before, ...after])
    expect(entries.filter(({ kind }) => kind === 'seal_adoption').map(({ data }) => data)).toEqual([
      { seal: 'seal_1', payload_hash: sealPayloadHash(first) },
    ])
  })

  it.each(sampled(['insertAdoption', 'storeSignature']))(
    'takes over a seal once if "%s" breaks off after it was stored',
    async (write) => {
      const { ctx, written } = await goBackTwoSeals(1)
      written.push(...(await ledger.write(1)))
      await numberAndSeal()
      const first = await ctx.seals.find(1)
      if (first === undefined) throw new Error('there is no seal')
      const adopted = sealPayloadHash(sealFields(first))
      await writeAdoption(ctx, 1, adopted)
      await expect(signSeals(failing(ctx, write, 'after', 0))).rejects.toThrow('the connection broke')
      for (let round = 0; round < 3; round++) await ledger.seal()
      const { entries } = await verifyWholeLedger(ctx, written)
      expect(entries.filter(({ kind }) => kind === 'seal_adoption').map(({ data }) => data)).toEqual([
        { seal: 'seal_1', payload_hash: adopted },
      ])
    },
  )

  it.runIf(FULL)(
    'lets the sealer go on by itself where the restored database lacks only the last signature',
    async () => {
      ledger = await openLedger()
      const written = await ledger.write(1)
      await numberAndSeal()
      const restore = await takeBackup(ledger.ctx)
      await signSeals(ledger.ctx)
      const { seals } = await verifyWholeLedger(ledger.ctx, written)
      await restore()
      await signSeals(ledger.ctx)
      const again = await verifyWholeLedger(ledger.ctx, written)
      expect(again.seals[0]?.signature).toBe(seals[0]?.signature)
    },
  )

  it('stops the sealer where it is gone or belongs to another key, and seals were signed', async () => {
    ledger = await openLedger()
    const { ctx } = ledger
    const written = await ledger.write(1)
    await ledger.seal()
    written.push(...(await ledger.write(1)))
    const remembered = fs.readFileSync(ledger.memoryFile)
    fs.rmSync(ledger.memoryFile)
    await expect(ledger.seal()).rejects.toThrow('there is no seal memory')
    fs.writeFileSync(ledger.memoryFile, '{"seq":1')
    await expect(ledger.seal()).rejects.toThrow('does not hold what was written there')
    fs.writeFileSync(ledger.memoryFile, remembered)
    const key = fs.readFileSync(ledger.keyFile)
    fs.rmSync(ledger.keyFile)
    ensureSealKey(ledger.keyFile)
    await expect(ledger.seal()).rejects.toThrow('the seal memory belongs to the key')
    fs.writeFileSync(ledger.keyFile, key, { mode: 0o600 })
    expect(await signSeals(ctx)).toEqual({ signed: 1, because: 'all_signed' })
    await verifyWholeLedger(ctx, written)
  })
})

describe('the chain of seals', () => {
  const makeChain = async () => {
    ledger = await openLedger()
    for (let round = 0; round < 3; round++) {
      await ledger.write(2)
      await ledger.seal()
    }
  }

  it.each(
    sampled([
      [
        'an entry',
        'entries',
        2,
        { $set: { kind: 'ban' } },
        { $set: { kind: 'post' } },
        /seal 1: the root of its stored entries is [0-9a-f]{64}, not/,
      ],
      [
        'a signature',
        'seals',
        2,
        { $set: { signature: `${'A'.repeat(86)}==` } },
        undefined,
        /seal 2: the signature is not that of/,
      ],
      [
        'a link',
        'seals',
        3,
        { $set: { prev_root: 'cd'.repeat(32) } },
        undefined,
        /seal 3: prev_root is (cd){32}/,
      ],
    ]),
  )(
    'is not intact once %s was changed, and is again once it is as it was',
    async (_, collection, id, change, undo, sentence) => {
      await makeChain()
      const { ctx } = ledger
      expect(await verifyWholeChain(ctx)).toMatchObject({ seq: 3, intact: true })
      const before = await ctx.database.connection
        .collection<{ _id: number }>(collection)
        .findOne({ _id: id })
      await tamper(collection, { _id: id as never }, change)
      const walked = await verifyWholeChain(ctx)
      expect(walked.intact).toBe(false)
      expect(walked.fault).toMatch(sentence)
      if (undo === undefined)
        await ctx.database.connection
          .collection<{ _id: number }>(collection)
          .replaceOne({ _id: id }, before as object)
      else await tamper(collection, { _id: id as never }, undo)
      // What once did not hold is not forgotten because the chain grows: only a walk over all of it says
      // otherwise.
      await ledger.write(1)
      await ledger.seal()
      expect(await ctx.seals.readStatus()).toMatchObject({ intact: false, fault: walked.fault })
      const again = await verifyWholeChain(ctx)
      expect(again).toMatchObject({ intact: true })
      expect(again.fault).toBeUndefined()
    },
  )
})
